"""What a status says, and when it is worth a write."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from slack.cluster.quantity import WrittenQuantity, cpu_millis, format_rounded
from slack.documents.slackpolicy_status import StatusHold, StatusTimeToReady, StatusWorkloadStarts
from slack.planner.model.cost import PlanCost
from slack.planner.model.result import Binding, ConditionType
from slack.planner.model.surplus import Surplus
from slack.planner.model.wanted_by import Source, WantedByField
from slack.planner.objective.amount import SizingReason
from slack.planner.policy.crd import PRINTER_COLUMNS, STATUS_SCHEMA
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.placeholders.report.saved_waits import SavedWait
from slack_operator.placeholders.report.status import (
    HEARTBEAT_SECONDS,
    MOVING_SECONDS,
    SATISFIED_SECONDS,
    PolicyObservation,
    StatusBoard,
    rate_text,
    spared_status,
    status_of,
    with_state,
    with_update_times,
)
from slack_operator.runtime.conditions import turned, with_conditions, with_times
from tests.cases import run_for_each
from tests.operator.fakes import NAMESPACE, World, policy
from tests.planner.objects.test_decide import policy_plan, shape_plan

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
HOLD = StatusHold(
    form="Bound", since=EARLIER, reason="NoAnswer", message="no Event", retry_time=EARLIER, release_nodes="Off"
)
HOUR_SECONDS = 3600.0
READY = StatusCondition(ConditionType.READY, True, "Fine", "all is well")
TO_READY = StatusTimeToReady(
    pods=40,
    p50="3.1s",
    p99="41s",
    summary="3.1s/41s",
    text="p50 3.1 s, p99 41 s",
    workloads=[StatusWorkloadStarts(workload="shop/deploy/api", pods=40, bound="0.1s", ready="3.1s", p99="41s")],
)


@run_for_each(
    ("resource", "value", "text"),
    [
        ("cpu", 3812, "3810m"),
        ("cpu", 38000, "38"),
        ("cpu", 38123, "38100m"),
        ("cpu", 0, "0"),
        ("memory", 8 << 30, "8Gi"),
        ("memory", 8160437863, "7.6Gi"),
        ("memory", 500 << 20, "500Mi"),
        ("memory", 300 * (1 << 30) + 5, "300Gi"),
        ("memory", 0, "0"),
        ("nvidia.com/gpu", 3, "3"),
    ],
)
def test_amounts_have_three_digits(resource: str, value: int, text: str) -> None:
    assert format_rounded(resource, value) == text


@pytest.mark.parametrize(("number", "text"), [(1, "1 node"), (2, "2 nodes"), (0, "0 nodes")])
def test_whole_nodes_stand_where_a_rate_would(number: int, text: str) -> None:
    wanted_by = (WantedByField(Source.NODES, ("cpu", "memory"), replicas=number),)
    assert rate_text(replace(policy_plan(shape_plan(2)), wanted_by=wanted_by)) == text


def check(schema: dict[str, Any], value: Any, path: str = "status") -> None:
    """Structural validation as far as pruning goes: nothing that the schema does not know."""
    match schema.get("type"):
        case "object":
            assert isinstance(value, dict), path
            extra = schema.get("additionalProperties")
            for key, item in value.items():
                known = schema.get("properties", {}).get(key, extra)
                assert known is not None, f"{path}.{key} would be pruned"
                check(known, item, f"{path}.{key}")
            assert set(schema.get("required", ())) <= set(value), path
        case "array":
            assert isinstance(value, list), path
            for index, item in enumerate(value):
                check(schema["items"], item, f"{path}[{index}]")
        case "integer":
            assert isinstance(value, int), path
        case "string":
            assert isinstance(value, str), path


def test_nothing_of_the_status_is_pruned_by_its_schema() -> None:
    spared = SavedWait(120, 112.0)
    observed = PolicyObservation(1, 1, 3, EARLIER, "98%", (READY,), spared_status(spared, {}), HOLD, TO_READY)
    why = SizingReason(0.99, known=True, started_today=200, late_today=1, price_per_hour=0.5, window_seconds=97.0)
    binding = (Binding("cpu", WrittenQuantity(2000, "2000m"), 6000),)
    plan = replace(policy_plan(shape_plan(2)), replicas=2, why=why, binding=binding)
    held = PlanCost(1.2, 0.48, "EUR", 0.4, unpriced_nodes=2)
    surplus = Surplus(np.array([35000, 70 << 30]), 1_767_283_500.0)
    plan = replace(plan, reserved_cost=held, cost=held, surplus=surplus, buffered=np.array([4000, 8 << 30]))
    status = with_state(status_of(plan, observed, {}, NOW), "resource-slack")
    assert status["limit"] == "cpu ceiling 2000m binds (6 wanted)"  # as its policy has it
    floored = replace(plan, floors=(Binding("memory", WrittenQuantity(8 << 30, "8Gi"), 2 << 30, limit="floor"),))
    assert status_of(floored, observed, {}, NOW)["limit"] == (
        "cpu ceiling 2000m binds (6 wanted), memory floor 8Gi binds (2Gi wanted without it)"
    )
    assert status["cost"] == {
        "nodeHoursPerHour": "1.2",
        "nodeHoursPerMonth": "876",
        "currency": "EUR",
        "perHour": "0.48",
        "perMonth": "350",
        "unpricedNodes": 2,
        "text": "0.48 EUR per hour, 350 EUR per month (1.2 nodes; 2 nodes of it have no price)",
    }
    more = status_of(replace(plan, cost=PlanCost(2.0, 0.8, "EUR", 0.4)), observed, {}, NOW)["cost"]
    assert more == status["cost"] | {
        "text": f"{held} now; 0.8 EUR per hour, 584 EUR per month (2 nodes) as planned",
    }
    assert status["buffered"] == {"cpu": "4", "memory": "8Gi"}
    assert status["spared"]["text"] == "120 pods of a day would have waited about 110 s each for a node, 3.7 h in all"
    assert status["surplus"] == {
        "amounts": {"cpu": "35", "memory": "70Gi"},
        "removalTime": "2026-01-01T16:05:00Z",
        "text": "35 cores and 70Gi of memory more than planned, removed from 2026-01-01 16:05 UTC on",
    }
    assert set(STATUS_SCHEMA["properties"]["hold"]["properties"]) == set(status["hold"])
    check(STATUS_SCHEMA, status)
    # the reporter writes when it looked
    assert set(STATUS_SCHEMA["properties"]) == set(status) | {"observedTime"}


def test_printed_columns_are_fields_of_the_schema() -> None:
    for column in PRINTER_COLUMNS:
        schema = STATUS_SCHEMA
        for part in column["jsonPath"].removeprefix(".status.").partition("[")[0].split("."):
            schema = schema["properties"][part]


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    previous = {"conditions": with_times([READY], {}, EARLIER)}
    (kept,) = with_times([StatusCondition("Ready", True, "Other", "words")], previous, NOW)
    (moved,) = with_times([StatusCondition("Ready", False, "Fine", "no")], previous, NOW)
    assert (kept["lastTransitionTime"], moved["lastTransitionTime"]) == (EARLIER, NOW)


def test_replacing_one_condition_keeps_the_rest_of_the_status() -> None:
    previous = {
        "pending": 3,
        "conditions": with_times([READY, StatusCondition("Covered", True, "A", "b")], {}, EARLIER),
    }
    status = with_conditions(previous, [StatusCondition("Ready", False, "Bad", "why")], 7, NOW)
    assert (status["pending"], status["observedGeneration"]) == (3, 7)
    assert {c["type"]: c["lastTransitionTime"] for c in status["conditions"]} == {"Covered": EARLIER, "Ready": NOW}


def test_only_turned_conditions_and_new_trouble_are_told() -> None:
    previous = {"conditions": with_times([READY], {}, EARLIER)}
    status = {
        "conditions": with_times(
            [
                StatusCondition("Ready", True, "Fine", "other words"),
                StatusCondition("PinsNodes", False, "No", ""),
                StatusCondition("LimitReached", True, "Full", ""),
            ],
            previous,
            NOW,
        )
    }
    assert [condition["type"] for condition in turned(previous, status)] == ["LimitReached"]
    assert is_trouble("LimitReached", "True")
    assert is_trouble("Ready", "False")
    assert not is_trouble("Ready", "True")


def conditions(ready: bool, kind: str = "Ready") -> list[dict[str, Any]]:
    return with_times([StatusCondition(kind, ready, "Fine", "text")], {}, NOW)


SHAPE = {"name": "a", "replicas": 2, "bound": 2}
SETTLED: dict[str, Any] = {"observedGeneration": 1, "pending": 0, "shapes": [SHAPE], "conditions": conditions(True)}


@pytest.mark.parametrize(
    "moved",
    [
        {"pending": 1},
        {"conditions": conditions(False)},
        {"observedGeneration": 2},
        {"displaced": {"total": 1, "since": EARLIER}},
        {"shapes": [{**SHAPE, "bound": 1}]},
        {"replicas": 3},
    ],
)
def test_what_moves_is_written_within_two_seconds_of_the_write_before(moved: dict[str, Any]) -> None:
    board = StatusBoard()
    board.open("u", {}, NOW, 0.0)
    assert board.due_in("u", SETTLED, 0.0) == 0.0
    board.written("u", SETTLED, 0.0)
    assert board.due_in("u", {**SETTLED, **moved}, 0.5) == 1.5
    assert board.due_in("u", {**SETTLED, **moved}, 5.0) == 0.0
    board.written("u", {**SETTLED, **moved}, 5.0)
    assert board.due_in("u", SETTLED, 6.0) == 1.0, "its end is written as soon"


def test_that_all_capacity_is_there_is_written_at_once_but_not_again_and_again() -> None:
    waits = {**SETTLED, "pending": 1, "conditions": conditions(False, "SlackSatisfied")}
    there = {**SETTLED, "conditions": conditions(True, "SlackSatisfied")}
    board = StatusBoard()
    board.open("u", {}, NOW, 0.0)
    board.written("u", waits, 0.0)
    assert board.due_in("u", there, 0.2) == 0.0
    board.written("u", there, 0.2)
    assert board.due_in("u", waits, 0.7) == pytest.approx(1.5)
    board.written("u", waits, 2.2)
    assert board.due_in("u", there, 2.7) == pytest.approx(1.5), "a policy that flaps gets no more writes for it"
    assert board.due_in("u", there, 0.2 + SATISFIED_SECONDS) == 0.0


def test_mere_counters_of_a_settled_policy_are_written_once_a_minute_and_the_same_every_few_minutes() -> None:
    board = StatusBoard()
    board.open("u", {}, NOW, 0.0)
    board.written("u", SETTLED, 0.0)
    assert board.due_in("u", {**SETTLED, "observedTime": NOW}, 0.8 * HEARTBEAT_SECONDS - 1) is None
    assert board.due_in("u", dict(SETTLED), HEARTBEAT_SECONDS) == 0.0
    assert board.due_in("u", {**SETTLED, "base": {"cpu": "3"}}, 20.0) == 40.0


def test_of_many_policies_no_more_than_twenty_are_written_in_a_second() -> None:
    board = StatusBoard()
    for number in range(200):
        board.open(str(number), {}, NOW, 0.0)
        board.written(str(number), SETTLED, 0.0)
    assert board.due_in("7", {**SETTLED, "pending": 1}, 0.0) == 10.0


REFILL = StatusCondition("SlackSatisfied", False, "Refilling", "1 of 2")


@run_for_each(
    ("before", "began", "reason"),
    [
        ("Refilling", "2026-01-01T00:09:00Z", "Refilling"),
        ("Refilling", "2025-12-31T23:54:00Z", "RefillLasts"),
        ("RefillLasts", "2026-01-01T00:09:00Z", "RefillLasts"),
        # what came before the refill does not count as one, however long it was
        ("CeilingReached", "2025-12-31T20:00:00Z", "Refilling"),
    ],
)
def test_a_refill_that_is_never_through_gets_a_reason_of_its_own(before: str, began: str, reason: str) -> None:
    since = "2025-12-31T20:00:00Z"
    earlier = with_times([replace(REFILL, reason=before)], {}, since)
    previous = {"conditions": [{**said, "lastUpdateTime": began} for said in earlier]}
    plan = replace(policy_plan(shape_plan(2)), conditions=(REFILL,))
    status = status_of(plan, PolicyObservation(1, 1, 0, EARLIER, None), previous, NOW)
    assert [(said["reason"], said["lastTransitionTime"]) for said in status["conditions"]] == [(reason, since)]


@run_for_each(
    ("status", "reason", "since"),
    [
        (False, "CeilingReached", EARLIER),
        (False, "Refilling", NOW),  # the status has not turned, and what it says has just begun
        (True, "Reserved", NOW),
    ],
)
def test_the_age_of_what_a_condition_says_counts_from_its_reason(status: bool, reason: str, since: str) -> None:
    previous = {"conditions": with_times([replace(REFILL, reason="CeilingReached")], {}, EARLIER)}
    said = with_times([replace(REFILL, status=status, reason=reason)], previous, NOW)
    assert [condition["lastUpdateTime"] for condition in with_update_times(said, previous, NOW)] == [since]


WRONG = {
    "Ready": ("WriteRefused", "WriteRefused"),
    "ViewStale": ("NotWhole", "NotWhole"),
    "LimitReached": ("AutoscalerLimit", "AutoscalerLimit"),
    "SlackSatisfied": ("Refilling", "Refilling"),
    "PinsNodes": ("LargeShape", "Reserved"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_the_summary_names_what_matters_most_and_its_remedy(kind: str) -> None:
    given, expected = WRONG[kind]
    said = [
        StatusCondition("SlackSatisfied", True, "Reserved", ""),
        StatusCondition("Covered", True, "CoverageReached", ""),
    ]
    said = [c for c in said if c.type != kind] + [
        StatusCondition(kind, kind in ("ViewStale", "LimitReached", "PinsNodes"), given, "")
    ]
    status = with_state({"conditions": with_times(said, {}, NOW), "summary": {"state": "Old", "rate": "10%"}}, "rs")
    assert (status["summary"]["state"], status["summary"]["rate"]) == (expected, "10%")
    assert ("remedy" in status["summary"]) == (expected != "Reserved")


def test_a_restarted_operator_goes_on_from_the_status_that_is_there() -> None:
    there = {
        "observedGeneration": 1,
        "observedTime": NOW,
        "conditions": conditions(True),
        "shapes": [{"name": "b"}, {"name": "a"}],
        "displaced": {"total": 5, "since": EARLIER},
    }
    board = StatusBoard()
    assert board.open("u", there, NOW, 0.0) == there
    assert board.due_in("u", {**there, "shapes": [{"name": "a"}, {"name": "b"}]}, 0.0) is None
    assert board.displaced("u", 2) == (7, EARLIER)
    board.keep_only(set())
    board.open("u", {}, NOW, 0.0)
    assert board.displaced("u", 2) == (2, NOW)


def status_writes(world: World, turn: Callable[[int], None], turns: int) -> int:
    """Count the writes of a policy's status while turns go by."""
    count = 0

    def asked(_verb: str, path: str) -> None:
        nonlocal count
        count += path.endswith("/status") and "/slackpolicies/" in path

    world.api.refuse = asked
    for number in range(turns):
        turn(number)
        world.loop.publish_held()
    return count


def test_a_load_that_never_rests_is_written_once_in_two_seconds_and_a_steady_hour_every_five_minutes() -> None:
    world = World()
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    world.settle()

    def moves(number: int) -> None:
        for name in sorted(world.placeholders())[: number % 3]:
            del world.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
        world.reconcile(seconds=0.5)

    assert 20 <= status_writes(world, moves, 100) <= 26, "50 s: 300 in ten minutes"
    world.settle(12)
    steady_hour = status_writes(world, lambda _: world.reconcile(seconds=60.0), 60)
    assert HOUR_SECONDS / HEARTBEAT_SECONDS <= steady_hour <= HOUR_SECONDS / (0.8 * HEARTBEAT_SECONDS)


def test_what_is_held_beyond_the_plan_is_shown_with_the_time_of_its_removal() -> None:
    world = World()
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}, stabilization={"shrinkDelay": "10m"}))
    world.settle()
    assert "surplus" not in world.status("web")
    for number in range(5):
        del world.api.objects[f"/api/v1/namespaces/shop/pods/api-abc-{number}"]
    before = world.wall.now
    world.settle(8)
    surplus = world.status("web")["surplus"]
    held, planned = world.status("web")["reserved"], world.status("web")["planned"]
    assert surplus["amounts"]["cpu"] == format_rounded("cpu", cpu_millis(held["cpu"]) - cpu_millis(planned["cpu"]))
    removal = datetime.fromisoformat(surplus["removalTime"]).timestamp()
    assert removal == pytest.approx(before + 600.0, abs=10.0)
    world.settle(8)
    assert world.status("web")["surplus"]["removalTime"] == surplus["removalTime"], "it does not move"
    world.settle(60)
    assert world.wall.now > removal
    assert "surplus" not in world.status("web")
    assert len(world.placeholders()) > 0


def test_what_was_too_soon_is_written_in_its_time_without_another_plan() -> None:
    world = World()
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    world.settle()
    for seconds in (0.0, 0.5):
        for name in sorted(world.placeholders())[:1]:
            del world.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
        world.reconcile(seconds=seconds)
    before = world.status("web")["displaced"]["total"]
    wait = world.loop.publish_due_in()
    assert 0 < wait <= MOVING_SECONDS
    world.clock.now += wait
    world.loop.publish_held()
    assert world.loop.publish_due_in() == float("inf")
    assert (before, world.status("web")["displaced"]["total"]) == (1, 2)


def test_a_plan_that_comes_soon_is_waited_for_as_its_figures_are_newer() -> None:
    world = World()
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    world.settle()
    for seconds in (0.0, 0.5):
        world.api.objects.pop(f"/api/v1/namespaces/{NAMESPACE}/pods/{min(world.placeholders())}")
        world.reconcile(seconds=seconds)
    before = world.status("web")
    world.clock.now += MOVING_SECONDS
    world.wake.touch()
    assert world.loop.publish_due_in() == world.wake.due_in() > 0
    world.loop.publish_held()
    assert world.status("web") == before
    world.reconcile(seconds=0.2)
    assert world.status("web") != before
