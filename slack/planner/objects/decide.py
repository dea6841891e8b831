"""What to write so that the cluster follows a plan: a function of values, repeated until there is nothing to write.

Every step starts from what our own watch shows, so a crash after any of them is only a later start of the same
decision. Shrinking has two steps: victims get a deletion cost, and when the watch shows it, `replicas` is lowered
(docs/decisions.md, "ReplicaSets"). What is pending goes before that and without marks, for each of it asks for a node.
Lowering comes before raising; the planner has seen to it that ceilings hold meanwhile. A ReplicaSet of ours that others
have changed is taken back in the same step, by force; what is to be left to them is the caller's to say.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from slack.cluster.identity import deletion_cost, owner_name
from slack.cluster.labels import (
    ANNOTATION_APPLIED,
    ANNOTATION_SPEC,
    FIELD_MANAGER,
    LABEL_POLICY,
)
from slack.cluster.wire import OwnerReference, OwnReplicaSet, Pod
from slack.planner.model.result import PolicyPlan, ShapePlan
from slack.planner.objects.actions import (
    Action,
    Apply,
    DeletePod,
    DeleteSet,
    Manifest,
    Present,
    SetCost,
    Stop,
    Taken,
)
from slack.planner.objects.adoption import is_adopted, is_owned, policy_of, replicas_of
from slack.planner.objects.drift import (
    OwnedField,
    changed_by_others,
    changed_fields,
    holder_of,
    is_suspended_by_operator,
    left_as_found,
    restoring_patch,
)
from slack.planner.objects.manifests import replica_set_name
from slack.planner.policy.spec import KIND
from slack.planner.removal.ordering import marked_first, newest_first
from slack.planner.removal.reasons import (
    MOST,
    FailedPlaceholder,
    RemovalReason,
    ReplicaSetFacts,
    find_removals,
    maker_of,
    nobodys,
    running_away,
    select_ended,
    strays,
    undisplaceable,
)

SHOW_SECONDS = 5.0
"""How long to wait until the watch shows the deletion costs; without them only the choice is not ours."""
LOWEST_COST = -1000
"""Karpenter takes a node for empty when its pods' costs are very low, so costs stay within a thousand."""

MakeManifest = Callable[[ShapePlan], Manifest]
Held = Mapping[str, frozenset[OwnedField]]
"""By ReplicaSet: what of it is left to those who keep on writing it, or as admission makes it."""
NOBODY_KNOWN = "an unknown writer"
"""Where managedFields do not say who it was."""


class Step(StrEnum):
    """What a ReplicaSet needs, in the order of carrying out: room is given back before more is asked for."""

    LOWER = "lower"
    RETIRED = "retired"
    """Given up, and down to nothing: it goes as soon as it has no pods."""
    KEEP = "keep"
    RAISE = "raise"

    @property
    def order(self) -> int:
        """Position among the steps of one policy."""
        return list(Step).index(self)


def step_of(shape: ShapePlan, before: int | None) -> Step:
    """Compare a shape's plan with spec.replicas as it is; None where there is no ReplicaSet."""
    if shape.replicas > (before or 0):
        return Step.RAISE
    if before is None:
        return Step.KEEP
    if shape.replicas < before:
        return Step.LOWER
    return Step.RETIRED if before == shape.count == 0 else Step.KEEP


def victim_costs(victims: Sequence[str]) -> dict[str, int]:
    """Give the deletion costs of the pods that should leave first, in order."""
    return {name: LOWEST_COST + rank for rank, name in enumerate(victims)}


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
    held: Held = MappingProxyType({}),
) -> tuple[Action, ...]:
    """Work out the writes for one policy.

    Args:
        plan: what should be there.
        present: what is there.
        owner_uid: uid of the object that owns the policy's ReplicaSets; those of an earlier owner are left alone.
        manifest: makes the ReplicaSet of a shape.
        marked_since: by ReplicaSet, when victims were first marked for the shrink that is under way.
        now: by the same monotonic clock.
        held: what is not taken back.

    Returns:
        Writes in order; empty when the cluster is as planned. When the plan may not be carried out only those that
        take placeholders away which real pods cannot displace.
    """
    if plan.dry_run:
        return ()
    if not plan.act:
        return _harmless(plan, present, owner_uid, manifest)
    first, raising, pushed_out = list[Action](), list[Action](), frozenset(plan.pushed_out)
    planned = {replica_set_name(plan.policy, shape.shape): _careful(shape) for shape in plan.shapes}
    for name, shape in sorted(planned.items()):
        found = present.sets.get(name)
        if found is None:
            if step_of(shape, None) is Step.RAISE:
                raising.append(Apply(stamped(manifest(shape)), None, shape.replicas, why=_why_more(shape)))
        elif is_owned(found, owner_uid) and found.metadata.deletion_timestamp is None:
            parts = held.get(name, frozenset())
            lower, more = _keep(
                shape, name, found, present, stamped(manifest(shape)), parts, marked_since, now, pushed_out
            )
            first += lower
            raising += more
    first += _deletions_of_unreadable(plan, present, owner_uid, planned)
    # Before any count is lowered: what a controller makes for them until then is pending, and goes first.
    deleted = {action.name for action in first if isinstance(action, DeletePod)}
    leaving = _deletions_of_pushed_out(plan, present, deleted)
    deleted |= pushed_out
    kept = [shape.shape.name for shape in plan.shapes if shape.replicas > 0 or shape.count > 0]
    lost = strays(present.pods, plan.policy, kept, present.sets)
    first += _lost((pod for pod in lost if pod.metadata.name not in deleted), RemovalReason.LOST)
    return (*leaving, *first, *raising)


def decided_by(plan: PolicyPlan) -> tuple[object, ...]:
    """Return all that `decide` reads of a plan, to be compared with that of another.

    What counts pods, and thus changes while a burst arrives, is none of it.
    """
    shapes = tuple(
        (shape.shape, shape.role, shape.count, shape.replicas, shape.retiring, shape.victims, shape.at_first)
        for shape in plan.shapes
    )
    return plan.policy, plan.dry_run, plan.act, plan.pushed_out, shapes


def _deletions_of_pushed_out(plan: PolicyPlan, present: Present, deleted: Container[str]) -> list[Action]:
    """Delete the placeholders that real pods leave no room for on their node, beside those that are deleted anyway."""
    pods = [(name, pod) for name in plan.pushed_out if (pod := present.pods.get(name)) is not None]
    return [
        DeletePod(name, pod.metadata.uid or "", RemovalReason.PUSHED_OUT)
        for name, pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.metadata.label(LABEL_POLICY) == plan.policy
        and name not in deleted
    ]


def _deletions_of_unreadable(
    plan: PolicyPlan, present: Present, owner_uid: str, planned: Container[str]
) -> list[Action]:
    """Delete ReplicaSets whose shape cannot be read: the planner names every other one."""
    return [
        DeleteSet(name, found.metadata.uid or "", f"no shape in {ANNOTATION_SPEC}")
        for name, found in sorted(present.sets.items())
        if found.metadata.label(LABEL_POLICY) == plan.policy
        and name not in planned
        and is_owned(found, owner_uid)
        and found.metadata.deletion_timestamp is None
        and not is_adopted(found)
    ]


def _harmless(plan: PolicyPlan, present: Present, owner_uid: str, manifest: MakeManifest) -> tuple[Action, ...]:
    """Take away what real pods cannot displace, and let no controller make more of it."""
    actions: list[Action] = []
    for shape in plan.shapes:
        name = replica_set_name(plan.policy, shape.shape)
        found = present.sets.get(name)
        if found is None or not is_owned(found, owner_uid) or found.metadata.deletion_timestamp is not None:
            continue
        pods = present.alive(name)
        if harmful := undisplaceable(pods):
            before, left = replicas_of(found), len(pods) - len(harmful)
            if left < before:
                wanted = _with_replicas(stamped(manifest(shape)), left)
                actions.append(Apply(wanted, before, left, 0, RemovalReason.UNDISPLACEABLE))
            actions += _deletions(harmful, dict.fromkeys(_names(harmful), RemovalReason.UNDISPLACEABLE))
    return tuple(actions)


def _careful(shape: ShapePlan) -> ShapePlan:
    """Under a ceiling the first placeholder shows what admission adds to each, before there are more."""
    return shape if shape.at_first is None else replace(shape, replicas=shape.at_first)


def _keep(
    shape: ShapePlan,
    name: str,
    found: OwnReplicaSet,
    present: Present,
    manifest: Manifest,
    held: frozenset[OwnedField],
    marked_since: Mapping[str, float],
    now: float,
    pushed_out: Collection[str],
) -> tuple[list[Action], list[Action]]:
    """Hold one ReplicaSet of ours to its plan; returns what comes first, and what asks for more."""
    before = replicas_of(found)
    harmful = undisplaceable(present.alive(name))
    if stopped := bool(held & {OwnedField.PRIORITY, OwnedField.LOST}):  # others would go the same way
        good = len(_matching(present.alive(name), manifest)) - len(harmful)
        shape, held = replace(shape, replicas=max(min(shape.replicas, good), 0)), held - {OwnedField.REPLICAS}
    step = Step.KEEP if OwnedField.REPLICAS in held else step_of(shape, before)
    if step is Step.RETIRED and _empty(found, present):
        return [DeleteSet(name, found.metadata.uid or "", RemovalReason.RETIRED)], []
    pods = present.alive(name)
    form = shape.shape.form
    replaces = OwnedField.PODS not in held and form.deletes_changed(retiring=shape.retiring)
    gone = find_removals(pods, ReplicaSetFacts(shape.shape, pushed_out, replaces))
    target, leaving, marks = before, 0, list[Action]()
    if step is Step.LOWER and stopped:
        target = shape.replicas  # those that leave are deleted below, in the same turn
    elif step is Step.LOWER:
        staying = [pod for pod in pods if pod.metadata.name not in gone]  # the others need no marks to go first
        raised = holder_of(found, OwnedField.REPLICAS, FIELD_MANAGER) is not None
        patient = OwnedField.COST not in held
        target, leaving, marks = _shrink(
            shape, name, before, staying, marked_since, now, raised=raised, patient=patient
        )
    elif step is Step.RAISE:
        target = shape.replicas
    elif not held & {OwnedField.REPLICAS, OwnedField.COST}:
        marks = _settle(name, before, pods)
    parts = changed_fields(manifest, found) - held
    writes: list[Action] = []
    if parts or target != before:
        wanted = left_as_found(_with_replicas(manifest, target), found, before, held)
        patch = restoring_patch(manifest, found, parts)
        taken = _taken(found, manifest, parts, recounted=target != before)
        why = _why_more(shape) if step is Step.RAISE else _why_fewer(shape) if step is Step.LOWER else "as planned"
        writes.append(Apply(wanted, before, target, leaving, why, taken, patch, found.metadata.uid or ""))
    counted = ReplicaSetFacts(
        shape.shape, target=None if OwnedField.REPLICAS in held else target, is_lowered=before <= target
    )
    deletions = _deletions(pods, find_removals(pods, counted, gone))
    if form.stops_runaways and OwnedField.REPLICAS not in held and running_away(pods, before, shape.replicas):
        writes.insert(0, Stop(shape.shape.priority_class_name))
    if target > before or step is Step.KEEP:
        return [*deletions, *marks], writes
    return [*writes, *deletions, *marks], []


def _taken(
    found: OwnReplicaSet, manifest: Manifest, parts: frozenset[OwnedField], *, recounted: bool
) -> tuple[Taken, ...]:
    """Say what a write takes back, and from whom. A count is another's when another holds it."""
    others = changed_by_others(manifest, found)
    if is_suspended_by_operator(found):
        parts -= {OwnedField.TEMPLATE}
    taken = [
        Taken(part, holder_of(found, part, FIELD_MANAGER) or NOBODY_KNOWN)
        for part in sorted(parts)
        if others or part is OwnedField.OWNER
    ]
    if recounted and (holder := holder_of(found, OwnedField.REPLICAS, FIELD_MANAGER)) is not None:
        taken.append(Taken(OwnedField.REPLICAS, holder))
    return tuple(taken)


def _names(pods: Iterable[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def _deletions(pods: Iterable[Pod], removals: Mapping[str, RemovalReason]) -> list[Action]:
    """Delete pods of one ReplicaSet in the order of `removals`; those that are pushed out are deleted before all."""
    by_name = {pod.metadata.name: pod for pod in pods} if removals else {}
    found: list[Action] = [
        DeletePod(name, by_name[name].metadata.uid or "", reason, owner_name(by_name[name]))
        for name, reason in removals.items()
        if reason is not RemovalReason.PUSHED_OUT
    ]
    return found[:MOST]


def _matching(pods: Iterable[Pod], manifest: Manifest) -> list[Pod]:
    """Return those that their ReplicaSet's controller will not let go."""
    labels = manifest["spec"]["selector"]["matchLabels"].items()
    return [pod for pod in pods if all(pod.metadata.label(key) == value for key, value in labels)]


def _lost(pods: Iterable[Pod], reason: RemovalReason) -> list[Action]:
    """Delete placeholders that have lost their ReplicaSet; the name still tells which it was."""
    gone = list(pods)[:MOST]
    return [DeletePod(pod.metadata.name, pod.metadata.uid or "", reason, maker_of(pod)) for pod in gone]


def _with_replicas(manifest: Manifest, replicas: int) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def _empty(replica_set: OwnReplicaSet, present: Present) -> bool:
    left = replica_set.status.replicas if replica_set.status else None
    return not left and not any(owner_name(pod) == replica_set.metadata.name for pod in present.pods.values())


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec and pod.spec.node_name)


def _shrink(
    shape: ShapePlan,
    name: str,
    before: int,
    pods: Sequence[Pod],
    marked_since: Mapping[str, float],
    now: float,
    *,
    raised: bool,
    patient: bool,
) -> tuple[int, int, list[Action]]:
    """Say how low the count may go now, how many bound placeholders leave by that, and which victims to mark first.

    What is not bound goes at once, for the controller takes it first, whatever its cost; bound ones go when all victims
    are marked, or have had their time to show. Where somebody has raised the count, those that came last leave. Without
    patience, as where somebody else writes the costs, nothing is marked and the choice is the controller's.
    """
    bound = {pod.metadata.name: pod for pod in pods if _is_bound(pod)}
    leaving = max(0, len(bound) - shape.replicas)
    order = [pod.metadata.name for pod in newest_first(bound.values())] if raised else shape.victims
    marked = {name: cost for name, pod in bound.items() if (cost := deletion_cost(pod.metadata)) < 0}
    victims = [victim for victim in marked_first(marked, order) if victim in bound][:leaving]
    unmarked = [
        SetCost(victim, name, cost)
        for victim, cost in victim_costs(victims).items()
        if deletion_cost(bound[victim].metadata) >= 0
    ]
    if unmarked and patient and now - marked_since.get(name, now) < SHOW_SECONDS:
        return min(before, max(shape.replicas, len(bound))), 0, list(unmarked)
    return shape.replicas, leaving, []


def _why_more(shape: ShapePlan) -> str:
    held = "; more when others have given way or the autoscaler goes on" if shape.replicas < shape.count else ""
    held = "; the first one shows what admission adds to it" if shape.at_first is not None else held
    return f"{shape.role} wants {shape.count}{held}"


def _why_fewer(shape: ShapePlan) -> str:
    if shape.retiring or shape.count == 0:
        return "its shape is no longer wanted"
    if shape.replicas < shape.count:
        return f"{shape.role} wants {shape.count}, but they are held back"
    return f"{shape.role} wants {shape.count}"


def _settle(name: str, replicas: int, pods: Sequence[Pod]) -> list[Action]:
    """Take our left-over costs away once the controller has done what they were for.

    A cost that is not one of ours is somebody else's, who may give one to every pod: it stands.
    """
    if len(pods) > replicas:
        return []
    return [SetCost(pod.metadata.name, name, None) for pod in pods if LOWEST_COST <= deletion_cost(pod.metadata) < 0]


def orphans(present: Present, policies: Mapping[str, str]) -> tuple[Action, ...]:
    """Find ReplicaSets and placeholders that nobody else will take away.

    Args:
        present: what is there.
        policies: uid of the owner by name, for every policy that exists, whether it is good or bad.

    Returns:
        ReplicaSets of a policy that is no more (the garbage collector does not get to them when the CRD has gone with
        it), and the built-in policy's when a SlackPolicy has its name; pods without an owner that name no policy.
    """
    found: list[Action] = []
    for name, replica_set in sorted(present.sets.items()):
        if replica_set.metadata.deletion_timestamp is not None or is_adopted(replica_set):
            continue
        policy = policy_of(replica_set, policies)
        owner: OwnerReference | None = replica_set.metadata.controller()
        if policy in policies and (owner is None or owner.kind == KIND or owner.uid == policies[policy]):
            continue  # one of an earlier SlackPolicy of the same name is the garbage collector's
        found.append(DeleteSet(name, replica_set.metadata.uid or "", f"policy {policy!r} is no more"))
    found += _lost(nobodys(present.pods, policies, present.sets), RemovalReason.NOBODYS)
    return tuple(found)


def deletions_of_ended(failed: Iterable[FailedPlaceholder], dry: Container[str]) -> tuple[DeletePod, ...]:
    """Delete placeholders that have ended, as many as one turn may; none of policies that write nothing."""
    return tuple(
        DeletePod(each.name, each.uid, RemovalReason.ENDED, each.replica_set, each.cause)
        for each in select_ended(failed, dry)
    )
