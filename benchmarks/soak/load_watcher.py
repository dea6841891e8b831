"""A week of the load watcher: nodes come and go, each with a name that was never there before.

The parts are those of the watcher's process with Metrics Server as provider: the loop, rings of samples, the board, the
state file and the metrics. The API server is modelled. The clock of one node is a day ahead.
"""

import json
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import msgspec

from benchmarks.soak.sizes import files, series, sizes
from slack.kube.connection import Connection
from slack.kube.watch import EventType
from slack.loadwatcher.encoding import ReportFormat
from slack.loadwatcher.node_names import KnownNode, NodeNames
from slack.loadwatcher.payload import RollupWindow
from slack_operator.loadwatcher.metrics import LoadWatcherMetrics
from slack_operator.loadwatcher.metrics_server import MetricsServerProvider
from slack_operator.loadwatcher.node_view import ListedNode, NodeNameView
from slack_operator.loadwatcher.report_store import ReportStore
from slack_operator.loadwatcher.settings import LoadWatcherSettings
from slack_operator.loadwatcher.store import Store
from slack_operator.loadwatcher.watcher import Watcher

NODES: Final = 12
TURN_SECONDS: Final = 600.0
SAMPLE_SECONDS: Final = 60.0
_AHEAD_SECONDS: Final = 86_400.0
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class _Cluster:
    """Nodes by the view of the process, and a Metrics Server that knows them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.view = NodeNameView()
        self.there: deque[str] = deque()
        self.wall = _BEGAN

    def add(self, name: str) -> None:
        self.there.append(name)
        status = {"capacity": {"cpu": "8", "memory": "32Gi"}, "addresses": [{"address": f"ip-of-{name}"}]}
        node = msgspec.convert({"metadata": {"name": name}, "status": status}, ListedNode)
        self.view.apply([(EventType.ADDED, node)])

    def remove(self) -> None:
        node = msgspec.convert({"metadata": {"name": self.there.popleft()}}, ListedNode)
        self.view.apply([(EventType.DELETED, node)])

    def names(self) -> NodeNames:
        return self.view.names()

    def stale(self) -> None:
        """Nothing is stale: the view is told directly."""

    def known(self) -> tuple[KnownNode, ...]:
        return tuple(self.view.nodes().values())

    def request(self, _: str, __: str) -> bytes:
        """Answer as Metrics Server does; it has figures of a node that the cluster does not have, too."""
        items: list[Any] = []
        for index, name in enumerate([*self.there, f"stranger-{self.wall:.0f}"]):
            at = self.wall + (_AHEAD_SECONDS if index == 1 else 0.0)
            items.append(
                {
                    "metadata": {"name": name},
                    "timestamp": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "usage": {"cpu": f"{self._random.randrange(8000)}m", "memory": f"{self._random.randrange(32)}Gi"},
                }
            )
        return json.dumps({"items": items}).encode()


class LoadWatcherWeek:
    """One load watcher and its surroundings."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int) -> None:
        """Begin without a node."""
        self._now, self._number, self._cleared = 0.0, 0, False
        self._cluster = _Cluster(Random(seed))
        self._folder = Path(tempfile.mkdtemp(prefix="soak-load-watcher-"))
        self._metrics = LoadWatcherMetrics()
        self._store = Store(self._folder / "load.sqlite", on_error=self._metrics.on_state_error)
        self._store.open()
        settings = LoadWatcherSettings(sample_interval=SAMPLE_SECONDS)
        self._board = ReportStore(ReportFormat.PROPOSAL, max_age_seconds=settings.max_age, clock=self._wall)
        self._provider = MetricsServerProvider(
            cast("Connection", self._cluster),
            self._cluster.view.nodes,
            self._metrics.on_query_error,
            sample_seconds=SAMPLE_SECONDS,
            keep=self._store.keep,
        )
        self._watcher = Watcher(
            settings,
            self._provider,
            self._cluster,
            self._board,
            self._metrics,
            store=self._store,
            clock=lambda: self._now,
            wall=self._wall,
        )

    def _wall(self) -> float:
        return _BEGAN + self._now

    def turn(self, now_seconds: float) -> None:
        """Change a node, then sample and fetch twice."""
        if not self._cleared:
            if len(self._cluster.there) >= NODES:
                self._cluster.remove()
            self._number += 1
            self._cluster.add(f"node-{self._number}")
        began = self._now
        for half in (0.5, 1.0):
            self._now = began + (now_seconds - began) * half
            self._cluster.wall = self._wall()
            self._watcher.fetch_due()
            for window in RollupWindow:
                self._board.body(window, None, gzipped=True)
        self._metrics.on_reply(200)

    def clear(self, now_seconds: float) -> None:
        """Delete all nodes."""
        self._now, self._cleared = now_seconds, True
        while self._cluster.there:
            self._cluster.remove()

    def sizes(self) -> Mapping[str, int]:
        """Return what the process keeps."""
        roots = (self._cluster.view, self._provider, self._board, self._watcher, self._store, self._metrics)
        return sizes(roots) | series(self._metrics.registry) | files(self._folder)

    def close(self) -> None:
        """Close and remove the state file."""
        self._store.close()
        shutil.rmtree(self._folder)


def week(seed: int) -> LoadWatcherWeek:
    """Return a week of the load watcher."""
    return LoadWatcherWeek(seed)
