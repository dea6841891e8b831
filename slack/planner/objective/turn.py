"""What one turn of the loop saw of one policy: all that a learner is ever told. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slack.planner.objective.amount import Requests


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn of the loop saw of one policy."""

    at_seconds: float
    """Unix time."""
    requested: Requests
    """What its real pods request, pending ones included."""
    pods: int
    """How many these are."""
    window_seconds: float
    """The lead time, `LeadTimes.window_seconds`."""
    arrived: Mapping[Requests, int] = field(default_factory=dict)
    """Pods that have started since the last turn, by their requests."""
    started: int = 0
    """How many those are, without pods that no room could help."""
    late: int = 0
    """Those of them that did not start at once."""
