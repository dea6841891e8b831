"""The slots of one container: each pulls a message, has it run, acks it or gives it back, and pulls the next.

A message is never lost: it is acked after its run, and whatever ends us before that makes it another's once the ack
wait is over. While a run goes on the broker is told so. To drain is to pull no more and to finish what runs; what was
pulled at that very moment the broker gives back. The way of a message never depends on who decides about containers.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from slack.demand.broker import (
    DEFAULT_ACK_WAIT,
    NO_TIME,
    BrokerError,
    BrokerRefused,
    BrokerUnreachable,
    Duration,
    MessageCount,
    MessageQueue,
    PulledMessage,
    QueueSettings,
)
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.tasks import SupervisedTask
from slack_operator.demand.proxy.counts import ProxyCounts
from slack_operator.demand.proxy.runner import Runner, RunnerGone, RunOutcome

log = logging.getLogger(__name__)

ONE: Final = MessageCount(1)
POLL_SECONDS: Final = Duration(5.0)
"""How long a pull waits: a request that is lost is asked again after that."""
RETIRED_POLL_SECONDS: Final = Duration(1.0)
"""Where older queues are looked at as well."""
_WAITS: Final = 0.25
_REFUSED_SECONDS: Final = 2.0
_FIRST_DELAY_SECONDS: Final = 0.1
_LONGEST_DELAY_SECONDS: Final = 10.0
_EXTENDED_PER_WAIT: Final = 4
_EXTEND_SECONDS: Final = 60.0
"""Beyond the ack wait, without a turn, the task that extends runs counts as stuck."""
_CANCELLED_AGAIN_SECONDS: Final = 0.3
"""A pull that was cancelled has so long to give back what came for it."""
_LAST_WORD_SECONDS: Final = 0.5
"""Once the container drains, the end of a run is told for so long: a broker that is away must not keep it."""
_OTHERS_PULL: Final = 0.05
"""Until a slot looks again whether another one has got the last message that the container may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """What the slots go by."""

    queues: tuple[str, ...]
    slots: int = 1
    ack_wait_seconds: Duration = DEFAULT_ACK_WAIT
    max_deliver: int = 5
    longest_run_seconds: float = 3600.0
    messages: int = 0
    """The container ends after so many; 0: as many as come."""


class Slots:
    """All slots of one container, of one event loop."""

    def __init__(
        self,
        broker: MessageQueue,
        runner: Runner,
        settings: SlotSettings,
        counts: ProxyCounts,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._runner = runner
        self._settings = settings
        self._counts = counts
        self._on_ready = on_ready
        self._tasks: tuple[SupervisedTask, ...] = ()
        self._running: dict[PulledMessage, None] = {}
        self._pulling: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Timeout] = set()
        """How long the ends of runs are told."""
        self._taken = 0
        """Messages that are pulled or were; none is pulled beyond the number that the container has."""
        self._begun = 0
        self._outages = Outages()
        self.draining = False
        self.reachable = False
        """Whether the broker answered last."""
        self.ready = False
        """Whether messages are pulled, or could be."""
        self.trouble: str | None = "nothing was pulled yet"
        """Why none are."""

    async def run(self) -> None:
        """Pull and run until drained.

        Raises:
            RunnerGone: what runs messages has ended.
        """
        if not await self._until_drained(self._runner.start()) or not await self._until_drained(self._ensured()):
            return
        self.ready, self.trouble = True, None
        self._on_ready()
        tasks = [asyncio.create_task(self._slot()) for _ in range(self._settings.slots)]
        heart = Heartbeat("the task that extends runs", self._settings.ack_wait_seconds + _EXTEND_SECONDS)
        extending = SupervisedTask(self._extend(heart), heart=heart)
        self._tasks = (extending,)
        try:
            left = set(tasks)
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not task.cancelled():
                        task.result()
                    elif not self.draining:
                        raise RunnerGone("the task of a slot was cancelled")
        finally:
            self.drain()
            await asyncio.wait(tasks)
            await extending.end()

    def unhealthy(self) -> str | None:
        """Return why runs are not extended any more; None if they are. A slot that ends ends the container."""
        return first_problem(*self._tasks)

    def drain(self) -> None:
        """Pull no more; `run` returns when what runs has ended."""
        self.draining, self.ready = True, False
        self.trouble = "draining"
        self._end_pulls()
        last = asyncio.get_running_loop().time() + _LAST_WORD_SECONDS
        for limit in self._telling:
            if not limit.expired():
                limit.reschedule(min(last, limit.when() or last))

    def _end_pulls(self) -> None:
        """Cancel pulls, and cancel again those whose cleaning up waits for a broker that does not answer."""
        for task in self._pulling:
            task.cancel()
        if self._pulling:
            asyncio.get_running_loop().call_later(_CANCELLED_AGAIN_SECONDS, self._end_hung_pulls)

    def _end_hung_pulls(self) -> None:
        if self._pulling:
            self.reachable = False
            self._end_pulls()

    async def _until_drained(self, work: Awaitable[None]) -> bool:
        """Do what comes before the first pull, which may take for ever; False when the end came first."""
        task = asyncio.ensure_future(work)
        self._pulling.add(task)
        try:
            await task
        except asyncio.CancelledError:
            if not self.draining:
                raise
            return False
        finally:
            self._pulling.discard(task)
        return not self.draining

    async def _ensured(self) -> None:
        while True:
            try:
                for queue in self._settings.queues:
                    await self._broker.ensure(
                        QueueSettings(
                            name=queue,
                            ack_wait_seconds=self._settings.ack_wait_seconds,
                            max_deliver=self._settings.max_deliver,
                        )
                    )
            except BrokerError as error:
                await self._wait_for_broker(error)
            else:
                self.reachable = True
                return

    async def _slot(self) -> None:
        most = self._settings.messages
        while not self.draining:
            if most and self._taken >= most:
                if self._begun >= most:
                    self.drain()
                else:
                    await asyncio.sleep(_OTHERS_PULL)
                continue
            self._taken += 1
            message = await self._next()
            if message is None:
                self._taken -= 1
                continue
            self._begun += 1
            await self._handle(message)

    async def _next(self) -> PulledMessage | None:
        """Pull one message; None when there was none, or the end came."""
        task = asyncio.current_task()
        assert task is not None, "a slot is a task"
        self._pulling.add(task)
        try:
            if self._runner.broken() is not None:
                self.trouble = self._runner.broken()
                await asyncio.sleep(_WAITS)
                return None
            found = await self._pulled_or_waited()
        except asyncio.CancelledError:
            if not self.draining:
                raise
            return None
        finally:
            self._pulling.discard(task)
        return found[0] if found else None

    async def _pulled_or_waited(self) -> Sequence[PulledMessage]:
        try:
            found = await self._pulled()
        except BrokerError as error:
            await self._wait_for_broker(error)
            return ()
        self.trouble, self.reachable = None, True
        return found

    async def _pulled(self) -> Sequence[PulledMessage]:
        own, *older = self._settings.queues
        for queue in older:
            found = await self._broker.pull(queue, ONE, NO_TIME)
            if found:
                return found
        return await self._broker.pull(own, ONE, RETIRED_POLL_SECONDS if older else POLL_SECONDS)

    async def _wait_for_broker(self, error: BrokerError) -> None:
        """Wait before the broker is asked again, for ever if need be. `drain` cancels the wait.

        Idle is only who could have had a message, so that the time of waiting is none.
        """
        self.trouble, self.reachable = str(error), False
        self._counts.stir()
        if self._outages.is_new(self.trouble):
            log.warning("no messages: %s", error)
        await asyncio.sleep(_REFUSED_SECONDS if isinstance(error, BrokerRefused) else _WAITS)

    async def _handle(self, message: PulledMessage) -> None:
        began = time.monotonic()
        self._running[message] = None
        self._counts.began(message)
        try:
            outcome = await self._run(message)
        except RunnerGone as gone:
            self._counts.ended(time.monotonic() - began, done=False)
            await self._give_back(message, RunOutcome(done=False, reason=str(gone)))
            raise
        finally:
            self._running.pop(message, None)
        self._counts.ended(time.monotonic() - began, done=outcome.done)
        if outcome.done:
            await self._tell(lambda: self._broker.ack(message))
        else:
            if self._outages.is_new(outcome.reason):
                log.warning("a run failed, and its message is given back: %s", outcome.reason)
            await self._give_back(message, outcome)

    async def _run(self, message: PulledMessage) -> RunOutcome:
        try:
            async with asyncio.timeout(self._settings.longest_run_seconds):
                return await self._runner.run(message)
        except TimeoutError:
            seconds = self._settings.longest_run_seconds
            return RunOutcome(done=False, reason=f"a run took longer than {seconds:g} s")

    async def _give_back(self, message: PulledMessage, outcome: RunOutcome) -> None:
        doubled = _FIRST_DELAY_SECONDS * 2.0 ** min(message.attempt - 1, 10)
        delay = min(doubled, _LONGEST_DELAY_SECONDS) if outcome.delay_seconds is None else outcome.delay_seconds
        await self._tell(lambda: self._broker.nak(message, Duration(delay)))

    async def _tell(self, say: Callable[[], Awaitable[None]]) -> None:
        """Say how it ended while that is of use: after the ack wait the message is another's."""
        seconds = _LAST_WORD_SECONDS if self.draining else self._settings.ack_wait_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                self._telling.add(limit)
                try:
                    await self._said(say)
                finally:
                    self._telling.discard(limit)

    async def _said(self, say: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await say()
            except BrokerUnreachable:
                await asyncio.sleep(_WAITS)
            except BrokerRefused as error:
                log.warning("a message's end was refused: %s", error)
                return
            else:
                return

    async def _extend(self, heart: Heartbeat) -> None:
        """Tell the broker of all runs that go on."""
        while True:
            await asyncio.sleep(self._settings.ack_wait_seconds / _EXTENDED_PER_WAIT)
            heart.beat()
            for message in tuple(self._running):
                heart.beat()
                with contextlib.suppress(BrokerError):
                    await self._broker.extend(message)
