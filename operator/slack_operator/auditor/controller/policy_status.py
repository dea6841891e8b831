"""The status of a CpuAuditPolicy: counts, what enforcement did and left alone, and conditions with their reasons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slack.audit.api.policy import AuditPolicy
from slack.audit.api.report import NamespaceFindings, cores_text
from slack.audit.enforcement.decision import SkippedFinding
from slack.audit.findings.finding import Severity
from slack.audit.findings.throttling import lost_cores_total
from slack.documents.audit_status import (
    MOST_ACTIONS,
    AuditAction,
    AuditedNodes,
    AuditEnforcement,
    AuditLeftAlone,
    AuditSummaryTexts,
    CpuAuditPolicyStatus,
)
from slack.process.contests import Contest
from slack.schema.conditions import StatusCondition
from slack_operator.runtime.conditions import Status, with_conditions, with_times

READY = "Ready"
OVERLAPPING = "Overlapping"
NODES_SILENT = "NodesSilent"
ENFORCEMENT_BLOCKED = "EnforcementBlocked"
OWNERSHIP_CONTESTED = "OwnershipContested"
"""Only there while it is true."""
COUNTERS_SECONDS = 30.0
_SHOWN = 5
"""Names in a message; the rest is counted."""


@dataclass(slots=True)
class Enforcement:
    """What enforcement of one policy comes to."""

    raised: int = 0
    added_millis: int = 0
    bursts: int = 0
    planned: int = 0
    last_hour: int = 0
    actions: Sequence[AuditAction] = ()
    """The newest first."""
    left_alone: Sequence[SkippedFinding] = ()
    refused: str | None = None
    """The last refusal within an hour."""


@dataclass(frozen=True, slots=True)
class AuditObservation:
    """What a policy's status is made of."""

    policy: AuditPolicy
    namespaces: Sequence[NamespaceFindings]
    reporting: frozenset[str]
    silent: frozenset[str]
    lost_to: Mapping[str, str] = field(default_factory=dict)
    """Namespaces that it selects and an older policy has, with that one's name."""
    enforcement: Enforcement = field(default_factory=Enforcement)
    contests: Mapping[str, Contest[str]] = field(default_factory=dict)
    """By namespace, reports that are left to somebody who deletes them each time."""


def status_of(observed: AuditObservation, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status.

    Args:
        observed: what is known.
        previous: the status that is there; transition times are kept from it.
        now: RFC 3339.
    """
    findings = [row.finding for namespace in observed.namespaces for row in namespace.findings]
    severities = Counter(finding.severity for finding in findings)
    troubles: Counter[str] = Counter()
    for namespace in observed.namespaces:
        troubles.update(namespace.troubles)
    done = observed.enforcement
    lost = cores_text(lost_cores_total(findings))
    nodes = f"{len(observed.reporting)}/{len(observed.reporting | observed.silent)}"
    status = CpuAuditPolicyStatus(
        observed_generation=observed.policy.generation,
        mode=str(observed.policy.spec.mode),
        nodes=AuditedNodes(reporting=len(observed.reporting), silent=len(observed.silent)),
        summary=AuditSummaryTexts(nodes=nodes, lost=lost),
        namespaces=len(observed.namespaces),
        containers=sum(namespace.containers for namespace in observed.namespaces),
        high=severities[Severity.HIGH],
        warn=severities[Severity.WARN],
        info=severities[Severity.INFO],
        lost_cores=lost,
        enforcement=AuditEnforcement(
            raised=done.raised,
            added_cores=cores_text(done.added_millis / 1000),
            bursts=done.bursts,
            planned=done.planned,
            last_hour=done.last_hour,
            actions=list(done.actions[:MOST_ACTIONS]),
            left_alone=[
                AuditLeftAlone(container=container.name, reason=container.reason)
                for container in done.left_alone[:MOST_ACTIONS]
            ],
            left_alone_count=len(done.left_alone),
        ),
        # an empty map that is applied over one with keys becomes null, which the schema refuses
        troubles=dict(sorted(troubles.items())) or None,
    )
    return status.document() | {"conditions": with_times(_conditions(observed), previous, now)}


def invalid(problems: Sequence[str], generation: int, previous: Status, now: str) -> dict[str, Any]:
    """Return the status of a policy that cannot be read; the rest of it stays, as the last good spec is used."""
    text = "; ".join(problems)
    used = "; the last good spec is in force" if previous.get("mode") else "; nothing is audited by it"
    return with_conditions(previous, [StatusCondition(READY, False, "InvalidSpec", text + used)], generation, now)


def _conditions(observed: AuditObservation) -> list[StatusCondition]:
    ready = StatusCondition(READY, True, "ReportsArrive", f"{_nodes(len(observed.reporting))} report")
    if not observed.reporting:
        ready = StatusCondition(
            READY, False, "NoReports", "no node's agent reports: is the DaemonSet of the agents running?"
        )
    lost = observed.lost_to
    overlap = StatusCondition(OVERLAPPING, False, "NoOverlap", "no older policy has namespaces that this one selects")
    if lost:
        older = ", ".join(sorted(set(lost.values())))
        text = f"{_some(sorted(lost))} {'belongs' if len(lost) == 1 else 'belong'} to the older policy {older}"
        overlap = StatusCondition(OVERLAPPING, True, "OlderPolicyWins", text)
    silent = StatusCondition(NODES_SILENT, False, "AllNodesReport", "every node's agent reports")
    if observed.silent:
        text = f"no report for three intervals from {_some(sorted(observed.silent))}"
        silent = StatusCondition(NODES_SILENT, True, "AgentsMissing", text)
    blocked = StatusCondition(
        ENFORCEMENT_BLOCKED, False, "NothingRefusedLately", "no change of a limit was refused within the last hour"
    )
    if observed.enforcement.refused:
        blocked = StatusCondition(ENFORCEMENT_BLOCKED, True, "ResizeRefused", observed.enforcement.refused)
    contested = []
    if observed.contests:
        minutes = round(max(contest.pause_seconds for contest in observed.contests.values()) / 60)
        text = (
            f"somebody deletes the CpuAuditReport of {_some(sorted(observed.contests))} each time, so it is not made "
            f"again for {minutes} min at a time"
        )
        contested = [StatusCondition(OWNERSHIP_CONTESTED, True, "WrittenBack", text)]
    return [ready, overlap, silent, blocked, *contested]


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def headline(status: Status) -> object:
    """Return what is written at once when it changes; mere counters wait."""
    conditions = sorted(
        (condition["type"], condition["status"], condition["reason"]) for condition in status.get("conditions", ())
    )
    done = status.get("enforcement", {})
    changed = tuple(done.get(name) for name in ("raised", "bursts", "planned"))
    last = [(action["container"], action["outcome"]) for action in done.get("actions", ())[:1]]
    return status.get("observedGeneration"), status.get("mode"), conditions, changed, last
