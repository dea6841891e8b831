"""Rooms for tests: nodes with what is free, and placeholders on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slack.cluster.classes import Constraints, NodeClass
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst
from slack.planner.burst_eviction.capacity import BoundPlaceholders, ClusterCapacity

GIB = 1 << 30


@dataclass(frozen=True)
class Ph:
    """A placeholder."""

    cpu: int
    memory: int = 0
    priority: int = -10
    policy: str = "default"
    turn: int = 0


@dataclass(frozen=True)
class Node:
    """A node with what is free there."""

    free: int = 0
    memory: int = 0
    placeholders: Sequence[Ph] = ()
    slots: int = 110
    labels: tuple[tuple[str, str], ...] = ()
    is_open: bool = True
    candidate: bool = False
    name: str = ""
    size: tuple[int, int] = field(default=(16_000, 64 * GIB))


def room(*nodes: Node) -> ClusterCapacity:
    """Return these nodes; they are n0, n1, ... and their placeholders p0, p1, ... where nothing else is said."""
    pods = [(row, ph) for row, node in enumerate(nodes) for ph in node.placeholders]
    classes = sorted({NodeClass(node.labels, ()) for node in nodes}, key=lambda own: own.labels)
    return ClusterCapacity(
        resources=("cpu", "memory"),
        nodes=tuple(node.name or f"n{row}" for row, node in enumerate(nodes)),
        classes=tuple(classes),
        class_id=np.array([classes.index(NodeClass(node.labels, ())) for node in nodes], dtype=np.int32),
        is_open=np.array([node.is_open for node in nodes], dtype=bool),
        candidate=np.array([node.candidate for node in nodes], dtype=bool),
        free=np.array([(node.free, node.memory) for node in nodes], dtype=np.int64).reshape(len(nodes), 2),
        slots=np.array([node.slots for node in nodes], dtype=np.int64),
        largest=np.array([node.size for node in nodes], dtype=np.int64).reshape(len(nodes), 2).max(axis=0, initial=0),
        standing=BoundPlaceholders(
            uid=tuple(f"u{i}" for i in range(len(pods))),
            name=tuple(f"p{i}" for i in range(len(pods))),
            replica_set=tuple(f"{ph.policy}-set" for _, ph in pods),
            policy=tuple(ph.policy for _, ph in pods),
            node=np.array([row for row, _ in pods], dtype=np.int32),
            requests=np.array([(ph.cpu, ph.memory) for _, ph in pods], dtype=np.int64).reshape(len(pods), 2),
            priority=np.array([ph.priority for _, ph in pods], dtype=np.int64),
            turn=np.array([ph.turn for _, ph in pods], dtype=np.int64),
        ),
    )


def burst(
    count: int,
    cpu: int = 500,
    memory: int = 0,
    *,
    key: str = "shop/deploy/api",
    priority: int = 0,
    constraints: Constraints | None = None,
    whole: bool = False,
    one_a_node: bool = False,
    barred: frozenset[str] = frozenset(),
    node: str | None = None,
    left_alone: LeftAlone | None = None,
) -> PodBurst:
    """Return pods that have no node."""
    requests = tuple((name, amount) for name, amount in (("cpu", cpu), ("memory", memory)) if amount)
    return PodBurst(
        key, requests, constraints or Constraints(), count, priority, whole, one_a_node, barred, node, left_alone
    )
