"""The metric that names objects that are there and cannot be read, of every process that lists or watches."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from slack.process.metric_definition import UNREADABLE

Unreadable = Callable[[], Mapping[str, Iterable[str]]]
"""Gives the names of such objects, by the path of their collection."""


class UnreadableMetric(Collector):
    """slack_unreadable_object, asked for when somebody scrapes. Any thread may call."""

    def __init__(self) -> None:
        self._sources: tuple[Unreadable, ...] = ()

    def follow(self, *sources: Unreadable) -> None:
        """Show the objects of these collections, beside those that are shown already."""
        self._sources += sources

    def collect(self) -> Iterable[Metric]:
        """Give one family."""
        family = GaugeMetricFamily(UNREADABLE.name, UNREADABLE.help, labels=UNREADABLE.labels)
        for source in self._sources:
            for path, names in sorted(source().items()):
                for name in sorted(names):
                    family.add_metric([path, name], 1)
        yield family
