"""Clients that publish, wait until their message was run, and publish again; and what came of it."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from slack.demand.broker import BrokerError


class Side(Protocol):
    """What takes messages: one scheduler with its containers."""

    async def start(self) -> None:
        """Make what is needed before the first message."""
        ...

    async def publish(self, action: int, body: bytes) -> None:
        """Take a message."""
        ...

    def ended(self, body: bytes) -> None:
        """A message's run has ended."""
        ...

    async def stop(self) -> None:
        """End all containers, and take the queues away."""
        ...

    @property
    def started(self) -> int:
        """Containers that were started so far."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeasurement:
    """What came of one side's run; times of messages that were published after the cut."""

    per_second: float
    p50_ms: float
    p99_ms: float
    """From publication to the end of the run."""
    start_p50_ms: float
    start_p99_ms: float
    """From publication to the beginning of the run."""
    containers: int
    """Started in all, from the first second on."""
    messages: int


@dataclass(slots=True, eq=False)
class _Sent:
    published_at: float
    done: asyncio.Event = field(default_factory=asyncio.Event)
    began_at: float = 0.0


class Clients:
    """So many at once, any action alike; of one event loop."""

    def __init__(self, actions: int, clients: int, seed: int) -> None:
        self._actions = actions
        self._clients = clients
        self._random = random.Random(seed)
        self._sent: dict[bytes, _Sent] = {}
        self._number = 0
        self._over = False
        self._took: list[tuple[float, float, float]] = []
        self.ran_twice = 0
        """Runs of a message that was run before: at least once is not once."""

    def began(self, body: bytes) -> None:
        """A run begins."""
        sent = self._sent.get(body)
        if sent is None:
            self.ran_twice += 1
        elif not sent.began_at:
            sent.began_at = time.perf_counter()

    def ended(self, body: bytes) -> None:
        """A run has ended."""
        sent = self._sent.pop(body, None)
        if sent is not None:
            now = time.perf_counter()
            self._took.append((sent.published_at, sent.began_at - sent.published_at, now - sent.published_at))
            sent.done.set()

    async def run(
        self, side: Side, seconds: float, cut_seconds: float, tell: Callable[[float, int], None]
    ) -> LoadMeasurement:
        """Publish for so long; `tell` hears each second how far it is, and how many messages were run."""
        began = time.perf_counter()
        tasks = [asyncio.create_task(self._client(side)) for _ in range(self._clients)]
        try:
            while (passed := time.perf_counter() - began) < seconds:
                tell(passed, len(self._took))
                await asyncio.wait(tasks, timeout=min(1.0, seconds - passed), return_when=asyncio.FIRST_EXCEPTION)
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            self._over = True  # a library may swallow a cancellation: the next turn ends all the same
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=5.0)
        return self._measured(began + cut_seconds, seconds - cut_seconds, side.started)

    async def _client(self, side: Side) -> None:
        while not self._over:
            self._number += 1
            body = b"%d" % self._number
            sent = self._sent[body] = _Sent(time.perf_counter())
            try:
                await side.publish(self._random.randrange(self._actions), body)
            except BrokerError:
                self._sent.pop(body, None)
                raise
            await sent.done.wait()

    def _measured(self, since: float, seconds: float, containers: int) -> LoadMeasurement:
        counted = [(start, whole) for published, start, whole in self._took if published + whole >= since]
        starts, wholes = sorted(start for start, _ in counted), sorted(whole for _, whole in counted)
        return LoadMeasurement(
            per_second=len(counted) / seconds,
            p50_ms=at(wholes, 0.5) * 1000,
            p99_ms=at(wholes, 0.99) * 1000,
            start_p50_ms=at(starts, 0.5) * 1000,
            start_p99_ms=at(starts, 0.99) * 1000,
            containers=containers,
            messages=len(counted),
        )


def at(ordered: list[float], share: float) -> float:
    """Return the value that a share of an ordered list is not above; 0 of none."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
