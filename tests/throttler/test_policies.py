"""P1 to P4: who denies, in which words, and until when."""

import pytest

from slack.throttler.limits import Limits, Usage
from slack.throttler.policies import (
    Allow,
    Deny,
    Rule,
    Situation,
    all_of,
    composite,
    forced_at,
    forced_by,
    max_rate,
    max_share,
    max_starting,
    resources,
)


def test_p1_counts_those_that_start_whatever_their_pods() -> None:
    policy = max_starting(2)
    assert policy(Situation(now=5.0, starting=1)) == Allow()
    assert policy(Situation(now=5.0, starting=2, slot_free_at=9.0)) == Deny("2 start, and 2 may", 9.0, (Rule.STARTING,))
    assert max_starting(None)(Situation(now=5.0, starting=900)) == Allow()


def test_p2_lets_one_start_in_each_interval() -> None:
    policy = max_rate(0.5)
    assert policy(Situation(now=0.0)) == Allow()
    assert policy(Situation(now=1.3, last_start=1.0)) == Deny("one start in 0.5 s", 1.5, (Rule.RATE,))
    assert policy(Situation(now=1.5, last_start=1.0)) == Allow()


LIMITS = Limits(max_load1=3.0, max_cpu=0.8, max_cpu_pressure=0.6, max_io_pressure=0.4)


@pytest.mark.parametrize(
    ("usage", "rule", "reason"),
    [
        (Usage(load1=3.0), Rule.LOAD, "the load average is 3.00, and is to be below 3"),
        (Usage(cpu=0.8), Rule.CPU, "CPU use is 80%, and is to be below 80%"),
        (Usage(cpu_pressure=0.7), Rule.CPU_PRESSURE, "CPU pressure is 70%, and is to be below 60%"),
        (Usage(io_pressure=1.0), Rule.IO_PRESSURE, "I/O pressure is 100%, and is to be below 40%"),
    ],
)
def test_p3_wants_each_figure_below_its_limit(usage: Usage, rule: Rule, reason: str) -> None:
    assert resources(LIMITS)(Situation(now=0.0, usage=usage)) == Deny(reason, None, (rule,))


def test_p3_holds_nobody_back_by_what_could_not_be_read_or_is_off() -> None:
    assert resources(LIMITS)(Situation(now=0.0)) == Allow()
    assert resources(Limits())(Situation(now=0.0, usage=Usage(99.0, 1.0, 1.0, 1.0))) == Allow()
    assert resources(LIMITS)(Situation(now=0.0, usage=Usage(2.99, 0.79, 0.59, 0.39))) == Allow()


def test_all_who_deny_say_so_and_the_end_is_known_where_each_knows_it() -> None:
    busy = Situation(now=1.3, starting=2, last_start=1.0, slot_free_at=9.0)
    known = all_of(max_rate(0.5), max_starting(2))(busy)
    assert known == Deny("one start in 0.5 s; 2 start, and 2 may", 9.0, (Rule.RATE, Rule.STARTING))
    unknown = all_of(max_starting(2), resources(LIMITS))(Situation(0.0, 2, Usage(cpu=1.0), slot_free_at=9.0))
    assert isinstance(unknown, Deny)
    assert unknown.until is None


def test_a_share_of_the_slots_is_a_namespace_s_most() -> None:
    assert max_share(2)(Situation(now=0.0, within_share=True)) == Allow()
    denied = max_share(2)(Situation(now=0.0, within_share=False))
    assert denied == Deny("each namespace that waits has its 2 slots", None, (Rule.SHARE,))


def test_the_minimum_rate_forces_what_number_and_load_deny() -> None:
    policy = forced_by(10.0, max_starting(2))
    waiting = Situation(now=14.0, starting=2, last_start=1.0, pending_since=5.0)
    assert policy(waiting) == Deny("2 start, and 2 may", 15.0, (Rule.STARTING,))
    due = Situation(now=15.0, starting=2, last_start=1.0, pending_since=5.0)
    assert policy(due) == Allow(True, "nothing had started for 10 s; 2 start, and 2 may")


def test_time_is_counted_from_the_last_start_or_from_when_something_waits() -> None:
    assert forced_at(Situation(now=0.0, last_start=7.0, pending_since=5.0), 10.0) == 17.0
    assert forced_at(Situation(now=0.0, pending_since=5.0), 10.0) == 15.0
    assert forced_at(Situation(now=0.0), 10.0) is None
    assert forced_at(Situation(now=0.0, pending_since=5.0), None) is None


def test_p4_binds_forced_starts_by_the_maximum_rate_too() -> None:
    policy = composite(Limits(slots=1, force_after_seconds=0.1, gap_seconds=2.0))
    denied = policy(Situation(now=2.0, starting=1, last_start=1.0, pending_since=0.0))
    assert denied == Deny("one start in 2 s", 3.0, (Rule.RATE,))
    assert policy(Situation(now=3.0, starting=1, last_start=1.0, pending_since=0.0)) == Allow(
        True, "nothing had started for 0.1 s; 1 start, and 1 may"
    )
