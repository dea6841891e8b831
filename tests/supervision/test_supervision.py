"""Stamps, threads, tasks and pools: dead or stuck is unhealthy, idle is healthy."""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from typing import cast

import pytest

from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import Supervisor
from slack.supervision.tasks import SupervisedTask, rest
from slack.supervision.threads import SupervisedThread
from slack.supervision.workers import Workers


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def wait_until(what: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def kill(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread at its next step."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


def test_a_stamp_is_late_only_after_its_limit() -> None:
    clock = Clock()
    heart = Heartbeat("work", 10.0, clock=clock)
    clock.now = 1000.0
    assert heart.late() is None, "the work has not begun"
    heart.beat()
    clock.now += 10.0
    assert heart.late() is None
    clock.now += 1.0
    assert heart.late() == "work has not moved for 11 s"


def test_work_whose_every_turn_fails_is_unhealthy_whatever_else_moves() -> None:
    clock = Clock()
    heart = Heartbeat("work", 10.0, clock=clock)
    for _ in range(12):
        heart.failed(KeyError("node"))
        clock.now += 1.0
        heart.beat()
    assert heart.late() == "work has failed at each turn for 12 s: KeyError: 'node'"
    heart.worked()
    assert heart.late() is None
    heart.failed(KeyError("node"))
    assert heart.late() is None, "one turn may fail"


def test_idle_work_stays_healthy_however_long_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LONGEST_REST_SECONDS", 0.01)
    heart, wake = Heartbeat("work", 0.2), threading.Event()
    thread = SupervisedThread(lambda: cast(None, heart.rest(wake, None)), name="work", heart=heart)
    thread.start()
    time.sleep(0.5)
    assert thread.unhealthy() is None
    wake.set()
    wait_until(lambda: not thread.alive)
    assert thread.unhealthy() == "work has ended"
    thread.dismiss()
    assert thread.unhealthy() is None, "its end was expected"


def test_a_rest_ends_at_its_time_or_at_the_event() -> None:
    heart, wake = Heartbeat("work", 1.0), threading.Event()
    began = time.monotonic()
    assert not heart.rest(wake, 0.05)
    assert 0.04 < time.monotonic() - began < 1.0
    wake.set()
    assert heart.rest(wake, 60.0)


def test_a_thread_that_raises_or_is_killed_or_hangs_is_unhealthy() -> None:
    def fail() -> None:
        raise ValueError("a bug")

    failed = SupervisedThread(fail, name="a", heart=Heartbeat("a", 10.0))
    failed.start()
    wait_until(lambda: not failed.alive)
    assert failed.unhealthy() == "a has ended: ValueError: a bug"

    heart = Heartbeat("b", 10.0)
    killed = SupervisedThread(lambda: cast(None, heart.rest(threading.Event(), None)), name="b", heart=heart)
    assert killed.unhealthy() is None, "never started"
    clock, never = Clock(), threading.Event()
    hung = SupervisedThread(lambda: cast(None, never.wait(30)), name="c", heart=Heartbeat("c", 10.0, clock=clock))
    hung.start()
    assert hung.unhealthy() is None
    clock.now = 11.0
    assert hung.unhealthy() == "c has not moved for 11 s"
    never.set()
    hung.join()


def test_a_task_that_fails_or_is_cancelled_is_unhealthy_and_one_that_returns_is_not() -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async def done() -> None:
        """Have nothing to do."""

    async def main() -> list[str | None]:
        heart = Heartbeat("d", 10.0)

        async def wait() -> None:
            await rest(heart, asyncio.Event())

        failed = SupervisedTask(fail(), heart=Heartbeat("a", 10.0))
        returned = SupervisedTask(done(), heart=Heartbeat("b", 10.0))
        cancelled = SupervisedTask(asyncio.sleep(60), heart=Heartbeat("c", 10.0))
        ended = SupervisedTask(wait(), heart=heart)
        await asyncio.sleep(0.01)
        assert ended.unhealthy() is None
        cancelled._task.cancel()
        await ended.end()
        await asyncio.sleep(0.01)
        return [failed.unhealthy(), returned.unhealthy(), cancelled.unhealthy(), ended.unhealthy()]

    assert asyncio.run(main()) == ["a has ended: ValueError: a bug", None, "c has ended: cancelled", None]


def test_a_pool_starts_threads_as_they_are_needed_and_each_is_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LONGEST_REST_SECONDS", 0.01)
    pool = Workers(3, name="calls")
    assert pool.submit(lambda: 1).result(5) == 1
    time.sleep(0.05)
    assert pool.submit(lambda: 2).result(5) == 2
    assert len(pool._pool) == 1, "one thread is enough for one call at a time"
    block = threading.Event()
    calls = [pool.submit(block.wait, 30) for _ in range(5)]
    wait_until(lambda: len(pool._pool) == 3)
    block.set()
    assert all(call.result(5) for call in calls)
    with pytest.raises(ValueError, match="a bug"):
        pool.submit(int, "a bug").result(5)
    assert pool.unhealthy() is None
    victim = next(thread for thread in threading.enumerate() if thread.name == "calls_1")
    kill(victim)
    wait_until(lambda: not victim.is_alive())
    assert pool.unhealthy() == "thread 1 of calls has ended: SystemExit"
    pool.shutdown(wait=False, cancel_futures=True)


def test_a_pool_whose_call_hangs_is_unhealthy_and_keeps_nobody_from_ending() -> None:
    pool, hang = Workers(1, name="calls", limit_seconds=0.05), threading.Event()
    call, waiting = pool.submit(hang.wait, 30), pool.submit(int, "1")
    wait_until(lambda: pool.unhealthy() is not None)
    began = time.monotonic()
    pool.shutdown(wait=False, cancel_futures=True)
    assert time.monotonic() - began < 1.0
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="was shut down"):
        pool.submit(int, "1")
    hang.set()
    assert call.result(5)


def test_a_supervisor_reports_on_what_was_started() -> None:
    class Part:
        problem: str | None = None
        starts = 0

        def start(self) -> None:
            self.starts += 1

        def unhealthy(self) -> str | None:
            return self.problem

    supervisor, one, two = Supervisor(), Part(), Part()
    two.problem = "two is dead"
    supervisor.start(one)
    assert supervisor.unhealthy() is None
    supervisor.watch(two)
    assert (one.starts, two.starts) == (1, 0)
    assert supervisor.unhealthy() == "two is dead"


def test_a_task_that_has_lost_its_cancellation_ends_all_the_same() -> None:
    lost: list[bool] = []

    async def work() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append(True)  # as `asyncio.wait_for` can lose one

    async def main() -> None:
        task = SupervisedTask(work(), heart=Heartbeat("it", 30.0))
        await asyncio.sleep(0)
        await asyncio.wait_for(task.end(), 10)

    asyncio.run(main())
    assert lost
