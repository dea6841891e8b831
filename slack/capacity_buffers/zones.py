"""Chunks of workloads that must spread over zones: divided among the zones, as mirrors are.

A topology spread counts pods of its own namespace only, and placeholders are in ours. So a node selector puts each part
into a zone that the constraint leaves to the workload's next pods.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from slack.capacity_buffers.chunks import Chunk
from slack.cluster.classes import NodeClass
from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.model.shape import Shape
from slack.planner.wanted.mirror_domains import pinned, shares, widest_spread

_Zones = tuple[str, int, Sequence[str]]
"""Label of the nodes, greatest skew, values."""


class ZoneMemory:
    """The zones that each placeholder may be divided among, while the classes of nodes are the same."""

    def __init__(self) -> None:
        """Begin with no memory."""
        self._classes: Sequence[NodeClass] = ()
        self._zones: dict[Shape, _Zones | None] = {}
        self._values: dict[str, list[str]] = {}
        """By label: of each class of nodes."""
        self._divided: dict[str, tuple[tuple[object, ...], tuple[tuple[Shape, int], ...]]] = {}
        """By uid of a buffer: what was last divided, and how."""

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget buffers that are gone."""
        self._divided = {uid: last for uid, last in self._divided.items() if uid in uids}

    def divide(
        self,
        snapshot: Snapshot,
        uid: str,
        chunk: Chunk,
        shape: Shape,
        count: int,
        kinds: IntArray,
        standing: Callable[[Shape], int],
    ) -> tuple[tuple[Shape, int], ...]:
        """Return placeholders and their counts, one for each zone that gets some.

        Args:
            snapshot: the cluster.
            uid: of the buffer.
            chunk: of the buffer.
            shape: of its placeholders, whatever their zone.
            count: of chunks.
            kinds: rows of the workload's pods.
            standing: how many placeholders of a shape there are.
        """
        if snapshot.node_classes is not self._classes:
            self._classes, self._zones, self._values = snapshot.node_classes, {}, {}
        if shape not in self._zones:
            self._zones[shape] = widest_spread(self._classes, chunk.zone_spread, shape)
        found = self._zones[shape]
        if found is None:
            return ((shape, count),)
        key, max_skew, values = found
        shapes = {value: pinned(shape, key, value) for value in values}
        there = {value: standing(own) for value, own in shapes.items()}
        pods = self._pods(snapshot, kinds, key, values)
        source = (shape, found, count, pods, there)
        last = self._divided.get(uid)
        if last is not None and last[0] == source:
            return last[1]
        counts = shares(count, pods=pods, there=there, max_skew=max_skew)
        parts = tuple((own, counts[value]) for value, own in shapes.items() if counts[value])
        self._divided[uid] = (source, parts)
        return parts

    def _pods(self, snapshot: Snapshot, kinds: IntArray, key: str, values: Sequence[str]) -> dict[str, int]:
        """Count pods of some kinds in each zone; `presence` is sorted by kind."""
        if key not in self._values:
            self._values[key] = [_value(each, key) for each in self._classes]
        found, by_class, presence = dict.fromkeys(values, 0), self._values[key], snapshot.presence
        for begin, end in zip(
            np.searchsorted(presence.kind, kinds).tolist(),
            np.searchsorted(presence.kind, kinds, side="right").tolist(),
            strict=True,
        ):
            for place in range(begin, end):
                value = by_class[int(presence.node_class[place])]
                if value in found:
                    found[value] += int(presence.count[place])
        return found


def _value(node_class: NodeClass, key: str) -> str:
    return str(dict(node_class.labels).get(key, ""))
