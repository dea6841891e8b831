"""The REST API: /watcher and what belongs to it. Read-only; nothing that a client sends is kept."""

from collections.abc import Callable, Mapping
from importlib import metadata
from urllib.parse import parse_qs, unquote

import msgspec

from slack.loadwatcher.encoding import ReportFormat
from slack.loadwatcher.openapi import document
from slack.loadwatcher.payload import WINDOWS, RollupWindow
from slack.process.http_server import TEXT, HttpRequest, Reply
from slack_operator.loadwatcher.report_store import ReportStore

JSON = "application/json"
_MOST_QUERY = 2048
_SHOWN = 80


class Api:
    """Answers requests; any thread may ask."""

    def __init__(
        self,
        board: ReportStore,
        style: ReportFormat,
        unhealthy: Callable[[], str | None],
        on_reply: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._board = board
        self._unhealthy = unhealthy
        self._on_reply = on_reply
        self._openapi = msgspec.json.encode(document(metadata.version("resource-slack"), style))

    def answer(self, request: HttpRequest) -> Reply:
        """Answer one request."""
        reply = self._answer(request)
        self._on_reply(reply.status)
        return reply

    def _answer(self, request: HttpRequest) -> Reply:
        path = request.path.rstrip("/") if len(request.path) > 1 else request.path
        if path == "/watcher/health":
            why = self._unhealthy()
            return _text(503 if why else 200, why or "ok")
        if path == "/openapi.json":
            return Reply(200, JSON, self._openapi)
        if path == "/analysis":
            body = self._board.analysis()
            return _text(404, "nothing was fetched yet") if body is None else Reply(200, JSON, body)
        if path == "/watcher":
            return self._watcher(request, None)
        if path.startswith("/watcher/"):
            return self._watcher(request, unquote(path.removeprefix("/watcher/")))
        return _text(404, "not found; there are /watcher, /watcher/{hostname}, /watcher/health and /openapi.json")

    def _watcher(self, request: HttpRequest, host: str | None) -> Reply:
        try:
            asked = _query(request.query)
        except ValueError:
            return _text(400, "the query cannot be read")
        host = asked.get("host", host) if host is None else host
        try:
            window = RollupWindow(asked.get("window", WINDOWS[0].value))
        except ValueError:
            shown = asked["window"][:_SHOWN]
            return _text(400, f"window: {shown!r} is none of 15m, 10m and 5m")
        body = self._board.body(window, host or None, gzipped=request.takes_gzip)
        if body is None:
            return _text(404, f"No metrics found for host {host[:_SHOWN]!r}" if host else "No metrics found")
        headers: Mapping[str, str] = {"Vary": "Accept-Encoding", "Cache-Control": "no-store"}
        if request.takes_gzip:
            headers = {**headers, "Content-Encoding": "gzip"}
        return Reply(200, JSON, body, headers)


def _query(text: str) -> dict[str, str]:
    if len(text) > _MOST_QUERY:
        raise ValueError
    return {name: values[0] for name, values in parse_qs(text, max_num_fields=20).items()}


def _text(status: int, words: str) -> Reply:
    return Reply(status, TEXT, f"{words}\n".encode(errors="replace"))
