"""Reading a ReplicaSet of ours back into the shape that it keeps, so that a restarted operator goes on (S2)."""

import msgspec

from slack.cluster.wire import ReplicaSet
from slack.planner.manifests import (
    ANNOTATION_RETIRING,
    ANNOTATION_ROLE,
    ANNOTATION_SPEC,
    LABEL_POLICY,
    LABEL_SHAPE,
)
from slack.planner.outcome import ExistingShape
from slack.planner.shape import Role, Shape


def existing_shape(replica_set: ReplicaSet) -> ExistingShape | None:
    """Return what a ReplicaSet of placeholders keeps; None for one that is not ours, or is being deleted.

    A ReplicaSet whose annotations were edited by hand, so that spec and label disagree, is not taken over: its pods are
    still counted as placeholders, and it goes with its policy.
    """
    metadata = replica_set.metadata
    text, policy = metadata.annotation(ANNOTATION_SPEC), metadata.label(LABEL_POLICY)
    if not text or not policy or metadata.deletion_timestamp is not None:
        return None
    try:
        shape = Shape.from_json(text)
        role = Role(metadata.annotation(ANNOTATION_ROLE))
    except (msgspec.DecodeError, ValueError):
        return None
    if shape.name != metadata.label(LABEL_SHAPE):
        return None
    replicas = replica_set.spec.replicas if replica_set.spec is not None else None
    return ExistingShape(
        policy=policy,
        shape=shape,
        role=role,
        replicas=1 if replicas is None else replicas,
        retiring=metadata.annotation(ANNOTATION_RETIRING) == "true",
    )
