"""`resource-slack throttler controller`: its settings and its components.

The webhook is served by every replica, from before the first list to the end, and readiness waits for no lease: who
leads matters to agents, which a standby sends on, and to those who write. Light on the API server: it is asked for what
a turn needs, never for a pod; with permits in ConfigMaps it follows those that are bound and pending.
"""

import logging
import ssl
from collections.abc import Callable

import msgspec

from slack.cluster.labels import API_VERSION, THROTTLER_FIELD_MANAGER
from slack.kube.connection import Connection
from slack.kube.reflector import Reflector
from slack.process import running
from slack.process.outages import Outages
from slack.process.running import CannotStart
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.throttler.config import KIND, ThrottlePolicy, TimeoutAction, parse_throttle_policy
from slack.throttler.crd import PLURAL
from slack.throttler.injection import Backend, GateOptions
from slack.throttler.protocol import AUDIENCE
from slack_operator.runtime.callers import Callers
from slack_operator.runtime.certificates import Certificate, InvalidCertificate
from slack_operator.runtime.connecting import connected
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind
from slack_operator.runtime.policy_source import PolicySource
from slack_operator.runtime.process import Components, Process, ProcessContext, Server
from slack_operator.runtime.reconcile_loop import ReconcileLoop
from slack_operator.runtime.watches import Watches
from slack_operator.throttler.authority import authority_of
from slack_operator.throttler.controller import held_pods
from slack_operator.throttler.controller.admission import NEVER, AdmissionRules
from slack_operator.throttler.controller.env_files import EnvFiles
from slack_operator.throttler.controller.late_pods import LatePods
from slack_operator.throttler.controller.metrics import ThrottlerControllerMetrics
from slack_operator.throttler.controller.node_labels import NodeLabels, NodeRow, reflector
from slack_operator.throttler.controller.permits import Permits
from slack_operator.throttler.controller.policy_reporter import PolicyReporter
from slack_operator.throttler.controller.receiver import Receiver
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings
from slack_operator.throttler.controller.starts import Starts
from slack_operator.throttler.controller.webhook import Webhook

log = logging.getLogger(__name__)

COMPONENT = THROTTLER_FIELD_MANAGER
FILES_SECONDS = 5.0
"""So often files of certificates are looked at."""

THROTTLE_POLICY = Kind(
    API_VERSION,
    KIND,
    PLURAL,
    "there is no ThrottlePolicy CRD: no start is throttled; resource-slack crd ThrottlePolicy has it",
)


class Injection:
    """What the webhook judges by, kept up to date. `refresh` belongs to the loop's thread, `rules` to any."""

    def __init__(
        self, settings: ThrottlerControllerSettings, env_files: EnvFiles, desired: Desired[ThrottlePolicy]
    ) -> None:
        """Read the agents' authority.

        Raises:
            InvalidCertificate: it cannot be read.
        """
        self._settings = settings
        self._env_files, self._desired = env_files, desired
        self._by_file = _backend(settings) is Backend.FILE
        self._outages = Outages()
        self._rules = self._made(_authority(settings) if self._by_file else "")

    @property
    def rules(self) -> AdmissionRules:
        """What holds now."""
        return self._rules

    def refresh(self) -> None:
        """Look at the file, and ask the API server if it is time to; with ConfigMaps neither matters."""
        if not self._by_file:
            return
        self._env_files.refresh()
        authority = self._rules.options.authority
        try:
            authority = _authority(self._settings)
        except InvalidCertificate as error:
            if self._outages.is_new(str(error)):
                log.warning("gates are told of the former authority: %s", error)
        self._rules = self._made(authority)

    def _made(self, authority: str) -> AdmissionRules:
        settings = self._settings
        return AdmissionRules(
            backend=_backend(settings),
            options=GateOptions(
                image=settings.gate_image or "",
                agent_port=settings.agent_port,
                agent_name=settings.agent_name,
                authority=authority,
                fail_open_after_seconds=settings.fail_open_after,
                image_pull_policy=settings.gate_image_pull_policy,
                requests=settings.gate_requests or {},
                limits=settings.gate_limits or {},
            ),
            policies=_readable(self._desired),
            left_out=NEVER | {settings.namespace},
            unsupported=self._env_files.problem,
        )


def build(settings: ThrottlerControllerSettings, stopping: Stopping) -> Process:
    """Connect, and make all components of one controller.

    Raises:
        CannotStart: a certificate or the connection is not as it must be.
    """
    metrics = ThrottlerControllerMetrics()
    files = settings.tls_cert_file, settings.tls_key_file, settings.webhook_client_ca_file
    certificate = Certificate.from_files(*files)
    tls = None if certificate is None else certificate.context
    connection = connected(settings, metrics.on_request)
    context = ProcessContext(settings, connection, stopping, component=COMPONENT, field_manager=COMPONENT)
    desired: Desired[ThrottlePolicy] = Desired(context.wake.touch, parse_throttle_policy, KIND.lower())
    injection = _injection(settings, connection, desired)
    metrics.show_unsupported(injection.rules.unsupported is not None)
    labels = NodeLabels()
    permits = _permits(settings, context, metrics, lambda: starts, desired, labels)
    nodes = reflector(connection, labels)
    held = () if permits is None else (held_pods.reflector(connection, permits.pods),)
    watches = Watches(held, unless_forbidden=(nodes,))
    policies = PolicySource(connection, desired, THROTTLE_POLICY)
    late_pods = _late_pods(settings, context, metrics, desired, labels, stale=lambda: _stale(policies, nodes, watches))
    starts = Starts(
        context.wake.touch,
        permits.reported if permits is not None else lambda report: None,
        late_pods.asked if late_pods is not None else lambda node, said: None,
    )
    reporter = _reporter(context, metrics, desired, labels, starts, watches, sees_nodes=lambda: not nodes.forbidden)
    webhook = _webhook(settings, injection, metrics, tls)
    receiver = _receiver(settings, context, starts, tls)

    def turn() -> None:
        if certificate is not None:
            certificate.refresh()
        injection.refresh()
        metrics.show_unsupported(injection.rules.unsupported is not None)
        metrics.show_reports(receiver.taken, sum(receiver.refused.values()))
        reporter.write_due()

    components = Components(
        watches=watches,
        policies=policies,
        loop=ReconcileLoop(turn, context.wake, heart=context.heart),
        registry=metrics.registry,
        unreadable=metrics.unreadable,
        unready=lambda: None,
        whole=dict,
        workers=tuple(worker for worker in (permits, late_pods) if worker is not None),
        servers=_servers(settings, webhook, receiver),
    )
    return Process(context, components)


def _readable(desired: Desired[ThrottlePolicy]) -> tuple[ThrottlePolicy, ...]:
    return tuple(entry.policy for entry in desired.entries() if entry.policy is not None)


def _injection(
    settings: ThrottlerControllerSettings, connection: Connection, desired: Desired[ThrottlePolicy]
) -> Injection:
    try:
        injection = Injection(settings, EnvFiles(connection, settings.namespace), desired)
    except InvalidCertificate as error:
        raise CannotStart(f"{flag('agent_ca_file')}: {error}") from None
    injection.refresh()  # before the first pod is seen: one that is gated where it cannot be is refused
    return injection


def _webhook(
    settings: ThrottlerControllerSettings,
    injection: Injection,
    metrics: ThrottlerControllerMetrics,
    tls: ssl.SSLContext | None,
) -> Webhook:
    return Webhook(
        *host_port(settings.webhook_listen), rules=lambda: injection.rules, on_admission=metrics.on_admission, tls=tls
    )


def _reporter(
    context: ProcessContext,
    metrics: ThrottlerControllerMetrics,
    desired: Desired[ThrottlePolicy],
    labels: NodeLabels,
    starts: Starts,
    watches: Watches,
    *,
    sees_nodes: Callable[[], bool],
) -> PolicyReporter:
    return PolicyReporter(
        desired=desired,
        labels=labels,
        starts=starts,
        writer=context.writer,
        recorder=context.recorder,
        metrics=metrics,
        may_write=context.leadership.may_write,
        stale=watches.stale,
        sees_nodes=sees_nodes,
    )


def _servers(settings: ThrottlerControllerSettings, webhook: Webhook, receiver: Receiver) -> tuple[Server, ...]:
    return (
        Server(webhook, flag("webhook_listen"), settings.webhook_listen, f"pods at {settings.webhook_listen}"),
        Server(receiver, flag("reports_listen"), settings.reports_listen, f"reports at {settings.reports_listen}"),
    )


def _permits(
    settings: ThrottlerControllerSettings,
    context: ProcessContext,
    metrics: ThrottlerControllerMetrics,
    starts: Callable[[], Starts],
    desired: Desired[ThrottlePolicy],
    labels: NodeLabels,
) -> Permits | None:
    """Make what writes permits into ConfigMaps; None where gates give them."""
    if _backend(settings) is Backend.FILE:
        return None

    def fail_open_after_seconds(node: str) -> float:
        policy = labels.policy_of(node, _readable(desired))
        return settings.fail_open_after if policy is None else policy.spec.fail_open_after.total_seconds()

    return Permits(
        writer=context.writer,
        recorder=context.recorder,
        count=metrics.on_permits,
        may_write=context.leadership.may_write,
        fail_open_after_seconds=fail_open_after_seconds,
        patience_seconds=lambda: 1.5 * starts().moving_seconds + 1.0,
    )


def _late_pods(
    settings: ThrottlerControllerSettings,
    context: ProcessContext,
    metrics: ThrottlerControllerMetrics,
    desired: Desired[ThrottlePolicy],
    labels: NodeLabels,
    *,
    stale: Callable[[], str | None],
) -> LatePods | None:
    """Make what evicts late pods; None if this release may not."""
    if not settings.evict_late_pods:
        return None

    def deletes(node: str) -> bool:
        policy = labels.policy_of(node, _readable(desired))
        return policy is not None and policy.spec.start_timeout.then is TimeoutAction.DELETE

    return LatePods(
        server=context.connection,
        decode=msgspec.json.decode,
        count=metrics.on_late_pod,
        may_write=context.leadership.may_write,
        deletes=deletes,
        stale=stale,
    )


def _stale(policies: PolicySource, nodes: Reflector[NodeRow], watches: Watches) -> str | None:
    """Say why a node's policy, as it is known here, may not be the present one; None if it is."""
    if nodes.forbidden:
        return f"nodes may not be watched: {nodes.last_error}"
    return policies.stale() or watches.stale()


def _backend(settings: ThrottlerControllerSettings) -> Backend:
    return Backend(settings.backend)


def _receiver(
    settings: ThrottlerControllerSettings, context: ProcessContext, starts: Starts, tls: ssl.SSLContext | None
) -> Receiver:
    agents, viewers = (
        f"system:serviceaccount:{settings.namespace}:{name}"
        for name in (settings.agent_service_account, settings.viewer_service_account)
    )
    return Receiver(
        *host_port(settings.reports_listen),
        agents=Callers(context.connection, agents, AUDIENCE, lambda *_: None),  # where gates work, it is named
        viewers=Callers(context.connection, viewers, AUDIENCE, None),
        starts=starts,
        unready=context.leadership.standby,
        tls=tls,
    )


def _authority(settings: ThrottlerControllerSettings) -> str:
    assert settings.agent_ca_file is not None, "the settings ask for it with this backend"
    return authority_of(settings.agent_ca_file)


def run(settings: ThrottlerControllerSettings) -> int:
    """Run the controller until a signal; returns the process's exit code."""
    return running.run(settings, build)
