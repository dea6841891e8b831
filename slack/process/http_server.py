"""A small HTTP server on asyncio alone: what it answers is a function of path and query. GET and HEAD only.

A request has one deadline for its whole, connections and unread answers are bounded, and nothing that a client sends is
kept or logged. Probes are answered in the event loop; everything else is computed in worker threads. A probe therefore
waits for no other client. aiohttp would cost each process 12 MiB.
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Container, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

from slack.process.accepting import Acceptor, ClientBounds, listening_socket
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.tasks import rest
from slack.supervision.threads import SupervisedThread
from slack.supervision.workers import Workers

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 64
"""Connections."""
TIMEOUT_SECONDS: Final = 10.0
"""Of a whole request, and of taking its answer."""
BOUNDS: Final = ClientBounds(
    connections=MOST_AT_ONCE, strangers=MOST_AT_ONCE, request_seconds=TIMEOUT_SECONDS, idle_seconds=TIMEOUT_SECONDS
)
MOST_HEAD_BYTES: Final = 16 << 10
MOST_UNREAD_BYTES: Final = 16 << 20
"""Answers that clients have not taken yet; beyond that the oldest is cut off."""
WORKERS: Final = 2
MOST_WAITING: Final = 8
"""Requests that are computed or wait for it; more are answered 503."""
STUCK_SECONDS: Final = 30.0
TEXT: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"


class HttpRequest(NamedTuple):
    """What is asked for."""

    path: str
    """As it was sent: not unquoted."""
    query: str
    takes_gzip: bool


class Reply(NamedTuple):
    """What is answered."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Answer = Callable[[HttpRequest], Reply]


class HttpServer:
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        *,
        name: str = "http",
        tls: ssl.SSLContext | None = None,
        quick: Container[str] = (),
        bounds: ClientBounds = BOUNDS,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            answer: answers requests, from several threads.
            name: of the server, in /healthz.
            tls: None serves in the clear.
            quick: paths that are answered from memory, in the event loop: probes.
            bounds: of connections and time.
        """
        self.port = port
        self.answer = answer
        self.quick = quick
        self.workers = Workers(WORKERS, name=f"{name} answers")
        self.waiting = 0
        self._host = host
        self._bounds = bounds
        self._name = name
        self._tls = tls
        self._unread: dict[asyncio.Transport, None] = {}
        self._acceptor: Acceptor | None = None
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        heart = Heartbeat(f"the {name} server", STUCK_SECONDS)
        self._thread = SupervisedThread(lambda: asyncio.run(self._serve()), name=name, heart=heart)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        self._socket = listening_socket(self._host, self.port)
        self.port = int(self._socket.getsockname()[1])
        self._thread.start()
        self._started.wait()

    def stop(self, timeout: float = 0.5) -> None:
        """Close the socket; nothing where it was never started."""
        self._thread.dismiss()
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)
        self.workers.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why requests are not answered any more; None if they are, or if the server was never started."""
        acceptor = () if self._acceptor is None else (self._acceptor,)
        return first_problem(*acceptor, self._thread, self.workers)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        assert self._socket is not None, "bound by `start`"
        acceptor = Acceptor(lambda: _Exchange(self, acceptor), self._bounds, tls=self._tls, name=self._name)
        self._acceptor = acceptor
        acceptor.start(self._socket)
        self._started.set()
        await rest(self._thread.heart, self._stop)
        await acceptor.stop()

    def unread(self, transport: asyncio.Transport) -> None:
        """Note an answer that is being sent; called in the event loop."""
        self._unread[transport] = None
        waiting = {found: found.get_write_buffer_size() for found in self._unread}
        self._unread = {
            found: None for found, size in waiting.items() if (size and not found.is_closing()) or found is transport
        }
        total = sum(waiting.values())
        for found in tuple(self._unread):
            if total <= MOST_UNREAD_BYTES or found is transport:
                break
            total -= waiting[found]
            del self._unread[found]
            found.abort()


class _Exchange(asyncio.Protocol):
    """One connection: one request and its answer."""

    def __init__(self, server: HttpServer, acceptor: Acceptor) -> None:
        self._server = server
        self._acceptor = acceptor
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return  # a body that nobody reads
        self._head += data
        if _END not in self._head:
            if len(self._head) > MOST_HEAD_BYTES:
                self._send(_plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), with_body=True)
            return
        self._answered = True
        self._acceptor.busy(self._transport)
        method, request = _parse_head(bytes(self._head))
        self._head.clear()
        if request is None:
            self._send(_plain(HTTPStatus.BAD_REQUEST), with_body=True)
        elif method not in ("GET", "HEAD"):
            self._send(_plain(HTTPStatus.NOT_IMPLEMENTED), with_body=True)
        elif request.path in self._server.quick:
            self._send(self._compute_reply(request), with_body=method == "GET")
        elif self._server.waiting >= MOST_WAITING:
            self._send(_plain(HTTPStatus.SERVICE_UNAVAILABLE), with_body=method == "GET")
        else:
            self._compute(request, with_body=method == "GET")

    def _compute(self, request: HttpRequest, *, with_body: bool) -> None:
        loop, server = asyncio.get_running_loop(), self._server
        server.waiting += 1
        try:
            computing = loop.run_in_executor(server.workers, self._compute_reply, request)
        except RuntimeError:  # the server ends
            server.waiting -= 1
            return

        def done(future: "asyncio.Future[Reply]") -> None:
            server.waiting -= 1
            if not future.cancelled():
                self._send(future.result(), with_body=with_body)

        computing.add_done_callback(done)

    def _compute_reply(self, request: HttpRequest) -> Reply:
        try:
            return self._server.answer(request)
        except Exception:
            log.exception("a request could not be answered")
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send(self, reply: Reply, *, with_body: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._answered = True
        self._acceptor.idle(transport)
        head = [
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
            "Server: resource-slack",
            f"Content-Type: {reply.content_type}",
            f"Content-Length: {len(reply.body)}",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
            "Connection: close",
        ]
        transport.write("\r\n".join(head).encode() + _END + (reply.body if with_body else b""))
        self._server.unread(transport)
        transport.close()


def _parse_head(head: bytes) -> tuple[str, HttpRequest | None]:
    """Return a request's method, and the request if it is one."""
    line, *headers = head.partition(_END)[0].decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", None
    path, _, query = words[1].partition("?")
    path = urlsplit(path).path if path.startswith(("http:", "https:")) else path
    named = (header.partition(":") for header in headers)
    takes_gzip = any(name.strip().lower() == "accept-encoding" and "gzip" in value.lower() for name, _, value in named)
    return words[0], HttpRequest(path, query, takes_gzip)


def _plain(status: HTTPStatus) -> Reply:
    return Reply(status, TEXT, f"{status.phrase}\n".encode())
