"""What is planned for: each policy with the object that owns its placeholders, and why it may not be acted upon.

Values only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slack.cluster.labels import API_VERSION, PRIORITY_CLASS
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.wire import PriorityClass
from slack.kube.apply import Json
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import Plan, PlannerState
from slack.planner.objective.amount import Amount
from slack.planner.objects.adoption import BUILT_IN, existing_shapes
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.plan import plan
from slack.planner.policy.spec import KIND, Policy
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.conditions import invalid
from slack_operator.placeholders.policies import PolicyEntry
from slack_operator.placeholders.view.cluster_view import Observation


@dataclass(frozen=True, slots=True)
class PlannedPolicy:
    """A policy that is planned for, and the object that owns its ReplicaSets."""

    entry: PolicyEntry
    policy: Policy
    owner: Json | None
    """ownerReference; None while the built-in policy's PriorityClass has not been seen."""

    refused: StatusCondition | None = None
    """Why this operator may not do what the policy asks for."""

    @property
    def blocked_condition(self) -> StatusCondition | None:
        """Say why it may not be acted upon, apart from what the plan says."""
        return invalid(self.entry) if self.entry.problems else self.refused


def planned_policies_of(
    entries: Sequence[PolicyEntry], classes: Mapping[str, PriorityClass], *, built_in: bool
) -> tuple[PlannedPolicy, ...]:
    """Return what to plan for: the good policies; while there is no SlackPolicy at all, what is asked for then.

    Args:
        entries: every SlackPolicy.
        classes: PriorityClasses by name.
        built_in: whether the built-in policy is asked for. Without it no policy means no slack: who deletes the last
            one wants to pay for none.
    """
    if not entries and not built_in:
        return ()
    if not entries:
        found = classes.get(PRIORITY_CLASS)
        owner = None
        if found is not None:
            owner = owner_reference("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS, found.metadata.uid or "")
        entry = PolicyEntry(BUILT_IN.name, "", 0, BUILT_IN, (), MappingProxyType({}))
        return (PlannedPolicy(entry, BUILT_IN, owner),)
    return tuple(
        PlannedPolicy(entry, entry.policy, owner_reference(API_VERSION, KIND, entry.name, entry.uid))
        for entry in entries
        if entry.policy is not None
    )


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """Give the ownerReference of a ReplicaSet: controlled, and not in the way of its owner's deletion."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def owners_of(planned_policies: Sequence[PlannedPolicy]) -> dict[str, str]:
    """Return the owners' uids by policy; a policy whose owner has not been seen has no ReplicaSets yet."""
    return {planned.policy.name: planned.owner["uid"] for planned in planned_policies if planned.owner is not None}


def plan_for(
    planned_policies: Sequence[PlannedPolicy],
    seen: Observation,
    *,
    now: float,
    state: PlannerState,
    default_rate: float,
    cache: PlanCache,
    objectives: Mapping[str, Amount] = MappingProxyType({}),
    prices: NodePrices = NO_PRICES,
) -> Plan:
    """Plan for them; the items are in their order."""
    return plan(
        seen.snapshot,
        [planned.policy for planned in planned_policies],
        now=now,
        existing=existing_shapes(seen.present.sets.values(), owners_of(planned_policies)),
        events=seen.autoscaler_events,
        state=state,
        default_rate=default_rate,
        priority_classes=PriorityClasses(seen.priority_classes, whole=True),
        cache=cache,
        objectives=objectives,
        prices=prices,
        pools=seen.pools,
        quotas=seen.quotas,
    )
