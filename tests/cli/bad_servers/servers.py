"""Servers that are none: what a command meets when an address is wrong, a proxy is in the way, or a server is ill.

Each is a few bytes on a real socket. `late=True` makes one that answers /version, and Prometheus' first question, as it
should be and is bad from then on: what happens to a command whose server falls ill meanwhile.
"""

import contextlib
import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.cluster.certificates import Authority

_LOGIN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form>...</form></body></html>"
_HALF = b'{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"na'
_VERSION = b'{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}'
_VECTOR = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'
_PIECE = b" " * 65536
_STATUS = {401: "Unauthorized", 403: "Forbidden", 500: "Internal Server Error"}
_SECONDS_APART = 1.0

Answer = Callable[[socket.socket, bytes, threading.Event], None]
"""Gets the connection, the request's head, and what says that the server ends."""


@dataclass(frozen=True, slots=True)
class BadServer:
    """One way to be none."""

    name: str
    answer: Answer | None
    """None: nobody listens."""
    scheme: str = "http"
    """Of the address that the command gets."""
    tls: bool = False
    """Whether it speaks TLS."""
    host: str = "127.0.0.1"
    hasty: bool = False
    """It answers to the first bytes, whatever they are."""


def _replied(status: int, body: bytes, kind: str = "application/json", extra: str = "") -> Answer:
    def answer(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
        text = f"HTTP/1.1 {status} {_STATUS.get(status, 'OK')}\r\nContent-Type: {kind}\r\n{extra}"
        connection.sendall(f"{text}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

    return answer


def _refused(status: int) -> Answer:
    body = {"kind": "Status", "status": "Failure", "message": "no", "reason": _STATUS[status], "code": status}
    return _replied(status, json.dumps(body).encode())


def _silent(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    ended.wait()


def _slow(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    body = _VERSION
    for byte in f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body:
        connection.sendall(bytes([byte]))
        if ended.wait(_SECONDS_APART):
            return


def _slow_body(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"items": [')
    while not ended.wait(_SECONDS_APART):
        connection.sendall(b" ")


def _endless(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
    while not ended.is_set():
        connection.sendall(b"10000\r\n" + _PIECE + b"\r\n")


def _cut(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"kind": "List", "items": [')


def _closed(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    """Say nothing and go."""


def _bomb(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    packed = gzip.compress(b"{") + gzip.compress(b" " * (32 << 20), 1) * 16
    _replied(200, packed, extra="Content-Encoding: gzip\r\n")(connection, head, ended)


def _elsewhere(connection: socket.socket, head: bytes, ended: threading.Event) -> None:
    connection.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: https://login.example.invalid/sso\r\nContent-Length: 0\r\n\r\n"
    )


NINE = (
    BadServer("refused", None),
    BadServer("silent", _silent),
    BadServer("slow", _slow),
    BadServer("html", _replied(200, _LOGIN, "text/html")),
    BadServer("half JSON", _replied(200, _HALF)),
    BadServer("null", _replied(200, b"null")),
    BadServer("401", _refused(401)),
    BadServer("403", _refused(403)),
    BadServer("500", _refused(500)),
)
OTHERS = (
    BadServer("slow body", _slow_body),
    BadServer("endless", _endless),
    BadServer("gzip bomb", _bomb),
    BadServer("cut off", _cut),
    BadServer("closed at once", _closed),
    BadServer("redirect", _elsewhere),
    BadServer("untrusted", _replied(200, _VERSION), scheme="https", tls=True),
    BadServer("no TLS", _replied(400, b"bad request"), scheme="https", hasty=True),
    BadServer("TLS on http", _replied(200, _VERSION), tls=True),
    BadServer("unknown name", None, host="no-such-host.invalid"),
    BadServer("[] for all", _replied(200, b"[]")),
    BadServer("{} for all", _replied(200, b"{}")),
    BadServer("deep", _replied(200, b"[" * 200_000)),
    BadServer("5,000 digits", _replied(200, b'{"gitVersion": ' + b"9" * 5000 + b"}")),
)
LATE = tuple(server for server in (*NINE, *OTHERS) if server.answer is not None and server.scheme == "http")


@contextlib.contextmanager
def serving(server: BadServer, folder: Path, contacts: list[float], *, late: bool = False) -> Iterator[str]:
    """Run a server, and give its address.

    Args:
        server: which.
        folder: where its certificate may be.
        contacts: gets the monotonic time of each connection.
        late: whether it is good until it is asked for more than who it is.
    """
    with socket.create_server((("127.0.0.1"), 0), backlog=64) as listener:
        address = f"{server.scheme}://{server.host}:{listener.getsockname()[1]}"
        if server.answer is None:
            listener.close()
            yield address
            return
        ended = threading.Event()
        context = _context(folder) if server.tls else None
        threading.Thread(target=_accept, args=(listener, server, ended, context, late, contacts), daemon=True).start()
        try:
            yield address
        finally:
            ended.set()


def _context(folder: Path) -> ssl.SSLContext:
    pair = Authority.create(folder / "nobody-trusts").issue("server", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def _accept(
    listener: socket.socket,
    server: BadServer,
    ended: threading.Event,
    context: ssl.SSLContext | None,
    late: bool,
    contacts: list[float],
) -> None:
    while not ended.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        contacts.append(time.monotonic())
        threading.Thread(target=_talk, args=(connection, server, ended, context, late), daemon=True).start()


def _talk(
    connection: socket.socket, server: BadServer, ended: threading.Event, context: ssl.SSLContext | None, late: bool
) -> None:
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        connection.settimeout(60.0)
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        while head := connection.recv(65536) if server.hasty else _head(connection):
            asked = head.partition(b" HTTP/")[0]
            if late and asked.endswith(b" /version"):
                _good(connection, _VERSION)
            elif late and b"query=vector%281%29" in asked:
                _good(connection, _VECTOR)
            elif server.answer is not None:
                server.answer(connection, head, ended)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                return


def _good(connection: socket.socket, body: bytes) -> None:
    connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def _head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(65536)
        if not piece:
            return b""
        head += piece
    return head
