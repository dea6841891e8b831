"""The study's states: what leads where, and what cannot happen."""

import pytest

from slack.throttler.fsm import TRANSITIONS, Change, InvalidChange, State, after


def test_the_study_s_way_from_image_to_ready() -> None:
    state = State.DOWNLOADING
    for change in (Change.PULLED, Change.FREED, Change.GRANTED, Change.SUCCEEDED):
        state = after(state, change)
    assert state is State.READY


def test_who_is_too_slow_has_failed_and_may_still_become_ready() -> None:
    assert after(State.STARTING, Change.TIMED_OUT) is State.FAILED
    assert after(State.FAILED, Change.SUCCEEDED) is State.READY


def test_blocked_containers_are_never_granted() -> None:
    assert {state for state, change in TRANSITIONS if change is Change.GRANTED} == {State.PENDING}
    with pytest.raises(InvalidChange, match="a container that is blocked cannot be granted"):
        after(State.BLOCKED, Change.GRANTED)
