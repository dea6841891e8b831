"""What one turn of the loop saw and decided, as values: for those who only look on, such as the web page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slack.planner.outcome import Condition, PolicyPlan
from slack_operator.desired import PolicyEntry
from slack_operator.subjects import Subject
from slack_operator.view import Look


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One turn. Nothing in it changes afterwards, so any thread may read it."""

    at: float
    """Unix time."""
    clock: float
    """The monotonic clock at the same moment, by which displacements are dated."""
    leading: bool
    stale: str = ""
    """Why nothing could be planned; there is no look then."""
    look: Look | None = None
    subjects: tuple[Subject, ...] = ()
    items: tuple[PolicyPlan, ...] = ()
    """The plans of the subjects, in their order; none while another process leads."""
    extra: Mapping[str, tuple[Condition, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By policy: conditions beside the plan's, or in their place."""
    invalid: tuple[PolicyEntry, ...] = ()
    """Policies that never had a spec that can be used."""
    policy_of_node: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    instant: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By policy: the share of instant starts; absent before the first start."""
