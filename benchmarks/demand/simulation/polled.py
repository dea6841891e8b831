"""Containers by polling, as KEDA does it with a Deployment: each queue is asked every 30 s, HPA acts every 15 s.

From none to one at a poll that finds messages; beyond one as many as the lag asks for, at HPA's steps; down to none
300 s after a poll last found any (KEDA's defaults).
"""

from dataclasses import dataclass
from math import ceil

from benchmarks.demand.simulation.events import Events, Generator
from benchmarks.demand.simulation.load import SimulatedMessage, Traffic
from benchmarks.demand.simulation.runtime import SimulatedRuntime
from benchmarks.demand.simulation.world import World
from slack.demand.model import Creation, QueueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """Its settings, KEDA's defaults."""

    polling_seconds: float = 30.0
    sync_seconds: float = 15.0
    cooldown_seconds: float = 300.0
    lag_threshold: int = 10
    """Messages that wait or run, for each container."""


class Polled:
    """One Deployment an action."""

    def __init__(self, world: World, polling: Polling, events: Events, random: Generator, traffic: Traffic) -> None:
        """The first poll comes at a random instant of its interval."""
        self.runtime = SimulatedRuntime(world, events, random, traffic)
        self._polling, self._events = polling, events
        self._containers: list[list[str]] = [[] for _ in self.runtime.queues]
        self._active_until = [0.0] * len(self._containers)
        self._sequence = 0
        events.after(random.uniform(0.0, polling.polling_seconds), self._poll)
        events.after(random.uniform(0.0, polling.sync_seconds), self._sync)

    def publish(self, message: SimulatedMessage) -> None:
        """Take a message."""
        self.runtime.publish(message)

    def _messages(self, action: int) -> int:
        lag = self.runtime.lag(action)
        return lag.backlog + lag.in_flight

    def _poll(self) -> None:
        for action, containers in enumerate(self._containers):
            if self._messages(action):
                self._active_until[action] = self._events.now + self._polling.cooldown_seconds
                if not containers:
                    self._add(action)
            elif containers and self._events.now >= self._active_until[action]:
                self._shrink(action, 0)
        self._events.after(self._polling.polling_seconds, self._poll)

    def _sync(self) -> None:
        for action, containers in enumerate(self._containers):
            wanted = max(ceil(self._messages(action) / self._polling.lag_threshold), 1)
            if not containers:
                continue
            # HPA at most doubles, or adds four, in fifteen seconds.
            wanted = min(wanted, max(2 * len(containers), len(containers) + 4))
            for _ in range(wanted - len(containers)):
                self._add(action)
        self._events.after(self._polling.sync_seconds, self._sync)

    def _add(self, action: int) -> None:
        if sum(map(len, self._containers)) >= self.runtime.world.all_slots:
            return
        self._sequence += 1
        name = f"k{self._sequence}"
        key = QueueKey("sim", f"a{action}")
        creation = Creation(id=name, key=key, revision="r1", subject=f"act.sim.a{action}.128")
        self._containers[action].append(name)
        self.runtime.create(creation, action, self._sequence % self.runtime.world.nodes)

    def _shrink(self, action: int, to: int) -> None:
        while len(self._containers[action]) > to:
            self.runtime.end(self._containers[action].pop())
