"""Builds the control plane's programs through the Go module proxy: `python -m e2e.harness.build [NAME ...]`.

`kind-node` is no program but the node image of the suites on kind (`e2e.kindnode`), built only when it is named.

The programs are `tool` dependencies of the go.mod files under `e2e/controlplane`, a folder for each project, so that a
new version of one leaves the others as they are. Each is built once into
`$RESOURCE_SLACK_CACHE/controlplane` (by default `${XDG_CACHE_HOME:-~/.cache}/resource-slack`), in a folder named by a
hash of what decides the result: go.mod, go.sum and the flags. So clones on one machine share the binaries, a change of
version builds anew, and a build that was broken off goes on with the next program (Go keeps its own cache below that).
What only watches the control plane is optional: where it cannot be built, the suites that use it are skipped.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from e2e.harness.errors import HarnessError, UnavailableError

MODULES = Path(__file__).resolve().parent.parent / "controlplane"
KUBERNETES_VERSION = "v1.36.3"
KIND_NODE = "kind-node"
_STRIP = "-s -w"
_NO_DISCOVERY = "remove_all_sd"
"""Prometheus without the clients of all clouds: targets are named one by one, and those need not be built."""


def _kubernetes_flags() -> str:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join([_STRIP, *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())])


@dataclass(frozen=True)
class Tool:
    """One program: its go.mod's folder, its package, the linker's flags, and files of its module that go with it."""

    name: str
    module: str
    package: str
    linker_flags: str = _STRIP
    assets_of: str = ""
    assets: Sequence[str] = field(default=())
    tags: str = ""
    optional: bool = False
    """Where it cannot be built, the suites that need it are skipped; the others run."""
    asked_for: bool = False
    """Only the suites on kind need it: it is built when it is named, or for `kind-node`."""

    def cache_folder(self) -> Path:
        """Return the folder that this program's present version is built into."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((MODULES / self.module / name).read_bytes())
        digest.update(f"{self.linker_flags} {platform.system()} {platform.machine()}{self.tags}".encode())
        return cache_root() / f"{self.module}-{digest.hexdigest()[:16]}"

    def binary(self) -> Path:
        """Return where the built program is, or will be."""
        return self.cache_folder() / self.name

    def stamp(self) -> Path:
        """Return the file that is written last, when the program is complete."""
        return self.cache_folder() / f"{self.name}.json"

    def is_built(self) -> bool:
        """Say whether the program is there and complete."""
        return self.stamp().is_file() and self.binary().is_file()


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", _kubernetes_flags()),
        Tool(
            "kube-controller-manager",
            "kubernetes",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            _kubernetes_flags(),
        ),
        Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", _kubernetes_flags()),
        Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", _kubernetes_flags()),
        Tool("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", _kubernetes_flags(), optional=True),
        Tool("kubeadm", "kubernetes", "k8s.io/kubernetes/cmd/kubeadm", _kubernetes_flags(), asked_for=True),
        Tool("kube-proxy", "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", _kubernetes_flags(), asked_for=True),
        Tool("kind", "kind", "sigs.k8s.io/kind", asked_for=True),
        Tool("crictl", "cri-tools", "sigs.k8s.io/cri-tools/cmd/crictl", asked_for=True),
        Tool("coredns", "coredns", "github.com/coredns/coredns", asked_for=True),
        Tool("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Tool("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
        Tool("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint", optional=True),
        Tool("glua", "gopher-lua", "github.com/yuin/gopher-lua/cmd/glua", optional=True),
        Tool("nats-server", "nats", "github.com/nats-io/nats-server/v2", optional=True),
        Tool(
            "karpenter",
            "karpenter",
            "sigs.k8s.io/karpenter/kwok",
            assets_of="sigs.k8s.io/karpenter",
            assets=("pkg/apis/crds/karpenter.sh_*.yaml", "kwok/apis/crds/*.yaml"),
        ),
        Tool("kube-state-metrics", "kube-state-metrics", "k8s.io/kube-state-metrics/v2", optional=True),
        Tool("metrics-server", "metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server", optional=True),
        Tool(
            "prometheus",
            "prometheus",
            "github.com/prometheus/prometheus/cmd/prometheus",
            tags=_NO_DISCOVERY,
            optional=True,
        ),
        Tool(
            "promtool", "prometheus", "github.com/prometheus/prometheus/cmd/promtool", tags=_NO_DISCOVERY, optional=True
        ),
    )
}


def cache_root() -> Path:
    """Return the folder that holds all built programs."""
    chosen = os.environ.get("RESOURCE_SLACK_CACHE")
    if chosen:
        return Path(chosen).resolve() / "controlplane"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "resource-slack" / "controlplane"


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Build what is missing of the named programs and return the path of each.

    Raises:
        UnavailableError: something is missing, and there is no Go to build it with.
        HarnessError: a build failed; the text has the log's end.
    """
    tools = [TOOLS[name] for name in names]
    if any(not tool.is_built() for tool in tools):
        cache_root().mkdir(parents=True, exist_ok=True)
        with _one_builder_at_a_time():
            missing = [tool for tool in tools if not tool.is_built()]
            for number, tool in enumerate(missing, start=1):
                _build(tool, f"{number} of {len(missing)}")
    return {tool.name: tool.binary() for tool in tools}


def _build(tool: Tool, place: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise UnavailableError(f"{tool.name} is not built yet, and there is no `go` on the PATH to build it with")
    folder = tool.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    part, log_path = folder / f"{tool.name}.part", folder / f"{tool.name}.log"
    # -v writes a line for each package that is compiled: what the progress counts.
    flags = ["-v", "-trimpath", "-buildvcs=false", f"-ldflags={tool.linker_flags}"]
    if tool.tags:
        flags.append(f"-tags={tool.tags}")
    began = time.monotonic()
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            [go, "build", *flags, "-o", str(part), tool.package],
            cwd=MODULES / tool.module,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        while _still_running(process):
            compiled = len(log_path.read_bytes().splitlines())
            _say(f"{tool.name} ({place}): {time.monotonic() - began:.0f} s, {compiled} packages compiled")
    if process.returncode != 0:
        tail = "\n".join(log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        raise HarnessError(f"go build {tool.package} failed; the end of {log_path}:\n{tail}")
    _copy_assets(tool, go)
    part.replace(tool.binary())
    seconds = round(time.monotonic() - began, 1)
    tool.stamp().write_text(json.dumps({"package": tool.package, "seconds": seconds}), encoding="utf-8")
    _say(f"{tool.name} ({place}): built in {seconds:.0f} s")


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        return True
    return False


def _copy_assets(tool: Tool, go: str) -> None:
    """Keep the module's own files (CRDs) beside the program, so that running it needs no Go."""
    if not tool.assets:
        return
    command = [go, "list", "-m", "-f", "{{.Dir}}", tool.assets_of]
    found = subprocess.run(command, cwd=MODULES / tool.module, check=True, capture_output=True, text=True)
    target = tool.cache_folder() / "crds"
    target.mkdir(exist_ok=True)
    for pattern in tool.assets:
        for path in Path(found.stdout.strip()).glob(pattern):
            (target / path.name).write_bytes(path.read_bytes())  # not copy2: the module cache is read-only


@contextmanager
def _one_builder_at_a_time() -> Iterator[None]:
    """Let a second builder on this machine wait for the first, which most likely builds what it needs."""
    with (cache_root() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build runs on this machine; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"build: {text}", file=sys.stderr, flush=True)


def _kind_node() -> str:
    # Here and not above: these modules build with this one.
    from e2e.harness.docker import engine
    from e2e.kindnode import debian, node_image

    with engine.of_this_machine() as docker:
        if not docker.own:
            return "(a Docker runs here: its kind brings an image of its own)"
        debian.python(docker)  # the operator's image is built on it
        return node_image.ensure(docker)


def main(arguments: Sequence[str]) -> int:
    """Build the named programs, or all of them; without those that are optional the rest is of use.

    Returns an exit code: 3 where this machine lacks something, 1 where a build fails, 2 for a name that there is not.
    """
    unknown = [name for name in arguments if name not in TOOLS and name != KIND_NODE]
    if unknown:
        _say(f"unknown: {', '.join(unknown)}. Known: {', '.join([*TOOLS, KIND_NODE])}")
        return 2
    usual = {name: tool for name, tool in TOOLS.items() if not tool.asked_for}
    needed = [name for name in arguments if name != KIND_NODE] or [
        name for name, tool in usual.items() if not tool.optional
    ]
    try:
        paths = ensure(() if arguments == [KIND_NODE] else needed)
        if KIND_NODE in arguments:
            print(f"{KIND_NODE}\t{_kind_node()}")
    except UnavailableError as error:
        _say(str(error))
        return 3
    except HarnessError as error:
        _say(str(error))
        return 1
    for name in () if arguments else [name for name, tool in usual.items() if tool.optional]:
        try:
            paths |= ensure([name])
        except HarnessError as error:
            _say(f"going on without {name}: {error}")
    for name, path in paths.items():
        print(f"{name}\t{path}")
    return 0


def _ended(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)  # a Docker of ours, and what it has under way, is taken away on the way out


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _ended)
    sys.exit(main(sys.argv[1:]))
