"""What one reconciliation saw and decided, as values: handed from step to step, and to those who only look on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from slack.cluster.snapshot import Workload
from slack.cluster.start_sketch import ReadyFigures
from slack.planner.model.result import PolicyPlan
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.policies import PolicyEntry
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.placeholders.view.instant_starts import Start


@dataclass(frozen=True, slots=True, eq=False)
class ObservedState:
    """What the step `observe` saw."""

    at: float
    """Unix time."""
    leading: bool
    entries: tuple[PolicyEntry, ...]
    """Every SlackPolicy."""
    observation: Observation | None = None
    """The cluster; None if something is missing."""
    stale: str | None = None
    """What is missing, so that nothing can be planned."""
    forbidden: bool = False
    """It is missing for lack of rights."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyPlans:
    """What the step `plan` decided: `items` are the plans of `policies`, in their order."""

    at: float
    """Unix time."""
    observation: Observation
    entries: tuple[PolicyEntry, ...]
    """Every SlackPolicy."""
    policies: tuple[PlannedPolicy, ...]
    items: tuple[PolicyPlan, ...]

    @property
    def pairs(self) -> Sequence[tuple[PlannedPolicy, PolicyPlan]]:
        """Return each policy with its plan."""
        return tuple(zip(self.policies, self.items, strict=True))

    @property
    def names(self) -> set[str]:
        """Return the names of all policies, of those without a plan too."""
        return {*(planned.policy.name for planned in self.policies), *(entry.name for entry in self.entries)}


PolicyStarts = Sequence[tuple[str, Start]]
"""Starts of real pods since the last reconciliation, each with the policy on whose nodes it was."""


@dataclass(frozen=True, slots=True, eq=False)
class Reconciliation:
    """One reconciliation. Nothing in it changes afterwards, so any thread may read it."""

    at: float
    """Unix time."""
    clock: float
    """The monotonic clock at the same moment, by which displacements are dated."""
    leading: bool
    stale: str | None = None
    """Why nothing could be planned; there is no observation then."""
    observation: Observation | None = None
    planned_policies: tuple[PlannedPolicy, ...] = ()
    items: tuple[PolicyPlan, ...] = ()
    """The plans of the planned policies, in their order; none while another process leads."""
    extra: Mapping[str, tuple[StatusCondition, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By policy: conditions beside the plan's, or in their place."""
    invalid: tuple[PolicyEntry, ...] = ()
    """Policies that never had a spec that can be used."""
    policy_of_node: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    instant: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By policy: the share of instant starts; absent before the first start."""
    spared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By policy: what its slack spared on the last day, in words; absent before the first start."""
    times_to_ready: Mapping[str, tuple[ReadyFigures, tuple[tuple[Workload, ReadyFigures], ...]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By policy: how long its pods take until they are Ready, and its slowest workloads; absent before the first."""
