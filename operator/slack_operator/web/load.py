"""What nodes really use, for the page: a load watcher's newest window as columns, and how it stands.

Fetched by a thread (`LoadSource`), made into a document when somebody looks. Nothing of a watcher is taken but figures
of nodes that the cluster has. Whether figures are too old is judged where they are shown, by their times, for a page
stays open while a watcher is away.
"""

import threading
from collections.abc import Collection

import msgspec

from slack.loadwatcher.payload import LoadReport, MetricType, Rollup, RollupWindow
from slack_operator.runtime.load_source import LoadSource

FETCH_SECONDS = 30.0
MAX_AGE_SECONDS = 300.0
"""Older figures are shown in grey: what load-aware scores hold too old."""
MOST_BYTES = 24 << 20
"""5,000 nodes in upstream's format with all that it fetches are 22 MB."""
_MOST_PERCENT = 1000.0

_WORDS = {
    "unreachable": "the load watcher cannot be reached",
    "status": "the load watcher answers with an error",
    "payload": "the load watcher answers with something else than load",
    "mistake": "the load watcher's answer could not be read",
}


class LoadView(msgspec.Struct, frozen=True, rename="camel"):
    """How load stands: part of the page's state."""

    version: int
    """Of the document of figures; 0 while there is none."""
    window_end_unix_seconds: int | None
    window_seconds: int | None
    max_age_seconds: float
    problem: str | None
    """Why the last fetch failed, in words; None where it did not."""


class NodeUsePercents(msgspec.Struct, frozen=True, rename="camel"):
    """What N nodes use, in percent of what each has; None where it is not known."""

    version: int
    window_seconds: int
    names: list[str]
    observed_at_unix_seconds: list[int]
    cpu_average_percent: list[float | None]
    cpu_deviation_percent: list[float | None]
    memory_average_percent: list[float | None]
    memory_deviation_percent: list[float | None]
    unmatched: int
    """How many names of the watcher are no node's."""


class LoadBoard:
    """What is told of load; any thread may ask."""

    def __init__(self, source: LoadSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._version = 0
        self._shown: LoadReport | None = None

    @classmethod
    def fetching(cls, url: str, authority: str | None = None) -> "LoadBoard":
        """Make one of a load watcher; `source` is to be started."""
        windows = (RollupWindow.FIVE_MINUTES,)
        return cls(
            LoadSource(url, FETCH_SECONDS, _nothing, authority=authority, windows=windows, most_bytes=MOST_BYTES)
        )

    @property
    def source(self) -> LoadSource:
        """The thread that asks."""
        return self._source

    def view(self) -> LoadView:
        """Return how load stands."""
        version, report = self.report()
        failing = self._source.failing
        return LoadView(
            version,
            None if report is None else report.window.end,
            None if report is None else report.window.duration.seconds,
            MAX_AGE_SECONDS,
            None if failing is None else _WORDS[failing],
        )

    def report(self) -> tuple[int, LoadReport | None]:
        """Return the newest report, and its version, which grows whenever there is another."""
        reports = tuple(self._source.reports.values())
        newest = max(reports, key=lambda report: (report.window.end, -report.window.duration.seconds), default=None)
        with self._lock:
            if newest is not self._shown:
                self._shown = newest
                self._version += 1
            return self._version, newest


def columns_of(report: LoadReport, version: int, nodes: Collection[str]) -> NodeUsePercents:
    """Build the document.

    Args:
        report: what the watcher tells.
        version: of the report.
        nodes: the names of the cluster's; others are counted only.
    """
    known = frozenset(nodes)
    names = [name for name in report.nodes if name in known]
    loads = [report.nodes[name] for name in names]

    def percents(kind: MetricType, rollup: Rollup, otherwise: Rollup | None = None) -> list[float | None]:
        found = []
        for load in loads:
            percent = load.percent(kind, rollup)
            if percent is None and otherwise is not None:
                percent = load.percent(kind, otherwise)
            found.append(None if percent is None else round(min(percent, _MOST_PERCENT), 1))
        return found

    end = report.window.end
    return NodeUsePercents(
        version=version,
        window_seconds=report.window.duration.seconds,
        names=names,
        observed_at_unix_seconds=[end if load.observed_at is None else load.observed_at for load in loads],
        cpu_average_percent=percents(MetricType.CPU, Rollup.AVG, Rollup.LATEST),
        cpu_deviation_percent=percents(MetricType.CPU, Rollup.STD),
        memory_average_percent=percents(MetricType.MEMORY, Rollup.AVG, Rollup.LATEST),
        memory_deviation_percent=percents(MetricType.MEMORY, Rollup.STD),
        unmatched=len(report.nodes) - len(names),
    )


def _nothing() -> None:
    """The page learns of news with the operator's next turn."""
