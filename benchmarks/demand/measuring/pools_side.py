"""Our side: the rules of `slack.demand.tick` over a broker and processes of this node."""

import asyncio
import contextlib
import time
from collections import defaultdict
from dataclasses import replace

from slack.demand.broker import BrokerError, Duration, MessageQueue, QueueSettings
from slack.demand.model import Guards, PoolContainer, PoolSettings, QueueKey, QuotaSettings
from slack.demand.reports import ContainerReport, InvalidReport, decode_report
from slack.demand.tick import NodeRoom, PoolScheduler, TickInput
from slack_operator.demand.containers import Containers

TICK_SECONDS = 0.1
_MEMORY = 64


class PoolsSide:
    """A namespace with a pool an action, whose limit is all slots."""

    def __init__(
        self,
        broker: MessageQueue,
        containers: Containers,
        *,
        namespace: str,
        actions: int,
        nodes: int,
        slots: int,
        ack_wait_seconds: float,
        guards: Guards | None = None,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._broker = broker
        self._containers = containers
        self._namespace = namespace
        self._nodes = [NodeRoom(name=f"node-{number}", slots=slots) for number in range(nodes)]
        self._tick_seconds = tick_seconds
        self._ack_wait_seconds = ack_wait_seconds
        self._pools = [
            PoolSettings(
                key=QueueKey(namespace, f"a{number}"),
                subject=f"act.{namespace}.a{number}.{_MEMORY}",
                revision="r1",
                max_containers=nodes * slots,
                idle_timeout_seconds=10.0,
                creation_timeout_seconds=20.0,
            )
            for number in range(actions)
        ]
        self.scheduler = PoolScheduler(epoch="bench", guards=guards)
        self.scheduler.configure(self._pools, [QuotaSettings(namespace=namespace, max_containers=nodes * slots)])
        self._reports: dict[str, tuple[float, ContainerReport]] = {}
        self._durations: defaultdict[QueueKey, list[float]] = defaultdict(list)
        self._keys = {pool.subject: pool.key for pool in self._pools}
        self._tasks: list[asyncio.Task[None]] = []
        self._failures: list[tuple[str, str]] = []
        self._started = 0
        self.tick_seconds: list[float] = []
        """How long each tick took."""

    async def start(self) -> None:
        """Make the queues, and begin to decide."""
        for pool in self._pools:
            await self._broker.ensure(
                QueueSettings(name=pool.subject, ack_wait_seconds=Duration(self._ack_wait_seconds))
            )
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._decide())]

    async def publish(self, action: int, body: bytes) -> None:
        """Publish to the action's queue: nothing else is on a message's way."""
        await self._broker.publish(self._pools[action].subject, body)

    def ended(self, body: bytes) -> None:
        """Nobody needs to know."""

    def failed(self, creation_id: str, reason: str) -> None:
        """Take note of a creation that failed; from any thread."""
        self._failures.append((creation_id, reason))

    @property
    def started(self) -> int:
        """Containers that were asked for."""
        return self._started

    async def _listen(self) -> None:
        async for raw in self._broker.reports():
            with contextlib.suppress(InvalidReport):
                report = decode_report(raw.body)
                self._reports[report.container] = time.time(), report
                if raw.queue in self._keys:
                    self._durations[self._keys[raw.queue]].extend(report.last_run_ms)

    async def _decide(self) -> None:
        while True:
            began = time.perf_counter()
            with contextlib.suppress(BrokerError):  # what cannot be read is not decided about
                await self._tick()
            self.tick_seconds.append(time.perf_counter() - began)
            await asyncio.sleep(max(self._tick_seconds - (time.perf_counter() - began), 0.0))

    async def _tick(self) -> None:
        lags = await self._broker.lag(f"act.{self._namespace}.")
        now = time.time()
        while self._failures:
            creation_id, reason = self._failures.pop()
            self.scheduler.failed(creation_id, now, reason)
        durations, self._durations = self._durations, defaultdict(list)
        containers = [self._with_report(container) for container in self._containers.seen()]
        result = self.scheduler.tick(
            TickInput(now_seconds=now, lags=lags, containers=containers, durations_ms=durations, nodes=self._nodes)
        )
        self._started += len(result.creations)
        self._containers.create(result.creations)
        self._containers.end(result.endings)

    def _with_report(self, container: PoolContainer) -> PoolContainer:
        told_at, report = self._reports.get(container.id, (0.0, None))
        if report is None or report.idle_seconds is None:
            return container
        return replace(container, idle_since_seconds=told_at - report.idle_seconds)

    async def stop(self) -> None:
        """Decide no more, and take the queues away."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for pool in self._pools:
            await self._broker.delete(pool.subject)
