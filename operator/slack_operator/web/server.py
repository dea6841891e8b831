"""Serves the page on an aiohttp server in a thread and event loop of its own. Reads only.

A client of the event stream gets the latest state, at most once a second: one that cannot keep up misses states in
between, and one that takes nothing for some seconds is dropped. What is costly (nodes, explain) is made beside the
event loop, for one caller at a time.
"""

import asyncio
import contextlib
import gzip
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from aiohttp import hdrs, web

from slack.process.logs import fields
from slack_operator.capacity_buffers.buffer_serving import ServingReport
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.runtime.serving import ServingThread
from slack_operator.web import explaining
from slack_operator.web.documents import PageDocument
from slack_operator.web.failures import TokenFailures
from slack_operator.web.guard import COOKIE, HEADERS, SESSION_SECONDS, RequestGuard
from slack_operator.web.history import Timeline
from slack_operator.web.load import LoadBoard, columns_of
from slack_operator.web.nodes import nodes_of, same_nodes
from slack_operator.web.page_state import PageState
from slack_operator.web.state import state_of
from slack_operator.web.words import help_page

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
MAX_STREAMS = 32
STREAM_SECONDS = 1.0
"""Between two states for one client."""
ALIVE_SECONDS = 15.0
SLOW_SECONDS = 10.0
EXPLAIN_SECONDS = 5.0
MAX_EXPLAINS = 2
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_OPEN = ("/login", "/static/")
"""What a caller without the token may see."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class First(msgspec.Struct, frozen=True):
    """What the page starts from."""

    state: PageDocument
    timeline: Timeline
    """An hour."""
    day: Timeline


class _Problem(msgspec.Struct, frozen=True):
    error: str


class WebServer(ServingThread):
    """Serves until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        board: PageState,
        token: str | None = None,
        load: LoadBoard | None = None,
        buffers: Callable[[], ServingReport | None] = lambda: None,
        quotas_of: explaining.QuotasOf = explaining.unread,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(host, port, name="web")
        self._board = board
        self._load = load
        self._buffers = buffers
        self._quotas_of = quotas_of
        self._clock = clock
        self._guard = RequestGuard(host, token)
        self._failures = TokenFailures()
        self._files = {file.name: file.read_bytes() for file in sorted(STATIC.iterdir()) if file.suffix in _TYPES}
        self._streams = 0
        self._explains = 0
        self._nodes: tuple[Reconciliation | None, int, bytes] = (None, 0, b"")
        self._loads: tuple[int, bytes] = (0, b"")
        board.listen(self._on_reconciled)

    @property
    def streams(self) -> int:
        """How many clients of the event stream there are."""
        return self._streams

    def _application(self) -> web.Application:
        self._news = asyncio.Event()
        self._making = asyncio.Lock()
        app = web.Application(middlewares=[self._check], client_max_size=8192)
        app.on_response_prepare.append(_with_headers)
        app.router.add_get("/", self._page("index.html"))
        app.router.add_get("/help", self._get_help)
        app.router.add_get("/login", self._page("login.html"))
        app.router.add_post("/login", self._log_in)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/api/state", self._get_state)
        app.router.add_get("/api/nodes", self._get_nodes)
        app.router.add_get("/api/load", self._get_load)
        app.router.add_get("/api/events", self._get_events)
        app.router.add_get("/api/explain", self._get_explain)
        app.on_shutdown.append(self._let_go)
        return app

    async def _let_go(self, _: web.Application) -> None:
        """Wake the streams: they see that this is the end."""
        self._news.set()

    def _on_reconciled(self) -> None:
        """On the planning loop's thread."""
        loop = self._loop
        if loop is not None and self._started.is_set():
            with contextlib.suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        guard = self._guard
        if request.method not in ("GET", "HEAD") and (request.method, request.path) != ("POST", "/login"):
            return _problem(405, "only GET is served here", Allow="GET, HEAD")
        if not guard.right_host(request.headers.get(hdrs.HOST)):
            return _problem(421, "the Host header names another place than this page's")
        if not guard.right_site(request):
            return _problem(403, "other sites may not read this page")
        if not guard.knows(request) and not request.path.startswith(_OPEN):
            if request.path == "/":
                return web.Response(status=303, headers={hdrs.LOCATION: "/login"})
            if guard.guesses(request) and not await self._failures.hold(request.remote or ""):
                return _too_many_guesses()
            return _problem(401, "a token is needed, as a bearer or by /login", **{"WWW-Authenticate": "Bearer"})
        return await handler(request)

    def _page(self, name: str) -> Handler:
        async def handler(_: web.Request) -> web.StreamResponse:
            return _file(name, self._files[name])

        return handler

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        body = self._files.get(name)
        if body is None or name.endswith(".html"):
            return _problem(404, "there is no such file")
        return _file(name, body)

    async def _get_help(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=help_page(self._board.about.namespace), content_type="text/html", charset="utf-8")

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        if not self._guard.asks:
            return _problem(404, "this page asks for no token")
        given = (await request.post()).get("token")
        session = self._guard.open_session(given) if isinstance(given, str) else None
        if session is None:
            if not await self._failures.hold(request.remote or ""):
                return _too_many_guesses()
            return web.Response(status=303, headers={hdrs.LOCATION: "/login?wrong"})
        answer = web.Response(status=303, headers={hdrs.LOCATION: "/"})
        secure = request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"
        answer.set_cookie(
            COOKIE, session, max_age=int(SESSION_SECONDS), httponly=True, samesite="Strict", secure=secure, path="/"
        )
        return answer

    async def _get_state(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.encode(First(self._state(), self._board.timeline(), self._board.day.timeline()))
        return await _json(request, body)

    async def _get_nodes(self, request: web.Request) -> web.StreamResponse:
        async with self._making:
            _, _, figures = self._board.last()
            number = self._nodes_version(figures)
            made, version, body = self._nodes
            if not body and made is not None and made.observation is not None:
                observation, owners, leads = made.observation, made.policy_of_node, made.leading
                body = await asyncio.to_thread(
                    lambda: msgspec.json.encode(nodes_of(observation.snapshot, owners, version, divided=leads))
                )
                if self._nodes[1] == version:
                    self._nodes = (made, version, body)
        if not number:
            return _problem(503, "the first look at the cluster is not through yet")
        return await _json(request, body)

    async def _get_load(self, request: web.Request) -> web.StreamResponse:
        if self._load is None:
            return _problem(404, "no load watcher is named: --web-load-watcher")
        _, _, figures = self._board.last()
        observation = figures.observation if figures is not None else None
        version, report = self._load.report()
        if report is None or observation is None:
            return _problem(503, "the load watcher has told nothing yet")
        async with self._making:
            if self._loads[0] != version:
                names = observation.snapshot.nodes.names
                body = await asyncio.to_thread(lambda: msgspec.json.encode(columns_of(report, version, names)))
                self._loads = (version, body)
            body = self._loads[1]
        return await _json(request, body)

    def _nodes_version(self, figures: Reconciliation | None) -> int:
        """Return the version of the nodes; another one only when they look otherwise."""
        made, version, _ = self._nodes
        if figures is not made and figures is not None and figures.observation is not None:
            same = (
                made is not None
                and made.observation is not None
                and same_nodes(made.observation.snapshot, figures.observation.snapshot)
                and made.policy_of_node == figures.policy_of_node
                and made.leading == figures.leading
            )
            self._nodes = (figures, version, self._nodes[2]) if same else (figures, version + 1, b"")
        return self._nodes[1]

    def _state(self) -> PageDocument:
        version, reconciliation, figures = self._board.last()
        nodes_version = self._nodes_version(figures)
        return state_of(
            version,
            reconciliation,
            figures,
            self._board.about,
            now=self._clock(),
            nodes_version=nodes_version,
            port=self.port,
            load=None if self._load is None else self._load.view(),
            buffers=self._buffers(),
        )

    async def _get_events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= MAX_STREAMS:
            return _problem(503, f"there are {MAX_STREAMS} open pages already", **{"Retry-After": "30"})
        self._streams += 1
        try:
            return await self._stream(request)
        finally:
            self._streams -= 1

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"})
        await answer.prepare(request)
        seen = -1
        try:
            while not self._stopping:
                news = self._news
                version = self._board.last()[0]
                if version != seen:
                    seen = version
                    data = b"event: state\ndata: " + msgspec.json.encode(self._state()) + b"\n\n"
                else:
                    data = b"event: alive\ndata: -\n\n"  # a comment would reach no script
                await asyncio.wait_for(answer.write(data), SLOW_SECONDS)
                await asyncio.sleep(STREAM_SECONDS)
                if self._board.last()[0] == seen:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), ALIVE_SECONDS)
        except TimeoutError:
            log.info("web page: a client that takes nothing is dropped", extra=fields(peer=request.remote or ""))
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            log.debug("web page: a client has gone")
        return answer

    async def _get_explain(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = explaining.question(request.query.get("namespace", ""), request.query.get("workload", ""))
        except explaining.InvalidQuestion as error:
            return _problem(400, str(error))
        _, _, figures = self._board.last()
        if figures is None:
            return _problem(503, "the first look at the cluster is not through yet")
        if self._explains >= MAX_EXPLAINS:
            return _problem(503, "others are asking just now: try again", **{"Retry-After": "1"})
        self._explains += 1
        work = asyncio.create_task(asyncio.to_thread(explaining.answer, figures, *asked, self._quotas_of))
        work.add_done_callback(self._explained)  # a thread cannot be broken off: it counts until it ends
        try:
            found = await asyncio.wait_for(asyncio.shield(work), EXPLAIN_SECONDS)
        except TimeoutError:
            return _problem(504, f"no answer within {EXPLAIN_SECONDS:g} s: ask `resource-slack explain`")
        return await _json(request, msgspec.json.encode(found))

    def _explained(self, work: "asyncio.Task[explaining.ExplanationAnswer]") -> None:
        self._explains -= 1
        if not work.cancelled() and work.exception() is not None:
            log.error("web page: explain failed", exc_info=work.exception())


async def _with_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.popall(hdrs.SERVER, None)
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")


def _file(name: str, body: bytes) -> web.Response:
    return web.Response(
        body=body,
        content_type=_TYPES[Path(name).suffix],
        charset="utf-8",
        headers={hdrs.CACHE_CONTROL: "no-store" if name.endswith(".html") else "no-cache"},
    )


def _problem(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(_Problem(text)), content_type="application/json", headers=headers
    )


def _too_many_guesses() -> web.Response:
    return _problem(429, "too many wrong tokens are being answered: try again", **{"Retry-After": "1"})


async def _json(request: web.Request, body: bytes) -> web.Response:
    headers: dict[str, str] = {hdrs.VARY: hdrs.ACCEPT_ENCODING}
    if len(body) > 1024 and "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        body = await asyncio.to_thread(gzip.compress, body, 3)
        headers[hdrs.CONTENT_ENCODING] = "gzip"
    return web.Response(body=body, content_type="application/json", headers=headers)
