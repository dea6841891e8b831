"""An aiohttp server in a thread and event loop of its own: the web page, webhooks and receivers.

Connections are bounded in number and time (`slack.process.accepting`), bodies in bytes (`BodyBudget`). `start` and
`stop` belong to whoever made it, all else to its thread; the loop of the process is never waited for.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from aiohttp import web

from slack.errors import UserFacingError
from slack.process.accepting import Acceptor, ClientBounds, listening_socket
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.tasks import rest
from slack.supervision.threads import SupervisedThread
from slack.supervision.workers import UnawaitedWorkers
from slack_operator.runtime.body_budget import BodyBudget, BudgetSpent

STUCK_SECONDS: Final = 30.0
"""An event loop that does not turn for so long counts as stuck."""
CONNECTIONS: Final = 128
"""At once; with TLS each costs some 100 KiB."""
STRANGERS: Final = 64
WORKERS: Final = 4
"""Threads for what takes too long for the event loop."""
WORK_SECONDS: Final = 120.0
"""What takes longer there counts as stuck."""
REQUEST_SECONDS: Final = 10.0
"""Until a request's head is whole, from accept or from its first byte."""
BODY_BYTES: Final = 24 << 20
"""Of all bodies that one server reads or handles at once."""
END_SECONDS: Final = 0.5
"""Requests that are under way at the end have so long: one whose client is slow must not keep the process."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class InvalidRequestBody(UserFacingError):
    """A body that is not taken; `status` says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ServingThread(ABC):
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    _keep_alive_seconds = 75.0
    """For how long a connection may be idle."""
    _connections = CONNECTIONS
    """At once."""
    _strangers = STRANGERS
    """At once, of those: connections without a whole request so far."""
    _unpacks = True
    """Whether aiohttp unpacks bodies with a Content-Encoding; who bounds the unpacking itself says no."""

    def __init__(self, host: str, port: int, *, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self._name = name
        self._tls = tls
        self._host = host
        self._socket: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._budget = BodyBudget(BODY_BYTES)
        self._off_loop = UnawaitedWorkers(WORKERS, name=f"{name} work", limit_seconds=WORK_SECONDS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
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
        while not self._started.wait(0.1) and self._thread.alive:
            continue  # a server that could not begin is unhealthy, and holds nobody up

    def stop(self, timeout: float = 3.0) -> None:
        """Close the socket and end the thread; nothing where it was never started."""
        self._thread.dismiss()
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)
        if self._acceptor is None and self._socket is not None:
            self._socket.close()

    def unhealthy(self) -> str | None:
        """Return why nothing is served any more; None if the event loop turns, or has not begun."""
        acceptor = () if self._acceptor is None else (self._acceptor,)
        return first_problem(self._thread, self._off_loop, *acceptor)

    @property
    def _stopping(self) -> bool:
        """Whether the end was asked for: those who serve a stream look."""
        return self._stop is not None and self._stop.is_set()

    @abstractmethod
    def _application(self) -> web.Application:
        """Return what is served; called once, in the server's own event loop."""

    @contextlib.asynccontextmanager
    async def _body(self, request: web.Request, most_bytes: int, seconds: float) -> AsyncIterator[bytes]:
        """Give a request's body, whole; it counts against the budget until the block ends.

        Raises:
            InvalidRequestBody: it is too long, does not come in time, or there is no place for it.
        """
        if (request.content_length or 0) > most_bytes:
            raise InvalidRequestBody(413, f"the body is longer than {most_bytes} bytes")
        share = self._budget.open(lambda: _abort(request))
        try:
            self._wait_for_client(request, seconds)
            body = bytearray()
            try:
                async with asyncio.timeout(seconds):
                    async for piece in request.content.iter_any():
                        if len(body) + len(piece) > most_bytes:
                            raise InvalidRequestBody(413, f"the body is longer than {most_bytes} bytes")
                        self._budget.grow(share, len(piece))
                        body += piece
            except TimeoutError:
                raise InvalidRequestBody(408, f"the body did not come within {seconds:.0f} s") from None
            except BudgetSpent as error:
                raise InvalidRequestBody(503, str(error)) from None
            share.whole = True
            self._answer_client(request)
            yield bytes(body)
        finally:
            self._budget.close(share)

    def _wait_for_client(self, request: web.Request, seconds: float) -> None:
        """Let a request's connection be closed for newcomers, and after some seconds."""
        if self._acceptor is not None:
            self._acceptor.wait_for_client(request.transport, seconds)

    def _answer_client(self, request: web.Request) -> None:
        """Keep a request's connection until the request is answered."""
        if self._acceptor is not None:
            self._acceptor.busy(request.transport)

    @web.middleware
    async def _track(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep a connection while its request is answered, and for the next one unless places are short."""
        transport = request.transport
        self._answer_client(request)
        try:
            response = await handler(request)
            if self._acceptor is not None and self._acceptor.crowded:
                response.force_close()
            return response
        finally:
            if self._acceptor is not None:
                self._acceptor.idle(transport)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_default_executor(self._off_loop)
        application = self._application()
        application.middlewares.insert(0, self._track)
        runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=END_SECONDS,
            handler_cancellation=True,
            auto_decompress=self._unpacks,
            keepalive_timeout=self._keep_alive_seconds,
        )
        await runner.setup()
        server = runner.server
        assert server is not None, "set up"
        assert self._socket is not None, "bound by `start`"
        bounds = ClientBounds(
            connections=self._connections,
            strangers=self._strangers,
            request_seconds=REQUEST_SECONDS,
            idle_seconds=self._keep_alive_seconds + REQUEST_SECONDS,  # aiohttp ends an idle connection first
        )
        self._acceptor = Acceptor(server, bounds, tls=self._tls, name=self._name)
        self._acceptor.start(self._socket)
        self._started.set()
        await rest(self._thread.heart, self._stop)
        await self._acceptor.stop()
        await runner.cleanup()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
