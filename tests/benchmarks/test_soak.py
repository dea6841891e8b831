"""A week's rules find what grows and what keeps things that are gone, and pass what does neither."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.soak import audit_agent, auditor, throttler
from benchmarks.soak.sizes import sizes
from benchmarks.soak.week import Found, Kept, run


@dataclass
class Keeper:
    """A companion whose objects have a new name each turn; `forgets` says what becomes of the last one."""

    forgets: bool
    turn_seconds: float = 3600.0
    known: dict[str, list[int]] = field(default_factory=dict)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    cleared: bool = False
    closed: bool = False

    def turn(self, now_seconds: float) -> None:
        if self.forgets:
            self.known.clear()
        if not self.cleared:
            self.known[f"{now_seconds}"] = [1]
            self.last.append(f"{now_seconds}")

    def clear(self, now_seconds: float) -> None:
        self.cleared = True

    def sizes(self) -> Mapping[str, int]:
        return {"known": len(self.known), "last[]": len(self.last)}

    def close(self) -> None:
        self.closed = True


@pytest.mark.thorough
def test_what_forgets_passes_and_what_keeps_is_named() -> None:
    good, bad = Keeper(forgets=True), Keeper(forgets=False)
    found = run("good", good, days=3)
    assert found.faults == []
    assert good.closed
    assert found.kept["last[]"].cleared == 5, "a bounded history may keep what is gone"
    faults = run("bad", bad, days=3).faults
    assert faults == [
        "bad: known grows: 48 on day 2, 72 at the end",
        "bad: known keeps what is gone: 72 when all is gone, 0 before the first",
    ]


def test_what_goes_up_and_down_by_a_few_is_no_growth() -> None:
    found = Found("x", 3, kept={"map": Kept(empty=0, second_day=100, last_day=119, cleared=10)})
    assert found.faults == []


class Inner:
    """Has slots, as most of our classes do."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names = {"a", "b"}


class Outer:
    """Holds others by a map."""

    def __init__(self) -> None:
        self.by_key = {"x": Inner(), "y": Inner()}
        self.history = deque([1, 2, 3])
        self.call = self.sizes_of_nothing

    def sizes_of_nothing(self) -> None:
        """Stand for a callback."""


def test_every_map_and_sequence_is_counted_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.soak.sizes.OURS", (__name__,))
    assert sizes([Outer()]) == {"Outer.by_key": 2, "Inner.names": 4, "Outer.history[]": 3}


@pytest.mark.thorough
@pytest.mark.parametrize("module", [audit_agent, auditor, throttler], ids=["audit_agent", "auditor", "throttler"])
def test_a_companion_keeps_nothing_that_is_gone(module: Any) -> None:
    """Three days in long turns; `make soak` runs a week in short ones."""
    week = module.week(1)
    week.turn_seconds = 1800.0
    found = run(module.__name__.rpartition(".")[2], week, days=3)
    assert found.faults == []


def test_what_writers_do_is_over_before_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = throttler.week(1)
    monkeypatch.setattr(starts.permits._writer, "create", lambda *_: time.sleep(0.05))
    busy = []
    for turn in range(1, 6):
        starts.turn(turn * starts.turn_seconds)
        busy.append(starts.sizes().get("controller: Permits._busy", 0))
    assert busy == [0] * 5
    assert starts.permits._written, "something was written"
    starts.close()


@pytest.mark.thorough
def test_the_auditors_week_raises_limits_and_the_throttlers_has_late_pods() -> None:
    """A week in which nothing happens would show nothing."""
    pods = auditor.week(1)
    for turn in range(1, 40):
        pods.turn(turn * pods.turn_seconds)
    assert pods.raised() > 0
    starts = throttler.week(1)
    for turn in range(1, 40):
        starts.turn(turn * starts.turn_seconds)
    assert starts.controller_metrics.registry.get_sample_value(
        "slack_throttler_late_pods_total", {"outcome": "evicted"}
    )
    starts.close()


@pytest.mark.thorough
def test_the_agents_week_has_bursts() -> None:
    agent = audit_agent.week(1)
    for turn in range(1, 20):
        agent.turn(turn * agent.turn_seconds)
    assert agent.bursts() == audit_agent.PODS
    agent.close()
