"""Pods a second of a real scheduler: stock, with the scorer, with the formula as a plugin: `make bench-scoring-pods`.

Two more sides tell what is ours of the difference: the stock scheduler without batching, which any extender turns off
(and pods that are alike, as here, gain most by), and one with an extender in Go that scores nothing.

A control plane on this machine with nodes of kwok's. The scheduler stands still while pods are made, so that it has
all of them at once; then bindings are counted by the API server's audit log. Its client may ask as often as it likes.
The scheduler, the API server, etcd and the scorer share the machine's cores: read the ratios, which come of one run
with the sides in turns, and what each process took of the processor for a pod. `TRIMARAN_SCHEDULER=path` adds a
scheduler with upstream's plugins, fed by the same load.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Report, Row, parser, say, show
from benchmarks.scoring.binaries import bare_extender, scheduler_with_plugin
from benchmarks.scoring.memory import load_watcher
from benchmarks.usage import usage
from e2e.harness.api import Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import pod, wait_until
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program
from e2e.harness.product import trimaran
from e2e.harness.product.scorer import SCHEDULER, Scorer
from slack.loadwatcher.encoding import ReportFormat

STOCK, ALONE, OURS = "stock", "stock, batching off", "stock with the scorer"
BARE, IN_PROCESS = "stock with an extender that scores nothing", "the formula as a plugin"
WANTED_SHARE = 0.7
WANTED_SHARE_OF_PLUGIN = 0.8
WANTED_ADDED_MS = 1.0
_CLIENT: Json = {"clientConnection": {"qps": 5000, "burst": 10_000}}
_PODS = "/api/v1/namespaces/default/pods"
_HANDS = 8
_ALL = ("kube-scheduler", "kube-apiserver", "etcd", "kwok", "kube-controller-manager")


class Side(NamedTuple):
    """A scheduler that is measured."""

    configuration: Json
    binary: Path | None = None
    gates: Mapping[str, bool] | None = None
    extender: Program | None = None


class Played(NamedTuple):
    """How it went, once."""

    pace: float
    """Pods a second."""
    cpu_millis: Mapping[str, float]
    """By process, for a pod."""


class Stage:
    """A control plane with nodes, and who makes pods there."""

    def __init__(self, cluster: ControlPlane, pods: int) -> None:
        self._cluster = cluster
        self._pods = pods
        self._plays = 0

    def add_nodes(self, names: Iterable[str]) -> None:
        """Make the nodes; they have room for all pods many times over."""
        self._at_once(lambda name: self._cluster.api.create(kwok.node(name, cpu="32", memory="128Gi")), names)

    def play(self, side: Side) -> Played:
        """Let a scheduler place all pods; return its pace, and what that took."""
        cluster = self._cluster
        cluster.restart_scheduler(side.gates, configuration={**side.configuration, **_CLIENT}, binary=side.binary)
        with cluster.stands_still("kube-scheduler"):
            mark = cluster.audit_mark()
            self._plays += 1  # kwok deletes by name, and may be late: it would take the next play's pod
            names = [f"p{self._plays}-{number}" for number in range(self._pods)]
            self._at_once(lambda name: cluster.api.create(pod(name, cpu="10m", schedulerName=SCHEDULER)), names)
            before = self._cpu_seconds(side)
        wait_until(lambda: len(self._bound(mark)) >= self._pods, 180.0, "all pods are bound", every=1.0)
        after = self._cpu_seconds(side)
        bound = sorted(self._bound(mark))
        self._at_once(lambda name: cluster.api.delete(f"{_PODS}/{name}", grace_seconds=0), names)
        wait_until(lambda: not cluster.api.get(f"{_PODS}?limit=1")["items"], 120.0, "pods are gone", every=1.0)
        spent = {name: (after[name] - before[name]) * 1e3 / self._pods for name in before}
        return Played(pods_a_second(bound), spent)

    def _cpu_seconds(self, side: Side) -> dict[str, float]:
        pids = {name: self._cluster.program(name).pid for name in _ALL}
        if side.extender is not None:
            pids["extender"] = side.extender.pid
        return {name: usage(pid).cpu_seconds for name, pid in pids.items()}

    def _bound(self, mark: int) -> list[float]:
        entries = self._cluster.audit_entries(verbs=("create",), since=mark)
        return [
            datetime.fromisoformat(entry.answered).timestamp()
            for entry in entries
            if entry.resource == "pods/binding" and entry.code < 300
        ]

    def _at_once(self, work: Callable[[str], object], names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_HANDS) as pool:
            list(pool.map(work, names))


def pods_a_second(bound: list[float]) -> float:
    """Return the pace between the first tenth and the last: neither the start nor stragglers count."""
    tenth = len(bound) // 10
    return (len(bound) - 2 * tenth - 1) / (bound[-1 - tenth] - bound[tenth])


def measure(nodes: int, pods: int, runs: int) -> list[Report]:
    """Play each side `runs` times, in turns."""
    names = [f"node-{number:05}" for number in range(nodes)]
    found: dict[str, list[Played]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resource-slack-throughput-")))
        cluster = stack.enter_context(ControlPlane(folder, Options()))
        watcher = stack.enter_context(load_watcher(names, ReportFormat.UPSTREAM))
        os.environ["LOAD_WATCHER"] = watcher  # the plugin's
        stage = Stage(cluster, pods)
        say(f"{nodes} nodes")
        stage.add_nodes(names)
        scorer = stack.enter_context(Scorer(cluster, watcher, [{"name": trimaran.LOAD_PACKING}], refresh="15s"))
        wait_until(lambda: scorer.health("/readyz")[0] == 200, 60.0, "the scorer is ready")
        with_ours = dict(scorer.scheduler_configuration())
        stock: Json = {"profiles": [{"schedulerName": SCHEDULER}]}
        sides = {
            STOCK: Side(stock),
            ALONE: Side(stock, gates={"OpportunisticBatching": False}),
            OURS: Side(with_ours, extender=scorer.program),
        }
        if (bare := bare_extender()) is not None:
            port = free_port()
            program = Program("bare-extender", [str(bare), f"{LOOPBACK}:{port}"], folder).start()
            stack.callback(program.stop)
            program.wait_until_ready(lambda: is_listening(port), 10.0)
            sides[BARE] = Side(_asking(with_ours, f"http://{LOOPBACK}:{port}"), extender=program)
        if (plugin := scheduler_with_plugin()) is not None:
            sides[IN_PROCESS] = Side(trimaran.scored_by("InProcessLoadPacking"), plugin)
        if os.environ.get(trimaran.VARIABLE):
            sides["upstream's plugin"] = Side(trimaran.configuration(watcher), trimaran.binary())
        for _ in range(runs):
            for name, side in sides.items():
                found.setdefault(name, []).append(stage.play(side))
                say(f"{name}: {found[name][-1].pace:.0f} pods a second")
    paces = {name: [one.pace for one in played] for name, played in found.items()}
    return [
        Report(f"{pods} pods on {nodes} nodes, the median of {runs} runs in turns", rows(paces)),
        Report("processor time for a pod, by process", cpu_rows(found)),
    ]


def _asking(configuration: Json, url: str) -> Json:
    """Return the same configuration with another extender."""
    return {**configuration, "extenders": [{**own, "urlPrefix": url} for own in configuration["extenders"]]}


def rows(found: Mapping[str, list[float]]) -> list[Row]:
    """Return a row a side, each beside the stock scheduler."""
    paces = {side: statistics.median(paces) for side, paces in found.items()}
    return [
        {
            "scheduler": side,
            "pods a second": pace,
            "least": min(found[side]),
            "most": max(found[side]),
            "of stock ratio": pace / paces[STOCK],
            "wanted ratio": WANTED_SHARE if side == OURS else None,
            "of the plugin ratio": pace / paces[IN_PROCESS] if IN_PROCESS in paces else None,
            "wanted of it ratio": WANTED_SHARE_OF_PLUGIN if side == OURS else None,
            "of any extender ratio": pace / paces[BARE] if BARE in paces else None,
            "a pod us": 1e6 / pace,
            "added us": 1e6 / pace - 1e6 / paces[STOCK],
            "wanted us": WANTED_ADDED_MS * 1e3 if side == OURS else None,
        }
        for side, pace in paces.items()
    ]


def cpu_rows(found: Mapping[str, list[Played]]) -> list[Row]:
    """Return a row a side: microseconds of the processor for a pod, of each process and of all."""
    result: list[Row] = []
    for side, played in found.items():
        spent = {
            name: statistics.median(one.cpu_millis.get(name, 0.0) for one in played) * 1e3
            for name in (*_ALL, "extender")
        }
        result.append({"scheduler": side, **{f"{name} us": micros for name, micros in spent.items()},
                       "all us": sum(spent.values())})  # fmt: skip
    return result


def main() -> int:
    """Measure, and print a table."""
    options = parser("Pods a second of a scheduler, with the scorer beside it and without.")
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=1000)
    options.add_argument("--runs", type=int, default=3)
    asked = options.parse_args()
    try:
        found = measure(asked.nodes, asked.pods, asked.runs)
    except HarnessError as error:
        say(str(error))
        return 1
    show(found, asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
