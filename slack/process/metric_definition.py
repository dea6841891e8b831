"""One metric as data: what a reference page, the tests of rules and a running process all read."""

from collections.abc import Iterator
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


class MetricTable:
    """The metrics of one process, in the order of their declaration; each is declared once, by name."""

    def __init__(self, *shared: MetricDefinition) -> None:
        """Begin with metrics that several processes have."""
        self._definitions = list(shared)

    def declare(
        self,
        name: str,
        metric_type: str,
        labels: tuple[str, ...],
        unit: str,
        help_text: str,
        buckets: tuple[float, ...] = (),
    ) -> MetricDefinition:
        """Add a metric and return it; the arguments are those of MetricDefinition."""
        definition = MetricDefinition(name, metric_type, labels, unit, help_text, buckets)
        self._definitions.append(definition)
        return definition

    def __iter__(self) -> Iterator[MetricDefinition]:
        """Yield all metrics."""
        return iter(self._definitions)


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
