"""Where unbound placeholders fit: each snapshot packs them into the capacity that real pods leave free.

No scheduler binds an unbound placeholder, so nothing in the API says whether the capacity for it is there. The packing
is first fit: the largest shape first, nodes with pods before empty ones, nodes that held some in the last snapshot
before others, at most one pass over the nodes a shape. So a node that comes takes no placeholder from another. The
first snapshot of a process knows of no other, and takes older nodes before newer ones instead. Before all of this,
nodes that the placeholder's policy selects, and no more specific policy does, come before others. Of equally large
shapes the one of the oldest CapacityBuffer is first, and within a shape so are the placeholders of older buffers.
The packing honours node selectors, affinity and taints by node class, pod slots, and required anti-affinity against
the mirrored workload and its other mirrors. A node that is not ready or not schedulable holds none: capacity there is
pending. A node that its label or a marker pod releases comes last: real pods may use its capacity until it goes, so it
counts until its replacement is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NamedTuple

import msgspec
import numpy as np

from slack.cluster.classes import NO_SELECTORS, Constraints, NodeClass, NodeSelectors
from slack.cluster.labels import LABEL_RESERVED_FOR
from slack.cluster.snapshot import BoolArray, FloatArray, IntArray, NodeColumns, Placeholder
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.cluster.unbound_packing import (
    HostsOf,
    PackedShape,
    Packing,
    ShapeFill,
    TopologyDomains,
    largest_first,
    pack_again,
    room_of,
)

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Placeholders and nodes with the unbound ones where they fit."""

    placeholders: tuple[Placeholder, ...]
    nodes: NodeColumns


class _Wait(NamedTuple):
    """A time in which a placeholder has fitted nowhere."""

    since: float
    """Unix seconds."""
    lasts: bool


@dataclass(slots=True, eq=False, kw_only=True)
class _Group(PackedShape):
    """A shape's placeholders, and how the last snapshot shows them."""

    at: list[int]
    """Of each, its index in the placeholders of the snapshot."""
    shown: list[Placeholder | None]
    """As the last snapshot has them; None where it does not."""
    rows: IntArray | None = None
    """The nodes with which `shown` was made, where nothing else decides it; None where some wait or have waited."""

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
            else _fitting(pod, node, since)
            for pod, node, since, known in zip(
                self.pods, nodes, (_since(pod, waits) for pod in self.pods), self.shown, strict=True
            )
        ]
        self.shown = list(found)
        return self.shown

    def _move(self, rows: IntArray) -> None:
        """Make those anew that fit on another node than before; without waits all fit, then and now.

        They are alike, so each stays on its node while that takes as many: only what the nodes take more or less moves.
        """
        if self.rows is not None and np.array_equal(self.rows, rows):
            return
        self.rows, self.shown = rows, list(self.shown)
        before = np.array([-1 if known is None else known.node for known in self.shown], dtype=np.int64)
        moved, free = _beyond(before, rows), _beyond(rows, before)
        for index, node in zip(moved.tolist(), rows[free].tolist(), strict=True):
            pod = self.pods[index]
            self.shown[index] = _fitting(pod, node, pod.created_seconds)


class UnboundRoom:
    """Packs for one snapshot after the other, and remembers since when a placeholder has fitted nowhere."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        """By uid; of those that have fitted nowhere since they were first seen."""
        self._groups: tuple[Sequence[PlaceholderFacts], Sequence[str], Sequence[_Group]] | None = None
        self._held: tuple[Sequence[str], BoolArray] | None = None
        """Names of the last snapshot's nodes, and which of them held placeholders; None before the first."""
        self._packing: Packing[_Group] | None = None
        """Of the last snapshot."""
        self._last_shown: tuple[Sequence[Placeholder], Sequence[ShapeFill], tuple[Placeholder, ...]] | None = None
        """What the last one was made from and showed; None if some wait or have waited."""

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
        groups = largest_first(self._grouped(placeholders, unbound, resources), nodes)
        for group in groups:
            group.look_at(classes, selectors)
        room = room_of(nodes, classes, self._preferred(nodes.names, created_seconds), marked)
        hosts = [hosts_of.get(group.reserved_for, _NO_ROWS) for group in groups]
        known = self._packing
        if known is None or not known.is_about(room, classes, selectors, groups):
            known = None
        packing = pack_again(room, groups, hosts, (classes, selectors), TopologyDomains(nodes, classes), known)
        self._packing, self._held = packing, (nodes.names, packing.number > 0)
        return Packed(
            self._show_all(placeholders, unbound, packing, now),
            replace(
                nodes,
                placeholders=_frozen(nodes.placeholders + packing.amounts),
                pod_count=_frozen(nodes.pod_count + packing.number),
            ),
        )

    def _show_all(
        self,
        placeholders: Sequence[Placeholder],
        unbound: Sequence[PlaceholderFacts],
        packing: Packing[_Group],
        now: float,
    ) -> tuple[Placeholder, ...]:
        """Return all placeholders, the unbound ones where they fit; the same value while nothing of it changes."""
        last = self._last_shown
        if last is not None and last[0] is placeholders and all(map(is_, last[1], packing.fills)):
            return last[2]
        waiting = {
            pod.uid
            for group, fill in zip(packing.groups, packing.fills, strict=True)
            for pod in group.pods[len(fill.rows) :]
        }
        self._wait(unbound, waiting, now)
        stays: Sequence[ShapeFill | None] = [None] * len(packing.fills)
        found: list[Any] = list(placeholders)
        if last is not None and last[0] is placeholders and len(last[1]) == len(packing.fills) and not self._waits:
            stays, found = last[1], list(last[2])
        for group, fill, known in zip(packing.groups, packing.fills, stays, strict=True):
            if fill is known:
                continue
            for index, pod in zip(group.at, group.show(fill.rows, self._waits), strict=True):
                found[index] = pod
        shown = tuple(found)
        self._last_shown = None if self._waits else (placeholders, packing.fills, shown)
        return shown

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
            pods.sort(key=lambda pod: (pod.buffer_created, pod.created_seconds, pod.name))
            first, constraints = pods[0], pods[0].constraints or Constraints()
            vector, topology = _vector(first.requests, resources), _apart(constraints.anti_affinity)
            asked = tuple((column, amount) for column, amount in enumerate(vector.tolist()) if amount)
            at = [index[pod.uid] for pod in pods]
            shown = [before.get(id(pod)) for pod in pods]
            groups.append(
                _Group(
                    pods=pods,
                    vector=vector,
                    asked=asked,
                    constraints=constraints,
                    topology=topology,
                    reserved_for=first.reserved_for,
                    at=at,
                    shown=shown,
                )
            )
        firsts = ((group, group.pods[0]) for group in groups)
        ordered = sorted(firsts, key=lambda one: (one[1].policy, one[1].buffer_created, one[1].shape, one[1].name))
        groups = [group for group, _ in ordered]
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


def _fitting(pod: PlaceholderFacts, node: int, since: float) -> Placeholder:
    """Return an unbound placeholder where it fits, -1 for nowhere, and since when that or its creation was."""
    return Placeholder(
        uid=pod.uid,
        name=pod.name,
        policy=pod.policy,
        shape=pod.shape,
        replica_set=pod.replica_set,
        node=node,
        created_seconds=since,
        deletion_cost=pod.deletion_cost,
        unschedulable=pod.unschedulable,
        requests=pod.requests,
        unbound=True,
        constraints=pod.constraints,
    )


def _since(pod: PlaceholderFacts, waits: Mapping[str, _Wait]) -> float:
    wait = waits.get(pod.uid) if waits else None
    return pod.created_seconds if wait is None else wait.since


def _beyond(values: IntArray, others: IntArray) -> IntArray:
    """Return where values are that occur more often than in others: of each the last ones, as many as it is more."""
    order, known = np.argsort(values, kind="stable"), np.sort(others)
    there = values[order]
    nth = np.arange(there.size) - np.searchsorted(there, there)
    often = np.searchsorted(known, there, side="right") - np.searchsorted(known, there)
    return np.sort(order[nth >= often])


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


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
