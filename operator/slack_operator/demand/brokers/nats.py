"""NATS JetStream: a stream a prefix, a durable pull consumer a queue, reports by NATS's own subjects.

Dead letters: who pulls a message that was delivered as often as its queue allows moves it, before it runs once more;
whoever gives back the last attempt moves it at once. So a message that kills its container ends there too, and none is
stuck in a stream where no consumer would have it.

Ids: the server tells ids apart by stream, and all queues of a prefix are in one. So what it compares is queue and id
together, and the publisher's own id has a header of its own.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from nats.aio.msg import Msg

from slack.demand.broker import (
    DEAD_LETTERS,
    NO_TIME,
    PREFIX,
    BrokerError,
    BrokerRefused,
    BrokerUnreachable,
    Duration,
    MessageCount,
    PulledMessage,
    QueueLag,
    QueueSettings,
    RawReport,
)
from slack_operator.demand.brokers import nats_connection as connection
from slack_operator.demand.brokers import nats_layout as layout
from slack_operator.demand.brokers.broker_url import BrokerUrl
from slack_operator.demand.brokers.credentials import NONE, BrokerCredentials
from slack_operator.demand.brokers.nats_lag import LagReader
from slack_operator.demand.brokers.nats_pulls import Pulls, next_request, next_subject, wait_for
from slack_operator.demand.brokers.report_buffer import ReportBuffer

_STORED_ONCE: Final = "Nats-Msg-Id"
"""What the server compares, within a stream and its window."""
_MESSAGE_ID: Final = "Act-Message"
"""The publisher's id; the proxy gives it to the container under the same name."""
_HEADERS_BYTES: Final = 1024
"""What headers of ours take at the most, of a stored message or of a dead letter: names are bounded, and so are ids."""
_NONE_FOUND: Final = "404"
_ANSWER_SECONDS: Final = 1.0
"""What a pull waits longer than the server was told to."""
_ENSURED_AGAIN_SECONDS: Final = 0.2
_FIRST_CONNECTION_SECONDS: Final = 2.0
"""For this long the first connection is waited for; after that calls say that it is not there."""


async def open_broker(url: BrokerUrl, credentials: BrokerCredentials, name: str) -> "NatsBroker":
    """Open the servers of the URL, and wait a moment for the connection.

    Raises:
        BrokerRefused: the URL or the credentials are no good.
    """
    broker = NatsBroker(
        url.servers,
        credentials=credentials,
        ca_file=url.ca_file(),
        prefixes=url.query.get("prefix", (PREFIX,)),
        replicas=max(url.number("replicas", 1, 5), 1),
        name=name,
    )
    await broker.connection.settled(_FIRST_CONNECTION_SECONDS)
    return broker


class NatsBroker:
    """`slack.demand.broker.MessageQueue` on NATS. Begins to connect at once."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        credentials: BrokerCredentials = NONE,
        ca_file: Path | None = None,
        prefixes: tuple[str, ...] = (PREFIX,),
        replicas: int = 1,
        name: str = "resource-slack",
    ) -> None:
        self._prefixes = tuple(layout.check_prefix(prefix) for prefix in prefixes)
        self._replicas = replicas
        self._settings: dict[str, QueueSettings] = {}
        self._streams: set[str] = set()
        self._pulls = Pulls()
        self._buffer = ReportBuffer()
        self._inbox: str | None = None
        self._subscribing = asyncio.Lock()
        self._closed = False
        self.connection = connection.NatsConnection(
            servers, credentials, ca_file=ca_file, name=name, on_gone=self._on_gone
        )
        self._lag = LagReader(self.connection, self._prefixes)

    def _on_gone(self) -> None:
        self._pulls.fail_all()
        self._streams.clear()  # the server that is there next may be another

    @property
    def address(self) -> str:
        """The servers."""
        return self.connection.address

    @property
    def most_body_bytes(self) -> int:
        """The server's `max_payload` is for body and headers together."""
        return max(self.connection.most_bytes - _HEADERS_BYTES, 0)

    async def adopt(self, installation: str) -> Sequence[str]:
        """Return nothing: the server itself takes away a consumer that nobody pulls from."""
        return ()

    async def ensure(self, queue: QueueSettings) -> None:
        """Make the queue's consumer, and its prefix's stream where that is missing."""
        prefix = layout.check_queue(queue.name, self._prefixes)
        await self._ensure_stream(prefix)
        try:
            await self._ensure_consumer(prefix, queue)
        except connection.ApiRefused as refused:
            if refused.number != connection.STREAM_NOT_FOUND:
                raise
            self._streams.discard(prefix)  # somebody has deleted it since
            await self._ensure_stream(prefix)
            await self._ensure_consumer(prefix, queue)
        self._settings[queue.name] = queue

    async def _ensure_consumer(self, prefix: str, queue: QueueSettings) -> None:
        stream, name = layout.stream_name(prefix), layout.consumer_name(queue.name)
        asked = {"stream_name": stream, "config": layout.consumer_config(queue)}
        subject = f"CONSUMER.CREATE.{stream}.{name}.{queue.name}"
        await self.connection.api(subject, asked, connection.JetStreamReply)
        self._lag.know(queue.name)

    async def _ensure_stream(self, prefix: str) -> None:
        if prefix in self._streams:
            return
        await self._create_stream(layout.stream_config(prefix, self._replicas))
        await self._create_stream(layout.dead_stream_config(self._replicas))
        self._streams.add(prefix)

    async def _create_stream(self, config: Mapping[str, Any]) -> None:
        name = config["name"]
        try:
            await self.connection.api(f"STREAM.CREATE.{name}", config, connection.JetStreamReply)
        except connection.ApiRefused as refused:
            if refused.number == connection.OVERLAP:
                subjects = ", ".join(config["subjects"])
                raise BrokerRefused(
                    f"{self.connection.address}: stream {name}: another stream has subjects among {subjects}: "
                    "delete it, or give the URL ?prefix=act.NAMESPACE. so that they do not overlap"
                ) from None
            if refused.number != connection.IN_USE:
                raise
            found = (await self.connection.api(f"STREAM.INFO.{name}", None, _StreamFound)).config
            if found.retention != config["retention"] or not {*config["subjects"]} <= {*found.subjects}:
                raise BrokerRefused(
                    f"{self.connection.address}: stream {name} is there with other settings: it must have retention "
                    f"{config['retention']} and subjects {', '.join(config['subjects'])}; delete or change it"
                ) from None

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        """Store a message; an id of the last two minutes is stored once in a queue."""
        prefix = layout.check_queue(queue, self._prefixes)
        # A queue's name has no colon: two queues never come to the same, whatever their ids are.
        headers = {_STORED_ONCE: f"{queue}:{message_id}", _MESSAGE_ID: message_id} if message_id else None
        for attempt in (1, 2):
            answer = await self.connection.request(queue, body, headers)
            if answer is not None:
                _check_stored(answer, queue)
                return
            if attempt == 1:  # no stream takes it yet
                self._streams.discard(prefix)
                await self._ensure_stream(prefix)
        raise BrokerUnreachable(f"{self.connection.address}: no stream takes {queue}")

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        """Return one to `count` messages; none when the time is over."""
        layout.check_queue(queue, self._prefixes)
        deadline = time.monotonic() + wait_seconds
        while True:
            raw = self._pulls.held(queue, count)
            if not raw and (count > 1 or wait_seconds <= 0):
                raw = await self._ask(queue, count, None)
            left = deadline - time.monotonic()
            if not raw and left > 0:
                raw = await self._ask(queue, 1, left)
            messages = await self._alive(queue, raw)
            if messages or time.monotonic() >= deadline:
                return messages

    async def _ask(self, queue: str, count: int, wait_seconds: float | None) -> list[Msg]:
        inbox = await self._subscribed()
        stream = layout.stream_name(layout.check_queue(queue, self._prefixes))
        word, pull = self._pulls.begin(queue, count)
        try:
            await self.connection.publish(
                next_subject(stream, queue), next_request(count, wait_seconds), reply=f"{inbox}.{word}"
            )
            await wait_for(pull, (wait_seconds or 0.0) + _ANSWER_SECONDS)
        except BaseException:  # cancelled, or not connected
            self._pulls.end(word, cancelled=True)
            raise
        self._pulls.end(word)
        if pull.missing:
            await self.ensure(self._settings.get(queue) or QueueSettings(name=queue))
            await asyncio.sleep(_ENSURED_AGAIN_SECONDS)
        elif pull.ended and not pull.messages:
            _ = self.connection.client  # raises when the connection is what ended it
        return pull.messages

    async def _subscribed(self) -> str:
        if self._inbox is None:
            async with self._subscribing:
                if self._inbox is None:
                    inbox = self.connection.client.new_inbox()
                    await self.connection.subscribe(f"{inbox}.*", self._pulls.on_message)
                    self._inbox = inbox
        return self._inbox

    async def _alive(self, queue: str, raw: Sequence[Msg]) -> list[PulledMessage]:
        """Make messages of what came, without those that were delivered too often already: these are moved."""
        most = self._most(queue)
        messages = [_message(queue, found) for found in raw]
        for message in messages:
            if message.attempt > most:
                await self._bury(message)
        return [message for message in messages if message.attempt <= most]

    def _most(self, queue: str) -> int:
        settings = self._settings.get(queue)
        return settings.max_deliver if settings else QueueSettings(name=queue).max_deliver

    async def ack(self, message: PulledMessage) -> None:
        """End the message for good."""
        await self.connection.publish(_reply(message), b"+ACK")

    async def nak(self, message: PulledMessage, delay_seconds: Duration = NO_TIME) -> None:
        """Give it back, or move it where this was its last attempt."""
        if message.attempt >= self._most(message.queue):
            await self._bury(message)
            return
        delay = msgspec.json.encode({"delay": int(delay_seconds * layout.NANOS)}) if delay_seconds > 0 else b""
        await self.connection.publish(_reply(message), b"-NAK " + delay if delay else b"-NAK")

    async def extend(self, message: PulledMessage) -> None:
        """Begin the ack wait anew."""
        await self.connection.publish(_reply(message), b"+WPI")

    async def _bury(self, message: PulledMessage) -> None:
        stream, sequence = _place(_reply(message))
        headers = {
            _STORED_ONCE: f"dead-{stream}-{sequence}",  # whoever is ended between the two does it twice
            "Act-Queue": message.queue,
            _MESSAGE_ID: message.id,
            "Act-Attempts": f"{message.attempt}",
        }
        room = self.connection.most_bytes - connection.headers_bytes({**headers, "Act-Bytes": "0" * 12})
        if len(message.body) > room:  # its own headers were shorter
            headers["Act-Bytes"] = f"{len(message.body)}"
        answer = await self.connection.request(DEAD_LETTERS, message.body[:room], headers)
        if answer is None:
            raise BrokerUnreachable(f"{self.connection.address}: no stream takes {DEAD_LETTERS}")
        _check_stored(answer, DEAD_LETTERS)
        await self.connection.publish(_reply(message), b"+TERM")

    async def lag(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with the prefix."""
        return await self._lag.read(prefix)

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        """Drop messages that are older, those in flight included."""
        stream = layout.stream_name(layout.check_queue(queue, self._prefixes))
        asked: dict[str, Any] = {"filter": queue}
        if older_than_seconds > 0:
            since = datetime.now(UTC) - timedelta(seconds=older_than_seconds)
            wanted = {"next_by_subj": queue, "start_time": since.isoformat().replace("+00:00", "Z")}
            young = await self.connection.request(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(wanted))
            if young is None:
                raise BrokerUnreachable(f"{self.connection.address}: JetStream does not answer for stream {stream}")
            sequence = (young.headers or {}).get("Nats-Sequence")
            if sequence is not None:  # up to the first that stays; without one all of them go
                asked["seq"] = int(sequence)
            elif (young.headers or {}).get("Status") != _NONE_FOUND:
                raise BrokerRefused(f"{self.connection.address}: messages by age: the server must be 2.11 or newer")
        return MessageCount((await self.connection.api(f"STREAM.PURGE.{stream}", asked, _Purged)).purged)

    async def forget(self, queue: str) -> None:
        """Keep nothing about the queue; the server itself takes away a consumer that nobody pulls from."""
        self._settings.pop(queue, None)
        self._lag.forget(queue)

    async def delete(self, queue: str) -> None:
        """Delete the consumer and the messages."""
        stream = layout.stream_name(layout.check_queue(queue, self._prefixes))
        self._settings.pop(queue, None)
        gone = (connection.CONSUMER_NOT_FOUND, connection.STREAM_NOT_FOUND)
        try:
            await self.connection.api(
                f"CONSUMER.DELETE.{stream}.{layout.consumer_name(queue)}", None, connection.JetStreamReply
            )
        except connection.ApiRefused as refused:
            if refused.number not in gone:
                raise
        try:
            await self.drop(queue, NO_TIME)
        except connection.ApiRefused as refused:
            if refused.number not in gone:
                raise
        self._lag.forget(queue)

    async def report(self, queue: str, body: bytes) -> None:
        """Send a report, at most once."""
        layout.check_queue(queue, self._prefixes)
        await self.connection.publish(layout.REPORTS + queue, body)

    async def reports(self) -> AsyncIterator[RawReport]:
        """Iterate over the reports of all containers."""

        async def on_report(message: Msg) -> None:
            self._buffer.put(message.subject.removeprefix(layout.REPORTS), message.data)

        await self.connection.subscribe(f"{layout.REPORTS}>", on_report)
        async for report in self._buffer:
            yield report

    async def close(self) -> None:
        """Give back what was pulled for nobody, and end the connection."""
        if self._closed:
            return
        self._closed = True
        self._buffer.close()
        await self.connection.drain()
        for message in self._pulls.all_held():
            with contextlib.suppress(BrokerError):
                await self.connection.publish(message.reply, b"-NAK")
        await self.connection.close()


class _StreamSettings(msgspec.Struct, frozen=True):
    retention: str = ""
    subjects: tuple[str, ...] = ()


class _StreamFound(msgspec.Struct, frozen=True):
    config: _StreamSettings = _StreamSettings()


class _Purged(msgspec.Struct, frozen=True):
    purged: int = 0


def _check_stored(answer: Msg, queue: str) -> None:
    try:
        refusal = msgspec.json.decode(answer.data, type=connection.JetStreamReply).error
    except msgspec.DecodeError:
        raise BrokerRefused(f"{queue}: something else than JetStream answers there") from None
    if refusal is not None:
        raise BrokerRefused(f"{queue}: the message is not taken: {refusal.description}")


def _message(queue: str, found: Msg) -> PulledMessage:
    data = found.metadata
    age = max(time.time() - data.timestamp.timestamp(), 0.0)
    headers = found.headers or {}
    own_id = headers.get(_MESSAGE_ID) or headers.get(_STORED_ONCE)  # of one who publishes by himself
    return PulledMessage(
        queue=queue,
        id=own_id or f"{data.stream}-{data.sequence.stream}",
        body=found.data,
        attempt=data.num_delivered,
        age_seconds=age,
        handle=found.reply,
    )


def _reply(message: PulledMessage) -> str:
    if not isinstance(message.handle, str):
        raise TypeError("the message is of another broker")
    return message.handle


def _place(reply: str) -> tuple[str, str]:
    """Return stream and sequence of `$JS.ACK.[domain.account.]stream.consumer.delivered.stream_seq.cons_seq...`."""
    words = reply.split(".")
    first = 2 if len(words) == 9 else 4
    return words[first], words[first + 3]
