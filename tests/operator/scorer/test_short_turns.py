"""The slice that the answering thread asks of the kernel."""

import os
import platform
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from slack_operator.scorer import short_turns

T = TypeVar("T")
KERNEL = tuple(int(part) for part in platform.release().split(".")[:2])


def _in_a_thread(work: Callable[[], T]) -> T:
    """A thread of its own: what it asks for ends with it."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def _normal() -> bool:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return short_turns.ask()


@pytest.mark.skipif(platform.system() != "Linux" or KERNEL < (6, 12), reason="slices of threads are Linux 6.12's")
def test_only_the_thread_that_asks_has_short_turns_and_its_weight_stays() -> None:
    before = short_turns.slice_nanoseconds()
    nice, slices = _in_a_thread(
        lambda: (_normal() and os.getpriority(os.PRIO_PROCESS, 0), short_turns.slice_nanoseconds()),
    )
    assert (nice, slices) == (os.getpriority(os.PRIO_PROCESS, 0), short_turns.SLICE_NANOSECONDS)
    assert short_turns.slice_nanoseconds() == before


def test_a_thread_of_another_policy_is_left_as_it_is() -> None:
    def idle() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return short_turns.ask(), os.sched_getscheduler(0)

    assert _in_a_thread(idle) == (False, os.SCHED_IDLE)


def test_a_machine_of_an_unknown_kind_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert (short_turns.ask(), short_turns.slice_nanoseconds()) == (False, None)


def test_a_kernel_that_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    monkeypatch.setattr(short_turns, "_SCHED_SETATTR", {platform.machine(): 1_000_000})  # there is no such call
    before = short_turns.slice_nanoseconds()
    assert (short_turns.ask(), short_turns.slice_nanoseconds()) == (False, before)
