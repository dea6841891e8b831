"""The status of a SlackPolicy: what it says, and when it is worth a write.

Amounts are rounded to three digits, so that a figure moves only when somebody would care. A condition that turns is
written at once, mere counters at most once a minute, and what has not changed never; a restarted operator goes on from
the status that is there. Values only, but for `StatusBoard`, which the planning loop owns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slack.cluster.quantity import format_cpu, format_quantity
from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.planner.outcome import Condition, ConditionType, PolicyPlan
from slack.planner.policy import API_VERSION, KIND

Status = Mapping[str, Any]

COUNTERS_SECONDS = 60.0
MAX_UNCOVERED = 16
MAX_SHAPES = 256
MAX_MESSAGE = 2048
VIEW_STALE = "ViewStale"
PREEMPTION_STUCK = "PreemptionStuck"
GOOD_WHEN_TRUE = frozenset(
    {ConditionType.READY, ConditionType.SLACK_SATISFIED, ConditionType.COVERED, ConditionType.FEASIBLE}
)
"""All other conditions are trouble when they are true."""

_KI, _MI, _GI = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Observed:
    """What the operator knows of a policy beside its plan."""

    generation: int
    displaced_total: int
    displaced_since: str
    instant_start: str | None
    extra: tuple[Condition, ...] = ()
    """Conditions of the operator's own; one that replaces a condition of the plan has its type."""


def rounded_quantity(resource: str, value: int) -> str:
    """Write an amount with three digits: `3810m`, `7.6Gi`; a whole number stays one."""
    if resource == "cpu":
        step = 10 ** max(0, len(str(abs(value))) - 3)
        return format_cpu(round(value / step) * step)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        if value >= 100 * _GI:
            return f"{round(value / _GI)}Gi"
        if value >= _GI:
            return f"{value / _GI:.1f}".removesuffix(".0") + "Gi"
        return f"{round(value / _MI)}Mi" if value >= _MI else f"{round(value / _KI)}Ki" if value else "0"
    return format_quantity(resource, value)


def quantities(vector: IntArray, resources: Iterable[str]) -> dict[str, str]:
    """Return the positive amounts of a vector as text; cpu and memory are always there."""
    return {
        name: rounded_quantity(name, int(value))
        for index, (name, value) in enumerate(zip(resources, vector, strict=True))
        if value > 0 or index in (CPU, MEMORY)
    }


def pair(vector: IntArray) -> str:
    """Return cpu and memory as the printed columns show them: `3800m/8Gi`."""
    return f"{rounded_quantity('cpu', int(vector[CPU]))}/{rounded_quantity('memory', int(vector[MEMORY]))}"


def status_of(plan: PolicyPlan, observed: Observed, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status from a plan.

    Args:
        plan: of the policy.
        observed: what else is known.
        previous: the status that is there; transition times are kept from it.
        now: RFC 3339, for conditions that turn.
    """
    replaced = {str(one.type) for one in observed.extra}
    conditions = [*(c for c in plan.conditions if str(c.type) not in replaced), *observed.extra]
    status: dict[str, Any] = {
        "observedGeneration": observed.generation,
        "summary": {
            "rate": f"{plan.rate * 100:.4g}%",
            "desired": pair(plan.desired),
            "reserved": pair(plan.reserved),
        },
        "nodes": plan.nodes,
        "rate": f"{plan.rate:g}",
        "base": quantities(plan.base, plan.resources),
        "desired": quantities(plan.desired, plan.resources),
        "planned": quantities(plan.planned, plan.resources),
        "reserved": quantities(plan.reserved, plan.resources),
        "pending": plan.pending,
        "displaced": {"total": observed.displaced_total, "since": observed.displaced_since},
        "shapes": [
            {
                "name": shape.shape.name,
                "role": str(shape.role),
                "requests": {name: format_quantity(name, amount) for name, amount in shape.shape.requests},
                "count": shape.count,
                "replicas": shape.replicas,
                "bound": shape.bound,
                "pending": shape.pending,
                "for": list(shape.workloads[:20]),
            }
            for shape in plan.shapes[:MAX_SHAPES]
        ],
        "uncovered": [{"pod": one.pod, "reason": one.reason} for one in plan.uncovered[:MAX_UNCOVERED]],
        "burst": plan.burst_chunks,
        "sustained": f"{plan.sustained_chunks_per_minute:.3g}/min",
        "conditions": with_times(conditions, previous, now),
    }
    if observed.instant_start is not None:
        status["instantStart"] = observed.instant_start
    return status


def with_conditions(previous: Status, conditions: Iterable[Condition], generation: int, now: str) -> dict[str, Any]:
    """Return the status that is there with some conditions replaced: for policies that cannot be planned now."""
    conditions = list(conditions)
    replaced = {str(one.type) for one in conditions}
    kept = [
        Condition(old["type"], old["status"] == "True", old["reason"], old["message"])
        for old in previous.get("conditions", ())
        if old["type"] not in replaced
    ]
    return {
        **previous,
        "observedGeneration": generation,
        "conditions": with_times([*kept, *conditions], previous, now),
    }


def with_times(conditions: Iterable[Condition], previous: Status, now: str) -> list[dict[str, Any]]:
    """Return conditions as the API has them; the time of one that did not turn is kept."""
    known = {old["type"]: old for old in previous.get("conditions", ())}
    result = []
    for one in conditions:
        text = str(one.status)
        old = known.get(str(one.type))
        since = old["lastTransitionTime"] if old is not None and old["status"] == text else now
        result.append(
            {
                "type": str(one.type),
                "status": text,
                "reason": one.reason or "Unknown",
                "message": one.message[:MAX_MESSAGE],
                "lastTransitionTime": since,
            }
        )
    return result


def turned(previous: Status, status: Status) -> list[dict[str, Any]]:
    """Return the conditions that have another status or reason than before; new ones only when they are trouble."""
    known = {old["type"]: (old["status"], old["reason"]) for old in previous.get("conditions", ())}
    return [
        one
        for one in status.get("conditions", ())
        if known.get(one["type"]) != (one["status"], one["reason"]) and (one["type"] in known or is_trouble(one))
    ]


def is_trouble(condition: Mapping[str, Any]) -> bool:
    """Whether a condition says that something is wrong."""
    return bool((condition["status"] == "True") != (condition["type"] in GOOD_WHEN_TRUE))


def not_ready(reason: str, message: str) -> Condition:
    """Give the condition that takes the place of the plan's Ready."""
    return Condition(ConditionType.READY, False, reason, message)


def rfc3339(unix_seconds: float) -> str:
    """Write a time as the API does, in whole seconds."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def manifest(name: str, uid: str, status: Status) -> dict[str, Any]:
    """Return what is applied to the status subresource; the uid keeps it off another object of the same name."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name, "uid": uid}, "status": dict(status)}


@dataclass(slots=True)
class _Written:
    status: Status
    at: float
    displaced_before: int
    """What the status had counted before this process did."""
    since: str


class StatusBoard:
    """What stands in each policy's status, and whether the next one is worth a write."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def open(self, uid: str, seen: Status, now: str) -> Status:
        """Return what stands in the status; for a policy that is new to this process, what our watch showed."""
        if uid not in self._written:
            displaced = seen.get("displaced") or {}
            before, since = int(displaced.get("total") or 0), str(displaced.get("since") or now)
            self._written[uid] = _Written(dict(seen), float("-inf"), before, since)
        return self._written[uid].status

    def displaced(self, uid: str, counted: int) -> tuple[int, str]:
        """Return the total to show, and since when it is counted."""
        written = self._written[uid]
        return written.displaced_before + counted, written.since

    def due(self, uid: str, status: Status, now: float) -> bool:
        """Whether to write now (monotonic seconds)."""
        written = self._written[uid]
        if _plain(status) == _plain(written.status):
            return False
        return _headline(status) != _headline(written.status) or now - written.at >= COUNTERS_SECONDS

    def written(self, uid: str, status: Status, now: float) -> None:
        """It was written."""
        self._written[uid].status = status
        self._written[uid].at = now

    def keep_only(self, uids: set[str]) -> None:
        """Forget policies that are no more."""
        self._written = {uid: one for uid, one in self._written.items() if uid in uids}


def _headline(status: Status) -> object:
    conditions = sorted((c["type"], c["status"], c["reason"]) for c in status.get("conditions", ()))
    return status.get("observedGeneration"), conditions


def _plain(status: Status) -> object:
    """The status as it compares: the API server keeps no order among what it treats as a map."""
    return {
        **status,
        "conditions": sorted(status.get("conditions", ()), key=lambda one: str(one["type"])),
        "shapes": sorted(status.get("shapes", ()), key=lambda one: str(one["name"])),
    }
