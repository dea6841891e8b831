"""Which ReplicaSets are whose, and what shape each keeps: read back from name, labels, annotations and owner (S2).

So a restarted operator goes on where the last one stopped, and a dry run starts from what the operator would. What
cannot be read is no shape, and `decide` takes it away.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slack.cluster.labels import ANNOTATION_RETIRING, ANNOTATION_ROLE, ANNOTATION_SPEC, LABEL_PLACEHOLDER, LABEL_POLICY
from slack.cluster.wire import OwnReplicaSet, ReplicaSet
from slack.planner.model.result import ExistingShape, ShapePlan
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.manifests import replica_set_name
from slack.planner.policy.spec import KIND, Policy

BUILT_IN = Policy(name="default")
"""The policy while there is no SlackPolicy at all; it takes its rate from --extra-capacity-min-rate. Its
ReplicaSets belong to our PriorityClass."""
Owners = Mapping[str, str | None]
"""By policy that is planned for: the uid of the object that owns its ReplicaSets. None where nobody knows it, as for a
policy that is a file only: then the label alone decides."""
OWNER_KINDS = (KIND, "PriorityClass")
"""Whose a ReplicaSet of placeholders may be. One of another uid is an earlier owner's, and the garbage collector's;
whatever another kind of object controls has been adopted from us."""
AnyReplicaSet = ReplicaSet | OwnReplicaSet


def replicas_of(replica_set: AnyReplicaSet) -> int:
    """Give spec.replicas, whose default is 1."""
    replicas = replica_set.spec.replicas if replica_set.spec else None
    return 1 if replicas is None else replicas


def is_ours(replica_set: AnyReplicaSet) -> bool:
    """Whether a ReplicaSet of our namespace keeps placeholders: by its label, or by what else it has of us."""
    metadata = replica_set.metadata
    return metadata.label(LABEL_PLACEHOLDER) == "true" or bool(metadata.annotation(ANNOTATION_SPEC))


def is_owned(replica_set: AnyReplicaSet, owner_uid: str | None) -> bool:
    """Whether it belongs to this very owner; one that nobody controls, or that was adopted from us, is taken in."""
    owner = replica_set.metadata.controller()
    return owner is None or owner_uid is None or owner.uid == owner_uid or is_adopted(replica_set)


def is_adopted(replica_set: AnyReplicaSet) -> bool:
    """Whether another controller's object has made itself its owner."""
    owner = replica_set.metadata.controller()
    return owner is not None and owner.kind not in OWNER_KINDS


def policy_of(replica_set: AnyReplicaSet, owners: Owners) -> str:
    """Name the policy that a ReplicaSet belongs to: its owner's, whatever became of the label; else the label's."""
    uids = {reference.uid for reference in replica_set.metadata.owner_references or ()}
    owned_by = [policy for policy, uid in owners.items() if uid and uid in uids]
    return owned_by[0] if owned_by else replica_set.metadata.label(LABEL_POLICY)


def held_up(replica_set: OwnReplicaSet) -> tuple[str, ...]:
    """Name the finalizers for which a ReplicaSet that is deleted stays; those of the garbage collector pass by."""
    if replica_set.metadata.deletion_timestamp is None:
        return ()
    return tuple(name for name in replica_set.metadata.finalizers or () if name not in ("foregroundDeletion", "orphan"))


def existing_shape(replica_set: AnyReplicaSet, policy: str) -> ExistingShape | None:
    """Return what a policy's ReplicaSet keeps; None for one that is being deleted, or was edited by hand.

    Its name is what tells, for policy and shape are in it and nobody can change it. One whose annotations say something
    else is not taken over; its pods are still counted as placeholders.
    """
    metadata = replica_set.metadata
    if metadata.deletion_timestamp is not None:
        return None
    try:
        shape = Shape.from_json(metadata.annotation(ANNOTATION_SPEC))
        role = Role(metadata.annotation(ANNOTATION_ROLE))
    except (msgspec.DecodeError, ValueError):
        return None
    if replica_set_name(policy, shape) != metadata.name:
        return None
    retiring = bool(metadata.annotation(ANNOTATION_RETIRING))
    return ExistingShape(policy, shape, role, replicas_of(replica_set), retiring)


def existing_shapes(replica_sets: Iterable[AnyReplicaSet], owners: Owners) -> tuple[ExistingShape, ...]:
    """Return what a plan starts from, by name: the shapes of those ReplicaSets that belong to the policies.

    Args:
        replica_sets: all placeholders' in our namespace.
        owners: of the policies that are planned for.
    """
    found = []
    for replica_set in sorted(replica_sets, key=lambda replica_set: replica_set.metadata.name):
        policy = policy_of(replica_set, owners)
        if policy in owners and is_owned(replica_set, owners[policy]):
            found.append(existing_shape(replica_set, policy))
    return tuple(shape for shape in found if shape is not None)


def once_written(policy: str, plan: ShapePlan) -> ExistingShape:
    """Return what will be read back when a shape's plan has been carried out."""
    return ExistingShape(policy, plan.shape, plan.role, plan.replicas, plan.retiring)
