"""Builds the node image: Debian, the files of kind's own node image, our programs, and the images they run."""

import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.harness import build
from e2e.harness.docker.engine import Engine
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.node import images
from e2e.kindnode import archives, debian

TOOLS = (
    "kind",
    "kubeadm",
    "kubelet",
    "kubectl",
    "crictl",
    "etcd",
    "coredns",
    *archives.PROGRAMS,
)
_ON_THE_NODE = ("kubeadm", "kubelet", "kubectl", "crictl")
_HERE = Path(__file__).parent
_EXECUTABLE = ("usr/local/bin", "kind/bin")


def name() -> str:
    """Return the image's name; its tag says all that decides what is in it."""
    digest = hashlib.sha256()
    for path in _recipe():
        digest.update(path.read_bytes())
    for tool in TOOLS:
        digest.update(build.TOOLS[tool].cache_folder().name.encode())
    return f"resource-slack.test/kind-node:{build.KUBERNETES_VERSION}-{digest.hexdigest()[:12]}"


def ensure(docker: Engine) -> str:
    """Build the image if it is not there; returns its name.

    Raises:
        UnavailableError: something that the build takes is missing here; the text names it.
    """
    wanted = name()
    if docker.has_image(wanted):
        return wanted
    debian.require()
    if not images.BUSYBOX.exists() or b"/ld-" in images.BUSYBOX.read_bytes()[:4096]:
        raise UnavailableError(f"the node's images take a static {images.BUSYBOX} (Debian: busybox-static)")
    programs = build.ensure(TOOLS)
    began = time.monotonic()
    base = debian.base(docker)
    with tempfile.TemporaryDirectory(prefix="kind-node-") as scratch:
        node_base = _node_base(docker, base, Path(scratch, "context"))
        debian.say(f"the node without its programs: {time.monotonic() - began:.0f} s")
        packed = Path(scratch, "archives")
        packed.mkdir()
        archives.write(packed, docker, node_base, programs, archives.required(programs["kubeadm"]))
        debian.say(f"the images that it runs: {time.monotonic() - began:.0f} s")
        _fill(docker, node_base, wanted, programs, packed)
    for old in _older(docker, wanted):
        docker.run("image", "rm", old)
    debian.say(f"{wanted}: {time.monotonic() - began:.0f} s")
    return wanted


def _recipe() -> list[Path]:
    return sorted(path for path in _HERE.iterdir() if path.is_file() and not path.name.startswith("bounded_runc"))


def _node_base(docker: Engine, base: str, context: Path) -> str:
    root = context / "root"
    shutil.copytree(kind_module() / "images" / "base" / "files", root)
    for path in root.rglob("*"):  # Go's module cache is read-only, and has no executable files
        inside = str(path.relative_to(root))
        path.chmod(0o755 if path.is_dir() or inside.startswith(_EXECUTABLE) else 0o644)
    (root / "kind" / "version").write_text(build.KUBERNETES_VERSION, encoding="utf-8")
    _put(root / "kind/manifests/default-cni.yaml", _HERE / "pod-network.yaml")
    _put(root / "etc/kubernetes/kubelet.conf.d/10-machine.conf", _HERE / "kubelet.yaml")
    flags = root / "etc/default/kubelet"
    flags.write_text(f"{flags.read_text().strip()} --config-dir=/etc/kubernetes/kubelet.conf.d\n", encoding="utf-8")
    configuration = root / "etc/containerd/config.toml"
    text = configuration.read_text(encoding="utf-8")
    # A lower OOM score takes a capability that a node's container may lack.
    loose, strict = "restrict_oom_score_adj = false", "restrict_oom_score_adj = true"
    if loose not in text:
        raise HarnessError(f"kind's {configuration.name} has no {loose!r} any more")
    configuration.write_text(text.replace(loose, strict), encoding="utf-8")
    shutil.copy(_HERE / "node.Dockerfile", context / "Dockerfile")
    tag = f"resource-slack.test/kind-node-base:{hashlib.sha256(base.encode()).hexdigest()[:12]}"
    docker.run("build", f"--build-arg=BASE={base}", f"--tag={tag}", str(context), seconds=1200)
    return tag


def _fill(docker: Engine, node_base: str, wanted: str, programs: dict[str, Path], packed: Path) -> None:
    """Bring in programs and images, as kind's own build does: in a container that becomes the image."""
    mount = f"--volume={packed}:/archives:ro"
    # No seccomp: containerd, which imports the images, uses calls that Docker's profile keeps from a container.
    options = ["--detach", "--entrypoint=sleep", "--security-opt=seccomp=unconfined", mount]
    container = docker.run("run", *options, node_base, "infinity").strip()
    try:
        for tool in _ON_THE_NODE:
            docker.run("cp", str(programs[tool]), f"{container}:/usr/bin/{tool}", seconds=120)
        docker.run("exec", container, "sh", "-c", _IMPORT, seconds=600)
        change = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
        docker.run("commit", f"--change={change}", container, wanted, seconds=600)
    finally:
        docker.run("rm", "--force", "--volumes", container)


_IMPORT = """
set -e
containerd > /tmp/containerd.log 2>&1 &
daemon=$!
for again in $(seq 50); do
  ctr version > /dev/null 2>&1 && break
  sleep 0.2
done
for archive in /archives/*.tar; do
  ctr --namespace=k8s.io images import --no-unpack "$archive"
done
kill $daemon
wait $daemon || true
rm -f /tmp/containerd.log
"""


def _older(docker: Engine, wanted: str) -> Iterator[str]:
    """Other versions of the image, which no cluster of the harness will ask for."""
    if not docker.own:
        return
    repository = wanted.partition(":")[0]
    for found in docker.run("image", "ls", "--format={{.Repository}}:{{.Tag}}", repository).split():
        if found != wanted:
            yield found


def kind_module() -> Path:
    """Return where Go keeps the source of kind, at the version of our tool."""
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("the node image has files of kind's module, and there is no `go` on the PATH to have it")
    folder = build.MODULES / "kind"
    command = [go, "mod", "download", "sigs.k8s.io/kind"]
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=300)
    command = [go, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind"]
    found = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=300)
    where = found.stdout.strip()
    if not where or not Path(where).is_dir():
        raise HarnessError(f"kind's module cannot be had: {found.stderr.strip()}")
    return Path(where)


def _put(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o644)
