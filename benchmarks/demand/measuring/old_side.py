"""The old scheduler's rules over the same broker and the same processes: a container is chosen for each message.

A message goes to the node that its action's name hashes to, or steps on by a number without a common divisor until one
has a free slot, or to any when none has (OpenWhisk's `ShardingContainerPoolBalancer`). The node takes a free container
of the action, else makes one where it has room, else in place of the one that is free for longest, else the message
waits in its line (`ContainerPool`). Modelled to its favour: nothing is paused, and routing costs nothing.
"""

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field
from math import gcd
from zlib import crc32

from slack.demand.broker import Duration, MessageQueue, QueueSettings
from slack.demand.model import Creation, Ending, EndReason, QueueKey
from slack_operator.demand.containers import Containers

_MEMORY = 64


@dataclass(slots=True, eq=False)
class _Container:
    creation: Creation
    node: "_Node"
    body: bytes | None = None


@dataclass(slots=True, eq=False)
class _Node:
    name: str
    free: deque[_Container] = field(default_factory=deque)
    """Free for longest first."""
    containers: int = 0
    in_flight: int = 0
    line: deque[tuple[int, bytes]] = field(default_factory=deque)


class OldSide:
    """All nodes, and the one that routes. Of one event loop."""

    def __init__(
        self,
        broker: MessageQueue,
        processes: Containers,
        *,
        namespace: str,
        nodes: int,
        slots: int,
        ack_wait_seconds: float,
        seed: int,
    ) -> None:
        self._broker = broker
        self._processes = processes
        self._namespace = namespace
        self._slots = slots
        self._ack_wait_seconds = ack_wait_seconds
        self._nodes = [_Node(f"node-{number}") for number in range(nodes)]
        self._steps = [step for step in range(1, nodes + 1) if gcd(step, nodes) == 1]
        self._random = random.Random(seed)
        self._running: dict[bytes, _Container] = {}
        self._queues: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = 0

    async def start(self) -> None:
        """Nothing is made before the first message."""

    @property
    def started(self) -> int:
        """Containers that were asked for."""
        return self._started

    async def publish(self, action: int, body: bytes) -> None:
        """Route a message to a node."""
        node = self._node_for(action)
        node.in_flight += 1
        await self._place(node, action, body)

    def _node_for(self, action: int) -> _Node:
        count, value = len(self._nodes), crc32(f"action-{action}".encode())
        step = self._steps[value % len(self._steps)]
        for turn in range(count):
            node = self._nodes[(value + turn * step) % count]
            if node.in_flight < self._slots:
                return node
        return self._random.choice(self._nodes)

    async def _place(self, node: _Node, action: int, body: bytes) -> None:
        key = QueueKey(self._namespace, f"a{action}")
        container = next((found for found in node.free if found.creation.key == key), None)
        if container is not None:
            node.free.remove(container)
        elif node.containers < self._slots or node.free:
            if node.containers >= self._slots:
                await self._remove(node.free.popleft())
            container = await self._make(node, key)
        else:
            node.line.append((action, body))
            return
        container.body = body
        self._running[body] = container
        await self._broker.publish(container.creation.subject, body)

    async def _make(self, node: _Node, key: QueueKey) -> _Container:
        self._started += 1
        name = f"{key.action}-old-{self._started:x}"
        subject = f"act.{self._namespace}.{name}.{_MEMORY}"
        node.containers += 1
        creation = Creation(id=name, key=key, revision="r1", subject=subject, node_hint=node.name)
        self._queues.add(subject)
        await self._broker.ensure(QueueSettings(name=subject, ack_wait_seconds=Duration(self._ack_wait_seconds)))
        self._processes.create([creation])
        return _Container(creation, node)

    async def _remove(self, container: _Container) -> None:
        container.node.containers -= 1
        creation = container.creation
        self._processes.end([Ending(container_id=creation.id, key=creation.key, reason=EndReason.EVICTED)])

    def ended(self, body: bytes) -> None:
        """A container is free again; the first in the node's line may have it, or what it makes room for."""
        container = self._running.pop(body, None)
        if container is None:
            return
        node = container.node
        node.in_flight -= 1
        container.body = None
        node.free.append(container)
        if node.line:
            task = asyncio.get_running_loop().create_task(self._place(node, *node.line.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Take the queues away."""
        for task in tuple(self._tasks):
            task.cancel()
        for subject in self._queues:
            await self._broker.delete(subject)
