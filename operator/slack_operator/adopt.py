"""Whose ReplicaSets are there: read back from their labels, annotations and owner, after a restart as at any time.

Values only. What cannot be read is no shape, and `decide` takes it away.
"""

import logging
from collections.abc import Mapping

import msgspec

from slack.cluster.wire import PriorityClass, ReplicaSet
from slack.planner.manifests import (
    ANNOTATION_RETIRING,
    ANNOTATION_ROLE,
    ANNOTATION_SPEC,
    LABEL_POLICY,
    PRIORITY_CLASS,
    replica_set_name,
)
from slack.planner.outcome import ExistingShape
from slack.planner.policy import Policy, PolicySpec
from slack.planner.shape import Role, Shape
from slack_operator.decide import replicas_of

log = logging.getLogger(__name__)

BUILT_IN = Policy(name="default", spec=PolicySpec())
"""The policy while there is no SlackPolicy at all; it takes its rate from --extra-capacity-min-rate."""


def existing_shape(replica_set: ReplicaSet) -> ExistingShape | None:
    """Read one ReplicaSet of ours; None when its annotations were tampered with."""
    metadata = replica_set.metadata
    policy = metadata.label(LABEL_POLICY)
    try:
        shape = Shape.from_json(metadata.annotation(ANNOTATION_SPEC))
        role = Role(metadata.annotation(ANNOTATION_ROLE))
    except (msgspec.DecodeError, ValueError):
        return None
    if replica_set_name(policy, shape) != metadata.name:
        return None
    retiring = bool(metadata.annotation(ANNOTATION_RETIRING))
    return ExistingShape(policy, shape, role, replicas_of(replica_set), retiring=retiring)


def existing_shapes(sets: Mapping[str, ReplicaSet], owners: Mapping[str, str]) -> tuple[ExistingShape, ...]:
    """Read all ReplicaSets that belong to the policies that are.

    Args:
        sets: by name.
        owners: uid of the owner by policy name.
    """
    found = []
    for name in sorted(sets):
        metadata = sets[name].metadata
        owner = metadata.controller()
        uid = owners.get(metadata.label(LABEL_POLICY))
        if uid is None or metadata.deletion_timestamp is not None or (owner is not None and owner.uid != uid):
            continue
        shape = existing_shape(sets[name])
        if shape is not None:
            found.append(shape)
    return tuple(found)


def priority_class_problem(name: str, classes: Mapping[str, PriorityClass]) -> str:
    """Say what is wrong with a policy's PriorityClass, '' when it will do or is ours to create.

    The value's range is the planner's to judge.
    """
    found = classes.get(name)
    if found is None:
        if name == PRIORITY_CLASS:
            return ""
        return f"spec.priorityClassName: there is no PriorityClass {name}; create it with a value from -10 to -1"
    if found.global_default:
        return f"spec.priorityClassName: {name} is the global default, so real pods have it too; use one that is not"
    if found.preemption_policy != "Never":
        return (
            f"spec.priorityClassName: {name} lets its pods preempt others; "
            f"placeholders need one with preemptionPolicy: Never"
        )
    return ""
