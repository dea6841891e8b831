"""/healthz, /readyz and /metrics of the agent, by the standard library's server: aiohttp alone would cost 12 MiB.

At most a few requests at once are answered, each within seconds; who waits longer, or sends what is no request, is cut
off. Nothing else is served, and nothing that a client sends is kept or logged.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

log = logging.getLogger(__name__)

Check = Callable[[], str]
"""Gives '' for yes, and a reason otherwise."""

MOST_AT_ONCE = 8
TIMEOUT_SECONDS = 10.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((host, port), handler)

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


class AgentServer:
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, *, healthy: Check, ready: Check, registry: CollectorRegistry) -> None:
        self.port = port
        self._host = host
        self._answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _checked(healthy),
            "/readyz": lambda: _checked(ready),
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(registry)),
        }
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        answers = self._answers

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT_SECONDS
            server_version, sys_version = "resource-slack", ""

            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                status, kind, body = answer() if answer else (404, "text/plain; charset=utf-8", b"not found\n")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing: probes come every few seconds."""

        self._server = _Server(self._host, self.port, Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.3}, name="http", daemon=True
        )
        self._thread.start()

    def stop(self, timeout: float = 0.5) -> None:
        """Close the socket; nothing where it was never started."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join(timeout)
            self._server.server_close()
            self._server = None


def _checked(check: Check) -> tuple[int, str, bytes]:
    reason = check()
    return (503 if reason else 200), "text/plain; charset=utf-8", f"{reason or 'ok'}\n".encode()
