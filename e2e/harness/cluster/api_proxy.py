"""A proxy before the API server, for one client: it passes everything on, but holds or refuses what a test names.

So a test stops a client at an exact step, or lets the server be overloaded for some requests and for nobody else. The
client's credentials must be a token, which is passed on; watches are streams and stay so.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml

from e2e.harness.cluster.access import Access
from e2e.harness.cluster.certificates import Pair
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.harness.machine_speed import time_scale
from e2e.harness.ports import LOOPBACK

_HOPS = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})
_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the client made."""

    method: str
    path: str
    """Without its query."""
    body: bytes = field(repr=False)
    at: float
    """`time.monotonic()` when it came."""


Match = Callable[[Asked], bool]


class Hold:
    """What a test does not let through; each request waits until it is let go or dropped."""

    def __init__(self, match: Match, after: int) -> None:
        self._match = match
        self._after = after
        self._lock = threading.Lock()
        self._seen = 0
        self._reached = threading.Event()
        self._over = threading.Event()
        self._dropped = False

    @property
    def reached(self) -> bool:
        """Whether a request is held, or was."""
        return self._reached.is_set()

    def wait_until_reached(self, seconds: float = 60.0) -> None:
        """Wait until a request is held."""
        seconds *= time_scale()
        if not self._reached.wait(seconds):
            raise HarnessError(f"no request was held within {seconds:g} s; {self._seen} matched")

    def let_go(self) -> None:
        """Pass on what is held, and what comes."""
        self._over.set()

    def drop(self) -> None:
        """Break the connections of what is held, which the server never sees, and pass on what comes later."""
        self._dropped = True
        self._over.set()

    def passes(self, asked: Asked) -> bool:
        """Wait if this request is to be held; say whether it is passed on."""
        if self._over.is_set() or not self._match(asked):
            return True
        with self._lock:
            self._seen += 1
            if self._seen <= self._after:
                return True
        self._reached.set()
        self._over.wait()
        return not self._dropped


@dataclass
class _Refusal:
    match: Match
    code: int
    times: int
    done: int = 0


class ApiProxy:
    """One proxy.

    Usage:

        with ApiProxy.before(cluster) as proxy:
            operator = Operator(cluster, identity=proxy.access(identity))
            hold = proxy.hold(lambda asked: asked.method == "DELETE", after=10)
            ...
            hold.wait_until_reached(); operator.kill(); hold.drop()
    """

    def __init__(self, server: str, authority: Path, pair: Pair, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._upstream = urllib3.PoolManager(
            maxsize=64, ssl_context=ssl.create_default_context(cafile=str(authority)), retries=False
        )
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._holds: list[Hold] = []
        self._refusals: list[_Refusal] = []
        self._streams: set[urllib3.BaseHTTPResponse] = set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._http = _Server((LOOPBACK, 0), _handler(self))
        # the handshake belongs to the connection's thread: a slow client must not keep others waiting
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, name="api-proxy", daemon=True)

    @classmethod
    def before(cls, cluster: ControlPlane) -> Self:
        """Return one that is not started yet."""
        pair = cluster.server_certificate("api-proxy", [LOOPBACK])
        return cls(cluster.api.server, cluster.api.authority, pair, cluster.run_folder)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{LOOPBACK}:{self._http.server_address[1]}"

    def access(self, identity: Access) -> Access:
        """Return an identity's way through the proxy; its own door stays as it is."""
        config = yaml.safe_load(identity.kubeconfig.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = self.url
        path = self._folder / f"{identity.kubeconfig.name}-by-proxy"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return Access(identity.user, path, identity.api)

    def asked(self, match: Match = lambda _: True) -> list[Asked]:
        """Return the requests that came so far."""
        with self._lock:
            found = list(self._asked)
        return [asked for asked in found if match(asked)]  # a match may ask, too

    def hold(self, match: Match, after: int = 0) -> Hold:
        """Hold the requests that match, but for the first few."""
        hold = Hold(match, after)
        with self._lock:
            self._holds.append(hold)
        return hold

    @contextmanager
    def refusing(self, match: Match, code: int, times: int = 10**9) -> Iterator[None]:
        """Refuse the requests that match, at most so often."""
        refusal = _Refusal(match, code, times)
        with self._lock:
            self._refusals.append(refusal)
        try:
            yield
        finally:
            with self._lock:
                self._refusals.remove(refusal)
        if not refusal.done:
            raise HarnessError("nothing was refused: the test did not test anything")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.drop()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            with suppress(ValueError, OSError):
                stream.shutdown()

    def take(self, asked: Asked) -> int | None:
        """Note a request and wait while it is held; return the code it is refused with, 0 to drop it, None to pass."""
        with self._lock:
            self._asked.append(asked)
            holds = list(self._holds)
            for refusal in self._refusals:
                if refusal.done < refusal.times and refusal.match(asked):
                    refusal.done += 1
                    return refusal.code
        return None if all(hold.passes(asked) for hold in holds) else 0

    @contextmanager
    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> Iterator[urllib3.BaseHTTPResponse]:
        """Ask the API server what the client has asked."""
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOPS}
        response = self._upstream.request(
            handler.command,
            self._server + handler.path,
            body=body or None,
            headers=headers,
            timeout=urllib3.Timeout(connect=10.0, read=3700.0),
            preload_content=False,
            decode_content=False,
        )
        with self._lock:
            self._streams.add(response)
        try:
            yield response
        finally:
            with self._lock:
                self._streams.discard(response)
            response.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has been killed, or a server that is down: both are what tests do."""


def _handler(proxy: ApiProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code = proxy.take(Asked(self.command, self.path.partition("?")[0], body, time.monotonic()))
            if code == 0:
                self.close_connection = True
                return
            if code is not None:
                self._refuse(code)
                return
            try:
                with proxy.answer(self, body) as response:
                    self._copy(response)
            except (urllib3.exceptions.HTTPError, OSError):
                self.close_connection = True  # as if there were no proxy: the connection breaks

        def _refuse(self, code: int) -> None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": _REASONS[code], "code": code}
            text = json.dumps({**status, "message": "refused by a test"}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if code == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(text)

        def _copy(self, response: urllib3.BaseHTTPResponse) -> None:
            self.send_response_only(response.status)
            for name, value in response.headers.items():
                if name.lower() not in _HOPS:
                    self.send_header(name, value)
            if "Content-Length" in response.headers:
                self.end_headers()
                self.wfile.write(response.read(decode_content=False))
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while chunk := response.read1(65536, decode_content=False):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler
