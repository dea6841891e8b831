"""The extender served by uvicorn in a thread of its own: one worker, connections that outlive the scheduler's.

Go's client keeps an idle connection for 90 s, and does not repeat a POST that meets one that closes: that pod would
get no score. So connections are kept for longer here. Off loopback there is TLS, and only who has a certificate of the
given authority is answered: scores decide where pods run.
"""

import asyncio
import logging
import socket
import threading

import uvicorn

from slack.scorer.asgi import Extender
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.certificates import ClientCertificates
from slack_operator.scorer import short_turns

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120
BACKLOG = 128
_CERTIFICATE_SECONDS = 10.0
_STOP_SECONDS = 2
STUCK_SECONDS = 30.0
"""Without a turn of the event loop, or a look at the certificates, the server counts as stuck."""
_BEAT_SECONDS = 1

logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it says of starts and stops we say ourselves


class ExtenderServer:
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, extender: Extender, *, tls: ClientCertificates | None = None) -> None:
        self.port = port
        self._host = host
        self._tls = tls
        config = uvicorn.Config(
            extender,
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
            limit_concurrency=64,
            backlog=BACKLOG,
            timeout_notify=_BEAT_SECONDS,
            callback_notify=self._beat,
            ssl_context_factory=(lambda *_: tls.context) if tls is not None else None,
        )
        self._config = config
        self._server = uvicorn.Server(config)
        self._socket: socket.socket | None = None
        self._ended = threading.Event()
        heart = Heartbeat("the extender server", STUCK_SECONDS)
        self._thread = SupervisedThread(self._run, name="extender", heart=heart)
        heart = Heartbeat("the thread that follows certificates", STUCK_SECONDS)
        self._following = SupervisedThread(self._follow, name="certificate", heart=heart)

    def unhealthy(self) -> str | None:
        """Return why requests are not answered any more; None if they are, or if the server was never started."""
        return first_problem(self._thread, self._following)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.socket(family)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self._host, self.port))
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
        self.port, self._socket = bound.getsockname()[1], bound
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
            runner.run(self._server.serve([self._socket]))

    async def _beat(self) -> None:
        self._thread.heart.beat()

    def _follow(self) -> None:
        assert self._tls is not None, "only started with certificates"
        while not self._following.heart.rest(self._ended, _CERTIFICATE_SECONDS):
            self._tls.refresh()
