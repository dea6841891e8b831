"""Whatever is wrong with a scenario, the refusal names a field in words of a scenario."""

import copy
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from slack.simulator.scenario.scenario import InvalidScenario, parse_scenario
from tests.cases import run_for_each
from tests.examples import examples
from tests.simulator.build import Json, group, replicas, static, workload

SCENARIOS = Path(__file__).resolve().parents[3] / "examples" / "scenarios"
WHOLE: Json = {
    "duration": "2h",
    "warmUp": "10m",
    "startsAt": "2026-01-05T00:00:00Z",
    "nodeGroups": [
        group(labels={"pool": "web"}, taints=[{"key": "k", "effect": "NoSchedule"}], daemonPods=1),
        group("b"),
    ],
    "workloads": [
        workload("api", arrivals=replicas(3, targetPerPod=5, load={"kind": "points", "points": [[0, 1], [60, 5]]})),
        workload("jobs", arrivals={"kind": "jobs", "parallelism": 2, "every": "10m", "firstAt": "5m"}),
        workload("wave", arrivals={"kind": "bursts", "size": 3, "at": ["20m", "40m"]}),
        workload(
            "day",
            arrivals={"kind": "diurnal", "meanPerMinute": 2},
            life={"kind": "uniform", "minSeconds": 1, "maxSeconds": 9},
        ),
        workload("old", arrivals={"kind": "replay", "rows": [[1, 2], [3, None]]}, tolerations=[{"key": "k"}]),
    ],
    "scheduler": {"scoring": "mostAllocated", "maxInUnschedulable": "5m"},
    "autoscaler": {"kind": "clusterAutoscaler", "expander": "priority", "expanderPriorities": {"a": 1}},
    "operator": {"interval": "10s"},
    "slack": {
        "kind": "policies",
        "policies": [{"name": "p", "spec": {"extraCapacity": {"minRate": 0.1, "floor": {"cpu": "1"}}}}],
    },
}
DOCUMENTS = [
    WHOLE,
    {**WHOLE, "autoscaler": {"kind": "karpenter", "budgetShare": 0.2}, "slack": static(3)},
    *(yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text()) for name in ("burst", "webshop", "jobwaves")),
]
JUNK: list[Any] = [
    *(
        None,
        True,
        False,
        "",
        "x",
        "10%",
        "-5m",
        "99999999999h",
        -1,
        0,
        10**30,
        -(10**30),
        1e308,
        0.5,
        math.nan,
        math.inf,
    ),
    *(
        [],
        {},
        [None],
        [[1, 2, 3]],
        {"kind": "x"},
        {"kind": None},
        {"kind": []},
        {1: 2},
        {"": 1},
        {"a b\x07": 1},
        "\x1b[2J",
    ),
]
OF_PYDANTIC = re.compile(
    r"Input should|input should|union_tag|discriminator|Field required|Value error|valid tuple|valid dictionary|"
    r"validation|\btag\b|pydantic|type=|instance of|Traceback"
)
PATH = re.compile(r"^[A-Za-z0-9_]|^\[")
mistakes = examples(250)
"""EXAMPLES=5000 looks further, and elsewhere each time."""


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _at(value: Any, path: list[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def spoiled(draw: st.DrawFn) -> Json:
    """Return a scenario with one to three mistakes: keys dropped, doubled under another name, replaced."""
    document: Json = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        *above, last = draw(st.sampled_from(places))
        parent = _at(document, above)
        match draw(st.sampled_from(["drop", "rename", "twice", "junk", "junk", "junk"])):
            case "drop":
                del parent[last]
            case "rename" if isinstance(last, str):
                parent[f"{last}s"] = parent.pop(last)
            case "twice" if isinstance(last, int):
                parent.append(parent[last])
            case _:
                parent[last] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return document


def refusal(document: object) -> InvalidScenario | None:
    try:
        parse_scenario(document, source="file.yaml")
    except InvalidScenario as error:
        return error
    return None


@mistakes
@given(spoiled())
def test_a_refusal_names_a_field_in_our_words(document: Json) -> None:
    error = refusal(document)
    for problem in error.problems if error is not None else ():
        path, _, words = problem.partition(": ")
        assert PATH.match(path), problem
        assert words, problem
        assert not OF_PYDANTIC.search(problem), problem
        assert len(problem) < 600, problem


@run_for_each("junk", JUNK, ids=repr)
def test_nothing_but_a_mapping_is_a_scenario(junk: object) -> None:
    error = refusal(junk)
    assert error is not None
    assert not OF_PYDANTIC.search(str(error))
