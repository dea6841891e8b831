"""Where a node's agent stands after a turn."""

from collections.abc import Mapping
from dataclasses import dataclass

from slack.throttler.fsm import StartState


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStarts:
    """What is there now; metrics show it."""

    counts: Mapping[StartState, int]
    """Containers by state."""
    slots: int | None
    """None: no policy bounds them."""
    taken: int
    """Of the slots."""
    gates: int
    """That are connected."""
    refused: int
    """Gates that were not let in, since the agent began."""
    policy_known: bool
    blind: bool
    """Whether the pods that are known may not be those of the node any more."""
