"""Whole rounds, played: what holds whatever comes. The simulation asks the rules that a controller asks."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.demand.simulation.events import Events
from benchmarks.demand.simulation.load import PublishedLoad, Traffic
from benchmarks.demand.simulation.pools import PoolRules, SimulatedPools
from benchmarks.demand.simulation.runs import run_old, run_pools
from benchmarks.demand.simulation.world import World
from slack.demand.model import ContainerState, Guards, PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput
from tests.demand.build import creating, key, lag, pool, ready, seen

TICK, HOLD, LONGEST_CREATION, REMOVAL = 0.1, 1.0, 1.3, 0.2


def begun(world: World, load: PublishedLoad, seed: int) -> tuple[Events, SimulatedPools]:
    events, random = Events(), Random(seed)
    traffic = Traffic(load, events, random)
    pools = SimulatedPools(
        world, PoolRules(guards=Guards(), tick_seconds=TICK, hold_seconds=HOLD), events, random, traffic
    )
    traffic.taker = pools
    traffic.begin()
    return events, pools


@given(
    seed=st.integers(0, 1000),
    nodes=st.integers(1, 3),
    slots=st.integers(1, 6),
    actions=st.integers(1, 16),
    rate=st.floats(1.0, 80.0),
    run=st.floats(0.002, 0.4),
)
def test_no_namespace_has_more_containers_than_its_limit_and_none_starves_beside_an_idle_one(
    seed: int, nodes: int, slots: int, actions: int, rate: float, run: float
) -> None:
    world = World(nodes=nodes, slots=slots)
    load = PublishedLoad(actions=actions, rate_per_second=rate, run_seconds=(run, run), seconds=6.0, cut_seconds=0.0)
    events, pools = begun(world, load, seed)
    patience = 3 * TICK + LONGEST_CREATION + REMOVAL + HOLD
    for step in range(1, 25):
        events.run(step * 0.25)
        containers = pools.runtime.seen()
        assert len(containers) <= world.all_slots
        served = {container.pool for container in containers if container.state is not ContainerState.DRAINING}
        idle = [
            container.id
            for container in containers
            if container.state is ContainerState.READY
            and container.idle_since_seconds is not None
            and events.now - container.idle_since_seconds > 0.2 + 2 * TICK
        ]
        for number in range(actions):
            waits = pools.runtime.lag(number).oldest_age_seconds or 0.0
            assert f"a{number}" in served or waits <= patience or not idle


@given(seed=st.integers(0, 1000), actions=st.integers(1, 12), burst=st.integers(1, 200))
def test_each_message_is_run(seed: int, actions: int, burst: int) -> None:
    world = World(nodes=2, slots=4)
    load = PublishedLoad(
        actions=actions, burst=burst, burst_at_seconds=1.0, run_seconds=(0.01, 0.05), seconds=40, cut_seconds=0
    )
    outcome = run_pools(world, load, PoolRules(guards=Guards()), Random(seed))
    assert outcome.finished == outcome.published == burst
    assert outcome.highest <= world.all_slots
    assert outcome.gone_seconds is not None, "idle ones end"


def test_the_same_run_twice_is_the_same_run() -> None:
    load = PublishedLoad(actions=6, rate_per_second=50.0, seconds=10.0, cut_seconds=0.0)
    first, second = (run_pools(World(nodes=2, slots=4), load, PoolRules(guards=Guards()), Random(3)) for _ in range(2))
    assert first.waits == second.waits
    assert first.started == second.started


@pytest.mark.parametrize(("actions", "times"), [(20, 150.0), (24, 150.0), (48, 1.5)])
def test_the_headline_holds_with_its_condition(actions: int, times: float) -> None:
    world, load = World(nodes=3, slots=8), PublishedLoad(actions=actions, clients=actions, seconds=4.0, cut_seconds=3.0)
    if actions > world.all_slots:
        load = replace(load, seconds=9.0)
    old = run_old(world, load, Random(1)).per_second
    assert run_pools(world, load, PoolRules(guards=Guards()), Random(1)).per_second >= times * old


def scheduler(*pools: PoolSettings, limit: int = 10) -> PoolScheduler:
    found = PoolScheduler(epoch="t")
    found.configure(pools, [QuotaSettings(namespace="media", max_containers=limit)])
    return found


def test_an_unread_broker_decides_nothing() -> None:
    found = scheduler(pool())
    found.tick(seen(0.0, {"thumb": lag(5)}))
    result = found.tick(seen(1.0, None, [ready("a"), ready("b")]))
    assert not result.creations
    assert not result.endings


def test_what_was_asked_for_is_not_asked_for_again() -> None:
    found = scheduler(pool())
    first = found.tick(seen(0.0, {"thumb": lag(1)}))
    assert [creation.key for creation in first.creations] == [key()]
    assert not found.tick(seen(0.1, {"thumb": lag(1)})).creations
    asked = first.creations[0].id
    assert not found.tick(seen(0.2, {"thumb": lag(1)}, [creating(asked)])).creations


def test_what_the_last_container_died_with_gets_another_one() -> None:
    """A broker hands it out again to who pulls; without a container nobody ever would."""
    found = scheduler(pool())
    assert not found.tick(seen(0.0, {"thumb": lag(0, in_flight=1, delivered=1)}, [ready("a")])).creations
    (creation,) = found.tick(seen(0.5, {"thumb": lag(0, in_flight=1, delivered=1)})).creations
    assert creation.key == key()
    coming = [creating(creation.id)]
    assert not found.tick(seen(0.6, {"thumb": lag(0, in_flight=1, delivered=1)}, coming)).creations


@pytest.mark.parametrize(("left", "waits"), [(1, 36), (5, 20), (10, 0)])
def test_what_containers_died_with_waits_though_others_are_left(left: int, waits: int) -> None:
    """Ten containers of four slots were busy."""
    found = scheduler(pool(concurrency=4))
    every = [ready(f"c{number}") for number in range(10)]
    found.tick(seen(0.0, {"thumb": lag(0, in_flight=40, delivered=40)}, every))
    result = found.tick(seen(0.5, {"thumb": lag(0, in_flight=40, delivered=40)}, every[:left]))
    assert result.figures[key()].queued == waits


def test_what_was_asked_for_a_pool_that_is_gone_takes_no_room_from_the_others() -> None:
    gone, other = pool("gone"), pool("thumb")
    found = scheduler(gone, other, limit=1)
    assert found.tick(seen(0.0, {"gone": lag(50)})).creations
    found.configure([other], [QuotaSettings(namespace="media", max_containers=1)])
    result = found.tick(seen(5.0, {"thumb": lag(1)}))
    assert [creation.key for creation in result.creations] == [key()]
    assert not result.endings


def test_a_new_leader_counts_what_is_being_created_and_creates_nothing_twice() -> None:
    containers = [creating("old-1"), creating("old-2")]
    found = scheduler(pool(max_containers=2))
    assert not found.tick(seen(0.0, {"thumb": lag(50)}, containers)).creations


def test_another_memory_gets_its_containers_while_the_old_ones_drain_and_never_above_the_quota() -> None:
    """With the limit taken by the old memory, each one that is gone makes room for one."""
    found = scheduler(pool(revision="r2", subject="act.media.thumb.512", max_containers=10), limit=10)
    containers = [ready(f"old-{number}") for number in range(10)]
    now, ended = 0.0, set[str]()
    for turn in range(100):
        now = turn * 0.1
        observation = TickInput(
            now_seconds=now,
            lags={"act.media.thumb.512": lag(40)},
            containers=containers,
        )
        result = found.tick(observation)
        ended |= {ending.container_id for ending in result.endings}
        containers = [container for container in containers if container.id not in ended]
        containers += [
            ready(creation.id, revision=creation.revision, subject=creation.subject) for creation in result.creations
        ]
        assert len(containers) <= 10
    assert {container.revision for container in containers} == {"r2"}


def test_five_thousand_queues_without_messages_cost_no_decision() -> None:
    many = [pool(f"a{number}") for number in range(5000)]
    found = scheduler(*many, limit=100)
    result = found.tick(TickInput(now_seconds=0.0, lags={"act.media.a7.128": lag(1)}, containers=[]))
    assert set(result.decisions) == {QueueKey("media", "a7")}


class Jumping(SimulatedPools):
    """Pools whose controller's clock jumps, or is wrong from the start: forward or back, by as much as an hour."""

    jumps: tuple[tuple[float, float], ...] = ()

    def observation(self) -> TickInput:
        seen_now = super().observation()
        off = sum(by for at, by in self.jumps if at <= seen_now.now_seconds)
        return replace(seen_now, now_seconds=seen_now.now_seconds + off)


@pytest.mark.thorough
@given(
    seed=st.integers(0, 1000),
    jumps=st.lists(st.tuples(st.just(0.0) | st.floats(1.0, 20.0), st.floats(-3600.0, 3600.0)), min_size=1, max_size=3),
)
def test_a_clock_that_jumps_exceeds_no_limit_and_each_message_is_run(
    seed: int, jumps: list[tuple[float, float]]
) -> None:
    world = World(nodes=1, slots=4)
    load = PublishedLoad(actions=3, rate_per_second=5.0, run_seconds=(0.01, 0.05), seconds=25.0, cut_seconds=0.0)
    events, random = Events(), Random(seed)
    traffic = Traffic(load, events, random)
    pools = Jumping(world, PoolRules(guards=Guards()), events, random, traffic)
    pools.jumps = tuple(jumps)
    traffic.taker = pools
    traffic.begin()
    for step in range(1, 251):
        events.run(step * 0.1)
        assert len(pools.runtime.seen()) <= world.all_slots
    load_ends = traffic.outcome.published
    events.run(25.0 + 30.0)
    assert traffic.outcome.finished >= load_ends, "what was published before is run, whatever the clock says"


def test_a_queue_that_could_not_be_read_keeps_its_containers_and_stops_no_other() -> None:
    found = scheduler(pool("silent", min_containers=0), pool(), limit=2)
    there = [ready("a", "silent", idle_since_seconds=2.0), ready("b", "silent", idle_since_seconds=2.0)]
    found.tick(seen(3.0, {"silent": lag(0), "thumb": lag(0)}, there))
    unread = frozenset({"act.media.silent.128"})
    result = found.tick(seen(200.0, {"thumb": lag(5)}, there, unread=unread))
    assert not result.endings, "they would be idle for too long, and would make way"
    assert not result.creations, "they count in the namespace's limit"
    assert key("silent") not in result.decisions
    assert key() in result.decisions
    result = found.tick(seen(201.0, {"silent": lag(0), "thumb": lag(5)}, there))
    assert result.endings
