"""What a provider gave in one fetch, by the names that it has for nodes; not yet judged, not yet matched to nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from slack.loadwatcher.payload import MetricType, RollupWindow

Values = Mapping[str, float]
"""By the provider's name for the node; percent, or Unix seconds. May hold NaN: the analyser counts it."""


class Statistic(StrEnum):
    """What is asked of a provider."""

    AVERAGE = "average"
    DEVIATION = "deviation"
    LATEST = "latest"
    OBSERVED_AT = "observed at"
    """When the newest sample was made."""


class ReadingKey(NamedTuple):
    """What some values are about."""

    statistic: Statistic
    type: MetricType
    window: RollupWindow | None = None
    """Of averages and deviations."""


@dataclass(frozen=True, slots=True)
class Readings:
    """One fetch."""

    ends_at: float
    """Where its windows end, in Unix seconds."""
    values: Mapping[ReadingKey, Values]
    windows: frozenset[RollupWindow] = field(default_factory=lambda: frozenset(RollupWindow))
    """Those that can be told; a sampler that is young has no long ones."""

    def values_of(self, statistic: Statistic, kind: MetricType, window: RollupWindow | None = None) -> Values:
        """Return values; none where they were not asked for."""
        return self.values.get(ReadingKey(statistic, kind, window), {})

    def types(self) -> tuple[MetricType, ...]:
        """Return what there is anything about."""
        there = {key.type for key, values in self.values.items() if values}
        return tuple(kind for kind in MetricType if kind in there)
