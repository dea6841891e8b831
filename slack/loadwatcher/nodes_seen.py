"""What somebody who asks a watcher sees: each node with its use by window, the age of that, and the verdict on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from slack.loadwatcher.payload import WINDOWS, LoadReport, MetricType, Rollup, RollupWindow
from slack.loadwatcher.verdicts import Verdicts

GOOD = "good"


@dataclass(frozen=True, slots=True)
class Use:
    """Of one resource over one window, in percent."""

    average: float | None
    deviation: float | None


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node."""

    name: str
    uses: Mapping[tuple[MetricType, RollupWindow], Use]
    age_seconds: float | None
    """Of its newest sample; None where nothing is told of it."""
    verdicts: tuple[str, ...]
    """What the analyser has against it; empty when nothing, or when nobody says."""

    @property
    def verdict(self) -> str:
        """In words."""
        return "; ".join(self.verdicts) or GOOD


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """What a watcher says."""

    reports: Mapping[RollupWindow, LoadReport]
    verdicts: Verdicts | None
    now: float

    def nodes(self) -> tuple[NodeSeen, ...]:
        """Return all nodes by name: those that are told, those of which a series was dropped, and unknown ones."""
        against: dict[str, list[str]] = {}
        if self.verdicts is not None:
            for dropped in self.verdicts.dropped:
                said = f"{dropped.type}: {dropped.reason}, {dropped.detail}"
                against.setdefault(dropped.node or dropped.series, []).append(said)
            for name in self.verdicts.unmatched:
                against.setdefault(name, []).append("no node goes by this name, or several do")
            for name in self.verdicts.unknown:
                if name not in against:
                    against[name] = ["the provider has nothing of it"]
        told = {name for report in self.reports.values() for name in report.nodes}
        return tuple(self._node(name, tuple(against.get(name, ()))) for name in sorted(told | against.keys()))

    def _node(self, name: str, verdicts: tuple[str, ...]) -> NodeSeen:
        uses: dict[tuple[MetricType, RollupWindow], Use] = {}
        seen_at: int | None = None
        for window in WINDOWS:
            report = self.reports.get(window)
            load = None if report is None else report.nodes.get(name)
            if report is None or load is None:
                continue
            at = report.observed_at(name)
            seen_at = at if seen_at is None or (at is not None and at > seen_at) else seen_at
            for kind in MetricType:
                average = load.percent(kind, Rollup.AVG)
                average = load.percent(kind, Rollup.LATEST) if average is None else average
                if average is not None:
                    uses[kind, window] = Use(average, load.percent(kind, Rollup.STD))
        return NodeSeen(name, uses, None if seen_at is None else self.now - seen_at, verdicts)
