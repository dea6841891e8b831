"""The loop that decides: one read of all queues a tick, one round of the rules, and what follows from it.

An asyncio loop in a thread of its own. A broker that cannot be read stops decisions and nothing else: containers stay,
new messages are taken, and the next tick asks again. A queue that it refuses stops none of the others. A tick that
comes late is not made up for. Nothing is decided by a process that does not lead, or before all of the cluster is seen;
who comes to lead begins with what is seen.
"""

import asyncio
import contextlib
import logging
import math
import secrets
import string
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from slack.demand.broker import (
    BrokerError,
    BrokerRefused,
    LagSource,
    MessageQueue,
    QueueLag,
    QueueSettings,
    message_queue_of,
)
from slack.demand.ledger import Failing
from slack.demand.model import Guards, PoolContainer, PoolSettings, PoolTarget, QueueKey, QuotaSettings
from slack.demand.reports import ContainerReport, InvalidReport, decode_report
from slack.demand.tick import PoolScheduler, TickInput, TickResult
from slack.demand.trace import Line, SettingsLine, TraceWriter
from slack.process.line_recorder import LineRecorder
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.tasks import SupervisedTask
from slack.supervision.threads import SupervisedThread
from slack.supervision.workers import UnawaitedWorkers
from slack_operator.demand.containers import Containers
from slack_operator.demand.provisioning import QueueProvisioner
from slack_operator.demand.retention import RetentionEnforcer

log = logging.getLogger(__name__)

BROKER_SECONDS: Final = 2.0
"""A read that takes longer is given up; the next tick asks again."""
CLOSE_SECONDS: Final = 0.3
"""A broker that does not answer does not keep the process from its end."""
OPEN_AGAIN_SECONDS: Final = 5.0
SILENT_REPORT_SECONDS: Final = 15.0
"""A container that has not reported for so long is not known to be idle."""
MOST_REPORTING: Final = 100_000
"""Containers, and queues, whose reports are kept: whoever may publish may think up names."""
HEALTHY_SECONDS: Final = 60.0
RESOLVERS: Final = 2
"""Threads that look up the broker's name."""
_WORD: Final = string.ascii_lowercase + string.digits
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What users want now."""

    version: int
    """Another one whenever anything is another."""
    pools: tuple[PoolSettings, ...] = ()
    queues: tuple[QueueSettings, ...] = ()
    quotas: tuple[QuotaSettings, ...] = ()
    tick_seconds: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """A tick as it was: what the status, the metrics and the throttle endpoint are made of."""

    at_seconds: float
    """Monotonic."""
    unix_seconds: float
    tick_seconds: float
    took_seconds: float
    lags: Mapping[str, QueueLag] | None
    broker_problem: str | None
    containers: Sequence[PoolContainer]
    result: TickResult
    targets: Mapping[QueueKey, PoolTarget]
    failing: Mapping[QueueKey, Failing] = field(default_factory=dict)
    node_start_seconds: float | None = None
    reported: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Run times that came since the tick before, by subject, in milliseconds."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Queues that the broker refuses to make, with its words."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Queues for which the broker does not answer, while it does for others, with what went wrong."""


@dataclass(slots=True)
class _Heard:
    """The last report of one container."""

    report: ContainerReport
    at: float


class DecisionLoop:
    """Decides until `stop`. What it is given is called in its thread; `call` may be used from any."""

    def __init__(
        self,
        *,
        open_broker: Callable[[], Awaitable[LagSource]],
        containers: Containers,
        wanted: Callable[[], DesiredState],
        may_act: Callable[[], bool],
        on_turn: Callable[[TickReport], None],
        guards: Guards,
        node_start_seconds: Callable[[], float | None] = lambda: None,
        installation: Callable[[], str | None] = lambda: None,
        namespaces: Collection[str] = (),
        recorder: LineRecorder[Line] | None = None,
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        """A loop that is not started yet.

        Args:
            open_broker: connects; a broker that is not there yet says so when it is asked.
            containers: what it acts through.
            wanted: what users want now.
            may_act: whether this process leads, and sees all.
            on_turn: told of each tick.
            guards: which hold.
            node_start_seconds: how long a node takes to start, where it is known.
            installation: what no other installation is called, where it is known.
            namespaces: the only ones whose pools are seen; empty for all.
            recorder: writes every tick down.
            clock: monotonic seconds.
            unix: Unix seconds that never jump; the containers' times are of that clock.
        """
        self._open_broker = open_broker
        self._containers = containers
        self._wanted = wanted
        self._may_act = may_act
        self._on_turn = on_turn
        self._guards = guards
        self._node_start_seconds = node_start_seconds
        self._recorder, self._trace = recorder, TraceWriter()
        self._clock = clock
        self._unix = unix
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        heart = Heartbeat("the loop that decides", HEALTHY_SECONDS, clock=clock)
        self._thread = SupervisedThread(lambda: asyncio.run(self._run()), name="decisions", heart=heart)
        self._listening: SupervisedTask | None = None
        self._broker: LagSource | None = None
        self._broker_problem: str | None = "the broker is not connected yet"
        self._scheduler: PoolScheduler | None = None
        self._version, self._forgot_at = -1, clock()
        self._provisioner = QueueProvisioner(BROKER_SECONDS, clock, installation, namespaces)
        self._retention = RetentionEnforcer(BROKER_SECONDS, clock)
        self._failed: deque[tuple[str, str]] = deque(maxlen=10_000)
        self._heard: dict[tuple[str, str], _Heard] = {}
        """By the queue under whose name it came, which the broker's rights bound, and the container that it names."""
        self._durations: dict[str, list[float]] = {}
        self._unread: Mapping[str, str] = {}
        self._outages = Outages()

    # From other threads.

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End, and give up a read of the broker that is under way."""
        self._thread.dismiss()
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)

    def unhealthy(self) -> str | None:
        """Return why nothing is decided any more; None if thread and tasks work, or were never started."""
        return first_problem(self._thread, *(() if self._listening is None else (self._listening,)))

    def failed(self, creation_id: str, reason: str) -> None:
        """Take note that a container could not be created."""
        self._failed.append((creation_id, reason))

    def publish(self, queue: str, body: bytes, message_id: str) -> "Future[None]":
        """Publish a message, from any thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            done: Future[None] = Future()
            done.set_exception(BrokerRefused("the broker is not connected yet"))
            return done
        return asyncio.run_coroutine_threadsafe(self._publish(queue, body, message_id), loop)

    def most_body_bytes(self) -> int | None:
        """Return what the broker takes in one message; None: anything, or it is not connected yet."""
        broker = self._broker
        return broker.most_body_bytes if isinstance(broker, MessageQueue) else None

    # In the loop's thread.

    async def _publish(self, queue: str, body: bytes, message_id: str) -> None:
        if self._broker is None:
            raise BrokerRefused(self._broker_problem or "the broker is not connected yet")
        messages = message_queue_of(self._broker, "publish")
        await asyncio.wait_for(messages.publish(queue, body, message_id), BROKER_SECONDS)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_default_executor(UnawaitedWorkers(RESOLVERS, name="names"))
        # no limit: what it waits for is the broker's, and its own calls are all bounded
        heart = Heartbeat("the task that takes containers' reports", math.inf)
        self._listening = SupervisedTask(self._connect(), heart=heart)
        deciding = asyncio.create_task(self._decide(self._stop))
        ending = asyncio.create_task(self._stop.wait())
        await asyncio.wait({deciding, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (deciding, ending):
            task.cancel()  # a tick waits for the broker alone: what it has decided is handed on at once
        await asyncio.wait({deciding, ending}, timeout=CLOSE_SECONDS)
        await self._listening.end()
        if self._broker is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._broker.close()

    async def _decide(self, stop: asyncio.Event) -> None:
        due = self._clock()
        while not stop.is_set():
            tick_seconds = 1.0
            try:
                tick_seconds = await self._turn()
                self._thread.heart.beat()
            except Exception:  # a bug in one tick must not end the process; no beat, so that liveness does if it stays
                log.exception("a tick failed")
            due = max(due + tick_seconds, self._clock())  # what is late is not made up for
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, due - self._clock()))

    async def _connect(self) -> None:
        """Open the broker, then take reports for as long as it has any."""
        while self._broker is None:
            try:
                self._broker = await self._open_broker()
            except (BrokerError, OSError) as error:
                self._broker_problem = str(error)
                if self._outages.is_new(f"open {error}"):
                    log.warning("the broker cannot be used: %s", error)
                await asyncio.sleep(OPEN_AGAIN_SECONDS)
        while isinstance(self._broker, MessageQueue):
            try:
                async for raw in self._broker.reports():
                    self._take(raw.queue, raw.body)
            except BrokerRefused:
                return  # it has no such thing: run times come from its counters
            except BrokerError:
                pass
            await asyncio.sleep(OPEN_AGAIN_SECONDS)

    def _take(self, subject: str, body: bytes) -> None:
        with contextlib.suppress(InvalidReport):
            report = decode_report(body)
            source = subject, report.container
            if len(self._heard) < MOST_REPORTING or source in self._heard:
                self._heard[source] = _Heard(report, self._clock())
            if len(self._durations) < MOST_REPORTING or subject in self._durations:
                runs = self._durations.setdefault(subject, [])
                runs.extend(report.last_run_ms)
                del runs[:-100]

    async def _turn(self) -> float:
        wanted = self._wanted()
        if not self._may_act():
            self._scheduler, self._version = None, -1
            self._heard, self._durations = {}, {}  # who comes to lead hears anew within seconds
            self._failed.clear()
            return wanted.tick_seconds
        began, now = self._clock(), self._unix()
        self._configure(wanted)
        assert self._scheduler is not None, "just made"
        lags = await self._read(wanted)
        if not self._may_act():
            return wanted.tick_seconds
        failed = self._drained(now)
        containers = self._with_reports(self._containers.seen(), now)
        durations, self._durations = self._durations, {}
        observation = TickInput(
            now_seconds=now,
            lags=lags,
            unread=frozenset(self._unread),
            containers=containers,
            durations_ms=self._by_key(wanted, durations),
            node_start_seconds=self._node_start_seconds(),
        )
        result = self._scheduler.tick(observation)
        self._containers.create(result.creations)
        self._containers.end(result.endings)
        if self._recorder is not None:
            self._recorder.add_item(self._trace.tick(observation, failed, result))
        if lags is not None and result.drop and self._broker is not None:
            old = frozenset(result.drop)
            await self._retention.drop(self._broker, [pool for pool in wanted.pools if pool.key in old])
        failing = {pool.key: found for pool in wanted.pools if (found := self._scheduler.failing(pool.key)) is not None}
        self._on_turn(
            TickReport(
                at_seconds=began,
                unix_seconds=now,
                tick_seconds=wanted.tick_seconds,
                took_seconds=self._clock() - began,
                lags=lags,
                broker_problem=self._broker_problem if lags is None else None,
                containers=containers,
                result=result,
                targets=self._scheduler.targets,
                failing=failing,
                node_start_seconds=observation.node_start_seconds,
                reported={subject: tuple(runs) for subject, runs in durations.items()},
                refused=self._provisioner.refused,
                unread=self._unread,
            )
        )
        return wanted.tick_seconds

    def _configure(self, wanted: DesiredState) -> None:
        fresh = self._scheduler is None
        if self._scheduler is None:
            epoch = "".join(secrets.choice(_WORD) for _ in range(5))
            self._scheduler = PoolScheduler(epoch=epoch, guards=self._guards)
            self._provisioner.clear()
            self._epoch = epoch
        if wanted.version != self._version:
            self._version = wanted.version
            self._scheduler.configure(wanted.pools, wanted.quotas)
            if self._recorder is not None:
                line = SettingsLine(
                    epoch=self._epoch,
                    guards=str(self._guards),
                    pools=wanted.pools,
                    quotas=wanted.quotas,
                    fresh=fresh,
                )
                self._recorder.add_item(line)

    async def _read(self, wanted: DesiredState) -> Mapping[str, QueueLag] | None:
        self._unread = {}
        if self._broker is None:
            return None
        try:
            await self._provisioner.make(self._broker, wanted.queues)
            lags = await asyncio.wait_for(self._broker.lag(), BROKER_SECONDS)
        except (BrokerError, TimeoutError) as error:
            self._provisioner.all_silent()
            self._broker_problem = str(error) or "the broker does not answer"
            if self._outages.is_new("read"):
                log.warning("the queues cannot be read, and nothing is decided: %s", self._broker_problem)
            return None
        if self._outages.end():
            log.info("the queues are read again")
        self._broker_problem = None
        self._provisioner.seen(wanted.queues, lags)
        silent = {name: words for name, words in self._provisioner.silent.items() if name not in lags}
        self._unread = silent | {name: lag.problem for name, lag in lags.items() if lag.problem is not None}
        return {name: lag for name, lag in lags.items() if lag.problem is None} if self._unread else lags

    def _drained(self, now: float) -> list[tuple[str, str]]:
        assert self._scheduler is not None, "only called with one"
        failed = []
        while self._failed:
            failed.append(self._failed.popleft())
            self._scheduler.failed(*(failed[-1][0], now, failed[-1][1]))
        return failed

    def _with_reports(self, containers: Sequence[PoolContainer], now: float) -> list[PoolContainer]:
        """Return containers with what they say of themselves: since when they are idle.

        A report counts only where it came by a queue that the container takes from: whoever may report for one pool
        must not name a busy container of another one idle.
        """
        if not self._heard:
            return list(containers)
        clock = self._clock()
        found = []
        for container in containers:
            sources = [(subject, container.id) for subject in (container.subject, *container.also)]
            heard = max(
                (self._heard[source] for source in sources if source in self._heard),
                key=lambda heard: heard.at,
                default=None,
            )
            if heard is not None and clock - heard.at <= SILENT_REPORT_SECONDS:
                idle = heard.report.idle_seconds
                since = None if idle is None or heard.report.busy else now - idle - (clock - heard.at)
                found.append(replace(container, idle_since_seconds=since) if since is not None else container)
            else:
                found.append(container)
        if clock - self._forgot_at >= SILENT_REPORT_SECONDS:
            self._forgot_at = clock
            self._heard = {
                source: heard for source, heard in self._heard.items() if clock - heard.at <= SILENT_REPORT_SECONDS
            }
        if len(self._heard) > 2 * len(found) + 100:
            known = {(subject, item.id) for item in found for subject in (item.subject, *item.also)}
            self._heard = {source: heard for source, heard in self._heard.items() if source in known}
        return found

    @staticmethod
    def _by_key(wanted: DesiredState, durations: Mapping[str, Sequence[float]]) -> dict[QueueKey, Sequence[float]]:
        if not durations:
            return {}
        return {pool.key: durations[pool.subject] for pool in wanted.pools if pool.subject in durations}
