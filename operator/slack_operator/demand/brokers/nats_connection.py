"""One connection to NATS: made in the background, and anew by itself; requests to JetStream's API with our errors."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from slack.demand.broker import BrokerError, BrokerRefused, BrokerUnreachable
from slack_operator.demand.brokers.credentials import Credentials

log = logging.getLogger(__name__)
T = TypeVar("T")

REQUEST_SECONDS: Final = 2.0
RECONNECT_SECONDS: Final = 0.25
PING_SECONDS: Final = 5
STREAM_NOT_FOUND: Final = 10059
CONSUMER_NOT_FOUND: Final = 10014
IN_USE: Final = 10058
"""A stream of that name is there, of another configuration."""
OVERLAP: Final = 10065
"""Another stream has subjects of ours."""
_HEADER_ROOM: Final = 64


class ApiError(msgspec.Struct, frozen=True):
    """What JetStream refuses with."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Reply(msgspec.Struct, frozen=True):
    """Base of all answers of JetStream's API."""

    error: ApiError | None = None


class ApiRefused(BrokerRefused):
    """JetStream's own no, with its number."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class NatsConnection:
    """Begun at once, whether the server is there or not; until it is, every call raises `BrokerUnreachable`."""

    def __init__(
        self,
        servers: Sequence[str],
        credentials: Credentials,
        *,
        ca_file: Path | None,
        name: str,
        on_gone: Callable[[], None],
    ) -> None:
        self._servers = servers
        self.told = ", ".join(servers)
        self._client = Client()
        self._last_error = "no answer yet"
        self._on_gone = on_gone
        self._closing = False
        options: dict[str, Any] = {}
        if credentials.creds_file is not None:
            options["user_credentials"] = str(credentials.creds_file)
        elif credentials.user is not None:
            options |= {"user": credentials.user, "password": credentials.secret}
        elif credentials.secret is not None:
            options["token"] = credentials.secret
        if ca_file is not None or any(server.startswith("tls:") for server in servers):
            options["tls"] = ssl.create_default_context(cafile=ca_file)
        self._options = options
        self._connecting = asyncio.get_running_loop().create_task(self._connect(name))

    async def _connect(self, name: str) -> None:
        while not self._closing:
            try:
                await self._client.connect(
                    servers=list(self._servers),
                    name=name,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type]  # said to be whole, only slept for
                    connect_timeout=2,
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=2,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    **self._options,
                )
            except (errors.Error, OSError, TimeoutError, ValueError) as error:
                self._last_error = _short(error)
                await asyncio.sleep(RECONNECT_SECONDS)
            else:
                return

    async def _on_error(self, error: Exception) -> None:
        self._last_error = _short(error)
        log.debug("%s: %s", self.told, self._last_error)

    async def _on_disconnected(self) -> None:
        self._on_gone()

    async def settled(self, seconds: float) -> None:
        """Wait for the first connection, but no longer; whether it is there the next call tells."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._connecting), seconds)

    @property
    def client(self) -> Client:
        """The library's client, connected.

        Raises:
            BrokerUnreachable: it is not.
        """
        if not self._client.is_connected:
            raise BrokerUnreachable(f"{self.told}: not connected: {self._last_error}")
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
            raise BrokerUnreachable(f"{self.told}: {_short(error)}") from None

    def check_size(self, body_bytes: int, headers: Mapping[str, str]) -> None:
        """Hold back what the server would end the connection for: its limit is for body and headers together.

        Raises:
            BrokerRefused: the message is longer.
        """
        most = self._client.max_payload
        if body_bytes + headers_bytes(headers) > most:
            raise BrokerRefused(f"{self.told}: a message of {body_bytes} bytes: the server takes {most} with headers")

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
            raise BrokerUnreachable(f"{self.told}: JetStream does not answer: start the server with it (-js)")
        try:
            refusal = _REPLY.decode(answer.data).error
            if refusal is None:
                return msgspec.json.decode(answer.data, type=kind)
        except msgspec.DecodeError as error:
            raise BrokerUnreachable(f"{self.told}: an answer that cannot be read: {error}") from None
        raise ApiRefused(f"{self.told}: {subject}: {refusal.description}", refusal.err_code)

    async def publish(self, subject: str, body: bytes, reply: str = "") -> None:
        """Send without an answer.

        Raises:
            BrokerUnreachable: not connected.
        """
        client = self.client
        try:
            await client.publish(subject, body, reply=reply)
        except (errors.Error, OSError, TimeoutError) as error:
            raise BrokerUnreachable(f"{self.told}: {_short(error)}") from None

    async def subscribe(self, subject: str, callback: Callable[[Msg], Awaitable[None]]) -> Any:
        """Have messages of a subject handed over; kept over connections.

        Raises:
            BrokerUnreachable: not connected.
        """
        try:
            return await self.client.subscribe(subject, cb=callback, pending_msgs_limit=0, pending_bytes_limit=0)
        except (errors.Error, OSError) as error:
            raise BrokerUnreachable(f"{self.told}: {_short(error)}") from None

    async def close(self) -> None:
        """End, with what was sent written out; never raises."""
        self._closing = True
        self._connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._connecting
        with contextlib.suppress(BrokerError, errors.Error, OSError, TimeoutError):
            await asyncio.wait_for(self.client.flush(timeout=1), 2)
        with contextlib.suppress(errors.Error, OSError, TimeoutError):
            await asyncio.wait_for(self._client.close(), 2)


_REPLY: Final = msgspec.json.Decoder(Reply)


def headers_bytes(headers: Mapping[str, str]) -> int:
    """Return what headers take on the wire, or somewhat more."""
    return sum(len(name) + len(value) + 8 for name, value in headers.items()) + _HEADER_ROOM if headers else 0


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).removeprefix("nats: ")[:200]
