"""One connection to NATS: made in the background, and anew by itself; requests to JetStream's API with our errors."""

import asyncio
import contextlib
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from slack.demand.broker import BrokerRefused, BrokerUnreachable
from slack_operator.demand.brokers.credentials import BrokerCredentials

log = logging.getLogger(__name__)
T = TypeVar("T")

REQUEST_SECONDS: Final = 2.0
CONNECT_SECONDS: Final = 2
RECONNECT_SECONDS: Final = 0.25
"""Before the first try to connect again; each further one waits twice as long."""
LONGEST_PAUSE_SECONDS: Final = 5.0
LASTING_SECONDS: Final = 10.0
"""After a connection that lasted for so long the first pause is short again."""
PING_SECONDS: Final = 5
LOOK_SECONDS: Final = 1.0
"""Between two looks at whether a connection is still there: the library does not tell of every end."""
STREAM_NOT_FOUND: Final = 10059
CONSUMER_NOT_FOUND: Final = 10014
IN_USE: Final = 10058
"""A stream of that name is there, of another configuration."""
OVERLAP: Final = 10065
"""Another stream has subjects of ours."""
_HEADER_ROOM: Final = 64


class JetStreamError(msgspec.Struct, frozen=True):
    """What JetStream refuses with."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class JetStreamReply(msgspec.Struct, frozen=True):
    """Base of all answers of JetStream's API."""

    error: JetStreamError | None = None


class ApiRefused(BrokerRefused):
    """JetStream's own no, with its number."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


Handler = Callable[[Msg], Awaitable[None]]


class NatsConnection:
    """Begun at once, whether the server is there or not; until it is, every call raises `BrokerUnreachable`.

    The library's own way to connect again ends for good at some errors (an expired JWT, a reloaded account), and keeps
    the credentials of the first connection. So each connection has a client of its own, made with credentials and
    certificates that are read again. Subscriptions are made anew with each. The library's callbacks are not relied on:
    a write that fails while it closes a connection ends the task that would have called them.
    """

    def __init__(
        self,
        servers: Sequence[str],
        credentials: BrokerCredentials,
        *,
        ca_file: Path | None,
        name: str,
        on_gone: Callable[[], None],
    ) -> None:
        self._servers = servers
        self.address = ", ".join(servers)
        self._credentials = credentials
        self._ca_file = ca_file
        self._name = name
        self._client = Client()
        self._last_error = "no answer yet"
        self._on_gone = on_gone
        self._closing = False
        self._handlers: list[tuple[str, Handler]] = []
        self._subscriptions: list[Subscription] = []
        self._first = asyncio.Event()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def _options(self) -> dict[str, Any]:
        """Return what a client is told of who we are and whom we trust, read at this moment."""
        options: dict[str, Any] = {}
        credentials = self._credentials.fresh()
        if credentials.creds_file is not None:
            options["user_credentials"] = str(credentials.creds_file)
        elif credentials.user is not None:
            options |= {"user": credentials.user, "password": credentials.secret}
        elif credentials.secret is not None:
            options["token"] = credentials.secret
        if self._ca_file is not None or any(server.startswith("tls:") for server in self._servers):
            options["tls"] = ssl.create_default_context(cafile=self._ca_file)
        return options

    async def _keep(self) -> None:
        """Connect, wait until the connection has ended, and connect again, one server after the other."""
        pause, number = RECONNECT_SECONDS, 0
        while not self._closing:
            began = time.monotonic()
            try:
                await self._one_connection(self._servers[number % len(self._servers)])
            except errors.NoServersError:
                pass  # `_on_error` was told why
            except Exception as error:  # noqa: BLE001  # whatever the library raises: nobody else would connect again
                self._last_error = _short(error)
            number += 1
            if time.monotonic() - began >= LASTING_SECONDS:
                pause = RECONNECT_SECONDS
            # Hundreds of proxies lose their connection at the same moment: they must not all come back at one.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _one_connection(self, server: str) -> None:
        """Connect to a server, and return when the connection has ended, for whatever reason."""
        client, ended = Client(), asyncio.Event()

        async def on_closed() -> None:
            ended.set()

        try:
            async with asyncio.timeout(3 * CONNECT_SECONDS):  # the library waits for some answers without an end
                await client.connect(
                    servers=[server],
                    name=self._name,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,  # of the library's first connection: it gives up, and it is our turn
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_SECONDS,
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=2,
                    error_cb=self._on_error,
                    disconnected_cb=on_closed,
                    closed_cb=on_closed,
                    **self._options(),
                )
                await self._subscribe_again(client)
            self._client = client
            self._first.set()
            while client.is_connected and not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await ended.wait()
            if client.last_error is not None:
                self._last_error = _short(client.last_error)
        finally:
            self._subscriptions.clear()
            self._on_gone()
            if not self._closing:
                with contextlib.suppress(Exception):  # one that was never connected cannot always be closed
                    await asyncio.wait_for(client.close(), CONNECT_SECONDS)

    async def _subscribe_again(self, client: Client) -> None:
        for subject, handler in self._handlers:
            self._subscriptions.append(await _subscribe(client, subject, handler))

    async def _on_error(self, error: Exception) -> None:
        self._last_error = _short(error)
        log.debug("%s: %s", self.address, self._last_error)

    async def settled(self, seconds: float) -> None:
        """Wait for the first connection, but no longer; whether it is there the next call tells."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), seconds)

    @property
    def client(self) -> Client:
        """The library's client, connected.

        Raises:
            BrokerUnreachable: it is not.
        """
        if not self._client.is_connected:
            if self._keeping.done() and not self._closing:  # whatever ended it: nobody else connects again
                log.error("%s: the task that connects has ended; it is started again", self.address)
                self._keeping = asyncio.get_running_loop().create_task(self._keep())
            raise BrokerUnreachable(f"{self.address}: not connected: {self._last_error}")
        return self._client

    async def request(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> Msg | None:
        """Ask, and return the answer; None where nobody listens to the subject.

        Raises:
            BrokerUnreachable: not connected, or no answer in time.
            BrokerRefused: the message is longer than the server takes.
        """
        client = self.client
        self.check_size(len(body), headers or {})
        try:
            return await client.request(subject, body, timeout=REQUEST_SECONDS, headers=headers)
        except errors.NoRespondersError:
            return None
        except (TimeoutError, errors.Error, OSError) as error:
            raise BrokerUnreachable(f"{self.address}: {_short(error)}") from None

    def check_size(self, body_bytes: int, headers: Mapping[str, str]) -> None:
        """Hold back what the server would end the connection for: its limit is for body and headers together.

        Raises:
            BrokerRefused: the message is longer.
        """
        most = self._client.max_payload
        if body_bytes + headers_bytes(headers) > most:
            text = f"a message of {body_bytes} bytes: the server takes {most} with headers"
            raise BrokerRefused(f"{self.address}: {text}")

    @property
    def most_bytes(self) -> int:
        """What the server takes in one message, headers included."""
        return int(self._client.max_payload)

    async def api(self, subject: str, body: object, kind: type[T]) -> T:
        """Ask JetStream's API.

        Raises:
            ApiRefused: it says no.
            BrokerUnreachable: not connected, no answer in time, or JetStream is not there (yet).
        """
        payload = msgspec.json.encode(body) if body is not None else b""
        answer = await self.request(f"$JS.API.{subject}", payload)
        if answer is None:
            raise BrokerUnreachable(f"{self.address}: JetStream does not answer: start the server with it (-js)")
        try:
            refusal = _REPLY.decode(answer.data).error
            if refusal is None:
                return msgspec.json.decode(answer.data, type=kind)
        except msgspec.DecodeError as error:
            raise BrokerUnreachable(f"{self.address}: an answer that cannot be read: {error}") from None
        raise ApiRefused(f"{self.address}: {subject}: {refusal.description}", refusal.err_code)

    async def publish(self, subject: str, body: bytes, reply: str = "") -> None:
        """Send without an answer.

        Raises:
            BrokerUnreachable: not connected.
        """
        client = self.client
        try:
            await client.publish(subject, body, reply=reply)
        except (errors.Error, OSError, TimeoutError) as error:
            raise BrokerUnreachable(f"{self.address}: {_short(error)}") from None

    async def subscribe(self, subject: str, handler: Handler) -> None:
        """Have messages of a subject handed over, by this connection and by all that follow.

        Raises:
            BrokerUnreachable: not connected.
        """
        client = self.client
        try:
            self._subscriptions.append(await _subscribe(client, subject, handler))
        except (errors.Error, OSError) as error:
            raise BrokerUnreachable(f"{self.address}: {_short(error)}") from None
        self._handlers.append((subject, handler))

    async def drain(self) -> None:
        """End all subscriptions; what the server has sent until now still comes."""
        subscriptions, self._handlers = list(self._subscriptions), []
        for subscription in subscriptions:
            with contextlib.suppress(errors.Error, OSError, TimeoutError):
                await asyncio.wait_for(subscription.drain(), 1)  # type: ignore[no-untyped-call]  # the library's

    async def close(self) -> None:
        """End, with what was sent written out; never raises."""
        self._closing = True
        self._keeping.cancel()
        await asyncio.wait([self._keeping])  # whatever ended it: only a cancellation of our own is raised
        if self._client.is_connected:
            with contextlib.suppress(errors.Error, OSError, TimeoutError):
                await asyncio.wait_for(self._client.flush(timeout=1), 2)
            with contextlib.suppress(errors.Error, OSError, TimeoutError):
                await asyncio.wait_for(self._client.close(), 2)


async def _subscribe(client: Client, subject: str, handler: Handler) -> Subscription:
    return await client.subscribe(subject, cb=handler, pending_msgs_limit=0, pending_bytes_limit=0)


_REPLY: Final = msgspec.json.Decoder(JetStreamReply)


def headers_bytes(headers: Mapping[str, str]) -> int:
    """Return what headers take on the wire, or somewhat more."""
    return sum(len(name) + len(value) + 8 for name, value in headers.items()) + _HEADER_ROOM if headers else 0


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).removeprefix("nats: ")[:200]
