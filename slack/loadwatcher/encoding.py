"""A report as JSON: as the Trimaran proposal has it, or nested as upstream's load-watcher writes it.

The proposal's: nodes directly below `data`, `rollup` says what of the samples. Upstream's, which stock Trimaran plugins
read: nodes below `data.NodeMetricsMap`, `operator` says what of the samples and `rollup` the window, types with a
capital. Neither ever holds NaN, an infinity or null: upstream's reader would refuse all nodes for one, or take it for
an idle node.
"""

from enum import StrEnum

import msgspec

from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup

NESTED_KEY = "NodeMetricsMap"
UPSTREAM_TYPES = {
    MetricType.CPU: "CPU",
    MetricType.MEMORY: "Memory",
    MetricType.NETWORK: "Bandwidth",
    MetricType.DISK: "Storage",
}


class ReportFormat(StrEnum):
    """How reports are written."""

    PROPOSAL = "proposal"
    UPSTREAM = "upstream"


class _Metric(msgspec.Struct, frozen=True, gc=False):
    name: str
    type: str
    operator: str
    rollup: str
    value: float


class _Node(msgspec.Struct, frozen=True, omit_defaults=True):
    metrics: list[_Metric]
    tags: dict[str, str]
    metadata: dict[str, str]
    observed_at: int | None = msgspec.field(default=None, name="observedAt")


_ENCODER = msgspec.json.Encoder()


def encode(report: LoadReport, style: ReportFormat = ReportFormat.PROPOSAL) -> bytes:
    """Return a report as JSON."""
    if style is ReportFormat.PROPOSAL:
        return _ENCODER.encode(report)
    nested = {
        "timestamp": report.timestamp,
        "window": report.window,
        "source": report.source,
        "data": {NESTED_KEY: {name: _node(load, report.window.duration) for name, load in report.nodes.items()}},
    }
    return _ENCODER.encode(nested)


def _node(load: NodeLoadFigures, window: str) -> _Node:
    metadata = {"dataCenter": "", **load.metadata}
    averaged = {metric.type for metric in load.metrics if metric.rollup is Rollup.AVG}
    # upstream's TargetLoadPacking takes whichever of AVG and Latest comes last, its Peaks whichever comes first
    told = [metric for metric in load.metrics if metric.rollup is not Rollup.LATEST or metric.type not in averaged]
    return _Node([_metric(metric, window) for metric in told], load.tags, metadata, load.observed_at)


def _metric(metric: Metric, window: str) -> _Metric:
    return _Metric(metric.name, UPSTREAM_TYPES[metric.type], metric.rollup.value, window, metric.value)
