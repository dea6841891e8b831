"""What is planned for: each policy with the object that owns its placeholders, and why it may not be acted upon.

Values only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slack.cluster.wire import PriorityClass
from slack.kube.apply import Json
from slack.planner.manifests import PRIORITY_CLASS
from slack.planner.outcome import Condition
from slack.planner.policy import API_VERSION, KIND, Policy
from slack_operator.actuate import owner_reference
from slack_operator.adopt import BUILT_IN, priority_class_problem
from slack_operator.desired import PolicyEntry
from slack_operator.status import not_ready


@dataclass(frozen=True, slots=True)
class Subject:
    """A policy that is planned for, and the object that owns its ReplicaSets."""

    entry: PolicyEntry
    policy: Policy
    owner: Json | None
    """ownerReference; None while the built-in policy's PriorityClass has not been seen."""
    hindrance: Condition | None
    """Why it may not be acted upon, apart from what the plan says."""


def subjects_of(entries: Sequence[PolicyEntry], classes: Mapping[str, PriorityClass]) -> tuple[Subject, ...]:
    """Return what to plan for: the good policies, or the built-in one while there is no SlackPolicy at all."""
    if not entries:
        found = classes.get(PRIORITY_CLASS)
        owner = None
        if found is not None:
            owner = owner_reference("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS, found.metadata.uid or "")
        entry = PolicyEntry(BUILT_IN.name, "", 0, BUILT_IN, (), MappingProxyType({}))
        return (Subject(entry, BUILT_IN, owner, _hindrance(entry, BUILT_IN, classes)),)
    return tuple(
        Subject(
            entry,
            entry.policy,
            owner_reference(API_VERSION, KIND, entry.name, entry.uid),
            _hindrance(entry, entry.policy, classes),
        )
        for entry in entries
        if entry.policy is not None
    )


def _hindrance(entry: PolicyEntry, policy: Policy, classes: Mapping[str, PriorityClass]) -> Condition | None:
    if entry.problems:
        return invalid(entry)
    problem = priority_class_problem(policy.spec.priority_class_name, classes)
    return not_ready("BadPriorityClass", problem) if problem else None


def invalid(entry: PolicyEntry) -> Condition:
    """Give the condition of a policy whose spec cannot be used."""
    return not_ready("InvalidSpec", "; ".join(entry.problems))
