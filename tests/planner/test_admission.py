"""What admission adds to placeholders counts: towards what is reserved, towards the ceiling, and in their number."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.model.added import Added
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.policy.spec import Policy, PolicySpec
from tests.planner.test_properties import HOUR, few, worlds
from tests.planner.world import MI, Amounts, Group, World

GI = 1 << 30
SIDECAR: Amounts = (500, 128 * MI)


def world_with(size: dict[str, object], admission: Callable[[int], Amounts] | None = lambda _: SIDECAR) -> World:
    spec = PolicySpec.model_validate({"extraCapacity": size, "stabilization": {"shrinkDelay": "10m"}})
    world = World((Group(8000, 32 * GI),), [Policy(name="default", spec=spec)], admission=admission)
    for _ in range(4):
        world.add_node(world.groups[0])
    world.add_pods("web", 8, 1000, 1024)
    return world


def taken(world: World) -> tuple[int, int]:
    rows = [h.amounts for h in world.holders.values()]
    return sum(r[0] for r in rows), sum(r[1] for r in rows)


def only(world: World) -> PolicyPlan:
    (item,) = world.plan().items
    return item


CEILING: dict[str, object] = {
    "floor": {"cpu": "4", "memory": "4Gi"},
    "ceiling": {"cpu": "4", "memory": "16Gi"},
}


def test_a_sidecar_that_admission_adds_never_takes_placeholders_above_the_ceiling() -> None:
    world = world_with(CEILING)
    world.settle()
    assert world.holders
    assert max(cpu for cpu, _ in world.history) <= 4000
    item = only(world)
    assert item.reserved.tolist() == list(taken(world))
    assert item.planned[0] <= 4000


def test_the_first_placeholder_under_a_ceiling_goes_alone_and_the_others_follow_at_once() -> None:
    world = world_with(CEILING)
    world.round()
    assert len(world.holders) == 1
    world.round()
    assert len(world.holders) > 1
    free = world_with({"floor": CEILING["floor"]})
    free.round()
    assert len(free.holders) > 1, "without a ceiling there is nothing to be careful about"


def test_what_a_sidecar_takes_counts_as_room_for_a_real_pod_takes_all_of_it() -> None:
    plain, injected = (
        world_with({"floor": {"cpu": "4", "memory": "4Gi"}}, a) for a in (None, lambda _: (500, 512 * MI))
    )
    for world in (plain, injected):
        world.pass_time(HOUR)
        assert taken(world)[0] >= 4000
        assert only(world).condition(ConditionType.SLACK_SATISFIED).status
    assert len(injected.holders) < len(plain.holders)
    assert taken(injected)[0] < 4000 + max(h.amounts[0] for h in injected.holders.values())


def test_where_one_placeholder_alone_is_above_the_ceiling_it_is_tried_once_and_again_when_the_policy_changes() -> None:
    world = world_with(CEILING, lambda _: (9000, 0))
    for _ in range(30):
        world.round()
    assert (world.born - 12, len(world.holders)) == (1, 0)  # four nodes and eight pods were born before
    world.pass_time(9 * HOUR)
    assert world.born - 12 == 1
    world.policies = [policy.model_copy(update={"generation": 2}) for policy in world.policies]
    world.pass_time(HOUR)
    assert world.born - 12 == 2


def test_an_injection_that_begins_later_holds_the_ceiling_as_placeholders_are_made_anew() -> None:
    world = world_with(CEILING, None)
    world.settle()
    before = len(world.holders)
    world.admission = lambda _: SIDECAR
    world.add_pods("late", 26, 900, 900)  # takes what is free, and then the placeholders' room
    world.settle()
    world.history.clear()
    for _ in range(30):
        world.round()
    assert max((cpu for cpu, _ in world.history[-20:]), default=0) <= 4000
    assert len(world.holders) <= before


def test_the_most_that_admission_added_is_expected_for_a_day_and_then_what_it_adds_now() -> None:
    world = world_with({"floor": {"cpu": "4"}, "ceiling": {"cpu": "4"}}, lambda _: (1500, 0))
    world.settle()
    assert len(world.holders) == 1
    world.admission = None
    world.holders.clear()
    world.settle()
    assert len(world.holders) == 2, "it may add as much to a third"
    world.pass_time(25 * HOUR)
    assert len(world.holders) == 4
    assert max(cpu for cpu, _ in world.history) <= 4000


@pytest.mark.parametrize("lowered", [(-100, 0), (-1000, -GI)])
def test_what_admission_takes_away_makes_no_more_placeholders(lowered: Amounts) -> None:
    plain, cut = (world_with({"floor": {"cpu": "4", "memory": "4Gi"}}, a) for a in (None, lambda _: lowered))
    for world in (plain, cut):
        world.settle()
    assert len(cut.holders) == len(plain.holders)


alike = [lambda n: (500, 0), lambda n: (100, 128 * MI), lambda n: (1000, GI)]
by_turns = [lambda n: (500 * (n % 2), 64 * MI), lambda n: ((0, 250, 1000)[n % 3], (0, GI)[n % 5 == 0])]
injections = st.sampled_from([*alike, *by_turns])


def above(world: World, policy: Policy) -> np.ndarray:
    """Return how much more than its ceiling a policy's placeholders request."""
    rows = [h.amounts for h in world.holders.values() if h.policy == policy.name]
    return sum((np.array(row) for row in rows), np.zeros(2, dtype=int)) - [
        policy.spec.extra_capacity.ceiling[r] for r in ("cpu", "memory")
    ]


@few
@given(worlds(ceilings=True), injections)
def test_placeholders_are_above_the_ceiling_by_no_more_than_admission_added_to_new_ones_beyond_the_worst_before(
    world: World, admission: Callable[[int], Amounts]
) -> None:
    """Nobody knows what admission will add. Where it adds the same to each, the first placeholder shows it alone."""
    world.admission = admission
    worst: dict[str, dict[str, np.ndarray]] = {p.name: {} for p in world.policies}
    for number in range(24):
        if number == 12:
            world.add_pods("late", 3, 1500, 3000)
        before = set(world.holders)
        for h in world.holders.values():
            worst[h.policy][h.shape.name] = np.maximum(worst[h.policy].get(h.shape.name, 0), h.added)
        was = {p.name: above(world, p) for p in world.policies}
        world.operate()
        for p in world.policies:
            assert not (was[p.name] > 0).any() or (above(world, p) < was[p.name]).any(), "the next plan takes it back"
        left = {p.name: np.maximum(above(world, p), 0) for p in world.policies}
        world.control()
        for p in world.policies:
            known = worst[p.name]
            any_shape = np.max([*known.values(), np.zeros(2)], axis=0)
            born = [h for h in world.holders.values() if h.uid not in before and h.policy == p.name]
            beyond = [np.maximum(np.array(h.added) - known.get(h.shape.name, any_shape), 0) for h in born]
            assert (above(world, p) <= left[p.name] + sum(beyond)).all()
            assert known or len(born) <= 1
            assert admission not in alike or (above(world, p) <= admission(0)).all()
        world.schedule()
        world.autoscale()
        world.schedule()
        world.now += 10
    world.settle()
    assert all((above(world, p) <= 0).all() for p in world.policies)


@few
@given(worlds(ceilings=True), injections)
def test_whatever_admission_adds_a_plan_that_was_carried_out_is_followed_by_no_write(
    world: World, admission: Callable[[int], Amounts]
) -> None:
    world.admission = admission
    world.pass_time(9 * HOUR)
    before, writes = world.state(), world.writes
    world.pass_time(2 * HOUR)
    assert (world.state(), world.writes) == (before, writes)


vectors = st.tuples(st.integers(1, 900), st.integers(1, 900)).map(np.array)


@given(vectors, st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=12), vectors, st.integers(0, 60))
def test_from_any_mixture_the_number_moves_one_way_and_holds_what_is_needed(
    vector: np.ndarray, mixture: list[tuple[int, int]], need: np.ndarray, factor: int
) -> None:
    need = need * factor
    rows = np.array(mixture, dtype=np.int64).reshape(-1, 2)
    worst = rows.max(axis=0, initial=0)
    planned = int(np.max(-(-need // vector), initial=0))

    def added() -> Added:
        return Added(len(rows), rows.sum(axis=0), worst)

    directions = set()
    for _ in range(60):
        count = added().enough(planned, need, vector)
        if count == len(rows):
            break
        directions.add(count > len(rows))
        # The worst that may happen: new ones are the largest, and of those there the largest leave.
        rows = np.sort(rows, axis=0)[: max(count, 0)]
        rows = np.concatenate([rows, np.tile(worst, (max(count - len(rows), 0), 1))])
    assert len(directions) <= 1
    assert (len(rows) * vector + rows.sum(axis=0) >= need).all()
    assert replace(added(), there=len(rows)).enough(planned, need, vector) == len(rows)
