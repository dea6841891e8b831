"""The reference names every field, and what it shows is accepted."""

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from slack.cluster.duration import parse_duration
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler, Karpenter
from slack.simulator.scenario.load import Hpa
from slack.simulator.scenario.scenario import Scheduler, parse_scenario
from slack.simulator.scenario.slack_kinds import NoSlack, Policies, Proportional, Static
from slack.simulator.scenario.upstream import Upstream
from slack.simulator.scenario.validation_errors import kind_of
from tests.cases import run_for_each
from tests.simulator.build import Json, group, workload
from tools.reference import scenario
from tools.reference.scenario_examples import EXAMPLES

ROOT = Path(__file__).resolve().parents[3]
MODELS: tuple[type[BaseModel], ...] = (ClusterAutoscaler, Karpenter, Scheduler, Hpa)
SPELLED: dict[str, Any] = {"least-waste": "leastWaste", "LeastAllocated": "leastAllocated", "10%": 0.1}
"""What upstream writes otherwise."""


@cache
def page() -> str:
    return scenario.page()


def _constants() -> list[tuple[str, FieldInfo]]:
    return [
        (f"{model.__name__}.{name}", field)
        for model in MODELS
        for name, field in model.model_fields.items()
        if name not in ("kind", "load")
    ]


def _upstream(field: FieldInfo) -> Upstream | None:
    return next((mark for mark in field.metadata if isinstance(mark, Upstream)), None)


def _where(model: type[BaseModel], example: Any) -> Json:
    """Return a scenario in which an example stands where it belongs."""
    name = kind_of(model)
    if model in (NoSlack, Policies, Static, Proportional):
        return {"slack": example}
    if model.__module__.endswith("autoscaler_settings"):
        return {"autoscaler": example}
    if name in ("points", "sine"):
        hpa = {"targetPerPod": 50, "load": example}
        return {"workloads": [workload(arrivals={"kind": "deployment", "hpa": hpa})]}
    if name in ("constant", "uniform", "lognormal"):
        return {"nodeGroups": [group(startUp=example)], "workloads": [workload(life=example)]}
    return {"workloads": [workload(**{"life" if name in ("exponential", "forever") else "arrivals": example})]}


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/reference/scenario.md").read_text() == page(), "run: make reference"


def test_every_field_of_every_model_is_on_the_page_with_words() -> None:
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert all(row[-1].rstrip(" |") for row in rows)
    names = {row[0].strip("| `") for row in rows}
    assert names >= {
        "scanIntervalSeconds",
        "popFromBackoffQ",
        "pricePerHour",
        "perMinute",
        "coresPerReplica",
        "maxPods",
    }


@run_for_each(("model", "text"), EXAMPLES.items(), ids=[model.__name__ for model in EXAMPLES])
def test_every_example_is_accepted(model: type[BaseModel], text: str) -> None:
    example = yaml.safe_load(text)
    assert example["kind"] == kind_of(model)
    assert f"```yaml\n{text.strip()}\n```" in page()
    base: Json = {"nodeGroups": [group()], "workloads": [workload()]}
    parse_scenario(base | _where(model, example), source="example")


@run_for_each(("name", "field"), _constants(), ids=[name for name, _ in _constants()])
def test_a_modelled_constant_has_its_upstream_name_and_default_or_says_why_not(name: str, field: FieldInfo) -> None:
    upstream = _upstream(field)
    assert upstream is not None
    assert upstream.name or upstream.differs
    if field.is_required() or upstream.differs:
        return
    ours, theirs = field.get_default(call_default_factory=True), SPELLED.get(upstream.default, upstream.default)
    if isinstance(ours, bool):
        assert theirs == str(ours).lower()
    elif isinstance(ours, timedelta):
        assert parse_duration(theirs) == ours
    elif isinstance(ours, int | float):
        seconds = isinstance(theirs, str) and theirs[-1] in "sm"
        assert (parse_duration(theirs).total_seconds() if seconds else float(theirs)) == ours
    else:
        assert theirs == ours


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("autoscaler", {"kind": "clusterAutoscaler", "expander": "least-waste"}),
        ("scheduler", {"scoring": "MostAllocated"}),
    ],
)
def test_upstreams_own_spelling_is_taken(field: str, value: Json) -> None:
    found = parse_scenario({"nodeGroups": [group()], "workloads": [workload()], field: value}, source="x")
    assert getattr(found.autoscaler, "expander", "") == "leastWaste"
    assert found.scheduler.scoring == ("mostAllocated" if field == "scheduler" else "leastAllocated")
