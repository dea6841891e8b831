"""Every reason that the code gives is in the catalogue, and the catalogue has none that the code does not give."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack.capacity_buffers.api import CONFLICT, BufferCondition
from slack.health.reasons import REFILL_LASTS, reason
from slack.planner.model.result import ConditionType
from slack.planner.rollout import backoff
from slack.process.reasons import Level
from slack.schema.conditions import GOOD_WHEN_TRUE
from slack_operator.auditor.controller.policy_status import (
    ENFORCEMENT_BLOCKED,
    NODES_SILENT,
    OVERLAPPING,
)
from slack_operator.demand.status import BROKER_REACHABLE, CAPACITY_SHORT, THROTTLED
from slack_operator.learning.history_store import HISTORY_LOST
from slack_operator.placeholders.act.releasing import RELEASE_BLOCKED
from slack_operator.placeholders.conditions import (
    IMAGES_NOT_PULLED,
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    SOFT_TAINT_BLOCKED,
    STALLED,
    VIEW_STALE,
)
from slack_operator.web.reasons import REASONS
from tests.cases import run_for_each

ROOT = Path(__file__).resolve().parents[2]
CAMEL = re.compile(
    r"[A-Z][a-z]+([A-Z][a-z]+)+|Rescued|Fresh|Uncontested|Reserved|Answered|Accepted|Followed|Refilling|Resolved|Infeasible|Conflict"
)
SPEAKING = (
    "slack/planner/conditions.py",
    "operator/slack_operator/placeholders/conditions.py",
    "slack/capacity_buffers/api.py",
    "slack/planner/rollout/backoff.py",
    "operator/slack_operator/burst_eviction/burst_reporter.py",
    "operator/slack_operator/capacity_buffers/buffer_serving.py",
    "operator/slack_operator/placeholders/report/publisher.py",
    "operator/slack_operator/placeholders/report/ownership.py",
    "operator/slack_operator/placeholders/act/releasing.py",
    "operator/slack_operator/placeholders/report/reporter.py",
    "operator/slack_operator/placeholders/act/rescue.py",
    "operator/slack_operator/placeholders/act/soft_tainting.py",
    "operator/slack_operator/placeholders/conditions.py",
    "operator/slack_operator/placeholders/act/unbound.py",
    "operator/slack_operator/warm/problems.py",
    "operator/slack_operator/scaling/policy_scaler.py",
    "operator/slack_operator/learning/history_store.py",
    "operator/slack_operator/demand/pool_registry.py",
    "operator/slack_operator/demand/pool_reporter.py",
    "operator/slack_operator/demand/status.py",
    "operator/slack_operator/auditor/controller/enforcer.py",
    "operator/slack_operator/auditor/controller/policy_status.py",
    "operator/slack_operator/auditor/controller/event_reporter.py",
    "operator/slack_operator/throttler/agent/event_reporter.py",
    "operator/slack_operator/throttler/controller/permits.py",
    "operator/slack_operator/throttler/controller/policy_reporter.py",
    "operator/slack_operator/throttler/controller/policy_status.py",
)
"""The modules that give reasons."""
NO_REASONS = {
    "PodScheduled",
    "PriorityClass",
    "SlackPolicy",
    "ReplicaSet",
    "SlackScale",
    "CapacityBuffer",
    "PreferNoSchedule",
    BufferCondition.READY_FOR_PROVISIONING,
    BufferCondition.LIMITED_BY_QUOTAS,
    HISTORY_LOST,
    RELEASE_BLOCKED,
    IMAGES_NOT_PULLED,
    NODES_SILENT,
    ENFORCEMENT_BLOCKED,
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    SOFT_TAINT_BLOCKED,
    STALLED,
    VIEW_STALE,
    BROKER_REACHABLE,
    CAPACITY_SHORT,
}
"""Other words of that form in them."""


def _words() -> Iterator[str]:
    for name in SPEAKING:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CAMEL.fullmatch(node.value):
                yield node.value


def test_the_catalogue_has_what_the_code_says_and_nothing_else() -> None:
    said = (set(_words()) | {REFILL_LASTS}) - NO_REASONS  # by its name in the module of statuses
    assert said == {reason.name for reason in REASONS if reason.on}
    assert reason("SomethingElse") is None


def test_only_these_modules_make_conditions_and_events() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for folder in ("slack/planner", "operator/slack_operator")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\b(StatusCondition|not_ready|[.]record)\(", path.read_text())
    }
    # These define them, and rebuild those that stand in a status already.
    operator = "operator/slack_operator"
    defining = {
        f"{operator}/placeholders/report/status.py",
        f"{operator}/runtime/conditions.py",
    }
    assert makers - defining <= set(SPEAKING)


@pytest.mark.parametrize("name", sorted(backoff.REASONS.values()))
def test_what_holds_placeholders_back_is_said_by_both_conditions_and_in_both_runbooks(name: str) -> None:
    found = reason(name)
    assert found is not None
    assert found.on == ("LimitReached=True", "SlackSatisfied=False")
    for alert in ("LimitReached", "NotSatisfied"):
        assert name in (ROOT / "docs" / "runbooks" / f"ResourceSlack{alert}.md").read_text(), alert


@run_for_each("reason", REASONS, ids=lambda reason: str(reason.name))
def test_a_reason_says_what_it_means_and_trouble_says_what_to_do(reason: object) -> None:
    found = next(known for known in REASONS if known is reason)
    assert found.meaning.endswith(".")
    assert (found.level is Level.GOOD) == (not found.advice)
    types = {str(kind) for kind in ConditionType} | {STALLED, VIEW_STALE, PREEMPTION_STUCK}
    types |= {OWNERSHIP_CONTESTED, PLACEHOLDERS_CHANGED, HISTORY_LOST, RELEASE_BLOCKED, IMAGES_NOT_PULLED}
    types |= {SOFT_TAINT_BLOCKED}
    types |= {*BufferCondition, CONFLICT}
    types |= {BROKER_REACHABLE, CAPACITY_SHORT, THROTTLED}
    types |= {OVERLAPPING, NODES_SILENT, ENFORCEMENT_BLOCKED}
    for condition in found.on:
        kind, _, status = condition.partition("=")
        assert kind in types
        assert status in ("True", "False")
        good = (status == "True") == (kind in GOOD_WHEN_TRUE)
        assert good == (found.level is Level.GOOD) or found.level is Level.NOTE  # a ceiling may leave nothing to want
