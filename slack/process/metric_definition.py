"""One metric as data: what a reference page, the tests of rules and a running process all read."""

from typing import NamedTuple


class MetricDefinition(NamedTuple):
    """One metric as Prometheus has it."""

    name: str
    type: str
    """gauge, counter or histogram."""
    labels: tuple[str, ...]
    unit: str
    """What one is: cores, bytes, seconds; '' for a count or a flag."""
    help: str
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, without the infinite one."""


BUILD_INFO = MetricDefinition(
    "slack_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label."
)
UNREADABLE = MetricDefinition(
    "slack_unreadable_object",
    "gauge",
    ("path", "object"),
    "",
    "1 for each object that is there and cannot be read, by the path of its collection: it is too long, nested too "
    "deeply, or of another shape. It counts as it was last known. A hundred of a collection are named at the most.",
)
