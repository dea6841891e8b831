"""Gates' connections: TLS, a token that the API server judges, then asks in and answers out.

A gate is known by its token alone, which names its pod and that pod's uid: what it says of itself is never believed.
All is bounded before it is read: connections, reviews at once, lines, and how fast one connection may ask. Everything
runs in one event loop, which also owns the desk; threads of others come in by `call_soon_threadsafe`.
"""

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from slack.kube.connection import Connection
from slack.kube.errors import KubeError
from slack.kube.paths import resource_path
from slack.process.accepting import Acceptor, ClientBounds, listening_socket
from slack.process.outages import Outages
from slack.supervision.supervisor import first_problem
from slack.supervision.workers import Workers
from slack.throttler import protocol
from slack.throttler.protocol import (
    AUDIENCE,
    MAX_LINE_BYTES,
    FromAgent,
    Hello,
    InvalidThrottlerMessage,
    Ping,
    StartRequest,
    Welcome,
)
from slack_operator.runtime.review_queue import QueueFull, ReviewQueue
from slack_operator.runtime.tokens import REFUSED_SECONDS, TokenAnswers, kept_seconds

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 1024
MAX_STRANGERS: Final = 32
"""Connections whose token is not known yet, from accept on: TLS costs some 100 KiB for each."""
REVIEWERS: Final = 4
MAX_KEPT: Final = 4096
"""Tokens that were accepted lately: each costs one TokenReview in that time, however often its gate comes again."""
MAX_REFUSED: Final = 1024
"""The same of tokens that were refused."""
HELLO_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
"""A gate says goodbye within that, or is cut off."""
END_SECONDS: Final = 0.3
"""The same when the agent ends: a gate that hangs must not hold it up."""
BETWEEN_SECONDS: Final = 0.01
"""From one message of a gate to the next: asking faster makes nobody start earlier."""
MAX_UNSENT_BYTES: Final = 256 << 10
_POD_UID = "authentication.kubernetes.io/pod-uid"

Judge = Callable[[str], str]
"""A token to the uid of its pod; raises `NotLetIn`. May block."""
Answer = Callable[[str, StartRequest], FromAgent]
"""The uid of a pod and what its gate asks to what the gate is told."""


class NotLetIn(Exception):
    """A token that is no good, or that cannot be judged now; the text has no secret."""


class InvalidToken(NotLetIn):
    """A token that the API server does not know; it will not know it in half a minute either."""


class Reviews:
    """Tokens judged by the API server."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._wall = wall
        self._kept = TokenAnswers[str](MAX_KEPT, clock)

    def known(self, token: str) -> str | None:
        """Return the uid of the pod if that is known already, without asking anybody."""
        return self._kept.get(token)

    def __call__(self, token: str) -> str:
        """Return the uid of the pod that a token is bound to.

        Raises:
            NotLetIn: with the reason.
        """
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        path = resource_path("authentication.k8s.io/v1", "tokenreviews")
        try:
            body = self._connection.request("POST", path, body=review, verb="create")
        except KubeError as error:
            raise NotLetIn(f"the API server cannot be asked about the token: {error}") from None
        uid = pod_uid(json.loads(body))
        self._kept.put(token, uid, kept_seconds(token, self._wall()))
        return uid


def pod_uid(review: dict[str, Any]) -> str:
    """Read a TokenReview's answer.

    Raises:
        NotLetIn: the token is not valid for us, or bound to no pod.
    """
    status = review.get("status") or {}
    if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
        raise InvalidToken(f"the token is not valid for the audience {AUDIENCE}")
    values = ((status.get("user") or {}).get("extra") or {}).get(_POD_UID) or ()
    if not values:
        raise InvalidToken("the token is bound to no pod; use a projected service account token")
    return str(values[0])


class GateServer:
    """Serves gates in the running event loop."""

    def __init__(
        self,
        judge: Judge,
        answer: Answer,
        *,
        welcome: Callable[[], Welcome],
        known: Callable[[str], str | None] = lambda _: None,
        expects: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Nothing is listened on yet.

        Args:
            judge: says whose token it is; called in threads of the server's own.
            answer: asked in the event loop.
            welcome: what gates are told when they come.
            known: whose token it is if that is known without asking anybody, else None.
            expects: whether a token claims to be of a pod of this node; such a token is judged before all others.
        """
        self.refused = 0
        self._judge = judge
        self._known, self._expects = known, expects
        self._answer = answer
        self._welcome = welcome
        self._outages = Outages()
        self._gates: dict[str, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = TokenAnswers[str](MAX_REFUSED, time.monotonic)
        self._workers = Workers(REVIEWERS, name="reviews")
        self._reviews: ReviewQueue[str] = ReviewQueue(self._workers, REVIEWERS)
        self._acceptor: Acceptor | None = None
        self._close_seconds = CLOSE_SECONDS

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()

        def gate() -> asyncio.Protocol:
            reader = asyncio.StreamReader(limit=MAX_LINE_BYTES, loop=loop)
            return asyncio.StreamReaderProtocol(reader, self._serve, loop=loop)

        bounds = ClientBounds(
            connections=MAX_CONNECTIONS,
            strangers=MAX_STRANGERS,
            request_seconds=HELLO_SECONDS,
            idle_seconds=HELLO_SECONDS,
        )
        bound = listening_socket(host, port)
        self._acceptor = Acceptor(gate, bounds, tls=tls, name="gate")
        self._acceptor.start(bound)
        return int(bound.getsockname()[1])

    async def stop(self) -> None:
        """Close everything."""
        self._close_seconds = END_SECONDS
        if self._acceptor is not None:
            await self._acceptor.stop()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * END_SECONDS)
        self._workers.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why gates are not let in any more; None if they are."""
        acceptor = () if self._acceptor is None else (self._acceptor,)
        return first_problem(self._workers, *acceptor)

    def send_to_gate(self, uid: str, message: FromAgent) -> bool:
        """Send something to a pod's gate; whether there is one. One that does not read is cut off, and comes again."""
        writer = self._gates.get(uid)
        if writer is None or writer.is_closing():
            return False
        if writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            writer.transport.abort()
            return False
        writer.write(protocol.encode_line(message))
        return True

    def part(self, uid: str) -> None:
        """End the connection of a pod that is gone; the gate of a static pod comes again, for its next mirror pod."""
        writer = self._gates.get(uid)
        if writer is not None:
            writer.close()

    @property
    def gates(self) -> int:
        """How many gates are connected."""
        return len(self._gates)

    def welcome_all(self) -> None:
        """Tell all gates anew what they are told when they come."""
        for uid in tuple(self._gates):
            self.send_to_gate(uid, self._welcome())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio serves in a task"
        self._tasks.add(task)
        uid = ""
        try:
            hello = await self._hello(reader)
            if self._acceptor is not None:
                self._acceptor.busy(writer.transport)  # no stranger any more: it stays while its token is judged
            uid = await self._who(hello, str((writer.get_extra_info("peername") or ("",))[0]))
            former = self._gates.get(uid)
            self._gates[uid] = writer
            if former is not None:
                former.close()  # a gate has one connection: the older is of one that has gone
            writer.write(protocol.encode_line(self._welcome()))
            await self._listen(uid, reader, writer)
        except NotLetIn as refusal:
            self.refused += 1
            if self._outages.is_new(str(refusal)):  # gates come again and again
                log.warning("a gate was not let in: %s", refusal)
            writer.write(protocol.encode_line(protocol.RequestRefused(reason=protocol.text(str(refusal)))))
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("a gate's connection has ended: %s", error)
        finally:
            self._tasks.discard(task)
            if self._gates.get(uid) is writer:
                del self._gates[uid]
            await _closed(writer, self._close_seconds)

    async def _hello(self, reader: asyncio.StreamReader) -> Hello:
        try:
            line = await asyncio.wait_for(reader.readline(), HELLO_SECONDS)
            hello = protocol.from_gate(line)
        except TimeoutError:
            raise NotLetIn(f"no token within {HELLO_SECONDS:.0f} s") from None
        except (InvalidThrottlerMessage, ValueError):
            raise NotLetIn("the first line is no hello") from None
        if not isinstance(hello, Hello):
            raise NotLetIn("the first line is no hello")
        return hello

    async def _who(self, hello: Hello, address: str) -> str:
        token = hello.token
        if (refused := self._refused.get(token)) is not None:
            raise NotLetIn(refused)
        if (uid := self._known(token)) is not None:
            return uid
        try:
            return await self._reviews.judge(token, address, lambda: self._judge(token), likely=self._expects(token))
        except QueueFull as error:
            raise NotLetIn(str(error)) from None
        except InvalidToken as refusal:
            self._refused.put(token, str(refusal), REFUSED_SECONDS)
            raise

    async def _listen(self, uid: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = protocol.from_gate(line)
            if isinstance(message, StartRequest):
                writer.write(protocol.encode_line(self._answer(uid, message)))
            elif isinstance(message, Ping):
                writer.write(protocol.encode_line(protocol.Pong()))
            await writer.drain()
            await asyncio.sleep(BETWEEN_SECONDS)


async def _closed(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Close a connection as TLS does, or cut it off where the other side has no answer to that."""
    writer.close()
    closing = asyncio.ensure_future(writer.wait_closed())
    with contextlib.suppress(OSError, asyncio.CancelledError):
        done, _ = await asyncio.wait([closing], timeout=seconds)
        if not done:
            writer.transport.abort()
        await closing
