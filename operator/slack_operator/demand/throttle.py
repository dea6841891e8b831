"""GET /v1/throttle/NAMESPACE/ACTION: whether new messages are taken. POST /v1/activations/NAMESPACE/ACTION: take one.

Every replica answers from memory: the leader from its last tick, standbys from the pools' statuses as they are watched.
What is too old lets everything in. 200 and 429 alone say it, as nginx' auth_request and Envoy's ext_authz want it; any
method asks, for a proxy in front may pass on its own. Who may call: whoever reaches it, or who shows a token of one
service account. A body is bounded before it is read.
"""

import asyncio
import re
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web

from slack.demand.broker import BrokerError, BrokerRefused
from slack.demand.model import OPEN, AdmissionVerdict, QueueKey, Refusal
from slack.supervision.supervisor import first_problem
from slack.supervision.workers import Workers
from slack_operator.demand.pool_registry import PoolRegistry
from slack_operator.demand.tick_state import TickState
from slack_operator.runtime.callers import Caller, CallerRefused, Callers, bearer
from slack_operator.runtime.review_queue import QueueFull, ReviewQueue
from slack_operator.runtime.serving import InvalidRequestBody, ServingThread

AUDIENCE: Final = "resource-slack-demand"
"""Whom callers' tokens are for."""
MAX_BODY_BYTES: Final = 1 << 20
"""Whatever the broker takes."""
READ_SECONDS: Final = 10.0
REVIEWERS: Final = 4
REVIEW_SECONDS: Final = 10.0
"""A request that waits longer for its token's review is cut off."""
MAX_PUBLISHING: Final = 1024
"""Messages that are on their way to the broker; more are asked to come again."""
FOLLOWED_SECONDS: Final = 3.0
"""A standby's flag that is older lets everything in: three of the statuses that the leader writes of a pool that
refuses."""
MESSAGE_ID: Final = "Idempotency-Key"
_ID: Final = re.compile(r"[!-~]{1,128}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Publish = Callable[[str, bytes, str], "Future[None]"]


@dataclass(slots=True)
class Followed:
    """What a standby knows of the leader's verdicts. `refresh` belongs to the reporting thread, `verdict` to any."""

    clock: Callable[[], float] = time.monotonic
    _verdicts: Mapping[QueueKey, tuple[AdmissionVerdict, str, float]] = field(default_factory=dict)

    def refresh(self, statuses: Mapping[QueueKey, Mapping[str, Any]]) -> None:
        """Take the statuses that refuse; one that has not been written anew keeps the time at which it came."""
        found: dict[QueueKey, tuple[AdmissionVerdict, str, float]] = {}
        for key, status in statuses.items():
            flag = status.get("throttle") or {}
            if flag.get("reject") is not True:
                continue
            at = str(flag.get("observedAt"))
            before = self._verdicts.get(key)
            since = before[2] if before is not None and before[1] == at else self.clock()
            found[key] = _verdict(flag), at, since
        self._verdicts = found

    def verdict(self, key: QueueKey) -> AdmissionVerdict:
        """Return what the leader says."""
        found = self._verdicts.get(key)
        return OPEN if found is None or self.clock() - found[2] > FOLLOWED_SECONDS else found[0]


def _verdict(flag: Mapping[str, Any]) -> AdmissionVerdict:
    reason = flag.get("reason")
    retry = flag.get("retryAfterMs")
    return AdmissionVerdict(
        reject=True,
        reason=Refusal(reason) if reason in {str(known) for known in Refusal} else None,
        containers=int(flag.get("containers") or 0),
        limit=int(flag.get("limit") or 0),
        lag=int(flag.get("lag") or 0),
        rate_per_second=float(flag.get("ratePerSecond") or 0.0),
        speed_per_second=float(flag.get("speedPerSecond") or 0.0),
        retry_after_ms=None if retry is None else int(retry),
    )


def answer(verdict: AdmissionVerdict) -> dict[str, Any]:
    """Return what is said of a verdict."""
    if not verdict.reject:
        return {"reject": False}
    told: dict[str, Any] = {
        "reject": True,
        "reason": str(verdict.reason or ""),
        "containers": verdict.containers,
        "limit": verdict.limit,
        "lag": verdict.lag,
        "ratePerSecond": round(verdict.rate_per_second, 1),
        "speedPerSecond": round(verdict.speed_per_second, 1),
    }
    return told | ({} if verdict.retry_after_ms is None else {"retryAfterMs": round(verdict.retry_after_ms)})


CONNECTIONS: Final = 512
STRANGERS: Final = 256
"""Many publishers connect at the same time, as after a restart; each needs the time to send its request."""


class Throttle(ServingThread):
    """Serves until `stop`."""

    _unpacks = False
    _connections = CONNECTIONS
    _strangers = STRANGERS

    def __init__(
        self,
        host: str,
        port: int,
        *,
        books: PoolRegistry,
        board: TickState,
        followed: Followed,
        leads: Callable[[], bool],
        publish: Publish,
        most_body_bytes: Callable[[], int | None],
        callers: Callers | None,
        on_rejected: Callable[[QueueKey], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            books: which pools there are.
            board: the leader's last tick.
            followed: what a standby goes by.
            leads: whether this replica decides.
            publish: sends a message to the broker.
            most_body_bytes: what the broker takes in one message, where it has a limit that is known.
            callers: says whose a token is; None: whoever reaches it may call.
            on_rejected: told of each 429.
            tls: None serves plain HTTP.
        """
        super().__init__(host, port, name="throttle", tls=tls)
        self._books = books
        self._board = board
        self._followed = followed
        self._leads = leads
        self._publish = publish
        self._most_body_bytes = most_body_bytes
        self._callers = callers
        self._on_rejected = on_rejected
        self._publishing = 0
        self._workers = Workers(REVIEWERS, name="callers")
        self._reviews: ReviewQueue[Caller] = ReviewQueue(self._workers, REVIEWERS)

    def stop(self, timeout: float = 3.0) -> None:
        """Close the socket and end all threads."""
        super().stop(timeout)
        self._workers.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why requests are not answered any more; None if all threads work."""
        return super().unhealthy() or first_problem(self._workers)

    def verdict(self, key: QueueKey) -> AdmissionVerdict:
        """Return whether new messages are taken, from memory."""
        return self._board.verdict(key) if self._leads() else self._followed.verdict(key)

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/v1/throttle/{namespace}/{action}", self._ask)
        app.router.add_post("/v1/activations/{namespace}/{action}", self._activate)
        return app

    async def _ask(self, request: web.Request) -> web.Response:
        try:
            await self._known_caller(request)
            key, _ = self._queue(request)
        except CallerRefused as refusal:
            return _problem(refusal)
        return self._judged(key) or _json(200, answer(OPEN))

    async def _activate(self, request: web.Request) -> web.Response:
        try:
            await self._known_caller(request)
            key, subject = self._queue(request)
            message_id = request.headers.get(MESSAGE_ID) or uuid.uuid4().hex
            if _ID.fullmatch(message_id) is None:
                raise CallerRefused(400, f"{MESSAGE_ID}: must be 1 to 128 printable characters without spaces")
            if (refused := self._judged(key)) is not None:
                refused.force_close()  # the body is not read
                return refused
            if request.headers.get("Content-Encoding", "identity") != "identity":
                raise CallerRefused(415, "a Content-Encoding is not understood")
            async with self._body(request, self._most_bytes(), READ_SECONDS) as body:
                await self._sent(subject, body, message_id)
        except CallerRefused as refusal:
            return _problem(refusal)
        except InvalidRequestBody as problem:
            return _problem(CallerRefused(problem.status, str(problem)))
        return _json(202, {"id": message_id, "queue": subject})

    def _judged(self, key: QueueKey) -> web.Response | None:
        """Return the refusal; None where messages are taken."""
        verdict = self.verdict(key)
        if not verdict.reject:
            return None
        self._on_rejected(key)
        response = _json(429, answer(verdict))
        seconds = -(-(verdict.retry_after_ms or 1000) // 1000)
        response.headers["Retry-After"] = str(max(1, int(seconds)))
        return response

    def _queue(self, request: web.Request) -> tuple[QueueKey, str]:
        for part in ("namespace", "action"):
            if _NAME.fullmatch(request.match_info[part]) is None:
                raise CallerRefused(400, f"{part}: must be lower case letters, digits and '-', at most 63 characters")
        key = QueueKey(request.match_info["namespace"], request.match_info["action"])
        pool = self._books.pool_of(key)
        if pool is None:
            raise CallerRefused(404, f"there is no ActivationPool {key} that can be used")
        return key, pool.subject

    async def _known_caller(self, request: web.Request) -> None:
        if self._callers is None:
            return
        token = bearer(request.headers.get("Authorization"))
        callers = self._callers
        if callers.known(token) is not None:
            return
        self._wait_for_client(request, REVIEW_SECONDS)
        likely, address = callers.expects(token), request.remote or ""
        try:
            await self._reviews.judge(token, address, lambda: callers.who(token), likely=likely)
        except QueueFull as error:
            raise CallerRefused(503, str(error)) from None
        self._answer_client(request)

    def _most_bytes(self) -> int:
        broker_bytes = self._most_body_bytes()
        return MAX_BODY_BYTES if broker_bytes is None else min(broker_bytes, MAX_BODY_BYTES)

    async def _sent(self, subject: str, body: bytes, message_id: str) -> None:
        if self._publishing >= MAX_PUBLISHING:
            raise CallerRefused(503, "too many messages are on their way to the broker")
        self._publishing += 1
        try:
            await asyncio.wrap_future(self._publish(subject, body, message_id))
        except BrokerRefused as error:
            raise CallerRefused(502, f"the broker refuses the message: {error}") from None
        except (BrokerError, TimeoutError):
            raise CallerRefused(
                503, "the broker does not answer; the message may be stored, the same id stores it once"
            ) from None
        finally:
            self._publishing -= 1


def _json(status: int, value: object) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def _problem(refusal: CallerRefused) -> web.Response:
    response = _json(refusal.status, {"problem": str(refusal)})
    if refusal.status == 503:
        response.headers["Retry-After"] = "1"
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.status >= 400:
        response.force_close()  # what is left of a body that is not wanted is not worth reading
    return response
