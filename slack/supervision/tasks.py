"""An asyncio task with a liveness stamp, and the stamp of an event loop."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat

log = logging.getLogger(__name__)

CANCEL_AGAIN_SECONDS = 0.2


class SupervisedTask:
    """Runs a coroutine in the running event loop. Any thread may call `unhealthy`."""

    def __init__(self, work: Coroutine[Any, Any, None], *, heart: Heartbeat) -> None:
        """Begin.

        Args:
            work: returns only if it has nothing to do any more.
            heart: the stamp that `work` writes.
        """
        self.heart = heart
        heart.beat()
        self._dismissed = False
        self._task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=heart.name)
        self._task.add_done_callback(self._log)

    def unhealthy(self) -> str | None:
        """Return why the task does not work; None if it does, has returned or was ended by `end`."""
        if self._dismissed:
            return None
        if not self._task.done():
            return self.heart.late()
        if self._task.cancelled():
            return f"{self.heart.name} has ended: cancelled"
        error = self._task.exception()
        return None if error is None else f"{self.heart.name} has ended: {type(error).__name__}: {error}"

    async def end(self) -> None:
        """Cancel the task and wait for its end; in its own event loop.

        `asyncio.wait_for` can lose a cancellation that comes in the moment in which what it waits for is done
        (python/cpython#86296, up to 3.11), so a task that goes on is cancelled again.
        """
        self._dismissed = True
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN_SECONDS)
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task

    def _log(self, task: asyncio.Task[None]) -> None:
        if not self._dismissed and not task.cancelled() and task.exception() is not None:
            log.error("%s has ended", self.heart.name, exc_info=task.exception())


async def rest(heart: Heartbeat, wake: asyncio.Event, seconds: float | None = None) -> bool:
    """Wait for an event, and write the stamp meanwhile; return whether the event is set.

    Args:
        heart: the stamp.
        wake: ends the wait.
        seconds: the longest wait; None: without an end.
    """
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    while not wake.is_set():
        heart.beat()
        left = heartbeat.LONGEST_REST_SECONDS if until is None else until - loop.time()
        if left <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, heartbeat.LONGEST_REST_SECONDS)):
                await wake.wait()
    return True
