"""/healthz, /readyz and /metrics of every process.

Healthy means that the threads live and the work goes on; ready means that what is seen is whole and fresh, which holds
for a standby too. Both answer with the reason when they say no. Nothing else is served.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from slack.process.http_server import TEXT, HttpRequest, HttpServer, Reply

Check = Callable[[], str | None]
"""Gives None for yes, and a reason otherwise."""


class HealthServer(HttpServer):
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, *, healthy: Check, ready: Check, registry: CollectorRegistry) -> None:
        answers: dict[str, Callable[[], Reply]] = {
            "/healthz": lambda: _reply_of(healthy),
            "/readyz": lambda: _reply_of(ready),
            "/metrics": lambda: Reply(200, CONTENT_TYPE_LATEST, generate_latest(registry)),
        }

        def answer(request: HttpRequest) -> Reply:
            found = answers.get(request.path)
            return found() if found else Reply(404, TEXT, b"not found\n")

        super().__init__(host, port, answer, name="health", quick=("/healthz", "/readyz"))


def _reply_of(check: Check) -> Reply:
    reason = check()
    return Reply(503 if reason else 200, TEXT, f"{reason or 'ok'}\n".encode())
