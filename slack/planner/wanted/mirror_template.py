"""S7, R8, R9: placeholders like a workload's own pods, for workloads annotated `resource-slack.io/reserve`.

Traps that this module minds: a workload's labels never go onto a placeholder (Services would send it traffic); its
anti-affinity is rewritten so that a placeholder avoids the workload's pods in their namespace *and* the other
placeholders for it by a label of ours, one per topology domain; spread constraints count the placeholders among
themselves, since constraints see only their own namespace.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slack.cluster.classes import Constraints, Toleration
from slack.cluster.labels import ANNOTATION_RESERVE, HOSTNAME, LABEL_RESERVED_FOR
from slack.cluster.selectors import Labels, Namespaces, counts, matches, resolved, terms_of
from slack.cluster.snapshot import Amounts, IntArray, PodKinds, ReservedWorkload, Snapshot, Workload
from slack.planner.domain.membership import Domain, conjunction
from slack.planner.forms.choice import BOUND
from slack.planner.forms.form import Form
from slack.planner.model.shape import Shape, amounts
from slack.planner.policy.spec import Policy

MOST_RESERVED = 1000
"""A workload's owner is not the one who pays for the nodes."""
_RESERVE = re.compile(r"(?P<count>[0-9]{1,4})|(?P<percent>[0-9]{1,4}(\.[0-9]{1,9})?)%")


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """One workload for which room is to be kept."""

    workload: Workload
    count: int
    replicas: int
    """What the object asks for; of bare pods, how many there are."""
    requests: IntArray
    """[R]"""
    unoffered: Amounts
    """What it requests of resources that no node has."""
    constraint_id: int
    """Row in `Snapshot.constraints`."""
    constraints: Constraints
    labels: Mapping[str, str]
    """Labels of its pods."""
    problem: str | None
    """What is wrong with its annotation."""
    uid: str = ""
    """Of the annotated object; of pods, several may be annotated."""
    group: str = ""
    """Who shares its placeholders; nobody does where it is ''."""
    live: int | None = None
    """Row in `Snapshot.kinds` of its newest live pod, as which its mirrors are made; None: as its template is."""


def newest_kind(kinds: PodKinds, rows: Iterable[int]) -> int | None:
    """Return the kind of the newest live pod among these, None if none of them has a pod.

    In this order: pods that a scheduler considers before gated ones; the newest; of equal ones the most pods.
    """

    def rank(row: int) -> tuple[bool, int, int]:
        live = int(kinds.running[row] + kinds.pending[row])
        return live > 0, int(kinds.newest_seconds[row]), live or int(kinds.gated[row])

    return max((row for row in rows if rank(row)[2]), key=lambda row: (*rank(row), -row), default=None)


def parse_reserve(text: str, replicas: int) -> int:
    """Return how many placeholders `2` or `25%` (of replicas, rounded up) asks for.

    Raises:
        ValueError: for anything else.
    """
    match = _RESERVE.fullmatch(text.strip(" "))
    if not match:
        raise ValueError(
            f"annotation {ANNOTATION_RESERVE}: {text!r} is neither a count such as '2' nor a share such as '25%'"
        )
    count = int(match["count"]) if match["count"] is not None else _share(replicas, float(match["percent"]))
    if count > MOST_RESERVED:
        raise ValueError(f"annotation {ANNOTATION_RESERVE}: {text!r} is {count}; {MOST_RESERVED} at most")
    return count


def _share(replicas: int, percent: float) -> int:
    return math.ceil(round(replicas * percent / 100, 6))


def reservations(snapshot: Snapshot) -> tuple[Reservation, ...]:
    """Collect the workloads that are to be mirrored: annotated objects first, then annotated pods.

    A mirror is made as the workload's newest live pod is: admission (a VPA, injected sidecars, a LimitRange's defaults,
    a runtime class's overhead) makes pods other than their template. The template decides only if no pod is live.
    """
    kinds = snapshot.kinds
    objects = {item.workload: item for item in snapshot.reserved}
    rows_of: dict[Workload, list[int]] = {}
    for k, workload in enumerate(kinds.workloads) if objects or any(kinds.reserve) else ():
        if workload in objects or kinds.reserve[k]:
            rows_of.setdefault(workload, []).append(k)
    found = [
        _of_object(snapshot, item, newest_kind(kinds, rows_of.get(workload, ()))) for workload, item in objects.items()
    ]
    for workload, rows in rows_of.items():
        if workload not in objects:
            newest = newest_kind(kinds, rows)
            pods = int((kinds.running[rows] + kinds.pending[rows]).sum())
            found.append(_of_pods(snapshot, rows[0] if newest is None else newest, pods))
    return tuple(sorted(found, key=lambda own: own.workload))


def _of_object(snapshot: Snapshot, item: ReservedWorkload, live: int | None) -> Reservation:
    count, problem = _read(item.reserve, item.replicas)
    own = Reservation(
        workload=item.workload,
        count=count,
        replicas=item.replicas,
        requests=item.requests,
        unoffered=item.unoffered,
        constraint_id=item.constraint_id,
        constraints=snapshot.constraints[item.constraint_id],
        labels=dict(item.labels),
        problem=problem,
        uid=item.uid,
    )
    return own if live is None else _as_admitted(snapshot, own, live)


def _of_pods(snapshot: Snapshot, row: int, pods: int) -> Reservation:
    kinds = snapshot.kinds
    count, problem = _read(kinds.reserve[row], pods)
    id_ = int(kinds.constraint_id[row])
    own = Reservation(
        workload=kinds.workloads[row],
        count=count,
        replicas=pods,
        requests=kinds.requests[row],
        unoffered=kinds.unoffered[row],
        constraint_id=id_,
        constraints=snapshot.constraints[id_],
        labels={},
        problem=problem,
    )
    return _as_admitted(snapshot, own, row)


def _as_admitted(snapshot: Snapshot, own: Reservation, row: int) -> Reservation:
    """Return a reservation with requests, constraints and labels as live pods of a kind have them."""
    kinds = snapshot.kinds
    id_ = int(kinds.constraint_id[row])
    return replace(
        own,
        requests=kinds.requests[row],
        unoffered=kinds.unoffered[row],
        constraint_id=id_,
        # What a runtime class's admission adds, a pod that is there has already; a mirror would get it twice.
        constraints=replace(snapshot.constraints[id_], runtime_class=""),
        labels={**own.labels, **dict(kinds.labels[row])},
        live=row,
    )


def _read(text: str, replicas: int) -> tuple[int, str | None]:
    """Return how many placeholders an annotation asks for, and what is wrong with it."""
    try:
        return parse_reserve(text, replicas), None
    except ValueError as error:
        return 0, str(error)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def label_value(workload: str) -> str:
    """Return the label by which the placeholders for one workload know each other."""
    return hashlib.sha256(workload.encode()).hexdigest()[:8]


def _in_namespace(term: Mapping[str, Any], namespace: str, labels: Labels) -> dict[str, Any]:
    """Rewrite a pod (anti-)affinity term so that it means the same of a pod of another namespace, without its labels.

    An empty selector stays: it matches everything, whereas one that is missing matches nothing.
    """
    fields = ("labelSelector", "topologyKey", "namespaces", "namespaceSelector")
    own = resolved(term, labels)
    kept = {key: own[key] for key in fields if own.get(key) is not None and own[key] != []}
    if "namespaces" not in kept and "namespaceSelector" not in kept:
        kept["namespaces"] = [namespace]
    return kept


def rewrite_anti_affinity(text: str, namespace: str, labels: Labels, reserved_for: str, namespaces: Namespaces) -> str:
    """Rewrite required anti-affinity terms for a placeholder (R8).

    Args:
        text: canonical JSON of the workload's terms, '' for none.
        namespace: the workload's.
        labels: of the workload's pods, to see which terms are against its own kind.
        reserved_for: `LABEL_RESERVED_FOR`'s value.
        namespaces: labels of the namespaces.
    """
    terms: list[dict[str, Any]] = []
    own = {"matchLabels": {LABEL_RESERVED_FOR: reserved_for}}
    for term in terms_of(text):
        terms.append(_in_namespace(term, namespace, labels))
        if _against_itself(term, namespace, labels, namespaces):
            terms.append({"labelSelector": own, "topologyKey": term["topologyKey"]})
    return _canonical(sorted(terms, key=_canonical)) if terms else ""


def rewrite_pod_affinity(text: str, namespace: str, labels: Labels) -> str:
    """Rewrite required pod affinity terms, so that they mean the same of a placeholder.

    Args:
        text: canonical JSON of the workload's terms, '' for none.
        namespace: the workload's.
        labels: of the workload's pods.
    """
    terms = [_in_namespace(term, namespace, labels) for term in terms_of(text)]
    return _canonical(sorted(terms, key=_canonical)) if terms else ""


def _against_itself(term: Mapping[str, Any], namespace: str, labels: Labels, namespaces: Namespaces) -> bool:
    return matches(term, (namespace, labels), (namespace, labels), namespaces)


def own_spread(text: str, labels: Labels) -> list[dict[str, Any]]:
    """Return those of a workload's hard spread constraints that count its own pods."""
    return [constraint for constraint in terms_of(text) if counts(constraint, labels, labels)]


def rewrite_spread(text: str, labels: Mapping[str, str], reserved_for: str, form: Form = BOUND) -> str:
    """Rewrite hard spread constraints: the placeholders of one workload spread among themselves.

    Args:
        text: canonical JSON of the workload's constraints, '' for none.
        labels: of the workload's pods.
        reserved_for: `LABEL_RESERVED_FOR`'s value.
        form: of the placeholders. Those without a scheduler spread over hosts only: `mirror_domains` divides them
            among zones.
    """
    kept = []
    for constraint in own_spread(text, labels):
        if form.is_scheduled or constraint.get("topologyKey") == HOSTNAME:
            rest = {k: v for k, v in constraint.items() if k not in ("labelSelector", "matchLabelKeys")}
            kept.append(rest | {"labelSelector": {"matchLabels": {LABEL_RESERVED_FOR: reserved_for}}})
    return _canonical(sorted(kept, key=_canonical)) if kept else ""


def own_topology(reservation: Reservation, namespaces: Namespaces) -> tuple[str, ...]:
    """Return the topology keys over which the workload's pods avoid each other."""
    namespace, labels = reservation.workload.namespace, reservation.labels
    terms = terms_of(reservation.constraints.anti_affinity)
    return tuple(sorted({t["topologyKey"] for t in terms if _against_itself(t, namespace, labels, namespaces)}))


def plain_tolerations(tolerations: Sequence[Toleration], domain: Domain) -> tuple[Toleration, ...]:
    """Return a pod's tolerations without the blanket one: with it a placeholder would stay on dying nodes."""
    if any(not t.key and t.operator == "Exists" for t in tolerations):
        return tuple(sorted({*(t for t in tolerations if t.key), *domain.constraints.tolerations}))
    return tuple(sorted(set(tolerations)))


def mirror_constraints(reservation: Reservation, domain: Domain) -> Constraints | None:
    """Return where a workload's mirrors may go within a policy's nodes; None where the selectors exclude each other."""
    selector = dict(reservation.constraints.node_selector)
    for key, value in domain.constraints.node_selector:
        if selector.setdefault(key, value) != value:
            return None
    return replace(
        reservation.constraints,
        node_selector=tuple(sorted(selector.items())),
        node_affinity=conjunction(domain.constraints.node_affinity, reservation.constraints.node_affinity),
        tolerations=plain_tolerations(reservation.constraints.tolerations, domain),
    )


def mirror_shape(
    reservation: Reservation,
    constraints: Constraints,
    resources: tuple[str, ...],
    policy: Policy,
    namespaces: Namespaces,
) -> Shape:
    """Return the placeholder that mirrors one pod of the workload."""
    workload, labels = reservation.workload, reservation.labels
    reserved_for = reservation.group or str(workload)
    value = label_value(reserved_for)
    return Shape(
        requests=amounts(reservation.requests, resources),
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        anti_affinity=rewrite_anti_affinity(constraints.anti_affinity, workload.namespace, labels, value, namespaces),
        pod_affinity=rewrite_pod_affinity(constraints.pod_affinity, workload.namespace, labels),
        topology_spread=rewrite_spread(constraints.topology_spread, labels, value, policy.form),
        scheduler_name=constraints.scheduler_name,
        runtime_class=constraints.runtime_class,
        priority_class_name=policy.spec.priority_class_name,
        reserved_for=reserved_for,
        unbound_scheduler=policy.unbound_scheduler,
        yields_to_markers=policy.yields_to_markers,
        tolerates_soft_taint=policy.tolerates_soft_taint,
    )
