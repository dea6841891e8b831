"""A small API server on a real socket, with the habits of the true one that our code depends on, and faults on demand.

Lists with pages and continue tokens, WatchList, watches with bookmarks and 410, optimistic PUTs, merge patches, deletes
with preconditions. `script` puts answers before all of that; `push` writes raw bytes into the open watches.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from kubernetes.client import Configuration

from slack.kube.connection import Connection

Json = dict[str, Any]
Key = tuple[str, str, str, str]  # group version, plural, namespace, name


def status_body(code: int, reason: str, message: str = "said the fake", **details: Any) -> Json:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


@dataclass
class Reply:
    """A scripted answer; `cut` resets the connection after the body, `hang` keeps it open and silent."""

    code: int = 200
    body: Json | bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False

    @classmethod
    def status(cls, code: int, reason: str = "Broken", *, retry_after: int | None = None, **details: Any) -> Reply:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return cls(code, status_body(code, reason, **details), headers)


@dataclass(frozen=True)
class Seen:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class FakeApi:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[Key, Json] = {}
        self.history: list[tuple[int, Key, bytes]] = []
        self.version = 100
        self.compacted = 0
        self.watch_list = True
        self.gone_as_status = False
        self.selects = False
        """Whether lists follow labelSelector. Most tests leave out labels that do not matter to them."""
        self.seen: list[Seen] = []
        self.scripted: list[tuple[str, Reply]] = []
        self.sockets: set[socket.socket] = set()
        self.breaks = 0
        self.abrupt = False
        self.port = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        api = self

        class Bound(_Handler):
            pass

        Bound.api = api
        self._server = _Server(("127.0.0.1", self.port), Bound)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Gone: nobody listens, and open connections are reset."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None
        self.end_watches(reset=True)
        with self.changed:
            for sock in self.sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def connection(self, on_request: Callable[[str, int], None] | None = None) -> Connection:
        return Connection(Configuration(host=f"http://127.0.0.1:{self.port}"), on_request=on_request)

    def script(self, verb: str, *replies: Reply) -> None:
        """The next requests of this verb (list, watchlist, watch, get, post, put, patch, delete) get these."""
        with self.changed:
            self.scripted += [(verb, reply) for reply in replies]

    def count(self, verb: str) -> int:
        return sum(seen.verb == verb for seen in self.seen)

    def last(self, verb: str) -> Seen:
        return next(seen for seen in reversed(self.seen) if seen.verb == verb)

    def put(self, path: str, **fields: Any) -> Json:
        """Create or change the object at `path`."""
        with self.changed:
            key = _key(path)
            old = self.objects.get(key)
            metadata = dict(fields.pop("metadata", {})) | {"name": key[3]} | ({"namespace": key[2]} if key[2] else {})
            metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{self.version + 1}"
            return self._store(key, {**fields, "metadata": metadata}, "MODIFIED" if old else "ADDED")

    def remove(self, path: str) -> None:
        with self.changed:
            key = _key(path)
            self._store(key, self.objects[key], "DELETED")

    def bookmark(self) -> int:
        """Every open watch gets a bookmark at a new version."""
        with self.changed:
            self.version += 1
            self._write(("", "", "", ""), _bookmark(self.version, end=False))
            return self.version

    def push(self, raw: bytes) -> None:
        """Raw bytes into every open watch, and into no later one."""
        with self.changed:
            self._write(("", "", "", ""), raw)

    def end_watches(self, *, reset: bool = False) -> None:
        with self.changed:
            self.breaks += 1
            self.abrupt = reset
            if reset:
                for sock in self.sockets:
                    with contextlib.suppress(OSError):  # a reset, not an orderly end
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.changed.notify_all()

    def compact(self) -> None:
        """Versions up to now are forgotten: who asks for them gets a 410."""
        with self.changed:
            self.version += 1
            self.compacted = self.version

    def _store(self, key: Key, body: Json, kind: str) -> Json:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = body
        self._write(key, _line(kind, body))
        return body

    def _write(self, key: Key, raw: bytes) -> None:
        self.history.append((self.version, key, raw))
        self.changed.notify_all()


def _has_labels(item: Json, selector: str) -> bool:
    """Only key=value, several with commas."""
    labels: Json = item["metadata"].get("labels", {})
    wanted = (part.partition("=") for part in selector.split(",") if part)
    return all(labels.get(key) == value for key, _, value in wanted)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    """Connections that nobody has taken yet: what is above is asked for again after one, three and seven seconds."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are what we are for."""


class _Handler(BaseHTTPRequestHandler):
    api: FakeApi
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.api.changed:
            self.api.sockets.add(self.connection)

    def finish(self) -> None:
        with self.api.changed:
            self.api.sockets.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _answer(self) -> None:
        api = self.api
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = _key(url.path)
        verb = self.command.lower()
        if verb == "get" and not key[3]:
            verb = "list" if "watch" not in query else "watchlist" if "sendInitialEvents" in query else "watch"
        if key[1] == "version":
            verb = "version"
        with api.changed:
            breaks = api.breaks  # a test may end the watches as soon as it sees this one
            api.seen.append(Seen(verb, url.path, query, dict(self.headers), body))
            scripted = next((entry for entry in api.scripted if entry[0] == verb), None)
            if scripted is not None:
                api.scripted.remove(scripted)
        if scripted is not None:
            self._scripted(scripted[1], breaks)
        elif verb in ("watch", "watchlist"):
            self._watch(key, query, breaks, initial=verb == "watchlist")
        else:
            with api.changed:
                code, answer = self._list(key, query) if verb == "list" else self._object(verb, key, body)
            self._send(code, answer)

    def _send(self, code: int, body: Json | bytes, headers: Mapping[str, str] | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _scripted(self, reply: Reply, breaks: int) -> None:
        if not (reply.cut or reply.hang):
            self._send(reply.code, reply.body, reply.headers)
            return
        self._start_chunks()
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        if raw:
            self._chunk(raw)
        if reply.hang:
            with self.api.changed:
                self.api.changed.wait_for(lambda: self.api.breaks != breaks)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _start_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))

    def _matching(self, key: Key) -> list[Json]:
        return [body for name, body in sorted(self.api.objects.items()) if _within(name, key)]

    def _list(self, key: Key, query: dict[str, str]) -> tuple[int, Json]:
        items = self._matching(key)
        if self.api.selects:
            items = [item for item in items if _has_labels(item, query.get("labelSelector", ""))]
        version, _, offset = query.get("continue", f"{self.api.version}:0").partition(":")
        if int(version) < self.api.compacted:
            return 410, status_body(410, "Expired", "the provided continue parameter is too old")
        begin = int(offset)
        end = begin + int(query.get("limit", "0") or len(items) + 1)
        metadata = {"resourceVersion": version} | ({"continue": f"{version}:{end}"} if end < len(items) else {})
        return 200, {"kind": "List", "metadata": metadata, "items": items[begin:end]}

    def _watch(self, key: Key, query: dict[str, str], breaks: int, *, initial: bool) -> None:
        api = self.api
        if initial and not api.watch_list:
            return self._send(422, status_body(422, "Invalid", "sendInitialEvents is forbidden for watch"))
        gone = not initial and int(query["resourceVersion"]) < api.compacted
        if gone and api.gone_as_status:
            return self._send(410, status_body(410, "Expired"))
        self._start_chunks()
        if gone:
            self._chunk(_line("ERROR", status_body(410, "Expired", "too old resource version")))
            return self._chunk(b"")
        with api.changed:
            version = api.version if initial else int(query["resourceVersion"])
            first = [_line("ADDED", body) for body in self._matching(key)] + [_bookmark(version, end=True)]
            place = next((i for i, entry in enumerate(api.history) if entry[0] > version), len(api.history))
            fresh = len(api.history)
        if initial:
            self._chunk(b"".join(first))

        def news() -> bool:
            return len(api.history) > place or api.breaks != breaks

        while True:
            with api.changed:
                api.changed.wait_for(news)
                todo = [
                    raw
                    for i, (at, name, raw) in enumerate(api.history[place:], place)
                    if (name[1] and at > version and _within(name, key)) or (not name[1] and i >= fresh)
                ]
                place = len(api.history)
                over = api.breaks != breaks
            if todo:
                self._chunk(b"".join(todo))
            if over:
                self.close_connection = api.abrupt
                if not api.abrupt:
                    self._chunk(b"")
                return None

    def _object(self, verb: str, key: Key, raw: bytes) -> tuple[int, Json]:
        api = self.api
        if key[1] == "version":
            return 200, {"gitVersion": "v1.99.0"}
        body: Json = json.loads(raw) if raw else {}
        if verb == "post":
            key = (*key[:3], body["metadata"]["name"])
        old = api.objects.get(key)
        if verb == "post":
            if old:
                return 409, status_body(409, "AlreadyExists")
            return 201, api._store(key, _with_uid(body, api.version), "ADDED")
        if old is None and not (verb == "patch" and "apply" in self.headers["Content-Type"]):
            return 404, status_body(404, "NotFound")
        if verb == "get":
            return 200, old or {}
        if verb == "delete":
            wanted = body.get("preconditions", {}).get("uid")
            if old and wanted not in (None, old["metadata"]["uid"]):
                return 409, status_body(409, "Conflict", "the UID in the precondition does not match")
            return 200, api._store(key, old or {}, "DELETED")
        if verb == "put":
            if old and body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
                return 409, status_body(409, "Conflict", "the object has been modified")
            return 200, api._store(key, body, "MODIFIED")
        merged = _merged(old or _with_uid(body, api.version), body)
        return 200, old if merged == old and old else api._store(key, merged, "MODIFIED" if old else "ADDED")


def _with_uid(body: Json, version: int) -> Json:
    return {**body, "metadata": {**body["metadata"], "uid": f"uid-{version + 1}"}}


def _merged(old: Json, patch: Json) -> Json:
    out = dict(old)
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = _merged(out.get(name) or {}, value) if isinstance(value, dict) else value
    return out


def _key(path: str) -> Key:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "version":
        return "", "version", "", "version"
    group, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return group, rest[0], namespace, rest[1] if len(rest) > 1 else ""


def _within(name: Key, collection: Key) -> bool:
    return name[:2] == collection[:2] and collection[2] in ("", name[2])


def _line(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


def _bookmark(version: int, *, end: bool) -> bytes:
    metadata: Json = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"kind": "Thing", "metadata": metadata})


def eventually(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
