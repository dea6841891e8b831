"""An aiohttp server in a thread and event loop of its own: how health checks and the web page are served.

`start` and `stop` belong to whoever made it, all else to its thread; the loop of the process is never waited for.
"""

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod

from aiohttp import web

from slack.supervision.heartbeat import Heartbeat
from slack.supervision.tasks import rest
from slack.supervision.threads import SupervisedThread

STUCK_SECONDS = 30.0
"""An event loop that does not turn for so long counts as stuck."""


class ServingThread(ABC):
    """Serves from `start` until `stop`; `port` is the real one when 0 was asked for."""

    _keep_alive_seconds = 75.0
    """For how long a connection may be idle."""
    _unpacks = True
    """Whether aiohttp unpacks bodies with a Content-Encoding; who bounds the unpacking itself says no."""

    def __init__(self, host: str, port: int, *, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self._tls = tls
        self._host = host
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._error: OSError | None = None
        heart = Heartbeat(f"the {name} server", STUCK_SECONDS)
        self._thread = SupervisedThread(lambda: asyncio.run(self._serve()), name=name, heart=heart)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: when the address cannot be bound.
        """
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def stop(self, timeout: float = 3.0) -> None:
        """Close the socket and end the thread; nothing where it was never started."""
        self._thread.dismiss()
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)

    def unhealthy(self) -> str | None:
        """Return why nothing is served any more; None if the event loop turns, or has not begun."""
        return self._thread.unhealthy()

    @property
    def _stopping(self) -> bool:
        """Whether the end was asked for: those who serve a stream look."""
        return self._stop is not None and self._stop.is_set()

    @abstractmethod
    def _application(self) -> web.Application:
        """Return what is served; called once, in the server's own event loop."""

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            shutdown_timeout=1.0,
            handler_cancellation=True,
            auto_decompress=self._unpacks,
            keepalive_timeout=self._keep_alive_seconds,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self._tls).start()
            self.port = runner.addresses[0][1]
        except OSError as error:
            self._error = error
            await runner.cleanup()
            return
        finally:
            self._started.set()
        await rest(self._thread.heart, self._stop)
        await runner.cleanup()
