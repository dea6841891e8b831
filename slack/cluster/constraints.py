"""From the JSON that the API sends to `Constraints`: equal meanings become equal values.

Tolerations that decide nothing about lasting taints are dropped: those of PreferNoSchedule, and those of the
life-cycle taints, which admission puts on pods but not on the templates that they come from.
"""

from typing import Any

import msgspec

from slack.cluster.classes import DECLARED, Constraints, Requirement, Toleration, is_transient
from slack.cluster.labels import HOSTNAME
from slack.cluster.wire import ABSENT, PodSpec

_encoder = msgspec.json.Encoder(order="deterministic")


class _Expression(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel", gc=False):
    match_expressions: list[_Expression] | None = None
    match_fields: list[_Expression] | None = None


class _NodeSelector(msgspec.Struct, rename="camel", gc=False):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct, gc=False):
    required: _NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _PodAffinity(msgspec.Struct, gc=False):
    required: list[dict[str, Any]] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _LabelSelector(msgspec.Struct, rename="camel", gc=False):
    match_labels: dict[str, str | None] | None = None
    match_expressions: list[_Expression] | None = None


class _Among(msgspec.Struct, rename="camel", gc=False):
    """What a term about other pods, or about their spread, may not have otherwise than the API."""

    label_selector: _LabelSelector | None = None
    topology_key: str | None = None
    namespaces: list[str] | None = None
    namespace_selector: _LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class _Affinity(msgspec.Struct, rename="camel", gc=False):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Toleration(msgspec.Struct, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


_selector_decoder = msgspec.json.Decoder(dict[str, str | None] | None)
_affinity_decoder = msgspec.json.Decoder(_Affinity | None)
_tolerations_decoder = msgspec.json.Decoder(list[_Toleration] | None)
_spread_decoder = msgspec.json.Decoder(list[dict[str, Any]] | None)


def parse_constraints(
    node_selector: bytes = b"",
    affinity: bytes = b"",
    tolerations: bytes = b"",
    topology_spread: bytes = b"",
    scheduler_name: str | None = None,
    runtime_class: str | None = None,
    features: tuple[str, ...] = (),
) -> Constraints:
    """Parse the scheduling fields of a pod's spec, each as raw JSON or `b""` where it is absent.

    Raises:
        msgspec.ValidationError: when a field has another form than the API's.
    """
    wanted = _affinity_decoder.decode(affinity) if affinity else None
    anti = wanted.pod_anti_affinity if wanted else None
    near = wanted.pod_affinity if wanted else None
    selector = (_selector_decoder.decode(node_selector) if node_selector else None) or {}
    return Constraints(
        node_selector=tuple(sorted((key, value or "") for key, value in selector.items())),
        node_affinity=_node_affinity(wanted.node_affinity if wanted else None),
        tolerations=_tolerations(tolerations),
        anti_affinity=_canonical_list(anti.required if anti else None),
        pod_affinity=_canonical_list(near.required if near else None),
        topology_spread=_spread(topology_spread),
        scheduler_name=scheduler_name or "default-scheduler",
        runtime_class=runtime_class or "",
        features=features,
    )


def needed_features(spec: PodSpec) -> tuple[str, ...]:
    """Return what a pod asks of its node's kubelet, by name, sorted.

    As component-helpers' nodedeclaredfeatures infers it for scheduling (v0.36.3, features/registry.go): its other
    features matter to updates of pods only.
    """
    found = []
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.restart_policy_rules != ABSENT and b'"RestartAllContainers"' in bytes(
            container.restart_policy_rules
        ):
            found.append("RestartAllContainersOnContainerExits")
            break
    if spec.host_network and spec.host_users is False:
        found.append("UserNamespacesHostNetworkSupport")
    return tuple(found)


def label_needs(constraints: Constraints) -> frozenset[tuple[str, str | None]]:
    """Return the node labels that these constraints look at, as (key, value); value None means every value matters.

    Keys that name single nodes (`kubernetes.io/hostname`, `metadata.name`) matter only for the values that are named:
    otherwise one pod pinned to a node would make a class of each of 5,000 nodes. A spread or anti-affinity over hosts
    is no look at the label: every node is its own domain anyway.
    """
    needs: set[tuple[str, str | None]] = {(DECLARED + name, None) for name in constraints.features}
    for key, value in constraints.node_selector:
        needs.add((key, value if key == HOSTNAME else None))
    for term in constraints.node_affinity:
        for requirement in term:
            single = requirement.field or (requirement.key == HOSTNAME and requirement.operator in ("In", "NotIn"))
            needs.update((requirement.key, value) for value in (requirement.values if single else (None,)))
    for text in (constraints.anti_affinity, constraints.pod_affinity, constraints.topology_spread):
        for item in msgspec.json.decode(text) if text else ():
            key = item.get("topologyKey")
            if isinstance(key, str) and key != HOSTNAME:
                needs.add((key, None))
    return frozenset(needs)


def _node_affinity(affinity: _NodeAffinity | None) -> tuple[tuple[Requirement, ...], ...]:
    if affinity is None or affinity.required is None:
        return ()
    terms = set()
    for term in affinity.required.node_selector_terms or ():
        expressions = {_requirement(expression) for expression in term.match_expressions or ()}
        expressions |= {_requirement(expression, field=True) for expression in term.match_fields or ()}
        if expressions:
            terms.add(tuple(sorted(expressions)))
    # An affinity whose terms are all empty matches no node (nodeaffinity.go); () would say that there is none.
    return tuple(sorted(terms)) or ((),)


def _requirement(expression: _Expression, *, field: bool = False) -> Requirement:
    return Requirement(expression.key, expression.operator, tuple(sorted(set(expression.values or ()))), field)


def _tolerations(raw: bytes) -> tuple[Toleration, ...]:
    kept = set()
    for toleration in (_tolerations_decoder.decode(raw) if raw else None) or ():
        if is_transient(toleration.key or "") or toleration.effect == "PreferNoSchedule":
            continue
        operator = toleration.operator or "Equal"
        value = "" if operator == "Exists" else toleration.value or ""
        kept.add(Toleration(toleration.key or "", operator, value, toleration.effect or ""))
    return tuple(sorted(kept))


def _spread(raw: bytes) -> str:
    items = (_spread_decoder.decode(raw) if raw else None) or ()
    return _canonical_list(
        [constraint for constraint in items if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    )


def _canonical_list(items: list[dict[str, Any]] | None) -> str:
    if not items:
        return ""
    for item in items:
        msgspec.convert(item, type=_Among)  # what others look into has the API's form
    texts = sorted({_encoder.encode(_without_nulls(item)).decode() for item in items})
    return f"[{','.join(texts)}]"


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
