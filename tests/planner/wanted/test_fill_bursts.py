"""Chunks for bursts: whole pods in fewer placeholders, within every bound, and nothing is exchanged for it."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.wanted.fill_bursts import Burst, bursts_of, fills_for, outgrown, pods_in
from slack.planner.wanted.fill_choice import OVERSHOOT, score, useful
from slack.planner.wanted.fill_pair import choose_fills, count_of
from tests.examples import examples
from tests.planner.scenes import GI, MI, policy_of
from tests.planner.test_properties import HOUR
from tests.planner.wanted.test_fill import bounds, vec
from tests.planner.world import Group, World, amounts_of

NO_LIMIT = vec(1 << 60, 1 << 60)
EIGHT_CORES = ((8000, 32 * GI),)
WORKER, LARGE = (500, GI), (2000, 8 * GI)


def of(pod: tuple[int, int], together: int) -> Burst:
    return Burst(vec(*pod), together)


def chosen(cpu: int, memory_gi: float, *bursts: Burst, pods: tuple[tuple[int, int], ...] = (WORKER, LARGE)) -> object:
    found = fills_for(vec(cpu, int(memory_gi * GI)), bounds(*pods, nodes=EIGHT_CORES), NO_LIMIT, bursts)
    return [(fill.count, fill.chunk[0], fill.chunk[1] // MI) for fill in found]


def test_a_chunk_holds_whole_pods_of_a_burst() -> None:
    """Two of 950m let in one pod of 500m each; two of 1000m, two each: twice the pods for a twentieth more room."""
    assert chosen(1900, 3.8) == [(2, 950, 1946)]
    assert chosen(1900, 3.8, of(WORKER, 8)) == [(2, 1000, 2048)]
    assert chosen(5600, 12, of(WORKER, 8)) == [(4, 1500, 3072)]


def test_pods_that_came_one_by_one_change_nothing() -> None:
    assert chosen(1900, 3.8, *bursts_of(np.array([WORKER]), np.array([1]), vec(8000, 32 * GI))) == [(2, 950, 1946)]


def test_no_chunk_for_a_burst_is_larger_than_the_largest_pod() -> None:
    """S6: of equal pods each has a placeholder of its own, however many come at once."""
    assert chosen(1900, 3.8, of(WORKER, 8), pods=(WORKER,)) == chosen(1900, 3.8, pods=(WORKER,))
    # By cpu alone the large one would do.
    pods = ((500, 4 * GI), (2000, 4 * GI))
    assert chosen(1900, 15, of((500, 4 * GI), 8), pods=pods) == chosen(1900, 15, pods=pods)


def test_a_burst_of_two_asks_for_no_more_than_two_in_a_chunk() -> None:
    assert chosen(2800, 5.6, of(WORKER, 2)) == chosen(2800, 5.6)
    assert chosen(2800, 5.6, of(WORKER, 4)) == [(2, 1500, 3072)]


@examples(200)
@given(
    st.lists(
        st.tuples(st.sampled_from((100, 250, 500, 1000)), st.integers(1, 4), st.sampled_from((0, 0, 0, 1))), max_size=30
    ),
    st.data(),
)
def test_bursts_are_those_of_a_whole_sort(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    requests = np.array([(cpu, memory * GI, gpus) for cpu, memory, gpus in rows], dtype=np.int64).reshape(-1, 3)
    together = [data.draw(st.sampled_from((1, 2, 4, 8))) for _ in rows]
    average = vec(8000, 32 * GI, 1)
    most: dict[tuple[int, int], int] = {}
    for (cpu, memory, gpus), number in zip(rows, together, strict=True):
        if number > 1 and not gpus:
            most[cpu, memory * GI] = max(most.get((cpu, memory * GI), 0), number)
    by_room = sorted(most, key=lambda pod: (-round(most[pod] * (pod[0] / 8000 + pod[1] / (32 * GI)), 6), pod))
    found = bursts_of(requests, np.array(together, dtype=np.int64), average)
    assert [((int(b.pod[0]), int(b.pod[1])), b.together) for b in found] == [(pod, most[pod]) for pod in by_room[:4]]


def test_the_bursts_of_the_most_room_are_looked_at_and_none_that_asks_for_further_resources() -> None:
    requests = np.array([(10 * i, GI, 0) for i in range(1, 9)] + [(4000, GI, 1)])
    found = bursts_of(requests, np.array([8] * 7 + [1, 8]), vec(8000, 32 * GI, 1))
    assert [burst.pod[0] for burst in found] == [70, 60, 50, 40]


def test_a_burst_of_ten_thousand_tiny_pods_does_not_make_the_slack_more_or_of_crumbs() -> None:
    pods = (WORKER, LARGE, (1, MI))
    found = fills_for(vec(5600, 12 * GI), bounds(*pods, nodes=EIGHT_CORES), NO_LIMIT, [of((1, MI), 8)])
    assert count_of(found) <= 5
    assert sum(fill.count * fill.chunk[0] for fill in found) <= OVERSHOOT * 5600


amounts = st.tuples(
    st.sampled_from([50, 250, 500, 700, 1000, 2000]), st.sampled_from([128, 512, 1024, 2048, 6000]).map(MI.__mul__)
)


@examples(300, quick=30)
@given(
    st.lists(st.tuples(amounts, st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=6),
    st.tuples(st.integers(0, 40_000), st.integers(0, 100_000).map(MI.__mul__)),
    st.tuples(st.integers(0, 60_000), st.integers(0, 150_000).map(MI.__mul__)),
)
def test_chunks_for_bursts_keep_every_bound(
    kinds: list[tuple[tuple[int, int], int]], wanted: tuple[int, int], limit: tuple[int, int]
) -> None:
    """The room is held; S6, granularity, pin limit, ceiling, two shapes; a quarter dearer or more in number at most."""
    limits = bounds(*dict(kinds), nodes=EIGHT_CORES)
    table = np.array([pod for pod, _ in kinds])
    bursts = bursts_of(table, np.array([together for _, together in kinds]), limits.average)
    rated, most = vec(*wanted), np.maximum(vec(*limit), vec(*wanted))
    plain, found = choose_fills(rated, limits, most), fills_for(rated, limits, most, bursts)
    if [(f.count, f.chunk.tolist()) for f in found] == [(f.count, f.chunk.tolist()) for f in plain]:
        return
    total = sum((fill.count * fill.chunk for fill in found), vec(0, 0))
    assert (total >= rated).all()
    assert (total <= most).all()
    assert len(found) <= 2
    assert all(useful(fill.chunk, limits) for fill in found)
    new = [fill.chunk for fill in found if all((fill.chunk != other.chunk).any() for other in plain)]
    assert all((chunk <= limits.chunk).all() for chunk in new)
    assert any(pods_in(chunk, burst.pod) > 1 for chunk in new for burst in bursts)
    assert score(found, rated, limits) <= OVERSHOOT * score(plain, rated, limits) + 1e-6
    assert count_of(found) <= OVERSHOOT * count_of(plain)


def test_a_size_is_outgrown_where_todays_lets_in_twice_as_many() -> None:
    workers = [of(WORKER, 8)]
    assert outgrown(vec(500, GI), [vec(1000, 2 * GI)], workers)
    assert not outgrown(vec(1000, 2 * GI), [vec(1500, 3 * GI)], workers)
    assert not outgrown(vec(500, GI), [vec(500, GI)], workers)
    assert not outgrown(vec(500, GI), [vec(1500, 3 * GI)], [])
    assert outgrown(vec(500, GI), [vec(1500, 3 * GI)], [of(WORKER, 2)]), "for two, chunks of two"
    assert not outgrown(vec(1000, 2 * GI), [vec(4000, 8 * GI)], [of(WORKER, 2)])


# In a cluster: sizes that are there live on


def small_world() -> World:
    """Placeholders for one worker each; then larger pods come, so that a chunk might be for three."""
    group = Group(8000, 32 * GI)
    world = World(groups=[group], policies=[policy_of(extraCapacity={"minRate": 0.4})], removes_nodes=False)
    for _ in range(4):
        world.add_node(group)
    world.add_pods("worker", 40, 500, 1024)
    world.settle(seconds=120)
    world.add_pods("large", 1, 2000, 8 * 1024)
    world.settle(seconds=120)
    return world


def cpus(world: World, *, but: Iterable[str] = ()) -> list[int]:
    return sorted(amounts_of(h.shape)[0] for uid, h in world.holders.items() if uid not in set(but))


def test_what_a_burst_displaces_comes_back_in_chunks_for_several_and_the_others_stay() -> None:
    world = small_world()
    before = dict(world.holders)
    assert cpus(world).count(500) >= 14
    world.add_pods("burst", 12, 500, 1024)
    world.settle(seconds=120)
    displaced = before.keys() - world.holders.keys()
    new = cpus(world, but=before)
    assert 9 <= len(displaced) <= 12
    assert len(new) <= len(displaced) // 2 + 1
    assert all(cpu >= 1000 for cpu in new)


def test_a_number_that_wobbles_changes_no_placeholder_that_is_there() -> None:
    world = small_world()
    world.add_pods("burst", 12, 500, 1024)
    world.settle(seconds=120)
    world.pass_time(HOUR)
    before, born, writes = dict(world.holders), world.born, world.writes
    for i in range(4):
        # Two pods, and another time nine, in place of as many: the steps go up and down with each.
        number = (2, 9)[i % 2]
        for name in [name for name in world.pods if name.startswith("burst")][:number]:
            del world.pods[name]
        world.add_pods("burst", number, 500, 1024)
        born += number
        world.settle(quiet=1)
        world.now += 2 * HOUR
        world.settle(quiet=1)
    assert world.holders == before
    assert (world.born, world.writes) == (born, writes)
