"""Two pasts of one policy become one."""

import numpy as np
import pytest

from slack.planner.objective.codec import decode, encode
from slack.planner.objective.joining import join
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

AIM = Objective(instant_start=0.9)
POD = (500, 1 << 30)
START = 1_767_571_200.0


def lived(hours: int, since: float = START) -> Learner:
    """Four pods come every half hour, when the room of the last is gone, are late, and stay for five minutes."""
    learner = Learner()
    for minute in range(hours * 60):
        there, come = (8 if minute % 30 < 5 else 4), (4 if minute % 30 == 0 else 0)
        requested = (there * POD[0], there * POD[1])
        arrived = {POD: come} if come else {}
        learner.observe(Turn(since + 60 * minute, requested, there, 120.0, arrived, come, come), AIM)
    return learner


def test_two_halves_of_a_time_that_are_joined_keep_what_the_whole_would() -> None:
    whole, first, second = lived(8), lived(4), lived(4, START + 4 * 3600)
    join(second, first)
    at = START + 8 * 3600
    asked, wanted = second.amount(at, AIM), whole.amount(at, AIM)
    assert second.tally.hours == pytest.approx(whole.tally.hours, rel=0.01)
    np.testing.assert_allclose(second.needs.rates(slice(0, 1)), whole.needs.rates(slice(0, 1)), rtol=0.1)
    assert asked.cpu_millis == pytest.approx(wanted.cpu_millis, rel=0.01)
    assert asked.cpu_millis >= 4 * POD[0]
    assert asked.why.started_today == pytest.approx(wanted.why.started_today, abs=4)  # of the turn between them
    np.testing.assert_allclose(second.needs.hours[1:], whole.needs.hours[1:], atol=0.03)


def test_what_is_joined_can_be_kept_and_read_again() -> None:
    later = lived(2, START + 7200)
    join(later, lived(2))
    assert decode(encode(later)).tally.hours == later.tally.hours


def test_a_past_joined_to_nothing_is_that_past() -> None:
    earlier, fresh = lived(6), Learner()
    join(fresh, earlier)
    at = START + 6 * 3600
    assert fresh.amount(at, AIM).cpu_millis == decode(encode(earlier)).amount(at, AIM).cpu_millis
    assert list(fresh.tally.days) == list(earlier.tally.days)
    assert fresh.mix.pods.keys() == earlier.mix.pods.keys()
