"""Which ceiling binds, in the plan and in the words of its conditions."""

import numpy as np
import pytest

from slack.planner.domain.capacity import UNLIMITED
from slack.planner.domain.ceilings import bindings
from slack.planner.model.result import ConditionType
from tests.cluster.build import Json, node, placeholder
from tests.planner.scenes import GI, as_existing, plan_of, replicas

NAMES = ("cpu", "memory")
PODS = replicas(20, "api", "1", "2Gi", node="n0")


def said(*, capped: bool = False, **given: tuple[int, int]) -> list[str]:
    default = {"asked": (6000, 12 * GI), "ceiling": (UNLIMITED, UNLIMITED), "planned": (2000, 4 * GI)}
    values = {name: np.array(pair) for name, pair in {**default, **given}.items()}
    ceiling = values.pop("ceiling")
    values.setdefault("over", values["asked"] > ceiling)
    limits = {name: int(most) for name, most in zip(NAMES, ceiling, strict=True) if most < UNLIMITED}
    found = bindings(NAMES, ceiling=limits, each=[np.array([500, GI])], capped=capped, **values)
    return [str(binding) for binding in found]


def test_what_is_asked_above_a_ceiling_binds_and_what_it_drags_along_does_not() -> None:
    assert said(ceiling=(2000, UNLIMITED)) == ["cpu ceiling 2 binds (6 wanted)"]
    assert said(ceiling=(2000, 5 * GI)) == ["cpu ceiling 2 binds (6 wanted)", "memory ceiling 5Gi binds (12Gi wanted)"]
    assert said(ceiling=(6000, 12 * GI)) == []


def test_a_ceiling_in_parts_binds_where_one_zone_wants_more_than_its_own() -> None:
    found = said(asked=(1700, GI), ceiling=(2000, UNLIMITED), over=(True, False))
    assert found == ["cpu ceiling 2 binds (1700m wanted, and each zone has an equal part of it)"]


def test_a_ceiling_that_one_more_placeholder_would_break_binds_where_one_was_cut_off() -> None:
    asked, ceiling = (2100, 4 * GI), (2200, 64 * GI)
    assert said(asked=asked, ceiling=ceiling) == []
    assert said(asked=asked, ceiling=ceiling, capped=True) == ["cpu ceiling 2200m binds (2500m wanted)"]


@pytest.mark.parametrize(
    ("ceiling", "words"),
    [
        ({"cpu": "2"}, "cpu ceiling 2 binds (20 wanted)"),
        ({"cpu": "2", "memory": "4Gi"}, "cpu ceiling 2 binds (20 wanted), memory ceiling 4Gi binds (40Gi wanted)"),
        ({"cpu": "2000m"}, "cpu ceiling 2000m binds (20 wanted)"),
        ({"cpu": 2, "memory": "4100Mi"}, "cpu ceiling 2 binds (20 wanted), memory ceiling 4100Mi binds (40Gi wanted)"),
    ],
)
def test_capped_is_a_state_of_its_own_that_names_the_ceiling(ceiling: Json, words: str) -> None:
    size = {"minRate": 1, "ceiling": ceiling}
    first = plan_of(node("n0", "64", "256Gi"), *PODS, extraCapacity=size)
    refilling = first.condition(ConditionType.SLACK_SATISFIED)
    assert (refilling.status, refilling.reason) == (False, "Refilling")
    there = [
        placeholder(f"p{n}-{shape.shape.name}", "1", "2Gi", shape=shape.shape.name, node="n0")
        for shape in first.shapes
        for n in range(shape.count)
    ]
    item = plan_of(node("n0", "64", "256Gi"), *PODS, *there, existing=as_existing(first), extraCapacity=size)
    assert ", ".join(map(str, item.binding)) == words
    capped = item.condition(ConditionType.SLACK_SATISFIED)
    assert (capped.reason, capped.message) == ("CeilingReached", f"{words}: what it allows is reserved on nodes")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ({}, ""),
        ({"floor": {"cpu": "8"}}, "cpu floor 8 binds (2 wanted without it)"),
        ({"floor": {"cpu": "8000m"}}, "cpu floor 8000m binds (2 wanted without it)"),
        ({"floor": {"memory": "8e9"}}, "memory floor 8e9 binds (4Gi wanted without it)"),
        (
            {"floor": {"cpu": "1"}, "schedule": [{"cron": "* * * * *", "duration": "1h", "floor": {"cpu": "8.0"}}]},
            "cpu floor 8.0 binds (2 wanted without it)",
        ),
        ({"floor": {"cpu": "1"}}, ""),
        ({"floor": {"cpu": "8"}, "replicas": 3}, ""),
    ],
    ids=[
        "no floor",
        "above the rate",
        "as it was written",
        "in powers of ten",
        "of a window",
        "below the rate",
        "a number in place of an amount",
    ],
)
def test_a_floor_that_asks_for_more_than_the_rate_is_named(size: Json, words: str) -> None:
    item = plan_of(node("n0", "64", "256Gi"), *PODS, extraCapacity={"minRate": 0.1, **size})
    assert ", ".join(map(str, item.floors)) == words
    assert item.binding == ()  # nothing keeps it from what it wants
