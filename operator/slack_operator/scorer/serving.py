"""The extender served by uvicorn in a thread of its own: one worker, connections that outlive the scheduler's.

Go's client keeps an idle connection for 90 s, and does not repeat a POST that meets one that closes: that pod would
get no score. So connections are kept for longer here. Off loopback there is TLS, and only who has a certificate of the
given authority is answered: scores decide where pods run.
"""

import asyncio
import logging
import socket
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slack.process.accepting import Acceptor, ClientBounds, listening_socket
from slack.scorer.asgi import Extender
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.certificates import Certificate
from slack_operator.scorer import short_turns

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120
BACKLOG = 128
_CERTIFICATE_SECONDS = 10.0
_STOP_SECONDS = 2
STUCK_SECONDS = 30.0
"""Without a turn of the event loop, or a look at the certificates, the server counts as stuck."""
BOUNDS = ClientBounds(connections=64, strangers=32, request_seconds=10.0, idle_seconds=KEEP_ALIVE_SECONDS + 10.0)
"""A scheduler keeps few connections; the oldest idle one is closed for a newcomer."""

logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it says of starts and stops we say ourselves


class ExtenderServer:
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, extender: Extender, *, tls: Certificate | None = None) -> None:
        self.port = port
        self._host = host
        self._tls = tls
        self._extender = extender
        config = uvicorn.Config(
            self._answer,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_STOP_SECONDS,
            limit_concurrency=2 * BOUNDS.connections,  # the acceptor counts, before uvicorn does
            backlog=BACKLOG,
            ssl_context_factory=(lambda *_: tls.context) if tls is not None else None,
        )
        self._config = config
        self._server = uvicorn.Server(config)
        self._socket: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._ended = threading.Event()
        heart = Heartbeat("the extender server", STUCK_SECONDS)
        self._thread = SupervisedThread(self._run, name="extender", heart=heart)
        heart = Heartbeat("the thread that follows certificates", STUCK_SECONDS)
        self._following = SupervisedThread(self._follow, name="certificate", heart=heart)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; the connection is kept for the next one unless places are short."""

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start" and self._acceptor is not None and self._acceptor.crowded:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._extender(scope, receive, send_on)

    def unhealthy(self) -> str | None:
        """Return why requests are not answered any more; None if they are, or if the server was never started."""
        acceptor = () if self._acceptor is None else (self._acceptor,)
        return first_problem(self._thread, *acceptor, self._following)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        self._socket = listening_socket(self._host, self.port)
        self.port = int(self._socket.getsockname()[1])
        self._thread.start()
        if self._tls is not None:
            self._following.start()

    def stop(self, timeout: float = _STOP_SECONDS + 1.0) -> None:
        """Answer what is being asked, close, and end the thread; nothing where it was never started."""
        self._following.dismiss()
        self._thread.dismiss()
        self._ended.set()
        self._server.should_exit = True
        self._thread.join(timeout)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        short_turns.ask()
        factory = self._config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self._serve(self._socket))

    async def _serve(self, bound: socket.socket) -> None:
        beating = asyncio.get_running_loop().create_task(self._beat())
        self._config.load()
        acceptor = self._acceptor = Acceptor(
            lambda: _Tracked(acceptor, self._config, self._server),
            BOUNDS,
            tls=None if self._tls is None else self._tls.context,
            name="extender",
        )
        acceptor.start(bound)
        await self._server.serve([])
        await acceptor.stop()
        beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._thread.heart.beat()
            await asyncio.sleep(1.0)

    def _follow(self) -> None:
        assert self._tls is not None, "only started with certificates"
        while not self._following.heart.rest(self._ended, _CERTIFICATE_SECONDS):
            self._tls.refresh()


class _Tracked(HttpToolsProtocol):
    """uvicorn's protocol; says when a request is whole, and when it was answered."""

    def __init__(self, acceptor: Acceptor, config: uvicorn.Config, server: uvicorn.Server) -> None:
        super().__init__(config=config, server_state=server.server_state, app_state={})
        self._acceptor = acceptor

    def on_message_complete(self) -> None:
        self._acceptor.busy(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        transport = self.transport
        super().on_response_complete()
        self._acceptor.idle(transport)
