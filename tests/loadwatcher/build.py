"""Readings, built for tests."""

from collections.abc import Iterable, Mapping

from slack.loadwatcher.payload import REQUIRED, WINDOWS, MetricType, RollupWindow
from slack.loadwatcher.readings import ReadingKey, Readings, Statistic, Values

NOW = 1_800_000_000.0


def readings(
    names: Iterable[str] = ("node-1",),
    *,
    average: float = 20.0,
    deviation: float = 5.0,
    latest: float = 25.0,
    age_seconds: float = 10.0,
    now: float = NOW,
    windows: Iterable[RollupWindow] = WINDOWS,
    types: Iterable[MetricType] = REQUIRED,
    more: Mapping[ReadingKey, Values] | None = None,
) -> Readings:
    names = list(names)
    values: dict[ReadingKey, Values] = {}
    for kind in types:
        values[ReadingKey(Statistic.LATEST, kind)] = dict.fromkeys(names, latest)
        values[ReadingKey(Statistic.OBSERVED_AT, kind)] = dict.fromkeys(names, now - age_seconds)
        for window in WINDOWS:
            values[ReadingKey(Statistic.AVERAGE, kind, window)] = dict.fromkeys(names, average)
            values[ReadingKey(Statistic.DEVIATION, kind, window)] = dict.fromkeys(names, deviation)
    for key, given in (more or {}).items():
        values[key] = {**values.get(key, {}), **given}
    return Readings(now, values, frozenset(windows))
