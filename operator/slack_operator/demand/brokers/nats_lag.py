"""The lag of all queues of a NATS server: one STREAM.INFO a stream, and consumers read a page at a time.

A work-queue stream counts by subject what is not acked: one read of the stream, 4 ms for 5,000 queues, has backlog and
in-flight together. How much of it is in flight only the consumers know. Up to 256 of them come as one page of the
consumers' list, so few queues are exact at each read. Of more, each read takes the next page, and asks for those with
messages that were not read for longest, a bounded number; until a queue is read again, what was in flight is still
taken to be, as far as there are so many messages. `benchmarks/demand/queues.py` measures it against a read a queue.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from slack.demand.broker import PREFIX, BrokerUnreachable, QueueLag
from slack_operator.demand.brokers import nats_layout as layout
from slack_operator.demand.brokers.nats_connection import (
    CONSUMER_NOT_FOUND,
    STREAM_NOT_FOUND,
    ApiRefused,
    JetStreamReply,
    NatsConnection,
)

PAGE: Final = 256
"""JetStream's own, of a list of consumers."""
READS: Final = 32
"""Consumers that are asked for one by one at a read, beside the page."""
STREAM_SECONDS: Final = 1.0
"""A stream that takes longer does not answer; other streams are read all the same."""
CONSUMER_SECONDS: Final = 0.5
SILENT_SECONDS: Final = 5.0
"""A stream that did not answer is asked again after so long."""
SKIPPED_READS: Final = 50
"""A consumer that did not answer is not asked again for so many reads."""
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


class _Consumers(JetStreamReply, frozen=True):
    total: int = 0
    consumers: tuple[_Consumer, ...] | None = ()


class _OneConsumer(_Consumer, frozen=True, gc=False):
    pass


class _State(msgspec.Struct, frozen=True):
    subjects: dict[str, int] | None = None


class _Stream(JetStreamReply, frozen=True):
    total: int = 0
    state: _State = _State()


@dataclass(slots=True)
class _Known:
    """What a queue's consumer said when it was read last, at read number `read`; -1: never."""

    read: int = -1
    in_flight: int = 0
    delivered: int = 0
    published: int = 0


@dataclass(frozen=True, slots=True)
class _Silent:
    """A stream that did not answer or was refused, and when it is asked again."""

    due_at: float
    words: str


_NEVER: Final = _Silent(float("-inf"), "")


class LagReader:
    """Owned by one event loop, and called one read at a time."""

    def __init__(
        self, connection: NatsConnection, prefixes: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._prefixes = prefixes
        self._clock = clock
        self._silent: dict[str, _Silent] = {}
        """Prefixes whose streams do not answer."""
        self._ensured: set[str] = set()
        self._round: dict[str, int] = {}
        """By prefix, the read at which the present round of its list of consumers began."""
        self._round_began: dict[str, int] = {}
        """By prefix, the read at which the last whole round of its list of consumers began."""
        self._known: dict[str, _Known] = {}
        self._offsets: dict[str, int] = {}
        self._read = 0
        self._turn = asyncio.Lock()

    def know(self, queue: str) -> None:
        """A queue was made: it is told of from now on."""
        self._ensured.add(queue)
        self._known.setdefault(queue, _Known())

    def forget(self, queue: str) -> None:
        """A queue was deleted, or no pool wants it any more."""
        self._ensured.discard(queue)
        self._known.pop(queue, None)

    async def read(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with the prefix.

        Raises:
            BrokerUnreachable: not connected, or all streams have no answer in time or are refused.
        """
        async with self._turn:
            self._read += 1
            asked = [own for own in self._prefixes if own.startswith(prefix) or prefix.startswith(own)]
            due = [own for own in asked if self._clock() >= self._silent.get(own, _NEVER).due_at]
            read = await asyncio.gather(*(self._stream_or_silence(own, max(own, prefix, key=len)) for own in due))
            counts = {queue: count for found in read for queue, count in (found or {}).items()}
            silent = [own for own in asked if own in self._silent]
            if silent and len(silent) == len(asked):  # no stream answers: it is the server, and it is asked each time
                words = self._silent[silent[0]].words
                self._silent.clear()
                raise BrokerUnreachable(words)
            await self._waiting_longest(counts)
            self._prune(prefix, counts, silent)
            return {
                queue: self._lag(counts.get(queue, 0), known) if own is None else self._unread(own)
                for queue, known in self._known.items()
                if queue.startswith(prefix)
                for own in (next((own for own in silent if queue.startswith(own)), None),)
            }

    async def _stream_or_silence(self, own: str, prefix: str) -> dict[str, int] | None:
        """Return a stream's counts; None if it does not answer or is refused, which is that stream's failure alone."""
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                counts = await self._stream(own, prefix)
        except (BrokerUnreachable, ApiRefused, TimeoutError) as error:
            words = str(error) or f"stream {layout.stream_name(own)} does not answer"
            self._silent[own] = _Silent(self._clock() + SILENT_SECONDS, words)
            return None
        self._silent.pop(own, None)
        return counts

    def _unread(self, own: str) -> QueueLag:
        return QueueLag(backlog=0, in_flight=0, problem=self._silent[own].words)

    def _prune(self, prefix: str, counts: Mapping[str, int], silent: Sequence[str]) -> None:
        """Forget names that nobody has made and that are empty: who may publish may think up any number of them.

        A consumer that was seen in a list counts as made until a whole round of lists has not had it.
        """
        for queue, known in list(self._known.items()):
            if not queue.startswith(prefix) or queue in counts or queue in self._ensured:
                continue
            own = next((own for own in self._prefixes if queue.startswith(own)), None)
            if own is None or (own not in silent and known.read < self._round_began.get(own, 0)):
                del self._known[queue]

    async def _stream(self, own: str, prefix: str) -> dict[str, int]:
        stream = layout.stream_name(own)
        try:
            counts, _ = await asyncio.gather(self._counts(stream, prefix), self._page(own, stream))
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

    async def _page(self, own: str, stream: str) -> None:
        offset = self._offsets.get(stream, 0)
        if offset == 0:
            self._round_began[own], self._round[own] = self._round.get(own, 0), self._read
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
            async with asyncio.timeout(CONSUMER_SECONDS):
                self._learn(queue, await self._connection.api(subject, None, _OneConsumer))
        except (BrokerUnreachable, ApiRefused, TimeoutError) as error:
            if isinstance(error, ApiRefused) and error.number in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                self._known[queue] = _Known(read=self._read)  # nobody has pulled from it: all of it waits
                return
            # This consumer alone does not answer: what it said last holds on, and others have their turn before it.
            self._known[queue].read = self._read + SKIPPED_READS

    def _learn(self, queue: str, consumer: _Consumer) -> None:
        delivered = consumer.delivered.consumer_seq
        self._known[queue] = _Known(
            read=self._read,
            in_flight=consumer.num_ack_pending,
            delivered=delivered,
            published=delivered + consumer.num_pending,
        )

    def _lag(self, messages: int, known: _Known) -> QueueLag:
        known.in_flight = min(known.in_flight, messages)
        return QueueLag(
            backlog=messages - known.in_flight,
            in_flight=known.in_flight,
            delivered_total=known.delivered if known.read >= 0 else None,
            published_total=known.published if known.read >= 0 else None,
        )
