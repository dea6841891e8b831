"""`resource-slack audit controller`: wiring, threads, and the order in which things start and stop.

Only the holder of the lease takes reports and writes, and only it is ready: a Service leads agents to it alone, since
reports spread over several processes would leave each with half of the cluster. After a change of leaders reports come
anew within a minute. So one replica is enough, or a second that waits unready; a Deployment must then be allowed to
have one replica unavailable. A lost lease closes the gate that every write passes, and ends the process with code 1.
"""

import gc
import logging
import os
import socket
import threading
import time
import uuid

from slack.cfs.crd import POLICY_PLURAL
from slack.cfs.policy import API_VERSION, KIND, AuditPolicy, parse_audit_policy
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import ConnectionFailed, KubeError
from slack.kube.events import EventRecorder
from slack.kube.kubeconfig import connect
from slack.kube.lease import Elector
from slack.kube.retry import retrying
from slack.process import logs
from slack.process.audit_settings import ControllerSettings, flag
from slack.process.logs import fields
from slack.process.stopping import Stopping
from slack_operator.audit.callers import Callers
from slack_operator.audit.cluster_watches import Watches
from slack_operator.audit.controller_metrics import ControllerMetrics
from slack_operator.audit.enforcing import Enforcer
from slack_operator.audit.judging import Nodes
from slack_operator.audit.pods_view import ClusterView
from slack_operator.audit.receiving import BadCertificate, Certificate, Receiver
from slack_operator.audit.reports import Reports
from slack_operator.audit.telling import Teller
from slack_operator.audit.turn import Turner
from slack_operator.desired import Desired
from slack_operator.health import HealthServer
from slack_operator.policies import Kind, PolicySource
from slack_operator.wake import Wake

log = logging.getLogger(__name__)

COMPONENT = "resource-slack-audit"
WRITE_DEADLINE_SECONDS = 15.0
HEALTHY_SECONDS = 120.0
EVENTS_QUEUE = 1024
BAD_INPUT = 2

AUDIT_POLICY = Kind(
    API_VERSION,
    KIND,
    POLICY_PLURAL,
    "there is no CpuAuditPolicy CRD: nothing is reported; resource-slack crd CpuAuditPolicy has it",
)


class CannotListen(Exception):
    """An address cannot be bound; the text names its flag."""

    def __init__(self, setting: str, address: str, error: OSError) -> None:
        super().__init__(f"{flag(setting)} {address}: cannot listen: {error.strerror or error}")


class Controller:
    """All parts of one controller. `start` and `stop` belong to the main thread."""

    def __init__(
        self,
        settings: ControllerSettings,
        connection: Connection,
        stopping: Stopping,
        metrics: ControllerMetrics,
        certificate: Certificate | None,
    ) -> None:
        self.settings = settings
        self._stopping = stopping
        self._certificate = certificate
        self._gate = threading.Event()  # set: nothing may be written any more, and nothing is tried again
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._writer = Writer(
            connection,
            self._gate,
            field_manager=COMPONENT,
            retry=retrying(self._gate, deadline_seconds=WRITE_DEADLINE_SECONDS),
        )
        self._recorder = EventRecorder(
            self._writer, component=COMPONENT, instance=self.identity, queue_size=EVENTS_QUEUE
        )
        self.view = ClusterView()
        self.watches = Watches(connection, self.view)
        self._wake = Wake(settings.interval, time.monotonic)
        self._desired: Desired[AuditPolicy] = Desired(self._wake.touch, parse_audit_policy, KIND.lower())
        self._source = PolicySource(connection, self._desired, kind=AUDIT_POLICY)
        self._elector = self._candidate(connection) if settings.leader_elect else None
        self.nodes = Nodes(self.view)
        self.turner = self._turner(metrics)
        self.receiver = Receiver(
            *settings.reports_host_port,
            callers=Callers(
                connection,
                f"system:serviceaccount:{settings.namespace}:{settings.agent_service_account}",
                self.view.node_of,
            ),
            inbox=self.nodes,
            unready=self.unready,
            tls=certificate.context if certificate is not None else None,
        )
        self.health = HealthServer(
            *settings.listen_host_port, healthy=self.unhealthy, ready=self.unready, registry=metrics.registry
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turns", daemon=True)

    def _candidate(self, connection: Connection) -> Elector:
        return Elector(
            connection,
            namespace=self.settings.namespace,
            name=self.settings.lease_name,
            identity=self.identity,
            on_started=self._lead,
            on_lost=self._lost,
        )

    def _turner(self, metrics: ControllerMetrics) -> Turner:
        may_write = self.may_write
        return Turner(
            view=self.view,
            watches=self.watches,
            desired=self._desired,
            nodes=self.nodes,
            writer=self._writer,
            reports=Reports(self._writer, may_write=may_write, on_written=metrics.reports_written.inc),
            teller=Teller(self._recorder, may_write=may_write),
            enforcer=Enforcer(
                self._writer,
                self._recorder,
                self.view,
                self.nodes,
                may_write=may_write,
                on_outcome=metrics.on_resize,
            ),
            metrics=metrics,
            may_write=may_write,
        )

    def may_write(self) -> bool:
        """Whether this process may write now; asked before every single write."""
        return not self._gate.is_set() and (self._elector is None or self._elector.is_leader)

    def unhealthy(self) -> str:
        """Say which thread is dead or stuck; '' when none is."""
        if self._thread.ident is not None:
            if not self._thread.is_alive():
                return "the turns have ended"
            silent = time.monotonic() - self.turner.beat_at
            if silent > HEALTHY_SECONDS + self.settings.interval:
                return f"no turn for {silent:.0f} s"
        return "" if self._source.alive else "the policy source has ended"

    def unready(self) -> str:
        """Say why no report can be taken now; '' when one can."""
        stale = self.watches.stale()
        if stale:
            return stale
        if not self.may_write():
            holder = self._elector.holder if self._elector is not None else ""
            return f"this replica does not lead; {holder or 'nobody'} does"
        return ""

    def start(self) -> None:
        """Start everything, as far as the view lets it; returns early when the process is to end.

        Raises:
            CannotListen: when an address cannot be bound.
        """
        for setting, address, server in (
            ("listen", self.settings.listen, self.health),
            ("reports_listen", self.settings.reports_listen, self.receiver),
        ):
            try:
                server.start()
            except OSError as error:
                raise CannotListen(setting, address, error) from None
        log.info("serving", extra=fields(metrics_port=self.health.port, reports_port=self.receiver.port))
        self.watches.start()
        said = ""
        while stale := self.watches.stale():
            if self._stopping.wait(0.1):
                return
            if stale != said and ": " in stale:
                log.warning("waiting: %s", stale)
                said = stale
        log.info("the view of the cluster is whole", extra=fields(pods=self.view.pod_count))
        self._recorder.start()
        if self._elector is None:
            self._lead()
        else:
            self._elector.start()
        self._thread.start()

    def stop(self) -> None:
        """End everything in order; what is being written is brought to its end, for some seconds."""
        lost = self._gate.is_set()
        self._stop.set()
        self._wake.touch()
        self.receiver.stop()
        if self._thread.ident is not None and not lost:
            self._thread.join(10.0)
        self._source.stop()
        if not lost:
            self._recorder.stop()
        self._gate.set()
        if self._elector is not None:
            self._elector.stop()
        self.watches.stop()
        self.health.stop()

    def _run(self) -> None:
        while not self._stop.is_set():
            left = self._wake.due_in()
            if left > 0:
                self._wake.wait(left)
                continue
            self._wake.begun()
            began = time.monotonic()
            if self._certificate is not None:
                self._certificate.refresh()
            try:
                self.turner.turn()
            except Exception:  # a bug must not end the audit; health says so when turns stay away
                log.exception("the turn failed")
            self._wake.ended(time.monotonic() - began)

    def _lead(self) -> None:
        log.info("leading", extra=fields(identity=self.identity))
        self._source.start()
        self._wake.touch()

    def _lost(self) -> None:
        self._gate.set()
        self._stopping.request("the lease is lost", exit_code=1)


def run(settings: ControllerSettings) -> int:
    """Run the controller until a signal; returns the process's exit code."""
    logs.set_up(settings.log_format, settings.log_level)
    stopping = Stopping()
    if threading.current_thread() is threading.main_thread():
        stopping.on_signals()
    metrics = ControllerMetrics()
    try:
        certificate = (
            Certificate(settings.tls_cert_file, settings.tls_key_file)
            if settings.tls_cert_file is not None and settings.tls_key_file is not None
            else None
        )
        connection = connect(settings.kubeconfig, settings.context, on_request=metrics.on_request)
    except (BadCertificate, ConnectionFailed) as error:
        log.error("%s", error)
        return BAD_INPUT
    try:
        log.info("connected", extra=fields(server=connection.host, version=connection.server_version()))
    except KubeError as error:
        log.error("cannot start: %s", error)
        return 1
    controller = Controller(settings, connection, stopping, metrics, certificate)
    # What the imports have made lives as long as the process: full collections need not walk it, while reports wait.
    gc.collect()
    gc.freeze()
    try:
        controller.start()
    except CannotListen as error:
        log.error("%s", error)
        return BAD_INPUT
    stopping.wait()
    log.info("stopping: %s", stopping.reason)
    controller.stop()
    connection.close()
    return stopping.exit_code
