"""S2, R1-2: growing is at once, shrinking waits, one shape replaces another step by step."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from slack.planner.domain.capacity import UNLIMITED
from slack.planner.model.added import AddedBefore
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, Shape, WantedShape, merged
from slack.planner.rollout.backoff import ShapePods
from slack.planner.rollout.rollout import Counts, CurrentState, RolloutTarget, first_steps, remember, roll_out, steady
from tests.planner.scenes import policy_of
from tests.planner.world import Group, World

RESOURCES = ("cpu", "memory")
DELAY = 600.0


def shape(cpu: int, memory: int = 100, *, zone: str = "", reserved_for: str = "") -> Shape:
    selector = (("zone", zone),) if zone else ()
    return Shape((("cpu", cpu), ("memory", memory)), node_selector=selector, reserved_for=reserved_for)


def want(one: Shape, count: int, role: Role = Role.FILL) -> WantedShape:
    return WantedShape(one, role, count, one.vector(RESOURCES))


def scene(
    *there: tuple[Shape, int, int],
    role: Role = Role.FILL,
    ceiling: tuple[int, int] = (UNLIMITED, UNLIMITED),
    caps: dict[str, int] | None = None,
    now: float = 0.0,
    pending_seconds: float = 0.0,
) -> CurrentState:
    """There are (shape, replicas, bound)."""
    return CurrentState(
        existing={s.name: ExistingShape("p", s, role, replicas) for s, replicas, _ in there},
        pods={s.name: ShapePods(bound, max(replicas - bound, 0), pending_seconds) for s, replicas, bound in there},
        ceiling=np.array(ceiling),
        caps=caps or {},
        now=now,
        shrink_delay_seconds=DELAY,
        give_up_seconds=1200.0,
    )


def run(
    wanted: list[WantedShape], at: CurrentState, memory: dict[str, Counts] | None = None
) -> dict[int, tuple[int, bool]]:
    """Return (replicas, retiring) by cpu."""
    targets, _ = roll_out(wanted, RESOURCES, memory or {}, at)
    return {int(t.wanted.vector[0]): (t.replicas, t.retiring) for t in targets}


A, B, LARGE = shape(100), shape(150), shape(1000)


def test_growing_is_at_once() -> None:
    assert run([want(A, 9)], scene((A, 2, 2))) == {100: (9, False)}
    assert run([want(A, 9)], scene()) == {100: (9, False)}


def test_shrinking_waits_until_less_has_been_enough_for_the_whole_delay() -> None:
    memory: dict[str, Counts] = {}
    seen = []
    for now, count in ((0.0, 9), (100.0, 5), (400.0, 7), (650.0, 5), (699.0, 5), (701.0, 5), (1001.0, 5)):
        targets, memory = roll_out([want(A, count)], RESOURCES, memory, scene((A, 9, 9), now=now))
        seen.append(targets[0].replicas)
    assert seen == [9, 9, 9, 7, 7, 7, 5]


def test_a_restart_with_an_empty_memory_only_makes_the_shrinking_wait_anew() -> None:
    assert run([want(A, 5)], scene((A, 9, 9), now=5000.0)) == {100: (9, False)}
    assert run([want(A, 9)], scene((A, 9, 4), now=5000.0)) == {100: (9, False)}


def test_memory_holds_only_what_may_still_matter() -> None:
    counts: Counts = ()
    for now in range(0, 6000, 10):
        counts = remember(counts, 5 + (now // 10) % 3, 7, scene(now=float(now)))
    assert len(counts) <= 3
    assert steady(5, ((0.0, 9),), 20) == 9  # somebody scaled it by hand: back to what was wanted


def test_a_shape_nobody_wants_any_more_waits_too() -> None:
    memory: dict[str, Counts] = {}
    targets, memory = roll_out([], RESOURCES, memory, scene((LARGE, 1, 1), role=Role.COVER))
    assert (targets[0].replicas, targets[0].retiring, targets[0].wanted.count) == (1, True, 0)
    targets, memory = roll_out([], RESOURCES, memory, scene((LARGE, 1, 1), role=Role.COVER, now=DELAY))
    assert targets[0].replicas == 0


def test_a_smaller_cover_does_not_push_a_larger_one_out_before_its_time() -> None:
    """Both have the same constraints, and the one that stays is bound; the other once left at once."""
    there = scene((A, 1, 1), (LARGE, 1, 1), role=Role.COVER)
    assert run([want(A, 1, Role.COVER)], there) == {100: (1, False), 1000: (1, True)}


def test_one_shape_replaces_another_step_by_step() -> None:
    old, new = 8, 0
    bound = 0
    steps = []
    for _ in range(12):
        at = scene((A, old, old), (B, new, bound))
        result = run([want(B, 8)], at, {A.name: ((-900.0, 8), (0.0, 0))})
        old, new = result[100][0], result[150][0]
        steps.append((old, new))
        bound = new  # the scheduler finds room
    assert steps[:2] == [(8, 2), (8, 4)]
    assert steps[-1] == (0, 8)
    assert all(100 * o + 150 * n >= 800 for o, n in steps)  # never less room than before
    assert all(later[0] <= earlier[0] for earlier, later in pairwise(steps))


def test_a_chunk_of_another_size_does_not_shrink_slack_before_the_delay() -> None:
    memory: dict[str, Counts] = {}
    targets, memory = roll_out([want(B, 2)], RESOURCES, memory, scene((A, 9, 9), (B, 2, 2)))
    assert {t.wanted.shape: t.replicas for t in targets} == {A: 7, B: 2}  # no less than 9 x 100 of either resource
    targets, memory = roll_out([want(B, 2)], RESOURCES, memory, scene((A, 7, 7), (B, 2, 2), now=DELAY))
    assert {t.wanted.shape: t.replicas for t in targets} == {A: 0, B: 2}


def test_the_new_shape_waits_for_bound_before_the_old_one_goes() -> None:
    assert run([want(LARGE, 1, Role.COVER)], scene((A, 1, 1), role=Role.COVER)) == {1000: (1, False), 100: (1, True)}
    pending = scene((A, 1, 1), (LARGE, 1, 0), role=Role.COVER)
    assert run([want(LARGE, 1, Role.COVER)], pending)[100] == (1, True)
    bound = scene((A, 1, 1), (LARGE, 1, 1), role=Role.COVER)
    assert run([want(LARGE, 1, Role.COVER)], bound)[100] == (0, True)


def test_where_nobody_makes_room_the_old_shape_does() -> None:
    """At the autoscaler's limit a held probe, and with no autoscaler patience, let one old placeholder go."""
    capped = scene((A, 4, 4), (B, 1, 0), caps={B.name: 1})
    assert run([want(B, 2)], capped)[100][0] == 2
    silent = scene((A, 4, 4), (B, 1, 0), pending_seconds=1300.0)
    assert run([want(B, 3)], silent, {A.name: ((-900.0, 4), (0.0, 0))})[100][0] == 3
    patient = scene((A, 4, 4), (B, 1, 0), pending_seconds=1100.0)
    assert run([want(B, 3)], patient, {A.name: ((-900.0, 4), (0.0, 0))})[100][0] == 4


def test_mirrors_replace_mirrors_of_the_same_workload_only() -> None:
    mine, other = shape(100, reserved_for="shop/deploy/api"), shape(150, reserved_for="shop/deploy/web")
    newer = shape(200, reserved_for="shop/deploy/api")
    there = scene((mine, 2, 2), (newer, 2, 2), (other, 2, 2), role=Role.MIRROR)
    result = run([want(newer, 2, Role.MIRROR)], there)
    assert result == {200: (2, False), 100: (0, True), 150: (2, True)}


def test_zones_replace_their_own_chunks() -> None:
    a, b, newer = shape(100, zone="a"), shape(100, 90, zone="b"), shape(150, zone="a")
    there = scene((a, 2, 2), (newer, 2, 2), (b, 2, 2))
    targets, _ = roll_out([want(newer, 2), want(b, 2)], RESOURCES, {}, there)
    assert {t.wanted.shape: t.replicas for t in targets} == {a: 0, newer: 2, b: 2}
    gone, _ = roll_out([want(newer, 2)], RESOURCES, {}, scene((b, 2, 2), (newer, 2, 2)))
    assert {t.wanted.shape: t.replicas for t in gone} == {newer: 2, b: 2}  # nothing takes its place: it waits
    everywhere = shape(200)
    switched, _ = roll_out([want(everywhere, 2)], RESOURCES, {}, scene((a, 2, 2), (b, 2, 2), (everywhere, 2, 2)))
    assert {t.wanted.shape: t.replicas for t in switched} == {everywhere: 2, a: 0, b: 0}


def test_a_ceiling_holds_at_every_instant_of_an_exchange() -> None:
    old, new, bound = 8, 0, 0
    for step in range(40):
        at = scene((A, old, old), (B, new, bound), ceiling=(800, 10_000))
        result = run([want(B, 5)], at, {A.name: ((-900.0, 8), (0.0, 0))})
        assert 100 * max(old, result[100][0]) + 150 * result[150][0] <= 800, step  # before the old ones have left
        old, new = result[100][0], result[150][0]
        bound = new
    assert (old, new) == (0, 5)


def test_a_shape_that_waits_to_shrink_makes_way_under_a_ceiling() -> None:
    """A large placeholder once waited ten minutes for chunks that nobody wanted any more."""
    there = scene((A, 10, 10), ceiling=(1000, UNLIMITED))
    result = run([want(A, 4), want(shape(600), 1, Role.COVER)], there)
    assert result == {600: (0, False), 100: (4, False)}
    then = scene((A, 4, 4), ceiling=(1000, UNLIMITED))
    assert run([want(A, 4), want(shape(600), 1, Role.COVER)], then) == {600: (1, False), 100: (4, False)}


def test_what_is_above_a_lowered_ceiling_goes_at_once_chunks_first() -> None:
    there = scene((A, 10, 10), ceiling=(450, UNLIMITED))
    assert run([want(A, 4)], there) == {100: (4, False)}
    assert run([want(A, 0)], scene((A, 10, 10), ceiling=(0, 0))) == {100: (0, True)}


def test_the_first_of_a_runtime_class_goes_alone_for_its_overhead_is_its_own() -> None:
    sandboxed = replace(A, runtime_class="sandboxed", reserved_for="shop/deploy/api")
    at = scene((B, 5, 5))
    targets, _ = roll_out([want(sandboxed, 4, Role.MIRROR), want(LARGE, 3), want(B, 7)], RESOURCES, {}, at)
    plain = AddedBefore((("cpu", 9),), 0.0, 1, own=False)
    assert first_steps(targets, {B.name: plain}, at) == {sandboxed.name: 1}
    own = replace(plain, own=True)
    assert first_steps(targets, {sandboxed.name: own}, at) == {B.name: 5, LARGE.name: 0}, "it says nothing of others"
    assert first_steps(targets, {sandboxed.name: own}, scene()) == {B.name: 1, LARGE.name: 0}
    assert first_steps(targets, {sandboxed.name: own, B.name: plain}, at) == {}


def test_huge_numbers_do_not_run_over() -> None:
    huge = shape(1 << 40, 1 << 52)
    assert run([want(huge, 5)], scene((huge, 5, 5))) == {1 << 40: (5, False)}
    assert run([want(huge, 5)], scene((huge, 2, 2), ceiling=(3 << 40, UNLIMITED))) == {1 << 40: (3, False)}


def test_a_shape_that_is_given_up_leaves_after_the_delay_and_a_restart_only_makes_it_wait_anew() -> None:
    group = Group(8000, 32 << 30)
    world = World(groups=[group], policies=[policy_of(extraCapacity={"minRate": 0})])
    world.add_node(group)
    world.add_pods("api", 4, 1000, 512)
    world.settle()
    (small,) = {s.shape for s in world.sets.values()}
    world.add_pods("big", 40, 3000, 512)
    world.round()
    assert {s.shape == small: (s.retiring, s.replicas) for s in world.sets.values()} == {
        True: (True, 1),
        False: (False, 1),
    }
    world.now += DELAY - 20
    world.round(restart=True)
    world.now += DELAY - 20
    assert len(world.round().items[0].shapes) == 2
    world.now += 20
    world.settle()
    assert [s.retiring for s in world.sets.values()] == [False]
    assert small not in {s.shape for s in world.sets.values()}


def test_a_shape_that_is_wanted_again_is_no_longer_retiring() -> None:
    there = CurrentState(
        existing={A.name: ExistingShape("p", A, Role.FILL, 3, retiring=True)},
        pods={A.name: ShapePods(3, 0, 0.0)},
        ceiling=np.array([UNLIMITED, UNLIMITED]),
        caps={},
        now=0.0,
        shrink_delay_seconds=DELAY,
        give_up_seconds=1200.0,
    )
    assert run([want(A, 3)], there) == {100: (3, False)}


def test_equal_shapes_are_one() -> None:
    both = merged([want(A, 1, Role.COVER), want(A, 4), want(B, 1)])
    assert [(w.count, w.role) for w in both] == [(5, Role.COVER), (1, Role.FILL)]
    assert isinstance(RolloutTarget(both[0], 1, False).replicas, int)
