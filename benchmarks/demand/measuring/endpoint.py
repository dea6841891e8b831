"""The user's container of a measurement: an HTTP server on loopback whose runs take a set time.

It is in the process that publishes, so that one clock tells when a message was published, when its run began, and when
it was done.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from slack_operator.demand.proxy.loopback import MOST_ANSWER_BYTES

_DONE = b"HTTP/1.1 204 No Content\r\n\r\n"


class Endpoint:
    """Of one event loop. `began` and `ended` are told of each run, with the message's body."""

    def __init__(self, run_seconds: float, began: Callable[[bytes], None], ended: Callable[[bytes], None]) -> None:
        self.run_seconds = run_seconds
        self.began = began
        self.ended = ended
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()


class _Connection(asyncio.Protocol):
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._close()

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > MOST_ANSWER_BYTES:
            self._close()

    def on_message_complete(self) -> None:
        body = bytes(self._body)
        self._body.clear()
        self._endpoint.began(body)
        asyncio.get_running_loop().call_later(self._endpoint.run_seconds, self._end, body)

    def _end(self, body: bytes) -> None:
        self._endpoint.ended(body)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_DONE)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
