"""POST /v1/starts: agents' reports in. GET /v1/starts: what is known, for who may look.

Who looks shows a token of the release's viewer account: who may make one (`create serviceaccounts/token`) is RBAC's to
say. It comes in a header of its own, for the API server's proxy keeps `Authorization` to itself.
"""

import ssl
from collections.abc import Callable

from aiohttp import web

from slack.throttler.reports.messages import MAX_REPORT_BYTES, REPORTS_PATH, VIEWER_HEADER
from slack_operator.runtime.callers import CallerRefused, Callers, bearer
from slack_operator.runtime.report_receiver import ReportReceiver
from slack_operator.throttler.controller.starts import Starts

_QUERY = ("node", "namespace", "pod")
_MOST_CHARACTERS = 253


class Receiver(ReportReceiver):
    """Serves until `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        agents: Callers,
        viewers: Callers,
        starts: Starts,
        unready: Callable[[], str | None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """A server that is not started yet.

        Args:
            host: to listen on.
            port: to listen on; 0 for any.
            agents: says which agent sends a token.
            viewers: says whether a token is a viewer's.
            starts: takes reports, and shows them.
            unready: why no report can be taken now, None when one can.
            tls: None serves plain HTTP.
        """
        super().__init__(
            host,
            port,
            path=REPORTS_PATH,
            max_bytes=MAX_REPORT_BYTES,
            callers=agents,
            take=starts.accept_report,
            unready=unready,
            tls=tls,
        )
        self._viewers = viewers
        self._starts = starts

    def _application(self) -> web.Application:
        app = super()._application()
        app.router.add_get(REPORTS_PATH, self._get)
        return app

    async def _get(self, request: web.Request) -> web.Response:
        return await self._respond(request, self._show(request))

    async def _show(self, request: web.Request) -> bytes:
        self._ask_ready()
        given = request.headers.get(VIEWER_HEADER)
        await self._who(
            request, self._viewers, bearer(f"Bearer {given}" if given else request.headers.get("Authorization"))
        )
        wanted = {name: request.query.get(name, "") for name in _QUERY}
        for name, value in wanted.items():
            if len(value) > _MOST_CHARACTERS:
                raise CallerRefused(400, f"{name}: has more than {_MOST_CHARACTERS} characters")
        if bool(wanted["pod"]) != bool(wanted["namespace"]):
            raise CallerRefused(400, "pod and namespace go together")
        return await self._in_worker(self._starts.view, wanted["node"], wanted["namespace"], wanted["pod"])
