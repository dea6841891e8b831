"""What must hold (docs/requirements.md), whatever the cluster: random small worlds in which plans are carried out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from slack.cluster.classes import Constraints
from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.snapshot import Workload
from slack.cluster.wire import PodSpec
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import Pool
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.policy.spec import CoverMode, Policy, PolicySpec
from tests.examples import examples
from tests.planner.world import MI, ZONE, Group, World, amounts_of, copy, fingerprint

GROUPS = (
    Group(4000, 16 << 30, ((ZONE, "a"), ("pool", "web"))),
    Group(8000, 16 << 30, ((ZONE, "b"), ("pool", "web"))),
    Group(2000, 16 << 30, ((ZONE, "a"), ("pool", "data"))),
)
HOUR = 3600.0
FORMS = ("", UNBOUND_SCHEDULER)
"""Of placeholders: bound, unbound."""
few = examples(
    12,
    quick=2,
    phases=[Phase.explicit, Phase.generate],  # a world is small already, and shrinking one takes minutes
)
"""EXAMPLES=200 looks further, and elsewhere each time."""


@st.composite
def specs(draw: st.DrawFn, *, ceilings: bool = False) -> dict[str, object]:
    size: dict[str, object] = {"minRate": draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]))}
    if draw(st.booleans()):
        size["floor"] = {"cpu": draw(st.sampled_from(["100m", "1500m"])), "memory": "1Gi"}
    if ceilings:
        size["ceiling"] = {"cpu": draw(st.sampled_from(["1500m", "2", "3", "6"])), "memory": "20Gi"}
    if draw(st.booleans()):
        size["ladder"] = [{"fromNodes": 0, "minRate": 0.5}, {"fromNodes": 2, "minRate": 0.2}]
    modes = list(CoverMode)
    return {
        "extraCapacity": size,
        "cover": {"mode": draw(st.sampled_from(modes)), "maxShapes": draw(st.sampled_from([1, 2, 8]))},
        "perDomain": draw(st.sampled_from(["None", "None", "Zone"])),
        "granularity": draw(st.sampled_from([1, 3, 5])),
    }


sizes = st.tuples(st.sampled_from([50, 100, 500, 700, 1000, 1900]), st.sampled_from([64, 256, 1024, 5000, 12000]))
batches = st.lists(
    st.tuples(st.integers(1, 5), sizes, st.sampled_from([(), (), (("pool", "web"),), ((ZONE, "a"),)])),
    min_size=1,
    max_size=5,
)


@st.composite
def worlds(draw: st.DrawFn, *, ceilings: bool = False) -> World:
    policies = [Policy(name="main", spec=PolicySpec.model_validate(draw(specs(ceilings=ceilings))))]
    if draw(st.booleans()):
        spec = draw(specs(ceilings=ceilings)) | {"nodeSelector": {"pool": "data"}}
        policies.append(Policy(name="data", spec=PolicySpec.model_validate(spec)))
    groups = GROUPS[: draw(st.integers(1, 3))]
    form = {"unbound_scheduler": draw(st.sampled_from(FORMS))}
    world = World(groups=groups, policies=[policy.model_copy(update=form) for policy in policies])
    for group in groups:
        world.add_node(group)
    for number, (count, (cpu, memory), selector) in enumerate(draw(batches)):
        world.add_pods(f"w{number}", count, cpu, memory, selector=selector)
    return world


def says_so(item: PolicyPlan) -> bool:
    """Whether the plan admits that less than desired is kept."""
    return not item.condition(ConditionType.SLACK_SATISFIED).status


@few
@given(worlds())
def test_the_placeholders_hold_what_is_desired_or_status_says_so(world: World) -> None:
    for item in world.settle().items:
        short = bool((item.planned < item.desired).any())
        assert not short or says_so(item)
        satisfied = item.condition(ConditionType.SLACK_SATISFIED).status
        assert satisfied == bool((item.reserved >= item.desired).all()) or not item.act
        if item.act and item.feasible and not short:
            assert satisfied


@few
@given(worlds(ceilings=True))
def test_a_ceiling_holds_at_every_instant_while_the_cluster_changes(world: World) -> None:
    world.settle()
    world.add_pods("late", 3, 1500, 3000)
    world.settle()
    for name in [name for name in world.pods if name.startswith("w0")]:
        del world.pods[name]
    world.pass_time(9 * HOUR)
    ceilings = [p.spec.extra_capacity.ceiling for p in world.policies]
    most = sum(c["cpu"] for c in ceilings), sum(c["memory"] for c in ceilings)
    for item, policy in zip(world.plan().items, world.policies, strict=True):
        for binding in item.binding:
            assert binding.at == policy.spec.extra_capacity.ceiling[binding.resource]
            assert binding.wanted > binding.at or binding.in_parts
        named = {item.resources.index(binding.resource) for binding in item.binding}
        assert {r for r in range(2) if item.asked[r] > item.desired[r] + 100} <= named, "beside crumbs of parts"
    assert all(cpu <= most[0] and memory <= most[1] for cpu, memory in world.history)


@few
@given(worlds())
def test_covered_pods_fit_one_placeholder_and_everything_covers_each_feasible_pod(world: World) -> None:
    world.settle()
    snapshot, result = world.snapshot(), world.plan()
    for item, policy in zip(result.items, world.policies, strict=True):
        shapes = {s.shape.name: s.shape for s in item.shapes}
        for kind, name in item.covered_by.items():
            assert (snapshot.kinds.requests[kind] <= shapes[name].vector(snapshot.resources)).all()
        if policy.spec.cover.mode is CoverMode.EVERYTHING and item.act:
            uncovered = {u.pod for u in item.uncovered}
            infeasible = item.condition(ConditionType.FEASIBLE).message
            assert all(name in infeasible for name in sorted(uncovered)[:3])


@few
@given(worlds())
def test_no_covering_placeholder_is_larger_than_a_pod_that_it_covers_and_no_chunk_than_the_largest_pod(
    world: World,
) -> None:
    world.settle()
    snapshot, result = world.snapshot(), world.plan()
    for item, policy in zip(result.items, world.policies, strict=True):
        for shape in item.shapes if policy.spec.cover.mode in (CoverMode.FREQUENT, CoverMode.EVERYTHING) else ():
            vector = shape.shape.vector(snapshot.resources)
            larger = (snapshot.kinds.requests >= vector).all(axis=1)
            # Where there are no pods, in one of the zones perhaps, a floor is kept all the same.
            bare = bool(policy.spec.extra_capacity.floor) and (policy.spec.per_domain == "Zone" or not item.base.any())
            assert larger.any() or bare
            if shape.role is Role.COVER:
                assert (snapshot.kinds.requests == vector).all(axis=1).any()


@few
@given(worlds())
def test_every_shape_fits_a_node(world: World) -> None:
    world.settle()
    for s in world.sets.values():
        cpu, memory = amounts_of(s.shape)
        assert any(g.cpu >= cpu and g.memory >= memory for g in world.groups)


@few
@given(worlds(), st.integers(0, 1000))
def test_the_same_cluster_makes_the_same_plan_byte_for_byte_in_any_order(world: World, seed: int) -> None:
    world.round()
    first = fingerprint(world.plan())
    assert fingerprint(world.plan()) == first
    world.shuffle = seed
    assert fingerprint(world.plan()) == first


@few
@given(worlds(ceilings=True))
def test_a_steady_cluster_is_left_alone_for_hours(world: World) -> None:
    world.settle()
    world.pass_time(9 * HOUR)  # the window of arrivals is over as well
    before, writes, born = world.state(), world.writes, world.born
    for _ in range(12):
        world.now += HOUR / 2
        world.round()
    assert (world.state(), world.writes, world.born) == (before, writes, born)


def test_displacing_k_placeholders_leads_to_k_new_ones_and_nothing_else() -> None:
    """But for a size that nothing would ask a node for any more: today's takes its place, which few lives show."""
    lives: list[bool] = []

    @few
    @given(worlds())
    def one_life(world: World) -> None:
        world.settle()
        world.removes_nodes = False
        before = {uid: h.node for uid, h in world.holders.items()}
        displaced = sorted(before)[:2]
        shapes = {(world.holders[uid].policy, world.holders[uid].shape.name) for uid in displaced}
        for uid in displaced:  # deleted from outside, as by a preemption whose pod has gone again
            del world.holders[uid]
        writes = world.writes
        result = world.settle()
        assert {uid: h.node for uid, h in world.holders.items() if uid in before} == {
            uid: name for uid, name in before.items() if uid not in displaced
        }
        lives.append(shapes <= set(world.sets))
        if lives[-1]:
            assert world.writes == writes
            assert len(world.holders) == len(before)
        assert all((item.planned >= item.desired).all() or says_so(item) for item in result.items)
        writes, born = world.writes, world.born
        world.settle()
        assert (world.writes, world.born) == (writes, born)

    one_life()
    assert lives.count(False) <= 0.1 * len(lives)


@examples(12, quick=1, phases=[Phase.explicit, Phase.generate])
@given(worlds(ceilings=True), st.integers(0, 12))
def test_a_restart_at_any_step_ends_in_the_same_state(world: World, step: int) -> None:
    world.settle()
    world.add_pods("late", 4, 800, 2048)
    other = copy(world)
    for number in range(14):
        world.round()
        other.round(restart=number == step)
    world.pass_time(9 * HOUR)
    other.pass_time(9 * HOUR)
    assert other.goal() == world.goal()


@few
@given(worlds())
def test_nodes_and_placeholders_do_not_change_what_is_desired(world: World) -> None:
    world.settle()
    before = [item.desired.tolist() for item in world.plan().items]
    for group in world.groups:
        world.add_node(group)
    sets = list(world.sets.values())
    for s in sets:
        s.replicas += 2
    world.control()
    world.schedule()
    for policy, item, desired in zip(world.policies, world.plan().items, before, strict=True):
        if policy.spec.extra_capacity.replicas is None:
            assert item.desired.tolist() == desired


@few
@given(worlds())
def test_without_real_pods_slack_shrinks_to_the_floor(world: World) -> None:
    world.settle()
    world.pods.clear()
    world.pass_time(9 * HOUR)  # arrivals are remembered for six hours, then the shrink delay
    world.pass_time(HOUR)
    for policy, item in zip(world.policies, world.plan().items, strict=True):
        floor = policy.spec.extra_capacity.floor
        if not item.act:
            continue  # no node of its own
        assert item.desired.tolist() == [floor.get("cpu", 0), floor.get("memory", 0)]
        if not floor:
            assert not item.shapes
        chunks = [s for s in item.shapes if s.count]
        assert all(s.role is Role.FILL for s in chunks)
    if not any(policy.spec.extra_capacity.floor for policy in world.policies):
        assert not world.holders
        assert len(world.nodes) == len(world.groups)


announcements = st.lists(
    st.tuples(st.integers(0, 6), sizes, st.integers(0, 8), st.sampled_from([(), (), (("pool", "web"),)])),
    min_size=1,
    max_size=3,
)


def announced(drawn: list[tuple[int, tuple[int, int], int, tuple[tuple[str, str], ...]]]) -> list[Pool]:
    """Return pools of (slackPods, size, maxContainers, node selector)."""
    return [
        Pool(
            workload=Workload("media", "actpool", f"p{number}"),
            requests=(("cpu", cpu), ("memory", memory * MI)),
            constraints=Constraints(node_selector=selector),
            labels={},
            spec=PodSpec(),
            most=most,
            slack_pods=count,
            wanted=0,
            observed_at_seconds=None,
        )
        for number, (count, (cpu, memory), most, selector) in enumerate(drawn)
    ]


@few
@given(worlds(ceilings=True), announcements)
def test_what_pools_announce_is_bounded_settles_and_outlasts_a_restart(world: World, drawn: Any) -> None:
    world.pools = announced(drawn)
    world.settle()
    ceilings = [p.spec.extra_capacity.ceiling for p in world.policies]
    most = sum(c["cpu"] for c in ceilings), sum(c["memory"] for c in ceilings)
    assert all(cpu <= most[0] and memory <= most[1] for cpu, memory in world.history)
    demand = [s for s in world.sets.values() if s.role is Role.DEMAND]
    assert sum(s.replicas for s in demand) <= sum(min(count, limit) for count, _, limit, _ in drawn)
    wanted = {(cpu, memory * MI) for _, (cpu, memory), *_ in drawn}
    assert {amounts_of(s.shape) for s in demand} <= wanted, "never larger than a pod of its pool"
    before, writes, born = world.state(), world.writes, world.born
    first = fingerprint(world.plan())
    world.shuffle = 7
    assert fingerprint(world.plan()) == first
    world.round()
    world.round(restart=True)
    assert (world.state(), world.writes, world.born) == (before, writes, born)


@few
@given(worlds(), announcements)
def test_what_is_desired_is_no_less_than_what_is_kept_for_pools(world: World, drawn: Any) -> None:
    world.pools = announced(drawn)
    for item in world.plan().items:
        assert not (item.planned < item.desired).any() or says_so(item)
        for r in range(2):
            demand = sum(s.count * amounts_of(s.shape)[r] for s in item.shapes if s.role is Role.DEMAND)
            assert item.desired[r] >= demand


def rooms(world: World, *, asked: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return cpu and memory of the placeholders that are asked for, or of the bound ones."""
    if asked:
        rows = [(s.replicas, amounts_of(s.shape)) for s in world.sets.values()]
    else:
        rows = [(1, amounts_of(h.shape)) for h in world.holders.values() if h.node]
    return np.array([sum(n * amounts[r] for n, amounts in rows) for r in (0, 1)])


@pytest.mark.thorough
@few
@given(worlds(), st.integers(0, 4))
def test_nothing_shrinks_before_the_delay_whatever_leaves(world: World, number: int) -> None:
    world.pass_time(HOUR)  # nothing waits to shrink any more
    before, shapes = rooms(world, asked=True), [amounts_of(s.shape) for s in world.sets.values()]
    crumb = np.array(shapes).max(axis=0) if shapes else 0  # chunks of another size do not add up exactly
    for name in [p.name for p in world.pods.values() if p.owner != f"w{number}"]:
        del world.pods[name]
    start, roles = world.now, {key: s.role for key, s in world.sets.items()}
    while world.now < start + 590:
        world.round(50.0)
        if any(world.sets[key].role is not role for key, role in roles.items() if key in world.sets):
            return  # a covering placeholder has become a chunk: it counts as what replaces the chunks before it
        assert (rooms(world, asked=True) >= before - crumb).all()


@pytest.mark.thorough
@few
@given(worlds())
def test_while_every_shape_is_replaced_there_is_never_less_room_than_before(world: World) -> None:
    """Another priority class makes every shape another; the old ones stay until the new ones are bound."""
    world.pass_time(HOUR)
    before = rooms(world, asked=False)
    changed = {"priority_class_name": "gold"}
    world.policies = [p.model_copy(update={"spec": p.spec.model_copy(update=changed)}) for p in world.policies]
    old = set(world.sets)
    for _ in range(40):
        desired = sum(item.desired[:2] for item in world.operate().items)
        assert (rooms(world, asked=False) >= np.minimum(before, desired)).all()
        world.control()
        world.schedule()
        world.autoscale()
        world.schedule()
        world.now += 10
    world.pass_time(2 * HOUR)
    assert not old & set(world.sets)


@few
@given(worlds())
def test_the_work_does_not_grow_with_pods(world: World) -> None:
    from slack.planner.domain.counting import counting_of
    from slack.planner.domain.membership import divide
    from slack.planner.wanted.cover_choice import make_items
    from slack.planner.wanted.demand import demand_of

    world.settle()
    rows = []
    for times in (1, 10):
        for pod in list(world.pods.values()) if times == 10 else []:
            world.add_pods(pod.owner, 9, pod.cpu, pod.memory // MI, selector=pod.selector)
        snapshot = world.snapshot()
        domain = divide(snapshot, world.policies)[0]
        mirrored = np.zeros(len(snapshot.kinds), dtype=bool)
        cache = PlanCache()
        counting = counting_of(snapshot, domain, -10, cache)
        demand = demand_of(snapshot, domain, priority=-10, counting=counting, mirrored=mirrored, cache=cache)
        items = make_items(demand.rows, demand.requests, demand.reach)
        rows.append((len(snapshot.kinds), len(demand.rows), len(items)))
    assert rows[0] == rows[1]


@st.composite
def days(draw: st.DrawFn) -> list[tuple[str, int, tuple[int, int]]]:
    what = st.sampled_from(["add", "add", "remove", "resize", "wait", "restart", "lose node"])
    return draw(st.lists(st.tuples(what, st.integers(0, 5), sizes), min_size=3, max_size=10))


def live(world: World, what: str, number: int, size: tuple[int, int]) -> None:
    """Let one thing happen."""
    mine = [p for p in world.pods.values() if p.owner == f"w{number}"]
    match what:
        case "add":
            world.add_pods(f"w{number}", 1 + number, *size)
        case "remove" | "resize":
            for p in mine:
                del world.pods[p.name]
            if what == "resize":
                world.add_pods(f"w{number}", len(mine), *size)
        case "wait":
            world.now += number * 200
        case "restart":
            world.planner_state = {}
        case _:
            gone = sorted(world.nodes)[number % len(world.nodes)] if world.nodes else ""
            for p in [p for p in world.pods.values() if p.node == gone]:
                p.node = None  # its controller makes another
            for uid in [h.uid for h in world.holders.values() if h.node == gone]:
                del world.holders[uid]
                world.churn["drained"] += 1
            world.nodes.pop(gone, None)


@few
@given(worlds(ceilings=True), days(), st.booleans())
def test_whatever_a_day_brings_the_ceiling_holds_and_the_evening_is_quiet(
    world: World, day: list[tuple[str, int, tuple[int, int]]], scarce: bool
) -> None:
    if scarce:
        world.groups = tuple(replace(group, most=2) for group in world.groups)
        world.nodes.clear()
        for group in world.groups:
            world.add_node(group)
    for what, number, size in day:
        live(world, what, number, size)
        for _ in range(1 + number % 3):
            world.round()
    for p in world.policies:
        for r, name in enumerate(("cpu", "memory")):
            spent = sum(amounts_of(h.shape)[r] for h in world.holders.values() if h.policy == p.name)
            assert spent <= p.spec.extra_capacity.ceiling[name]
    most = [sum(p.spec.extra_capacity.ceiling[r] for p in world.policies) for r in ("cpu", "memory")]
    assert all(cpu <= most[0] and memory <= most[1] for cpu, memory in world.history)
    world.pass_time(9 * HOUR)
    before, writes = world.state(), world.writes
    world.pass_time(2 * HOUR)
    assert (world.state(), world.writes) == (before, writes)
    snapshot = world.snapshot()
    for policy, item in zip(world.policies, world.plan().items, strict=True):
        for s in item.shapes if policy.spec.cover.mode is not CoverMode.LARGEST and item.act and not scarce else ():
            exact = (snapshot.kinds.requests == s.shape.vector(snapshot.resources)).all(axis=1)
            assert exact.any() or s.role is not Role.COVER  # S6, hours after the last change
        assert all(s.replicas == s.count for s in item.shapes) or not item.act or scarce
        assert not any(s.retiring for s in item.shapes) or scarce
