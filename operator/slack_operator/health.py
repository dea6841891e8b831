"""/healthz, /readyz and /metrics on one small aiohttp server, in a thread and event loop of its own.

Healthy means that the threads live and the loop has turned; ready means that the view of the cluster is whole and
fresh, which holds for a standby too. Both answer with the reason when they say no.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from slack_operator.serving import ServingThread

Check = Callable[[], str]
"""Gives '' for yes, and a reason otherwise."""


class HealthServer(ServingThread):
    """Serves until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, *, healthy: Check, ready: Check, registry: CollectorRegistry) -> None:
        super().__init__(host, port, name="health")
        self._healthy = healthy
        self._ready = ready
        self._registry = registry

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._answer(self._healthy))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._metrics)
        return app

    @staticmethod
    def _answer(check: Check) -> Callable[[web.Request], "asyncio.Future[web.Response]"]:
        async def handler(_: web.Request) -> web.Response:
            reason = check()
            return web.Response(text=reason or "ok", status=503 if reason else 200)

        return handler  # type: ignore[return-value]

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
