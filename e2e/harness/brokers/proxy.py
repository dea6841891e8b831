"""The proxy under test, as a pod would start it, and a user's container that it POSTs to."""

import contextlib
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Self

from e2e.harness.brokers.servers import BrokerServer
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program


class Posted(NamedTuple):
    """One message that a container was given."""

    body: bytes
    message_id: str
    attempt: int


Answer = Callable[[Posted], int]
"""Runs a message, and gives the HTTP status."""


class Container:
    """A user's container: an HTTP server on loopback."""

    def __init__(self, answer: Answer = lambda _: 200, *, port: int = 0) -> None:
        self.posted: list[Posted] = []
        self.port = port or free_port()
        self._answer = answer
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> Self:
        """Listen."""
        container = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted = Posted(body, self.headers["Act-Message"], int(self.headers["Act-Attempt"]))
                container.posted.append(posted)
                status = container._answer(posted)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where messages are POSTed to."""
        return f"http://{LOOPBACK}:{self.port}/run"


class Proxy:
    """One proxy process; ends with the test."""

    def __init__(self, folder: Path, server: BrokerServer, queue: str, *flags: str) -> None:
        self.health = free_port()
        command = [
            *(sys.executable, "-P", "-m", "slack.cli.main", "demand", "proxy"),
            *(f"--broker-url={server.url}", f"--queues={queue}", f"--listen={LOOPBACK}:{self.health}"),
            *("--ack-wait=2s", "--idle-timeout=0s", *flags),
        ]
        self.program = Program(f"proxy-{self.health}", command, folder)

    def __enter__(self) -> Self:
        self.program.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.program.stop()

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of one of its pages; 0 while it is not there."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.health}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait_until_ready(self) -> Self:
        """Wait until it pulls."""
        self.program.wait_until_ready(lambda: self.get("/readyz")[0] == 200, 20)
        return self
