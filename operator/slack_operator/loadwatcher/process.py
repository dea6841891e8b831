"""`resource-slack load-watcher serve`: its settings and its parts. It writes nothing but its own state file.

Threads: the main one samples and fetches, one watches nodes, two serve. They meet in the board and in the view of the
nodes. There is no lease: each process fetches for itself, so that a second one is a spare that is warm. Light: neither
kopf nor aiohttp nor pydantic, 100 MiB at 5,000 nodes.
"""

import time
from collections.abc import Mapping

from slack.kube.connection import Connection
from slack.loadwatcher.encoding import ReportFormat
from slack.loadwatcher.node_names import AsTheyAre, KnownNode, NodeNames
from slack.loadwatcher.payload import RollupWindow
from slack.process import running
from slack.process.health import HealthServer
from slack.process.http_server import HttpServer
from slack.process.running import listen
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.supervision.supervisor import Supervisor
from slack_operator.loadwatcher import provider as providers
from slack_operator.loadwatcher.api import Api
from slack_operator.loadwatcher.http_source import HttpSource
from slack_operator.loadwatcher.influxdb import InfluxProvider
from slack_operator.loadwatcher.metrics import LoadWatcherMetrics
from slack_operator.loadwatcher.node_view import NodeNameView, watches
from slack_operator.loadwatcher.prometheus import PrometheusProvider
from slack_operator.loadwatcher.report_store import LoadSnapshot, ReportStore
from slack_operator.loadwatcher.settings import LoadWatcherSettings, Provider
from slack_operator.loadwatcher.store import Store
from slack_operator.loadwatcher.watcher import Clock, KnownNodes, Watcher
from slack_operator.runtime.certificates import Certificate
from slack_operator.runtime.connecting import connected


class ClusterNodes:
    """The nodes of a cluster, watched."""

    def __init__(self, connection: Connection, view: NodeNameView) -> None:
        self._view = view
        self.watches = watches(connection, view)

    def names(self) -> NodeNames:
        """Return what they go by."""
        return self._view.names()

    def stale(self) -> str | None:
        """Say why they are not known."""
        return self.watches.stale()

    def known(self) -> tuple[KnownNode, ...]:
        """Return all of them."""
        return tuple(self._view.nodes().values())


class NoCluster:
    """Names are taken as they are."""

    def names(self) -> NodeNames:
        """Return what takes any name."""
        return AsTheyAre()

    def stale(self) -> str | None:
        """Nothing has to be known."""
        return None

    def known(self) -> None:
        """Nobody is asked."""


class LoadWatcher:
    """All parts of one process. `start`, `run` and `stop` belong to the main thread."""

    def __init__(
        self,
        settings: LoadWatcherSettings,
        stopping: Stopping,
        *,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._stopping = stopping
        self._supervisor = Supervisor()
        self.metrics = LoadWatcherMetrics()
        self._certificate = Certificate.from_files(settings.tls_cert_file, settings.tls_key_file)
        self._connection = connected(settings, self.metrics.on_api_request) if settings.match_nodes else None
        self._view = NodeNameView()
        self._cluster = None if self._connection is None else ClusterNodes(self._connection, self._view)
        self._store = (
            None if settings.state_file is None else Store(settings.state_file, on_error=self.metrics.on_state_error)
        )
        style = ReportFormat(settings.format.value)
        self.board = ReportStore(style, max_age_seconds=settings.max_age, clock=wall)
        self._provider = self._make_provider()
        nodes: KnownNodes = self._cluster or NoCluster()
        self.watcher = Watcher(
            settings, self._provider, nodes, self.board, self.metrics, store=self._store, clock=clock, wall=wall
        )
        if self._cluster is not None:
            self.metrics.unreadable.follow(self._cluster.watches.unreadable)
        self.health = HealthServer(
            *host_port(settings.listen), healthy=self.unhealthy, ready=self.unready, registry=self.metrics.registry
        )
        api = Api(self.board, style, self.ill, self.metrics.on_reply)
        tls = None if self._certificate is None else self._certificate.context
        self.api = HttpServer(*host_port(settings.api_listen), api.answer, name="api", tls=tls)

    def unhealthy(self) -> str | None:
        """Return which part that was started is dead or stuck; None if all work."""
        return self._supervisor.unhealthy()

    def unready(self) -> str | None:
        """Say why nothing is told; None when there are figures."""
        if self.board.report(RollupWindow.FIFTEEN_MINUTES) is not None:
            return None
        return f"no figures: {self.watcher.error or 'nothing that the provider says can be used, see /analysis'}"

    def ill(self) -> str | None:
        """Say what /watcher/health says: figures are there, and the provider answers."""
        return self.unready() or self.watcher.error

    def start(self) -> None:
        """Serve what the state file has, and watch.

        Raises:
            CannotStart: an address cannot be bound, or the state file not be had.
        """
        if self._store is not None:
            self._store.open()
            self._refill(self._store)
        listen(self.health, flag("listen"), self._settings.listen)
        self._supervisor.watch(self.health)
        listen(self.api, flag("api_listen"), self._settings.api_listen)
        self._supervisor.watch(self.api)
        if self._cluster is not None:
            self._supervisor.start(self._cluster.watches)
        self.watcher.heart.beat()
        self._supervisor.watch(self.watcher)

    def run(self) -> None:
        """Wait for the nodes, then turn until the end."""
        nodes: KnownNodes = self._cluster or NoCluster()
        while nodes.stale() is not None and self.watcher.age_seconds < self._settings.interval:
            if self._stopping.wait(0.1):
                return
        refresh = (lambda: None) if self._certificate is None else self._certificate.refresh
        with self._stopping.interrupts():  # a provider may be silent for half a minute
            self.watcher.run(self._stopping, refresh)

    def stop(self) -> None:
        """End everything."""
        self.api.stop()
        if self._cluster is not None:
            self._cluster.watches.stop()
        self._provider.close()
        if self._store is not None:
            self._store.close()
        self.health.stop()
        if self._connection is not None:
            self._connection.close()

    def _make_provider(self) -> providers.LoadProvider:
        settings, on_error = self._settings, self.metrics.on_query_error
        if settings.provider is Provider.PROMETHEUS:
            return PrometheusProvider(settings, HttpSource.from_settings(settings), on_error)
        if settings.provider is Provider.INFLUXDB:
            return InfluxProvider(settings, HttpSource.from_settings(settings), on_error)
        assert self._connection is not None, "the settings ask for nodes with this provider"
        from slack_operator.loadwatcher.metrics_server import MetricsServerProvider  # with numpy: 16 MiB

        keep = (lambda *_: None) if self._store is None else self._store.keep
        return MetricsServerProvider(
            self._connection, self._nodes, on_error, sample_seconds=settings.sample_interval, keep=keep
        )

    def _nodes(self) -> Mapping[str, KnownNode]:
        return self._view.nodes()

    def _refill(self, store: Store) -> None:
        now = self._wall()
        self._provider.remember(store.samples(now))
        reports = store.reports(now, self._settings.max_age)
        if reports:
            self.board.publish(LoadSnapshot(reports))


def build(settings: LoadWatcherSettings, stopping: Stopping) -> LoadWatcher:
    """Make the process; nothing of it is started."""
    return LoadWatcher(settings, stopping)


def run(settings: LoadWatcherSettings) -> int:
    """Run the watcher until a signal; returns the process's exit code."""
    return running.run(settings, build)
