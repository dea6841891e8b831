"""Rules and alerts as Prometheus gets them: they read what the operator exports, and every alert has its page."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.testing import CliRunner

from slack.audit.findings.finding import Thresholds
from slack.cli.commands import app
from slack.cli.monitoring import RULE_GROUPS
from slack.demand.crd import pool_crd
from slack.planner.model.result import ConditionType
from slack.planner.policy.crd import crd
from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.demand.metric_definitions import DEMAND_CONTROLLER_FAMILIES
from slack_operator.loadwatcher.metric_definitions import LOAD_WATCHER_FAMILIES
from slack_operator.placeholders.conditions import PREEMPTION_STUCK, VIEW_STALE
from slack_operator.placeholders.report.metrics import KNOWN_CAUSES, described
from slack_operator.scorer.metric_definitions import SCORER_FAMILIES
from slack_operator.throttler.agent.metric_definitions import THROTTLER_AGENT_FAMILIES
from slack_operator.throttler.controller.metric_definitions import THROTTLER_CONTROLLER_FAMILIES
from slack_operator.web.reasons import REASONS
from tests.cases import run_for_each
from tests.tools.monitoring.promql import family_of, metric_names
from tools.monitoring.__main__ import dashboard_text
from tools.monitoring.dashboard import DASHBOARDS
from tools.monitoring.expressions import instant_ratio, quantile
from tools.monitoring.rules import GROUPS, RULE_FILE, Alert, AlertSeverity, RecordingRule, alerts, recordings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "resource-slack"
RUNBOOKS = ROOT / "docs" / "runbooks"
RULE_TESTS = ROOT / "e2e" / "monitoring" / "rules.yaml"
"""What `promtool test rules` runs in e2e/suites/test_monitoring.py."""
EVERY_COMPONENT = [word for component in RULE_GROUPS for word in ("--component", component)]
"""Without them alerts on the absence of components are left out."""
EXPORTED = {
    family.name: family
    for family in (
        *described(),
        *AGENT_FAMILIES,
        *CONTROLLER_FAMILIES,
        *LOAD_WATCHER_FAMILIES,
        *SCORER_FAMILIES,
        *THROTTLER_AGENT_FAMILIES,
        *THROTTLER_CONTROLLER_FAMILIES,
        *DEMAND_CONTROLLER_FAMILIES,
    )
}
ALERTS = alerts(GROUPS)
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"```\n(.*?)```", re.DOTALL)
_SELECTOR = re.compile(r"\b(slack_\w+)\{([^{}]*)\}")
_PROGRAMS = {"kubectl", "resource-slack", "promtool"}


def page(alert: Alert) -> str:
    return (RUNBOOKS / f"{alert.name}.md").read_text(encoding="utf-8")


def labels_of(metric: str) -> set[str]:
    family = EXPORTED[family_of(metric)]
    return {*family.labels, "job", "instance", "namespace", *(["le"] if family.type == "histogram" else [])}


def test_names_are_read_out_of_promql() -> None:
    expression = (
        'sum by (job, le) (rate(a_bucket{x="b_total{}", y=~"$c"}[5m])) / on (job) group_left () '
        "(slack:d:rate5m > bool 1e3) unless time() - e offset 5m == Inf"
    )
    assert metric_names(expression) == {"a_bucket", "slack:d:rate5m", "e"}


def test_series_of_a_histogram_belong_to_it() -> None:
    assert [family_of(f"x_seconds{end}") for end in ("_bucket", "_sum", "_count", "")] == ["x_seconds"] * 4


@run_for_each("rule", [*ALERTS, *recordings(GROUPS)], ids=lambda rule: str(rule.name))
def test_rules_read_only_what_operator_and_auditor_export(rule: Alert | RecordingRule) -> None:
    assert {family_of(name) for name in metric_names(rule.expression)} <= EXPORTED.keys()
    for metric, matchers in _SELECTOR.findall(rule.expression):
        keys = {part.partition("=")[0].rstrip("!").strip() for part in matchers.split(",")}
        assert keys <= labels_of(metric), f"{metric} has no such label"


def test_conditions_that_alerts_name_are_conditions() -> None:
    known = {*map(str, ConditionType), PREEMPTION_STUCK, VIEW_STALE}
    named = {kind for rule in ALERTS for kind in re.findall(r'type="(\w+)"', rule.expression)}
    assert named
    assert named <= known


def test_rule_names_are_unique_and_say_what_they_are() -> None:
    names = [alert.name for alert in ALERTS] + [recording.name for recording in recordings(GROUPS)]
    assert len(names) == len(set(names))
    # The placeholders', and those on CPU limits, which stand beside alerts of others.
    assert all(re.match("ResourceSlack|Slack(Pod)?Cpu|SlackAudit|SlackKernel", rule.name) for rule in ALERTS)
    # level:metric:operation, and no name that the operator exports
    assert all(re.fullmatch(r"slack:\w+:\w+", rule.name) for rule in recordings(GROUPS))


@run_for_each("alert", ALERTS, ids=lambda alert: str(alert.name))
def test_an_alert_says_what_how_bad_and_where_to_read_on(alert: Alert) -> None:
    assert alert.severity in AlertSeverity
    assert re.fullmatch(r"\d+[mh]", alert.hold)
    assert alert.annotations.runbook_url == f"docs/runbooks/{alert.name}.md"
    assert len(alert.summary) <= 80
    assert not alert.summary.endswith(".")
    assert alert.description.endswith(".")
    # A label that aggregation drops would be rendered as nothing.
    used = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description))
    kept = {name for group in re.findall(r"by \(([^()]*)\)", alert.expression) for name in re.split(r",\s*", group)}
    assert used <= (kept or {"instance"})


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases: dict[str, set[bool]] = {}
    for test in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]:
        for case in test.get("alert_rule_test", ()):
            cases.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert cases == {alert.name: {True, False} for alert in ALERTS}


def test_rules_and_dashboards_compute_the_same() -> None:
    recorded = {rule.name: rule.expression for rule in recordings(GROUPS)}
    for window in ("5m", "1h"):
        assert recorded[f"slack:instant_start:ratio_rate{window}"] == instant_ratio(window)
        assert recorded[f"slack:instant_start_in_slack:ratio_rate{window}"] == instant_ratio(window, 'in_slack="true"')
        assert recorded[f"slack:instant_start_seconds:p50_rate{window}"] == quantile(0.5, window)
        assert recorded[f"slack:instant_start_seconds:p99_rate{window}"] == quantile(0.99, window)


def test_alerts_on_cpu_limits_have_the_auditors_thresholds() -> None:
    known, seen = Thresholds(), set()
    figures = {
        "slack_audit_time_lost_ratio": {known.high_lost, known.warn_lost},
        "slack_audit_throttled_periods_ratio": {known.high_ratio},
        "slack_audit_stop_seconds": {known.stop_seconds},
    }
    for alert in alerts(GROUPS, "resource-slack.cpu-limits"):
        for metric, figure in re.findall(r"\((slack_audit_\w+)\{[^}]*\}\) > (0\.\d+)", alert.expression):
            assert float(figure) in figures[metric], alert.name
            seen.add(metric)
    assert seen == figures.keys()


def test_runbooks_and_alerts_are_the_same() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {alert.name for alert in ALERTS}


@run_for_each("alert", ALERTS, ids=lambda alert: str(alert.name))
def test_a_runbook_has_its_sections_and_names_what_exists(alert: Alert) -> None:
    text = page(alert)
    assert text.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert f"Severity **{alert.severity}**, after {alert.hold}" in text
    for name in re.findall(r"\bslack_\w+", text):
        assert family_of(name) in EXPORTED, name
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (RUNBOOKS / link).exists(), link


@cache
def commands() -> dict[str, set[str]]:
    """Every subcommand and its options."""
    root = typer.main.get_command(app)
    found: dict[str, set[str]] = {}
    for name, command in getattr(root, "commands", {}).items():
        for child_name, child in [("", command), *getattr(command, "commands", {}).items()]:
            options = {option for parameter in child.params for option in (*parameter.opts, *parameter.secondary_opts)}
            found[f"{name} {child_name}".strip()] = options | {"-h", "--help"}
    return found


@run_for_each("alert", ALERTS, ids=lambda alert: str(alert.name))
def test_a_runbooks_commands_exist(alert: Alert) -> None:
    lines = [line for block in _BLOCK.findall(page(alert)) for line in block.splitlines() if line.strip()]
    assert lines, "a page without a command helps nobody"
    known = commands()
    for line in lines:
        words = line.split("#")[0].replace("|", " | ").split()
        assert words[0] in _PROGRAMS, line
        if words[0] == "resource-slack" or words[:2] == ["kubectl", "slack"]:
            rest = words[1:] if words[0] == "resource-slack" else words[2:]
            rest = rest[: rest.index("|")] if "|" in rest else rest
            assert rest[0] in known, line
            called = " ".join(rest[:2]) if " ".join(rest[:2]) in known else rest[0]
            options = {word.partition("=")[0] for word in rest[1:] if word.startswith("-") and word != "-"}
            assert options <= known[called], line


def test_flags_that_runbooks_name_are_the_operators() -> None:
    from slack.process.settings import declared_settings
    from slack_operator.settings import OperatorSettings

    known = {found.flag for found in declared_settings(OperatorSettings)}
    foreign = {"--expendable-pods-priority-cutoff", "--max-nodes-total", "--previous", "--jetstream"}
    for alert in ALERTS:
        in_text = _BLOCK.sub("", page(alert))
        named = {word.partition("=")[0] for code in _CODE.findall(in_text) for word in code.split() if word[:2] == "--"}
        assert named <= known | foreign, alert.name


def test_log_lines_that_runbooks_quote_are_written() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "operator").rglob("*.py"))
    text = page(next(alert for alert in ALERTS if alert.name == "ResourceSlackPlanStale"))
    quoted = [code for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for code in _CODE.findall(row)]
    assert len(quoted) == 4
    for code in quoted:
        assert all(part.strip(" :") in source for part in code.split("...")), code


def test_fields_and_reasons_that_runbooks_name_exist() -> None:
    schemas = [kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] for kind in (crd(), pool_crd())]
    reasons = {reason.name for reason in REASONS}
    for alert in ALERTS:
        for path in re.findall(r"`((?:spec|status)(?:\.\w+)+)", page(alert)):
            if path == "status.nominatedNodeName":
                continue  # a pod's
            of_pools = alert.name.startswith("ResourceSlackDemand")
            field: dict[str, Any] = {"properties": schemas[of_pools]}
            for name in path.split("."):
                field = field.get("items", field)["properties"][name]
        named = re.findall(r"^\| ([A-Z]\w+) \|", page(alert), re.MULTILINE)
        assert set(named) <= reasons | KNOWN_CAUSES, alert.name


def test_the_generated_files_are_up_to_date() -> None:
    boards = [(name, f"dashboards/{name}.json", f"dashboards/{name}.json") for name in DASHBOARDS]
    rules = (CHART / "rules" / "resource-slack.yaml").read_text(encoding="utf-8")
    assert rules == RULE_FILE.read_text(encoding="utf-8"), "run: make monitoring"
    for name, packaged, file in boards:
        text = dashboard_text(name)
        assert (CHART / file).read_text(encoding="utf-8") == text, "run: make monitoring"
        assert (ROOT / "slack" / "monitoring" / packaged).read_text(encoding="utf-8") == text, "run: make monitoring"


@run_for_each("name", DASHBOARDS)
def test_the_command_prints_the_packaged_file_byte_for_byte(name: str) -> None:
    result = CliRunner().invoke(app, ["monitoring", "dashboard", name])
    assert (result.exit_code, result.stdout) == (0, dashboard_text(name))


def test_runbook_links_begin_where_the_reader_keeps_them() -> None:
    words = ["rules", *EVERY_COMPONENT, "--runbooks", "https://wiki.example.com/slack/"]
    result = CliRunner().invoke(app, ["monitoring", *words])
    document = yaml.safe_load(result.stdout)
    packaged = RULE_FILE.read_text(encoding="utf-8").replace("docs/runbooks/", "https://wiki.example.com/slack/")
    assert document == yaml.safe_load(packaged)
    links = [
        rule["annotations"]["runbook_url"] for group in document["groups"] for rule in group["rules"] if "alert" in rule
    ]
    assert links[-1] == f"https://wiki.example.com/slack/{ALERTS[-1].name}.md"


def test_every_group_belongs_to_one_component_and_is_printed_for_it() -> None:
    assert sorted(name for names in RULE_GROUPS.values() for name in names) == sorted(group.name for group in GROUPS)
    result = CliRunner().invoke(app, ["monitoring", "rules", "--component", "audit", "--component", "throttler"])
    found = [group["name"] for group in yaml.safe_load(result.stdout)["groups"]]
    assert found == ["resource-slack.cpu-limits", "resource-slack.throttler"]
    assert {*RULE_GROUPS} == {*DASHBOARDS}


def test_each_component_has_an_alert_on_its_absence() -> None:
    for group in GROUPS:
        absent = [rule.name for rule in group.rules if isinstance(rule, Alert) and "absent(" in rule.expression]
        assert len(absent) == (group.name not in {"resource-slack.recording", "resource-slack.policies"}), group.name


def test_an_address_of_nothing_is_refused() -> None:
    result = CliRunner().invoke(app, ["monitoring", "rules", "--runbooks", " "])
    assert result.exit_code == 2
    assert "--runbooks: empty; expected an address such as" in result.stderr
