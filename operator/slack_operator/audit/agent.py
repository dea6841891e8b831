"""The auditor's agent: samples every cgroup of its node, serves metrics, and reports to the controller.

It has no rights at the API server and knows nobody but the controller; without one it serves metrics all the same. It
runs on every node, so it imports neither the official client nor kopf, aiohttp, numpy or pydantic.

Threads: the main one samples and writes bursts, one pushes, one serves. They meet in `Watch`, under its lock. All is
timed by the monotonic clock: a wall clock that jumps changes nothing but the time that a report says it was made at.
"""

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from slack.cfs.mounts import BadMounts
from slack.cfs.sample import NodeFacts, Sampled, Source
from slack.cfs.walker import CgroupWalker
from slack.process import logs
from slack.process.audit_settings import AgentSettings, BadAuditSettings, flag, load
from slack.process.logs import fields
from slack.process.stopping import Stopping
from slack_operator.audit.agent_http import AgentServer
from slack_operator.audit.agent_metrics import Totals, registry
from slack_operator.audit.burst_writer import BurstFiles, BurstWriter
from slack_operator.audit.pushing import Causes, Controller, Pusher
from slack_operator.audit.watching import Clock, Watch, with_own

log = logging.getLogger(__name__)

BAD_INPUT = 2
HEALTHY_SECONDS = 60.0
"""Beyond an interval, without a turn."""
RELIST_SECONDS = 60.0
"""Limits are read anew so often; cgroups that come and go are seen with each sample."""


class Agent:
    """All parts of one agent. `start`, `run` and `stop` belong to the main thread."""

    def __init__(
        self,
        settings: AgentSettings,
        stopping: Stopping,
        *,
        source: Source | None = None,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._source = source
        self._clock = clock
        self._totals = Totals(writes_bursts=settings.write_burst)
        self._causes = Causes(clock)
        self._turned_at = clock()
        self._sees = False
        self.watch = Watch(settings, self._totals, clock=clock, wall=wall)
        self.bursts = BurstWriter(
            BurstFiles(settings.root), settings.state_dir, clock=clock, count=self._totals.bursts.add
        )
        self._pusher = (
            Pusher(
                Controller(settings.controller, settings.ca_file, settings.token_file).send,
                self.watch.report,
                self.watch.answer,
                interval_seconds=settings.push_interval,
                count=self._totals.pushes.add,
            )
            if settings.controller
            else None
        )
        host, port = settings.listen_host_port
        self.server = AgentServer(
            host, port, healthy=self.unhealthy, ready=self.unready, registry=registry(self.watch.look, self._totals)
        )

    def unhealthy(self) -> str:
        """Say which thread is dead or stuck; '' when none is."""
        silent = self._clock() - self._turned_at
        if silent > HEALTHY_SECONDS + self._settings.interval:
            return f"no sample has been tried for {silent:.0f} s"
        return "" if self._pusher is None or self._pusher.alive else "the thread that reports has ended"

    def unready(self) -> str:
        """Say why there are no figures; '' when the last sample found cgroups."""
        return "" if self._sees else "no cgroup has been read yet, or none can be now; the log says why"

    def start(self) -> None:
        """Serve and report.

        Raises:
            OSError: when the address cannot be bound.
        """
        self.server.start()
        log.info("serving /healthz, /readyz and /metrics", extra=fields(port=self.server.port))
        if self.bursts.remembers and not self._settings.write_burst:
            log.info("bursts are not written any more: putting back those of an earlier agent")
            self.bursts.revert()
        if self._pusher is not None:
            self._pusher.start()
            log.info("reporting", extra=fields(controller=self._settings.controller, node=self._settings.node_name))

    def run(self) -> None:
        """Sample every interval until the end is asked for; a sample that takes longer delays the next, no more."""
        due = self._clock()
        while not self._stopping.requested:
            self.turn()
            now = self._clock()
            due = max(due + self._settings.interval, now)
            if self._stopping.wait(due - now):
                return

    def turn(self) -> None:
        """Sample once, and see to the bursts; whatever happens in the tree is a trouble, not the end."""
        self._turned_at = self._clock()
        sampled = self._sample()
        self._sees = sampled is not None and bool(sampled.samples)
        if sampled is None or not self._settings.write_burst:
            return
        orders = self.watch.orders()
        if orders is not None:
            self.bursts.order(orders)
        self.bursts.turn(sampled.samples)
        self.watch.bursts = self.bursts.states

    def _sample(self) -> Sampled | None:
        began = time.perf_counter()
        try:
            if self._source is None:
                self._source = CgroupWalker(self._settings.root, relist_seconds=RELIST_SECONDS, clock=self._clock)
            sampled = self._source.sample()
        except (BadMounts, OSError) as error:
            if self._causes.is_new(str(error)):
                log.warning("cannot sample: %s", error)
            self._close_source()  # a tree that comes back may be another
            return None
        if not self._sees and sampled.samples:
            self._causes.end()
            facts = with_own(next(iter(sampled.nodes.values()), NodeFacts(None)))
            said = fields(cgroups=len(sampled.samples), hierarchy=facts.hierarchy, kernel=facts.kernel_release)
            log.info("sampling", extra=said)
        self.watch.take(sampled, time.perf_counter() - began)
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


def run(settings: AgentSettings) -> int:
    """Run the agent until a signal; returns the process's exit code."""
    logs.set_up(settings.log_format, settings.log_level)
    stopping = Stopping()
    if threading.current_thread() is threading.main_thread():
        stopping.on_signals()
    agent = Agent(settings, stopping)
    # What the imports have made lives as long as the process: full collections need not walk it.
    gc.collect()
    gc.freeze()
    try:
        agent.start()
    except OSError as error:
        log.error("%s %s: cannot listen: %s", flag("listen"), settings.listen, error.strerror or error)
        return BAD_INPUT
    agent.run()
    log.info("stopping: %s", stopping.reason)
    agent.stop()
    return stopping.exit_code


def become(flags: Mapping[str, object], config: Path | None = None) -> NoReturn:
    """Turn this process into an agent with these settings, those that are None left out.

    The command line's own libraries bring pydantic with them, 8 MiB that every node would hold for nothing.
    """
    given = {**flags, "config": config}
    words = [f"{flag(name)}={value}" for name, value in given.items() if value is not None]
    # -P: what lies in the working directory must not stand in for a module
    os.execv(sys.executable, [sys.executable, "-P", "-m", "slack_operator.audit.agent", *words])


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m slack_operator.audit.agent --flag=value ...`: the same as `resource-slack audit agent`."""
    given: dict[str, object] = {}
    for argument in sys.argv[1:] if arguments is None else arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        given[name.replace("-", "_")] = value if equals else True
    known = AgentSettings.__dataclass_fields__
    file = Path(str(given.pop("config"))) if "config" in given else None
    try:
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise BadAuditSettings(tuple(f"{flag(name)}: unknown flag" for name in unknown))
        settings = load(AgentSettings, given, os.environ, file=file)
    except BadAuditSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return BAD_INPUT
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
