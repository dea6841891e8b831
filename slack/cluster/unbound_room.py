"""Where unbound placeholders fit: each snapshot packs them into the capacity that real pods leave free.

No scheduler binds an unbound placeholder, so nothing in the API says whether the capacity for it is there. The packing
is first fit: the largest shape first, nodes with pods before empty ones, nodes that held some in the last snapshot
before others, at most one pass over the nodes a shape. So a node that comes takes no placeholder from another. The
first snapshot of a process knows of no other, and takes older nodes before newer ones instead. Before all of this,
nodes that the placeholder's policy selects, and no more specific policy does, come before others. The packing
honours node selectors, affinity and taints by node class, pod slots, and required anti-affinity against the mirrored
workload and its other mirrors. A node that is not ready or not schedulable holds none: capacity there is pending.
A node that its label or a marker pod releases comes last: real pods may use its capacity until it goes, so it counts
until its replacement is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from slack.cluster.classes import NO_SELECTORS, Constraints, NodeClass, NodeSelectors, admits
from slack.cluster.labels import HOSTNAME, LABEL_RELEASE, LABEL_RESERVED_FOR
from slack.cluster.snapshot import BoolArray, FloatArray, IndexArray, IntArray, NodeColumns, Placeholder
from slack.cluster.tables.placeholder_table import PlaceholderFacts

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_FIRST_PLACES, _MORE_PLACES = 512, 8
"""So many nodes are looked at first for the placeholders of one shape, and then so many times as many."""
HostsOf = Mapping[str, IntArray]
"""By workload (`shop/deploy/api`): rows of the nodes that have pods of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Placeholders and nodes with the unbound ones where they fit."""

    placeholders: tuple[Placeholder, ...]
    nodes: NodeColumns


@dataclass(slots=True)
class _Room:
    """What is left while placeholders are packed; its columns have the nodes in the order in which they are filled."""

    order: IntArray
    """[N] rows of the nodes."""
    free: IntArray
    """[R, N]"""
    slots: IntArray
    """[N] pod slots."""
    usable: BoolArray
    """[N] ready and schedulable, and with a slot left."""
    class_id: IndexArray
    """[N]"""

    def take(self, places: IntArray, each: IntArray, asked: Iterable[tuple[int, int]]) -> None:
        """Fill these places, each of which occurs once, with so many placeholders that request so much."""
        self.slots[places] -= each
        self.usable[places] &= self.slots[places] > 0
        for column, amount in asked:
            self.free[column, places] -= each * amount


class _Wait(NamedTuple):
    """A time in which a placeholder has fitted nowhere."""

    since: float
    """Unix seconds."""
    lasts: bool


@dataclass(slots=True, eq=False)
class _Group:
    """The unbound placeholders of one shape: alike, so that one pass over the nodes places all of them."""

    pods: list[PlaceholderFacts]
    """The oldest first: those beyond what fits are the newest."""
    at: list[int]
    """Of each, its index in the placeholders of the snapshot."""
    vector: IntArray
    """[R] what one requests."""
    asked: tuple[tuple[int, int], ...]
    """The same as columns and amounts, without zeros."""
    constraints: Constraints
    topology: tuple[str, ...]
    """Keys over which they avoid their workload and one another."""
    reserved_for: str
    shown: list[Placeholder | None]
    """As the last snapshot has them; None where it does not."""
    classes: Sequence[NodeClass] = ()
    selectors: NodeSelectors = NO_SELECTORS
    reach: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """[NC] which of `classes` admits them."""
    own: BoolArray | None = None
    """[NC] those of them that are their policy's; None where all are."""
    rows: IntArray | None = None
    """The nodes with which `shown` was made, where nothing else decides it; None where some wait or have waited."""

    def look_at(self, classes: Sequence[NodeClass], selectors: NodeSelectors) -> None:
        """Find out which classes admit them, and which of these are their policy's, unless it is known."""
        if self.classes is classes and self.selectors == selectors:
            return
        self.classes, self.selectors = classes, selectors
        self.reach = np.array([admits(self.constraints, _kept(each)) for each in classes], dtype=np.bool_)
        own = np.array([_is_of(self.pods[0].policy, each, selectors) for each in classes], dtype=np.bool_) & self.reach
        self.own = None if bool((own == self.reach).all()) else own

    def show(self, rows: IntArray, waits: Mapping[str, _Wait]) -> Sequence[Placeholder | None]:
        """Return them where they fit; what is as it was stays the same value."""
        waiting = bool(waits) and any(pod.uid in waits for pod in self.pods)
        if self.rows is not None and not waiting:
            self._move(rows)
            return self.shown
        self.rows = None if waiting else rows
        nodes = rows.tolist() + [-1] * (len(self.pods) - len(rows))
        found = [
            known
            if known is not None and known.node == node and known.created_seconds == since
            else Placeholder(*pod[:5], node, since, *pod[7:10], unbound=True)
            for pod, node, since, known in zip(
                self.pods, nodes, (_since(pod, waits) for pod in self.pods), self.shown, strict=True
            )
        ]
        self.shown = list(found)
        return self.shown

    def _move(self, rows: IntArray) -> None:
        """Make those anew that fit on another node than before; without waits all fit, then and now."""
        moved = np.flatnonzero(self.rows != rows)
        if not len(moved):
            return
        self.rows, self.shown = rows, list(self.shown)
        for index, node in zip(moved.tolist(), rows[moved].tolist(), strict=True):
            pod = self.pods[index]
            self.shown[index] = Placeholder(*pod[:5], node, pod.created_seconds, *pod[7:10], unbound=True)


class UnboundRoom:
    """Packs for one snapshot after the other, and remembers since when a placeholder has fitted nowhere."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        """By uid; of those that have fitted nowhere since they were first seen."""
        self._groups: tuple[Sequence[PlaceholderFacts], Sequence[str], Sequence[_Group]] | None = None
        self._held: tuple[Sequence[str], BoolArray] | None = None
        """Names of the last snapshot's nodes, and which of them held placeholders; None before the first."""

    def pack(
        self,
        placeholders: Sequence[Placeholder],
        unbound: Sequence[PlaceholderFacts],
        nodes: NodeColumns,
        classes: Sequence[NodeClass],
        resources: Sequence[str],
        hosts_of: HostsOf,
        now: float,
        marked: IntArray = _NO_ROWS,
        created_seconds: FloatArray | None = None,
        selectors: NodeSelectors = NO_SELECTORS,
    ) -> Packed:
        """Say where each unbound placeholder fits.

        Args:
            placeholders: all of them, bound ones with their nodes.
            unbound: the unbound ones of them; the same value while they are the same.
            nodes: with what is bound there.
            classes: that `nodes.class_id` refers to; the same value while they are the same.
            resources: the columns of `nodes`.
            hosts_of: of the workloads that unbound placeholders mirror.
            now: Unix seconds.
            marked: rows of the nodes that a marker pod releases, as a label would.
            created_seconds: [N] Unix seconds at which the nodes were created.
            selectors: of all policies.
        """
        groups = self._grouped(placeholders, unbound, resources)
        preferred = self._preferred(nodes.names, created_seconds)
        room, domains = _room_of(nodes, classes, preferred, marked), _Domains(nodes, classes)
        placed: list[tuple[_Group, IntArray]] = []
        for group in _largest_first(groups, nodes):
            group.look_at(classes, selectors)
            places, each = _places(room, group, domains, hosts_of.get(group.reserved_for, _NO_ROWS))
            room.take(places, each, group.asked)
            placed.append((group, np.repeat(room.order[places], each)))
        held = np.zeros(len(nodes.names), dtype=np.bool_)
        for _, rows in placed:
            held[rows] = True
        self._held = nodes.names, held
        self._wait(unbound, {pod.uid for group, rows in placed for pod in group.pods[len(rows) :]}, now)
        shown: list[Any] = list(placeholders)
        for group, rows in placed:
            for index, pod in zip(group.at, group.show(rows, self._waits), strict=True):
                shown[index] = pod
        free, slots = np.empty_like(nodes.free), np.empty_like(room.slots)
        free[room.order], slots[room.order] = room.free.T, room.slots
        return Packed(
            tuple(shown),
            replace(
                nodes,
                placeholders=_frozen(nodes.allocatable - nodes.real - nodes.daemon - free),
                pod_count=_frozen(nodes.max_pods - slots),
            ),
        )

    def _preferred(self, names: Sequence[str], created_seconds: FloatArray | None) -> FloatArray | BoolArray:
        """[N] sort keys of nodes: those that held placeholders in the last snapshot first; without one, the oldest."""
        if self._held is None:
            return np.zeros(len(names)) if created_seconds is None else created_seconds
        known, held = self._held
        if known is not names and known != names:
            there = {known[row] for row in np.flatnonzero(held).tolist()}
            held = np.array([name in there for name in names], dtype=np.bool_)
        return ~held

    def _grouped(
        self, placeholders: Sequence[Placeholder], unbound: Sequence[PlaceholderFacts], resources: Sequence[str]
    ) -> Sequence[_Group]:
        """Return them by shape, in an order that does not depend on the order of events."""
        if self._groups is not None and self._groups[0] is unbound and self._groups[1] == resources:
            return self._groups[2]
        index = {pod.uid: number for number, pod in enumerate(placeholders)}
        before: dict[int, Placeholder | None] = {}
        for group in self._groups[2] if self._groups is not None else ():
            before.update(zip(map(id, group.pods), group.shown, strict=True))
        alike: dict[tuple[object, ...], list[PlaceholderFacts]] = {}
        for pod in unbound:
            # Pods of one shape have the same value as their constraints, not only an equal one.
            key = pod.policy, pod.shape, pod.requests, id(pod.constraints), pod.reserved_for
            alike.setdefault(key, []).append(pod)
        groups = []
        for pods in alike.values():
            pods.sort(key=lambda pod: (pod.created_seconds, pod.name))
            first, constraints = pods[0], pods[0].constraints or Constraints()
            vector, topology = _vector(first.requests, resources), _apart(constraints.anti_affinity)
            asked = tuple((column, amount) for column, amount in enumerate(vector.tolist()) if amount)
            at = [index[pod.uid] for pod in pods]
            shown = [before.get(id(pod)) for pod in pods]
            groups.append(_Group(pods, at, vector, asked, constraints, topology, first.reserved_for, shown))
        groups.sort(key=lambda group: (group.pods[0].policy, group.pods[0].shape, group.pods[0].name))
        self._groups = unbound, resources, groups
        return groups

    def _wait(self, unbound: Sequence[PlaceholderFacts], waiting: set[str], now: float) -> None:
        """Note since when those wait that fit nowhere, and that others have waited."""
        known = self._waits
        if known:
            there = {pod.uid for pod in unbound}
            known = {
                uid: wait._replace(lasts=uid in waiting and wait.lasts) for uid, wait in known.items() if uid in there
            }
        self._waits = known | {
            uid: _Wait(now, lasts=True) for uid in waiting if uid not in known or not known[uid].lasts
        }


def _since(pod: PlaceholderFacts, waits: Mapping[str, _Wait]) -> float:
    wait = waits.get(pod.uid) if waits else None
    return pod.created_seconds if wait is None else wait.since


def _largest_first(groups: Sequence[_Group], nodes: NodeColumns) -> list[_Group]:
    """Return the groups by what one takes of the largest node, equal ones in the order that they have."""
    scale = np.maximum(nodes.allocatable.max(axis=0, initial=1), 1)
    shares = (np.array([group.vector for group in groups]) / scale).max(axis=1, initial=0.0)
    return [groups[index] for index in np.argsort(-shares, kind="stable").tolist()]


def _places(room: _Room, group: _Group, domains: "_Domains", hosts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the places that take placeholders of one shape, and how many of them each takes; no more than there are.

    The first nodes hold most placeholders, so a few are looked at, and the others if these are not enough. Only where
    the nodes of their policy do not suffice are others looked at.
    """
    count, nodes = len(group.pods), len(room.order)
    looked_at = max(_FIRST_PLACES, 2 * count)
    classes = group.reach if group.own is None else group.own
    while True:
        places, each = _places_among(room, group, classes, domains, hosts, looked_at)
        if each.sum() == count:
            return places, each
        if looked_at >= nodes:
            break
        looked_at *= _MORE_PLACES
    return (places, each) if group.own is None else _places_among(room, group, group.reach, domains, hosts, nodes)


def _places_among(
    room: _Room, group: _Group, reach: BoolArray, domains: "_Domains", hosts: IntArray, first: int
) -> tuple[IntArray, IntArray]:
    """Return the same of the first nodes, and of these classes; those that are the policy's own come first.

    Over all of these there are comparisons only: what divides and adds up looks at as many nodes as there are
    placeholders at most.
    """
    count = len(group.pods)
    fits = room.usable[:first] if reach.all() else room.usable[:first] & reach[room.class_id[:first]]
    for column, amount in group.asked:
        fits = fits & (room.free[column, :first] >= amount)
    places = np.flatnonzero(fits)
    if group.own is not None and reach is not group.own:
        places = places[np.argsort(~group.own[room.class_id[places]], kind="stable")]
    if group.topology:
        for key in group.topology:
            places = domains.without(key, hosts, places, room.order)
        for key in group.topology:
            places = domains.one_each(key, places, room.order)
        return places[:count], np.ones(min(count, places.size), dtype=np.int64)
    places = places[:count]
    each = room.slots[places]
    for column, amount in group.asked:
        np.minimum(each, room.free[column, places] // amount, out=each)
    total = np.cumsum(each)
    number = min(int(np.searchsorted(total, count)) + 1, places.size)
    places, each = places[:number], each[:number]
    if number and total[number - 1] > count:
        each[-1] -= total[number - 1] - count
    return places, each


def _is_of(policy: str, node_class: NodeClass, selectors: NodeSelectors) -> bool:
    """Tell whether a policy selects nodes of a class, and none with more keys does; true of an unknown policy."""
    own = next((selector for name, selector in selectors if name == policy), None)
    if own is None:
        return True
    labels = set(node_class.labels)
    others = (len(selector) for _, selector in selectors if labels.issuperset(selector))
    return labels.issuperset(own) and len(own) == max(others)


def _is_released(node_class: NodeClass) -> bool:
    return any(key == LABEL_RELEASE for key, _ in node_class.labels)


def _kept(node_class: NodeClass) -> NodeClass:
    """Return what a node would be if it had not been released."""
    if not _is_released(node_class):
        return node_class
    return replace(node_class, labels=tuple(pair for pair in node_class.labels if pair[0] != LABEL_RELEASE))


def _room_of(
    nodes: NodeColumns, classes: Sequence[NodeClass], preferred: FloatArray | BoolArray, marked: IntArray
) -> _Room:
    empty = nodes.pod_count - nodes.daemon_count <= 0
    released = np.array([_is_released(each) for each in classes], dtype=np.bool_)
    last = released[nodes.class_id] if released.any() else np.zeros(empty.size, dtype=np.bool_)
    last[marked] = True
    order = np.lexsort((preferred, empty, last))
    slots = (nodes.max_pods - nodes.pod_count)[order]
    return _Room(
        order=order,
        free=np.ascontiguousarray(nodes.free[order].T),
        slots=slots,
        usable=(nodes.ready & nodes.schedulable)[order] & (slots > 0),
        class_id=nodes.class_id[order],
    )


def _vector(requests: Iterable[tuple[str, int]], resources: Sequence[str]) -> IntArray:
    """[R] what a placeholder requests; a resource that no node has makes it too large for all of them."""
    amounts = dict(requests)
    vector = np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)
    if any(amount and name not in resources for name, amount in amounts.items()):
        vector[0] = np.iinfo(np.int64).max // 2
    return vector


def _apart(anti_affinity: str) -> tuple[str, ...]:
    """Return the topology keys over which a mirror avoids its workload and its like.

    It has a term about its like for each term by which the workload's pods avoid one another, and only for these.
    """
    terms: list[dict[str, Any]] = msgspec.json.decode(anti_affinity) if anti_affinity else []
    about_its_like = [term for term in terms if LABEL_RESERVED_FOR in _labels_of(term)]
    return tuple(sorted({str(term.get("topologyKey")) for term in about_its_like if term.get("topologyKey")}))


def _labels_of(term: Mapping[str, Any]) -> Mapping[str, Any]:
    return (term.get("labelSelector") or {}).get("matchLabels") or {}


class _Domains:
    """The topology domains of nodes, by the key of a label; each node is its own host."""

    def __init__(self, nodes: NodeColumns, classes: Sequence[NodeClass]) -> None:
        self._nodes = nodes
        self._classes = classes
        self._of: dict[str, IntArray] = {}

    def without(self, key: str, hosts: IntArray, places: IntArray, order: IntArray) -> IntArray:
        """Leave out the places in a domain of which a host is part."""
        domain = self._domain(key)
        taken = np.zeros(max(len(self._nodes.names), len(self._classes)) + 1, dtype=np.bool_)
        taken[domain[hosts]] = True
        taken[-1] = False  # nodes without the label
        return places[~taken[domain[order[places]]]]

    def one_each(self, key: str, places: IntArray, order: IntArray) -> IntArray:
        """Keep the first place of each domain, and all places without one."""
        if key == HOSTNAME:
            return places
        of_places = self._domain(key)[order[places]]
        first = np.zeros(places.size, dtype=np.bool_)
        first[np.unique(of_places, return_index=True)[1]] = True
        return places[first | (of_places < 0)]

    def _domain(self, key: str) -> IntArray:
        """[N] a number for the node's value of a label, -1 where it has none."""
        if key not in self._of:
            self._of[key] = self._numbered(key)
        return self._of[key]

    def _numbered(self, key: str) -> IntArray:
        if key == HOSTNAME:
            return np.arange(len(self._nodes.names), dtype=np.int64)
        numbers: dict[str, int] = {}
        of_class = [
            -1 if (value := dict(each.labels).get(key)) is None else numbers.setdefault(value, len(numbers))
            for each in self._classes
        ]
        return np.array(of_class, dtype=np.int64)[self._nodes.class_id]


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
