"""`resource-slack audit controller`: its settings and its components.

Only the holder of the lease takes reports and writes, and only it is ready: a Service leads agents to it alone, since
reports spread over several processes would leave each with half of the cluster. After a change of leaders reports come
anew within a minute. So one replica is enough, or a second that waits unready; a Deployment must then be allowed to
have one replica unavailable.
"""

from slack.audit.api.crd import POLICY_PLURAL
from slack.audit.api.messages import AUDIENCE, MAX_REPORT_BYTES, REPORTS_PATH
from slack.audit.api.policy import KIND, AuditPolicy, parse_audit_policy
from slack.cluster.labels import API_VERSION, AUDIT_FIELD_MANAGER
from slack.process import running
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack_operator.auditor.controller import receiver
from slack_operator.auditor.controller.cluster_view import AuditedClusterView
from slack_operator.auditor.controller.cluster_watches import AuditWatches
from slack_operator.auditor.controller.enforcer import Enforcer
from slack_operator.auditor.controller.event_reporter import AuditEventReporter
from slack_operator.auditor.controller.limit_record import LimitRecord
from slack_operator.auditor.controller.metrics import AuditControllerMetrics
from slack_operator.auditor.controller.node_findings import NodeFindings
from slack_operator.auditor.controller.reconciler import Reconciler
from slack_operator.auditor.controller.reports import Reports
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.runtime.callers import Callers
from slack_operator.runtime.certificates import Certificate
from slack_operator.runtime.connecting import connected
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind
from slack_operator.runtime.policy_source import PolicySource
from slack_operator.runtime.process import Components, Process, ProcessContext, Server
from slack_operator.runtime.reconcile_loop import ReconcileLoop
from slack_operator.runtime.report_receiver import ReportReceiver

COMPONENT = AUDIT_FIELD_MANAGER
EVENTS_QUEUE = 1024

AUDIT_POLICY = Kind(
    API_VERSION,
    KIND,
    POLICY_PLURAL,
    "there is no CpuAuditPolicy CRD: nothing is reported; resource-slack crd CpuAuditPolicy has it",
)


def build(settings: ControllerSettings, stopping: Stopping) -> Process:
    """Connect, and make all components of one controller.

    Raises:
        CannotStart: the certificate or the connection is not as it must be.
    """
    metrics = AuditControllerMetrics()
    certificate = Certificate.from_files(settings.tls_cert_file, settings.tls_key_file)
    connection = connected(settings, metrics.on_request)
    context = ProcessContext(
        settings,
        connection,
        stopping,
        component=COMPONENT,
        field_manager=COMPONENT,
        events_queue=EVENTS_QUEUE,
    )
    view = AuditedClusterView()
    watches = AuditWatches(connection, view)
    desired: Desired[AuditPolicy] = Desired(context.wake.touch, parse_audit_policy, KIND.lower())
    nodes = NodeFindings(view)
    reconciler = _reconciler(context, view, watches, desired, nodes, metrics, settings.namespace)

    def unready() -> str | None:
        return watches.stale() or context.leadership.standby()

    def reconcile() -> None:
        if certificate is not None:
            certificate.refresh()
        reconciler.reconcile()

    account = f"system:serviceaccount:{settings.namespace}:{settings.agent_service_account}"
    receiving = ReportReceiver(
        *host_port(settings.reports_listen),
        path=REPORTS_PATH,
        max_bytes=MAX_REPORT_BYTES,
        callers=Callers(connection, account, AUDIENCE, view.node_of),
        take=receiver.into(nodes),
        unready=unready,
        tls=certificate.context if certificate is not None else None,
    )
    components = Components(
        watches=watches,
        policies=PolicySource(connection, desired, AUDIT_POLICY),
        loop=ReconcileLoop(reconcile, context.wake, heart=context.heart),
        registry=metrics.registry,
        unreadable=metrics.unreadable,
        unready=unready,
        whole=lambda: {"pods": view.pod_count},
        servers=(
            Server(receiving, flag("reports_listen"), settings.reports_listen, f"reports at {settings.reports_listen}"),
        ),
    )
    return Process(context, components)


def _reconciler(
    context: ProcessContext,
    view: AuditedClusterView,
    watches: AuditWatches,
    desired: Desired[AuditPolicy],
    nodes: NodeFindings,
    metrics: AuditControllerMetrics,
    namespace: str,
) -> Reconciler:
    writer, recorder, may_write = context.writer, context.recorder, context.leadership.may_write
    record = LimitRecord(writer, namespace, may_write=may_write)
    return Reconciler(
        view=view,
        watches=watches,
        desired=desired,
        nodes=nodes,
        writer=writer,
        reports=Reports(writer, may_write=may_write, on_written=metrics.reports_written.inc),
        event_reporter=AuditEventReporter(recorder, may_write=may_write),
        enforcer=Enforcer(writer, recorder, view, nodes, record, may_write=may_write, on_outcome=metrics.on_resize),
        metrics=metrics,
        may_write=may_write,
    )


def run(settings: ControllerSettings) -> int:
    """Run the controller until a signal; returns the process's exit code."""
    return running.run(settings, build)
