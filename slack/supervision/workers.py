"""A pool of supervised daemon threads, used as an executor.

`ThreadPoolExecutor` has no liveness, never replaces a dead thread, and keeps a process from ending while a call hangs.
It is the base class only because asyncio takes no other class as the default executor of an event loop.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.threads import SupervisedThread

CALL_SECONDS: Final = 120.0
"""A call that takes longer counts as stuck."""
T = TypeVar("T")
P = ParamSpec("P")


class Workers(ThreadPoolExecutor):
    """Runs calls in at most `size` threads, which are started when they are first needed."""

    def __init__(self, size: int, *, name: str, limit_seconds: float = CALL_SECONDS) -> None:
        """Start nothing yet.

        Args:
            size: threads at the most.
            name: of the threads, and of the pool in /healthz.
            limit_seconds: the longest time that one call may take.
        """
        super().__init__(size, thread_name_prefix=name)
        self._size = size
        self._name = name
        self._limit_seconds = limit_seconds
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._pool: tuple[SupervisedThread, ...] = ()
        self._pool_lock = threading.Lock()
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Have a call made.

        Raises:
            RuntimeError: the pool was shut down.
        """
        future: Future[T] = Future()
        with self._pool_lock:
            if self._closed:
                raise RuntimeError(f"the pool {self._name} was shut down")
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if self._idle < self._calls.qsize() and len(self._pool) < self._size:
                self._add_thread()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the threads once those that wait are made or cancelled.

        Threads are daemons: without `wait`, a call that hangs keeps no process from ending.
        """
        with self._pool_lock:
            self._closed = True
            threads = self._pool
        while cancel_futures:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                break
            if call is not None:
                call[0].cancel()
        for thread in threads:
            thread.dismiss()
            self._calls.put(None)
        for thread in threads if wait else ():
            thread.join()
        super().shutdown(wait=False)

    def unhealthy(self) -> str | None:
        """Return which thread is dead or stuck; None if all work."""
        return first_problem(*self._pool)

    def _add_thread(self) -> None:
        number = len(self._pool)
        heart = Heartbeat(f"thread {number} of {self._name}", self._limit_seconds)
        thread = SupervisedThread(partial(self._run, heart), name=f"{self._name}_{number}", heart=heart)
        thread.start()
        self._pool = (*self._pool, thread)

    def _run(self, heart: Heartbeat) -> None:
        while True:
            heart.beat()
            self._count_idle(1)
            try:
                call = self._calls.get(timeout=heartbeat.LONGEST_REST_SECONDS)
            except queue.Empty:
                continue
            finally:
                self._count_idle(-1)
            if call is None:
                return
            future, work = call
            heart.beat()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                found = work()
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise  # SystemExit ends the thread; /healthz reports it
            else:
                future.set_result(found)
            del future, work, call

    def _count_idle(self, change: int) -> None:
        with self._pool_lock:
            self._idle += change


class UnawaitedWorkers(Workers):
    """A pool for an event loop's default executor, which asyncio would otherwise wait for when the loop ends.

    A look-up of a name may take as long as a name server is silent.
    """

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait for none."""
        super().shutdown(wait=False, cancel_futures=True)
