"""The analyser: which series can be believed. What cannot is dropped, with the reason counted; nothing is corrected.

Bad figures are worse than none: a scorer knows what to do about a node that it knows nothing of. Not a number: NaN, an
infinity. Negative. Frozen: it has not moved at all for long, as behind an exporter or a proxy that repeats itself; 0 is
no such value, for what is switched off stays at 0. Stale and from the future: the newest sample's own time says so, by
which a watcher or a provider whose clock has jumped drops everything, rather than telling old figures as new ones.
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
LEAST_READINGS = 5
"""So many different fetches must have given a frozen value."""


class Fault(StrEnum):
    """Why a series is dropped."""

    NOT_A_NUMBER = "NotANumber"
    NEGATIVE = "Negative"
    FROZEN = "Frozen"
    STALE = "Stale"
    FUTURE = "Future"


class Dropped(NamedTuple):
    """A series that is not told."""

    name: str
    """The provider's for the node."""
    type: MetricType
    fault: Fault
    detail: str


class _Still(NamedTuple):
    value: float
    since: float
    sample_at: float
    times: int


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
    """Judges fetch after fetch; remembers only since when a series has not moved."""

    def __init__(self, *, max_age_seconds: float, frozen_after_seconds: float) -> None:
        self._max_age = max_age_seconds
        self._frozen_after = frozen_after_seconds
        self._still: dict[tuple[MetricType, str], _Still] = {}

    def judge(self, readings: Readings, now: float) -> Judgement:
        """Return which series can be believed at a time (Unix seconds)."""
        good: dict[MetricType, frozenset[str]] = {}
        dropped: list[Dropped] = []
        still: dict[tuple[MetricType, str], _Still] = {}
        for kind in readings.types():
            figures = _figures(readings, kind)
            latest = readings.of(Statistic.LATEST, kind)
            observed = readings.of(Statistic.OBSERVED_AT, kind)
            kept = set()
            for name in sorted(set().union(*figures)):
                values = [value for of_name in figures if (value := of_name.get(name)) is not None]
                at = observed.get(name)
                if (value := latest.get(name)) is not None and at is not None and math.isfinite(value):
                    still[kind, name] = self._seen((kind, name), value, at, now)
                fault = _value_fault(values) or self._time_fault(at, now) or self._frozen(still.get((kind, name)), now)
                if fault is None:
                    kept.add(name)
                else:
                    dropped.append(Dropped(name, kind, *fault))
            good[kind] = frozenset(kept)
        self._still = still
        return Judgement(good, tuple(dropped))

    def _seen(self, key: tuple[MetricType, str], value: float, at: float, now: float) -> _Still:
        before = self._still.get(key)
        if before is None or before.value != value or now < before.since:
            return _Still(value, now, at, 1)
        return _Still(value, before.since, at, before.times + (at > before.sample_at))

    def _frozen(self, still: _Still | None, now: float) -> tuple[Fault, str] | None:
        if still is None or not self._frozen_after or not still.value or still.times < LEAST_READINGS:
            return None
        seconds = now - still.since
        if seconds < self._frozen_after:
            return None
        return Fault.FROZEN, f"exactly {still.value:.6g} % for {seconds:.0f} s"

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
    of_windows = [readings.of(statistic, kind, window) for statistic in rolled for window in WINDOWS]
    return [readings.of(Statistic.LATEST, kind), *of_windows]


def _value_fault(values: list[float]) -> tuple[Fault, str] | None:
    for value in values:
        if not math.isfinite(value):
            return Fault.NOT_A_NUMBER, str(value)
        if value < 0:
            return Fault.NEGATIVE, f"{value:.6g} %"
    return None
