"""The operator's process: wiring, threads, and the order in which things start and stop.

Start: settings, connection, reflectors, health server, view whole, lease, policies (kopf), loop. Stop on SIGTERM: loop,
policies, Events, lease, reflectors, exit 0. A lost lease closes the gate that every write passes, and ends the process
with exit code 1: starting anew is simpler to trust than leading again.
"""

import gc
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, ConnectionFailed, KubeError
from slack.kube.events import EventRecorder
from slack.kube.kubeconfig import connect
from slack.kube.lease import Elector
from slack.kube.paths import resource_path
from slack.kube.retry import retrying
from slack.process import logs
from slack.process.doubts import doubts
from slack.process.logs import fields
from slack.process.settings import BadSettings, OperatorSettings, flag, load
from slack.process.stopping import Stopping
from slack_operator.actuate import Actuator
from slack_operator.desired import DesiredPolicies
from slack_operator.health import HealthServer
from slack_operator.loop import Loop
from slack_operator.metrics import Metrics, WatchRestarts
from slack_operator.policies import PolicySource
from slack_operator.reporting import Reporter
from slack_operator.rescue import Rescuer
from slack_operator.view import View
from slack_operator.wake import Wake
from slack_operator.watches import Watches
from slack_operator.web.guard import BadTokenFile, read_token
from slack_operator.web.server import WebServer
from slack_operator.web.state import About, Board

log = logging.getLogger(__name__)

COMPONENT = "resource-slack"
WRITE_DEADLINE_SECONDS = 15.0
"""A write that fails for longer is given up: the next turn decides anew, from what is then so."""
HEALTHY_SECONDS = 120.0
BAD_INPUT = 2


class CannotListen(Exception):
    """An address cannot be bound; the text names its flag."""

    def __init__(self, setting: str, address: str, error: OSError) -> None:
        super().__init__(f"{flag(setting)} {address}: cannot listen: {error.strerror or error}")


class Operator:
    """All parts of one operator. `start` and `stop` belong to the main thread."""

    def __init__(
        self,
        settings: OperatorSettings,
        connection: Connection,
        stopping: Stopping,
        metrics: Metrics,
        web_token: str | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self._stopping = stopping
        self._gate = threading.Event()  # set: nothing may be written any more, and nothing is tried again
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        retry = retrying(self._gate, deadline_seconds=WRITE_DEADLINE_SECONDS)
        self._writer = Writer(connection, self._gate, retry=retry)
        self._recorder = EventRecorder(self._writer, component=COMPONENT, instance=self.identity)
        self._wake = Wake(settings.interval_seconds, time.monotonic)
        self._desired = DesiredPolicies(self._wake.touch)
        self.view = View(settings.namespace, self._wake.touch)
        self.watches = Watches(connection, self.view)
        self._source = PolicySource(connection, self._desired)
        self._elector = (
            Elector(
                connection,
                namespace=settings.namespace,
                name=settings.lease_name,
                identity=self.identity,
                on_started=self._lead,
                on_lost=self._lost,
            )
            if settings.leader_elect
            else None
        )
        self.web: WebServer | None = None
        board: Board | None = None
        if settings.web:
            board = Board(
                About(
                    identity=self.identity,
                    namespace=settings.namespace,
                    operator_version=metadata.version("resource-slack"),
                    interval_seconds=settings.interval_seconds,
                    leader=self._leader,
                )
            )
            self.web = WebServer(*settings.web_host_port, board=board, token=web_token)
        self.loop = Loop(
            view=self.view,
            watches=self.watches,
            desired=self._desired,
            writer=self._writer,
            actuator=Actuator(
                self._writer,
                namespace=settings.namespace,
                may_write=self.may_write,
                expectations=self.view,
                clock=time.monotonic,
            ),
            reporter=Reporter(
                self._writer, self._recorder, may_write=self.may_write, clock=time.monotonic, wall=time.time
            ),
            rescuer=Rescuer(
                self._writer,
                self._recorder,
                metrics,
                enabled=settings.rescue_stuck_preemptors,
                may_write=self.may_write,
                clock=time.monotonic,
            ),
            metrics=metrics,
            may_write=self.may_write,
            wake=self._wake,
            namespace=settings.namespace,
            image=settings.image,
            default_rate=settings.extra_capacity_min_rate,
            on_turn=board.show if board is not None else None,
        )
        self._loop_stop = threading.Event()
        self._loop_thread = threading.Thread(target=self.loop.run, args=(self._loop_stop,), name="loop", daemon=True)
        host, port = settings.listen_host_port
        metrics.registry.register(WatchRestarts(self.watches.restarts))
        self.health = HealthServer(host, port, healthy=self.unhealthy, ready=self.unready, registry=metrics.registry)

    def may_write(self) -> bool:
        """Whether this process may write now; asked before every single write."""
        return not self._gate.is_set() and (self._elector is None or self._elector.is_leader)

    def unhealthy(self) -> str:
        """Say which thread is dead or stuck; '' when none is."""
        if self._loop_thread.ident is not None:
            if not self._loop_thread.is_alive():
                return "the loop has ended"
            silent = time.monotonic() - self.loop.beat_at
            if silent > HEALTHY_SECONDS + self.settings.interval_seconds:
                return f"the loop has not turned for {silent:.0f} s"
        return "" if self._source.alive else "the policy source has ended"

    def unready(self) -> str:
        """Say what is missing in the view; '' when it is whole and fresh."""
        return self.watches.stale()

    def start(self) -> None:
        """Start everything, as far as the view and the lease let it; returns early when the process is to end.

        Raises:
            CannotListen: when an address cannot be bound.
        """
        try:
            self.health.start()
        except OSError as error:
            raise CannotListen("listen", self.settings.listen, error) from None
        if self.web is not None:
            try:
                self.web.start()
            except OSError as error:
                raise CannotListen("web_listen", self.settings.web_listen, error) from None
            log.info("serving the web page", extra=fields(url=f"http://{self.settings.web_listen}"))
        self.watches.start()
        log.info("serving /healthz, /readyz and /metrics", extra=fields(port=self.health.port))
        said = ""
        while stale := self.watches.stale():
            if self._stopping.wait(0.1):
                return
            if stale != said and ": " in stale:
                log.warning("waiting: %s", stale)
                said = stale
        log.info("the view of the cluster is whole", extra=fields(nodes=len(self.view.columns.nodes.rows)))
        self._recorder.start()
        if self._elector is None:
            self._lead()
        else:
            self._elector.start()
        self._loop_thread.start()

    def stop(self) -> None:
        """End everything in order; what is being written is brought to its end, for some seconds."""
        lost = self._gate.is_set()
        self._loop_stop.set()
        self._wake.touch()
        if self._loop_thread.ident is not None and not lost:
            self._loop_thread.join(10.0)
        self._source.stop()
        if not lost:
            self._recorder.stop()
        self._gate.set()
        if self._elector is not None:
            self._elector.stop()
        self.watches.stop()
        if self.web is not None:
            self.web.stop()
        self.health.stop()

    def _leader(self) -> str:
        """Who leads, as the lease has it; '' for nobody."""
        return self.identity if self._elector is None else self._elector.holder

    def _lead(self) -> None:
        log.info("leading", extra=fields(identity=self.identity))
        self._source.start()
        self._wake.touch()

    def _lost(self) -> None:
        self._gate.set()
        self._stopping.request("the lease is lost", exit_code=1)


def ensure_namespace(writer: Writer, namespace: str) -> None:
    """Create the namespace where it is absent: outside the cluster there may be none yet.

    Raises:
        ApiError: when it is absent and may not be created.
    """
    try:
        writer.get(resource_path("v1", "namespaces", name=namespace))
    except ApiError as error:
        if error.status == 403:
            return  # in the cluster we run in it, and need no right to read it
        if not error.not_found:
            raise
        labels = {"app.kubernetes.io/managed-by": COMPONENT, "pod-security.kubernetes.io/enforce": "restricted"}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        try:
            writer.create(resource_path("v1", "namespaces"), manifest)
            log.info("created namespace %s", namespace)
        except ApiError as refused:
            if not refused.conflict:
                raise


def run(settings: OperatorSettings) -> int:
    """Run the operator until a signal; returns the process's exit code."""
    logs.set_up(settings.log_format, settings.log_level)
    for doubt in doubts(settings, os.environ):
        log.warning("%s", doubt)
    stopping = Stopping()
    if threading.current_thread() is threading.main_thread():
        stopping.on_signals()
    metrics = Metrics()
    metrics.plan_interval.set(settings.interval_seconds)
    try:
        web_token = read_token(settings.web_token_file) if settings.web and settings.web_token_file else None
    except BadTokenFile as error:
        log.error("%s: %s", flag("web_token_file"), error)
        return BAD_INPUT
    try:
        connection = connect(settings.kubeconfig, settings.context, on_request=metrics.on_request)
    except ConnectionFailed as error:
        log.error("%s", error)
        return BAD_INPUT
    try:
        version = connection.server_version()
        log.info("connected", extra=fields(server=connection.host, version=version))
        ensure_namespace(Writer(connection, stopping.event), settings.namespace)
    except KubeError as error:
        log.error("cannot start: %s", error)
        return 1
    operator = Operator(settings, connection, stopping, metrics, web_token)
    # What the imports have made lives as long as the process: full collections need not walk it, while events wait.
    gc.collect()
    gc.freeze()
    try:
        operator.start()
    except CannotListen as error:
        log.error("%s", error)
        return BAD_INPUT
    stopping.wait()
    log.info("stopping: %s", stopping.reason)
    operator.stop()
    connection.close()
    return stopping.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m slack_operator.app --flag=value ...`: the same as `resource-slack operator`."""
    given: dict[str, object] = {}
    for argument in sys.argv[1:] if arguments is None else arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        given[name.replace("-", "_")] = value if equals else True
    unknown = sorted(set(given) - set(OperatorSettings.model_fields) - {"config"})
    file = Path(str(given.pop("config"))) if "config" in given else None
    try:
        if unknown:
            raise BadSettings(tuple(f"{flag(name)}: unknown flag" for name in unknown))
        settings = load(given, os.environ, file=file)
    except BadSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return BAD_INPUT
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
