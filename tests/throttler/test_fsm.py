"""The study's states: what leads where, and what cannot happen."""

import pytest

from slack.throttler.fsm import TRANSITIONS, ContainerChange, InvalidChange, StartState, after


def test_the_study_s_way_from_image_to_ready() -> None:
    state = StartState.DOWNLOADING
    for change in (ContainerChange.PULLED, ContainerChange.FREED, ContainerChange.GRANTED, ContainerChange.SUCCEEDED):
        state = after(state, change)
    assert state is StartState.READY


def test_who_is_too_slow_has_failed_and_may_still_become_ready() -> None:
    assert after(StartState.STARTING, ContainerChange.TIMED_OUT) is StartState.FAILED
    assert after(StartState.FAILED, ContainerChange.SUCCEEDED) is StartState.READY


def test_blocked_containers_are_never_granted() -> None:
    assert {state for state, change in TRANSITIONS if change is ContainerChange.GRANTED} == {StartState.PENDING}
    with pytest.raises(InvalidChange, match="a container that is blocked cannot be granted"):
        after(StartState.BLOCKED, ContainerChange.GRANTED)
