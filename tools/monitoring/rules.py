"""The rule file as values: what tests, suites and pages read of its recording rules and alerts.

The file is the source (slack/monitoring/rules.yaml). This module only reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml

RULE_FILE: Final = Path(__file__).parents[2] / "slack" / "monitoring" / "rules.yaml"


class AlertSeverity(StrEnum):
    """How soon somebody should look."""

    CRITICAL = "critical"
    """Slack is not kept at all."""
    WARNING = "warning"
    """Some pods will wait; during working hours."""
    INFO = "info"
    """Costs money or could be better."""


class RecordingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recording rule; the name is level:metric:operation."""

    name: str = msgspec.field(name="record")
    expression: str = msgspec.field(name="expr")


class AlertLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What Alertmanager routes by."""

    severity: AlertSeverity


class AlertAnnotations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person reads."""

    summary: str
    description: str
    runbook_url: str


class Alert(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert; its runbook page has its name."""

    name: str = msgspec.field(name="alert")
    expression: str = msgspec.field(name="expr")
    hold: Annotated[str, msgspec.Meta(pattern=r"^\d+[mh]$")] = msgspec.field(name="for")
    """Prometheus' `for`."""
    labels: AlertLabels
    annotations: AlertAnnotations

    @property
    def severity(self) -> AlertSeverity:
        """How soon somebody should look."""
        return self.labels.severity

    @property
    def summary(self) -> str:
        """One line, without a full stop."""
        return self.annotations.summary

    @property
    def description(self) -> str:
        """Whole sentences."""
        return self.annotations.description


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated together."""

    name: str
    rules: tuple[RecordingRule | Alert, ...]


def read_groups(path: Path = RULE_FILE) -> tuple[RuleGroup, ...]:
    """Read a rule file.

    Raises:
        msgspec.ValidationError: a rule lacks a field, or has one that no rule of this project has.
    """
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(RuleGroup(group["name"], tuple(map(_rule, group["rules"]))) for group in document["groups"])


def alerts(groups: Sequence[RuleGroup], *names: str) -> list[Alert]:
    """Return the alerts of the groups with these names; without names, of all."""
    return [
        rule for group in groups if not names or group.name in names for rule in group.rules if isinstance(rule, Alert)
    ]


def recordings(groups: Sequence[RuleGroup]) -> list[RecordingRule]:
    """Return the recording rules of all groups."""
    return [rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule)]


def _rule(rule: Mapping[str, Any]) -> RecordingRule | Alert:
    return msgspec.convert(rule, Alert) if "alert" in rule else msgspec.convert(rule, RecordingRule)


GROUPS: Final = read_groups()
"""Of the file that is shipped."""
