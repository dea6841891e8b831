"""The states of a container that starts, and what leads from one to the next: the study's final picture.

    downloading -> blocked -> pending -> starting -> ready
                                            |
                                            +-> failed

Beside the study's: a restart leads back to blocked, for images are there already; a dependency that is gone leads from
pending back to blocked; and what was too slow but was left running may still become ready. Light: the gate imports it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class StartState(StrEnum):
    """Where a container stands."""

    DOWNLOADING = "downloading"
    """Its image is being pulled."""
    BLOCKED = "blocked"
    """Dependencies of it are not ready; it has no place in the queue."""
    PENDING = "pending"
    """It could start, and waits for the policy."""
    STARTING = "starting"
    """It was granted its start, and holds a slot."""
    READY = "ready"
    """Its startup or readiness probe has succeeded once."""
    FAILED = "failed"
    """It was starting for longer than the policy lets it; it holds no slot."""


class ContainerChange(StrEnum):
    """What happens to a container."""

    PULLED = "pulled"
    FREED = "freed"
    """All that it depends on is ready."""
    HELD = "held"
    """Something that it depends on is not ready any more."""
    GRANTED = "granted"
    SUCCEEDED = "succeeded"
    """The first success of its startup or readiness probe."""
    TIMED_OUT = "timed out"
    ENDED = "ended"
    """It has ended, and the kubelet will start it again."""


class InvalidChange(ValueError):
    """A change that cannot happen in that state."""


TRANSITIONS: Final[Mapping[tuple[StartState, ContainerChange], StartState]] = {
    (StartState.DOWNLOADING, ContainerChange.PULLED): StartState.BLOCKED,
    (StartState.BLOCKED, ContainerChange.FREED): StartState.PENDING,
    (StartState.PENDING, ContainerChange.HELD): StartState.BLOCKED,
    (StartState.PENDING, ContainerChange.GRANTED): StartState.STARTING,
    (StartState.STARTING, ContainerChange.SUCCEEDED): StartState.READY,
    (StartState.STARTING, ContainerChange.TIMED_OUT): StartState.FAILED,
    (StartState.FAILED, ContainerChange.SUCCEEDED): StartState.READY,
    (StartState.STARTING, ContainerChange.ENDED): StartState.BLOCKED,
    (StartState.READY, ContainerChange.ENDED): StartState.BLOCKED,
    (StartState.FAILED, ContainerChange.ENDED): StartState.BLOCKED,
}


def after(state: StartState, change: ContainerChange) -> StartState:
    """Return the state that a change leads to.

    Raises:
        InvalidChange: it cannot happen in that state.
    """
    try:
        return TRANSITIONS[state, change]
    except KeyError:
        raise InvalidChange(f"a container that is {state} cannot be {change}") from None
