"""Many small writes at once: kept connections, on each of which a request is sent before the last one is answered.

A burst of deletions is decided in milliseconds and takes an API server tens of milliseconds each: what counts is that
the server is never idle for want of us, and that we cost next to nothing while the machine has better things to do. So
one thread writes to all, a request is a few hundred bytes, and an answer is looked at no further than needed: a
fifth of what `Connection.request` costs. Nothing is tried again but what was sent on a connection that was closed
before it was answered, once: each write must bear being sent twice, as one does that names the uid.

Owned by the thread that sends.
"""

import contextlib
import json
import logging
import selectors
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from socket import socket
from typing import Any

from slack.kube.connection import CONNECT_SECONDS, Connection
from slack.kube.errors import InvalidAnswer, KubeError, Unreachable, api_error
from slack.kube.http_answers import HttpAnswer, HttpAnswers
from slack.kube.unreachable import TRANSPORT_ERRORS

log = logging.getLogger(__name__)

MOST_PIPELINES = 64
"""At most; so many requests are answered at a time. The server shares itself out by request, and whoever makes the pods
of a burst has as many under way: with sixteen, two hundred deletions took three times as long as making the pods."""
DEPTH = 2
"""Requests on a pipeline: the one that is being answered, and the next."""
SILENT_SECONDS = 10.0
"""Without any answer what is under way is given up."""
IDLE_SECONDS = 60.0
"""API servers close what has been idle for 90 s."""
ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Nobody reads the object that comes back."""
_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


ShouldSend = Callable[[int], bool]
OnAnswer = Callable[[int, KubeError | None], None]
_ALIVE = WriteRequest("GET", "/version")


@dataclass(slots=True, eq=False)
class _Pipeline:
    wire: socket
    clock: Callable[[], float]
    used_at: float
    answers: HttpAnswers = field(default_factory=HttpAnswers)
    under_way: deque[int] = field(default_factory=deque)
    """Which requests, in the order in which their answers come."""
    closed: bool = False

    def read(self) -> list[HttpAnswer]:
        """Return the answers that are whole by now; where no more come the pipeline is closed."""
        found: list[HttpAnswer] = []
        try:
            while piece := self.wire.recv(_READ_BYTES):
                found += self.answers.feed(piece)
            self.closed = True
        except (ssl.SSLWantReadError, BlockingIOError):
            self.closed = any(answer.closes for answer in found)
        except (*TRANSPORT_ERRORS, InvalidAnswer):
            self.closed = True
        return found

    def write(self, data: bytes) -> None:
        """Send some hundred bytes; they fit into what the system keeps for the network."""
        self.used_at = self.clock()
        try:
            self.wire.settimeout(CONNECT_SECONDS)
            self.wire.sendall(data)
            self.wire.settimeout(0.0)
        except TRANSPORT_ERRORS:
            self.closed = True


class PipelinedClient:
    """See the module's docstring."""

    def __init__(
        self, connection: Connection, clock: Callable[[], float] = time.monotonic, *, most: int = MOST_PIPELINES
    ) -> None:
        """Nothing is open yet; no more than `most` connections ever are."""
        self._most = most
        self._connection = connection
        self._clock = clock
        self._open: list[_Pipeline] = []

    def keep(self, requests: int) -> None:
        """Have connections that are ready for so many requests at once; to be called more often than `IDLE_SECONDS`.

        A new one costs two round trips, and some 5 ms of a core on both sides.
        """
        self._look()
        try:
            self._have(min(requests, self._most))
        except KubeError as error:
            log.debug("no connections are kept: %s", error)
            return
        if any(self._clock() - pipeline.used_at > IDLE_SECONDS / 2 for pipeline in self._open):
            self.send([_ALIVE] * len(self._open), lambda _: True, lambda _, __: None)

    def send(self, requests: Sequence[WriteRequest], should_send: ShouldSend, on_answer: OnAnswer) -> None:
        """Send all, several at once, begun in their order; return when all that were sent are answered.

        Args:
            requests: what is to be written.
            should_send: asked with the index of a request just before it is sent.
            on_answer: called with the index of each that was sent, and with what it failed of.
        """
        exchange = _Exchange(self._connection, requests, should_send, on_answer)
        self._look()
        try:
            while exchange.fill(self._alive()) or exchange.left:
                if exchange.left and len(self._open) < self._most:
                    self._have(len(self._open) + 1)
                else:
                    exchange.wait_for_answers(self._open)
        except KubeError as error:
            exchange.fail(self._open, error)
        self._alive()

    def close(self) -> None:
        """Close what is open."""
        for pipeline in self._open:
            pipeline.closed = True
        self._alive()

    def _look(self) -> None:
        """See which the server has closed meanwhile: nothing else is to come."""
        for pipeline in self._open:
            pipeline.read()
        self._alive()

    def _have(self, count: int) -> None:
        while len(self._open) < count:
            wire = self._connection.dial(CONNECT_SECONDS)
            wire.settimeout(0.0)
            self._open.append(_Pipeline(wire, self._clock, self._clock()))

    def _alive(self) -> list[_Pipeline]:
        for pipeline in self._open:
            if pipeline.closed:
                with contextlib.suppress(OSError):
                    pipeline.wire.close()
        self._open = [pipeline for pipeline in self._open if not pipeline.closed]
        return self._open


class _Exchange:
    """Some requests on their way."""

    def __init__(
        self, connection: Connection, requests: Sequence[WriteRequest], should_send: ShouldSend, on_answer: OnAnswer
    ) -> None:
        self.left = deque(range(len(requests)))
        """What is to be sent."""
        self._connection = connection
        self._requests = requests
        self._should_send = should_send
        self._on_answer = on_answer
        self._again: set[int] = set()
        """What was sent twice."""

    def fill(self, pipelines: Sequence[_Pipeline]) -> bool:
        """Send what there is room for, evenly; return whether answers are to come."""
        for depth in range(1, DEPTH + 1):
            for pipeline in pipelines:
                while self.left and not pipeline.closed and len(pipeline.under_way) < depth:
                    index = self.left.popleft()
                    if self._should_send(index):
                        pipeline.under_way.append(index)
                        pipeline.write(self._message(self._requests[index]))
            self._lose_closed(pipelines)
        return any(pipeline.under_way for pipeline in pipelines)

    def wait_for_answers(self, pipelines: Sequence[_Pipeline]) -> None:
        """Wait for answers, and take those that are there.

        Raises:
            Unreachable: none comes.
        """
        busy = [pipeline for pipeline in pipelines if pipeline.under_way]
        with selectors.DefaultSelector() as selector:
            for pipeline in busy:
                selector.register(pipeline.wire, selectors.EVENT_READ, pipeline)
            ready = [key.data for key, _ in selector.select(SILENT_SECONDS)]
        if not ready:
            raise Unreachable(f"no answer for {SILENT_SECONDS:g} s", timed_out=True)
        for pipeline in ready:
            for answer in pipeline.read():
                if pipeline.under_way:
                    self._answered(pipeline.under_way.popleft(), answer)
        self._lose_closed(busy)

    def fail(self, pipelines: Sequence[_Pipeline], error: KubeError) -> None:
        """No answer comes any more: what was sent may have been done, or not."""
        for pipeline in pipelines:
            for index in pipeline.under_way:
                self._failed(index, error)
            pipeline.closed |= bool(pipeline.under_way)
            pipeline.under_way.clear()
        for index in self._again.intersection(self.left):
            self._failed(index, error)

    def _message(self, request: WriteRequest) -> bytes:
        body = b"" if request.body is None else json.dumps(request.body, separators=(",", ":")).encode()
        return self._connection.message(request.method, request.path, body, request.content_type, ACCEPT)

    def _answered(self, index: int, answer: HttpAnswer) -> None:
        request, status = self._requests[index], answer.status
        self._connection.count(request.method.lower(), status)
        error = None
        if not 200 <= status < 300:
            error = api_error(status, answer.reason, answer.headers, answer.body, str(request))
        self._on_answer(index, error)

    def _failed(self, index: int, error: KubeError) -> None:
        self._connection.count(self._requests[index].method.lower(), 0)
        self._on_answer(index, error)

    def _lose_closed(self, pipelines: Sequence[_Pipeline]) -> None:
        """What connections that are gone owe an answer to is sent once more."""
        for pipeline in pipelines:
            while pipeline.closed and pipeline.under_way:
                index = pipeline.under_way.pop()
                if index in self._again:
                    self._failed(
                        index, Unreachable(f"{self._requests[index]}: the connection closes without an answer")
                    )
                else:
                    self._again.add(index)
                    self.left.appendleft(index)
