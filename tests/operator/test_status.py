"""What a status says, and when it is worth a write."""

from typing import Any

import pytest

from slack.planner.outcome import Condition, ConditionType
from slack.planner.status_schema import PRINTER_COLUMNS, STATUS_SCHEMA
from slack_operator.status import (
    Observed,
    StatusBoard,
    is_trouble,
    rounded_quantity,
    status_of,
    turned,
    with_conditions,
    with_times,
)
from tests.operator.test_decide import policy_plan, shape_plan

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
READY = Condition(ConditionType.READY, True, "Fine", "all is well")


@pytest.mark.parametrize(
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
    assert rounded_quantity(resource, value) == text


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
    observed = Observed(1, 3, EARLIER, "98%", (READY,))
    status = status_of(policy_plan(shape_plan(2)), observed, {}, NOW)
    check(STATUS_SCHEMA, status)
    assert set(STATUS_SCHEMA["properties"]) == set(status)


def test_printed_columns_are_fields_of_the_schema() -> None:
    for column in PRINTER_COLUMNS:
        schema = STATUS_SCHEMA
        for part in column["jsonPath"].removeprefix(".status.").partition("[")[0].split("."):
            schema = schema["properties"][part]


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    previous = {"conditions": with_times([READY], {}, EARLIER)}
    (kept,) = with_times([Condition("Ready", True, "Other", "words")], previous, NOW)
    (moved,) = with_times([Condition("Ready", False, "Fine", "no")], previous, NOW)
    assert (kept["lastTransitionTime"], moved["lastTransitionTime"]) == (EARLIER, NOW)


def test_replacing_one_condition_keeps_the_rest_of_the_status() -> None:
    previous = {"pending": 3, "conditions": with_times([READY, Condition("Covered", True, "A", "b")], {}, EARLIER)}
    status = with_conditions(previous, [Condition("Ready", False, "Bad", "why")], 7, NOW)
    assert (status["pending"], status["observedGeneration"]) == (3, 7)
    assert {c["type"]: c["lastTransitionTime"] for c in status["conditions"]} == {"Covered": EARLIER, "Ready": NOW}


def test_only_turned_conditions_and_new_trouble_are_told() -> None:
    previous = {"conditions": with_times([READY], {}, EARLIER)}
    status = {
        "conditions": with_times(
            [
                Condition("Ready", True, "Fine", "other words"),
                Condition("PinsNodes", False, "No", ""),
                Condition("LimitReached", True, "Full", ""),
            ],
            previous,
            NOW,
        )
    }
    assert [one["type"] for one in turned(previous, status)] == ["LimitReached"]
    assert is_trouble({"type": "LimitReached", "status": "True"})
    assert is_trouble({"type": "Ready", "status": "False"})
    assert not is_trouble({"type": "Ready", "status": "True"})


def conditions(ready: bool) -> list[dict[str, Any]]:
    return with_times([Condition("Ready", ready, "Fine", "text")], {}, NOW)


def test_counters_are_written_once_a_minute_and_conditions_at_once() -> None:
    board = StatusBoard()
    board.open("u", {}, NOW)
    first: dict[str, Any] = {"observedGeneration": 1, "pending": 0, "conditions": conditions(True)}
    assert board.due("u", first, 0.0)
    board.written("u", first, 0.0)
    assert not board.due("u", dict(first), 1000.0)
    assert not board.due("u", {**first, "pending": 1}, 59.0)
    assert board.due("u", {**first, "pending": 1}, 60.0)
    assert board.due("u", {**first, "conditions": conditions(False)}, 1.0)
    assert board.due("u", {**first, "observedGeneration": 2}, 1.0)


def test_a_restarted_operator_goes_on_from_the_status_that_is_there() -> None:
    there = {
        "observedGeneration": 1,
        "conditions": conditions(True),
        "shapes": [{"name": "b"}, {"name": "a"}],
        "displaced": {"total": 5, "since": EARLIER},
    }
    board = StatusBoard()
    assert board.open("u", there, NOW) == there
    assert not board.due("u", {**there, "shapes": [{"name": "a"}, {"name": "b"}]}, 1000.0)
    assert board.displaced("u", 2) == (7, EARLIER)
    board.keep_only(set())
    board.open("u", {}, NOW)
    assert board.displaced("u", 2) == (2, NOW)
