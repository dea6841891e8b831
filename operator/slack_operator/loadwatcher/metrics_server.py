"""Metrics Server, asked through the API server and sampled by ourselves: it has the newest figure only."""

from collections.abc import Callable, Iterable, Mapping

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.loadwatcher import metrics_api
from slack.loadwatcher.node_names import KnownNode
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.readings import Readings
from slack.loadwatcher.sample import LoadSample
from slack.loadwatcher.samples import Rings
from slack_operator.loadwatcher.http_source import FetchFailed
from slack_operator.loadwatcher.provider import OnQueryError


class MetricsServerProvider:
    """The Metrics Server of one cluster."""

    source = "KubernetesMetricsServer"

    def __init__(
        self,
        connection: Connection,
        nodes: Callable[[], Mapping[str, KnownNode]],
        on_query_error: OnQueryError,
        *,
        sample_seconds: float,
        keep: Callable[[Iterable[LoadSample], float], None] = lambda *_: None,
    ) -> None:
        self.sample_seconds: float | None = sample_seconds
        self._connection = connection
        self._nodes = nodes
        self._on_query_error = on_query_error
        self._keep = keep
        self._rings = Rings(sample_seconds)
        self._failed: str | None = None

    def remember(self, samples: Iterable[LoadSample]) -> None:
        """Take samples of an earlier life in."""
        self._rings.add_samples(samples)

    def sample(self, now: float) -> None:
        """Ask once; what is new goes into the rings."""
        try:
            body = self._connection.request("GET", metrics_api.PATH)
            new = self._rings.add_samples(metrics_api.decode(body, self._nodes()))
        except (KubeError, InvalidProviderAnswer) as error:
            for kind in ("cpu", "memory"):
                self._on_query_error(kind)
            self._failed = str(error)
            if isinstance(error, ApiError) and error.not_found:
                self._failed = f"{error}: is metrics-server installed?"
            raise FetchFailed(self._failed) from None
        self._failed = None
        self._keep(new, now)

    def fetch(self, now: float) -> Readings:
        """Roll up the samples."""
        if self._failed is not None:
            raise FetchFailed(self._failed)
        return self._rings.readings(now)

    def close(self) -> None:
        """Nothing: the connection is the process's."""
