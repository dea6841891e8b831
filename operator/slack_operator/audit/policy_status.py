"""The status of a CpuAuditPolicy: counts, what enforcement did and left alone, and conditions with their reasons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slack.cfs.enforce import LeftAlone
from slack.cfs.finding import Severity, lost_cores_total
from slack.cfs.policy import API_VERSION, KIND, AuditPolicy
from slack.cfs.report import Namespace, cores_text
from slack.cfs.report_schema import MOST_ACTIONS
from slack.planner.outcome import Condition
from slack_operator.status import Status, with_conditions, with_times

READY = "Ready"
OVERLAPPING = "Overlapping"
NODES_SILENT = "NodesSilent"
ENFORCEMENT_BLOCKED = "EnforcementBlocked"
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
    actions: Sequence[Mapping[str, str]] = ()
    """The newest first."""
    left_alone: Sequence[LeftAlone] = ()
    refused: str = ""
    """The last refusal within an hour."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a policy's status is made of."""

    policy: AuditPolicy
    namespaces: Sequence[Namespace]
    reporting: frozenset[str]
    silent: frozenset[str]
    lost_to: Mapping[str, str] = field(default_factory=dict)
    """Namespaces that it selects and an older policy has, with that one's name."""
    enforcement: Enforcement = field(default_factory=Enforcement)


def status_of(seen: Seen, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status.

    Args:
        seen: what is known.
        previous: the status that is there; transition times are kept from it.
        now: RFC 3339.
    """
    findings = [one.finding for namespace in seen.namespaces for one in namespace.told]
    severities = Counter(one.severity for one in findings)
    troubles: Counter[str] = Counter()
    for namespace in seen.namespaces:
        troubles.update(namespace.troubles)
    done = seen.enforcement
    lost = cores_text(lost_cores_total(findings))
    return {
        "observedGeneration": seen.policy.generation,
        "mode": str(seen.policy.spec.mode),
        "nodes": {"reporting": len(seen.reporting), "silent": len(seen.silent)},
        "summary": {"nodes": f"{len(seen.reporting)}/{len(seen.reporting | seen.silent)}", "lost": lost},
        "namespaces": len(seen.namespaces),
        "containers": sum(one.containers for one in seen.namespaces),
        "high": severities[Severity.HIGH],
        "warn": severities[Severity.WARN],
        "info": severities[Severity.INFO],
        "lostCores": lost,
        "enforcement": {
            "raised": done.raised,
            "addedCores": cores_text(done.added_millis / 1000),
            "bursts": done.bursts,
            "planned": done.planned,
            "lastHour": done.last_hour,
            "actions": [dict(one) for one in done.actions[:MOST_ACTIONS]],
            "leftAlone": [{"container": one.name, "reason": one.reason} for one in done.left_alone[:MOST_ACTIONS]],
            "leftAloneCount": len(done.left_alone),
        },
        "conditions": with_times(_conditions(seen), previous, now),
        # an empty map that is applied over one with keys becomes null, which the schema refuses
        **({"troubles": dict(sorted(troubles.items()))} if troubles else {}),
    }


def invalid(problems: Sequence[str], generation: int, previous: Status, now: str) -> dict[str, Any]:
    """Return the status of a policy that cannot be read; the rest of it stays, as the last good spec is used."""
    text = "; ".join(problems)
    used = "; the last good spec is in force" if previous.get("mode") else "; nothing is audited by it"
    return with_conditions(previous, [Condition(READY, False, "InvalidSpec", text + used)], generation, now)


def manifest(name: str, uid: str, status: Status) -> dict[str, Any]:
    """Return what is applied to the status subresource; the uid keeps it off another object of the same name."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name, "uid": uid}, "status": dict(status)}


def _conditions(seen: Seen) -> list[Condition]:
    ready = Condition(READY, True, "ReportsArrive", f"{_nodes(len(seen.reporting))} report")
    if not seen.reporting:
        ready = Condition(READY, False, "NoReports", "no node's agent reports: is the DaemonSet of the agents running?")
    lost = seen.lost_to
    overlap = Condition(OVERLAPPING, False, "NoOverlap", "no older policy has namespaces that this one selects")
    if lost:
        older = ", ".join(sorted(set(lost.values())))
        text = f"{_some(sorted(lost))} {'belongs' if len(lost) == 1 else 'belong'} to the older policy {older}"
        overlap = Condition(OVERLAPPING, True, "OlderPolicyWins", text)
    silent = Condition(NODES_SILENT, False, "AllNodesReport", "every node's agent reports")
    if seen.silent:
        text = f"no report for three intervals from {_some(sorted(seen.silent))}"
        silent = Condition(NODES_SILENT, True, "AgentsMissing", text)
    blocked = Condition(
        ENFORCEMENT_BLOCKED, False, "NothingRefusedLately", "no change of a limit was refused within the last hour"
    )
    if seen.enforcement.refused:
        blocked = Condition(ENFORCEMENT_BLOCKED, True, "ResizeRefused", seen.enforcement.refused)
    return [ready, overlap, silent, blocked]


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def headline(status: Status) -> object:
    """Return what is written at once when it changes; mere counters wait."""
    conditions = sorted((one["type"], one["status"], one["reason"]) for one in status.get("conditions", ()))
    done = status.get("enforcement", {})
    changed = tuple(done.get(name) for name in ("raised", "bursts", "planned"))
    last = [(one["container"], one["outcome"]) for one in done.get("actions", ())[:1]]
    return status.get("observedGeneration"), status.get("mode"), conditions, changed, last
