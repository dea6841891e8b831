"""What is kept between plans makes them quicker and nothing else."""

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given

from slack.planner.kept import Kept
from slack.planner.outcome import Plan
from slack.planner.plan import plan
from slack.planner.policy import CoverMode, Policy
from tests.cluster.build import NOW
from tests.planner.large import large, policies
from tests.planner.test_properties import days, few, live, worlds
from tests.planner.world import World, fingerprint


def same(one: Plan, other: Plan) -> bool:
    return fingerprint(one) == fingerprint(other) and repr(one.memory) == repr(other.memory)


def replace_cover(policy: Policy) -> Policy:
    """Return the policy with another cover."""
    mode = CoverMode.FREQUENT if policy.spec.cover.mode is CoverMode.EVERYTHING else CoverMode.EVERYTHING
    spec = policy.spec.model_copy(update={"cover": policy.spec.cover.model_copy(update={"mode": mode})})
    return Policy(name=policy.name, spec=spec)


@dataclass
class Twice(World):
    """A world whose every plan is made with what is kept and without."""

    kept: Kept = field(default_factory=Kept)
    plans: int = 0

    def plan(self) -> Plan:
        fresh = super().plan()
        again = plan(
            self.snapshot(),
            self.policies,
            now=self.now,
            existing=self.existing(),
            words=self.words,
            memory=self.memory,
            kept=self.kept,
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
            twice.policies = [replace_cover(one) for one in before]
            twice.operate()
            twice.policies = before[:1]
            twice.operate()
            twice.policies = before
        twice.settle()
    assert twice.plans > len(day)


def test_a_change_of_one_number_is_seen_in_every_part_that_depends_on_it() -> None:
    """Each number that a snapshot holds is changed by itself, between plans that keep what they can."""
    kept, wanted, base = Kept(), policies(), large(nodes=200, kinds=120)
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
    for snapshot in more:
        for one in (base, snapshot):
            assert same(plan(one, wanted, now=NOW), plan(one, wanted, now=NOW, kept=kept))


def test_an_equal_part_is_taken_over_and_a_function_is_called_once_for_it() -> None:
    kept, calls = Kept(), []

    def make() -> int:
        calls.append(1)
        return len(calls)

    one, equal, other = np.arange(3), np.arange(3), np.arange(4)
    assert kept.of("sum", (kept.same("array", one),), make) == 1
    assert kept.of("sum", (kept.same("array", equal),), make) == 1
    assert kept.of("sum", (kept.same("array", other),), make) == 2
    assert kept.same("array", np.arange(4.0)).dtype == float, "an equal array of another type is another one"


def test_what_belongs_to_a_policy_that_has_gone_goes_too() -> None:
    kept = Kept()
    first = kept.part("web")
    kept.end()
    assert kept.part("web") is first
    kept.end()
    kept.end()
    assert kept.part("web") is not first
