"""The generated pages are there, are what the code says, and leave nothing out."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from slack.audit.api.crd import policy_crd, report_crd
from slack.cli.commands import app
from slack.planner.policy.crd import crd
from slack.process.settings import declared_settings
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.placeholders.report.metrics import described
from slack_operator.settings import OperatorSettings
from slack_operator.web.reasons import REASONS
from tests.cases import run_for_each
from tools.reference.__main__ import PAGES

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"


@cache
def page_of(subject: str) -> str:
    return PAGES[subject]()


@run_for_each("subject", PAGES)
def test_the_page_is_what_the_code_says(subject: str) -> None:
    assert (FOLDER / f"{subject}.md").read_text() == page_of(subject), "run: make reference"


@run_for_each("subject", PAGES)
def test_every_link_within_a_page_leads_somewhere(subject: str) -> None:
    page = page_of(subject)
    titles = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= titles
    for target in re.findall(r"\]\(([^#)][^)]*)\)", page):
        assert (FOLDER / target).exists(), target


def test_each_condition_has_one_row() -> None:
    table = page_of("events").partition("What tools make of it")[0]
    heads = re.findall(r"^\| (`\w+`) \|", table, re.MULTILINE)
    assert "`Ready`" in heads
    assert len(heads) == len(set(heads))


def test_every_flag_of_every_command_is_there() -> None:
    page = page_of("flags")
    command = typer.main.get_command(app)
    for name, entry in getattr(command, "commands", {}).items():
        for below in getattr(entry, "commands", {"": entry}).values():
            section = page.partition(f"\n## resource-slack {name}")[2]
            for parameter in below.params:
                for option in parameter.opts if parameter.param_type_name == "option" else ():
                    assert option in section, f"{name} {option}"
    for setting in declared_settings(OperatorSettings):
        assert f"RESOURCE_SLACK_{setting.name.upper()}" in page
        assert setting.flag in page


@pytest.mark.parametrize(("subject", "kind"), [("slackpolicy", crd), ("cpuauditpolicy", policy_crd)])
def test_every_field_of_the_crd_is_there(subject: str, kind: Callable[[], dict[str, Any]]) -> None:
    page = page_of(subject)
    schema = kind()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        for name in schema[part]["properties"]:
            assert f"| `{name}` |" in page.partition(f"\n## {part}\n")[2]


def test_every_field_of_a_report_is_there_and_what_is_everywhere_is_not() -> None:
    page = page_of("cpuauditreport")
    schema = report_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    told = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert told >= set(schema) - {"apiVersion", "kind", "metadata"}
    assert told >= set(schema["findings"]["items"]["properties"]) | set(schema["summary"]["properties"])
    assert told.isdisjoint({"apiVersion", "metadata"})


def test_amounts_of_cpu_are_shown_as_one_writes_them() -> None:
    assert "| `maxLimitPerContainer` | amount of CPU | `4` |" in page_of("cpuauditpolicy")


def test_every_setting_of_the_auditors_processes_is_there() -> None:
    page = page_of("flags")
    for title, kind in (("agent", AgentSettings), ("controller", ControllerSettings)):
        section = page.partition(f"\n## Settings of the audit {title}\n")[2].partition("\n## ")[0]
        for condition in declared_settings(kind):
            assert f"| `{condition.flag}` | `RESOURCE_SLACK_AUDIT_{condition.name.upper()}` |" in section
    assert (
        "| `--write-burst` | `RESOURCE_SLACK_AUDIT_WRITE_BURST` | `write-burst` | `false` | `audit.agent.writeBurst` |"
        in page
    )


def test_every_metric_and_every_reason_is_there() -> None:
    metrics, events = page_of("metrics"), page_of("events")
    assert all(f"`{family.name}`" in metrics for family in (*described(), *AGENT_FAMILIES, *CONTROLLER_FAMILIES))
    assert all(f"`{reason.name}`" in events for reason in REASONS)
