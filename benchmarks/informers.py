"""client-go's informers in a process of their own: builds the program in `informer/` once, runs it, reads its line."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks.report import say
from e2e.harness.build import cache_root

SOURCES = Path(__file__).with_name("informer")


class NoInformer(RuntimeError):
    """The program cannot be built or has failed."""


class Informed(msgspec.Struct, rename="camel"):
    """What one run took; see informer/main.go."""

    pods: int
    nodes: int
    content_type: str
    wall_seconds: float
    start_cpu_seconds: float
    cpu_seconds: float
    rss_bytes: int
    rss_after_gc_bytes: int
    peak_bytes: int
    heap_in_use_bytes: int


def ensure() -> Path:
    """Build the program if it is not there, and return its path.

    Raises:
        NoInformer: there is no Go, or the build failed.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    binary = cache_root() / f"informer-{digest.hexdigest()[:16]}" / "informer"
    if binary.is_file():
        return binary
    go = shutil.which("go")
    if go is None:
        raise NoInformer("client-go's informer is not built yet, and there is no `go` on the PATH to build it with")
    say("building client-go's informer")
    binary.parent.mkdir(parents=True, exist_ok=True)
    part = binary.with_suffix(".part")
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(part), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    built = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise NoInformer(f"go build in {SOURCES} failed:\n{built.stderr[-2000:]}")
    part.replace(binary)
    return binary


def run(
    kubeconfig: Path,
    *,
    content_type: str = "default",
    watch_list: bool = True,
    field_selector: str = "",
    nodes: bool = False,
    seconds: int = 600,
) -> Informed:
    """Fill informers with a cluster's pods, and return what that took.

    Args:
        kubeconfig: of the server.
        content_type: `json`, `protobuf`, or `default`, which is protobuf where the server speaks it.
        watch_list: client-go's default; else pages.
        field_selector: of the pods.
        nodes: an informer of nodes, too.
        seconds: after which it is given up.

    Raises:
        NoInformer: it failed.
    """
    command = [str(ensure()), f"-kubeconfig={kubeconfig}", f"-content-type={content_type}", f"-timeout={seconds}s"]
    command += [f"-field-selector={field_selector}"] + (["-nodes"] if nodes else [])
    gates: Mapping[str, str] = {"KUBE_FEATURE_WatchListClient": str(watch_list).lower()}
    done = subprocess.run(
        command, env={**os.environ, **gates}, capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    if done.returncode != 0:
        raise NoInformer(f"the informer ended with {done.returncode}: {done.stderr[-2000:]}")
    return msgspec.json.decode(done.stdout, type=Informed)
