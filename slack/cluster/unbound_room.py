"""Where unbound placeholders fit: each snapshot packs them into the capacity that real pods leave free.

No scheduler binds an unbound placeholder, so nothing in the API says whether the capacity for it is there. The packing
is first fit: the largest shape first, nodes with pods before empty ones, at most one pass over the nodes a shape. It
honours node selectors, affinity and taints by node class, pod slots, and required anti-affinity against the mirrored
workload and its other mirrors. A node that is not ready or not schedulable holds none: capacity there is pending.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints, NodeClass, admits
from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import BoolArray, IntArray, NodeColumns, Placeholder
from slack.cluster.tables.placeholder_table import PlaceholderFacts

HostsOf = Mapping[str, npt.NDArray[np.int64]]
"""By workload (`shop/deploy/api`): rows of the nodes that have pods of it."""
_MOST_PAIRS = 100_000
"""Decisions about constraints and node classes that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Placeholders and nodes with the unbound ones where they fit."""

    placeholders: tuple[Placeholder, ...]
    nodes: NodeColumns


@dataclass(slots=True)
class _Room:
    """What is left while placeholders are packed."""

    free: IntArray
    """[N, R]"""
    slots: IntArray
    """[N] pod slots."""
    usable: BoolArray
    """[N] ready and schedulable."""
    order: npt.NDArray[np.int64]
    """[N] rows in the order in which they are filled."""


class _Wait(NamedTuple):
    """A time in which a placeholder has fitted nowhere."""

    since: float
    """Unix seconds."""
    lasts: bool


class UnboundRoom:
    """Packs for one snapshot after the other, and remembers since when a placeholder has fitted nowhere."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        """By uid; of those that have fitted nowhere since they were first seen."""
        self._admitted: dict[tuple[Constraints, NodeClass], bool] = {}

    def pack(
        self,
        placeholders: Sequence[Placeholder],
        facts: Mapping[str, PlaceholderFacts],
        nodes: NodeColumns,
        classes: Sequence[NodeClass],
        resources: Sequence[str],
        hosts_of: HostsOf,
        now: float,
    ) -> Packed:
        """Say where each unbound placeholder fits.

        Args:
            placeholders: all of them, bound ones with their nodes.
            facts: of the unbound ones, by uid.
            nodes: with what is bound there.
            classes: that `nodes.class_id` refers to.
            resources: the columns of `nodes`.
            hosts_of: of the workloads that unbound placeholders mirror.
            now: Unix seconds.
        """
        groups: dict[tuple[object, ...], list[PlaceholderFacts]] = {}
        for pod in facts.values():
            groups.setdefault((pod.policy, pod.shape, pod.requests, pod.constraints, pod.reserved_for), []).append(pod)
        sized = [(_vector(pods[0].requests, resources), pods) for pods in groups.values()]
        scale = np.maximum(nodes.allocatable.max(axis=0, initial=1), 1)
        sized.sort(
            key=lambda group: (-float((group[0] / scale).max(initial=0.0)), group[1][0].policy, group[1][0].shape)
        )
        room = _room_of(nodes)
        fits: dict[str, int] = {}
        for vector, pods in sized:
            pods.sort(key=lambda pod: (pod.created_seconds, pod.name))
            rows = self._rows(room, vector, pods[0], len(pods), nodes, classes, hosts_of)
            np.subtract.at(room.free, rows, vector)
            np.subtract.at(room.slots, rows, 1)
            fits.update(zip((pod.uid for pod in pods), rows.tolist(), strict=False))
        self._waits = {uid: wait for uid in facts if (wait := self._wait(uid, now, fits=uid in fits)) is not None}
        return Packed(
            tuple(
                pod if pod.uid not in facts else _shown(pod, fits.get(pod.uid, -1), self._waits.get(pod.uid))
                for pod in placeholders
            ),
            replace(
                nodes,
                placeholders=_frozen(nodes.placeholders + (nodes.free - room.free)),
                pod_count=_frozen(nodes.max_pods - room.slots),
            ),
        )

    def _wait(self, uid: str, now: float, *, fits: bool) -> "_Wait | None":
        """Return since when a placeholder waits, or has last waited; None where it has never."""
        known = self._waits.get(uid)
        if fits:
            return None if known is None else known._replace(lasts=False)
        return known if known is not None and known.lasts else _Wait(now, lasts=True)

    def _rows(
        self,
        room: _Room,
        vector: IntArray,
        pod: PlaceholderFacts,
        count: int,
        nodes: NodeColumns,
        classes: Sequence[NodeClass],
        hosts_of: HostsOf,
    ) -> npt.NDArray[np.int64]:
        """Return the rows of nodes that take placeholders of one shape, one row each; at most `count`."""
        assert pod.constraints is not None
        reach = np.array([self._admits(pod.constraints, each) for each in classes], dtype=np.bool_)
        usable = room.usable & reach[nodes.class_id] if len(classes) else room.usable
        needed = np.flatnonzero(vector)
        fitting = np.where(usable, np.maximum(room.slots, 0), 0)
        for column in needed.tolist():
            np.minimum(fitting, np.maximum(room.free[:, column], 0) // vector[column], out=fitting)
        topology = _apart(pod.constraints.anti_affinity)
        for key in topology:
            domain = _domains(key, nodes, classes)
            taken = np.isin(domain, domain[hosts_of.get(pod.reserved_for, _NO_ROWS)]) & (domain >= 0)
            fitting[taken] = 0
        if topology:
            rows = room.order[fitting[room.order] > 0]
            for key in topology:
                rows = _one_each(rows, _domains(key, nodes, classes))
            return rows[:count]
        total = np.cumsum(np.minimum(fitting[room.order], count))
        most = min(count, int(total[-1])) if total.size else 0
        return room.order[np.searchsorted(total, np.arange(most), side="right")]

    def _admits(self, constraints: Constraints, node_class: NodeClass) -> bool:
        pair = constraints, node_class
        found = self._admitted.get(pair)
        if found is None:
            if len(self._admitted) >= _MOST_PAIRS:
                self._admitted.clear()
            found = self._admitted[pair] = admits(constraints, node_class)
        return found


_NO_ROWS = np.zeros(0, dtype=np.int64)


def _shown(pod: Placeholder, node: int, wait: _Wait | None) -> Placeholder:
    return replace(pod, node=node, unbound=True, created_seconds=pod.created_seconds if wait is None else wait.since)


def _room_of(nodes: NodeColumns) -> _Room:
    empty = nodes.pod_count - nodes.daemon_count <= 0
    return _Room(
        free=nodes.free,
        slots=nodes.max_pods - nodes.pod_count,
        usable=nodes.ready & nodes.schedulable,
        order=np.argsort(empty, kind="stable"),
    )


def _vector(requests: Iterable[tuple[str, int]], resources: Sequence[str]) -> IntArray:
    """[R] what a placeholder requests; a resource that no node has makes it too large for all of them."""
    amounts = dict(requests)
    vector = np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)
    if any(amount and name not in resources for name, amount in amounts.items()):
        vector[0] = np.iinfo(np.int64).max // 2
    return vector


def _apart(anti_affinity: str) -> tuple[str, ...]:
    """Return the topology keys over which a mirror avoids its workload and its like."""
    terms: list[dict[str, Any]] = msgspec.json.decode(anti_affinity) if anti_affinity else []
    return tuple(sorted({str(term.get("topologyKey")) for term in terms if term.get("topologyKey")}))


def _domains(key: str, nodes: NodeColumns, classes: Sequence[NodeClass]) -> npt.NDArray[np.int64]:
    """[N] a number for the node's value of a label, -1 where it has none; each node is its own host."""
    if key == HOSTNAME:
        return np.arange(len(nodes.names), dtype=np.int64)
    numbers: dict[str, int] = {}
    of_class = [
        -1 if (value := dict(each.labels).get(key)) is None else numbers.setdefault(value, len(numbers))
        for each in classes
    ]
    return np.array(of_class, dtype=np.int64)[nodes.class_id]


def _one_each(rows: npt.NDArray[np.int64], domain: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Keep the first row of each domain, and all rows without one."""
    of_rows = domain[rows]
    first = np.zeros(rows.size, dtype=np.bool_)
    first[np.unique(of_rows, return_index=True)[1]] = True
    return rows[first | (of_rows < 0)]


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
