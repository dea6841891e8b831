"""Every reason that the code gives is in the catalogue, and the catalogue has none that the code does not give."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack.planner.outcome import ConditionType
from slack.process.reasons import REASONS, Level, reason
from slack_operator.audit.policy_status import ENFORCEMENT_BLOCKED, NODES_SILENT, OVERLAPPING
from slack_operator.status import GOOD_WHEN_TRUE, PREEMPTION_STUCK, VIEW_STALE

ROOT = Path(__file__).resolve().parents[2]
CAMEL = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)+|Rescued|Fresh|Reserved|Answered")
SPEAKING = (
    "slack/planner/blocked.py",
    "slack/planner/conditions.py",
    "slack/planner/patience.py",
    "operator/slack_operator/loop.py",
    "operator/slack_operator/reporting.py",
    "operator/slack_operator/rescue.py",
    "operator/slack_operator/subjects.py",
    "operator/slack_operator/audit/enforcing.py",
    "operator/slack_operator/audit/policy_status.py",
    "operator/slack_operator/audit/telling.py",
)
"""The modules that give reasons."""
NO_REASONS = {"PriorityClass", "SlackPolicy", "ReplicaSet", NODES_SILENT, ENFORCEMENT_BLOCKED}
"""Other words of that form in them."""


def _words() -> Iterator[str]:
    for name in SPEAKING:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CAMEL.fullmatch(node.value):
                yield node.value


def test_the_catalogue_has_what_the_code_says_and_nothing_else() -> None:
    said = set(_words()) - NO_REASONS
    assert said == {one.name for one in REASONS if one.on}
    assert reason("SomethingElse") is None


def test_only_these_modules_make_conditions_and_events() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for folder in ("slack/planner", "operator/slack_operator")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\b(Condition|not_ready|[.]record)\(", path.read_text())
    }
    # status and outcome define them, and rebuild those that stand in a status already.
    defining = {"operator/slack_operator/status.py", "slack/planner/outcome.py"}
    assert makers - defining <= set(SPEAKING)


@pytest.mark.parametrize("one", REASONS, ids=lambda one: str(one.name))
def test_a_reason_says_what_it_means_and_trouble_says_what_to_do(one: object) -> None:
    found = next(known for known in REASONS if known is one)
    assert found.meaning.endswith(".")
    assert (found.level is Level.GOOD) == (not found.advice)
    types = {str(kind) for kind in ConditionType} | {VIEW_STALE, PREEMPTION_STUCK}
    types |= {OVERLAPPING, NODES_SILENT, ENFORCEMENT_BLOCKED}
    for condition in found.on:
        kind, _, status = condition.partition("=")
        assert kind in types
        assert status in ("True", "False")
        good = (status == "True") == (kind in {str(one) for one in GOOD_WHEN_TRUE})
        assert good == (found.level is Level.GOOD)
