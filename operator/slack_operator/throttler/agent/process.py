"""`resource-slack throttler agent`: its settings and its parts.

Threads: one has the desk and the gates in an event loop, three follow pods, policies and the node, one reports to the
controller, one posts Events, one serves metrics; the main one sees to certificates. Light: neither kopf
nor aiohttp, 70 MiB.
"""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from slack.kube.apply import Writer
from slack.kube.events import EventRecorder
from slack.kube.reflector import Reflector
from slack.kube.retry import retrying
from slack.process import arguments, running
from slack.process.health import HealthServer
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.process.running import CannotStart, listen
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import Supervisor
from slack.throttler.limits import UNLIMITED, Usage
from slack.throttler.reports.messages import NodeReport
from slack_operator.runtime.certificates import Certificate, InvalidCertificate
from slack_operator.runtime.connecting import connected
from slack_operator.runtime.watches import Watches
from slack_operator.throttler.agent.agent import StartAgent
from slack_operator.throttler.agent.event_reporter import StartEventReporter
from slack_operator.throttler.agent.metrics import AgentMetrics
from slack_operator.throttler.agent.node_policy import Applied, NodePolicy, reflectors
from slack_operator.throttler.agent.node_usage import NodeUsageReader
from slack_operator.throttler.agent.reporting import Reporting
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.authority import authority_of

log = logging.getLogger(__name__)

COMPONENT = "resource-slack-throttler-agent"
TURN_SECONDS = 5.0
"""So often files of certificates are looked at."""
HEALTHY_SECONDS = 60.0
"""Without a look at the files the main thread counts as stuck."""
WRITE_DEADLINE_SECONDS = 15.0
JOURNAL = "grants"


class ThrottlerAgent:
    """All parts of one process. `start`, `run` and `stop` belong to the main thread."""

    def __init__(self, settings: ThrottlerAgentSettings, stopping: Stopping) -> None:
        """Read the certificate, and find the API server.

        Raises:
            CannotStart: one of them is not to be had.
        """
        self._settings = settings
        self._stopping = stopping
        self.metrics = AgentMetrics()
        certificate = Certificate.from_files(settings.tls_cert_file, settings.tls_key_file)
        assert certificate is not None, "the settings ask for both files"
        self._certificate = certificate
        self._authority = ""
        self._outages = Outages()
        self._connection = connected(settings, self.metrics.on_api_request)
        self._ended = threading.Event()
        writer = Writer(
            self._connection, self._ended, retry=retrying(self._ended, deadline_seconds=WRITE_DEADLINE_SECONDS)
        )
        self._recorder = EventRecorder(writer, component=COMPONENT, instance=settings.node_name)
        self._teller = StartEventReporter(self._recorder, settings.node_name)
        self._usage = NodeUsageReader(settings.proc)
        self._heart = Heartbeat("the thread that follows certificates", HEALTHY_SECONDS)
        self._supervisor = Supervisor()
        self.agent = StartAgent(
            self._connection,
            settings.node_name,
            settings.state_dir / JOURNAL,
            UNLIMITED,
            usage=self._read_usage,
            telling=self._teller,
            counting=self.metrics,
            moving=self._moved,
            permitted=self._permitted,
            follows_policy=True,
        )
        self._reporting = (
            Reporting(
                settings.controller,
                settings.controller_ca_file,
                settings.token_file,
                self._make_report,
                self.metrics.on_report,
            )
            if settings.controller
            else None
        )
        self._cores = os.cpu_count() or 1
        self.policy = NodePolicy(self._cores, self._use)
        followed: tuple[Reflector[Any], Reflector[Any]] = reflectors(self._connection, settings.node_name, self.policy)
        self._followed = followed
        policies, self._node = followed
        self._watches = Watches((self.agent.pods, policies), unless_forbidden=(self._node,))
        self.metrics.unreadable.follow(self._watches.unreadable)
        self.health = HealthServer(
            *host_port(settings.listen),
            healthy=self.unhealthy,
            ready=self._watches.stale,
            registry=self.metrics.registry,
        )

    def unhealthy(self) -> str | None:
        """Return which part that was started is dead or stuck; None if all work."""
        return self._heart.late() or self._supervisor.unhealthy()

    def start(self) -> None:
        """Serve gates, and follow pods, policies and the node.

        Raises:
            CannotStart: an address cannot be bound.
        """
        self._make_state_dir()
        listen(self.health, flag("listen"), self._settings.listen)
        self._supervisor.watch(self.health)
        self._supervisor.start(self._recorder)
        try:
            self.agent.start(*host_port(self._settings.gates_listen), self._certificate.context)
        except OSError as error:
            address = f"{flag('gates_listen')} {self._settings.gates_listen}"
            raise CannotStart(f"{address}: cannot listen: {error.strerror or error}") from None
        self._supervisor.watch(self.agent)
        self._look_at_authority()
        for reflector in self._followed:
            self._supervisor.start(reflector)
        if self._reporting is not None:
            self._supervisor.start(self._reporting)
        log.info("serving gates", extra=fields(node=self._settings.node_name, port=self.agent.port))

    def run(self) -> None:
        """See to certificates until the end is asked for."""
        self._heart.beat()
        while not self._stopping.wait(TURN_SECONDS):
            self.reload_files()
            self._heart.beat()

    def reload_files(self) -> None:
        """Look at the files once. Gates hear of a new authority before a certificate of it is shown to any."""
        self._look_at_authority()
        self._certificate.refresh()
        if self._node.forbidden and self.policy.do_without_labels():
            log.warning("the node's labels may not be read: only policies without a nodeSelector are gone by here")

    def stop(self) -> None:
        """End everything; grants stay in the journal, and gates wait for the next agent."""
        if self._reporting is not None:
            self._reporting.stop()
        for reflector in self._followed:
            reflector.stop(timeout=0.0)
        self.agent.stop()
        self._recorder.stop()
        self._ended.set()
        for reflector in self._followed:
            reflector.stop()
        self.health.stop()
        self._connection.close()

    def _read_usage(self, now: float, average_over_seconds: float) -> Usage:
        usage = self._usage.read(now, average_over_seconds)
        self.metrics.show_usage(self._usage.unknown)
        for why in self._usage.troubles.values():
            if self._outages.is_new(why):
                log.info("a figure of the node is not known, and holds nobody back: %s", why)
        return usage

    def _moved(self) -> None:
        if self._reporting is not None:
            self._reporting.moved()

    def _permitted(self) -> None:
        if self._reporting is not None:
            self._reporting.hurry()

    def _make_report(self) -> NodeReport | None:
        applied = self.policy.applied
        if applied is None or not self.agent.running:
            return None
        return self.agent.report(self._settings.node_name, applied, self._cores)

    def _use(self, applied: Applied) -> None:
        limits = applied.limits
        said = fields(policy=applied.policy, generation=applied.generation, slots=limits.slots)
        log.info("the node has a policy" if applied.policy else "no policy selects the node", extra=said)
        self.agent.use(limits)

    def _look_at_authority(self) -> None:
        if self._settings.ca_file is None:
            return
        try:
            authority = authority_of(self._settings.ca_file)
        except InvalidCertificate as error:
            if self._outages.is_new(str(error)):
                log.warning("gates are told of no new authority: %s", error)
            return
        if authority != self._authority:
            self._authority = authority
            self.agent.trust(authority)

    def _make_state_dir(self) -> None:
        try:
            self._settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:  # as with a disk that is full: what runs is found again, grants that wait are not
            log.warning("grants will not outlive this agent: %s: %s", self._settings.state_dir, error.strerror)


def build(settings: ThrottlerAgentSettings, stopping: Stopping) -> ThrottlerAgent:
    """Make the process; nothing of it is started."""
    return ThrottlerAgent(settings, stopping)


def run(settings: ThrottlerAgentSettings) -> int:
    """Run the agent until a signal; returns the process's exit code."""
    return running.run(settings, build)


def become(flags: Mapping[str, object], config: Path | None = None) -> NoReturn:
    """Turn this process into an agent with these settings, those that are None left out: without the command line's
    own libraries, which every node would hold for nothing."""
    words = arguments.words({**flags, "config": config})
    # -P: what lies in the working directory must not stand in for a module
    os.execv(sys.executable, [sys.executable, "-P", "-m", "slack_operator.throttler.agent.process", *words])


if __name__ == "__main__":
    sys.exit(arguments.main(ThrottlerAgentSettings, run))
