"""One connection to one API server: raw bytes out, raw bytes in, and errors of our own.

The official client gives what is hard to get right (kubeconfig, exec plugins, service account tokens that rotate,
TLS, proxies); its models and its own retries are left out, they cost a hundred times the decoding.
Any thread may call; a `Stream` belongs to the thread that reads it, only `abort` may come from elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from socket import socket
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException

from slack.kube.deadline import Deadline
from slack.kube.errors import AnswerTooLong, ApiError, InvalidAnswer, Unreachable, api_error, decode_answer
from slack.kube.unreachable import TRANSPORT_ERRORS, unreachable
from slack.kube.watch_stream import WatchStream

T = TypeVar("T")
OnRequest = Callable[[str, int], None]
"""Called after each request with its verb (get, list, watch, post, ...) and HTTP code; 0 when no answer came."""

CHUNK_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
POOL_SIZE = 32  # reflectors, four writers, kopf's neighbours; more would only be closed after use, with a warning
MOST_ANSWER_BYTES = 256 * 1024 * 1024
"""Of one whole answer: a page of a list has some MiB. More is a stream without end, or a bomb that unpacks itself."""
_MOST_REFUSAL_BYTES = 1024 * 1024
_FRESH_SECONDS = 1.0
"""As long what authenticates us is used again: the official client takes 0.5 ms to make sure of it, a request 0.1. It
makes them new minutes before they expire."""


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


_VERSION = msgspec.json.Decoder(_Version)


def user_agent() -> str:
    """Our User-Agent. Not optional: the API server pretty-prints for some agents, which doubles the bytes."""
    try:
        return f"resource-slack/{metadata.version('resource-slack')}"
    except metadata.PackageNotFoundError:
        return "resource-slack/dev"


@dataclass(frozen=True, slots=True)
class KubeCredentials:
    """How to authenticate at the server; the token is left out of any text made of it."""

    scheme: str | None
    token: str | None = field(repr=False)
    authority_path: str | None
    certificate_path: str | None
    key_path: str | None
    verify: bool


class Stream:
    """The body of an answer that is read as it comes. Use as a context manager."""

    def __init__(
        self, response: urllib3.BaseHTTPResponse, request: str, on_bytes: Callable[[int], None] | None = None
    ) -> None:
        self._response = response
        self._request = request
        self._on_bytes = on_bytes

    def chunks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Pieces of the body of at most `size` bytes.

        Raises:
            Unreachable: The connection broke, or nothing came for the read timeout.
        """
        try:
            # said here, because urllib3 leaves a body that is both chunked and gzipped as it is when it is not told
            for chunk in self._response.stream(size, decode_content=True):
                if self._on_bytes is not None:
                    self._on_bytes(len(chunk))
                yield chunk
        except TRANSPORT_ERRORS as error:
            raise unreachable(self._request, error) from error

    def read(self, most_bytes: int) -> bytes:
        """Return the whole body.

        Raises:
            Unreachable: as `chunks`.
            AnswerTooLong: what is left of it is not read.
        """
        pieces, size = [], 0
        for chunk in self.chunks():
            size += len(chunk)
            if size > most_bytes:
                raise AnswerTooLong(f"{self._request}: the answer is longer than {most_bytes >> 20} MiB")
            pieces.append(chunk)
        return b"".join(pieces)

    def abort(self) -> None:
        """End the body at once, from any thread: a reader blocked in `chunks` returns or raises `Unreachable`.

        Closing would wait for the buffer's lock that the blocked reader holds; shutting the socket down does not.
        """
        with contextlib.suppress(RuntimeError, ValueError, OSError):  # already read to its end, or already gone
            self._response.shutdown()

    def close(self) -> None:
        """Give the connection back; one whose body was not read to the end is closed."""
        with contextlib.suppress(*TRANSPORT_ERRORS):
            self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Connection:
    """Requests to one API server with the official client's transport and authentication.

    >>> connection = connect(None, None)                # doctest: +SKIP
    >>> connection.request("GET", "/api/v1/nodes", query={"limit": 1})  # doctest: +SKIP
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        on_request: OnRequest | None = None,
        impersonate: Sequence[tuple[str, str]] = (),
        request_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what the official client needs.

        Args:
            configuration: Where the server is, and who asks.
            on_request: Counter of requests.
            impersonate: Headers that name another user.
            request_seconds: How long one request may stay without an answer, in place of each caller's own bound; 0 is
                without end.
            clock: Seconds.
        """
        self.deadline: Deadline | None = None
        """How long requests may take in all, and who is told; None: as long as each one's own timeout lets it."""
        self.trace: Callable[[str], None] | None = None
        """Told each request with its answer and time, in one line without any header."""
        configuration.retries = False  # urllib3 would retry under tenacity, unseen and uncounted
        if not configuration.connection_pool_maxsize or configuration.connection_pool_maxsize < POOL_SIZE:
            configuration.connection_pool_maxsize = POOL_SIZE
        self.host: str = configuration.host
        self._client = ApiClient(configuration)
        self._on_request = on_request
        self._impersonate = impersonate
        self._request_seconds = request_seconds
        self._user_agent = user_agent()
        self._credentials = threading.Lock()  # refreshing a token rewrites the shared configuration
        self._clock = clock
        self._authentication: tuple[float, Mapping[str, str]] = (float("-inf"), {})
        """When these headers were last made sure of."""

    @property
    def address(self) -> str:
        """The server's address as it can be shown: without a password."""
        scheme, separator, rest = self.host.partition("://")
        return f"{scheme}{separator}{rest.rpartition('@')[2]}".rstrip("/")

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: tuple[float, float] | float = (CONNECT_SECONDS, READ_SECONDS),
        verb: str | None = None,
        more_headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> bytes:
        """Send one request and read the whole answer.

        Args:
            method: HTTP method.
            path: Absolute path, for instance from `resource_path`.
            query: Parameters; empty and None ones are left out, booleans become true and false.
            body: Bytes as they are, anything else as JSON.
            content_type: Of the body.
            timeout: Seconds to connect and between two reads, or one bound for both.
            verb: For the request counter; the method when not given.
            more_headers: For whoever the server hands the request on to.
            most_bytes: How long the answer may be.

        Raises:
            ApiError: An answer other than 2xx.
            Unreachable: No whole answer.
            AnswerTooLong: It is longer than that.
        """
        verb = verb or method.lower()
        headers, payload = self._prepare(body, content_type, verb)
        headers |= more_headers or {}

        def whole() -> bytes:
            with self._send(method, path, query, headers, payload, timeout, verb) as stream:
                return stream.read(most_bytes)

        return self._patiently(f"{method} {path}", whole)

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        timeout: tuple[float, float] | float = (CONNECT_SECONDS, READ_SECONDS),
        verb: str = "get",
        gzip: bool = False,
    ) -> Stream:
        """GET `path` and hand out the body as it comes; raises as `request` does."""
        headers, _ = self._prepare(None, "", verb)
        if gzip:
            headers["Accept-Encoding"] = "gzip"
        return self._patiently(f"GET {path}", lambda: self._send("GET", path, query, headers, None, timeout, verb))

    def watch(self, path: str, *, query: Mapping[str, object], timeout: tuple[float, float]) -> WatchStream:
        """Begin a watch on a connection of its own, and hand out what comes; raises as `request` does.

        Args:
            path: absolute.
            query: parameters.
            timeout: seconds to connect, and between two pieces.
        """
        return self._patiently(f"GET {path}", lambda: self._watch(path, query, timeout))

    def _watch(self, path: str, query: Mapping[str, object], timeout: tuple[float, float]) -> WatchStream:
        name, code, began = f"GET {path}", 0, self._clock()
        connect_seconds, idle_seconds = timeout
        try:
            wire = self.dial(connect_seconds)
            on_bytes = None if self.deadline is None else self.deadline.progress
            stream = WatchStream(wire, name, idle_seconds, on_bytes=on_bytes)
            try:
                stream.send(self.message("GET", _url("", path, query), b"", "", "application/json"), connect_seconds)
                stream.begin()
                code = stream.status
                if not 200 <= code < 300:
                    raise self._refused(stream, stream.status, stream.reason, stream.headers, name)
            except BaseException:
                stream.close()
                raise
        finally:
            self.count("watch", code)
            self._show("GET", _url(self.address, path, query), code, began)
        return stream

    def dial(self, seconds: float) -> socket:
        """Open a connection of its own to the server, TLS, proxy and all; what is said on it is the caller's.

        Raises:
            Unreachable: nobody answers.
        """
        pool = self._client.rest_client.pool_manager.connection_from_url(self.host)
        made: Any = pool._new_conn()  # as the pool makes its own: there is no public way to its TLS and proxies
        made.timeout = seconds
        try:
            if pool.proxy is not None:
                pool._prepare_proxy(made)
            else:
                made.connect()
        except TRANSPORT_ERRORS as error:
            raise unreachable(f"connect to {self.address}", error) from error
        wire: socket = made.sock
        made.sock = None  # so that its end does not close ours
        return wire

    def message(self, method: str, path: str, body: bytes, content_type: str, accept: str) -> bytes:
        """Return a request as it goes over a connection that was dialled.

        Raises:
            Unreachable: the credentials cannot be refreshed just now.
        """
        parts = urlsplit(self.host)
        headers = {"Host": parts.netloc.rpartition("@")[2], "Accept": accept, "User-Agent": self._user_agent}
        if body:
            headers["Content-Type"] = content_type
        headers["Content-Length"] = str(len(body))
        self._authenticate(headers)
        lines = [
            f"{method} {parts.path.rstrip('/')}{path} HTTP/1.1",
            *(f"{key}: {text}" for key, text in (*headers.items(), *self._impersonate)),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def count(self, verb: str, code: int) -> None:
        """Tell that a request was answered; 0 when it was not."""
        if self._on_request is not None:
            self._on_request(verb, code)

    def server_version(self) -> str:
        """The API server's gitVersion, for instance `v1.36.3`.

        Raises:
            KubeError: as `request`; `InvalidAnswer` for what no API server says.
        """
        answer = self.request("GET", "/version", timeout=(CONNECT_SECONDS, 10.0))
        return decode_answer("GET /version", answer, _VERSION).git_version

    def close(self) -> None:
        """Close pooled connections. Streams still open are their readers' to close."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _patiently(self, request: str, work: Callable[[], T]) -> T:
        return work() if self.deadline is None else self.deadline.wait(request, work)

    def _prepare(self, body: object, content_type: str, verb: str) -> tuple[dict[str, str], bytes | None]:
        """Return headers and body. A credential plugin runs here, where it may take the time that a person needs."""
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        payload: bytes | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        try:
            self._authenticate(headers)
        except Unreachable:
            self.count(verb, 0)
            raise
        return headers, payload

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str],
        payload: bytes | None,
        timeout: tuple[float, float] | float,
        verb: str,
    ) -> Stream:
        name, code, began = f"{method} {path}", 0, self._clock()
        connect_seconds, read_seconds = self._bounds(timeout)
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                _url(self.host, path, query),
                body=payload,
                headers=urllib3.HTTPHeaderDict([*headers.items(), *self._impersonate])
                if self._impersonate
                else headers,
                timeout=urllib3.Timeout(connect=connect_seconds, read=read_seconds),
                retries=False,
                redirect=False,  # a token goes to one host only
                preload_content=False,
            )
            code = response.status
        except TRANSPORT_ERRORS as error:
            raise unreachable(name, error) from error
        finally:
            self.count(verb, code)
            self._show(method, _url(self.address, path, query), code, began)
        if 200 <= code < 300:
            return Stream(response, name, None if self.deadline is None else self.deadline.progress)
        raise self._refused(Stream(response, name), code, response.reason or "", response.headers, name)

    def _bounds(self, timeout: tuple[float, float] | float) -> tuple[float | None, float | None]:
        """Return seconds to connect and between two reads, None without end."""
        connect_seconds, read_seconds = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        if self._request_seconds is None:
            return connect_seconds, read_seconds
        if self._request_seconds == 0:
            return connect_seconds, None
        return min(connect_seconds, self._request_seconds), self._request_seconds

    def _show(self, method: str, url: str, code: int, began: float) -> None:
        if self.trace is not None:
            took = round((self._clock() - began) * 1000)
            self.trace(f"{method} {url} {code or 'no answer'} in {took} milliseconds")

    def _refused(
        self, stream: Stream | WatchStream, status: int, reason: str, headers: Mapping[str, str], name: str
    ) -> ApiError:
        with stream:
            try:
                body = stream.read(_MOST_REFUSAL_BYTES)
            except (Unreachable, InvalidAnswer):
                body = b""  # the status line alone says enough
        return api_error(status, reason, headers, body, name)

    def credentials(self) -> KubeCredentials:
        """Return what another client needs to speak to the same server, the token freshly read.

        Raises:
            Unreachable: the credentials cannot be refreshed just now.
        """
        headers: dict[str, str] = {}
        self._authenticate(headers)
        scheme, _, token = next((v for k, v in headers.items() if k.lower() == "authorization"), "").partition(" ")
        configuration = self._client.configuration
        return KubeCredentials(
            scheme=scheme or None,
            token=token or None,
            authority_path=configuration.ssl_ca_cert,
            certificate_path=configuration.cert_file,
            key_path=configuration.key_file,
            verify=bool(configuration.verify_ssl),
        )

    def _authenticate(self, headers: dict[str, str]) -> None:
        """Add the bearer token, freshly read or fetched when it expired. Never log `headers` after this."""
        with self._credentials:
            known_at, known = self._authentication
            if self._clock() - known_at >= _FRESH_SECONDS:
                fresh: dict[str, str] = {}
                try:
                    self._client.update_params_for_auth(fresh, [], ["BearerToken"], "", "", None)
                except (ConfigException, OSError) as error:
                    # a projected token is replaced while we read it, an exec plugin is away: both pass
                    raise Unreachable(f"credentials could not be refreshed: {error}") from error
                self._authentication = (self._clock(), known := fresh)
        headers |= known


def _url(host: str, path: str, query: Mapping[str, object] | None) -> str:
    pairs: list[tuple[str, Any]] = []
    for key, value in (query or {}).items():
        if value is not None and value != "":
            pairs.append((key, str(value).lower() if isinstance(value, bool) else value))
    return f"{host.rstrip('/')}{path}{'?' + urlencode(pairs) if pairs else ''}"
