"""Runs messages by POSTing them to a port of this machine: HTTP/1.1, connections kept, one request at a time on each.

2xx is a good end. All else gives the message back: what could not be connected to, what closed without an answer, 5xx,
and 4xx too, for the queue's `max_deliver` ends what is hopeless. `Retry-After` in seconds is heeded. An answer's body
is read and thrown away. aiohttp's client would do the same with three times the memory.
"""

import asyncio
import contextlib
from collections import deque
from typing import Final, cast

import httptools

from slack.demand.broker import PulledMessage
from slack_operator.demand.proxy.runner import DONE, RunOutcome

CONNECT_SECONDS: Final = 2.0
PROBE_SECONDS: Final = 0.05
MOST_ANSWER_BYTES: Final = 64 << 20
_LONGEST_DELAY_SECONDS: Final = 3600.0


class _Unsent(Exception):
    """The connection was gone before the request could have had an effect that we know of."""


class _Exchange(asyncio.Protocol):
    """One connection: what the parser tells of the answer that is awaited."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: asyncio.Future[tuple[int, float | None]] | None = None
        self._retry_after: float | None = None
        self._bytes = 0
        self._has_head = self._has_length = False
        self.usable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, head: bytes, body: bytes) -> "asyncio.Future[tuple[int, float | None]]":
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._retry_after, self._bytes = None, 0
        self._has_head = self._has_length = False
        assert self.transport is not None, "connection_made comes first"
        self.transport.writelines((head, body) if body else (head,))
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        try:
            if self._parser is None or self._bytes > MOST_ANSWER_BYTES:
                raise httptools.HttpParserError("more than was asked for")
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"an answer that is no HTTP: {str(error)[:100]}")

    def on_headers_complete(self) -> None:
        self._has_head = self._parser is not None and self._parser.get_status_code() >= 200

    def on_header(self, name: bytes, value: bytes) -> None:
        self._has_length |= name.lower() in (b"content-length", b"transfer-encoding")
        if name.lower() == b"retry-after" and value.strip().isdigit():
            self._retry_after = min(float(value), _LONGEST_DELAY_SECONDS)

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None or self._answer is None or self._answer.done():
            return
        status = parser.get_status_code()
        if status < 200:  # 100 Continue comes before the answer
            return
        self._parser = None
        self.usable = bool(parser.should_keep_alive())
        self._answer.set_result((status, self._retry_after))

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        parser, answer = self._parser, self._answer
        if exc is None and self._has_head and not self._has_length and parser is not None and answer is not None:
            # An answer that does not say how long it is ends with its connection: so simple servers do (RFC 9112, 6.3).
            if not answer.done():
                answer.set_result((parser.get_status_code(), self._retry_after))
            return
        self._fail("closed without an answer")

    def _fail(self, reason: str) -> None:
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(_Unsent(reason))
        if self.transport is not None:
            self.transport.abort()


class LoopbackRunner:
    """POSTs to one address; begins once something listens there."""

    def __init__(self, url: str) -> None:
        """`url` is as `slack_operator.demand.proxy.settings.target` lets it through."""
        authority, slash, rest = url.removeprefix("http://").partition("/")
        host, _, port = authority.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._begin = f"POST {slash or '/'}{rest} HTTP/1.1\r\nHost: {authority}\r\n".encode()
        self._idle: deque[_Exchange] = deque()
        self._broken: str | None = "not started"
        self._probing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until something listens, for as long as it takes: the container may still begin."""
        while True:
            try:
                self._idle.append(await self._connect())
            except (OSError, TimeoutError) as error:
                self._broken = f"port {self._port}: {_why(error)}"
                await asyncio.sleep(PROBE_SECONDS)
            else:
                self._broken = None
                return

    async def _connect(self) -> _Exchange:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            _, exchange = await loop.create_connection(_Exchange, self._host, self._port)
        return exchange

    async def run(self, message: PulledMessage) -> RunOutcome:
        """POST one message; a kept connection that turns out to be closed is tried once more with a new one."""
        head = self._head(message)
        while True:
            kept = self._kept()
            try:
                exchange = kept or await self._connect()
            except (OSError, TimeoutError) as error:
                return self._failed(f"port {self._port}: {_why(error)}")
            try:
                status, retry_after = await exchange.ask(head, message.body)
            except _Unsent as error:
                if kept is not None:
                    continue
                return self._failed(f"port {self._port}: {error}")
            except BaseException:  # cancelled: the run took too long
                exchange.usable = False
                if exchange.transport is not None:
                    exchange.transport.abort()
                raise
            if exchange.usable:
                self._idle.append(exchange)
            elif exchange.transport is not None:
                exchange.transport.close()
            return (
                DONE
                if 200 <= status < 300
                else RunOutcome(done=False, reason=f"HTTP {status}", delay_seconds=retry_after)
            )

    def _kept(self) -> _Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
        return None

    def _head(self, message: PulledMessage) -> bytes:
        age = "" if message.age_seconds is None else f"Act-Age-Ms: {message.age_seconds * 1000:.0f}\r\n"
        told = (
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(message.body)}\r\n"
            f"Act-Queue: {printable(message.queue)}\r\nAct-Message: {printable(message.id)}\r\n"
            f"Act-Attempt: {message.attempt}\r\n{age}\r\n"
        )
        return self._begin + told.encode()

    def _failed(self, reason: str) -> RunOutcome:
        """Pull nothing until something listens again: each try would cost a message one of its attempts."""
        if self._probing is None or self._probing.done():
            self._broken = reason
            self._probing = asyncio.get_running_loop().create_task(self.start())
        return RunOutcome(done=False, reason=reason)

    def broken(self) -> str | None:
        """Say that nothing listens."""
        return self._broken

    async def close(self) -> None:
        """Close the connections."""
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
        for exchange in self._idle:
            if exchange.transport is not None:
                exchange.transport.close()


def printable(text: str) -> str:
    """Return a text that can be a header's value: whoever publishes chooses ids."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[:500]


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
