"""What a load watcher tells: the use of each node over one window, in percent of what the node has.

The terms are those of the Trimaran proposal's load watcher API: a window, and for each node metrics with a type and a
roll-up. Times are Unix seconds. Both wire formats, the proposal's and upstream's, are made from these values and read
into them (`encoding`, `decoding`); a value here is finite and not negative.
"""

from enum import StrEnum

import msgspec


class RollupWindow(StrEnum):
    """Over how long is rolled up."""

    FIFTEEN_MINUTES = "15m"
    TEN_MINUTES = "10m"
    FIVE_MINUTES = "5m"

    @property
    def seconds(self) -> int:
        """Its length."""
        return int(self[:-1]) * 60


WINDOWS = tuple(RollupWindow)
"""The longest first: the order in which one falls back."""


class MetricType(StrEnum):
    """What is used."""

    CPU = "cpu"
    MEMORY = "memory"
    NETWORK = "network"
    DISK = "disk"


REQUIRED = (MetricType.CPU, MetricType.MEMORY)
OPTIONAL = (MetricType.NETWORK, MetricType.DISK)


class Rollup(StrEnum):
    """What of the samples in a window."""

    AVG = "AVG"
    STD = "STD"
    LATEST = "Latest"


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One figure of one node."""

    name: str
    type: MetricType
    rollup: Rollup
    value: float
    """In percent."""


class NodeLoadFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of one node."""

    metrics: tuple[Metric, ...]
    tags: dict[str, str]
    metadata: dict[str, str]
    observed_at: int | None = msgspec.field(default=None, name="observedAt")
    """When its newest sample was made; None where a watcher does not say: then the window's end counts."""

    def percent(self, kind: MetricType, rollup: Rollup) -> float | None:
        """Return a figure; the last of several, None where there is none."""
        found = [metric.value for metric in self.metrics if metric.type is kind and metric.rollup is rollup]
        return found[-1] if found else None


class Span(msgspec.Struct, frozen=True):
    """The window that a report is about."""

    duration: RollupWindow
    start: int
    end: int


class LoadReport(msgspec.Struct, frozen=True):
    """The use of all nodes over one window."""

    timestamp: int
    """When it was made."""
    window: Span
    source: str
    """The provider's name."""
    nodes: dict[str, NodeLoadFigures] = msgspec.field(name="data")

    def observed_at(self, node: str) -> int | None:
        """Return when the newest sample of a node was made; None for a node that is not there."""
        load = self.nodes.get(node)
        if load is None:
            return None
        return self.window.end if load.observed_at is None else load.observed_at

    def report_of_node(self, node: str) -> "LoadReport | None":
        """Return the report of one node alone; None where there is nothing about it."""
        load = self.nodes.get(node)
        return None if load is None else msgspec.structs.replace(self, nodes={node: load})
