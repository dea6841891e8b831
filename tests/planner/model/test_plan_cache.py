"""What is kept between plans makes them quicker and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from slack.cluster.snapshot import IntArray, Workload
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import Plan
from slack.planner.plan import plan
from slack.planner.policy.spec import CoverMode, Policy, PolicySpec
from tests.cases import run_for_each
from tests.cluster.build import NOW
from tests.examples import by_profile
from tests.planner.large import large, policies
from tests.planner.test_properties import days, few, live, worlds
from tests.planner.world import World, fingerprint


def same(first: Plan, second: Plan) -> bool:
    return fingerprint(first) == fingerprint(second) and repr(first.state) == repr(second.state)


def replace_cover(policy: Policy) -> Policy:
    """Return the policy with another cover."""
    mode = CoverMode.FREQUENT if policy.spec.cover.mode is CoverMode.EVERYTHING else CoverMode.EVERYTHING
    spec = policy.spec.model_copy(update={"cover": policy.spec.cover.model_copy(update={"mode": mode})})
    return Policy(name=policy.name, spec=spec)


@dataclass
class Twice(World):
    """A world whose every plan is made with what is kept and without."""

    cache: PlanCache = field(default_factory=PlanCache)
    plans: int = 0

    def plan(self) -> Plan:
        fresh = super().plan()
        again = plan(
            self.snapshot(),
            self.policies,
            now=self.now,
            existing=self.existing(),
            events=self.events,
            state=self.planner_state,
            cache=self.cache,
        )
        assert same(fresh, again)
        self.plans += 1
        return again


@few
@given(worlds(ceilings=True), days())
def test_plans_are_the_same_with_what_is_kept_and_without(
    world: World, day: list[tuple[str, int, tuple[int, int]]]
) -> None:
    twice = Twice(groups=world.groups, policies=world.policies, nodes=world.nodes, pods=world.pods, born=world.born)
    twice.settle()
    for number, (what, which, size) in enumerate(day):
        live(twice, what, which, size)
        if number == 1:  # edited, and the same again later
            before = twice.policies
            twice.policies = [replace_cover(policy) for policy in before]
            twice.operate()
            twice.policies = before[:1]
            twice.operate()
            twice.policies = before
        twice.settle()
    assert twice.plans > len(day)


def test_a_change_of_one_number_is_seen_in_every_part_that_depends_on_it() -> None:
    """Each number that a snapshot holds is changed by itself, between plans that keep what they can."""
    cache, wanted, base = PlanCache(), policies(), large(nodes=by_profile(30, 200), kinds=by_profile(30, 120))
    nodes, kinds = base.nodes, base.kinds
    half = np.arange(len(nodes.names)) % 2 == 0
    more = [
        replace(base, nodes=replace(nodes, **{name: getattr(nodes, name) // 2}))
        for name in ("allocatable", "real", "daemon", "max_pods", "pod_count")
    ]
    more += [
        replace(base, nodes=replace(nodes, **{name: getattr(nodes, name) & half})) for name in ("ready", "schedulable")
    ]
    more += [
        replace(base, kinds=replace(kinds, **{name: np.roll(getattr(kinds, name), 1, axis=0)}))
        for name in ("requests", "constraint_id", "running", "arrivals")
    ]
    more += [
        replace(base, kinds=replace(kinds, pending=kinds.pending + np.arange(len(kinds)) % 3)),
        replace(base, kinds=replace(kinds, priority=kinds.priority - 100 * (np.arange(len(kinds)) % 2))),
        replace(base, kinds=replace(kinds, preempts=np.arange(len(kinds)) % 2 == 0)),
        replace(base, kinds=replace(kinds, excluded=np.arange(len(kinds)) % 2 == 0)),
        replace(base, kinds=replace(kinds, workloads=kinds.workloads[::-1])),
        replace(base, presence=replace(base.presence, node_class=np.roll(base.presence.node_class, 1))),
        replace(base, reach=np.roll(base.reach, 1, axis=1)),
        replace(base, node_start_seconds=30.0),
    ]
    fresh = plan(base, wanted, now=NOW)
    for snapshot in more:
        assert same(fresh, plan(base, wanted, now=NOW, cache=cache))
        assert same(plan(snapshot, wanted, now=NOW), plan(snapshot, wanted, now=NOW, cache=cache))


class Calls:
    """How often the functions below were called."""

    count = 0


def _largest(numbers: IntArray, *, least: int) -> IntArray:
    Calls.count += 1
    return np.array([max(int(numbers.max()), least)])


def test_a_function_is_called_once_for_equal_arguments_whatever_these_are_of() -> None:
    Calls.count = 0
    cache = PlanCache()
    first = cache.compute(_largest, np.arange(3), least=0)
    assert cache.compute(_largest, np.arange(3), least=0) is first
    assert Calls.count == 1
    assert cache.compute(_largest, np.arange(3), least=1) == 2
    assert Calls.count == 2, "no argument is forgotten"
    assert cache.compute(_largest, np.arange(4), least=0) == 3
    assert cache.compute(_largest, np.arange(4).astype(np.int32), least=0) == 3
    assert Calls.count == 4, "an equal array of another type is another one"


def test_an_equal_value_is_the_earlier_one_so_that_what_was_made_of_it_is_found_again() -> None:
    cache = PlanCache()
    first = cache.compute(_largest, np.arange(3), least=0)
    assert cache.compute(_largest, np.arange(2), least=2) is first


def _told(*values: object, **named: object) -> str:
    Calls.count += 1
    return f"{values} {named}"


def test_arguments_given_by_name_are_told_apart_by_it() -> None:
    cache = PlanCache()
    assert cache.compute(_told, a=1, b=2) == "() {'a': 1, 'b': 2}"
    assert cache.compute(_told, b=1, a=2) == "() {'b': 1, 'a': 2}"
    assert cache.compute(_told, 1, a=2) == "(1,) {'a': 2}"
    assert cache.compute(_told, ("a", 2), 1) == "(('a', 2), 1) {}"


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    rows: IntArray
    columns: tuple[IntArray, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    tables: tuple[_Table | None, ...]


def _of_labels(**labels: str) -> Policy:
    return Policy(name="web", spec=PolicySpec(node_selector=labels))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (1, True),
        ((1,), (1.0,)),
        ((1, 2), (1, True + 1.0)),
        (frozenset({1}), frozenset({True})),
        (Workload("shop", "deploy", "1"), Workload("shop", "deploy", 1)),  # type: ignore[arg-type]
        (_of_labels(pool="a", zone="b"), _of_labels(zone="b", pool="a")),
        (np.zeros(2), np.zeros((2, 1))),
        (np.int64(1), np.int32(1)),
    ],
)
def test_what_is_equal_but_not_the_same_is_told_apart(first: object, second: object) -> None:
    cache = PlanCache()
    Calls.count = 0
    for value in (first, second, first):
        assert cache.compute(_told, value) == f"{(value,)} {{}}"
    assert Calls.count == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda last: (1, np.array([1, last])),
        lambda last: ((np.array([1, last]),), "x"),
        lambda last: ("x", (1, np.array([1, last]))),
        lambda last: _Table(np.array([1, last])),
        lambda last: _Table(np.array([1]), (np.array([2]), np.array([1, last]))),
        lambda last: (1, _Tables((None, _Table(np.array([last, 3]))))),
        lambda last: _of_labels(pool="a", zone=str(last)),
    ],
)
def test_arrays_are_compared_wherever_they_are(make: Callable[[int], object]) -> None:
    cache = PlanCache()
    Calls.count = 0
    first = cache.compute(_told, make(2))
    assert cache.compute(_told, make(2)) is first
    assert Calls.count == 1
    cache.compute(_told, make(3))
    assert Calls.count == 2


@dataclass
class _Open:
    number: int = 1


@dataclass(frozen=True)
class _Listing:
    numbers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Within:
    listing: tuple[_Listing | None, ...] = ()


@run_for_each(
    "value",
    [
        [1],
        {"a": 1},
        {"k": np.array([1])},
        {1},
        bytearray(b"x"),
        (1, [2]),
        (1, (2, {"a": 1})),
        frozenset({(1, 2)}),
        _Open(),
        _Listing(),
        _Within(),
    ],
    ids=repr,
)
def test_a_value_that_can_change_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"can change|set of collections"):
        PlanCache().compute(_told, value)
    with pytest.raises(TypeError, match=r"can change|set of collections"):
        PlanCache().compute(_told, named=value)


def _listing(number: int) -> list[int]:
    return [number]


def test_a_function_whose_value_can_change_is_refused() -> None:
    with pytest.raises(TypeError, match="a value of list can change"):
        PlanCache().compute(_listing, 1)


variable, TABLE, LEAST, _ROW = 3, {"a": 1}, 2, (1, "x")


def _reads_variable(number: int) -> int:
    return number + variable


def _reads_table(name: str) -> int:
    return TABLE[name]


def _reads_inside(number: int) -> int:
    return sum((lambda: variable)() for _ in range(number))


def _sets_constant(number: int) -> int:
    global _ROW
    _ROW = (number, "x")
    return number


def _default(number: int, among: list[int] = []) -> int:  # noqa: B006  # this is what is refused
    return number + len(among)


def _reads_constants(number: int) -> int:
    return max(number, LEAST, len(_ROW), int(np.int64(len(_told(number)))))


def _inside() -> Callable[[int], int]:
    def inner(number: int) -> int:
        return number

    return inner


def _careless(beside: int) -> Callable[[int], int]:
    return lambda number: number + beside


@run_for_each(
    "function",
    [
        _careless(3),
        _inside(),
        [3].count,
        PlanCache().part,
        partial(_reads_constants, 1),
        lambda number: number + variable,
        _reads_variable,
        _reads_inside,
        _reads_table,
        _sets_constant,
        _default,
        len,
        Workload,
    ],
)
def test_only_functions_that_read_nothing_but_their_arguments_can_be_cached(function: Callable[..., object]) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"reads more than its arguments|has no name of its own|can change"):
            PlanCache().compute(function, 1)


def test_a_function_may_read_constants_and_other_functions_of_its_module() -> None:
    cache = PlanCache()
    assert cache.compute(_reads_constants, 1) == len(_told(1))
    assert cache.compute(_reads_constants, 1) == len(_told(1))


def test_what_belongs_to_a_policy_that_has_gone_goes_too() -> None:
    cache = PlanCache()
    first = cache.part("web")
    cache.end()
    assert cache.part("web") is first
    cache.end()
    cache.end()
    assert cache.part("web") is not first
