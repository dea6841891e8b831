"""The documents are held to the code: links, commands, manifests, names of metrics and conditions, the table of rights.

What is checked of a command is that it exists and takes these flags; what it prints is the other tests' to show.
"""

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml

from slack.audit.api import messages as audit_messages
from slack.audit.api.crd import REPORT_KIND
from slack.audit.api.policy import KIND as AUDIT_KIND
from slack.audit.api.policy import Mode, parse_audit_policy
from slack.capacity_buffers.api import BufferCondition
from slack.cli.commands import app
from slack.cluster.hold import ReleaseNodes
from slack.demand.policy import POOL_KIND, QUOTA_KIND
from slack.planner.model.result import ConditionType
from slack.planner.policy.history import HISTORY_KIND
from slack.planner.policy.scale import SCALE_KIND
from slack.planner.policy.spec import KIND, parse_policy
from slack.process import http_server
from slack.scorer.model import DecisionRule, UsageState
from slack.simulator.scenario.scenario import parse_scenario
from slack.throttler.reports import messages as throttler_messages
from slack_operator.auditor.controller import policy_status
from slack_operator.demand import throttle
from slack_operator.learning.history_store import HISTORY_LOST
from slack_operator.placeholders.act.releasing import RELEASE_BLOCKED
from slack_operator.placeholders.conditions import (
    IMAGES_NOT_PULLED,
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    SOFT_TAINT_BLOCKED,
    VIEW_STALE,
)
from slack_operator.placeholders.view.displaced import DELETED, OVERCOMMITTED, PREEMPTED, RESIZED
from slack_operator.placeholders.view.failures import CAUSES
from slack_operator.runtime import callers, report_receiver, review_queue, serving, tokens
from slack_operator.scorer.metrics import state_word
from slack_operator.throttler.agent import gate_server
from slack_operator.throttler.controller import late_pods, webhook
from slack_operator.throttler.gate import probe_server
from slack_operator.web.reasons import REASONS
from tests.cases import run_for_each
from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, inline_code, links, name_of, prose
from tools.monitoring.rules import GROUPS, alerts

PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
CHART_NOTES = ROOT / "charts" / "resource-slack" / "templates" / "NOTES.txt"
LARGEST_PICTURE_BYTES = 150_000

_CAMEL = re.compile(r"(?:[A-Z][a-z]+){2,}")
_USAGE = re.compile(r"\.\.\.|\[[A-Z]+\]|\bCOMMAND\b")
_VALUE = re.compile(r"(operator|audit|demand)\.[a-zA-Z]+\b(?!-)")
"""A value of the chart, and no annotation such as audit.resource-slack.io/latency."""
_OPERATORS = {"|", "||", "&&", ";", ">", "<", "&"}

AUDIT_CONDITIONS = {
    *(policy_status.READY, policy_status.OVERLAPPING, policy_status.NODES_SILENT, policy_status.ENFORCEMENT_BLOCKED)
}
CONDITIONS = {*map(str, ConditionType), VIEW_STALE, PREEMPTION_STUCK, OWNERSHIP_CONTESTED, PLACEHOLDERS_CHANGED}
CONDITIONS |= AUDIT_CONDITIONS | {HISTORY_LOST, RELEASE_BLOCKED, SOFT_TAINT_BLOCKED, IMAGES_NOT_PULLED}
OURS = CONDITIONS | {reason.name for reason in REASONS} | {str(alert.name) for alert in alerts(GROUPS)}
OURS |= CAUSES | set(BufferCondition)
OURS |= {"NoAutoscaler", "AutoscalerRecognised", "AutoscalerUnclear"}  # why placeholders are bound, or unbound
OURS |= {"NoAnswer", "NotTold", "SchedulerNameChanged", "SchedulerNameRefused"}  # why unbound ones are of no use
OURS |= {
    "ThrottlePolicy",
    *(POOL_KIND, QUOTA_KIND, "BrokerReachable", "CapacityShort"),
    DELETED,
    OVERCOMMITTED,
    PREEMPTED,
    RESIZED,
    KIND,
    SCALE_KIND,
    HISTORY_KIND,
    AUDIT_KIND,
    REPORT_KIND,
    *map(str, ReleaseNodes),
    *map(str, Mode),
    *map(str, DecisionRule),
    *map(state_word, UsageState),
    *("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment"),
}
FOREIGN = {
    "IfNotPresent",
    *("ScheduleAnyway", "RunAsAny", "PodMonitor", "ServiceMonitor", "PrometheusRule"),
    # the autoscalers' and controllers' words
    *("TriggeredScaleUp", "NotTriggerScaleUp", "MaxNodesTotalReached", "FailedScheduling", "FailedCreate"),
    *(
        "CapacityBuffer",
        "WhenEmpty",
        "WhenEmptyOrUnderutilized",
        "LeastAllocated",
        "MostAllocated",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "InPlacePodVerticalScaling",
        "OpportunisticBatching",
        "OutOfcpu",
        "TerminationByKubelet",
        "TargetCPUUtilisation",
        "DisruptionTarget",
        "PodScheduled",
        "DisruptionBlocked",
        "PreferNoSchedule",
    ),
    *("EvictionByEvictionAPI", "DeletionByTaintManager", "SchedulerAsyncPreemption", "PodTemplate"),
    # the scheduler's plugins, its gates, and the kubelet's refusal
    *(
        "MostAllocated",
        "RequestsTimesMultiplier",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "OpportunisticBatching",
        "OutOfcpu",
    ),
    *("HorizontalPodAutoscaler", "ScaledObject", "FailedGetScale", "AverageValue"),
    *("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"),
    # ours until a change that CHANGELOG.md tells of
    *("SlackIsThere", "ResourceSlackPlaceholdersPending"),
}
"""CamelCase words that are not ours: Kubernetes', the autoscalers', other programs'."""
NOT_WORDS = {"performance.md", "requirements.md", "scenario.md", "slackpolicy.md"}
NOT_WORDS |= {
    "throttlepolicy.md",
    "throttler.md",
    "cpuauditpolicy.md",
    "cpuauditreport.md",
    "CONTRIBUTING.md",
    "architecture.md",
}
"""Pages about our own code or fields, whose CamelCase words are neither conditions nor Events."""


@run_for_each("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(target), f"{name_of(target)} has no heading #{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        for target, _ in links(page):
            # a link to a folder shows its files
            todo += [
                file for file in (sorted(target.glob("*.md")) if target.is_dir() else [target]) if file.suffix == ".md"
            ]
    assert not [name_of(page) for page in PAGES if page not in seen]


def words_of(line: str) -> list[list[str]]:
    """Split a shell line into simple commands, without comments; `$(...)` counts as one word."""
    line = re.sub(r"\$\(\(?[^()]*\)?\)", "VALUE", line)
    line = re.sub(r"'[^']*'|\"[^\"]*\"", lambda quoted: quoted[0].replace("#", "VALUE"), line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word.startswith("#"):
            break
        if word in _OPERATORS:
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def shell_lines(page: Path) -> Iterator[str]:
    for body in blocks(page, "", "sh", "bash", "console"):
        yield from re.sub(r"\\\n\s*", " ", body).splitlines()


def commands(page: Path, *programs: str) -> Iterator[list[str]]:
    """Every call of one of the programs in a page's code blocks and inline code."""
    for line in (*shell_lines(page), *inline_code(prose(page))):
        if any(program in line for program in programs) and not _USAGE.search(line):
            yield from (words for words in words_of(line) if program_of(words) in programs)


def program_of(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


def our_arguments(words: list[str]) -> list[str] | None:
    """What a call gives to our command; None when it is no call of it."""
    if program_of(words) == "resource-slack":
        return words[1:]
    return words[2:] if words[:2] == ["kubectl", "slack"] else None


@run_for_each("page", PAGES, ids=name_of)
def test_every_command_of_ours_parses(page: Path) -> None:
    root: Any = typer.main.get_command(app)
    for words in commands(page, "resource-slack", "kubectl"):
        arguments = our_arguments(words)
        command = root
        while arguments and not arguments[0].startswith("-") and getattr(command, "commands", None):
            assert arguments[0] in command.commands, f"{' '.join(words)}: there is no such command"
            command, arguments = command.commands[arguments[0]], arguments[1:]
        if arguments and command is not root and arguments not in (["--help"], ["-h"]):
            context = command.context_class(command, info_name=words[0], resilient_parsing=False)
            _, left, _ = command.make_parser(context).parse_args(list(arguments))
            assert not left, f"{' '.join(words)}: {left} is too much"


@cache
def chart_values() -> Any:
    return yaml.safe_load((ROOT / "charts" / "resource-slack" / "values.yaml").read_text())


@cache
def chart_schema() -> Any:
    return json.loads((ROOT / "charts" / "resource-slack" / "values.schema.json").read_text())


def value_exists(path: str) -> bool:
    """Tell whether values.yaml has a value, or the schema of one that is empty there, such as operator.placeholders."""
    here, schema = chart_values(), chart_schema()
    for key in path.split("."):
        schema = chart_schema()["$defs"].get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
        schema = schema.get("properties", {}).get(key, {})
        if not isinstance(here, dict) or (key not in here and (here or not schema)):
            return False
        here = here.get(key, {})
    return True


@run_for_each("page", PAGES, ids=name_of)
def test_every_value_of_the_chart_exists(page: Path) -> None:
    named = [words[i + 1].partition("=")[0] for words in commands(page, "helm") for i in settings_in(words)]
    named += [code.partition("=")[0] for code in inline_code(prose(page)) if re.match(_VALUE, code)]
    for path in named:
        assert value_exists(path), f"values.yaml has no {path}"


def settings_in(words: list[str]) -> list[int]:
    return [i for i, word in enumerate(words) if word == "--set"]


@run_for_each("page", PAGES, ids=name_of)
def test_every_manifest_is_yaml_and_every_policy_a_good_one(page: Path) -> None:
    for body in blocks(page, "yaml"):
        for document in yaml.safe_load_all(body):
            if isinstance(document, dict) and document.get("kind") == KIND:
                parse_policy(document, source=name_of(page))


@run_for_each(
    "path", [*PAGES, CHART_NOTES, *sorted((ROOT / "slack").rglob("*.py"))], ids=lambda path: str(name_of(path))
)
def test_crds_are_upgraded_by_force_for_what_helm_installed_is_helms(path: Path) -> None:
    for line in re.findall(r"kubectl apply --server-side[^\n]*", path.read_text()):
        assert "--force-conflicts" in line


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "quickstart").glob("*.yaml")), ids=name_of)
def test_the_quick_starts_files_are_good(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["kind"] in (KIND, "Deployment")  # all of the folder is applied
    if document["kind"] == KIND:
        parse_policy(document, source=path.name)


def test_the_audit_policy_with_comments_is_a_good_one() -> None:
    path = ROOT / "examples" / "cpuauditpolicy.yaml"
    parse_audit_policy(yaml.safe_load(path.read_text()), source=path.name)


@run_for_each("page", [page for page in PAGES if page.name not in NOT_WORDS], ids=name_of)
def test_every_condition_reason_and_alert_exists(page: Path) -> None:
    named = {code for code in inline_code(prose(page)) if _CAMEL.fullmatch(code)}
    assert named <= OURS | FOREIGN, "neither ours nor known as somebody else's"


def test_trouble_is_told_by_symptom() -> None:
    """Each symptom says what one sees, why, how to check with a command, what to do; every condition has one."""
    text = (DOCS / "details" / "troubleshooting.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(sections) >= 15
    for section in sections:
        title = section.splitlines()[0]
        order = [section.find(f"**{word}**") for word in ("See", "Why", "Check", "Do")]
        assert -1 not in order, title
        assert order == sorted(order), title
        assert "```" in section[order[2] : order[3]], f"{title}: no command to check with"
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        assert f"](#{anchor})" in text.partition("\n## ")[0], f"{title} is not in the table of symptoms"
    assert {kind for kind in CONDITIONS if kind not in text} == set()


PLAIN = ROOT / "deploy" / "operator.yaml"
AUDIT = ROOT / "charts" / "resource-slack" / "templates" / "audit" / "rbac.yaml"
SCORER = ROOT / "charts" / "resource-slack" / "templates" / "scorer" / "rbac.yaml"
LOAD = ROOT / "charts" / "resource-slack" / "templates" / "loadwatcher" / "rbac.yaml"
THROTTLER = ROOT / "charts" / "resource-slack" / "templates" / "throttler" / "rbac.yaml"
DEMAND = ROOT / "charts" / "resource-slack" / "templates" / "demand" / "rbac.yaml"
TABLES = [
    (PLAIN, "ClusterRole resource-slack", "In the whole cluster:"),
    (PLAIN, "ClusterRole resource-slack-view", "People with the cluster's role `view`, `edit` or `admin` may read:"),
    (PLAIN, "ClusterRole resource-slack-edit", "People with the cluster's role `edit` or `admin` may write:"),
    (PLAIN, "Role resource-slack", "In its own namespace:"),
    (PLAIN, "Role resource-slack-autoscaler-status", "In the namespace of Cluster Autoscaler,"),
    (AUDIT, "ClusterRole", "The audit controller, in the whole cluster:"),
    (AUDIT, "Role", "The audit controller, in its own namespace:"),
    (SCORER, "ClusterRole", "The scorer, in the whole cluster:"),
    (SCORER, "Role", "The second scheduler has the roles `system:kube-scheduler` and `system:volume-scheduler`, which"),
    (LOAD, "ClusterRole", "The load watcher, in the whole cluster:"),
    (THROTTLER.with_name("agent-rbac.yaml"), "ClusterRole", "The throttler's agents, in the whole cluster:"),
    (THROTTLER, "ClusterRole", "The throttler's controller, in the whole cluster:"),
    (THROTTLER, "Role", "The throttler's controller, in its own namespace:"),
    (THROTTLER.with_name("_permitrights.tpl"), "x", "controller, only with `throttler.backend=configmap`"),
    (THROTTLER.with_name("evictions.yaml"), "x", "controller, only with `throttler.agent.deleteLatePods=true`"),
    (THROTTLER.with_name("events-rbac.yaml"), "Role", "The throttler's controller, in the namespace `default`:"),
    (
        DEMAND.with_name("pool-rights.yaml"),
        "x",
        "The controller of container pools, in the whole cluster, or in each of",
    ),
    (DEMAND, "Role", "The controller of container pools, in its own namespace:"),
    (THROTTLER.with_name("viewer.yaml"), "Role", "Who may see who starts and who waits, in the release's namespace:"),
]


def manifests(path: Path) -> list[Any]:
    """Manifests, or a template's with all that a value can turn on."""
    text = re.sub(r"\{\{-?/[*].*?[*]/-?\}\}", "", path.read_text(), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("{{")]
    text = re.sub(r"\{\{.*?\}\}", "x", "\n".join(lines))
    return [document for document in yaml.safe_load_all(text) if document]


def rights(roles: list[Any]) -> set[tuple[str, str, str]]:
    """(group, resources, verbs) of the roles' rules, each sorted and joined."""
    return {
        (group or "core", ", ".join(sorted(rule["resources"])), ", ".join(sorted(rule["verbs"])))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
    }


@run_for_each(("path", "kind", "before"), TABLES)
def test_the_table_of_rights_is_what_is_granted(path: Path, kind: str, before: str) -> None:
    kind, _, name = kind.partition(" ")
    roles = [document for document in manifests(path) if document["kind"] == kind and "rules" in document]
    granted = rights([role for role in roles if name in ("", role["metadata"]["name"])])
    rest = (DOCS / "details" / "security.md").read_text().partition(before)[2]
    rows = rest[rest.index("\n|") + 1 :].splitlines()
    told = set()
    for row in rows[2:]:
        if not row.startswith("|"):
            break
        group, resources, verbs, why = (cell.strip() for cell in row.strip("|").split("|"))
        assert why, row
        told.add((group, ", ".join(sorted(resources.split(", "))), ", ".join(sorted(verbs.split(", ")))))
    assert told == granted


def test_the_second_scheduler_has_the_roles_that_its_page_names() -> None:
    text = SCORER.read_text()
    assert re.findall(r'list "(system:[\w-]+)" "(system:[\w-]+)"', text) == [
        ("system:kube-scheduler", "system:volume-scheduler")
    ]
    bound = [item["roleRef"]["name"] for item in manifests(SCORER) if item["kind"] == "ClusterRoleBinding"]
    assert len(bound) == 2, "its own, and one that is repeated for both"


def test_agents_of_the_auditor_have_no_rights() -> None:
    """No role is bound to their service account, whose name ends so."""
    assert "-agent" not in AUDIT.read_text()
    assert 'name := printf "%s-agent"' in (AUDIT.parent / "agent.yaml").read_text()


@run_for_each("picture", PICTURES, ids=name_of)
def test_pictures_are_svg_of_a_size_and_each_is_shown(picture: Path) -> None:
    assert picture.stat().st_size < LARGEST_PICTURE_BYTES
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("}svg")  # our own file, not a stranger's
    assert any(f"pictures/{picture.name}" in page.read_text() for page in PAGES)


@pytest.mark.parametrize("path", sorted((DOCS / "pictures").glob("*.yaml")), ids=name_of)
def test_the_scenarios_of_the_pictures_can_be_played(path: Path) -> None:
    assert path.with_suffix(".svg") in PICTURES
    assert parse_scenario(yaml.safe_load(path.read_text()), source=path.name).name == path.stem


def test_the_bounds_on_the_page_are_those_of_the_servers() -> None:
    text = (DOCS / "details" / "security.md").read_text()
    mebi = 1 << 20
    for bound in (
        f"{http_server.MOST_AT_ONCE} connections, {http_server.TIMEOUT_SECONDS:g} s per request",
        f"{http_server.MOST_HEAD_BYTES >> 10} KiB of head",
        f"{serving.CONNECTIONS} connections, {serving.STRANGERS} of them without a caller that is known",
        f"{report_receiver.CONNECTIONS}\nconnections, {report_receiver.STRANGERS} of them without a whole request",
        f"The webhook: {webhook.CONNECTIONS:,} and {webhook.STRANGERS}",
        f"must be whole within {serving.REQUEST_SECONDS:g} s",
        f"All bodies together take {serving.BODY_BYTES // mebi} MiB",
        f"{review_queue.IDENTITY_BURST} per account and pod that they claim, "
        f"then one per {1 / review_queue.IDENTITY_PER_SECOND:g} s; {review_queue.ADDRESS_BURST} per address, "
        f"then {review_queue.ADDRESS_PER_SECOND:g} per second",
        f"{callers.MAX_KEPT:,} per receiver, {gate_server.MAX_KEPT:,} per agent",
        f"refusals are kept for {tokens.REFUSED_SECONDS:g} s, and {review_queue.MOST_WAITING} reviews may wait",
        f"{audit_messages.MAX_REPORT_BYTES // mebi} MiB per report",
        f"{throttler_messages.MAX_LATE} late pods and {throttler_messages.MAX_CONTAINERS:,} containers per report",
        f"{webhook.MAX_REVIEW_BYTES // mebi} MiB per review",
        f"{gate_server.MAX_CONNECTIONS:,} connections, {gate_server.MAX_STRANGERS} of them without a token",
        f"{gate_server.REVIEWERS} reviews at a time",
        f"{throttle.MAX_BODY_BYTES // mebi} MiB per message, {throttle.MAX_PUBLISHING:,} messages",
    ):
        assert bound in text, bound
    bound = f"{probe_server._MOST_SILENT} connections that say nothing, {probe_server._MAX_REQUEST:,} bytes per request"
    assert bound in text
    assert late_pods.EVERY_SECONDS == 0.2, "the page says five evictions per second"
