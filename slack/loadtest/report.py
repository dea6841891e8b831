"""What came of a load: how long its pods waited for a node, who made room, and how many nodes there were when."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slack.cluster.labels import API_VERSION

INSTANT_SECONDS = 2.0
"""As the operator counts it in `status`."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is at a moment."""

    seconds: float
    """Since the load began."""
    bound: int
    """Pods of the load with a node."""
    waiting: int
    placeholders: int
    """With a node."""
    nodes: int
    """That are ready."""


@dataclass(frozen=True, slots=True)
class LoadTestReport:
    """What came of it so far."""

    waits_seconds: tuple[float, ...]
    """From each pod's making to its binding, in order; of those without a node, how long they have waited."""
    unbound: int
    displaced: int
    """Placeholders that left their nodes while the load was there."""
    moments: tuple[Moment, ...]
    ended_seconds: float | None
    """When the load was taken away; None while it is there."""
    waits_for: str
    """What most of the pods without a node wait for, in the scheduler's words; '' for none."""
    ready_seconds: tuple[float, ...] = ()
    """From each pod's making until it was Ready, in order; only of pods that were seen to be."""

    @property
    def pods(self) -> int:
        """How many came."""
        return len(self.waits_seconds)

    @property
    def instant(self) -> int:
        """How many had a node within two seconds."""
        late = sum(wait > INSTANT_SECONDS for wait in self.waits_seconds)
        return max(0, self.pods - max(late, self.unbound))

    @property
    def all_ready(self) -> bool:
        """Whether each pod was seen to be Ready."""
        return len(self.ready_seconds) == self.pods

    def percentile_seconds(self, percent: float) -> float | None:
        """Return a percentile of the waits (nearest rank); None of no pods."""
        return _percentile(self.waits_seconds, percent)

    def ready_percentile_seconds(self, percent: float) -> float | None:
        """Return a percentile of the times to Ready, of the pods that became Ready; None of none."""
        return _percentile(self.ready_seconds, percent)

    @property
    def nodes_before(self) -> int:
        """How many nodes there were when it began."""
        return self.moments[0].nodes if self.moments else 0

    @property
    def nodes_most(self) -> int:
        """How many there were at most."""
        return max((moment.nodes for moment in self.moments), default=0)

    @property
    def nodes_now(self) -> int:
        """How many there are."""
        return self.moments[-1].nodes if self.moments else 0

    @property
    def nodes_gone_seconds(self) -> float | None:
        """How long after the load's end there were no more nodes than before; None when that was not seen."""
        if self.ended_seconds is None:
            return None
        after = [moment for moment in self.moments if moment.seconds >= self.ended_seconds]
        again = next((moment for moment in after if moment.nodes <= self.nodes_before), None)
        return None if again is None else max(0.0, again.seconds - self.ended_seconds)


def document(report: LoadTestReport, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return a report for machines."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Load",
        "pods": report.pods,
        "unbound": report.unbound,
        "instant": report.instant,
        "p50_seconds": _round(report.percentile_seconds(50)),
        "p99_seconds": _round(report.percentile_seconds(99)),
        "ready": len(report.ready_seconds),
        "ready_p50_seconds": _round(report.ready_percentile_seconds(50)),
        "ready_p99_seconds": _round(report.ready_percentile_seconds(99)),
        "displaced": report.displaced,
        "nodes_before": report.nodes_before,
        "nodes_most": report.nodes_most,
        "nodes_now": report.nodes_now,
        "nodes_gone_seconds": _round(report.nodes_gone_seconds),
        "waits_for": report.waits_for,
        "notes": list(notes),
        "timeline": [
            {
                "seconds": round(moment.seconds, 1),
                "bound": moment.bound,
                "waiting": moment.waiting,
                "placeholders": moment.placeholders,
                "nodes": moment.nodes,
            }
            for moment in without_repeats(report.moments)
        ],
    }


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return values[max(0, math.ceil(percent / 100 * len(values)) - 1)] if values else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def without_repeats(moments: Sequence[Moment]) -> list[Moment]:
    """Leave out what is as it was before: a steady minute is two rows."""
    kept: list[Moment] = []
    for index, moment in enumerate(moments):
        last = index == len(moments) - 1
        if (
            not kept
            or last
            or _figures(moment) != _figures(kept[-1])
            or _figures(moments[index + 1]) != _figures(moment)
        ):
            kept.append(moment)
    return kept


def _figures(moment: Moment) -> tuple[int, int, int, int]:
    return moment.bound, moment.waiting, moment.placeholders, moment.nodes
