"""The controller's loop and the simulation agree: given what a simulated run saw, tick by tick, it decides the same."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from benchmarks.demand.simulation.events import Events
from benchmarks.demand.simulation.load import PublishedLoad, Traffic
from benchmarks.demand.simulation.pools import PoolRules, SimulatedPools
from benchmarks.demand.simulation.world import World
from slack.demand.broker import QueueLag, QueueSettings
from slack.demand.model import Creation, Ending, Guards, PoolContainer
from slack.demand.reports import ContainerReport, encode_report
from slack.demand.tick import PoolScheduler, TickInput, TickResult
from slack_operator.demand import loop as loop_module
from slack_operator.demand import provisioning
from slack_operator.demand.loop import DecisionLoop, DesiredState, TickReport
from tests.operator.demand.pools import FakeBroker

EPOCH = "zzzzz"


@dataclass
class Written:
    """What a scheduler was told and what it answered; nothing is pinned to nodes, as in the controller."""

    scheduler: PoolScheduler
    ticks: list[tuple[TickInput, TickResult]] = field(default_factory=list)

    def tick(self, observation: TickInput) -> TickResult:
        observation = replace(observation, nodes=())
        result = self.scheduler.tick(observation)
        self.ticks.append((observation, result))
        return result


def simulated(seed: int, load: PublishedLoad, world: World) -> tuple[list[tuple[TickInput, TickResult]], DesiredState]:
    """A run of the simulation, and its pools as the controller has them."""
    events, random = Events(), Random(seed)
    traffic = Traffic(load, events, random)
    pools = SimulatedPools(world, PoolRules(guards=Guards()), events, random, traffic)
    settings, quotas = tuple(pools.scheduler._pools.values()), tuple(pools.scheduler._quotas.values())
    written = Written(PoolScheduler(epoch=EPOCH, guards=Guards()))
    written.scheduler.configure(settings, quotas)
    pools.scheduler = written  # type: ignore[assignment]  # a tick is all that is asked of it
    traffic.taker = pools
    traffic.begin()
    events.run(load.seconds)
    queues = tuple(QueueSettings(name=pool.subject) for pool in settings)
    return written.ticks, DesiredState(version=1, pools=settings, queues=queues, quotas=quotas, tick_seconds=0.0)


class Played(FakeBroker):
    """The surroundings of a loop that sees each tick of a run once, in order."""

    def __init__(self, ticks: Sequence[tuple[TickInput, TickResult]], wanted: DesiredState) -> None:
        super().__init__()
        self.ticks, self.wanted, self.at = ticks, wanted, -1
        self.created: list[tuple[Creation, ...]] = []
        self.ended: list[tuple[Ending, ...]] = []
        self.turns: list[TickReport] = []
        self.loop = DecisionLoop(
            open_broker=self.opened,
            containers=self,
            wanted=lambda: wanted,
            may_act=lambda: len(self.turns) < len(ticks) and self._broker_there(),
            on_turn=self.turns.append,
            guards=Guards(),
            unix=self.now,
        )

    def _broker_there(self) -> bool:
        return self.loop._broker is not None

    async def opened(self) -> "Played":
        return self

    def now(self) -> float:
        """The next tick begins: containers have told how long their runs took since the one before."""
        self.at += 1
        observation = self.ticks[self.at][0]
        subjects = {pool.key: pool.subject for pool in self.wanted.pools}
        for key, runs in observation.durations_ms.items():
            for first in range(0, len(runs), 10):
                report = ContainerReport(container="nobody", last_run_ms=tuple(runs[first : first + 10]))
                self.loop._take(subjects[key], encode_report(report))
        return observation.now_seconds

    async def lag(self, prefix: str = "act.") -> Mapping[str, QueueLag]:
        return self.ticks[self.at][0].lags or {}

    def seen(self) -> Sequence[PoolContainer]:
        return self.ticks[self.at][0].containers

    def create(self, creations: Sequence[Creation]) -> None:
        self.created.append(tuple(creations))

    def end(self, endings: Sequence[Ending]) -> None:
        self.ended.append(tuple(endings))


@pytest.mark.parametrize(
    ("load", "slots"),
    [
        (PublishedLoad(actions=6, rate_per_second=60.0, run_seconds=(0.01, 0.3), seconds=25.0, cut_seconds=0.0), 4),
        (PublishedLoad(actions=10, clients=20, seconds=15.0, cut_seconds=0.0), 3),
        (
            PublishedLoad(
                actions=1, burst=60, burst_at_seconds=2.0, run_seconds=(0.05, 0.2), seconds=30.0, cut_seconds=0.0
            ),
            12,
        ),
    ],
    ids=["more than fits", "clients", "a burst"],
)
def test_the_controller_decides_what_the_simulation_decides(
    monkeypatch: pytest.MonkeyPatch, load: PublishedLoad, slots: int
) -> None:
    ticks, wanted = simulated(7, load, World(nodes=1, slots=slots))
    monkeypatch.setattr(loop_module, "BROKER_SECONDS", 60.0)
    monkeypatch.setattr(provisioning, "A_TICK", 1000)
    monkeypatch.setattr("slack_operator.demand.loop.secrets.choice", lambda word: EPOCH[0])
    played = Played(ticks, wanted)
    played.loop.start()
    until = time.monotonic() + 30
    while len(played.turns) < len(ticks):
        assert time.monotonic() < until, f"{len(played.turns)} of {len(ticks)} ticks"
        time.sleep(0.01)
    played.loop.stop()
    assert sum(map(len, played.created)) > 0
    assert played.created == [result.creations for _, result in ticks]
    assert played.ended == [result.endings for _, result in ticks]
    assert [turn.result.verdicts for turn in played.turns] == [result.verdicts for _, result in ticks]
