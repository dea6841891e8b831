"""Pools that follow their queues, simulated: what decides is `slack.demand.tick`, as in a controller."""

from dataclasses import dataclass, replace

from benchmarks.demand.simulation.events import Events, Generator
from benchmarks.demand.simulation.load import SimulatedMessage, Traffic
from benchmarks.demand.simulation.runtime import SimulatedRuntime
from benchmarks.demand.simulation.world import World
from slack.demand.model import Guards, PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import NodeRoom, PoolScheduler, TickInput, TickResult

NAMESPACE = "sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRules:
    """By which rules pools are run."""

    guards: Guards
    tick_seconds: float = 0.1
    idle_timeout_seconds: float = 10.0
    hold_seconds: float = 1.0


class SimulatedPools:
    """One namespace whose limit is all slots, with a pool for each action."""

    def __init__(self, world: World, rules: PoolRules, events: Events, random: Generator, traffic: Traffic) -> None:
        """No container is there; the first tick comes at once."""
        self.runtime = SimulatedRuntime(world, events, random, traffic)
        self.keys = [QueueKey(NAMESPACE, f"a{number}") for number in range(traffic.outcome.load.actions)]
        self.numbers = {key: number for number, key in enumerate(self.keys)}
        self.subjects = [f"act.{NAMESPACE}.a{number}.128" for number in range(len(self.keys))]
        self.last: TickResult | None = None
        self._events, self._rules = events, rules
        self._nodes = [NodeRoom(name=f"node-{number}", slots=world.slots) for number in range(world.nodes)]
        self.scheduler = PoolScheduler(epoch="s", guards=rules.guards)
        self.scheduler.configure(
            [
                PoolSettings(
                    key=key,
                    subject=subject,
                    revision="r1",
                    max_containers=world.all_slots,
                    idle_timeout_seconds=rules.idle_timeout_seconds,
                    hold_seconds=rules.hold_seconds,
                    stale_seconds=rules.tick_seconds,
                    creation_timeout_seconds=20.0,
                )
                for key, subject in zip(self.keys, self.subjects, strict=True)
            ],
            [QuotaSettings(namespace=NAMESPACE, max_containers=world.all_slots)],
        )
        events.after(0.0, self._tick)

    def publish(self, message: SimulatedMessage) -> None:
        """Take a message: publish, queue, pull, and nobody is asked on the way."""
        self.runtime.publish(message)

    def observation(self) -> TickInput:
        """Return what a controller would see now."""
        runtime = self.runtime
        return TickInput(
            now_seconds=self._events.now,
            lags={subject: runtime.lag(number) for number, subject in enumerate(self.subjects)},
            containers=runtime.seen(),
            durations_ms={self.keys[number]: runs for number, runs in runtime.reported().items()},
            nodes=self._nodes,
        )

    def _tick(self) -> None:
        result = self.scheduler.tick(self.observation())
        self.last = result
        for ending in result.endings:
            self.runtime.end(ending.container_id)
        for creation in result.creations:
            node = int((creation.node_hint or "node-0").removeprefix("node-"))
            self.runtime.create(replace(creation), self.numbers[creation.key], node)
        self._events.after(self._rules.tick_seconds, self._tick)
