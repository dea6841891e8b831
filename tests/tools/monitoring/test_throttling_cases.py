"""The measured cases of alerts on CPU limits: what they show, and that the document has the same figures.

Whether Prometheus agrees is for the suites to say (e2e/suites/test_monitoring.py).
"""

from pathlib import Path

import pytest

from e2e.harness.monitoring.throttling_cases import (
    FIRES,
    NONE,
    PERIOD_RULE,
    Case,
    cases,
    period_rule,
    promtool_tests,
    table,
)
from slack.audit.findings.finding import Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import LEAST_PERIODS, Window, WindowState
from tests.tools.monitoring.promql import family_of, metric_names
from tools.monitoring.rules import GROUPS, alerts

PAGE = Path(__file__).parents[3] / "docs" / "cpu-audit-alerts.md"
CASES = cases()
ALERTS = alerts(GROUPS, "resource-slack.cpu-limits")
PERIOD_SECONDS = 0.1


def test_the_documents_table_is_made_of_the_cases() -> None:
    assert table(CASES) in PAGE.read_text(encoding="utf-8")


def test_the_document_names_every_alert_and_its_severity() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for alert in ALERTS:
        assert f"| [{alert.name}](runbooks/{alert.name}.md) | {alert.severity} |" in text


def test_a_rule_on_periods_alone_is_wrong_both_ways() -> None:
    harmless = [case for case in CASES if case.rule == FIRES and case.alert == NONE]
    missed = [case for case in CASES if case.rule != FIRES and case.alert != NONE]
    assert [case.meaning.partition(";")[0] for case in harmless] == ["harmless", "harmless"]
    assert [case.meaning.partition(";")[0] for case in missed] == ["harm that is missed"]
    assert {case.alert for case in CASES} - {NONE} <= {str(alert.name) for alert in ALERTS}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.case))
def test_the_auditor_judges_a_case_as_the_alert_does(case: Case) -> None:
    """From counters such as the kernel's: a minute of 600 periods, or the few that there are."""
    periods = round(case.periods_a_minute)
    throttled = round(periods * case.ratio)
    busy_cpus = 2.0
    quota_us = 100_000
    lost_ratio = case.lost_ratio or 0.0
    window = Window(
        CgroupTarget(CgroupLevel(case.level), "/kubepods/pod/x"),
        WindowState.MEASURED if periods >= LEAST_PERIODS else WindowState.TOO_FEW,
        periods * PERIOD_SECONDS,
        quota_us,
        100_000,
        periods=periods,
        throttled=throttled,
        throttled_ns=round(lost_ratio * periods * PERIOD_SECONDS * busy_cpus * 1e9),
        usage_ns=0,
    )
    (finding,) = judge([window], {"": CgroupNodeFacts(cpus=2)})
    assert (finding.severity is Severity.HIGH) == (case.alert != NONE)


def test_every_case_is_a_test_that_expects_exactly_its_alerts() -> None:
    tests = {test["name"]: test for test in promtool_tests(CASES, [])["tests"]}
    assert len(tests) == len(CASES)
    for case in CASES:
        (asked,) = tests[case.case]["promql_expr_test"]
        named = {sample["labels"].partition('"')[2].rstrip('"}') for sample in asked["exp_samples"]}
        assert named == {*([PERIOD_RULE] if case.rule == FIRES else []), case.alert} - {NONE}


def test_both_rules_see_a_case_as_their_exporter_shows_it() -> None:
    """A pod's own series has no container in cAdvisor; a cgroup with few periods has none from the agent."""
    by_name = {test["name"]: test["input_series"] for test in promtool_tests(CASES, [])["tests"]}
    for case in CASES:
        series = [entry["series"] for entry in by_name[case.case]]
        cadvisor = [text for text in series if text.startswith("container_")]
        assert len(cadvisor) == 2
        assert all(('container=""' in text) == (case.level != "container") for text in cadvisor)
        agents = {family_of(text.partition("{")[0]) for text in series} - {text.partition("{")[0] for text in cadvisor}
        wanted = {name for alert in ALERTS[:3] for name in metric_names(alert.expression)}
        assert agents == (wanted if case.periods_a_minute * 5 >= LEAST_PERIODS else set())


def test_the_rule_on_periods_reads_cadvisor() -> None:
    (group,) = period_rule()["groups"]
    (rule,) = group["rules"]
    assert metric_names(rule["expr"]) == {
        "container_cpu_cfs_throttled_periods_total",
        "container_cpu_cfs_periods_total",
    }
    assert rule["for"] == "15m"
