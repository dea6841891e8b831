"""Which nodes belong to which policy.

Policies divide the cluster by node selector. A node that two policies select goes to the more specific one (more
selector keys); the other keeps its placeholders away from it by a node affinity. Two equally specific policies that
select the same node are a mistake only a user can mend: the younger one (the later by name) does nothing and says so.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from slack.cluster.classes import Constraints, NodeClass, NodeSelectors, Requirement, Taint, admits
from slack.cluster.hold import Hold
from slack.cluster.labels import KARPENTER_NODE_POOL, ZONE
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.policy.spec import NodeTemplate, Policy

Terms = tuple[tuple[Requirement, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A node that may not exist yet: a row of allocatable and its class."""

    name: str
    node_class: NodeClass
    allocatable: IntArray
    """[R]"""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The part of the cluster in which one policy keeps slack."""

    policy: Policy
    constraints: Constraints
    """What every placeholder of the policy carries."""
    owned: BoolArray
    """[NC] node classes that it selects and no more specific policy does, whatever their taints."""
    classes: BoolArray
    """[NC] of these, the ones whose taints it tolerates: the domain."""
    members: BoolArray
    """[N] nodes that belong to it, ready or not: their pods count in the base."""
    eligible: BoolArray
    """[N] of these, the ready and schedulable ones; where there is none, all of them, as they will be usable again."""
    templates: tuple[Template, ...]
    yielded: tuple[str, ...]
    """`node to policy` for nodes that it selects but a more specific policy holds; at most a few, for status."""
    conflict: str | None
    """Why it must not act: another policy selects the same nodes and is as specific."""
    usable: int
    """How many of the members are ready and schedulable: placeholders could go there now."""


def node_labels(policies: Iterable[Policy], prices: NodePrices = NO_PRICES) -> frozenset[str]:
    """Return the labels by which policies and prices tell nodes apart; a snapshot needs no others."""
    keys: set[str] = set(prices.label_keys)
    for policy in policies:
        if policy.spec.hold is not Hold.BOUND:
            keys.add(KARPENTER_NODE_POOL)  # Karpenter takes no placeholder that names a host
        keys |= {*policy.spec.node_selector, *([ZONE] if policy.spec.per_domain == "Zone" else [])}
    return frozenset(keys)


def node_selectors(policies: Iterable[Policy]) -> NodeSelectors:
    """Return what policies select, by name: unbound placeholders are packed onto their own policy's nodes first."""
    return tuple(sorted((policy.name, tuple(sorted(policy.spec.node_selector.items()))) for policy in policies))


def selects(policy: Policy, node_class: NodeClass) -> bool:
    """Tell whether the policy's node selector is met; taints are a later question."""
    labels = dict(node_class.labels)
    return all(labels.get(key) == value for key, value in policy.spec.node_selector.items())


def conjunction(first: Terms, second: Terms) -> Terms:
    """Return node selector terms that hold where both do; () means no restriction."""
    if not first or not second:
        return first or second
    return tuple(sorted({tuple(sorted({*a, *b})) for a, b in product(first, second)}))


def _outside(policy: Policy, others: Sequence[Policy]) -> Terms:
    """Return terms that keep `policy` off the nodes that more specific `others` select."""
    own = policy.spec.node_selector
    terms: Terms = ()
    for other in others:
        selector = other.spec.node_selector
        if any(own.get(key, value) != value for key, value in selector.items()):
            continue  # no node can match both
        free = tuple((Requirement(key, "NotIn", (value,)),) for key, value in selector.items() if key not in own)
        terms = conjunction(terms, free)
    return tuple(sorted(terms))


def template_of(node: NodeTemplate, resources: Sequence[str]) -> Template:
    """Turn a policy's node template into a node class and a row of allocatable."""
    taints = tuple(
        sorted(
            Taint(str(t.get("key", "")), str(t.get("value", "")), str(t.get("effect", "NoSchedule")))
            for t in node.taints
            if t.get("effect") != "PreferNoSchedule"
        )
    )
    row = np.array([node.allocatable.get(name, 0) for name in resources], dtype=np.int64)
    return Template(node.name, NodeClass(tuple(sorted(node.labels.items())), taints), row)


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """What of a snapshot tells whose each node is; nothing of what stands on them."""

    names: tuple[str, ...]
    """[N]"""
    class_id: IndexArray
    """[N] row in `classes`."""
    ready: BoolArray
    """[N]"""
    schedulable: BoolArray
    """[N]"""
    classes: tuple[NodeClass, ...]
    resources: tuple[str, ...]


def node_view(snapshot: Snapshot) -> NodeView:
    """Return what tells whose each node is."""
    nodes = snapshot.nodes
    return NodeView(
        nodes.names, nodes.class_id, nodes.ready, nodes.schedulable, snapshot.node_classes, snapshot.resources
    )


def divide(snapshot: Snapshot, policies: Sequence[Policy]) -> tuple[Domain, ...]:
    """Give every node to at most one policy: see `divided`."""
    return divided(node_view(snapshot), tuple(policies))


def divided(nodes: NodeView, policies: tuple[Policy, ...]) -> tuple[Domain, ...]:
    """Give every node to at most one policy.

    Returns:
        One domain per policy, in the order of `policies`.
    """
    selected = np.array(
        [[selects(policy, node_class) for node_class in nodes.classes] for policy in policies], dtype=bool
    ).reshape(len(policies), len(nodes.classes))
    keys = [len(policy.spec.node_selector) for policy in policies]
    # Of equally specific policies the one that was there first keeps the nodes: a newcomer must change nothing.
    age = [(policy.created_seconds or math.inf, policy.name, i) for i, policy in enumerate(policies)]
    domains = []
    for i, policy in enumerate(policies):
        equal = [j for j in range(len(policies)) if keys[j] == keys[i] and age[j] < age[i]]
        older = [(policies[j].name, selected[i] & selected[j]) for j in sorted(equal, key=age.__getitem__)]
        above = [j for j in range(len(policies)) if keys[j] > keys[i]]
        specific = [(policies[j], selected[i] & selected[j]) for j in above]
        domains.append(_domain(nodes, policy, selected[i], specific, _conflict(nodes, older)))
    return tuple(domains)


def _conflict(nodes: NodeView, older: Iterable[tuple[str, BoolArray]]) -> str | None:
    """Say which older policy, just as specific, selects the same nodes; None if there is none.

    Args:
        nodes: of the cluster.
        older: names of these policies, the oldest first, each with [NC] the classes that both select.
    """
    for name, both in older:
        if both.any():
            held = np.flatnonzero(both[nodes.class_id])
            names = [nodes.names[row] for row in held[:1]] or ["the same node classes"]
            more = f" and {len(held) - 1} more" if len(held) > 1 else ""
            return (
                f"spec.nodeSelector: selects {names[0]}{more}, which policy {name!r} selects as well "
                f"and as specifically; add a label to one of the selectors"
            )
    return None


def _domain(
    nodes: NodeView,
    policy: Policy,
    selected: BoolArray,
    specific: Sequence[tuple[Policy, BoolArray]],
    conflict: str | None,
) -> Domain:
    """Return the domain of one policy.

    Args:
        nodes: of the cluster.
        policy: whose domain it is.
        selected: [NC] node classes that the policy selects.
        specific: the more specific policies, each with [NC] the classes that both select: these are not the policy's.
        conflict: as `Domain` has it.
    """
    constraints = Constraints(
        node_selector=tuple(sorted(policy.spec.node_selector.items())),
        node_affinity=_outside(policy, [other for other, _ in specific]),
        tolerations=tuple(sorted(t.toleration() for t in policy.spec.tolerations)),
        scheduler_name=policy.spec.scheduler_name,
    )
    owned, yielded = selected, list[str]()
    for other, both in specific:
        owned = owned & ~both
        given = np.flatnonzero(both[nodes.class_id])
        if len(given):
            yielded.append(f"{len(given)} nodes ({nodes.names[given[0]]} ...) to {other.name}")
    classes = owned & np.array([admits(constraints, node_class) for node_class in nodes.classes], dtype=bool)
    members = classes[nodes.class_id]
    usable = members & nodes.ready & nodes.schedulable
    templates = (template_of(node, nodes.resources) for node in policy.spec.node_templates)
    return Domain(
        policy=policy,
        constraints=constraints,
        owned=owned,
        classes=classes,
        members=members,
        # A plan that follows from the nodes stays what it is while all of them start, fail or are cordoned.
        eligible=usable if usable.any() else members,
        templates=tuple(template for template in templates if admits(constraints, template.node_class)),
        yielded=tuple(yielded),
        conflict=conflict,
        usable=int(usable.sum()),
    )


def by_zone(nodes: NodeView, domain: Domain) -> tuple[tuple[str, Domain], ...]:
    """Split a domain into its zones (perDomain: Zone); ('', domain) when it is not to be split or names no zone."""
    if domain.policy.spec.per_domain == "None":
        return (("", domain),)
    zone_of = [dict(node_class.labels).get(ZONE, "") for node_class in nodes.classes]
    template_zone = [dict(template.node_class.labels).get(ZONE, "") for template in domain.templates]
    zones = sorted({zone for zone, mine in zip(zone_of, domain.classes, strict=True) if mine} | set(template_zone))
    parts = []
    for zone in filter(None, zones):
        inside = np.array([z == zone for z in zone_of], dtype=bool)
        members = domain.members & inside[nodes.class_id]
        selector = tuple(sorted({*domain.constraints.node_selector, (ZONE, zone)}))
        part = replace(
            domain,
            constraints=replace(domain.constraints, node_selector=selector),
            owned=domain.owned & inside,
            classes=domain.classes & inside,
            members=members,
            eligible=domain.eligible & members,
            usable=int((members & nodes.ready & nodes.schedulable).sum()),
            templates=tuple(t for t, z in zip(domain.templates, template_zone, strict=True) if z == zone),
        )
        parts.append((zone, part))
    return tuple(parts) or (("", domain),)
