"""Where new containers go: to the node with the fewest, those in creation counted, each before the next is placed.

The proposal's rule: least loaded, with what is in progress. What is placed within one batch counts for the rest of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node as placement sees it."""

    name: str
    slots: int
    containers: int = 0
    """Those that are there, draining ones included."""
    creating: int = 0

    @property
    def free(self) -> int:
        """Containers that it still has room for; never below 0."""
        return max(self.slots - self.containers - self.creating, 0)


def place(count: int, nodes: Sequence[PlacementNode]) -> list[str | None]:
    """Return a node for each of `count` containers, None once all are full.

    The node with the fewest containers, creations included; of equals the one with fewer creations, then by name.
    """
    heap = [
        (node.containers + node.creating, node.creating, node.name, node.free) for node in nodes if node.free and count
    ]
    heapify(heap)
    placed: list[str | None] = []
    for _ in range(count):
        if not heap:
            return placed + [None] * (count - len(placed))
        load, creating, name, free = heap[0]
        placed.append(name)
        if free > 1:
            heapreplace(heap, (load + 1, creating + 1, name, free - 1))
        else:
            heap[0] = heap[-1]
            heap.pop()
            heapify(heap)
    return placed
