"""Explain: which placeholders make room for a workload's next pod, or why none does. Pure.

Reads a snapshot and the plan made of it; decides no placement anew. Whatever the plan has not covered gets a reason:
the planner's own words where it has some, else one that is worked out here.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from slack.cluster.classes import admits, reason_against
from slack.cluster.hold import Hold, ReleaseNodes
from slack.cluster.snapshot import Amounts, IntArray, Snapshot, Workload
from slack.cluster.unchecked import Unchecked, unchecked
from slack.cluster.wire import ResourceQuota
from slack.errors import UserFacingError
from slack.planner.burst_eviction.admission import Quotas
from slack.planner.domain.counting import counting_of
from slack.planner.domain.host_names import HOST_REFUSED
from slack.planner.domain.kept_off import kept_off, who_keeps_off
from slack.planner.domain.membership import Domain, divide
from slack.planner.domain.unseen_resources import NOWHERE, named, widened
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import SHORT_KIND
from slack.planner.model.result import ConditionType, Plan, PolicyPlan, ShapePlan
from slack.planner.model.shape import Role, amounts
from slack.planner.objects.manifests import PRIORITY
from slack.planner.policy.spec import CoverMode, Policy
from slack.planner.wanted.mirror_template import reservations
from slack.planner.wanted.preemption_blockers import PreemptionBlocker, preemption_blockers, why_no_node_left

KINDS: Mapping[str, str] = {
    name: kind
    for kind, names in {
        "deploy": "deploy deployment deployments deployment.apps deployments.apps",
        "rs": "rs replicaset replicasets replicaset.apps replicasets.apps",
        "sts": "sts statefulset statefulsets statefulset.apps statefulsets.apps",
        "ds": "ds daemonset daemonsets daemonset.apps daemonsets.apps",
        "job": "job jobs job.batch jobs.batch",
        "cronjob": "cronjob cronjobs cj cronjob.batch cronjobs.batch",
        "pod": "pod pods po",
        "rollout": "rollout rollouts ro rollout.argoproj.io rollouts.argoproj.io",
        "dc": "dc deploymentconfig deploymentconfigs deploymentconfig.apps.openshift.io",
        "ksvc": "ksvc service.serving.knative.dev services.serving.knative.dev",
        "lws": "lws leaderworkerset leaderworkersets leaderworkerset.leaderworkerset.x-k8s.io",
        "raycluster": "raycluster rayclusters rayclusters.ray.io rayservice rayservices rayservices.ray.io "
        "rayjob rayjobs rayjobs.ray.io",
        "actpool": "actpool activationpool activationpools activationpools.resource-slack.io",
    }.items()
    for name in names.split()
}
"""Kinds as kubectl takes them, to the names that workloads have in a snapshot."""
_OWNERS = {"rs": ("deploy",), "job": ("cronjob",)}
"""What may have made an object of a kind; a pod may be anybody's."""
_NODES_SHOWN = 5
_UNCHECKED: Mapping[Unchecked, str] = {
    Unchecked.DEVICE_CLAIMS: "it claims devices (spec.resourceClaims), which are not checked",
    Unchecked.CLAIMED_RESOURCES: "device claims serve extended resources that it requests, which is not checked",
    Unchecked.VOLUME_CLAIMS: (
        "it claims volumes (spec.volumes), whose zones and nodes, and how many a node can attach, are not checked"
    ),
    Unchecked.HOST_PORTS: "it takes host ports, which are not checked",
    Unchecked.SPREAD: "it has hard topology spread (spec.topologySpreadConstraints), which is not checked",
    Unchecked.AFFINITY: "it requires affinity to other pods (spec.affinity.podAffinity), which is not checked",
    Unchecked.ANTI_AFFINITY: (
        "it requires anti-affinity to other pods (spec.affinity.podAntiAffinity), which is not checked on each node"
    ),
    Unchecked.AVOIDED: "which running pods avoid it by required anti-affinity: too many labels or terms to compare",
}
_QUOTAS_UNREAD = "whether ResourceQuotas of its namespace admit a further pod: they cannot be read here"


class NotFoundError(UserFacingError, LookupError):
    """No pod of the workload is in the snapshot; the text names what is close."""


@dataclass(frozen=True, slots=True)
class HeldCapacity:
    """Placeholders of one shape whose place a pod of the workload could take."""

    policy: str
    shape: str
    role: str
    requests: tuple[tuple[str, int], ...]
    count: int
    bound: int
    pending: int
    nodes: tuple[tuple[str, int], ...]
    """Nodes on which they stand now, with how many."""
    unbound: bool = False
    """No scheduler binds them: `bound` have capacity on these nodes, which is free."""
    avoided: int = 0
    """Of `bound`, those on nodes off which required anti-affinity of other pods keeps a pod of the workload."""
    made_as: str = ""
    """Of mirrors: what says how large they are, a live pod or the workload's template; '' for other placeholders."""
    release_nodes: ReleaseNodes | None = None
    """How nodes that must go are released from them; None for bound ones, and where that is not known."""


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """The answer for one workload."""

    workload: str
    pods: int
    """Running and pending, without those behind scheduling gates."""
    requests: tuple[tuple[str, int], ...]
    """Of one pod; of the largest by cpu where they differ."""
    rooms: tuple[HeldCapacity, ...]
    reasons: tuple[str, ...]
    """Why there is no room kept for it, or for some of its pods."""
    warnings: tuple[str, ...]
    """What keeps it from using the room all the same."""
    unknown: tuple[str, ...] = ()
    """What may keep it from using the room, and is not checked."""
    cut: tuple[str, ...] = ()
    """By policy, why it gets less than it reserves by annotation, where it gets some."""

    @property
    def ready(self) -> bool:
        """Whether a placeholder that is bound now makes room for it, and all that decides about it was checked."""
        return any(room.bound > room.avoided for room in self.rooms) and not self.warnings and not self.unknown


def target(kind: str, name: str, namespace: str) -> Workload:
    """Return the workload that `deploy/api` in a namespace names.

    A kind that is not among `KINDS` stays as it is: a custom owner's kind is known by its pods only.
    """
    given = kind.lower()
    return Workload(namespace, KINDS.get(given) or KINDS.get(given.partition(".")[0]) or given.partition(".")[0], name)


def explain(
    snapshot: Snapshot,
    plan: Plan,
    policies: Sequence[Policy],
    wanted: Workload,
    *,
    priorities: Mapping[str, int],
    quotas: Sequence[ResourceQuota] | None = (),
) -> WorkloadExplanation:
    """Explain one workload.

    Args:
        snapshot: the cluster that the plan was made of.
        plan: its plan.
        policies: what the plan was made for.
        wanted: as `target` gives it.
        priorities: values of PriorityClasses by name.
        quotas: ResourceQuotas of its namespace, those of others are passed over; None where they cannot be read.

    Raises:
        NotFoundError: when nothing of that name is there, or nobody knows the kind.
    """
    snapshot = widened(snapshot, named(policies, (shape.shape for item in plan.items for shape in item.shapes)))
    workload, everything = _find(snapshot, wanted, _pools_of(plan))
    rows, gated = _without_gated(snapshot, everything)
    domains = divide(snapshot, policies)
    found = _rooms(snapshot, plan, domains, workload, rows)
    hindered = _hindrances_by_policy(snapshot, domains, [room for room, _ in found], rows, priorities)
    if not all(hindered.values()):
        # Where one policy's room can be used, that which cannot is none.
        found = [(room, held) for room, held in found if not hindered[room.policy]]
    rooms = [room for room, _ in found]
    covered = {row for _, held in found for row in held}
    reasons = [_reason_beside_the_plan(snapshot, plan, domains, workload, row) for row in rows if row not in covered]
    reasons += _why_none(plan, workload, gated=gated, is_known=bool(rows or rooms))
    warnings = [text for room in rooms for text in hindered[room.policy]]
    warnings += _avoided(snapshot, domains, rooms, rows)
    if not reasons and any(snapshot.kinds.gang[row] for row in rows):
        # Room for one of its pods is none for a gang that does not fit whole: what the plan says of it comes along.
        warnings += _said(plan, {str(workload)})
    # Gated pods are not among its pods: their size is told only where it has no others.
    requests = _requests_of(snapshot, workload, rows or everything)
    refused, unsure = _by_quotas(quotas, workload, requests) if rooms else ((), ())
    return WorkloadExplanation(
        workload=str(workload),
        pods=int(sum(snapshot.kinds.running[row] + snapshot.kinds.pending[row] for row in rows)),
        requests=requests,
        rooms=tuple(rooms),
        reasons=tuple(dict.fromkeys(reasons)),
        warnings=tuple(dict.fromkeys([*warnings, *refused])),
        unknown=(*_unknown(snapshot, rows, rooms), *unsure) if rooms else (),
        cut=_cut(plan, workload) if rooms else (),
    )


def _why_none(plan: Plan, workload: Workload, *, gated: int, is_known: bool) -> list[str]:
    """Say why no capacity is kept for gated pods, or for a workload that has neither pods nor placeholders."""
    if gated:
        return [
            f"{gated} of its pods are behind scheduling gates: no capacity is kept for them until the gates are removed"
        ]
    if is_known:
        return []
    return ["; ".join(_said(plan, {str(workload)})) or "it has no pods now and no placeholder is kept for it"]


def _rooms(
    snapshot: Snapshot, plan: Plan, domains: Sequence[Domain], workload: Workload, rows: Sequence[int]
) -> list[tuple[HeldCapacity, set[int]]]:
    """Return the placeholders that are for a workload, or that hold one of its pods, and the rows of these pods."""
    found: list[tuple[HeldCapacity, set[int]]] = []
    for item, domain in zip(plan.items, domains, strict=True):
        for shape in item.shapes:
            held = _held(snapshot, item, domain, shape, workload, rows)
            if held or (_is_for(shape, workload) and not shape.retiring):
                found.append((_room(snapshot, item, domain.policy, shape, held or rows), held))
    return found


def _hindrances_by_policy(
    snapshot: Snapshot,
    domains: Sequence[Domain],
    rooms: Sequence[HeldCapacity],
    rows: Sequence[int],
    priorities: Mapping[str, int],
) -> dict[str, tuple[str, ...]]:
    """Return what keeps the pods out of the placeholders of each policy that has some for them."""
    holders = {room.policy for room in rooms}
    mirrored = any(Role(room.role).for_named for room in rooms)
    return {
        domain.policy.name: _hindrances(snapshot, domain, rows, priorities, mirrored=mirrored)
        for domain in domains
        if domain.policy.name in holders
    }


def _requests_of(snapshot: Snapshot, workload: Workload, rows: Sequence[int]) -> Amounts:
    """Return what the largest of these pods requests; without pods, what the workload's template does."""
    kinds = snapshot.kinds
    largest = max(rows, key=lambda row: (int(kinds.requests[row, 0]), int(kinds.requests[row, 1])), default=None)
    if largest is not None:
        return _requested(snapshot, kinds.requests[largest], kinds.unoffered[largest])
    reserved = next((owner for owner in snapshot.reserved if owner.workload == workload), None)
    return () if reserved is None else _requested(snapshot, reserved.requests, reserved.unoffered)


def _cut(plan: Plan, workload: Workload) -> tuple[str, ...]:
    return tuple(
        f"policy {item.policy}: {cut.reason}" for item in plan.items for cut in item.cut if str(cut) == str(workload)
    )


def _unknown(snapshot: Snapshot, rows: Sequence[int], rooms: Sequence[HeldCapacity]) -> tuple[str, ...]:
    """Say on what else it depends whether these pods can take the room."""
    kinds = snapshot.kinds
    # The scheduler keeps bound mirrors off the nodes that the workload's own pods avoid; nobody does so for others.
    apart = all(room.role == Role.MIRROR and not room.unbound for room in rooms)
    found = {
        part
        for row in rows
        for part in unchecked(
            kinds.unchecked[row], snapshot.constraints[int(kinds.constraint_id[row])], kept_apart=apart
        )
        # Who avoids it is looked at node by node.
        if part is not Unchecked.AVOIDED or snapshot.avoided[row] is None
    }
    return tuple(text for part, text in _UNCHECKED.items() if part in found)


def _avoided(
    snapshot: Snapshot, domains: Sequence[Domain], rooms: Sequence[HeldCapacity], rows: Sequence[int]
) -> tuple[str, ...]:
    """Say that other pods' anti-affinity keeps the workload's pods off all of the room."""
    off = kept_off(snapshot, rows)
    if not rooms or not off.any():
        return ()
    holders = {room.policy for room in rooms}
    own = np.any([domain.eligible for domain in domains if domain.policy.name in holders], axis=0)
    bound, who = sum(room.bound for room in rooms), who_keeps_off(snapshot, rows)
    if bound and bound == sum(room.avoided for room in rooms):
        return (f"required anti-affinity of {who} keeps its pods off the nodes of these placeholders",)
    if not (own & ~off).any():
        return (f"required anti-affinity of {who} keeps its pods off every node of the policy",)
    return ()


def _by_quotas(
    quotas: Sequence[ResourceQuota] | None, workload: Workload, requests: Amounts
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which ResourceQuotas admit no further pod, and of which that is not known."""
    if quotas is None:
        return (), (_QUOTAS_UNREAD,)
    return Quotas(quotas).against(workload.namespace, dict(requests))


def _requested(snapshot: Snapshot, vector: IntArray, unoffered: Amounts) -> Amounts:
    """Return all that a pod requests, what no node has included."""
    dense = ((name, amount) for name, amount in amounts(vector, snapshot.resources) if name != NOWHERE)
    return tuple(sorted((*dense, *unoffered)))


def _pools_of(plan: Plan) -> set[Workload]:
    """Return the pools that a plan names: they may have no pods now."""
    names = {name for item in plan.items for shape in item.shapes for name in shape.workloads}
    names |= {uncovered.pod for item in plan.items for uncovered in item.uncovered}
    parts = (name.split("/") for name in names)
    return {Workload(*part) for part in parts if len(part) == 3 and part[1] == SHORT_KIND}


def _find(snapshot: Snapshot, wanted: Workload, pools: set[Workload]) -> tuple[Workload, list[int]]:
    """Return the workload as the snapshot has it, with its rows of `kinds`; a pod stands for its workload."""
    kinds = snapshot.kinds
    known = {*kinds.workloads, *pools, *(owner.workload for owner in snapshot.reserved)}
    singular = Workload(wanted.namespace, wanted.kind.removesuffix("s"), wanted.name)
    if wanted not in known and singular in known:  # a custom kind's plural
        wanted = singular
    workload: Workload | None = wanted
    if wanted.kind == "pod":
        pod = f"{wanted.namespace}/{wanted.name}"
        workload = next(
            (w for w, example in zip(kinds.workloads, kinds.example, strict=True) if example == pod), wanted
        )
    if workload not in known:
        # Pods, jobs and ReplicaSets are named after what made them; the longest such name is the owner.
        owners = [
            w
            for w in known
            if w.namespace == wanted.namespace
            and (w.kind != "pod" if wanted.kind == "pod" else w.kind in _OWNERS.get(wanted.kind, ()))
            and wanted.name.startswith(f"{w.name}-")
        ]
        workload = max(owners, key=lambda w: (len(w.name), w), default=None)
    if workload is None:
        raise NotFoundError(_not_found(wanted, known))
    return workload, [row for row, owner in enumerate(kinds.workloads) if owner == workload]


def _without_gated(snapshot: Snapshot, rows: Sequence[int]) -> tuple[list[int], int]:
    """Return the rows of pods that a scheduler considers, and how many pods the others are."""
    gated = snapshot.kinds.gated
    return [row for row in rows if not gated[row]], int(sum(gated[row] for row in rows))


def _not_found(wanted: Workload, known: set[Workload]) -> str:
    if wanted.kind not in {*KINDS.values(), *(w.kind for w in known)}:
        near = difflib.get_close_matches(wanted.kind, KINDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        shorts = ", ".join(sorted(set(KINDS.values())))
        return f"{wanted.kind}/{wanted.name}: unknown kind {wanted.kind!r}{hint} (known: {shorts})"
    if wanted.kind == "ds":
        return f"{wanted}: pods of a DaemonSet start with their node, not in slack; no capacity is kept for them"
    here = sorted(f"{w.kind}/{w.name}" for w in known if w.namespace == wanted.namespace)
    elsewhere = sorted(str(w) for w in known if w.name == wanted.name and w.namespace != wanted.namespace)
    same_name = [name for name in here if name.partition("/")[2] == wanted.name]
    close = same_name or difflib.get_close_matches(f"{wanted.kind}/{wanted.name}", here, n=3, cutoff=0.6)
    if close or elsewhere:
        hint = f"; did you mean {' or '.join([*close, *elsewhere[:3]])}?"
    elif not here:
        spaces = sorted({w.namespace for w in known})
        near = difflib.get_close_matches(wanted.namespace, spaces, n=3) or spaces[:5]
        hint = f"; namespace {wanted.namespace!r} has no pods (there are: {', '.join(near) or 'none'})"
    else:
        hint = f"; namespace {wanted.namespace!r} has {', '.join(here[:5])}{' ...' if len(here) > 5 else ''}"
    return f"{wanted.namespace}/{wanted.kind}/{wanted.name}: no pod of it is running or pending{hint}"


def _held(
    snapshot: Snapshot, item: PolicyPlan, domain: Domain, plan: ShapePlan, workload: Workload, rows: Sequence[int]
) -> set[int]:
    """Return the rows whose pods could take the place of this shape's placeholders, wherever these stand."""
    if plan.retiring or not plan.count:
        return set()
    if plan.role is Role.MIRROR:
        return set(rows) if plan.shape.reserved_for == str(workload) else set()
    if plan.role is Role.DEMAND:  # others may take it as well, but not count on it
        return {row for row in rows if item.covered_by.get(row) == plan.shape.name}
    covered = {row for row in rows if item.covered_by.get(row) == plan.shape.name}
    vector = plan.shape.vector(snapshot.resources)
    there = domain.classes & np.array(
        [admits(plan.shape.constraints, node_class) for node_class in snapshot.node_classes], dtype=bool
    )
    templates = [t.node_class for t in domain.templates if admits(plan.shape.constraints, t.node_class)]
    if not there.any() and not templates:
        return covered
    kinds = snapshot.kinds
    return covered | {
        row
        for row in rows
        if not kinds.excluded[row]
        and bool((kinds.requests[row] <= vector).all())
        and not (there & ~snapshot.reach[int(kinds.constraint_id[row])]).any()
        and all(admits(snapshot.constraints[int(kinds.constraint_id[row])], template) for template in templates)
    }


def _is_for(plan: ShapePlan, workload: Workload) -> bool:
    """Tell whether a shape was asked for by this workload's name, or by the pool's that it is."""
    return plan.role.for_named and str(workload) in (plan.shape.reserved_for, *plan.workloads)


def _room(snapshot: Snapshot, item: PolicyPlan, policy: Policy, plan: ShapePlan, rows: Iterable[int]) -> HeldCapacity:
    standing: dict[str, int] = {}
    off, avoided = kept_off(snapshot, rows), 0
    for pod in snapshot.placeholders:
        if pod.policy == item.policy and pod.shape == plan.shape.name and pod.node >= 0:
            name = snapshot.nodes.names[pod.node]
            avoided += bool(off[pod.node]) and pod.is_held
            standing[name] = standing.get(name, 0) + 1
    return HeldCapacity(
        policy=item.policy,
        shape=plan.shape.name,
        role=str(plan.role),
        requests=plan.shape.requests,
        count=plan.count,
        bound=plan.bound,
        pending=plan.pending,
        nodes=tuple(sorted(standing.items())),
        unbound=plan.shape.form.hold is Hold.UNBOUND,
        avoided=avoided,
        made_as=_made_as(snapshot, plan),
        release_nodes=policy.release_nodes if plan.shape.form.hold is Hold.UNBOUND else None,
    )


def _made_as(snapshot: Snapshot, plan: ShapePlan) -> str:
    """Say what says how large mirrors are: admission makes pods other than their template.

    Nothing is said of mirrors that were made as the workload was earlier.
    """
    for own in reservations(snapshot) if plan.role is Role.MIRROR else ():
        if str(own.workload) == plan.shape.reserved_for and amounts(own.requests, snapshot.resources) == (
            plan.shape.requests
        ):
            if own.live is None:
                return "its template, as no pod of it is live"
            return f"its newest live pods, such as {snapshot.kinds.example[own.live]}"
    return ""


def _hindrances(
    snapshot: Snapshot, domain: Domain, rows: Sequence[int], priorities: Mapping[str, int], *, mirrored: bool
) -> tuple[str, ...]:
    """Say what keeps pods from taking the place of a policy's placeholders whatever their size."""
    kinds, spec = snapshot.kinds, domain.policy.spec
    ours, cache = priorities.get(spec.priority_class_name, PRIORITY), PlanCache()
    counting = counting_of(snapshot, domain, ours, cache)
    holds = {
        blocker: set(hindered.tolist())
        for blocker, hindered in preemption_blockers(snapshot, domain, np.array(rows, dtype=np.int64), counting, cache)
    }
    if mirrored:
        # Mirrors avoid the workload's own pods as these do: they bring the nodes that it lacks. And they are of its
        # scheduler.
        holds[PreemptionBlocker.NO_NODE_LEFT] = holds[PreemptionBlocker.SCHEDULER] = set()
    if not domain.policy.form.occupies_nodes:
        # The capacity is free: nothing has to be preempted for it, and any scheduler may use it.
        holds |= {key: set[int]() for key in (PreemptionBlocker.PRIORITY, PreemptionBlocker.SCHEDULER)}
    found = []
    for row in rows:
        if row in holds.get(PreemptionBlocker.NEVER_PREEMPTS, ()):
            found.append("its pods have preemptionPolicy Never: they cannot take a placeholder's place")
        if row in holds[PreemptionBlocker.PRIORITY]:
            found.append(
                f"its priority {int(kinds.priority[row])} is not above the placeholders' ({ours}): "
                f"it cannot take a placeholder's place"
            )
        if row in holds[PreemptionBlocker.SCHEDULER]:
            scheduler = snapshot.constraints[int(kinds.constraint_id[row])].scheduler_name
            found.append(
                f"its scheduler is {scheduler}, the policy's is {spec.scheduler_name}: "
                f"give it a policy with spec.schedulerName {scheduler}"
            )
        if row in holds[PreemptionBlocker.NO_NODE_LEFT]:
            found.append(why_no_node_left(snapshot, domain, row))
        if row in holds.get(PreemptionBlocker.HOST, ()):
            found.append(HOST_REFUSED)
    return tuple(dict.fromkeys(found))


def _said(plan: Plan, names: Set[str]) -> tuple[str, ...]:
    """Return why policies leave pods uncovered, in the planner's own words."""
    said = [f"policy {item.policy}: {u.reason}" for item in plan.items for u in item.uncovered if u.pod in names]
    return tuple(dict.fromkeys(said))


def _reason_beside_the_plan(
    snapshot: Snapshot, plan: Plan, domains: Sequence[Domain], workload: Workload, row: int
) -> str:
    kinds = snapshot.kinds
    names = {str(workload), f"{workload.namespace}/{workload.name}", kinds.example[row]}
    if said := _said(plan, names):
        return "; ".join(said)
    if not kinds.requests[row].any():
        return "its pods request nothing: they start wherever a pod slot is free and need no room kept"
    if kinds.excluded[row]:
        return "it is excluded by its annotation resource-slack.io/exclude (R6)"
    constraints = snapshot.constraints[int(kinds.constraint_id[row])]
    occupied = np.zeros(len(snapshot.node_classes), dtype=bool)
    occupied[snapshot.nodes.class_id] = True
    reach = snapshot.reach[int(kinds.constraint_id[row])] & occupied
    if not reach.any():
        against = [reason_against(constraints, snapshot.node_classes[c]) for c in np.flatnonzero(occupied)]
        common = max(sorted(set(against)), key=against.count) if against else "there is no node"
        return f"its pods can go to no node of this cluster: {common}"
    mine = [domain for domain in domains if domain.conflict is None and (domain.classes & reach).any()]
    if not mine:
        for domain in domains:
            if (domain.classes & reach).any():
                return f"policy {domain.policy.name}: {domain.conflict}"
        nodes = [snapshot.nodes.names[n] for n in np.flatnonzero(reach[snapshot.nodes.class_id])]
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        return f"outside every policy: it goes to {', '.join(nodes[:3])}{more}, where no policy keeps slack"
    held = [domain.policy.name for domain in mine]
    buffered = [item.policy for item in plan.items if item.policy in held and row in item.held_by_buffers]
    if buffered:
        return (
            f"CapacityBuffers keep capacity for it: policy {buffered[0]} counts them and keeps no other for such pods"
        )
    if all(domain.policy.spec.cover.mode is CoverMode.NONE for domain in mine):
        return f"policy {' and '.join(held)} covers no pods (spec.cover.mode None), it only keeps standard placeholders"
    for item in plan.items:
        feasible = item.condition(ConditionType.FEASIBLE) if item.policy in held and not item.feasible else None
        if feasible is not None:
            return f"policy {item.policy}: {feasible.message}"
    return f"policy {' and '.join(held)} covers the most frequent pods first, and this one is not among them"


def shown_nodes(room: HeldCapacity) -> str:
    """Return the nodes of a room as people read them: `n1 (2), n2`, at most a few."""
    texts = [name if count == 1 else f"{name} ({count})" for name, count in room.nodes[:_NODES_SHOWN]]
    return ", ".join(texts) + (f" and {len(room.nodes) - _NODES_SHOWN} more" if len(room.nodes) > _NODES_SHOWN else "")
