"""`resource-slack demand controller`: its settings and its components.

The leader decides, makes pods and writes statuses. Every replica follows pods, pools and quotas, and answers the
throttle endpoint; a standby is ready, and its answers are the leader's.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slack.cluster.labels import API_VERSION, DEMAND_FIELD_MANAGER
from slack.demand.broker import LagSource
from slack.demand.crd import POOL_PLURAL, QUOTA_PLURAL
from slack.demand.model import Guards
from slack.demand.policy import POOL_KIND, QUOTA_KIND, ActivationPool, ActivationQuota, parse_pool, parse_quota
from slack.demand.trace import Line, encode
from slack.process import running
from slack.process.line_recorder import LineRecorder
from slack.process.running import CannotStart, Component
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack_operator.demand.brokers.broker_url import parse_broker_url
from slack_operator.demand.brokers.opening import open_lag_source
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.demand.loop import DecisionLoop, TickReport
from slack_operator.demand.metrics import DemandMetrics
from slack_operator.demand.pod_manifest import ProxyOptions
from slack_operator.demand.pods import PodContainers
from slack_operator.demand.pool_registry import PoolRegistry
from slack_operator.demand.pool_reporter import PoolReporter
from slack_operator.demand.throttle import AUDIENCE, Followed, Throttle
from slack_operator.demand.tick_state import TickState
from slack_operator.runtime.callers import Callers
from slack_operator.runtime.certificates import Certificate
from slack_operator.runtime.connecting import connected
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind
from slack_operator.runtime.policy_source import PolicySource, PolicySources
from slack_operator.runtime.process import Components, Process, ProcessContext, Server
from slack_operator.runtime.reconcile_loop import ReconcileLoop
from slack_operator.runtime.steady_clock import steady
from slack_operator.runtime.watches import Watches

BEGIN = b'{"type"'
"""Of each line of ours."""


def trace_recorder(file: Path) -> LineRecorder[Line]:
    """Make what records ticks and settings to a file."""
    return LineRecorder(file, encode, what="ticks", begin=BEGIN)


log = logging.getLogger(__name__)


def _kind(kind: str, plural: str, namespaces: tuple[str, ...]) -> Kind:
    without = f"there is no {kind} CRD: no container is created; resource-slack crd {kind} has it"
    return Kind(API_VERSION, kind, plural, without, namespaces)


class ControllerComponents:
    """All that knows each other, of one controller."""

    def __init__(
        self,
        settings: DemandControllerSettings,
        context: ProcessContext,
        metrics: DemandMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] | None = None,
    ) -> None:
        """Make all components, none of them started; `clock` has monotonic seconds, `unix` those of the wall."""
        assert settings.broker_url is not None, "the settings ask for it"
        assert settings.proxy_image is not None, "the settings ask for it"
        url, kind = settings.broker_url, parse_broker_url(settings.broker_url).kind
        self.metrics = metrics
        self.context = context
        self.board, self.followed = TickState(clock), Followed(clock)
        self.pools: Desired[ActivationPool] = Desired(self._changed, parse_pool, POOL_KIND.lower())
        self.quotas: Desired[ActivationQuota] = Desired(self._changed, parse_quota, QUOTA_KIND.lower())
        self.books = PoolRegistry(self.pools, self.quotas, broker=kind, tick_seconds=settings.tick)
        self.pods = PodContainers(
            context.connection,
            namespaces=settings.namespaces,
            options=ProxyOptions(image=settings.proxy_image, broker_url=url),
            pool_of=self.books.pool_of,
            uid_of=self.books.uid_of,
            may_write=context.leadership.may_write,
            on_failure=lambda creation, reason: self.loop.failed(creation, reason),
            on_done=metrics.on_done,
            clock=clock,
        )
        self.watches = Watches(self.pods.reflectors)
        self.recorder = None if settings.record is None else trace_recorder(settings.record)

        async def opened() -> LagSource:
            return await open_lag_source(url, settings.broker_credentials_file, name="resource-slack-demand")

        self.loop = DecisionLoop(
            open_broker=opened,
            containers=self.pods,
            wanted=self.books.wanted,
            may_act=self._may_act,
            on_turn=self._on_turn,
            guards=Guards.parse(settings.guards),
            node_start_seconds=lambda: self.pods.node_start_seconds,
            installation=lambda: context.leadership.installation,
            namespaces=settings.namespaces,
            recorder=self.recorder,
            clock=clock,
            unix=unix or steady(),
        )
        self.reporter = PoolReporter(
            books=self.books,
            board=self.board,
            writer=context.writer,
            recorder=context.recorder,
            may_write=context.leadership.may_write,
            clock=clock,
            wall=unix or time.time,
        )

    def _changed(self) -> None:
        self.books.touch()
        self.context.wake.touch()

    def _may_act(self) -> bool:
        return self.context.leadership.may_write() and self.books.synced and self.watches.stale() is None

    def _on_turn(self, turn: TickReport) -> None:
        book = self.books.now()
        self.board.record_tick(turn, frozenset(book.pools))
        self.metrics.on_turn(turn, book)
        if turn.lags is not None:
            self.books.read(turn.lags)

    def report_due(self) -> None:
        """Write statuses, or follow the leader's."""
        leads = self.context.leadership.may_write()
        book = self.books.now()
        self.metrics.show_leader(leads, book.pools.keys())
        if leads:
            self.books.others(self.pods.counts({key: book.pools[key].uid for key in book.refused}))
            self.reporter.write_due()
        else:
            self.board.forget()
            self.followed.refresh({key: entry.status for key, entry in book.pools.items()})


def build(settings: DemandControllerSettings, stopping: Stopping) -> Process:
    """Connect, and make all components of one controller.

    Raises:
        CannotStart: a certificate or the connection is not as it must be.
    """
    metrics = DemandMetrics()
    certificate = Certificate.from_files(settings.tls_cert_file, settings.tls_key_file)
    connection = connected(settings, metrics.on_request)
    context = ProcessContext(
        settings, connection, stopping, component=DEMAND_FIELD_MANAGER, field_manager=DEMAND_FIELD_MANAGER
    )
    if settings.record is not None:
        try:
            settings.record.open("ab").close()
        except OSError as error:
            raise CannotStart(f"--record {settings.record}: cannot be written: {error.strerror or error}") from None
    components = ControllerComponents(settings, context, metrics)
    throttle = _throttle(settings, context, components, certificate)

    def turn() -> None:
        if certificate is not None:
            certificate.refresh()
        components.report_due()

    def whole() -> Mapping[str, object]:
        return {"containers": len(components.pods.seen())}

    workers: list[Component] = [components.pods, components.loop]
    if components.recorder is not None:
        workers.insert(0, components.recorder)
    servers = []
    if throttle is not None:
        address = settings.throttle_listen or ""
        servers.append(Server(throttle, flag("throttle_listen"), address, f"the throttle endpoint at {address}"))
    process = Components(
        watches=components.watches,
        policies=PolicySources(
            PolicySource(connection, components.pools, _kind(POOL_KIND, POOL_PLURAL, settings.namespaces)),
            PolicySource(connection, components.quotas, _kind(QUOTA_KIND, QUOTA_PLURAL, settings.namespaces)),
        ),
        loop=ReconcileLoop(turn, context.wake, heart=context.heart),
        registry=metrics.registry,
        unreadable=metrics.unreadable,
        unready=lambda: components.watches.stale() or components.loop.unhealthy(),
        whole=whole,
        standby_follows=True,
        workers=workers,
        servers=servers,
    )
    return Process(context, process)


def _throttle(
    settings: DemandControllerSettings,
    context: ProcessContext,
    components: ControllerComponents,
    certificate: Certificate | None,
) -> Throttle | None:
    if settings.throttle_listen is None:
        return None
    callers = None
    if settings.throttle_account is not None:
        account = "system:serviceaccount:" + settings.throttle_account.replace("/", ":")
        callers = Callers(context.connection, account, AUDIENCE, None)
    return Throttle(
        *host_port(settings.throttle_listen),
        books=components.books,
        board=components.board,
        followed=components.followed,
        leads=context.leadership.may_write,
        publish=components.loop.publish,
        most_body_bytes=components.loop.most_body_bytes,
        callers=callers,
        on_rejected=components.metrics.on_rejected,
        tls=None if certificate is None else certificate.context,
    )


def run(settings: DemandControllerSettings) -> int:
    """Run the controller until a signal; returns the process's exit code."""
    return running.run(settings, build)
