"""Until when time alone changes nothing."""

import math

from slack.planner.model.result import Backoff, RememberedPolicy
from slack.planner.rollout.waits import later, waits_until
from tests.planner.scenes import policy_of

POLICY = policy_of()
EMPTY = RememberedPolicy()


def test_a_plan_that_waits_for_nothing_stays() -> None:
    assert waits_until(POLICY, EMPTY, RememberedPolicy(counts={"a": ((50.0, 3),)})) == math.inf


def test_the_first_of_the_larger_counts_ends_with_the_shrink_delay() -> None:
    state = RememberedPolicy(counts={"a": ((50.0, 9), (70.0, 5), (90.0, 3)), "b": ((60.0, 8), (90.0, 3))})
    assert waits_until(POLICY, EMPTY, state) == 650.0


def test_a_replacement_that_is_due_waits_for_the_delay_and_then_for_nothing() -> None:
    soon = RememberedPolicy(counts={"a": ((400.0, 3),)}, cheaper_since={"fill/": 100.0})
    assert waits_until(POLICY, soon, soon) == 700.0
    over = RememberedPolicy(counts={"a": ((700.0, 3),)}, cheaper_since={"fill/": 100.0})
    assert waits_until(POLICY, over, over) == math.inf


def test_what_has_just_begun_and_what_is_held_back_is_looked_at_again() -> None:
    assert waits_until(POLICY, EMPTY, RememberedPolicy(cheaper_since={"fill/": 100.0})) == -math.inf
    held = RememberedPolicy(backoffs={"a": Backoff(900.0, 1, 0, "QuotaExceeded")})
    assert waits_until(POLICY, held, held) == waits_until(POLICY, held, EMPTY) == -math.inf
    window = {"cron": "0 7 * * *", "duration": "1h", "minRate": 0.5}
    assert waits_until(policy_of(extraCapacity={"schedule": [window]}), EMPTY, EMPTY) == -math.inf


def test_an_objective_learns_from_quiet_times_too() -> None:
    assert waits_until(policy_of(objective={"instantStart": 0.99}), EMPTY, EMPTY) == -math.inf


def test_the_state_of_a_later_plan_of_the_same_has_its_time() -> None:
    state = RememberedPolicy(counts={"a": ((50.0, 9), (90.0, 3))}, cheaper_since={"fill/": 10.0})
    assert later(state, 120.0).counts == {"a": ((50.0, 9), (120.0, 3))}
    assert later(state, 120.0).cheaper_since == state.cheaper_since
