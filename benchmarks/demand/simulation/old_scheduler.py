"""The old scheduler, as the proposal found it: a message goes to the node that its action's name hashes to.

From its home a message steps on by a number without a common divisor until a node has a slot; where none has, any
node gets it (OpenWhisk's `ShardingContainerPoolBalancer`). A node runs it in a free container of the action, else makes
one where there is room, else in place of its oldest free one, else lets it wait in line (`ContainerPool`). It is
modelled in its favour: a container that waits is never paused, and routing takes no time.
"""

from collections import deque
from dataclasses import dataclass, field
from math import gcd
from zlib import crc32

from benchmarks.demand.simulation.events import Events, Generator
from benchmarks.demand.simulation.load import SimulatedMessage, Traffic
from benchmarks.demand.simulation.world import World


@dataclass(slots=True, eq=False)
class _Node:
    free: dict[int, deque[float]] = field(default_factory=dict)
    """By action: since when each of its free containers is free, the oldest first."""
    containers: int = 0
    in_flight: int = 0
    operations: int = 0
    line: deque[SimulatedMessage] = field(default_factory=deque)


class OldScheduler:
    """All nodes, and the one controller that routes."""

    def __init__(self, world: World, events: Events, random: Generator, traffic: Traffic) -> None:
        """Nothing runs."""
        self._world, self._events, self._random, self._traffic = world, events, random, traffic
        self._nodes = [_Node() for _ in range(world.nodes)]
        self._steps = [step for step in range(1, world.nodes + 1) if gcd(step, world.nodes) == 1]

    def publish(self, message: SimulatedMessage) -> None:
        """Route a message to a node."""
        number, value = len(self._nodes), crc32(f"action-{message.action}".encode())
        home, step = value % number, self._steps[value % len(self._steps)]
        for turn in range(number):
            node = self._nodes[(home + turn * step) % number]
            if node.in_flight < self._world.slots:
                break
        else:
            node = self._random.choice(self._nodes)
        node.in_flight += 1
        node.line.append(message)
        self._serve(node)

    def _serve(self, node: _Node) -> None:
        """Run what is in line, in its order: what cannot be run keeps those behind it waiting."""
        while node.line:
            message = node.line[0]
            free = node.free.get(message.action)
            if free:
                free.pop()
                node.line.popleft()
                self._run(node, message)
                continue
            if node.operations >= self._world.operations:
                return
            if node.containers < self._world.slots:
                node.containers += 1
            elif not self._evict(node):
                return
            node.line.popleft()
            node.operations += 1
            self._traffic.outcome.started += 1
            # Its removal and the creation together take what a creation takes: as its author measured them.
            self._events.after(self._random.uniform(*self._world.creation_seconds), self._created, node, message)

    def _evict(self, node: _Node) -> bool:
        oldest = min(((since[0], action) for action, since in node.free.items() if since), default=None)
        if oldest is None:
            return False
        node.free[oldest[1]].popleft()
        return True

    def _created(self, node: _Node, message: SimulatedMessage) -> None:
        node.operations -= 1
        self._run(node, message)
        self._serve(node)

    def _run(self, node: _Node, message: SimulatedMessage) -> None:
        self._events.after(message.run_seconds, self._finished, node, message)

    def _finished(self, node: _Node, message: SimulatedMessage) -> None:
        node.in_flight -= 1
        node.free.setdefault(message.action, deque()).append(self._events.now)
        self._serve(node)
        self._traffic.done(message)
