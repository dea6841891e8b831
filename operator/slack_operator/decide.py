"""What to write so that the cluster follows a plan: a function of values, repeated until there is nothing to write.

Every step starts from what our own watch shows, so a crash after any of them is only a later start of the same
decision. Shrinking has two steps: victims get a deletion cost, and when the watch shows it, `replicas` is lowered
(references/slack-peers.md 6.2). Lowering comes before raising; the planner has seen to it that ceilings hold meanwhile.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slack.cluster.identity import deletion_cost
from slack.cluster.requests import RequestError, effective_requests
from slack.cluster.wire import OwnerReference, Pod, ReplicaSet
from slack.planner.manifests import ANNOTATION_SPEC, DELETION_COST, LABEL_POLICY, LABEL_SHAPE, replica_set_name
from slack.planner.outcome import PolicyPlan, ShapePlan
from slack.planner.policy import KIND
from slack.planner.shape import Shape

ANNOTATION_APPLIED = "resource-slack.io/applied"
"""Digest of the manifest without its count: tells whether an apply would change anything but the count."""
SHOW_SECONDS = 5.0
"""How long to wait until the watch shows the deletion costs; without them only the choice is not ours."""
LOWEST_COST = -1000
"""Karpenter takes a node for empty when its pods' costs are very low, so costs stay within a thousand."""

Manifest = dict[str, Any]
MakeManifest = Callable[[ShapePlan], Manifest]


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of a ReplicaSet."""

    manifest: Manifest
    before: int | None
    """spec.replicas as the watch shows it; None when the ReplicaSet is new."""
    after: int
    leaving: int = 0
    """How many bound placeholders go by it."""
    force: bool = False
    """Somebody has changed the template: take its fields back. The count is then the one that is there, so that it is
    not taken from whoever holds it."""
    why: str = ""
    """For the log."""

    @property
    def name(self) -> str:
        """The ReplicaSet's."""
        return str(self.manifest["metadata"]["name"])

    @property
    def shape(self) -> str:
        """The name of its shape."""
        return str(self.manifest["metadata"]["labels"][LABEL_SHAPE])


@dataclass(frozen=True, slots=True)
class SetCost:
    """Write a pod's deletion cost; None takes it away."""

    pod: str
    replica_set: str
    cost: int | None


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Delete a ReplicaSet, this very one."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a placeholder that real pods leave no room for, this very one."""

    name: str
    uid: str


Action = Apply | SetCost | DeleteSet | DeletePod


@dataclass(frozen=True, slots=True)
class Present:
    """What our watch shows in our namespace."""

    sets: Mapping[str, ReplicaSet]
    pods: Mapping[str, Pod]
    """Placeholders by name, those on their way out included."""

    def alive(self, replica_set: str) -> list[Pod]:
        """Return a ReplicaSet's pods that are not on their way out, by name."""
        return [
            self.pods[name]
            for name in sorted(self.pods)
            if self.pods[name].metadata.deletion_timestamp is None and owner_name(self.pods[name]) == replica_set
        ]


def owner_name(pod: Pod) -> str:
    """Give the name of the ReplicaSet that controls a pod."""
    owner = pod.metadata.controller()
    return owner.name if owner is not None else ""


def replicas_of(replica_set: ReplicaSet) -> int:
    """Give spec.replicas, whose default is 1."""
    replicas = replica_set.spec.replicas if replica_set.spec else None
    return 1 if replicas is None else replicas


def digest(manifest: Manifest) -> str:
    """Give the digest of a manifest without its count and without the digest itself."""
    spec = {key: value for key, value in manifest["spec"].items() if key != "replicas"}
    text = json.dumps({**manifest, "spec": spec}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(manifest: Manifest) -> Manifest:
    """Return the manifest with its digest as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_APPLIED: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def decide(
    plan: PolicyPlan,
    present: Present,
    *,
    owner_uid: str,
    manifest: MakeManifest,
    marked_since: Mapping[str, float],
    now: float,
) -> tuple[Action, ...]:
    """Work out the writes for one policy.

    Args:
        plan: what should be there.
        present: what is there.
        owner_uid: uid of the object that owns the policy's ReplicaSets; those of another owner are left alone.
        manifest: makes the ReplicaSet of a shape.
        marked_since: by ReplicaSet, when victims were first marked for the shrink that is under way.
        now: by the same monotonic clock.

    Returns:
        Writes in order; empty when the cluster is as planned, or when the plan may not be carried out.
    """
    if not plan.act or plan.dry_run:
        return ()
    first: list[Action] = []
    raising: list[Action] = []
    planned = {replica_set_name(plan.policy, shape.shape): shape for shape in plan.shapes}
    for name, shape in sorted(planned.items()):
        found = present.sets.get(name)
        if found is None:
            if shape.replicas > 0:
                raising.append(Apply(stamped(manifest(shape)), None, shape.replicas, why=_why_more(shape)))
            continue
        if not _ours(found, owner_uid) or found.metadata.deletion_timestamp is not None:
            continue
        wanted = stamped(manifest(shape))
        before = replicas_of(found)
        retired = before == shape.replicas == shape.count == 0
        if not retired and _template_drifted(found, shape.shape):
            why = "somebody had changed its template"
            first.append(Apply(_with_replicas(wanted, before), before, before, force=True, why=why))
        if shape.replicas < before:
            first += _shrink(shape, name, before, present, wanted, marked_since, now)
        elif shape.replicas > before:
            raising.append(Apply(wanted, before, shape.replicas, why=_why_more(shape)))
        elif retired and _empty(found, present):
            first.append(DeleteSet(name, found.metadata.uid or "", "retired"))
        else:
            if found.metadata.annotation(ANNOTATION_APPLIED) != wanted["metadata"]["annotations"][ANNOTATION_APPLIED]:
                raising.append(Apply(wanted, before, before, why="its manifest has changed"))
            first += _settle(name, before, present)
    for name, found in sorted(present.sets.items()):
        if found.metadata.label(LABEL_POLICY) != plan.policy or name in planned or not _ours(found, owner_uid):
            continue
        if found.metadata.deletion_timestamp is None:
            # the planner names every shape that it was told of, so this is one that cannot be read
            first.append(DeleteSet(name, found.metadata.uid or "", f"no shape in {ANNOTATION_SPEC}"))
    for name in plan.pushed_out:
        pod = present.pods.get(name)
        if (
            pod is not None
            and pod.metadata.deletion_timestamp is None
            and pod.metadata.label(LABEL_POLICY) == plan.policy
        ):
            first.append(DeletePod(name, pod.metadata.uid or ""))
    return (*first, *raising)


def _ours(replica_set: ReplicaSet, owner_uid: str) -> bool:
    """Whether it belongs to this very policy; one without an owner is taken in."""
    owner = replica_set.metadata.controller()
    return owner is None or owner.uid == owner_uid


def _template_drifted(replica_set: ReplicaSet, shape: Shape) -> bool:
    """Whether its new pods would be other than the shape that its name and annotation promise.

    The digest does not tell: who patches a template leaves our annotation as it was.
    """
    template = replica_set.spec.template if replica_set.spec else None
    spec = template.spec if template else None
    if spec is None or spec.priority_class_name != shape.priority_class_name:
        return True
    try:
        return effective_requests(spec) != dict(shape.requests)
    except RequestError:
        return True


def _with_replicas(manifest: Manifest, replicas: int) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def _empty(replica_set: ReplicaSet, present: Present) -> bool:
    left = replica_set.status.replicas if replica_set.status else None
    return not left and not any(owner_name(pod) == replica_set.metadata.name for pod in present.pods.values())


def _shrink(
    shape: ShapePlan,
    name: str,
    before: int,
    present: Present,
    wanted: Manifest,
    marked_since: Mapping[str, float],
    now: float,
) -> list[Action]:
    """Mark the victims that are not marked yet; lower the count once all are, or have had their time to show."""
    pods = {pod.metadata.name: pod for pod in present.alive(name)}
    bound = {pod_name for pod_name, pod in pods.items() if pod.spec and pod.spec.node_name}
    # the controller takes pending pods first, whatever their cost
    leaving = max(0, min(len(bound), len(pods) - shape.replicas - (len(pods) - len(bound))))
    victims = [victim for victim in shape.victims if victim in bound][:leaving]
    unmarked = [
        SetCost(victim, name, LOWEST_COST + rank)
        for rank, victim in enumerate(victims)
        if deletion_cost(pods[victim].metadata) >= 0
    ]
    if unmarked and now - marked_since.get(name, now) < SHOW_SECONDS:
        return list(unmarked)
    return [Apply(wanted, before, shape.replicas, leaving, why=_why_fewer(shape))]


def _why_more(shape: ShapePlan) -> str:
    held = "; more when others have given way or the autoscaler goes on" if shape.replicas < shape.count else ""
    return f"{shape.role} wants {shape.count}{held}"


def _why_fewer(shape: ShapePlan) -> str:
    if shape.retiring or shape.count == 0:
        return "its shape is no longer wanted"
    if shape.replicas < shape.count:
        return f"{shape.role} wants {shape.count}, but they are held back"
    return f"{shape.role} wants {shape.count}"


def _settle(name: str, replicas: int, present: Present) -> list[Action]:
    """Take left-over costs away once the controller has done what they were for."""
    pods = present.alive(name)
    if len(pods) > replicas:
        return []
    return [
        SetCost(pod.metadata.name, name, None)
        for pod in pods
        if pod.metadata.annotations and DELETION_COST in pod.metadata.annotations
    ]


def orphans(present: Present, policies: Mapping[str, str]) -> tuple[DeleteSet, ...]:
    """Find ReplicaSets that nobody else will take away.

    Args:
        present: what is there.
        policies: uid of the owner by name, for every policy that exists, whether it is good or bad.

    Returns:
        Those of a policy that is no more (the garbage collector does not get to them when the CRD has gone with it),
        and the built-in policy's when a SlackPolicy has its name.
    """
    found = []
    for name, replica_set in sorted(present.sets.items()):
        if replica_set.metadata.deletion_timestamp is not None:
            continue
        policy = replica_set.metadata.label(LABEL_POLICY)
        owner: OwnerReference | None = replica_set.metadata.controller()
        if policy in policies and (owner is None or owner.kind == KIND or owner.uid == policies[policy]):
            continue  # one of an earlier SlackPolicy of the same name is the garbage collector's
        found.append(DeleteSet(name, replica_set.metadata.uid or "", f"policy {policy!r} is no more"))
    return tuple(found)
