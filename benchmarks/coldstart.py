"""The operator's start on a real API server: from nothing to its first plan, and what that costs whom.

Usage:
    python -m benchmarks.coldstart                 # starts a control plane and fills it with 30,000 pods first

The operator runs as its users run it, with its own rights, over TLS. Its CPU time is that of the whole process, imports
included; beside it stands what the API server and etcd needed in the same time, and the CPU time of an operator with
one kopf handler on pods, which sees the pods of some namespaces of the same server and is scaled to all.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.generator import scaled
from benchmarks.generator.lists import layout_of
from benchmarks.report import Report, parser, say, show
from benchmarks.seed import control_plane, seed
from benchmarks.usage import usage
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.harness.product.operator import Operator

PODS = 30_000
RUNS = 3
KOPF_PODS = 3_000
START_SECONDS = 300.0
POLL_SECONDS = 0.2
"""Asking for /metrics costs the operator a few milliseconds, too."""
SERVERS = ("kube-apiserver", "etcd")


class NoPlan(RuntimeError):
    """What was waited for did not come."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start, until the first plan."""

    wall_seconds: float
    cpu_seconds: float
    server_seconds: float
    peak_bytes: int


def start(cluster: ControlPlane) -> Start:
    """Start the operator, and end it when it has planned."""
    operator = Operator(cluster, "--interval=10s", "--log-level=info")
    before = _servers(cluster)
    began = time.monotonic()
    with operator:
        while operator.metric("slack_plan_duration_seconds_count") < 1:
            if not operator.program.running or time.monotonic() - began > START_SECONDS:
                raise NoPlan(f"no plan after {time.monotonic() - began:.0f} s. {operator.program.log_tail()}")
            time.sleep(POLL_SECONDS)
        wall, used = time.monotonic() - began, usage(operator.program.pid)
        servers = _servers(cluster) - before
    return Start(wall, used.cpu_seconds, servers, used.peak_bytes)


def _servers(cluster: ControlPlane) -> float:
    return sum(usage(cluster.program(name).pid).cpu_seconds for name in SERVERS)


def kopf_handler(kubeconfig: Path, pods: int, namespaces: Sequence[str]) -> float:
    """Return the CPU seconds a pod of one kopf handler."""
    command = [sys.executable, "-m", "benchmarks.kopf_handler", f"--kubeconfig={kubeconfig}", f"--pods={pods}"]
    command += [f"--namespace={name}" for name in namespaces]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPlan(f"the kopf handler ended with {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return float(found["cpuSeconds"] / found["pods"])


def some_namespaces(pods: int, wanted: int) -> tuple[list[str], int]:
    """Return namespaces of the seeded cluster that have about so many pods together, and how many."""
    counts: dict[str, int] = {}
    for workload in layout_of(scaled(pods / 150_000)).workloads:
        counts[workload.namespace] = counts.get(workload.namespace, 0) + workload.replicas
    chosen: list[str] = []
    total = 0
    for name, count in sorted(counts.items(), key=lambda item: item[1]):
        if total < wanted:
            chosen.append(name)
            total += count
    return chosen, total


def measure(cluster: ControlPlane, pods: int, runs: int) -> Report:
    """Start the operator some times, then the kopf handler once."""
    starts: list[Start] = []
    for number in range(runs):
        starts.append(start(cluster))
        say(f"{number + 1} of {runs}: first plan after {starts[-1].wall_seconds:.1f} s")
    namespaces, sample = some_namespaces(pods, min(KOPF_PODS, pods))
    say(f"a kopf handler on {sample} pods")
    kopf_seconds = kopf_handler(cluster.kubeconfig, sample, namespaces)
    ours = median(start.cpu_seconds for start in starts)
    size = scaled(pods / 150_000)
    report = Report(f"cold start on a real API server with {size.nodes:,} nodes and {size.pods:,} pods")
    report.rows = [
        {
            "": "resource-slack operator, to its first plan",
            "CPU s": ours,
            "of the servers, CPU s": median(start.server_seconds for start in starts),
            "wall s": median(start.wall_seconds for start in starts),
            "peak MiB": median(start.peak_bytes for start in starts) / 2**20,
            "a pod us": ours / size.pods * 1e6,
            "it / operator x": None,
        },
        {
            "": f"a kopf handler on pods (of {sample:,}, scaled)",
            "CPU s": kopf_seconds * size.pods,
            "of the servers, CPU s": None,
            "wall s": None,
            "peak MiB": None,
            "a pod us": kopf_seconds * 1e6,
            "it / operator x": kopf_seconds * size.pods / ours,
        },
    ]
    report.notes.append(f"(operator: imports included, medians of {runs}; servers: kube-apiserver and etcd meanwhile)")
    return report


def main(arguments: Sequence[str] = ()) -> int:
    """Print both sides."""
    asked = _arguments(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="resource-slack-coldstart-") as folder,
            control_plane(Path(folder)) as cluster,
        ):
            for rate in seed(cluster.api, scaled(asked.pods / 150_000)):
                say(f"{rate.count} {rate.what} written in {rate.seconds:.0f} s")
            show([measure(cluster, asked.pods, asked.runs)], asked.output)
    except (HarnessError, NoPlan) as error:
        say(str(error))
        return 1
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Start the operator on a real API server with many pods.")
    options.add_argument("--pods", type=int, default=PODS, help="how many to fill the control plane with, about")
    options.add_argument("--runs", type=int, default=RUNS)
    found = options.parse_args(arguments)
    for name in ("pods", "runs"):
        if getattr(found, name) < 1:
            options.error(f"--{name}: must be at least 1")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
