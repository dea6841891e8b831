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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slack.cluster.classes import Constraints, Toleration
from slack.cluster.labels import ANNOTATION_RESERVE, HOSTNAME, LABEL_RESERVED_FOR
from slack.cluster.snapshot import Amounts, IntArray, Snapshot, Workload
from slack.planner.domain.membership import Domain, conjunction
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
    """Collect the workloads that are to be mirrored: annotated objects first, then annotated pods."""
    found: dict[Workload, Reservation] = {}

    def note(
        workload: Workload,
        text: str,
        replicas: int,
        requests: IntArray,
        unoffered: Amounts,
        constraint: int,
        labels: Mapping[str, str],
        *,
        admitted: bool = False,
        uid: str = "",
    ) -> None:
        count, problem = 0, None
        own = snapshot.constraints[constraint]
        own = replace(own, runtime_class="") if admitted else own
        try:
            count = parse_reserve(text, replicas)
        except ValueError as error:
            problem = str(error)
        found[workload] = Reservation(
            workload, count, replicas, requests, unoffered, constraint, own, labels, problem, uid
        )

    for item in snapshot.reserved:
        note(
            item.workload,
            item.reserve,
            item.replicas,
            item.requests,
            item.unoffered,
            item.constraint_id,
            dict(item.labels),
            uid=item.uid,
        )
    kinds = snapshot.kinds
    annotated: dict[Workload, list[int]] = {}
    for k, text in enumerate(kinds.reserve) if any(kinds.reserve) else ():
        if text and kinds.workloads[k] not in found:
            annotated.setdefault(kinds.workloads[k], []).append(k)
    for workload, rows in sorted(annotated.items()):
        pods = kinds.running[rows] + kinds.pending[rows]
        newest = rows[int(np.argmax(pods))]
        note(
            workload,
            kinds.reserve[newest],
            int(pods.sum()),
            kinds.requests[newest],
            kinds.unoffered[newest],
            int(kinds.constraint_id[newest]),
            {},
            # What a runtime class's admission adds, a pod that is there has already; a mirror would get it twice.
            admitted=True,
        )
    return tuple(found[workload] for workload in sorted(found))


def _matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector matches; where labels are unknown (a bare pod's) it is taken to match."""
    if selector is None:
        return False
    if not labels:
        return True
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or []:
        value, values = labels.get(expression["key"]), expression.get("values") or []
        match expression["operator"]:
            case "In":
                ok = value in values
            case "NotIn":
                ok = value not in values
            case "Exists":
                ok = value is not None
            case _:
                ok = value is None
        if not ok:
            return False
    return True


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def label_value(workload: str) -> str:
    """Return the label by which the placeholders for one workload know each other."""
    return hashlib.sha256(workload.encode()).hexdigest()[:8]


def _in_namespace(term: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Rewrite a pod (anti-)affinity term so that it means the same from another namespace."""
    kept = {
        key: term[key] for key in ("labelSelector", "topologyKey", "namespaces", "namespaceSelector") if term.get(key)
    }
    if "namespaces" not in kept and "namespaceSelector" not in kept:
        kept["namespaces"] = [namespace]
    return kept


def rewrite_anti_affinity(text: str, namespace: str, labels: Mapping[str, str], reserved_for: str) -> str:
    """Rewrite required anti-affinity terms for a placeholder (R8).

    Args:
        text: canonical JSON of the workload's terms, '' for none.
        namespace: the workload's.
        labels: of the workload's pods, to see which terms are against its own kind.
        reserved_for: `LABEL_RESERVED_FOR`'s value.
    """
    terms: list[dict[str, Any]] = []
    own = {"matchLabels": {LABEL_RESERVED_FOR: reserved_for}}
    for term in json.loads(text) if text else []:
        terms.append(_in_namespace(term, namespace))
        if _matches(term.get("labelSelector"), labels):
            terms.append({"labelSelector": own, "topologyKey": term["topologyKey"]})
    return _canonical(sorted(terms, key=_canonical)) if terms else ""


def own_spread(text: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return those of a workload's hard spread constraints that count its own pods."""
    constraints: list[dict[str, Any]] = json.loads(text) if text else []
    return [constraint for constraint in constraints if _matches(constraint.get("labelSelector"), labels)]


def rewrite_spread(text: str, labels: Mapping[str, str], reserved_for: str, *, unbound: bool = False) -> str:
    """Rewrite hard spread constraints: the placeholders of one workload spread among themselves.

    Args:
        text: canonical JSON of the workload's constraints, '' for none.
        labels: of the workload's pods.
        reserved_for: `LABEL_RESERVED_FOR`'s value.
        unbound: only over hosts; `mirror_domains` divides unbound ones among zones.
    """
    kept = []
    for constraint in own_spread(text, labels):
        if not unbound or constraint.get("topologyKey") == HOSTNAME:
            rest = {k: v for k, v in constraint.items() if k not in ("labelSelector", "matchLabelKeys")}
            kept.append(rest | {"labelSelector": {"matchLabels": {LABEL_RESERVED_FOR: reserved_for}}})
    return _canonical(sorted(kept, key=_canonical)) if kept else ""


def own_topology(reservation: Reservation) -> tuple[str, ...]:
    """Return the topology keys over which the workload's pods avoid each other."""
    terms = json.loads(reservation.constraints.anti_affinity) if reservation.constraints.anti_affinity else []
    return tuple(sorted({t["topologyKey"] for t in terms if _matches(t.get("labelSelector"), reservation.labels)}))


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
    reservation: Reservation, constraints: Constraints, resources: tuple[str, ...], policy: Policy
) -> Shape:
    """Return the placeholder that mirrors one pod of the workload."""
    workload = reservation.workload
    reserved_for = reservation.group or str(workload)
    value = label_value(reserved_for)
    terms = json.loads(constraints.pod_affinity) if constraints.pod_affinity else []
    affinity = [_in_namespace(term, workload.namespace) for term in terms]
    return Shape(
        requests=amounts(reservation.requests, resources),
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        anti_affinity=rewrite_anti_affinity(constraints.anti_affinity, workload.namespace, reservation.labels, value),
        pod_affinity=_canonical(sorted(affinity, key=_canonical)) if affinity else "",
        topology_spread=rewrite_spread(
            constraints.topology_spread, reservation.labels, value, unbound=bool(policy.unbound_scheduler)
        ),
        scheduler_name=constraints.scheduler_name,
        runtime_class=constraints.runtime_class,
        priority_class_name=policy.spec.priority_class_name,
        reserved_for=reserved_for,
        unbound_scheduler=policy.unbound_scheduler,
    )
