"""One connection to one API server: raw bytes out, raw bytes in, and errors of our own.

The official client gives what is hard to get right (kubeconfig, exec plugins, service account tokens that rotate,
TLS, proxies); its models and its own retries are left out, they cost a hundred times the decoding.
Any thread may call; a `Stream` belongs to the thread that reads it, only `abort` may come from elsewhere.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Self
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException

from slack.kube.errors import ApiError, Unreachable, api_error

OnRequest = Callable[[str, int], None]
"""Called after each request with its verb (get, list, watch, post, ...) and HTTP code; 0 when no answer came."""

CHUNK_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
POOL_SIZE = 32  # reflectors, four writers, kopf's neighbours; more would only be closed after use, with a warning
_TRANSPORT_ERRORS = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)


def user_agent() -> str:
    """Our User-Agent. Not optional: the API server pretty-prints for some agents, which doubles the bytes."""
    try:
        return f"resource-slack/{metadata.version('resource-slack')}"
    except metadata.PackageNotFoundError:
        return "resource-slack/dev"


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to authenticate at the server; the token is left out of any text made of it."""

    scheme: str | None
    token: str | None = field(repr=False)
    authority_path: str | None
    certificate_path: str | None
    key_path: str | None
    verify: bool


class Stream:
    """The body of an answer that is read as it comes. Use as a context manager."""

    def __init__(self, response: urllib3.BaseHTTPResponse, request: str) -> None:
        self._response = response
        self._request = request

    def chunks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Pieces of the body of at most `size` bytes.

        Raises:
            Unreachable: The connection broke, or nothing came for the read timeout.
        """
        try:
            # said here, because urllib3 leaves a body that is both chunked and gzipped as it is when it is not told
            yield from self._response.stream(size, decode_content=True)
        except _TRANSPORT_ERRORS as error:
            raise _unreachable(self._request, error) from error

    def abort(self) -> None:
        """End the body at once, from any thread: a reader blocked in `chunks` returns or raises `Unreachable`.

        Closing would wait for the buffer's lock that the blocked reader holds; shutting the socket down does not.
        """
        with contextlib.suppress(RuntimeError, ValueError, OSError):  # already read to its end, or already gone
            self._response.shutdown()

    def close(self) -> None:
        """Give the connection back; one whose body was not read to the end is closed."""
        with contextlib.suppress(*_TRANSPORT_ERRORS):
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

    def __init__(self, configuration: Configuration, *, on_request: OnRequest | None = None) -> None:
        configuration.retries = False  # urllib3 would retry under tenacity, unseen and uncounted
        if not configuration.connection_pool_maxsize or configuration.connection_pool_maxsize < POOL_SIZE:
            configuration.connection_pool_maxsize = POOL_SIZE
        self.host: str = configuration.host
        self._client = ApiClient(configuration)
        self._on_request = on_request
        self._user_agent = user_agent()
        self._credentials = threading.Lock()  # refreshing a token rewrites the shared configuration

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

        Raises:
            ApiError: An answer other than 2xx.
            Unreachable: No whole answer.
        """
        with self._send(method, path, query, body, content_type, timeout, verb) as stream:
            return b"".join(stream.chunks())

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
        return self._send("GET", path, query, None, "", timeout, verb, gzip=gzip)

    def server_version(self) -> str:
        """The API server's gitVersion, for instance `v1.36.3`."""
        answer = json.loads(self.request("GET", "/version", timeout=(CONNECT_SECONDS, 10.0)))
        return str(answer.get("gitVersion", "unknown"))

    def close(self) -> None:
        """Close pooled connections. Streams still open are their readers' to close."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: object,
        content_type: str,
        timeout: tuple[float, float] | float,
        verb: str | None,
        *,
        gzip: bool = False,
    ) -> Stream:
        name = f"{method} {path}"
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if gzip:
            headers["Accept-Encoding"] = "gzip"
        payload: bytes | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        connect_seconds, read_seconds = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        code = 0
        try:
            self._authenticate(headers)
            response = self._client.rest_client.pool_manager.request(
                method,
                _url(self.host, path, query),
                body=payload,
                headers=headers,
                timeout=urllib3.Timeout(connect=connect_seconds, read=read_seconds),
                retries=False,
                redirect=False,  # a token goes to one host only
                preload_content=False,
            )
            code = response.status
        except _TRANSPORT_ERRORS as error:
            raise _unreachable(name, error) from error
        finally:
            if self._on_request is not None:
                self._on_request(verb or method.lower(), code)
        stream = Stream(response, name)
        if 200 <= code < 300:
            return stream
        raise self._refused(stream, response, name)

    def _refused(self, stream: Stream, response: urllib3.BaseHTTPResponse, name: str) -> ApiError:
        with stream:
            try:
                body = b"".join(stream.chunks())
            except Unreachable:
                body = b""  # the status line alone says enough
        return api_error(response.status, response.reason or "", response.headers, body, name)

    def credentials(self) -> Credentials:
        """Return what another client needs to speak to the same server, the token freshly read.

        Raises:
            Unreachable: the credentials cannot be refreshed just now.
        """
        headers: dict[str, str] = {}
        self._authenticate(headers)
        scheme, _, token = next((v for k, v in headers.items() if k.lower() == "authorization"), "").partition(" ")
        configuration = self._client.configuration
        return Credentials(
            scheme=scheme or None,
            token=token or None,
            authority_path=configuration.ssl_ca_cert,
            certificate_path=configuration.cert_file,
            key_path=configuration.key_file,
            verify=bool(configuration.verify_ssl),
        )

    def _authenticate(self, headers: dict[str, str]) -> None:
        """Add the bearer token, freshly read or fetched when it expired. Never log `headers` after this."""
        try:
            with self._credentials:
                self._client.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
        except (ConfigException, OSError) as error:
            # a projected token is replaced while we read it, an exec plugin is away: both pass
            raise Unreachable(f"credentials could not be refreshed: {error}") from error


def _url(host: str, path: str, query: Mapping[str, object] | None) -> str:
    pairs: list[tuple[str, Any]] = []
    for key, value in (query or {}).items():
        if value is not None and value != "":
            pairs.append((key, str(value).lower() if isinstance(value, bool) else value))
    return f"{host.rstrip('/')}{path}{'?' + urlencode(pairs) if pairs else ''}"


def _unreachable(request: str, error: BaseException) -> Unreachable:
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # urllib3 counts it among the timeouts
    timed_out = isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError) and not refused
    text = str(error).rpartition(": ")[2] if refused else str(error)
    return Unreachable(f"{request}: {text or type(error).__name__}", timed_out=timed_out)
