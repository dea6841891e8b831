"""How the benchmarks' API server answers one request: lists, watches, writes, each as the true one does.

One connection is one thread and one `Handler`. What there is, and who may be told about it, is `Server`'s and the
store's business.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from benchmarks.apiserver.store import GENERATED, PODS, Key, Phase, line_of, merged
from benchmarks.apiserver.watch_history import Refused
from benchmarks.generator import Json

if TYPE_CHECKING:
    from benchmarks.apiserver.server import Server

BOOKMARK_SECONDS = 60.0
_CHUNK_BYTES = 64 * 1024
_GZIP_BYTES = 128 * 1024
"""From this size on the API server compresses, for those that accept it."""
RESOURCES = {
    "v1": {
        "pods": "Pod",
        "nodes": "Node",
        "events": "Event",
        "namespaces": "Namespace",
        "resourcequotas": "ResourceQuota",
        "limitranges": "LimitRange",
    },
    "apps/v1": {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job", "cronjobs": "CronJob"},
    "scheduling.k8s.io/v1": {"priorityclasses": "PriorityClass"},
    "coordination.k8s.io/v1": {"leases": "Lease"},
    "resource-slack.io/v1alpha1": {"slackpolicies": "SlackPolicy", "activationpools": "ActivationPool"},
}
NAMESPACED = frozenset(
    (
        "pods",
        "events",
        "resourcequotas",
        "limitranges",
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "leases",
    )
)


class Break(StrEnum):
    """How open watches end."""

    END = "in order"
    RESET = "connection reset"
    CUT = "reset in the middle of a line"
    EXPIRED = "in-band 410"


class Http(ThreadingHTTPServer):
    """Accepts connections, and leaves their handshakes to their own threads."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext) -> None:
        super().__init__(address, handler)
        self._tls = tls

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept one connection."""
        sock, address = super().get_request()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # the handshake is done by the connection's own thread, with the first read
        return self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what is no broken connection; those are what clients do."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    api: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: thousands of requests are as they should be."""

    def finish(self) -> None:
        """End the connection; it may have gone before."""
        with contextlib.suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        """Read, list or watch."""
        self._guarded(self._get)

    def do_POST(self) -> None:
        """Create."""
        self._guarded(lambda key, query: self._send(201, self._create(key)))

    def do_PUT(self) -> None:
        """Replace, as of a version."""
        self._guarded(lambda key, query: self._send(200, self._replace(key)))

    def do_PATCH(self) -> None:
        """Apply or patch."""
        self._guarded(lambda key, query: self._send(200, self._patch(key)))

    def do_DELETE(self) -> None:
        """Delete."""
        self._guarded(lambda key, query: self._send(200, self._delete(key)))

    def _guarded(self, answer: Callable[[Key, dict[str, str]], None]) -> None:
        url = urlsplit(self.path)
        self._raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.api.discovery(url.path)
        if found is not None:
            self._send(200, found)
            return
        try:
            key, self._subresource = _key(url.path)
            if self.command != "GET":
                if self.api.read_only and key.plural != "leases":
                    raise Refused(403, "Forbidden", "nothing is written just now")
                written = (self.command.lower(), key.plural + (f"/{self._subresource}" if self._subresource else ""))
                with self.api.store.changed:
                    self.api.store.writes[written] = self.api.store.writes.get(written, 0) + 1
            answer(key, dict(parse_qsl(url.query)))
        except Refused as refused:
            self._send(refused.code, refused.body)

    def _send(self, code: int, body: Json | bytes) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        if len(raw) > _GZIP_BYTES and "gzip" in self.headers.get("Accept-Encoding", ""):
            raw = gzip.compress(raw, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _get(self, key: Key, query: dict[str, str]) -> None:
        api = self.api
        if key.name:
            with api.store.changed:
                found = api.store.get(key)
            self._send(200, found)
            return
        watched = query.get("watch") in ("1", "true")
        verb = "list" if not watched else "watchlist" if "sendInitialEvents" in query else "watch"
        phase = Phase.of(query.get("fieldSelector", "")) if key.collection == PODS else Phase.ANY
        if "continue" not in query:
            with api.store.changed:
                api.opened[f"{verb} {key.plural}"] = api.opened.get(f"{verb} {key.plural}", 0) + 1
        if not watched:
            with api.store.changed:
                token = query.get("continue") or api.begin_list(key, phase)
            self._send(200, api.list_page(key, token, int(query.get("limit") or 0)))
        elif verb == "watchlist" and not api.watch_list:
            raise Refused(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
        else:
            self._watch(key, query, phase)

    def _watch(self, key: Key, query: dict[str, str], phase: Phase) -> None:
        api, store = self.api, self.api.store
        ends = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        with store.changed:
            breaks = len(api.breaks)
            first = store.items(key, phase) if "sendInitialEvents" in query else iter(())
            asked = query.get("resourceVersion")
            version = int(asked) if asked and "sendInitialEvents" not in query else store.version
            history = store.history(key.collection)
            place = self._place(history.after, version)
            api.watches += 1
        try:
            if place is not None:
                self._start_chunks()
                if "sendInitialEvents" in query:
                    self._initial(key, first, version)
                self._follow(key, place, breaks, ends, phase)
        finally:
            with store.changed:
                api.watches -= 1

    def _place(self, after: Callable[[int], int], version: int) -> int | None:
        """Return where the watch begins; where that is gone, say so as the API server does: inside a 200."""
        try:
            return after(version)
        except Refused as refused:
            self._start_chunks()
            self._chunk(line_of("ERROR", json.dumps(refused.body).encode()))
            self._chunk(b"")
            return None

    def _initial(self, key: Key, items: Iterator[bytes], version: int) -> None:
        head = key.api_kind if key.collection in GENERATED else b""
        waiting: list[bytes] = []
        size = 0
        for item in items:
            waiting.append(line_of("ADDED", b"{" + head + item[1:]))
            size += len(item)
            if size >= _CHUNK_BYTES:
                self._chunks(waiting)
                waiting, size = [], 0
        self._chunks([*waiting, self._bookmark(key, version, end=True)])

    def _follow(self, key: Key, place: int, breaks: int, ends: float, phase: Phase) -> None:
        api, store = self.api, self.api.store
        history = store.history(key.collection)
        bookmark_at = time.monotonic() + BOOKMARK_SECONDS

        def news() -> bool:
            return history.end > place or len(api.breaks) != breaks

        while True:
            now = time.monotonic()
            with store.changed:
                store.changed.wait_for(news, min(bookmark_at, ends) - now)
                try:
                    new = list(history.since(place))
                except Refused as refused:
                    self._over(Break.EXPIRED, b"", refused)
                    return
                place, version = history.end, store.version
                how = api.breaks[breaks] if len(api.breaks) > breaks else None
            lines = [entry.line for entry in new if key.namespace in ("", entry.namespace)]
            if phase is not Phase.ANY:
                lines = [seen for line in lines if (seen := phase.seen(line)) is not None]
            if time.monotonic() >= bookmark_at:
                bookmark_at = time.monotonic() + BOOKMARK_SECONDS
                lines.append(self._bookmark(key, version, end=False))
            last = lines.pop() if how is Break.CUT and lines else b""
            if lines:
                self._chunks(lines)
            if how is not None or time.monotonic() >= ends:
                self._over(how or Break.END, last, Refused(410, "Expired", "too old resource version"))
                return

    def _over(self, how: Break, line: bytes, refused: Refused) -> None:
        """End the watch; of a line that is cut short, half is sent."""
        if how is Break.EXPIRED:
            self._chunk(line_of("ERROR", json.dumps(refused.body).encode()))
        if how in (Break.END, Break.EXPIRED):
            self._chunk(b"")
            return
        if line:
            self._chunk(line[: len(line) // 2])
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _bookmark(self, key: Key, version: int, *, end: bool) -> bytes:
        metadata: Json = {"resourceVersion": str(version)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = self.api.kind_of(key)
        body = {"kind": kind, "apiVersion": key.api_version, "metadata": metadata}
        return line_of("BOOKMARK", json.dumps(body, separators=(",", ":")).encode())

    def _start_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunks(self, lines: list[bytes]) -> None:
        """Send each line as a chunk of its own, as the API server flushes each event."""
        self.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines))

    def _chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))

    def _create(self, key: Key) -> Json:
        body = json.loads(self._raw)
        key = key._replace(name=body["metadata"].get("name") or f"unnamed-{self.api.number()}")
        with self.api.store.changed:
            if key in self.api.store.objects:
                raise Refused(409, "AlreadyExists", f"{key.plural} {key.name!r} already exists")
            return self.api.store.put(key, body)

    def _replace(self, key: Key) -> Json:
        body = json.loads(self._raw)
        with self.api.store.changed:
            old = self.api.store.get(key)
            if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict", "the object has been modified")
            return self.api.store.put(key, body)

    def _patch(self, key: Key) -> Json:
        patch, store = json.loads(self._raw), self.api.store
        applied = "apply" in self.headers["Content-Type"]
        with store.changed:
            if applied and not self._subresource and key not in store.objects:
                return store.put(key, patch)
            old = store.get(key)
            if patch.get("metadata", {}).get("uid") not in (None, old["metadata"]["uid"]):
                raise Refused(409, "Conflict", "the uid is another's")
            if self._subresource == "status" and applied:
                return store.put(key, {**old, "status": patch["status"]})
            return store.put(key, merged(old, patch))

    def _delete(self, key: Key) -> Json:
        options = json.loads(self._raw) if self._raw else {}
        with self.api.store.changed:
            uid = self.api.store.get(key)["metadata"]["uid"]
            if options.get("preconditions", {}).get("uid") not in (None, uid):
                raise Refused(409, "Conflict", "the UID in the precondition does not match")
            return self.api.store.remove(key)


def _key(path: str) -> tuple[Key, str]:
    """Return what a path names, and its subresource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    version, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else ("".join(parts[1:2]), parts[2:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if version not in RESOURCES or not rest or rest[0] not in RESOURCES[version]:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    return Key(version, rest[0], namespace, rest[1] if len(rest) > 1 else ""), "".join(rest[2:3])
