"""A Prometheus, or what speaks its language: Thanos, Mimir, VictoriaMetrics. Instant queries, one after another.

A question about CPU or memory that fails fails the fetch; one about network or disk is counted and left out.
"""

import logging
from collections.abc import Iterable, Mapping

from slack.loadwatcher import promql
from slack.loadwatcher.payload import MetricType
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.readings import ReadingKey, Readings, Values
from slack.loadwatcher.sample import LoadSample
from slack.process.outages import Outages
from slack_operator.loadwatcher.http_source import FetchFailed, HttpSource
from slack_operator.loadwatcher.provider import OnQueryError
from slack_operator.loadwatcher.settings import LoadWatcherSettings, QuerySet

log = logging.getLogger(__name__)

_SETS = {QuerySet.NODE_EXPORTER: promql.NODE_EXPORTER, QuerySet.UPSTREAM: promql.UPSTREAM}


def own_queries(settings: LoadWatcherSettings) -> Mapping[MetricType, str]:
    """Return the expressions that the user gives."""
    given = {
        MetricType.CPU: settings.cpu_query,
        MetricType.MEMORY: settings.memory_query,
        MetricType.NETWORK: settings.network_query,
        MetricType.DISK: settings.disk_query,
    }
    return {kind: query for kind, query in given.items() if query is not None}


class PrometheusProvider:
    """One Prometheus."""

    source = "Prometheus"
    sample_seconds: float | None = None

    def __init__(self, settings: LoadWatcherSettings, http: HttpSource, on_query_error: OnQueryError) -> None:
        base, own = _SETS[settings.queries], own_queries(settings)
        self._questions = promql.questions(base, settings.step, own, settings.node_label)
        self._labels = {kind: promql.label_of(base, own, settings.node_label, kind) for kind in MetricType}
        self._http = http
        self._on_query_error = on_query_error
        self._outages = Outages()

    def remember(self, samples: Iterable[LoadSample]) -> None:
        """Do nothing: it has a history."""

    def sample(self, now: float) -> None:
        """Do nothing: it has a history."""

    def fetch(self, now: float) -> Readings:
        """Ask all questions."""
        values: dict[ReadingKey, Values] = {}
        for question in self._questions:
            kind = question.key.type
            try:
                body = self._http.post("/api/v1/query", {"query": question.query, "time": f"{now:.3f}"})
                values[question.key] = promql.decode(body, self._labels[kind], question.key)
            except (FetchFailed, InvalidProviderAnswer) as error:
                self._on_query_error(kind.value)
                where = "" if isinstance(error, FetchFailed) else f"{self._http.address}: "
                if question.required:
                    raise FetchFailed(f"{where}{error} ({question.key.statistic} of {kind})") from None
                if self._outages.is_new(str(error)):
                    log.warning("%s is left out: %s%s", kind, where, error)
        return Readings(now, values)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()
