"""POST /v1/reports: agents' reports in, names and burst orders out.

Only the leader takes reports, and only the leader is ready, so that a Service leads every agent to it; a standby that
is asked all the same answers 503 and says who leads. Whatever comes in is bounded before it is read: the caller is
known before the body is, bodies before they are unpacked, unpacked ones before they are decoded.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from aiohttp import web

from slack.audit.api.encoding import BadMessage, decode_report, encode, packed, unpacked
from slack.audit.api.messages import MAX_REPORT_BYTES, REPORTS_PATH, Answer, NodeReport
from slack_operator.runtime.callers import Caller, Callers, Refused, bearer
from slack_operator.runtime.serving import ServingThread

REVIEWERS = 8
MAX_WAITING = 256
"""Requests whose token is being reviewed; more are asked to come again."""
READ_SECONDS = 20.0


class Inbox(Protocol):
    """Where reports go."""

    def put(self, report: NodeReport) -> None:
        """Take the newest report of a node."""

    def answer(self, report: NodeReport) -> Answer:
        """Return what to say to it."""


class Receiver(ServingThread):
    """Serves until `stop`."""

    _unpacks = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        callers: Callers,
        inbox: Inbox,
        unready: Callable[[], str | None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            callers: says who sends a token.
            inbox: takes reports; called in the server's own threads.
            unready: why no report can be taken now, None when one can.
            tls: None serves plain HTTP.
        """
        super().__init__(host, port, name="reports", tls=tls)
        self.taken = 0
        self.refused: dict[int, int] = {}
        self._callers = callers
        self._inbox = inbox
        self._unready = unready
        self._workers = ThreadPoolExecutor(REVIEWERS, thread_name_prefix="reviews")
        self._waiting = 0
        self._counts = threading.Lock()

    def stop(self, timeout: float = 3.0) -> None:
        """Close the socket and end all threads."""
        super().stop(timeout)
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_REPORT_BYTES + 1)
        app.router.add_post(REPORTS_PATH, self._post)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        try:
            answer = await self._take(request)
        except Refused as refusal:
            with self._counts:
                self.refused[refusal.status] = self.refused.get(refusal.status, 0) + 1
            headers = {"Retry-After": "5"} if refusal.status == 503 else {}
            if refusal.status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            # what is left of a body that is not wanted is not worth reading
            response = web.Response(status=refusal.status, text=f"{refusal}\n", headers=headers)
            response.force_close()
            return response
        body, encoding = (
            packed(encode(answer))
            if "gzip" in request.headers.get("Accept-Encoding", "")
            else (
                encode(answer),
                "",
            )
        )
        headers = {"Content-Type": "application/json"} | ({"Content-Encoding": encoding} if encoding else {})
        return web.Response(body=body, headers=headers)

    async def _take(self, request: web.Request) -> Answer:
        if why := self._unready():
            raise Refused(503, why)
        caller = await self._who(bearer(request.headers.get("Authorization")))
        if (request.content_length or 0) > MAX_REPORT_BYTES:
            raise Refused(413, f"the body is longer than {MAX_REPORT_BYTES} bytes")
        try:
            body = await asyncio.wait_for(request.read(), READ_SECONDS)
        except web.HTTPRequestEntityTooLarge:
            raise Refused(413, f"the body is longer than {MAX_REPORT_BYTES} bytes") from None
        except TimeoutError:
            raise Refused(408, f"the body did not come within {READ_SECONDS:.0f} s") from None
        encoding = request.headers.get("Content-Encoding", "")
        return await asyncio.get_running_loop().run_in_executor(self._workers, self._understand, caller, body, encoding)

    def _understand(self, caller: Caller, body: bytes, encoding: str) -> Answer:
        try:
            report = decode_report(unpacked(body, encoding, MAX_REPORT_BYTES))
        except BadMessage as error:
            raise Refused(400, f"the report cannot be read: {error}") from None
        if report.node != caller.node:
            raise Refused(403, f"pod {caller.pod} is on node {caller.node} and may not report on {report.node}")
        self._inbox.put(report)
        with self._counts:
            self.taken += 1
        return self._inbox.answer(report)

    async def _who(self, token: str) -> Caller:
        known = self._callers.known(token)
        if known is not None:
            return known
        if self._waiting >= MAX_WAITING:
            raise Refused(503, "too many tokens are being reviewed")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._workers, self._callers.who, token)
        finally:
            self._waiting -= 1
