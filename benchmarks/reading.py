"""The pods of a real API server over TLS: into our columns, and into client-go's informer. CPU time of each client.

Usage:
    python -m benchmarks.reading                       # starts a control plane and fills it with 30,000 pods first
    python -m benchmarks.reading --kubeconfig FILE     # any cluster; it is only read

Each way to read runs in a process of its own, by turns, several times; the median counts. What a process needs before
it asks (imports, certificates) is left out on both sides. With no pods finished, all sides are sent the same objects.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import informers
from benchmarks.generator import scaled
from benchmarks.report import Report, parser, say, show
from benchmarks.seed import control_plane, seed
from benchmarks.usage import usage
from e2e.harness.errors import HarnessError
from slack.kube.paths import UNFINISHED_PODS

PODS = 30_000
RUNS = 3
TARGET = 0.7


class NotRead(RuntimeError):
    """Our reader has failed."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one client took once, and the server for it."""

    pods: int
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    server_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Seeded:
    """A cluster to read."""

    kubeconfig: Path
    server_cpu_seconds: Callable[[], float] | None
    """None where the server is not ours to look at."""


def ours(kubeconfig: Path, *flags: str) -> Run:
    """Read with our reflector, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.reader", f"--kubeconfig={kubeconfig}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRead(f"our reader ended with {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return Run(found["pods"], found["cpuSeconds"], found["wallSeconds"], found["peakBytes"])


def theirs(kubeconfig: Path, content_type: str, watch_list: bool) -> Run:
    """Read with client-go's informer."""
    found = informers.run(kubeconfig, content_type=content_type, watch_list=watch_list, field_selector=UNFINISHED_PODS)
    return Run(found.pods, found.cpu_seconds, found.wall_seconds, found.peak_bytes)


WAYS: dict[str, Callable[[Path], Run]] = {
    "columns, WatchList": lambda path: ours(path),
    "client-go, WatchList, protobuf (its default)": lambda path: theirs(path, "default", watch_list=True),
    "columns, pages": lambda path: ours(path, "--pages"),
    "client-go, WatchList, JSON": lambda path: theirs(path, "json", watch_list=True),
    "client-go, pages, protobuf": lambda path: theirs(path, "default", watch_list=False),
    "client-go, pages, JSON": lambda path: theirs(path, "json", watch_list=False),
}


def measure(cluster: Seeded, runs: int) -> Report:
    """Let every way read the cluster by turns, and compare the medians."""
    found: dict[str, list[Run]] = {name: [] for name in WAYS}
    for number in range(runs):
        for name, way in WAYS.items():
            before = cluster.server_cpu_seconds() if cluster.server_cpu_seconds else 0.0
            run = way(cluster.kubeconfig)
            server = cluster.server_cpu_seconds() - before if cluster.server_cpu_seconds else None
            found[name].append(Run(run.pods, run.cpu_seconds, run.wall_seconds, run.peak_bytes, server))
            say(f"{number + 1} of {runs}: {name}: {run.cpu_seconds / run.pods * 1e6:.1f} us a pod")
    counts = {run.pods for some in found.values() for run in some}
    report = Report(f"{max(counts):,} pods from a real API server over TLS: CPU time of the client")
    for name, some in found.items():
        cpu = _cpu(some)
        served = [run.server_seconds / run.pods for run in some if run.server_seconds is not None]
        report.rows.append(
            {
                "": name,
                "a pod us": cpu * 1e6,
                "ours / it ratio": _cpu(found[own]) / cpu if (own := _own_way(name)) != name else None,
                "server's, a pod us": median(served) * 1e6 if served else None,
                "wall s": _median(some, lambda run: run.wall_seconds),
                "peak MiB": _median(some, lambda run: run.peak_bytes) / 2**20,
            }
        )
    report.notes.append(
        f"(medians of {runs} runs by turns; ratio: ours by the same route over it; wanted: at most {TARGET} of"
        " client-go's default)"
    )
    if len(counts) > 1:
        report.notes.append(
            f"(the cluster changed meanwhile: between {min(counts):,} and {max(counts):,} pods were read)"
        )
    return report


def _own_way(name: str) -> str:
    """Return our way by the same route."""
    route = name.split(", ")[1]
    return f"columns, {route.split()[0]}"


def _cpu(runs: Sequence[Run]) -> float:
    return _median(runs, lambda run: run.cpu_seconds / run.pods)


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return median(of(run) for run in runs)


@contextmanager
def seeded(pods: int) -> Iterator[Seeded]:
    """Start a control plane and fill it; it ends with the context."""
    with tempfile.TemporaryDirectory(prefix="resource-slack-reading-") as folder:
        say("starting a control plane")
        with control_plane(Path(folder)) as cluster:
            for rate in seed(cluster.api, scaled(pods / 150_000)):
                say(f"{rate.count} {rate.what} written in {rate.seconds:.0f} s")
            apiserver = cluster.program("kube-apiserver").pid
            yield Seeded(cluster.kubeconfig, lambda: usage(apiserver).cpu_seconds)


@contextmanager
def given(kubeconfig: Path, server_pid: int | None) -> Iterator[Seeded]:
    """Return a cluster that is there."""
    yield Seeded(kubeconfig, None if server_pid is None else lambda: usage(server_pid).cpu_seconds)


def add_cluster(options: argparse.ArgumentParser) -> None:
    """Add the options that say which cluster is read."""
    options.add_argument("--pods", type=int, default=PODS, help="how many to fill a control plane with, about")
    options.add_argument("--kubeconfig", type=Path, help="of a cluster that is there, instead")
    options.add_argument("--server-pid", type=int, help="its API server's process, where that runs here")


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a way to read."""
    asked = _arguments(arguments)
    try:
        informers.ensure()
        with given(asked.kubeconfig, asked.server_pid) if asked.kubeconfig else seeded(asked.pods) as cluster:
            show([measure(cluster, asked.runs)], asked.output)
    except (HarnessError, NotRead, informers.NoInformer) as error:
        say(str(error))
        return 1
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Read a real API server's pods with our reflector and with client-go's informer.")
    add_cluster(options)
    options.add_argument("--runs", type=int, default=RUNS)
    found = options.parse_args(arguments)
    for name in ("pods", "runs"):
        if getattr(found, name) < 1:
            options.error(f"--{name}: must be at least 1")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
