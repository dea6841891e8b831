"""A small HTTP server by the standard library's: what it answers is a function of path and query. GET and HEAD only.

At most a few requests at once are answered, each within seconds; who waits longer, or sends what is no request, is cut
off. Nothing that a client sends is kept or logged. aiohttp would cost each process 12 MiB.
"""

import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

MOST_AT_ONCE = 8
TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.3
"""How long a stop waits at the most."""
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
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


Answer = Callable[[Request], Reply]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler], heart: Heartbeat) -> None:
        self._heart = heart
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((host, port), handler)

    def service_actions(self) -> None:
        """Write the stamp: called each `POLL_SECONDS`."""
        self._heart.beat()

    def server_bind(self) -> None:
        # HTTPServer's asks the name service who we are, which may take long where there is none
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone or is too slow; all else is a mistake of ours."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a request could not be answered")


class HttpServer:
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(
        self, host: str, port: int, answer: Answer, *, name: str = "http", tls: ssl.SSLContext | None = None
    ) -> None:
        self.port = port
        self._host = host
        self._answer = answer
        self._name = name
        self._tls = tls
        self._server: _Server | None = None
        self._heart = Heartbeat(f"the {name} server", TIMEOUT_SECONDS)
        self._thread: SupervisedThread | None = None

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        self._server = _Server(self._host, self.port, _handler(self._answer), self._heart)
        self.port = self._server.server_port
        if self._tls is not None:  # the handshake is the worker's, under its timeout
            self._server.socket = self._tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = SupervisedThread(
            partial(self._server.serve_forever, POLL_SECONDS), name=self._name, heart=self._heart
        )
        self._thread.start()

    def stop(self, timeout: float = 0.5) -> None:
        """Close the socket; nothing where it was never started."""
        if self._server is not None and self._thread is not None:
            self._thread.dismiss()
            self._server.shutdown()
            self._thread.join(timeout)
            self._server.server_close()
            self._server = None

    def unhealthy(self) -> str | None:
        """Return why nothing is served any more; None if requests are accepted, or the server was never started."""
        return None if self._thread is None else self._thread.unhealthy()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_SECONDS
        server_version, sys_version = "resource-slack", ""

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            path = urlsplit(path).path if path.startswith(("http:", "https:")) else path
            asked = Request(path, query, "gzip" in (self.headers.get("Accept-Encoding") or "").lower())
            reply = answer(asked)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing: probes come every few seconds."""

    return Handler
