"""Containers that pull: created in a while, running a message at once or waiting for one, draining, gone."""

from collections import deque

from benchmarks.demand.simulation.events import Events, Generator
from benchmarks.demand.simulation.load import SimulatedMessage, Traffic
from benchmarks.demand.simulation.world import World
from slack.demand.broker import QueueLag
from slack.demand.model import ContainerState, Creation, PoolContainer

REPORT_SECONDS = 0.5
"""A container tells of its runs at most so often."""


class _Running:
    """One container."""

    __slots__ = (
        "action",
        "created",
        "creation",
        "draining",
        "idle_since",
        "message",
        "node",
        "ready",
        "reported",
        "runs",
    )

    def __init__(self, creation: Creation, action: int, node: int, now: float) -> None:
        self.creation, self.action, self.node, self.created = creation, action, node, now
        self.ready: float | None = None
        self.idle_since: float | None = None
        self.message: SimulatedMessage | None = None
        self.draining = False
        self.runs: list[float] = []
        self.reported = now


class SimulatedRuntime:
    """Queues, containers and nodes; who decides is above it."""

    def __init__(self, world: World, events: Events, random: Generator, traffic: Traffic) -> None:
        """No container is there."""
        self.world, self.events, self.random, self.traffic = world, events, random, traffic
        actions = traffic.outcome.load.actions
        self.queues: list[deque[SimulatedMessage]] = [deque() for _ in range(actions)]
        self.published = [0] * actions
        self.delivered = [0] * actions
        self.in_flight = [0] * actions
        self._idle: list[list[_Running]] = [[] for _ in range(actions)]
        self._running: dict[str, _Running] = {}
        self._operations = [0] * world.nodes
        self._line: list[deque[_Running]] = [deque() for _ in range(world.nodes)]

    def publish(self, message: SimulatedMessage) -> None:
        """Put a message into its queue; a container that waits takes it at once."""
        action = message.action
        self.published[action] += 1
        while self._idle[action]:
            container = self._idle[action].pop()
            if not container.draining:
                self._take(container, message)
                return
        self.queues[action].append(message)

    def create(self, creation: Creation, action: int, node: int) -> None:
        """Begin to create a container; nodes do so many at once, and the others wait."""
        container = _Running(creation, action, node, self.events.now)
        self._running[creation.id] = container
        outcome = self.traffic.outcome
        outcome.started += 1
        outcome.highest = max(outcome.highest, len(self._running))
        if outcome.first_decision_seconds is None:
            outcome.first_decision_seconds = self.events.now
        self._line[node].append(container)
        self._operate(node)

    def end(self, container_id: str) -> None:
        """Let a container end, after what it runs."""
        container = self._running.get(container_id)
        if container is None or container.draining:
            return
        container.draining = True
        if container.ready is not None and container.message is None:
            self._remove(container)

    def lag(self, action: int) -> QueueLag:
        """Return a queue's counters."""
        queue = self.queues[action]
        return QueueLag(
            backlog=len(queue),
            in_flight=self.in_flight[action],
            delivered_total=self.delivered[action],
            published_total=self.published[action],
            oldest_age_seconds=self.events.now - queue[0].published_seconds if queue else None,
        )

    def seen(self) -> list[PoolContainer]:
        """Return the containers as a controller sees them."""
        return [
            PoolContainer(
                id=name,
                namespace=item.creation.key.namespace,
                pool=item.creation.key.action,
                revision=item.creation.revision,
                subject=item.creation.subject,
                node=f"node-{item.node}",
                state=_state(item),
                created_at_seconds=item.created,
                ready_at_seconds=item.ready,
                idle_since_seconds=item.idle_since,
            )
            for name, item in self._running.items()
        ]

    def reported(self) -> dict[int, list[float]]:
        """Return the run times, in milliseconds, that containers have told of since the last call, by action."""
        now = self.events.now
        found: dict[int, list[float]] = {}
        for item in self._running.values():
            if item.runs and now - item.reported >= REPORT_SECONDS:
                found.setdefault(item.action, []).extend(item.runs[-10:])
                item.runs, item.reported = [], now
        return found

    def _operate(self, node: int) -> None:
        while self._line[node] and self._operations[node] < self.world.operations:
            container = self._line[node].popleft()
            self._operations[node] += 1
            self.events.after(self.random.uniform(*self.world.creation_seconds), self._ready, container)

    def _ready(self, container: _Running) -> None:
        self._operations[container.node] -= 1
        self._operate(container.node)
        container.ready = self.events.now
        outcome = self.traffic.outcome
        if outcome.first_start_seconds is None:
            outcome.first_start_seconds = self.events.now
        self._next(container)

    def _next(self, container: _Running) -> None:
        if container.draining:
            self._remove(container)
        elif self.queues[container.action]:
            self._take(container, self.queues[container.action].popleft())
        else:
            container.message, container.idle_since = None, self.events.now
            self._idle[container.action].append(container)

    def _take(self, container: _Running, message: SimulatedMessage) -> None:
        container.message, container.idle_since = message, None
        self.delivered[message.action] += 1
        self.in_flight[message.action] += 1
        self.events.after(message.run_seconds, self._finished, container, message)

    def _finished(self, container: _Running, message: SimulatedMessage) -> None:
        self.in_flight[message.action] -= 1
        container.runs.append(message.run_seconds * 1000)
        container.message = None
        self._next(container)
        self.traffic.done(message)

    def _remove(self, container: _Running) -> None:
        container.message = None
        self.events.after(self.random.uniform(*self.world.removal_seconds), self._gone, container)

    def _gone(self, container: _Running) -> None:
        del self._running[container.creation.id]
        if not self._running:
            self.traffic.outcome.gone_seconds = self.events.now


def _state(item: _Running) -> ContainerState:
    if item.draining:
        return ContainerState.DRAINING
    return ContainerState.CREATING if item.ready is None else ContainerState.READY
