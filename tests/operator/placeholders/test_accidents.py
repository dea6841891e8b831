"""Whatever befalls what is ours, in any order: the ceiling, the plan, the peace, and what nobody has touched."""

import copy
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from slack.cluster.hold import Hold
from tests.examples import examples
from tests.operator.accidents import ACCIDENTS, AccidentWorld

accidents = st.tuples(st.sampled_from(ACCIDENTS), st.integers(0, 5), st.integers(0, 6))
days = st.lists(st.lists(accidents, min_size=1, max_size=2), min_size=1, max_size=5)
worlds = st.builds(
    AccidentWorld,
    ceiling=st.sampled_from([None, 3000, 5000, 9000]),
    rate=st.sampled_from([0.2, 0.5, 1.0]),
    cover=st.sampled_from(["Frequent", "Largest", "None"]),
    hold=st.sampled_from([Hold.BOUND, Hold.UNBOUND]),
)
HOUR = 3600.0


def settle(world: AccidentWorld) -> None:
    """Let time pass until nobody waits for anything: shrinking, arrivals that are remembered."""
    world.quiet = True
    for seconds in (*[10.0] * 6, *[200.0] * 8, 7 * HOUR, *[200.0] * 12):
        world.turn(seconds)


def carry_out(world: AccidentWorld) -> list[dict[str, int]]:
    """Let the operator turn until its plan is what it was: shapes that replace one another go on, a step each turn."""
    plans = [world.plan]
    while len(plans) < 3 or plans[-1] != plans[-2]:
        world.turn()
        plans.append(world.plan)
        assert len(plans) < 20, "a plan that is carried out stands still"
    return plans[1:]


def by_set(uids: Iterable[str]) -> Counter[str]:
    """Count placeholders by the ReplicaSet that made them."""
    return Counter(uid.removeprefix("uid-").rpartition("-")[0] for uid in uids)


def play(world: AccidentWorld, day: list[list[tuple[str, int, int]]]) -> None:
    """Let a day pass, accident by accident, and hold the operator to what it promises.

    Who goes is marked a turn before fewer are asked for: numbers are compared once two plans say the same.
    """
    settle(world)
    for together in day:
        world.quiet = False
        before, planned = world.bound(), world.plan
        touched: set[str] = set()
        for name, which, count in together:
            touched |= getattr(world, name)(which, count)
        plans = carry_out(world)
        above = by_set(item["metadata"]["uid"] for item in world.alive().values()) - Counter(world.plan)
        assert not above, "no placeholder is above the plan when it has been seen carried out"
        world.quiet = True
        world.turn()
        plans.append(world.plan)
        fewer = +Counter({name: count - min(plan.get(name, 0) for plan in plans) for name, count in planned.items()})
        lost = by_set(before - touched - world.bound()) - fewer
        assert not lost, "nobody has touched them, no fewer are planned, and still they are gone"
        world.turn(700.0)  # a writer who was quiet for so long is forgotten, and what is due shrinks
        carry_out(world)
    settle(world)
    log, there = len(world.api.log), copy.deepcopy(world.placeholders())
    for _ in range(5):
        world.turn(10.0)
    assert world.api.log[log:] == [], "a steady cluster is left alone"
    assert world.placeholders() == there


@pytest.mark.timeout(900)
@examples(100, quick=2, phases=[Phase.explicit, Phase.generate])  # shrinking such days takes minutes
@given(worlds, days)
def test_whatever_befalls_what_is_ours_it_is_held_to_its_plan(
    world: AccidentWorld, day: list[list[tuple[str, int, int]]]
) -> None:
    play(world, day)


def test_a_day_that_once_left_placeholders_above_the_plan() -> None:
    world = AccidentWorld(ceiling=3000, rate=1.0, cover="None")
    play(world, [[("load", 0, 5), ("relabel_set", 1, 5)], [("scale", 2, 5)], [("taint", 3, 0), ("change_class", 1, 2)]])


def test_a_day_after_which_placeholders_wait_on_with_no_word_from_an_autoscaler() -> None:
    world = AccidentWorld(ceiling=None, rate=0.5, cover="None")
    play(world, [[("load", 1, 4), ("load", 5, 5)], [("load", 4, 1)], [("load", 1, 4), ("load", 1, 5)]])


def test_a_day_on_which_a_new_leader_finds_a_replica_set_that_it_cannot_read() -> None:
    world = AccidentWorld(ceiling=3000, rate=0.2, cover="Largest")
    play(
        world, [[("restart_operator", 0, 0), ("relabel_set", 0, 5)], [("restart_operator", 0, 0), ("delete_set", 0, 1)]]
    )
