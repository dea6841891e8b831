"""The extender's HTTP side, as a plain ASGI function: routes, bounds, and answers that the scheduler can use.

Each answer has a Content-Length (with chunks Go's client opens a connection a call), and its status is exactly 200 or
an error that says why in one line. Nothing that a request brings is kept, and no request changes anything: the
scheduler also asks for pods that it will not bind. It knows scores through `NodeScorer` only, and no server.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

from slack.cluster.wire import Pod
from slack.scorer.extender import (
    MOST_BYTES,
    ExtenderRequest,
    InvalidRequest,
    decode,
    decode_preemption,
    filter_reply,
    preemption_reply,
)

log = logging.getLogger(__name__)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
_DISCARDED_BYTES = 64 << 20
"""Of a body that is too long, at most: whole nodes of a large cluster are as much."""
_SLOWEST_QUERY_BYTES = 2048


class NotKnown(Exception):
    """There is nothing to explain; the text says what is missing."""


class NodeScorer(Protocol):
    """Who decides. Called in the server's thread: it answers from memory, within a millisecond."""

    def prioritize(self, pod: Pod, names: Sequence[str]) -> bytes:
        """Return a HostPriorityList, with every name.

        Raises:
            InvalidRequest: the pod cannot be read.
        """

    def refused(self, pod: Pod, names: Sequence[str], *, nominated: str = "") -> Mapping[str, str]:
        """Return why the pod may not go to nodes, by name; /filter and /preempt refuse the same nodes, but for one.

        Args:
            pod: what is to be placed.
            names: of the nodes.
            nominated: the node that is never refused, '' for none: the scheduler has evicted pods there for this one.

        Raises:
            InvalidRequest: the pod cannot be read.
        """

    def explain(self, namespace: str, pod: str) -> Mapping[str, Any]:
        """Return why a pod went where it went.

        Raises:
            NotKnown: nothing is known of it.
        """


class HttpRefusal(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


Observe = Callable[[str, int, float], None]
"""Told of each call: what was asked (`prioritize`, `filter`, `preempt`, `explain`, `other`), status, seconds."""


class Extender:
    """The application: `await extender(scope, receive, send)`."""

    def __init__(
        self,
        scores: NodeScorer,
        *,
        filters: bool = False,
        observe: Observe = lambda *_: None,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._scores = scores
        self._observe = observe
        self._most_bytes = most_bytes
        self._clock = clock
        self._routes: dict[str, tuple[str, Callable[[bytes], bytes]]] = {"/prioritize": ("POST", self._prioritize)}
        if filters:
            self._routes["/filter"] = ("POST", self._filter)
            self._routes["/preempt"] = ("POST", self._preempt)
        self._routes["/explain"] = ("GET", self._explain)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a connection's other events are left alone."""
        if scope["type"] != "http":
            return
        path = scope["path"]
        verb = path[1:] if path in self._routes else "other"
        began, kind = self._clock(), TEXT
        headers: tuple[tuple[bytes, bytes], ...] = ()
        try:
            handle = self._handler(path, scope["method"])
            given = scope.get("query_string", b"") if verb == "explain" else await self._body(scope, receive)
            began = self._clock()  # what the scheduler takes to send is its own time
            body, status, kind = handle(given), 200, JSON
        except HttpRefusal as answer:
            body, status, headers = f"{answer}\n".encode(), answer.status, tuple(answer.headers)
        except InvalidRequest as error:
            body, status = f"{error}\n".encode(), 400
        except NotKnown as error:
            body, status = f"{error}\n".encode(), 404
        except Exception:  # the scheduler goes on without us, and the log says why
            log.exception("%s could not be answered", path)
            body, status = b"a mistake of the scorer's; its log says more\n", 500
        self._observe(verb, status, self._clock() - began)
        length = str(len(body)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", kind), (b"content-length", length), *headers],
            }
        )
        await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

    def _handler(self, path: str, method: str) -> Callable[[bytes], bytes]:
        known = self._routes.get(path)
        if known is None:
            raise HttpRefusal(404, f"there is no {path[:80]!r} here; known are {', '.join(self._routes)}")
        needed, handle = known
        if method != needed:
            raise HttpRefusal(405, f"{path} takes {needed}, not {method[:20]}", [(b"allow", needed.encode())])
        return handle

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the body within bounds.

        What is too long is thrown away as it comes, so that who is still sending hears why; not without an end.
        """
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > _DISCARDED_BYTES:
                raise self._too_long()
            if name == b"content-encoding" and value != b"identity":
                raise HttpRefusal(415, "the body must not be compressed")
        chunks: list[bytes] = []
        length = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HttpRefusal(400, "the body was cut short")
            chunk = message.get("body", b"")
            length += len(chunk)
            is_too_long = length > self._most_bytes
            if is_too_long:
                chunks.clear()
            else:
                chunks.append(chunk)
            is_over = not message.get("more_body", False)
            if is_too_long and (is_over or length > _DISCARDED_BYTES):
                raise self._too_long()
            if is_over:
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_long(self) -> HttpRefusal:
        text = (
            f"the body is longer than {self._most_bytes} bytes; nodeCacheCapable: true makes the scheduler send names"
        )
        return HttpRefusal(413, text, [(b"connection", b"close")])

    def _prioritize(self, body: bytes) -> bytes:
        asked = decode(body)
        return self._scores.prioritize(asked.pod, asked.names)

    def _filter(self, body: bytes) -> bytes:
        asked: ExtenderRequest = decode(body)
        status = asked.pod.status
        nominated = status.nominated_node_name if status is not None else None
        return filter_reply(asked, self._scores.refused(asked.pod, asked.names, nominated=nominated or ""))

    def _preempt(self, body: bytes) -> bytes:
        asked = decode_preemption(body)
        return preemption_reply(asked, self._scores.refused(asked.pod, list(asked.victims)))

    def _explain(self, query: bytes) -> bytes:
        if len(query) > _SLOWEST_QUERY_BYTES:
            raise HttpRefusal(414, "the query is too long")
        words = parse_qs(query.decode("latin-1"), keep_blank_values=True)
        pod = words.get("pod", [""])[-1].removeprefix("pod/")
        if not pod:
            raise InvalidRequest("say which pod: /explain?namespace=shop&pod=api-x2x4z")
        found = self._scores.explain(words.get("namespace", ["default"])[-1], pod)
        return json.dumps(found, allow_nan=False).encode()
