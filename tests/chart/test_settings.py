"""Each setting of a process is set by the chart's value that it names, or is named as not for the chart."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.process.settings import Declared, NoValue, Settings, declared_settings
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.loadwatcher.settings import LoadWatcherSettings
from slack_operator.scorer.settings import ScorerSettings
from slack_operator.settings import OperatorSettings
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings
from tests.cases import run_for_each

CHART = Path(__file__).parents[2] / "charts" / "resource-slack"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
PROCESSES: dict[type[Settings], str] = {
    OperatorSettings: "operator/deployment.yaml",
    AgentSettings: "audit/agent.yaml",
    ControllerSettings: "audit/controller.yaml",
    ScorerSettings: "scorer/deployment.yaml",
    LoadWatcherSettings: "loadwatcher/deployment.yaml",
    ThrottlerAgentSettings: "throttler/agent.yaml",
    ThrottlerControllerSettings: "throttler/controller.yaml",
    DemandControllerSettings: "demand/controller.yaml",
}
SETTINGS = [(kind, found) for kind in PROCESSES for found in declared_settings(kind)]
_VARIABLE = re.compile(r"\{\{-? \$(\w+) := \.Values\.([\w.]+)")
_ARGUMENT = re.compile(r"^ *- .*?(--[a-z-]+)")
_CONDITION = re.compile(r"\{\{- if (.*?) \}\}")


def arguments(kind: type[Settings]) -> dict[str, str]:
    """Return the line of each flag in the process's template, with the condition that it stands under."""
    text = (CHART / "templates" / PROCESSES[kind]).read_text()
    for name, path in _VARIABLE.findall(text):
        text = text.replace(f"${name}.", f".Values.{path}.")
    found: dict[str, str] = {}
    condition = ""
    for line in text.partition("          args:\n")[2].partition("          env:\n")[0].splitlines():
        if asked := _CONDITION.search(line):
            condition = asked[1]
        elif "{{- end" in line:
            condition = ""
        elif argument := _ARGUMENT.match(line):
            found[argument[1]] = f"{condition} {line}"
    return found


def value(path: str) -> Any:
    node: Any = VALUES
    for name in path.split("."):
        node = node[name]
    return node


@run_for_each(("kind", "found"), SETTINGS, ids=[f"{kind.__name__}.{one.name}" for kind, one in SETTINGS])
def test_a_setting_is_set_by_the_value_that_it_names_or_by_none(kind: type[Settings], found: Declared) -> None:
    line = arguments(kind).get(found.flag, "")
    if isinstance(found.chart, NoValue):
        assert found.chart.why
        assert ".Values." not in line.partition(found.flag)[2], "a value sets it: name the value"
        return
    assert f".Values.{found.chart}" in line
    by_chart = value(found.chart)
    if by_chart != "" and found.name != "log_format":  # the chart's logs are for machines
        assert found.parse(by_chart) == found.default


@pytest.mark.parametrize("kind", PROCESSES)
def test_every_argument_of_a_template_is_a_setting(kind: type[Settings]) -> None:
    known = {found.flag for found in declared_settings(kind)}
    assert arguments(kind)
    assert arguments(kind).keys() <= known


def test_a_setting_has_a_meaning_and_a_default_that_its_own_parser_takes() -> None:
    for kind, found in SETTINGS:
        assert found.meaning.endswith("."), (kind, found.name)
        if found.default is not None:
            assert found.parse(found.default) == found.default
            assert found.parse(found.default_text) == found.default
