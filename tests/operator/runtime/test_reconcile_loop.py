"""When turns are due, what an error costs, and when the loop is not healthy any more."""

import logging
import threading

import pytest

from slack.kube.errors import Unreachable
from slack.supervision.heartbeat import Heartbeat
from slack_operator.runtime.debounce import Debouncer
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.reconcile_loop import HEALTHY_SECONDS, ReconcileLoop
from tests.operator.fakes import Clock


def test_a_plan_is_due_every_interval_and_soon_after_a_change() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    assert wake.due_in() == 0.0
    wake.plan_started()
    wake.ended(0.01, 0.01)
    assert wake.due_in() == 10.0
    clock.now = 3.0
    wake.touch()
    assert wake.due_in() == pytest.approx(0.2)
    clock.now = 3.1
    wake.touch()  # a change that follows does not put it off
    assert wake.due_in() == pytest.approx(0.1)


def test_changes_without_end_do_not_make_plans_without_end() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.plan_started()
    wake.ended(1.0, 1.0)
    wake.touch()
    assert wake.due_in() == pytest.approx(4.0)


def test_a_plan_that_waited_for_the_api_server_puts_the_next_one_off_by_as_long() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.plan_started()
    wake.ended(0.01, 2.0)
    wake.touch()
    assert wake.due_in() == pytest.approx(2.0)


def test_in_a_burst_changes_wait_longer_and_its_end_wakes_whoever_waits() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.is_throttled = lambda: clock.now < 3.5
    wake.plan_started()
    wake.ended(0.01, 0.01)
    clock.now = 3.0
    wake.touch()
    assert wake.due_in() == pytest.approx(1.0)
    wake.wait(0.0)  # the touch is known
    clock.now = 3.6
    threading.Timer(0.01, wake.flush).start()
    wake.wait(60.0)
    assert wake.due_in() == 0.0


def test_a_change_that_is_rare_does_not_wait_as_those_of_a_burst_do() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.is_throttled = lambda: True
    wake.plan_started()
    wake.ended(0.01, 0.01)
    clock.now = 3.0
    wake.touch()
    wake.wait(0.0)  # the touch is known
    threading.Timer(0.01, wake.touch_soon).start()
    wake.wait(60.0)
    assert wake.due_in() == pytest.approx(0.2)
    wake.plan_started()
    wake.ended(0.01, 0.01)
    clock.now = 6.0
    wake.touch()
    assert wake.due_in() == pytest.approx(1.0)


def test_changes_that_go_on_are_planned_for_as_often_as_a_status_is_written() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.is_throttled = lambda: True
    began: list[float] = []
    for tenth in range(100):
        clock.now = tenth / 10
        wake.touch()
        if wake.due_in() <= 0:
            wake.plan_started()
            wake.ended(0.01, 0.01)
            began.append(clock.now)
    assert began == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_what_the_last_turn_lacked_is_planned_for_when_it_comes() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.plan_started()
    wake.ended(0.001, 0.001)
    wake.lacks_something = True
    clock.now = 1.0
    wake.touch()
    assert wake.due_in() == pytest.approx(0.02)


def test_a_touch_ends_the_wait() -> None:
    wake = Debouncer(10.0, Clock())
    wake.plan_started()
    threading.Timer(0.01, wake.touch).start()
    wake.wait(60.0)
    assert wake.due_in() == pytest.approx(0.2)


def test_an_error_costs_its_turn_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock(0.0)
    errors: list[Exception] = [Unreachable("refused"), NotLeading(), RuntimeError("a bug")]
    turns: list[float] = []

    class Stamp(Heartbeat):
        def beat(self) -> None:
            turns.append(clock.now)

    def reconcile() -> None:
        clock.now += 10
        if errors:
            raise errors.pop(0)
        loop.ask_to_stop()

    loop = ReconcileLoop(reconcile, Debouncer(10.0, clock), heart=Stamp("the loop", 130.0), clock=clock)
    loop.run()
    assert "the API server did not answer, the turn is given up: refused" in caplog.text
    assert "not leading (any more): nothing is written" in caplog.text
    assert "RuntimeError: a bug" in caplog.text
    assert turns == [10.0, 20.0, 40.0], "a bug is no beat"


def test_what_is_done_between_turns_goes_on_while_none_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    done: list[float] = []

    def between() -> None:
        done.append(clock.now)
        clock.now += 1
        if len(done) == 3:
            loop.ask_to_stop()

    turns: list[float] = []
    wake = Debouncer(10.0, clock)
    monkeypatch.setattr(wake, "wait", lambda seconds: None)
    loop = ReconcileLoop(lambda: turns.append(clock.now), wake, between=(between,), clock=clock)
    loop.run()
    assert (turns, done) == ([0.0], [0.0, 1.0, 2.0])


def test_a_loop_that_hangs_or_has_ended_is_not_healthy() -> None:
    clock = Clock(0.0)
    hang, hanging = threading.Event(), threading.Event()

    def reconcile() -> None:
        hanging.set()
        hang.wait(10)

    loop = ReconcileLoop(reconcile, Debouncer(10.0, clock), clock=clock)
    assert loop.unhealthy() is None, "not started yet"
    loop.start()
    hanging.wait(10)
    clock.now = HEALTHY_SECONDS + 10.0
    assert loop.unhealthy() is None
    clock.now += 1
    assert loop.unhealthy() == "the loop has not moved for 131 s"
    loop.ask_to_stop()
    hang.set()
    loop.join()
    assert loop.unhealthy() is None, "its end was asked for"


def test_a_loop_whose_turns_all_fail_is_not_healthy_whatever_is_done_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(0.0)
    heart = Heartbeat("the loop", HEALTHY_SECONDS, clock=clock)
    told: list[str | None] = []

    def reconcile() -> None:
        heart.beat()  # a write got through
        if clock.now <= HEALTHY_SECONDS + 20.0:
            raise RuntimeError("a bug")

    def between() -> None:
        clock.now += 10.0
        told.append(loop.unhealthy())
        if clock.now > HEALTHY_SECONDS + 60.0:
            loop.ask_to_stop()

    wake = Debouncer(10.0, clock)
    monkeypatch.setattr(wake, "wait", lambda seconds: None)
    loop = ReconcileLoop(reconcile, wake, between=(between,), heart=heart, clock=clock)
    loop._thread._thread = threading.current_thread()  # it counts as started
    loop.run()
    assert told[:12] == [None] * 12
    assert told[12] == "the loop has failed at each turn for 130 s: RuntimeError: a bug"
    assert told[-1] is None, "a turn has worked again"


def test_a_step_between_turns_that_always_fails_leaves_the_loop_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    turns: list[float] = []

    def reconcile() -> None:
        turns.append(clock.now)
        if clock.now > 3 * HEALTHY_SECONDS:
            loop.ask_to_stop()

    def between() -> None:
        clock.now += 10.0
        raise RuntimeError("a bug")

    wake = Debouncer(10.0, clock)
    monkeypatch.setattr(wake, "wait", lambda seconds: None)
    loop = ReconcileLoop(reconcile, wake, between=(between,), clock=clock)
    loop.run()
    assert loop.heart.late() is None
    assert len(turns) > 30


def test_a_step_of_a_long_turn_keeps_the_loop_healthy() -> None:
    clock = Clock(0.0)
    heart = Heartbeat("the loop", HEALTHY_SECONDS, clock=clock)
    entered, leave = threading.Event(), threading.Event()

    def reconcile() -> None:
        for _ in range(10):  # ten slow writes
            clock.now += HEALTHY_SECONDS - 1
            heart.beat()
        entered.set()
        leave.wait(10)

    loop = ReconcileLoop(reconcile, Debouncer(1e9, clock), heart=heart, clock=clock)
    loop.start()
    entered.wait(10)
    assert loop.unhealthy() is None
    clock.now += HEALTHY_SECONDS + 1
    assert loop.unhealthy() == "the loop has not moved for 121 s"
    loop.ask_to_stop()
    leave.set()
    loop.join()
