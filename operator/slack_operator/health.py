"""/healthz, /readyz and /metrics on one small aiohttp server, in a thread and event loop of its own.

Healthy means that the threads live and the loop has turned; ready means that the view of the cluster is whole and
fresh, which holds for a standby too. Both answer with the reason when they say no.
"""

import asyncio
import threading
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str]
"""Gives '' for yes, and a reason otherwise."""


class HealthServer:
    """Serves until `stop`; `port` is the real one when 0 was asked for."""

    def __init__(self, host: str, port: int, *, healthy: Check, ready: Check, registry: CollectorRegistry) -> None:
        self.port = port
        self._host = host
        self._healthy = healthy
        self._ready = ready
        self._registry = registry
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._error: OSError | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="health", daemon=True)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def stop(self, timeout: float = 2.0) -> None:
        """Close the socket and end the thread."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/healthz", self._answer(self._healthy))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self.port)
            await site.start()
            self.port = runner.addresses[0][1]
        except OSError as error:
            self._error = error
            return
        finally:
            self._started.set()
            if self._error is not None:
                await runner.cleanup()
        await self._stop.wait()
        await runner.cleanup()

    @staticmethod
    def _answer(check: Check) -> Callable[[web.Request], "asyncio.Future[web.Response]"]:
        async def handler(_: web.Request) -> web.Response:
            reason = check()
            return web.Response(text=reason or "ok", status=503 if reason else 200)

        return handler  # type: ignore[return-value]

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
