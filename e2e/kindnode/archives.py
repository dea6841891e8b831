"""The images that a node brings along, made by hand from the programs that the suites build: no registry, no pull."""

import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.harness import build
from e2e.harness.docker.engine import Engine
from e2e.harness.errors import HarnessError
from e2e.harness.node import images

POD_NETWORK = "resource-slack.test/pod-network:1"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_PATH = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PAUSES = ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.10.2", images.PAUSE)
"""What containerd runs for each pod, what the operator's placeholders run, and what the suites' pods name."""
# As process 1 it gets no signal that it does not trap.
_PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done")
# kube-proxy calls these and they load their extensions by name, so that no list of libraries has them.
_FILTER = (
    "set -e; cd /; for program in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore"
    " nft; do echo usr/sbin/$program; ldd /usr/sbin/$program; done > /tmp/found;"
    # an extension may need more than the programs do: the one that divides among endpoints needs libm
    " ldd /usr/lib/*/xtables/*.so >> /tmp/found; cat /tmp/found"
    " | awk '{for (i = 1; i <= NF; i++) if ($i ~ \"/\") print $i}'"
    " | grep -v ':$' | sort -u > /tmp/files; ls -d usr/lib/*/xtables >> /tmp/files; tar -chf - -T /tmp/files"
)


def write(folder: Path, docker: Engine, node_base: str, programs: Mapping[str, Path], required: Sequence[str]) -> None:
    """Write an archive for each image that a cluster needs.

    Args:
        folder: where to.
        docker: what runs `node_base`, whose iptables kube-proxy's image takes.
        node_base: the image of a node without its programs.
        programs: the built programs by name.
        required: the images that kubeadm asks for.
    """
    for number, name in enumerate(required):
        program = name.rpartition("/")[2].partition(":")[0]
        path = folder / f"{number}-{program}.tar"
        if program == "pause":
            continue
        if program == "kube-proxy":
            files = _filter(folder / "filter", docker, node_base)
            files |= {"usr/local/bin/kube-proxy": programs["kube-proxy"]}
            images.archive(path, name, [], files=files, Env=[_PATH])
        elif program == "coredns":
            images.archive(path, name, [], files={"coredns": programs["coredns"]}, Entrypoint=["/coredns"])
        else:
            images.archive(path, name, [], files={f"usr/local/bin/{program}": programs[program]}, Env=[_PATH])
    for name in _PAUSES:
        images.archive(folder / f"pause-{name.rpartition(':')[2]}.tar", name, list(_PAUSE), User="65535:65535")
    network = {"bin/kubectl": programs["kubectl"], "bin/pod-network": Path(__file__).with_name("pod-network.sh")}
    images.archive(folder / "pod-network.tar", POD_NETWORK, ["/bin/pod-network"], files=network)
    images.archive(folder / "burner.tar", images.BURNER, ["/bin/sh"])


def required(kubeadm: Path) -> list[str]:
    """Return the images that this kubeadm's clusters run."""
    command = [str(kubeadm), "config", "images", "list", f"--kubernetes-version={build.KUBERNETES_VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.split()


def _filter(folder: Path, docker: Engine, node_base: str) -> dict[str, Path]:
    packed = folder.with_suffix(".tar")
    container = docker.run("create", "--entrypoint=/bin/sh", node_base, "-c", f"({_FILTER}) > /filter.tar").strip()
    try:
        docker.run("start", "--attach", container)
        docker.run("cp", f"{container}:/filter.tar", str(packed))
    finally:
        docker.run("rm", "--force", container)
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="tar")
    packed.unlink()
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
