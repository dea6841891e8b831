"""POST /mutate: the API server asks about each pod that is to be made, over TLS.

Who asks is not checked unless an authority of callers is given: by default an API server shows webhooks no certificate,
and what is answered is no secret, a function of the pod that the caller has sent. Bodies are bounded before they are
read. It answers in its event loop, without a request to anybody: the API server waits.
"""

import logging
import ssl
import time
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from slack.process.outages import Outages
from slack_operator.runtime.serving import InvalidRequestBody, ServingThread
from slack_operator.throttler.controller.admission import AdmissionRules, InvalidReview, Outcome, judged, read

log = logging.getLogger(__name__)

PATH: Final = "/mutate"
MAX_REVIEW_BYTES: Final = 8 << 20
"""The API server takes objects of up to 3 MiB, and a review may have two."""
READ_SECONDS: Final = 5.0
KEEP_ALIVE_SECONDS: Final = 120.0
"""Go's client keeps idle connections for 90 s, and repeats no POST that meets one which closes."""


CONNECTIONS: Final = 1024
STRANGERS: Final = 512
"""Each pod that is created at the same time is a connection of an API server. A review that is cut off is not repeated,
and its pod starts without a gate."""


class Webhook(ServingThread):
    """Serves until `stop`."""

    _unpacks = False
    _keep_alive_seconds = KEEP_ALIVE_SECONDS
    _connections = CONNECTIONS
    _strangers = STRANGERS

    def __init__(
        self,
        host: str,
        port: int,
        *,
        rules: Callable[[], AdmissionRules],
        on_admission: Callable[[Outcome, float], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            rules: by what pods are judged now; called in the server's thread.
            on_admission: called there with what became of each, and the seconds that it took.
            tls: None serves plain HTTP, for tests and loopback.
        """
        super().__init__(host, port, name="webhook", tls=tls)
        self._rules = rules
        self._on_admission = on_admission
        self._outages = Outages()

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_post(PATH, self._mutate)
        return app

    async def _mutate(self, request: web.Request) -> web.Response:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return _bad(415, "a Content-Encoding is not understood")
        try:
            async with self._body(request, MAX_REVIEW_BYTES, READ_SECONDS) as body:
                return self._judge(body)
        except InvalidRequestBody as problem:
            return _bad(problem.status, str(problem))

    def _judge(self, body: bytes) -> web.Response:
        began = time.perf_counter()
        try:
            asked = read(body)
        except InvalidReview as error:
            return _bad(400, str(error))
        outcome, answer = judged(asked, self._rules())
        text = msgspec.json.encode(answer)
        self._on_admission(outcome, time.perf_counter() - began)
        if outcome is Outcome.UNREADABLE and self._outages.is_new(why := answer["response"]["warnings"][0]):
            log.warning("a pod in %s: %s", asked.namespace, why)
        return web.Response(body=text, content_type="application/json")


def _bad(status: int, why: str) -> web.Response:
    # what is left of a body that is not wanted is not worth reading
    response = web.Response(status=status, text=f"{why}\n")
    response.force_close()
    return response
