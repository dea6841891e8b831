"""Readings, built for tests."""

from collections.abc import Iterable, Mapping

from slack.loadwatcher.payload import REQUIRED, WINDOWS, MetricType, Window
from slack.loadwatcher.readings import Key, Readings, Statistic, Values

NOW = 1_800_000_000.0


def readings(
    names: Iterable[str] = ("node-1",),
    *,
    average: float = 20.0,
    deviation: float = 5.0,
    latest: float = 25.0,
    age_seconds: float = 10.0,
    now: float = NOW,
    windows: Iterable[Window] = WINDOWS,
    types: Iterable[MetricType] = REQUIRED,
    more: Mapping[Key, Values] | None = None,
) -> Readings:
    names = list(names)
    values: dict[Key, Values] = {}
    for kind in types:
        values[Key(Statistic.LATEST, kind)] = dict.fromkeys(names, latest)
        values[Key(Statistic.OBSERVED_AT, kind)] = dict.fromkeys(names, now - age_seconds)
        for window in WINDOWS:
            values[Key(Statistic.AVERAGE, kind, window)] = dict.fromkeys(names, average)
            values[Key(Statistic.DEVIATION, kind, window)] = dict.fromkeys(names, deviation)
    for key, given in (more or {}).items():
        values[key] = {**values.get(key, {}), **given}
    return Readings(now, values, frozenset(windows))
