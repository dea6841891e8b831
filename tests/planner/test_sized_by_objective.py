"""An objective's amount is a bound and not a floor for the cover, and is kept in the sizes that come."""

import pytest

from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.objective.amount import Amount, Requests, SizingReason
from slack.planner.plan import plan
from tests.cluster.build import NOW, node, placeholder
from tests.planner.scenes import GI, as_existing, policy_of, replicas, sizes, snapshot_of

WHY = SizingReason(objective=0.9, known=True)
PODS = [
    *replicas(4, "small", "1", "2Gi", node="a"),
    *replicas(3, "large", "2", "6Gi", node="b"),
]
MIX = (((1000, 2 * GI), 0.5), ((2000, 6 * GI), 0.5))
NODES = [node(name, cpu="8", memory="32Gi") for name in "abc"]


def planned(
    cpu: int,
    memory: int,
    *,
    soon: Requests = (0, 0),
    before: PolicyPlan | None = None,
    floor: str | None = None,
    at_least_rate: bool = False,
) -> PolicyPlan:
    """Plan one policy, whose placeholders of before are all on a node."""
    existing = as_existing(before) if before is not None else []
    pods = [
        placeholder(
            f"p{i}-{n}",
            f"{dict(there.shape.requests)['cpu']}m",
            str(dict(there.shape.requests)["memory"]),
            policy="web",
            shape=there.shape.name,
            node="c",
        )
        for i, there in enumerate(existing)
        for n in range(there.replicas)
    ]
    size = {} if floor is None else {"extraCapacity": {"floor": {"cpu": floor}}}
    policy = policy_of("web", objective={"instantStart": 0.9}, **size)
    amounts = {"web": Amount(cpu, memory, WHY, MIX, soon, at_least_rate)}
    (item,) = plan(snapshot_of(*NODES, *PODS, *pods), [policy], now=NOW, objectives=amounts, existing=existing).items
    return item


def test_where_no_room_is_asked_for_the_cover_keeps_none_and_that_is_no_trouble() -> None:
    item = planned(0, 0)
    assert sizes(item) == []
    covered = item.condition(ConditionType.COVERED)
    assert (covered.status, covered.reason) == (True, "ObjectiveDecides")
    assert {uncovered.reason for uncovered in item.uncovered} == {"spec.objective asks for less room now than it takes"}


def test_placeholders_are_as_large_as_the_pods_that_come_often_whatever_the_granularity() -> None:
    item = planned(12_000, 36 * GI)
    assert sum(count for count, cpu, memory in sizes(item) if cpu >= 2000 and memory >= 6 * GI) >= 5, sizes(item)


@pytest.mark.parametrize(("cpu", "wanted"), [(0, 1000), (4000, 4000)])
def test_while_the_rate_holds_as_well_the_larger_of_both_is_kept(cpu: int, wanted: int) -> None:
    item = planned(cpu, 4 * GI, at_least_rate=True)
    assert item.desired[0] == wanted, "a tenth of the ten cores that run, or what is asked for"


@pytest.mark.parametrize(("cpu", "wanted"), [(1700, 1), (2400, 1), (3600, 2)])
def test_an_amount_is_kept_to_the_nearest_placeholder(cpu: int, wanted: int) -> None:
    item = planned(cpu, cpu * 3 * GI // 1000)
    assert sum(count for count, _, _ in sizes(item)) == wanted, sizes(item)


def test_what_is_wanted_is_told_to_be_the_objectives() -> None:
    (field,) = planned(1700, 5 * GI).wanted_by
    assert (field.source, field.instant_start, field.resources) == ("objective", 0.9, ("cpu", "memory"))
    assert str(field) == "what 90 % at once takes, as learnt"


def test_a_floor_is_not_rounded_down() -> None:
    assert sum(count * cpu for count, cpu, _ in sizes(planned(0, 0, floor="2400m"))) >= 2400


def test_what_is_wanted_again_within_the_shrink_delay_stays_where_it_is_there_and_is_not_made_where_it_is_not() -> None:
    wave = (12_000, 36 * GI)
    before = planned(*wave)
    kept = planned(0, 0, soon=wave, before=before)
    assert sum(shape.count * dict(shape.shape.requests)["cpu"] for shape in kept.shapes) >= wave[0]
    assert planned(0, 0, soon=wave).shapes == ()


@pytest.mark.parametrize("cpu", [4000, 10**17])
def test_a_further_resource_of_a_node_changes_nothing_of_the_cover(cpu: int) -> None:
    """Whatever the amount: what was learnt is read from an object that somebody may have written."""
    amounts = {"web": Amount(cpu, min(cpu * 3 * GI // 1000, 10**17), WHY, MIX)}
    policy = policy_of("web", objective={"instantStart": 0.9})
    found = []
    for further in ({}, {"example.com/gpu": "4"}):
        nodes = [node(name, cpu="8", memory="32Gi", extended=further) for name in "abc"]
        (item,) = plan(snapshot_of(*nodes, *PODS), [policy], now=NOW, objectives=amounts).items
        found.append((sizes(item), item.uncovered))
    assert found[0] == found[1]
    assert found[0][0]
    assert not found[0][1]
