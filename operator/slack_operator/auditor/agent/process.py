"""The auditor's agent: samples every cgroup of its node, serves metrics, and reports to the controller.

It has no rights at the API server and knows nobody but the controller; without one it serves metrics all the same. It
runs on every node, so it imports neither the official client nor kopf, aiohttp, numpy or pydantic.

Threads: the main one samples and writes bursts, one pushes, one serves. They meet in `Watch`, under its lock. All is
timed by the monotonic clock: a wall clock that jumps changes nothing but the time that a report says it was made at.
"""

import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from slack.audit.api.encoding import InvalidAuditMessage, decode_answer, encode
from slack.audit.api.messages import MAX_ANSWER_BYTES, REPORTS_PATH, AgentReport, ControllerAnswer
from slack.audit.findings.sample import CgroupNodeFacts, Sampled, SampleSource
from slack.audit.sources.mounts import InvalidMounts
from slack.audit.sources.walker import CgroupWalker
from slack.process import arguments, running
from slack.process.health import HealthServer
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.process.reporting.posting import NotSent, Post
from slack.process.reporting.pushing import Pusher
from slack.process.running import listen
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import Supervisor
from slack_operator.auditor.agent.burst_writer import BurstFiles, BurstWriter
from slack_operator.auditor.agent.metrics import AgentTotals, registry
from slack_operator.auditor.agent.observation import Clock, Watch, with_own
from slack_operator.auditor.agent.settings import AgentSettings


@dataclass(frozen=True)
class Controller:
    """Where reports go and how the agent says who it is."""

    url: str
    ca_file: Path | None
    token_file: Path

    def send(self, report: AgentReport) -> ControllerAnswer:
        """Send a report and return the answer.

        Raises:
            NotSent: with the cause in words.
        """
        post = Post(
            self.url.rstrip("/") + REPORTS_PATH,
            self.ca_file,
            self.token_file,
            agent="resource-slack-audit-agent",
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        try:
            return decode_answer(post.send(encode(report)))
        except InvalidAuditMessage as error:
            raise NotSent(f"its answer cannot be read: {error}") from None


log = logging.getLogger(__name__)

HEALTHY_SECONDS = 60.0
"""Beyond an interval, without a turn."""
RELIST_SECONDS = 60.0
"""Limits are read anew so often; cgroups that come and go are seen with each sample."""


class AuditAgent:
    """All parts of one agent. `start`, `run` and `stop` belong to the main thread."""

    def __init__(
        self,
        settings: AgentSettings,
        stopping: Stopping,
        *,
        source: SampleSource | None = None,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._source = source
        self._clock = clock
        self._totals = AgentTotals(writes_bursts=settings.write_burst)
        self._outages = Outages(clock)
        self._heart = Heartbeat("the loop that samples", HEALTHY_SECONDS + settings.interval, clock=clock)
        self._heart.beat()
        self._supervisor = Supervisor()
        self._sees = False
        self.watch = Watch(settings, self._totals, clock=clock, wall=wall)
        self.bursts = BurstWriter(
            BurstFiles(settings.root), settings.state_dir, clock=clock, count=self._totals.bursts.count_outcome
        )
        self._pusher = (
            Pusher(
                Controller(settings.controller, settings.ca_file, settings.token_file).send,
                self.watch.report,
                self.watch.answer,
                interval_seconds=settings.push_interval,
                count=self._totals.pushes.count_outcome,
            )
            if settings.controller
            else None
        )
        host, port = host_port(settings.listen)
        self.server = HealthServer(
            host, port, healthy=self.unhealthy, ready=self.unready, registry=registry(self.watch.scrape, self._totals)
        )

    def unhealthy(self) -> str | None:
        """Return which part is dead or stuck; None if all work."""
        return self._heart.late() or self._supervisor.unhealthy()

    def unready(self) -> str | None:
        """Say why there are no figures; None when the last sample found cgroups."""
        return None if self._sees else "no cgroup has been read yet, or none can be now; the log says why"

    def start(self) -> None:
        """Serve and report.

        Raises:
            CannotStart: when the address cannot be bound.
        """
        listen(self.server, flag("listen"), self._settings.listen)
        self._supervisor.watch(self.server)
        log.info("serving /healthz, /readyz and /metrics", extra=fields(port=self.server.port))
        if self.bursts.remembers and not self._settings.write_burst:
            log.info("bursts are not written any more: putting back those of an earlier agent")
            self.bursts.revert()
        if self._pusher is not None:
            self._supervisor.start(self._pusher)
            log.info("reporting", extra=fields(controller=self._settings.controller, node=self._settings.node_name))

    def run(self) -> None:
        """Sample every interval until the end is asked for; a sample that takes longer delays the next, no more."""
        due = self._clock()
        while not self._stopping.requested:
            self.tick()
            now = self._clock()
            due = max(due + self._settings.interval, now)
            if self._stopping.wait(due - now):
                return

    def tick(self) -> None:
        """Sample once, and see to the bursts; whatever happens in the tree is a trouble, not the end."""
        self._heart.beat()
        sampled = self._sample()
        self._sees = sampled is not None and bool(sampled.samples)
        if sampled is None or not self._settings.write_burst:
            return
        orders = self.watch.orders()
        if orders is not None:
            self.bursts.order(orders)
        self.bursts.reconcile(sampled.samples)
        self.watch.bursts = self.bursts.states

    def _sample(self) -> Sampled | None:
        began = time.perf_counter()
        try:
            if self._source is None:
                self._source = CgroupWalker(self._settings.root, relist_seconds=RELIST_SECONDS, clock=self._clock)
            sampled = self._source.sample()
        except (InvalidMounts, OSError) as error:
            if self._outages.is_new(str(error)):
                log.warning("cannot sample: %s", error)
            self._close_source()  # a tree that comes back may be another
            return None
        if not self._sees and sampled.samples:
            self._outages.end()
            facts = with_own(next(iter(sampled.nodes.values()), CgroupNodeFacts(None)))
            said = fields(cgroups=len(sampled.samples), hierarchy=facts.hierarchy, kernel=facts.kernel_release)
            log.info("sampling", extra=said)
        self.watch.add_result(sampled, time.perf_counter() - began)
        return sampled

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def stop(self) -> None:
        """Close everything; bursts stay as they are ordered, for the agent that comes next."""
        self._close_source()  # first: open files of cgroups keep whole hierarchies from being unmounted
        if self._pusher is not None:
            self._pusher.stop()
        self.server.stop()


def build(settings: AgentSettings, stopping: Stopping) -> AuditAgent:
    """Make the process; nothing of it is started."""
    return AuditAgent(settings, stopping)


def run(settings: AgentSettings) -> int:
    """Run the agent until a signal; returns the process's exit code."""
    return running.run(settings, build)


def become(flags: Mapping[str, object], config: Path | None = None) -> NoReturn:
    """Turn this process into an agent with these settings, those that are None left out.

    The command line's own libraries bring pydantic with them, 8 MiB that every node would hold for nothing.
    """
    words = arguments.words({**flags, "config": config})
    # -P: what lies in the working directory must not stand in for a module
    os.execv(sys.executable, [sys.executable, "-P", "-m", "slack_operator.auditor.agent.process", *words])


if __name__ == "__main__":
    sys.exit(arguments.main(AgentSettings, run))
