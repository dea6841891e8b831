"""Pods a second of a real scheduler: stock, with the scorer, with the formula as a plugin: `make bench-scoring-pods`.

A control plane on this machine with nodes of kwok's. The scheduler stands still while pods are made, so that it has all
of them at once; then bindings are counted by the API server's audit log. Its client may ask as often as it likes. The
scheduler, the API server, etcd and the scorer share the machine's cores: read the ratios, which come of one run with
the sides in turns. `TRIMARAN_SCHEDULER=path` adds a scheduler with upstream's plugins, fed by the same load.
"""

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from benchmarks.report import Report, Row, parser, say, show
from benchmarks.scoring.memory import load_watcher
from e2e.harness.api import Json
from e2e.harness.build import MODULES, cache_root
from e2e.harness.cluster import kwok
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import pod, wait_until
from e2e.harness.product.scorer import SCHEDULER, Scorer
from slack.loadwatcher.encoding import Format

PLUGIN = Path(__file__).with_name("plugin") / "main.go"
STOCK, OURS, IN_PROCESS = "stock", "stock with the scorer", "the formula as a plugin"
WANTED_SHARE = 0.7
WANTED_SHARE_OF_PLUGIN = 0.8
WANTED_ADDED_MS = 1.0
UPSTREAM = "TRIMARAN_SCHEDULER"
_ALGORITHM = "TargetLoadPacking"
_CLIENT: Json = {"clientConnection": {"qps": 5000, "burst": 10_000}}
_PODS = "/api/v1/namespaces/default/pods"
_HANDS = 8


class Stage:
    """A control plane with nodes, and who makes pods there."""

    def __init__(self, cluster: ControlPlane, pods: int) -> None:
        self._cluster = cluster
        self._pods = pods

    def add_nodes(self, names: Iterable[str]) -> None:
        """Make the nodes; they have room for all pods many times over."""
        self._at_once(lambda name: self._cluster.api.create(kwok.node(name, cpu="32", memory="128Gi")), names)

    def play(self, configuration: Json, binary: Path | None = None) -> list[float]:
        """Let a scheduler place all pods; return when each was bound, in seconds."""
        cluster = self._cluster
        cluster.restart_scheduler(configuration={**configuration, **_CLIENT}, binary=binary)
        with cluster.scheduler_stands_still():
            mark = cluster.audit_mark()
            names = [f"p{number}" for number in range(self._pods)]
            self._at_once(lambda name: cluster.api.create(pod(name, cpu="10m", schedulerName=SCHEDULER)), names)
        wait_until(lambda: len(self._bound(mark)) >= self._pods, 180.0, "all pods are bound", every=2.0)
        bound = sorted(self._bound(mark))
        self._at_once(lambda name: cluster.api.delete(f"{_PODS}/{name}", grace_seconds=0), names)
        wait_until(lambda: not cluster.api.get(f"{_PODS}?limit=1")["items"], 120.0, "pods are gone", every=1.0)
        return bound

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


def in_process() -> Path | None:
    """Build the scheduler that has the formula as a plugin, once; None where there is no Go."""
    go = shutil.which("go")
    if go is None:
        return None
    module = MODULES / "kubernetes"
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (PLUGIN, module / "go.mod", module / "go.sum")))
    binary = cache_root() / f"scheduler-plugin-{digest.hexdigest()[:16]}" / "kube-scheduler"
    if not binary.is_file():
        say("building the scheduler with the formula as a plugin")
        binary.parent.mkdir(parents=True, exist_ok=True)
        part = binary.with_suffix(".part")
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(part)]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        built = subprocess.run(
            [go, "build", *flags, str(PLUGIN)], cwd=module, env=environment, capture_output=True, text=True, check=False
        )
        if built.returncode != 0:
            raise HarnessError(f"go build {PLUGIN} failed:\n{built.stderr[-2000:]}")
        part.replace(binary)
    return binary


def upstream(watcher: str) -> Json:
    """Return a configuration of upstream's plugin instead of the scores that it conflicts with."""
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": f"{_ALGORITHM}Args",
        "watcherAddress": watcher,
    }
    return _profile(_ALGORITHM, pluginConfig=[{"name": _ALGORITHM, "args": arguments}])


def _profile(plugin: str, **more: object) -> Json:
    score = {
        "enabled": [{"name": plugin, "weight": 10}],
        "disabled": [{"name": name} for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation")],
    }
    return {"profiles": [{"schedulerName": SCHEDULER, "plugins": {"score": score}, **more}]}


def measure(nodes: int, pods: int, runs: int) -> list[Row]:
    """Play each side `runs` times, in turns."""
    names = [f"node-{number:05}" for number in range(nodes)]
    found: dict[str, list[float]] = {}
    plugin = in_process()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resource-slack-throughput-")))
        cluster = stack.enter_context(ControlPlane(folder, Options()))
        watcher = stack.enter_context(load_watcher(names, Format.UPSTREAM))
        os.environ["LOAD_WATCHER"] = watcher  # the plugin's
        stage = Stage(cluster, pods)
        say(f"{nodes} nodes")
        stage.add_nodes(names)
        scorer = stack.enter_context(Scorer(cluster, watcher, [{"name": _ALGORITHM}], refresh="15s"))
        wait_until(lambda: scorer.health("/readyz")[0] == 200, 60.0, "the scorer is ready")
        sides: dict[str, tuple[Json, Path | None]] = {
            STOCK: ({"profiles": [{"schedulerName": SCHEDULER}]}, None),
            OURS: (dict(scorer.scheduler_configuration()), None),
        }
        if plugin is not None:
            sides[IN_PROCESS] = (_profile("InProcessLoadPacking"), plugin)
        if os.environ.get(UPSTREAM):
            sides["upstream's plugin"] = (upstream(watcher), Path(os.environ[UPSTREAM]))
        for _ in range(runs):
            for side, (configuration, binary) in sides.items():
                found.setdefault(side, []).append(pods_a_second(stage.play(configuration, binary)))
                say(f"{side}: {found[side][-1]:.0f} pods a second")
    return rows(found)


def rows(found: Mapping[str, list[float]]) -> list[Row]:
    """Return a row a side, each beside the stock scheduler."""
    paces = {side: statistics.median(paces) for side, paces in found.items()}
    return [
        {
            "scheduler": side,
            "pods a second": pace,
            "of stock ratio": pace / paces[STOCK],
            "wanted ratio": WANTED_SHARE if side == OURS else None,
            "of the plugin ratio": pace / paces[IN_PROCESS] if IN_PROCESS in paces else None,
            "wanted of it ratio": WANTED_SHARE_OF_PLUGIN if side == OURS else None,
            "a pod us": 1e6 / pace,
            "added us": 1e6 / pace - 1e6 / paces[STOCK],
            "wanted us": WANTED_ADDED_MS * 1e3 if side == OURS else None,
        }
        for side, pace in paces.items()
    ]


def main() -> int:
    """Measure, and print a table."""
    options = parser("Pods a second of a scheduler, with the scorer beside it and without.")
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=1000)
    options.add_argument("--runs", type=int, default=3)
    asked = options.parse_args()
    try:
        found = Report(f"{asked.pods} pods on {asked.nodes} nodes", measure(asked.nodes, asked.pods, asked.runs))
    except HarnessError as error:
        say(str(error))
        return 1
    show([found], asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
