"""A broker in memory, as far as a proxy sees one; what it was told is kept."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

from slack.demand.broker import (
    NO_TIME,
    BrokerUnreachable,
    Duration,
    MessageCount,
    PulledMessage,
    QueueLag,
    QueueSettings,
    RawReport,
)


class MemoryBroker:
    """`slack.demand.broker.MessageQueue` for tests of what calls it."""

    def __init__(self, *bodies: bytes, queue: str = "act.a.b.1") -> None:
        self.waiting = {queue: deque(PulledMessage(queue=queue, id=f"{n}", body=body) for n, body in enumerate(bodies))}
        self.acked: list[bytes] = []
        self.given_back: list[tuple[bytes, float]] = []
        self.extended: list[bytes] = []
        self.made: list[QueueSettings] = []
        self.forgotten: list[str] = []
        self.dropped: list[tuple[str, Duration]] = []
        """What `drop` was asked for."""
        self.made_before: Sequence[str] = ()
        """What `adopt` returns."""
        self.installations: list[str] = []
        self.gone = False
        self.most_body_bytes: int | None = None
        self.address = "memory"

    def _look(self) -> None:
        if self.gone:
            raise BrokerUnreachable("memory: not connected")

    async def adopt(self, installation: str) -> Sequence[str]:
        self._look()
        self.installations.append(installation)
        return self.made_before

    async def ensure(self, queue: QueueSettings) -> None:
        self._look()
        self.made.append(queue)

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        self.waiting.setdefault(queue, deque()).append(PulledMessage(queue=queue, id=message_id or "x", body=body))

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        self._look()
        found = self.waiting.get(queue)
        if found:
            return [found.popleft()]
        await asyncio.sleep(min(wait_seconds, 0.005))
        return []

    async def ack(self, message: PulledMessage) -> None:
        self._look()
        self.acked.append(message.body)

    async def nak(self, message: PulledMessage, delay_seconds: Duration = NO_TIME) -> None:
        self._look()
        self.given_back.append((message.body, delay_seconds))

    async def extend(self, message: PulledMessage) -> None:
        self.extended.append(message.body)

    async def lag(self, prefix: str = "act.") -> Mapping[str, QueueLag]:
        return {name: QueueLag(backlog=len(found), in_flight=0) for name, found in self.waiting.items()}

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        self.dropped.append((queue, older_than_seconds))
        return MessageCount(0)

    async def forget(self, queue: str) -> None:
        self._look()
        self.forgotten.append(queue)

    async def delete(self, queue: str) -> None:
        self.waiting.pop(queue, None)

    async def report(self, queue: str, body: bytes) -> None:
        self._look()

    async def reports(self) -> AsyncIterator[RawReport]:
        yield RawReport(queue="", body=b"")

    async def close(self) -> None:
        self.gone = True
