"""The analyser: which series can be believed. What cannot is dropped, with the reason counted; nothing is corrected.

Bad figures are worse than none: a scorer knows what to do about a node that it knows nothing of. A series is dropped if
a value is not a number (NaN, an infinity) or negative, or if its newest sample is too old or from the future. The time
of a sample decides about its age, so if the clock of the watcher or of the provider jumps, everything is dropped.

A value that does not change is not dropped while its samples are new. A node at 100 % has the same value for hours; a
scorer that knew nothing of it could prefer it.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from slack.loadwatcher.payload import WINDOWS, MetricType
from slack.loadwatcher.readings import Readings, Statistic

FUTURE_SECONDS = 60.0
"""Clocks of nodes, provider and watcher may differ so much."""


class Fault(StrEnum):
    """Why a series is dropped."""

    NOT_A_NUMBER = "NotANumber"
    NEGATIVE = "Negative"
    STALE = "Stale"
    FUTURE = "Future"


class Dropped(NamedTuple):
    """A series that is not told."""

    name: str
    """The provider's for the node."""
    type: MetricType
    fault: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which series of a fetch are good."""

    good: Mapping[MetricType, frozenset[str]]
    dropped: tuple[Dropped, ...]

    def counts(self) -> Mapping[Fault, int]:
        """Return how many were dropped for what; every fault is there."""
        counted = Counter(dropped.fault for dropped in self.dropped)
        return {fault: counted[fault] for fault in Fault}


class Analyser:
    """Judges each fetch by itself."""

    def __init__(self, *, max_age_seconds: float) -> None:
        self._max_age = max_age_seconds

    def judge(self, readings: Readings, now: float) -> Judgement:
        """Return which series can be believed at a time (Unix seconds)."""
        good: dict[MetricType, frozenset[str]] = {}
        dropped: list[Dropped] = []
        for kind in readings.types():
            figures = _figures(readings, kind)
            observed = readings.values_of(Statistic.OBSERVED_AT, kind)
            kept = set()
            for name in sorted(set().union(*figures)):
                values = [value for of_name in figures if (value := of_name.get(name)) is not None]
                fault = _value_fault(values) or self._time_fault(observed.get(name), now)
                if fault is None:
                    kept.add(name)
                else:
                    dropped.append(Dropped(name, kind, *fault))
            good[kind] = frozenset(kept)
        return Judgement(good, tuple(dropped))

    def _time_fault(self, at: float | None, now: float) -> tuple[Fault, str] | None:
        if at is None or not math.isfinite(at):
            return Fault.STALE, "no sample within the last 15 minutes"
        age = now - at
        if age > self._max_age:
            return Fault.STALE, f"the newest sample is {age:.0f} s old"
        if age < -FUTURE_SECONDS:
            return Fault.FUTURE, f"the newest sample is {-age:.0f} s ahead of our clock"
        return None


def _figures(readings: Readings, kind: MetricType) -> list[Mapping[str, float]]:
    rolled = (Statistic.AVERAGE, Statistic.DEVIATION)
    of_windows = [readings.values_of(statistic, kind, window) for statistic in rolled for window in WINDOWS]
    return [readings.values_of(Statistic.LATEST, kind), *of_windows]


def _value_fault(values: list[float]) -> tuple[Fault, str] | None:
    for value in values:
        if not math.isfinite(value):
            return Fault.NOT_A_NUMBER, str(value)
        if value < 0:
            return Fault.NEGATIVE, f"{value:.6g} %"
    return None
