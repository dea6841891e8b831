"""Reports of agents in, answers out: the HTTP side, whatever they are about.

Only the leader takes reports; a standby that is asked all the same answers 503 and says who leads. Whatever comes in is
bounded before it is read: the caller is known before the body is, bodies before they are unpacked, unpacked ones before
they are decoded.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from slack.process.reporting.packing import pack
from slack.supervision.supervisor import first_problem
from slack.supervision.workers import Workers
from slack_operator.runtime.callers import Caller, CallerRefused, Callers, bearer
from slack_operator.runtime.review_queue import QueueFull, ReviewQueue
from slack_operator.runtime.serving import InvalidRequestBody, ServingThread

REVIEWERS = 8
TAKERS = 4
"""Threads that take reports. Tokens that are reviewed never hold them up."""
REVIEW_SECONDS = 30.0
"""A request that waits longer for its token's review is cut off."""
READ_SECONDS = 20.0
STRANGERS = 256
"""Many agents connect at the same time, as after a change of the leader; each needs the time to send its request."""
CONNECTIONS = 512
"""So many agents, or strangers, may wait for the review of a token at once."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """What was sent, still packed."""

    data: bytes
    encoding: str
    """Content-Encoding; empty: none."""


Take = Callable[[Caller, Body], bytes]
"""Takes a report and returns the answer; raises `CallerRefused`. Called in the receiver's own threads."""


class ReportReceiver(ServingThread):
    """Serves until `stop`."""

    _connections = CONNECTIONS
    _strangers = STRANGERS
    _unpacks = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        path: str,
        max_bytes: int,
        callers: Callers,
        take: Take,
        unready: Callable[[], str | None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            path: of the requests.
            max_bytes: of a body, packed or not.
            callers: says who sends a token.
            take: takes reports.
            unready: why no report can be taken now, None when one can.
            tls: None serves plain HTTP.
        """
        super().__init__(host, port, name="reports", tls=tls)
        self.taken = 0
        self.refused: dict[int, int] = {}
        self._path = path
        self._max_bytes = max_bytes
        self._callers = callers
        self._take_report = take
        self._unready = unready
        self._reviewers = Workers(REVIEWERS, name="reviews")
        self._takers = Workers(TAKERS, name="takers of reports")
        self._reviews: ReviewQueue[Caller] = ReviewQueue(self._reviewers, REVIEWERS)

    def stop(self, timeout: float = 3.0) -> None:
        """Close the socket and end all threads."""
        super().stop(timeout)
        self._reviewers.shutdown(wait=False, cancel_futures=True)
        self._takers.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why no report is taken any more; None if all threads work."""
        return super().unhealthy() or first_problem(self._reviewers, self._takers)

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_post(self._path, self._post)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        return await self._respond(request, self._take(request))

    async def _respond(self, request: web.Request, work: Awaitable[bytes]) -> web.Response:
        try:
            answer = await work
        except CallerRefused as refusal:
            self.refused[refusal.status] = self.refused.get(refusal.status, 0) + 1
            headers = {"Retry-After": "5"} if refusal.status == 503 else {}
            if refusal.status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            # what is left of a body that is not wanted is not worth reading
            response = web.Response(status=refusal.status, text=f"{refusal}\n", headers=headers)
            response.force_close()
            return response
        return answered(request, answer)

    async def _take(self, request: web.Request) -> bytes:
        self._ask_ready()
        caller = await self._who(request, self._callers, bearer(request.headers.get("Authorization")))
        try:
            async with self._body(request, self._max_bytes, READ_SECONDS) as body:
                sent = Body(body, request.headers.get("Content-Encoding", ""))
                answer = await self._in_worker(self._take_report, caller, sent)
        except InvalidRequestBody as problem:
            raise CallerRefused(problem.status, str(problem)) from None
        self.taken += 1
        return answer

    def _ask_ready(self) -> None:
        if why := self._unready():
            raise CallerRefused(503, why)

    async def _in_worker(self, work: Callable[..., T], *given: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._takers, work, *given)

    async def _who(self, request: web.Request, callers: Callers, token: str) -> Caller:
        known = callers.known(token)
        if known is not None:
            return known
        self._wait_for_client(request, REVIEW_SECONDS)
        likely, address = callers.expects(token), request.remote or ""
        try:
            caller = await self._reviews.judge(token, address, lambda: callers.who(token), likely=likely)
        except QueueFull as error:
            raise CallerRefused(503, str(error)) from None
        self._answer_client(request)
        return caller


def answered(request: web.Request, body: bytes) -> web.Response:
    """Make the response with a JSON body, packed if the asker can unpack it."""
    data, encoding = pack(body) if "gzip" in request.headers.get("Accept-Encoding", "") else (body, "")
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": encoding} if encoding else {})
    return web.Response(body=data, headers=headers)
