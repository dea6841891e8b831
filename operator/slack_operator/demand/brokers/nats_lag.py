"""The lag of all queues of a NATS server: one STREAM.INFO a stream, and consumers read a page at a time.

A work-queue stream counts by subject what is not acked: one read of the stream, 4 ms for 5,000 queues, has backlog and
in-flight together. How much of it is in flight only the consumers know. Up to 256 of them come as one page of the
consumers' list, so few queues are exact at each read. Of more, each read takes the next page, and asks for those with
messages that were not read for longest, a bounded number; until a queue is read again, what was in flight is still
taken to be, as far as there are so many messages. `benchmarks/demand/queues.py` measures it against a read a queue.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from slack.demand.broker import PREFIX, QueueLag
from slack_operator.demand.brokers import nats_layout as layout
from slack_operator.demand.brokers.nats_connection import (
    CONSUMER_NOT_FOUND,
    STREAM_NOT_FOUND,
    ApiRefused,
    NatsConnection,
    Reply,
)

PAGE: Final = 256
"""JetStream's own, of a list of consumers."""
READS: Final = 32
"""Consumers that are asked for one by one at a read, beside the page."""
_LISTED: Final = 8
"""Pages of the stream's subjects: 100,000 each."""


class _Sequence(msgspec.Struct, frozen=True, gc=False):
    consumer_seq: int = 0


class _Filter(msgspec.Struct, frozen=True, gc=False):
    filter_subject: str = ""


class _Consumer(msgspec.Struct, frozen=True, gc=False):
    config: _Filter = _Filter()
    delivered: _Sequence = _Sequence()
    num_ack_pending: int = 0
    num_pending: int = 0


class _Consumers(Reply, frozen=True):
    total: int = 0
    consumers: tuple[_Consumer, ...] | None = ()


class _OneConsumer(_Consumer, frozen=True, gc=False):
    pass


class _State(msgspec.Struct, frozen=True):
    subjects: dict[str, int] | None = None


class _Stream(Reply, frozen=True):
    total: int = 0
    state: _State = _State()


@dataclass(slots=True)
class _Known:
    """What a queue's consumer said when it was read last, at read number `read`; -1: never."""

    read: int = -1
    in_flight: int = 0
    delivered: int = 0
    published: int = 0
    made: bool = False
    """It was ensured, or has a consumer. Any other is only what somebody has published to."""


class LagReader:
    """Owned by one event loop, and called one read at a time."""

    def __init__(self, connection: NatsConnection, prefixes: Sequence[str]) -> None:
        self._connection = connection
        self._prefixes = prefixes
        self._known: dict[str, _Known] = {}
        self._offsets: dict[str, int] = {}
        self._read = 0
        self._turn = asyncio.Lock()

    def know(self, queue: str) -> None:
        """A queue was made: it is told of from now on."""
        self._known.setdefault(queue, _Known()).made = True

    def forget(self, queue: str) -> None:
        """A queue was deleted."""
        self._known.pop(queue, None)

    async def read(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with the prefix.

        Raises:
            BrokerUnreachable: not connected, or no answer in time.
            BrokerRefused: the server says no.
        """
        async with self._turn:
            self._read += 1
            counts: dict[str, int] = {}
            for own in self._prefixes:
                if own.startswith(prefix) or prefix.startswith(own):
                    counts |= await self._stream(own, max(own, prefix, key=len))
            await self._waiting_longest(counts)
            for queue in [name for name, known in self._known.items() if not known.made and name.startswith(prefix)]:
                if queue not in counts:  # who may publish may think up any number of names
                    self.forget(queue)
            return {
                queue: self._lag(counts.get(queue, 0), known)
                for queue, known in self._known.items()
                if queue.startswith(prefix)
            }

    async def _stream(self, own: str, prefix: str) -> dict[str, int]:
        stream = layout.stream_name(own)
        try:
            counts, _ = await asyncio.gather(self._counts(stream, prefix), self._page(stream))
        except ApiRefused as refused:
            if refused.number != STREAM_NOT_FOUND:
                raise
            # No queue was made yet, or the server came back empty: whoever goes by what is told makes them anew.
            for queue in [name for name in self._known if name.startswith(own)]:
                self.forget(queue)
            self._offsets.pop(stream, None)
            return {}
        return counts

    async def _counts(self, stream: str, prefix: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _ in range(_LISTED):
            asked = {"subjects_filter": f"{prefix}>", "offset": len(counts)}
            found = await self._connection.api(f"STREAM.INFO.{stream}", asked, _Stream)
            page = found.state.subjects or {}
            counts |= page
            if not page or len(counts) >= found.total:
                break
        for queue in counts:
            self._known.setdefault(queue, _Known())  # published to before anybody made it
        return counts

    async def _page(self, stream: str) -> None:
        offset = self._offsets.get(stream, 0)
        page = await self._connection.api(f"CONSUMER.LIST.{stream}", {"offset": offset}, _Consumers)
        for consumer in page.consumers or ():
            if consumer.config.filter_subject:
                self._learn(consumer.config.filter_subject, consumer)
        self._offsets[stream] = offset + PAGE if offset + PAGE < page.total else 0

    async def _waiting_longest(self, counts: Mapping[str, int]) -> None:
        late = [queue for queue in counts if self._known[queue].read < self._read]
        late.sort(key=lambda queue: self._known[queue].read)
        await asyncio.gather(*(self._one(queue) for queue in late[:READS]))

    async def _one(self, queue: str) -> None:
        own = next(prefix for prefix in self._prefixes if queue.startswith(prefix))
        subject = f"CONSUMER.INFO.{layout.stream_name(own)}.{layout.consumer_name(queue)}"
        try:
            self._learn(queue, await self._connection.api(subject, None, _OneConsumer))
        except ApiRefused as refused:
            if refused.number not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                raise
            # Nobody has pulled from it: all of it waits.
            known = self._known.get(queue)
            self._known[queue] = _Known(read=self._read, made=known is not None and known.made)

    def _learn(self, queue: str, consumer: _Consumer) -> None:
        delivered = consumer.delivered.consumer_seq
        self._known[queue] = _Known(
            read=self._read,
            in_flight=consumer.num_ack_pending,
            delivered=delivered,
            published=delivered + consumer.num_pending,
            made=True,
        )

    def _lag(self, messages: int, known: _Known) -> QueueLag:
        known.in_flight = min(known.in_flight, messages)
        return QueueLag(
            backlog=messages - known.in_flight,
            in_flight=known.in_flight,
            delivered_total=known.delivered if known.read >= 0 else None,
            published_total=known.published if known.read >= 0 else None,
        )
