"""First fit of unbound placeholders: which nodes take how many of each shape, packed again after each change.

Shapes are packed one after the other, each into the first nodes that hold it. So only what the nodes up to its last one
have left decides where a shape goes. From one snapshot to the next a few nodes differ: a shape is packed anew only if
such a node could take more or fewer of it than last time, and otherwise stays. The result is the same as if all were
packed anew. `slack.cluster.unbound_room` says which nodes come first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Generic, TypeVar

import numpy as np

from slack.cluster.classes import NO_SELECTORS, Constraints, NodeClass, NodeSelectors, admits
from slack.cluster.labels import HOSTNAME, LABEL_RELEASE
from slack.cluster.snapshot import BoolArray, FloatArray, IndexArray, IntArray, NodeColumns
from slack.cluster.tables.placeholder_table import PlaceholderFacts

_FIRST_PLACES, _MORE_PLACES = 512, 8
"""So many nodes are looked at first for the placeholders of one shape, and then so many times as many."""
_FEW_CHANGES = 64
"""If more nodes have changed than so many, all shapes are packed anew."""
HostsOf = Mapping[str, IntArray]
"""By workload (`shop/deploy/api`): rows of the nodes that have pods of it."""


@dataclass(slots=True, eq=False, kw_only=True)
class PackedShape:
    """The unbound placeholders of one shape: alike, so that one pass over the nodes places all of them."""

    pods: list[PlaceholderFacts]
    """Those of the oldest CapacityBuffer first, then the oldest: those beyond what fits are the last of them."""
    vector: IntArray
    """[R] what one requests."""
    asked: tuple[tuple[int, int], ...]
    """The same as columns and amounts, without zeros."""
    constraints: Constraints
    topology: tuple[str, ...]
    """Keys over which they avoid their workload and one another."""
    reserved_for: str
    classes: Sequence[NodeClass] = ()
    selectors: NodeSelectors = NO_SELECTORS
    reach: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """[NC] which of `classes` admits them."""
    own: BoolArray | None = None
    """[NC] those of them that are their policy's; None where all are."""

    def look_at(self, classes: Sequence[NodeClass], selectors: NodeSelectors) -> None:
        """Find out which classes admit them, and which of these are their policy's, unless it is known."""
        if self.classes is classes and self.selectors == selectors:
            return
        self.classes, self.selectors = classes, selectors
        self.reach = np.array([admits(self.constraints, _kept(each)) for each in classes], dtype=np.bool_)
        own = np.array([_is_of(self.pods[0].policy, each, selectors) for each in classes], dtype=np.bool_) & self.reach
        self.own = None if bool((own == self.reach).all()) else own


Group = TypeVar("Group", bound=PackedShape)


@dataclass(slots=True)
class OrderedNodes:
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

    def fill_places(self, places: IntArray, each: IntArray, asked: Iterable[tuple[int, int]]) -> None:
        """Fill these places, each of which occurs once, with so many placeholders that request so much."""
        self.slots[places] -= each
        self.usable[places] &= self.slots[places] > 0
        for column, amount in asked:
            self.free[column, places] -= each * amount

    def copy(self) -> "OrderedNodes":
        """Return the same capacity, to be filled."""
        return replace(self, free=self.free.copy(), slots=self.slots.copy(), usable=self.usable.copy())

    def at(self, place: int) -> "PlaceRoom":
        """Return what is left at one place."""
        slots = int(self.slots[place]) if self.usable[place] else 0
        return PlaceRoom(slots, self.free[:, place].tolist())

    def differences(self, other: "OrderedNodes") -> list[int]:
        """Return the places at which another room of the same order has other capacity."""
        differs = (self.slots != other.slots) | (self.usable != other.usable)
        for own, of_other in zip(self.free, other.free, strict=True):
            differs |= own != of_other
        return np.flatnonzero(differs).tolist()


@dataclass(slots=True)
class PlaceRoom:
    """What is left at one place while placeholders are packed."""

    slots: int
    """0 if it takes no pods."""
    free: list[int]
    """[R]"""

    def holds(self, asked: Iterable[tuple[int, int]]) -> int:
        """Return how many placeholders fit that request so much."""
        return max(0, min((self.slots, *(self.free[column] // amount for column, amount in asked))))

    def fill_with(self, each: int, asked: Iterable[tuple[int, int]]) -> None:
        """Fill it with so many placeholders."""
        self.slots -= each
        for column, amount in asked:
            self.free[column] -= each * amount


class TopologyDomains:
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


@dataclass(slots=True, eq=False)
class ShapeFill:
    """Where the placeholders of one shape were put."""

    places: IntArray
    each: IntArray
    """How many each place took."""
    rows: IntArray
    """The node of each placeholder that fits."""
    decided_before: int
    """Capacity at this place and behind it did not matter."""
    hosts: IntArray
    """Rows of the nodes with pods of the mirrored workload."""
    taken: dict[int, int]
    """The same as `each`, by place."""


@dataclass(slots=True, eq=False)
class Packing(Generic[Group]):
    """How the unbound placeholders of one snapshot were packed."""

    room: OrderedNodes
    """Before the first of them."""
    classes: Sequence[NodeClass]
    selectors: NodeSelectors
    groups: Sequence[Group]
    """In the order in which they were packed."""
    fills: Sequence[ShapeFill]
    """Of each group."""
    amounts: IntArray
    """[N, R] what they take of each node."""
    number: IntArray
    """[N] how many of them each node has."""

    def is_about(
        self, room: OrderedNodes, classes: Sequence[NodeClass], selectors: NodeSelectors, groups: Sequence[PackedShape]
    ) -> bool:
        """Tell whether nodes, their order and the placeholders are the same, so that only capacity can differ."""
        return (
            self.classes is classes
            and self.selectors == selectors
            and len(self.groups) == len(groups)
            and all(map(is_, self.groups, groups))
            and self.room.free.shape == room.free.shape
            and np.array_equal(self.room.order, room.order)
            and np.array_equal(self.room.class_id, room.class_id)
        )


def pack_again(
    room: OrderedNodes,
    groups: Sequence[Group],
    hosts: Sequence[IntArray],
    about: tuple[Sequence[NodeClass], NodeSelectors],
    domains: TopologyDomains,
    before: Packing[Group] | None,
) -> Packing[Group]:
    """Pack the shapes one after the other; a shape that nothing has changed for stays where it was before."""
    places = before.room.differences(room) if before is not None else []
    if before is None or len(places) > _FEW_CHANGES:
        return pack_anew(room, groups, hosts, about, domains)
    changes = _Changes(before.room, room, places)
    left: OrderedNodes | None = None
    fills: list[ShapeFill] = []
    for index, (group, old, theirs) in enumerate(zip(groups, before.fills, hosts, strict=True)):
        if np.array_equal(old.hosts, theirs) and not changes.matter_to(group, old):
            fill = old
        else:
            if left is None:
                left = room.copy()
                for earlier, known in zip(groups[:index], fills, strict=True):
                    left.fill_places(known.places, known.each, earlier.asked)
            fill = _fill(left, group, theirs, domains)
        if left is not None:
            left.fill_places(fill.places, fill.each, group.asked)
        changes.next_shape(group, old, fill)
        fills.append(fill)
    amounts, number = before.amounts, before.number
    if not all(map(is_, before.fills, fills)):
        amounts, number = amounts.copy(), number.copy()
    for group, old, fill in zip(groups, before.fills, fills, strict=True):
        if fill is old:
            continue
        signed: tuple[tuple[int, ShapeFill], ...] = ((-1, old), (1, fill))
        for sign, one in signed:
            rows = room.order[one.places]
            number[rows] += sign * one.each
            for column, amount in group.asked:
                amounts[rows, column] += sign * amount * one.each
    return Packing(room, *about, groups, fills, amounts, number)


def pack_anew(
    room: OrderedNodes,
    groups: Sequence[Group],
    hosts: Sequence[IntArray],
    about: tuple[Sequence[NodeClass], NodeSelectors],
    domains: TopologyDomains,
) -> Packing[Group]:
    """Pack all shapes, one after the other."""
    left, fills = room.copy(), []
    for group, theirs in zip(groups, hosts, strict=True):
        fill = _fill(left, group, theirs, domains)
        left.fill_places(fill.places, fill.each, group.asked)
        fills.append(fill)
    amounts, number = np.empty_like(room.free.T), np.empty_like(room.slots)
    amounts[room.order], number[room.order] = (room.free - left.free).T, room.slots - left.slots
    return Packing(room, *about, groups, fills, amounts, number)


def _fill(left: OrderedNodes, group: PackedShape, hosts: IntArray, domains: TopologyDomains) -> ShapeFill:
    """Say where the placeholders of a shape go."""
    places, each, decided_before = _places(left, group, domains, hosts)
    rows = np.repeat(left.order[places], each)
    return ShapeFill(places, each, rows, decided_before, hosts, dict(zip(places.tolist(), each.tolist(), strict=True)))


class _Changes:
    """The places where capacity differs from the last packing, as both packings go from shape to shape."""

    def __init__(self, before: OrderedNodes, now: OrderedNodes, places: Iterable[int]) -> None:
        self._before, self._now = before, now
        self._earlier: list[tuple[PackedShape, ShapeFill, ShapeFill]] = []
        self._at = {place: (before.at(place), now.at(place)) for place in places}
        self._class_id = now.class_id

    def matter_to(self, group: PackedShape, fill: ShapeFill) -> bool:
        """Tell whether a shape could go elsewhere than it did."""
        return any(
            place < fill.decided_before
            and then != now
            and group.reach[self._class_id[place]]
            and then.holds(group.asked) != now.holds(group.asked)
            for place, (then, now) in self._at.items()
        )

    def next_shape(self, group: PackedShape, old: ShapeFill, new: ShapeFill) -> None:
        """Go on to the next shape."""
        if new is not old:
            for place in {place for place, each in old.taken.items() ^ new.taken.items()} - self._at.keys():
                self._at[place] = self._so_far(place)
        self._earlier.append((group, old, new))
        for place, (then, now) in self._at.items():
            if each := old.taken.get(place):
                then.fill_with(each, group.asked)
            if each := new.taken.get(place):
                now.fill_with(each, group.asked)

    def _so_far(self, place: int) -> tuple[PlaceRoom, PlaceRoom]:
        """Return what both packings have left at a place that did not differ so far."""
        then, now = self._before.at(place), self._now.at(place)
        for group, old, new in self._earlier:
            then.fill_with(old.taken.get(place, 0), group.asked)
            now.fill_with(new.taken.get(place, 0), group.asked)
        return then, now


def largest_first(groups: Sequence[Group], nodes: NodeColumns) -> list[Group]:
    """Return the groups by what one takes of the largest node, equal ones in the order that they have."""
    scale = np.maximum(nodes.allocatable.max(axis=0, initial=1), 1)
    shares = (np.array([group.vector for group in groups]) / scale).max(axis=1, initial=0.0)
    return [groups[index] for index in np.argsort(-shares, kind="stable").tolist()]


def _places(
    room: OrderedNodes, group: PackedShape, domains: TopologyDomains, hosts: IntArray
) -> tuple[IntArray, IntArray, int]:
    """Return the places that take placeholders of a shape, how many each takes, and before which place it was decided.

    The first nodes hold most placeholders, so a few are looked at, and the others if these are not enough. Only where
    the nodes of their policy do not suffice are others looked at. Behind the last place that is taken nothing matters.
    """
    count, nodes = len(group.pods), len(room.order)
    looked_at = max(_FIRST_PLACES, 2 * count)
    classes = group.reach if group.own is None else group.own
    while True:
        places, each = _places_among(room, group, classes, domains, hosts, looked_at)
        if each.sum() == count:
            return places, each, int(places[-1]) + 1
        if looked_at >= nodes:
            break
        looked_at *= _MORE_PLACES
    if group.own is not None:
        places, each = _places_among(room, group, group.reach, domains, hosts, nodes)
    return places, each, nodes


def _places_among(
    room: OrderedNodes, group: PackedShape, reach: BoolArray, domains: TopologyDomains, hosts: IntArray, first: int
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


def room_of(
    nodes: NodeColumns, classes: Sequence[NodeClass], preferred: FloatArray | BoolArray, marked: IntArray
) -> OrderedNodes:
    """Return what nodes have left, in the order in which they are filled.

    Args:
        nodes: with what is bound there.
        classes: that `nodes.class_id` refers to.
        preferred: [N] sort keys of nodes that are equal otherwise.
        marked: rows of the nodes that a marker pod releases.
    """
    empty = nodes.pod_count - nodes.daemon_count <= 0
    released = np.array([_is_released(each) for each in classes], dtype=np.bool_)
    last = released[nodes.class_id] if released.any() else np.zeros(empty.size, dtype=np.bool_)
    last[marked] = True
    order = np.lexsort((preferred, empty, last))
    slots = (nodes.max_pods - nodes.pod_count)[order]
    return OrderedNodes(
        order=order,
        free=np.ascontiguousarray(nodes.free[order].T),
        slots=slots,
        usable=(nodes.ready & nodes.schedulable)[order] & (slots > 0),
        class_id=nodes.class_id[order],
    )
