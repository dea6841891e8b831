"""Redis Streams: a stream and a consumer group a queue, reports by publish and subscribe.

Redis 7 or newer, one server or one behind a proxy: a cluster would need all queues' keys in one slot. What a message
needs to go from one hand to another in one step is Lua (`redis_scripts`). A late message is looked for at each pull,
and each half second of one that waits: redelivery comes that long after the ack wait.
"""

import asyncio
import contextlib
import secrets
import socket
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from redis import exceptions
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

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
from slack.demand.subjects import InvalidSubject, Subject
from slack_operator.demand.brokers import redis_scripts as scripts
from slack_operator.demand.brokers.broker_url import BrokerUrl
from slack_operator.demand.brokers.credentials import NONE, BrokerCredentials
from slack_operator.demand.brokers.redis_lag import FIGURES, RedisFigures, RedisLags
from slack_operator.demand.brokers.report_buffer import ReportBuffer

ANSWER_SECONDS: Final = 2.0
LATE_LOOK_SECONDS: Final = 0.5
"""So often a pull that waits looks for messages whose ack wait is over."""
_CHUNK: Final = 500
"""Queues in one look at the lag: Redis does nothing else for that long, about 4 ms."""
_LOOKS: Final = 32
"""Of these, first entries that are looked at for their age; an entry may be a megabyte. As many are tidied."""
_MOST_NAME: Final = 512
_MOST_ADOPTED: Final = 100_000
"""Queues of earlier leaders: who may write to the server may fill the set."""
_LEAST_VERSION: Final = 7
_NO_GROUP: Final = "NOGROUP"
_NATS_CREDENTIALS: Final = "credentials file: is of NATS: for Redis write user:password, or a password alone"


_KEEP_ALIVE: Final = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)  # macOS has other names for some
}
"""The kernel asks a peer that says nothing after ten seconds, and gives it up a quarter of a minute later."""


async def open_broker(url: BrokerUrl, credentials: BrokerCredentials, name: str) -> "RedisBroker":
    """Return the server of the URL, which is connected to at the first call.

    Raises:
        BrokerRefused: the URL or the credentials are no good.
    """
    return RedisBroker(
        *url.hosts[0],
        credentials=credentials,
        tls=url.scheme == "rediss",
        ca_file=url.ca_file(),
        database=url.number("db", 0, 1023),
        name=name,
    )


class RedisBroker:
    """`slack.demand.broker.MessageQueue` on Redis. Connects at the first call."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        credentials: BrokerCredentials = NONE,
        tls: bool = False,
        ca_file: Path | None = None,
        database: int = 0,
        name: str = "resource-slack",
    ) -> None:
        if credentials.creds_file is not None:
            raise BrokerRefused(_NATS_CREDENTIALS)
        self.address = f"{'rediss' if tls else 'redis'}://{host}:{port}"
        self._options: dict[str, Any] = {
            "host": host,
            "port": port,
            "db": database,
            "credential_provider": None if credentials == NONE else _FreshCredentials(credentials),
            "connection_class": _TlsConnection if tls else Connection,
            "client_name": "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name),
            "protocol": 2,
            "socket_connect_timeout": ANSWER_SECONDS,
            # What the library would send again might have been done: publishing twice is for the caller to choose.
            "retry": Retry(NoBackoff(), 0),
            # Who only listens for reports sends nothing: a server whose machine is gone would never be missed.
            "socket_keepalive": True,
            "socket_keepalive_options": _KEEP_ALIVE,
        }
        if tls:
            self._options["ssl_ca_certs"] = str(ca_file) if ca_file else None
        self._made_by_us: str | None = None
        """The set of queues that this installation has made; None: nobody has said which installation it is."""
        self._consumer = f"c-{secrets.token_hex(8)}"
        self.client = self._new_client(ANSWER_SECONDS)
        self._waiters: list[_Waiter] = []
        self._settings: dict[str, QueueSettings] = {}
        self._pulled: set[str] = set()
        self._held: defaultdict[str, deque[PulledMessage]] = defaultdict(deque)
        self._buffer = ReportBuffer()
        self._reads = 0
        self._lags = RedisLags()
        self._closed = False
        self._take = self.client.register_script(scripts.TAKE)
        self._store = self.client.register_script(scripts.PUBLISH)
        self._hold = self.client.register_script(scripts.HOLD)
        self._bury_script = self.client.register_script(scripts.BURY)
        self._lag_script = self.client.register_script(scripts.LAG)
        self._sweep = self.client.register_script(scripts.SWEEP)
        self._drop_script = self.client.register_script(scripts.DROP)
        self._forget_script = self.client.register_script(scripts.FORGET)

    def _new_client(self, timeout_seconds: float | None) -> Redis:
        # `from_pool` closes the pool with the client, as the client does with a pool that it has made.
        return Redis.from_pool(ConnectionPool(socket_timeout=timeout_seconds, **self._options))

    @property
    def most_body_bytes(self) -> None:
        """Half a gigabyte: no limit that anybody meets."""

    async def adopt(self, installation: str) -> Sequence[str]:
        """Return the queues of the set that this installation keeps; none where the user may not read it."""
        self._made_by_us = scripts.MADE + installation
        found: list[str] = []
        cursor, first = 0, True
        with self._mapped(), contextlib.suppress(exceptions.ResponseError):
            while (cursor or first) and len(found) < _MOST_ADOPTED:
                first = False
                cursor, names = await self.client.sscan(self._made_by_us, cursor, count=_CHUNK)
                found += [name for raw in names if (name := _queue(raw)) is not None]
            if self._settings:
                await self.client.sadd(self._made_by_us, *self._settings)
        return found

    async def ensure(self, queue: QueueSettings) -> None:
        """Make stream and group; consumers that are long gone are forgotten."""
        _check(queue.name)
        with self._mapped():
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.xgroup_create(queue.name, scripts.GROUP, "0", mkstream=True, entries_read=0)
                pipe.sadd(scripts.QUEUES, queue.name)
                for result in await pipe.execute(raise_on_error=False):
                    if isinstance(result, Exception) and "BUSYGROUP" not in str(result):
                        raise await self._explained(result)
            if self._made_by_us is not None:
                with contextlib.suppress(exceptions.ResponseError):  # no right to the set: empty streams may stay
                    await self.client.sadd(self._made_by_us, queue.name)
            await self._sweep(keys=[queue.name], args=[scripts.FORGOTTEN_MILLIS, ""])
        self._settings[queue.name] = queue

    async def _explained(self, error: Exception) -> Exception:
        """Return what is wrong; the words of a server before Redis 7, which has no such commands, do not tell it."""
        if not isinstance(error, exceptions.ResponseError):
            return error
        try:
            version = str((await self.client.info("server")).get("redis_version", ""))
        except exceptions.ResponseError:  # INFO is not for this user
            return error
        major = version.partition(".")[0]
        if not major.isdecimal() or int(major) >= _LEAST_VERSION:
            return error
        return exceptions.ResponseError(f"it is Redis {version}: Redis {_LEAST_VERSION} or newer is needed")

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        """Store a message; an id of the last two minutes is stored once."""
        _check(queue)
        with self._mapped():
            if message_id is None:
                await self.client.xadd(queue, {"body": body})
                return
            key = f"{scripts.DEDUPE}{queue}:{message_id}"
            await self._store(keys=[queue, key], args=[scripts.DEDUPE_MILLIS, body, message_id])

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        """Return one to `count` messages; none when the time is over."""
        _check(queue)
        self._pulled.add(queue)
        deadline = time.monotonic() + wait_seconds
        while True:
            messages = self._take_held(queue, count) or await self._at_once(queue, count)
            left = deadline - time.monotonic()
            if not messages and left > 0:
                messages = await self._wait(queue, min(left, LATE_LOOK_SECONDS))
            if messages or time.monotonic() >= deadline:
                return messages

    def _take_held(self, queue: str, count: int) -> list[PulledMessage]:
        waiting = self._held.get(queue)
        return [waiting.popleft() for _ in range(min(count, len(waiting)))] if waiting else []

    async def _at_once(self, queue: str, count: int) -> list[PulledMessage]:
        settings = self._of(queue)
        wait_millis = int(settings.ack_wait_seconds * 1000)
        try:
            with self._mapped():
                found = await self._take(keys=[queue], args=[self._consumer, wait_millis, count])
        except BrokerRefused as refused:
            if _NO_GROUP not in str(refused):
                raise
            await self.ensure(settings)  # never made, or flushed away
            return []
        messages = [self._message(queue, entry, fields, int(attempt)) for entry, fields, attempt in found]
        for message in messages:
            if message.attempt > settings.max_deliver:
                await self._bury(message)
        return [message for message in messages if message.attempt <= settings.max_deliver]

    async def _wait(self, queue: str, seconds: float) -> list[PulledMessage]:
        """Wait for a new message on a connection of its own; a caller that is cancelled loses none."""
        waiter = self._waiters.pop() if self._waiters else _Waiter(self._new_client(None))
        reading = asyncio.create_task(waiter.read(queue, self._consumer, seconds))
        try:
            found = await self._answered(asyncio.shield(reading), queue)
        except asyncio.CancelledError:
            with contextlib.suppress(BrokerError):
                with self._mapped():
                    await waiter.unblock(self.client)
                self._held[queue].extend(self._new(queue, await self._answered(reading, queue)))
            self._waiters.append(waiter)
            raise
        self._waiters.append(waiter)
        return self._new(queue, found)

    async def _answered(self, reading: Awaitable[Any], queue: str) -> Any:
        try:
            with self._mapped():
                return await reading
        except BrokerRefused as refused:
            if _NO_GROUP not in str(refused):
                raise
            await self.ensure(self._of(queue))
            return None

    def _new(self, queue: str, found: Any) -> list[PulledMessage]:
        entries = found[0][1] if found else ()
        pairs = ((entry, [part for pair in fields.items() for part in pair]) for entry, fields in entries if fields)
        return [self._message(queue, entry, fields, 1) for entry, fields in pairs]

    def _message(self, queue: str, entry: bytes, fields: Sequence[bytes], attempt: int) -> PulledMessage:
        named = dict(zip(fields[::2], fields[1::2], strict=False))
        own_id = named.get(b"id")
        identity = entry.decode("ascii", "replace")
        published = identity.partition("-")[0]
        age = max(time.time() - int(published) / 1000, 0.0) if published.isdecimal() else None
        return PulledMessage(
            queue=queue,
            id=own_id.decode("utf-8", "replace") if own_id else identity,
            body=named.get(b"body", fields[1] if len(fields) > 1 else b""),  # of one who writes the stream himself
            attempt=attempt,
            age_seconds=age,
            handle=identity,
        )

    def _of(self, queue: str) -> QueueSettings:
        return self._settings.get(queue) or QueueSettings(name=queue)

    async def ack(self, message: PulledMessage) -> None:
        """End the message for good."""
        with self._mapped():
            async with self.client.pipeline(transaction=True) as pipe:
                pipe.xack(message.queue, scripts.GROUP, _entry(message))
                pipe.xdel(message.queue, _entry(message))
                await pipe.execute()

    async def nak(self, message: PulledMessage, delay_seconds: Duration = NO_TIME) -> None:
        """Give it back, or move it where this was its last attempt. A delay beyond the ack wait is the ack wait."""
        settings = self._of(message.queue)
        if message.attempt >= settings.max_deliver:
            await self._bury(message)
            return
        idle = max(settings.ack_wait_seconds - delay_seconds, 0.0)
        await self._claim(message, scripts.NOBODY, idle)

    async def extend(self, message: PulledMessage) -> None:
        """Begin the ack wait anew."""
        await self._claim(message, self._consumer, 0.0)

    async def _claim(self, message: PulledMessage, consumer: str, idle_seconds: float) -> None:
        args: list[str | int] = [self._consumer, _entry(message), consumer, int(idle_seconds * 1000)]
        with self._mapped():
            await self._hold(keys=[message.queue], args=args)

    async def _bury(self, message: PulledMessage) -> None:
        args: list[str | int] = [self._consumer, _entry(message), message.id, message.attempt]
        with self._mapped():
            await self._bury_script(keys=[message.queue, DEAD_LETTERS], args=args)

    async def lag(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with the prefix: a chunk of them two round trips.

        Names are read in chunks too, for whoever may write the set of names may fill it: between two chunks others have
        the event loop, and a caller's time-out cuts it.
        """
        lags: dict[str, QueueLag] = {}
        self._reads += 1
        cursor, first = 0, True
        cancelled = _cancel_requests()
        with self._mapped():
            while cursor or first:
                first = False
                cursor, names = await self.client.sscan(scripts.QUEUES, cursor, count=_CHUNK)
                found = sorted(name for raw in names if (name := _queue(raw)) is not None and name.startswith(prefix))
                for start in range(0, len(found), _CHUNK):
                    lags |= await self._permitted_lags(found[start : start + _CHUNK])
                if (
                    _cancel_requests() > cancelled
                ):  # the library sends by wait_for, which before Python 3.12 may swallow it
                    raise asyncio.CancelledError
        return lags

    async def _permitted_lags(self, queues: Sequence[str]) -> dict[str, QueueLag]:
        try:
            return await self._read_lags(queues)
        except exceptions.NoPermissionError:
            # One key that this user may not read fails the script. Who may write the set of names may name such a key.
            # What `ensure` made can be read.
            own = [queue for queue in queues if queue in self._settings]
            return await self._read_lags(own) if own else {}

    async def _read_lags(self, queues: Sequence[str]) -> dict[str, QueueLag]:
        turn = self._reads * _LOOKS % len(queues)  # so that each has its look at its oldest
        queues = [*queues[turn:], *queues[:turn]]
        found = [int(word) for word in (await self._lag_script(keys=queues, args=[_LOOKS])).split()]
        counted = zip(queues, range(0, len(found), FIGURES), strict=True)
        figures = {queue: RedisFigures(*found[at : at + FIGURES]) for queue, at in counted if found[at] >= 0}
        return {
            queue: self._lags.lag_of(queue, figure, remembers=queue in self._settings)
            for queue, figure in figures.items()
        }

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        """Drop messages that are older, those in flight included."""
        _check(queue)
        with self._mapped():
            if older_than_seconds <= 0:
                return MessageCount(await self._drop_script(keys=[queue], args=["MAXLEN", 0]))
            seconds, microseconds = await self.client.time()
            oldest = max(int((seconds - older_than_seconds) * 1000 + microseconds / 1000), 0)
            return MessageCount(await self._drop_script(keys=[queue], args=["MINID", f"{oldest}-0"]))

    async def forget(self, queue: str) -> None:
        """Keep nothing about the queue, and take its stream away if it is empty."""
        _check(queue)
        self._settings.pop(queue, None)
        self._lags.forget(queue)
        self._pulled.discard(queue)
        self._held.pop(queue, None)
        with self._mapped():
            gone = await self._forget_script(keys=[queue, scripts.QUEUES], args=[])
            if gone and self._made_by_us is not None:
                with contextlib.suppress(exceptions.ResponseError):
                    await self.client.srem(self._made_by_us, queue)

    async def delete(self, queue: str) -> None:
        """Delete the stream, and forget its name."""
        _check(queue)
        self._settings.pop(queue, None)
        self._lags.forget(queue)
        self._pulled.discard(queue)
        with self._mapped():
            async with self.client.pipeline(transaction=True) as pipe:
                pipe.delete(queue)
                pipe.srem(scripts.QUEUES, queue)
                await pipe.execute()

    async def report(self, queue: str, body: bytes) -> None:
        """Send a report, at most once."""
        _check(queue)
        with self._mapped():
            await self.client.publish(scripts.REPORTS + queue, body)

    async def reports(self) -> AsyncIterator[RawReport]:
        """Iterate over the reports of all containers; a connection that is gone is made anew."""
        listening = asyncio.create_task(self._listen())
        try:
            async for report in self._buffer:
                yield report
        finally:
            listening.cancel()

    async def _listen(self) -> None:
        while not self._closed:
            client = self._new_client(None)
            try:
                async with client.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.psubscribe(f"{scripts.REPORTS}*")
                    async for told in channel.listen():
                        queue = told["channel"].decode("utf-8", "replace").removeprefix(scripts.REPORTS)
                        self._buffer.put(queue, told["data"])
            except (exceptions.RedisError, BrokerError, OSError):
                await asyncio.sleep(LATE_LOOK_SECONDS)
            finally:
                with contextlib.suppress(exceptions.RedisError, OSError):
                    await client.aclose()

    async def close(self) -> None:
        """Give back what was pulled for nobody, and end the connections."""
        if self._closed:
            return
        self._closed = True
        self._buffer.close()
        with contextlib.suppress(BrokerError):
            for waiting in self._held.values():
                for message in waiting:
                    await self.nak(message)
            with self._mapped():
                for queue in self._pulled:
                    await self._sweep(keys=[queue], args=[scripts.FORGOTTEN_MILLIS, self._consumer])
        for client in (self.client, *(waiter.client for waiter in self._waiters)):
            with contextlib.suppress(exceptions.RedisError, OSError):
                await client.aclose()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Say in our words what the library raises; what the server quotes of a command is left out."""
        try:
            yield
        except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
            raise BrokerRefused(f"{self.address}: {_short(error)}: see the credentials file") from None
        except (exceptions.ConnectionError, exceptions.TimeoutError, TimeoutError, OSError) as error:
            raise BrokerUnreachable(f"{self.address}: {_short(error)}") from None
        except exceptions.ReadOnlyError as error:
            raise BrokerUnreachable(f"{self.address}: is a replica now: {_short(error)}") from None
        except exceptions.RedisError as error:
            raise BrokerRefused(f"{self.address}: {_short(error)}") from None


class _FreshCredentials(CredentialProvider):
    """Credentials that are read again for each new connection: a Secret may have been rotated since."""

    def __init__(self, credentials: BrokerCredentials) -> None:
        self._credentials = credentials

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return user and password, or a password alone."""
        found = self._credentials.fresh()
        if found.creds_file is not None:
            raise BrokerRefused(_NATS_CREDENTIALS)
        secret = found.secret or ""
        return (secret,) if found.user is None else (found.user, secret)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Return the same; a file of a mounted Secret does not block."""
        return self.get_credentials()


class _TlsConnection(SSLConnection):
    """Reads who signs the server's certificate again for each connection: the file may have been renewed."""

    def _connection_arguments(self) -> Mapping[str, Any]:
        self.ssl_context.context = None
        return super()._connection_arguments()


class _Waiter:
    """A connection that blocks for one caller at a time."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self._id: int | None = None

    async def read(self, queue: str, consumer: str, seconds: float) -> Any:
        block_millis = max(int(seconds * 1000), 1)
        async with asyncio.timeout(seconds + ANSWER_SECONDS):
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.client_id()
                self._id = int((await pipe.execute())[0])
            return await self.client.xreadgroup(scripts.GROUP, consumer, {queue: ">"}, count=1, block=block_millis)

    async def unblock(self, other: Redis) -> None:
        if self._id is not None:
            await other.client_unblock(self._id)


def _check(queue: str) -> None:
    words = queue.split(".")
    if words[0] != "act" or len(words) < 3 or len(queue) > _MOST_NAME:
        raise BrokerRefused(f"queue {queue[:_MOST_NAME]!r}: write act.NAMESPACE.ACTION.MEMORY")


def _cancel_requests() -> int:
    """Return how often the present task was told to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _queue(raw: bytes | str) -> str | None:
    """Return a name of a queue; None for any other that somebody has put among them."""
    name = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        return str(Subject.parse(name))
    except InvalidSubject:
        return None


def _entry(message: PulledMessage) -> str:
    if not isinstance(message.handle, str):
        raise TypeError("the message is of another broker")
    return message.handle


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition(", with args")[0][:200]
