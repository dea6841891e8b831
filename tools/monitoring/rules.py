"""Recording rules and alerts as values, and the file in which Prometheus reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RUNBOOKS = "docs/runbooks"
"""Where the pages are in the project; an installation puts the address of its copy before it."""


class AlertSeverity(StrEnum):
    """How soon somebody should look."""

    CRITICAL = "critical"
    """Slack is not kept at all."""
    WARNING = "warning"
    """Some pods will wait; during working hours."""
    INFO = "info"
    """Costs money or could be better."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A recording rule; the name is level:metric:operation."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert; its runbook page has its name."""

    name: str
    expression: str
    severity: AlertSeverity
    hold: str
    """Prometheus' `for`."""
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated together."""

    name: str
    rules: Sequence[RecordingRule | Alert]


def rule_file(groups: Sequence[RuleGroup], *, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return the document of a Prometheus rule file.

    Args:
        groups: of rules.
        runbooks: address of the folder with the runbook pages.
    """
    return {
        "groups": [{"name": group.name, "rules": [_rule(rule, runbooks) for rule in group.rules]} for group in groups]
    }


def alerts(groups: Sequence[RuleGroup]) -> list[Alert]:
    """Return the alerts of all groups."""
    return [rule for group in groups for rule in group.rules if isinstance(rule, Alert)]


def recordings(groups: Sequence[RuleGroup]) -> list[RecordingRule]:
    """Return the recording rules of all groups."""
    return [rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule)]


def _rule(rule: RecordingRule | Alert, runbooks: str) -> dict[str, Any]:
    if isinstance(rule, RecordingRule):
        return {"record": rule.name, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.hold,
        "labels": {"severity": str(rule.severity)},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": f"{runbooks.rstrip('/')}/{rule.name}.md",
        },
    }
