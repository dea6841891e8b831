"""The status of a SlackPolicy: what it says, and when it is worth a write.

Amounts are rounded to three digits, so that a figure moves only when somebody would care. While placeholders move, and
when a condition turns, a policy is written at most once in two seconds, but for the news that all of its capacity is
there; mere counters at most once a minute, and what has not changed every few minutes, so that its age shows whether an
operator is there; a restarted operator goes on from the status that is there. Values only, but for `StatusBoard`, which
the planning loop owns.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from slack.cluster.quantity import format_quantity, format_rounded
from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.documents.slackpolicy_status import (
    SlackPolicyStatus,
    StatusCost,
    StatusCut,
    StatusDisplaced,
    StatusHold,
    StatusObjective,
    StatusShape,
    StatusSpared,
    StatusSummary,
    StatusSurplus,
    StatusTimeToReady,
    StatusUncovered,
)
from slack.health.reasons import REFILL_LASTS, REFILLING
from slack.health.states import slack_state
from slack.planner.model.cost import PlanCost, figure
from slack.planner.model.result import ConditionType, PolicyPlan, ShapePlan
from slack.planner.model.surplus import Surplus
from slack.planner.model.wanted_by import Source
from slack.planner.objective.amount import SizingReason
from slack.planner.objective.why_text import why_text
from slack.planner.policy.scale import selector_of
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.placeholders.conditions import STALLED
from slack_operator.placeholders.report.saved_waits import SavedWait
from slack_operator.runtime.conditions import Status, rfc3339, with_times

COUNTERS_SECONDS = 60.0
MOVING_SECONDS = 2.0
"""Between two writes of a policy: 300 in ten minutes."""
SATISFIED_SECONDS = 120.0
"""Somebody waits for the news that all capacity is there, so it is written at once; so often again at the most."""
_SECONDS_A_POLICY = 0.05
"""Of so many policies that all of them cannot be written in two seconds each has its turn later: 20 writes a second."""
HEARTBEAT_SECONDS = 300.0
"""A status that says nothing new is written after so long at most, as a kubelet writes that of its node: `observedTime`
of an older one shows everybody that no operator keeps it up, also those who may see neither lease nor pods."""
_HEARTBEAT_SPREAD = 0.2
"""Policies that were created together are written apart: each somewhat sooner."""
MAX_UNCOVERED = 16
MAX_CUT = 16
MAX_SHAPES = 256
STALLED_SECONDS = 30.0
"""How long Ready is false before tools are told that waiting is in vain: a PriorityClass of the same
`kubectl apply` may come a moment after its policy."""
STALLED_AT_ONCE = frozenset({"InvalidSpec"})
"""Reasons that no waiting ends."""
REFILL_SECONDS = 900.0
"""A refill that has not been through for so long is an alarm, though no single placeholder waits long: more is taken
than comes back, or nobody makes the pods. As long as the alert ResourceSlackNotSatisfied waits."""
NOT_OBSERVED = -1
"""status.observedGeneration before anything was planned; the CRD has it too, for a policy without a status."""


@dataclass(frozen=True, slots=True)
class PolicyObservation:
    """What the operator knows of a policy beside its plan."""

    generation: int
    policy_generation: int
    """What the plan is of; not `generation` while the present spec cannot be used."""
    displaced_total: int
    displaced_since: str
    instant_start: str | None
    extra: tuple[StatusCondition, ...] = ()
    """Conditions of the operator's own; one that replaces a condition of the plan has its type."""
    spared: StatusSpared | None = None
    hold: StatusHold | None = None
    time_to_ready: StatusTimeToReady | None = None


def cost_status(cost: PlanCost, planned: PlanCost | None) -> StatusCost:
    """Return what is held now costs; figures have three digits, so that few writes say it.

    Args:
        cost: of the placeholders whose capacity is on a node, as the metric has it.
        planned: of all of them, which the text adds where that differs.
    """
    now, then = str(cost), "" if planned is None else str(planned)
    priced = cost.per_hour is not None and cost.per_month is not None
    return StatusCost(
        node_hours_per_hour=figure(cost.nodes),
        node_hours_per_month=figure(cost.nodes_per_month),
        currency=(cost.currency or None) if cost.per_hour is not None else None,
        per_hour=figure(cost.per_hour) if priced and cost.per_hour is not None else None,
        per_month=figure(cost.per_month) if priced and cost.per_month is not None else None,
        unpriced_nodes=cost.unpriced_nodes or None,
        text=now if then in ("", now) else f"{now} now; {then} as planned",
    )


def surplus_status(surplus: Surplus, resources: Sequence[str], now: str) -> StatusSurplus:
    """Return what is held beyond the plan.

    Args:
        surplus: what is held.
        resources: names of its amounts.
        now: RFC 3339.
    """
    amounts = zip(resources, surplus.amount, strict=True)
    due = surplus.removal_seconds
    return StatusSurplus(
        amounts={name: format_rounded(name, int(value)) for name, value in amounts if value},
        removal_time=None if due is None else rfc3339(due),
        text=surplus.text(resources, datetime.fromisoformat(now).timestamp()),
    )


def spared_status(spared: SavedWait | None, previous: Status) -> StatusSpared | None:
    """Return what was spared; before anything was since the start, what the status that is there says."""
    if spared is None:
        return msgspec.convert(previous.get("spared"), StatusSpared | None)
    return StatusSpared(pods=spared.pods, seconds=round(spared.total_seconds), text=str(spared))


def quantities(vector: IntArray, resources: Iterable[str]) -> dict[str, str]:
    """Return the positive amounts of a vector as text; cpu and memory are always there."""
    return {
        name: format_rounded(name, int(value))
        for index, (name, value) in enumerate(zip(resources, vector, strict=True))
        if value > 0 or index in (CPU, MEMORY)
    }


def pair(vector: IntArray) -> str:
    """Return cpu and memory as the printed columns show them: `3800m/8Gi`."""
    return f"{format_rounded('cpu', int(vector[CPU]))}/{format_rounded('memory', int(vector[MEMORY]))}"


def status_of(plan: PolicyPlan, observed: PolicyObservation, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status from a plan.

    Args:
        plan: of the policy.
        observed: what else is known.
        previous: the status that is there; transition times are kept from it.
        now: RFC 3339, for conditions that turn.
    """
    replaced = {str(condition.type) for condition in observed.extra}
    planned = [condition for condition in plan.conditions if str(condition.type) not in replaced]
    resources = plan.resources
    status = SlackPolicyStatus(
        observed_generation=observed.generation,
        summary=StatusSummary(rate=rate_text(plan), desired=pair(plan.desired), reserved=pair(plan.reserved)),
        nodes=plan.nodes,
        rate=f"{plan.rate:g}",
        base=quantities(plan.base, resources),
        desired=quantities(plan.desired, resources),
        limit=", ".join(map(str, plan.limits)) or None,
        planned=quantities(plan.planned, resources),
        reserved=quantities(plan.reserved, resources),
        buffered=None if plan.buffered is None else quantities(plan.buffered, resources),
        surplus=None if plan.surplus is None else surplus_status(plan.surplus, resources, now),
        pending=plan.pending,
        displaced=StatusDisplaced(total=observed.displaced_total, since=observed.displaced_since),
        replicas=plan.replicas,
        selector=selector_of(plan.policy),
        shapes=[_shape(shape) for shape in plan.shapes[:MAX_SHAPES]],
        uncovered=[StatusUncovered(pod=pod.pod, reason=pod.reason) for pod in plan.uncovered[:MAX_UNCOVERED]],
        cut=[
            StatusCut(workload=str(cut), asked=cut.asked, granted=cut.granted, reason=cut.reason)
            for cut in plan.cut[:MAX_CUT]
        ],
        objective=None if plan.why is None else objective_status(plan.why, plan.desired),
        cost=None if plan.reserved_cost is None else cost_status(plan.reserved_cost, plan.cost),
        hold=observed.hold,
        spared=observed.spared,
        burst=plan.burst_chunks,
        sustained=f"{plan.sustained_chunks_per_minute:.3g}/min",
        instant_start=observed.instant_start,
        time_to_ready=observed.time_to_ready,
    )
    return status.document() | {
        "conditions": [
            *lasting(with_times(planned, previous, now, observed.policy_generation), previous, now),
            *with_times(observed.extra, previous, now, observed.generation),
        ]
    }


def _shape(shape: ShapePlan) -> StatusShape:
    return StatusShape(
        name=shape.shape.name,
        role=str(shape.role),
        requests={name: format_quantity(name, amount) for name, amount in shape.shape.requests},
        count=shape.count,
        replicas=shape.replicas,
        bound=shape.bound,
        pending=shape.pending,
        for_=list(shape.workloads[:20]),
    )


def lasting(conditions: Iterable[dict[str, Any]], previous: Status, stamp: str) -> list[dict[str, Any]]:
    """Return conditions in which a refill that is never through has a reason of its own.

    Args:
        conditions: as the API has them.
        previous: the status that is there; a refill counts from when it had this reason first.
        stamp: now, RFC 3339.
    """
    known = {old["type"]: old for old in previous.get("conditions", ())}
    now = datetime.fromisoformat(stamp).timestamp()
    return [
        {**said, "reason": REFILL_LASTS} if _refills_long(said, known.get(said["type"]), now) else said
        for said in conditions
    ]


def _refills_long(said: Mapping[str, Any], old: Mapping[str, Any] | None, now: float) -> bool:
    if said["reason"] != REFILLING or old is None or old["status"] != said["status"]:
        return False
    since = datetime.fromisoformat(reason_time(old)).timestamp()
    return old["reason"] == REFILL_LASTS or (old["reason"] == REFILLING and now - since >= REFILL_SECONDS)


def reason_time(condition: Mapping[str, Any]) -> str:
    """Return since when a condition has its reason; conditions of earlier versions name that of their status only."""
    return str(condition.get("lastUpdateTime") or condition["lastTransitionTime"])


def with_update_times(conditions: Iterable[dict[str, Any]], previous: Status, now: str) -> list[dict[str, Any]]:
    """Return conditions that also say since when they have their reason, as those of a Deployment do.

    `lastTransitionTime` stays where only the reason turns: what has just begun would look as old as what was before it.

    Args:
        conditions: as the API has them.
        previous: the status that is there.
        now: RFC 3339.
    """
    known = {old["type"]: old for old in previous.get("conditions", ())}
    result = []
    for said in conditions:
        old = known.get(said["type"])
        same = old is not None and (old["status"], old["reason"]) == (said["status"], said["reason"])
        result.append({**said, "lastUpdateTime": reason_time(old) if old is not None and same else now})
    return result


def with_state(status: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a status whose summary says how the slack is, by its conditions.

    Args:
        status: with all its conditions.
        namespace: of the placeholders, for what to do.
    """
    state = slack_state(
        (
            (str(said["type"]), str(said["reason"]), is_trouble(str(said["type"]), str(said["status"])))
            for said in status["conditions"]
        ),
        namespace,
    )
    rest = {name: text for name, text in status.get("summary", {}).items() if name not in ("state", "remedy")}
    remedy = {"remedy": state.remedy} if state.remedy else {}
    return {**status, "summary": {"state": state.column, **remedy, **rest}}


def rate_text(plan: PolicyPlan) -> str:
    """Return the rate in force, or the objective or number of whole nodes that has taken its place."""
    if plan.why is not None and plan.why.known:
        return f"for {plan.why.objective * 100:.4g}%"
    nodes = whole_nodes(plan)
    if nodes is not None:
        return "1 node" if nodes == 1 else f"{nodes} nodes"
    return f"{plan.rate * 100:.4g}%"


def whole_nodes(plan: PolicyPlan) -> int | None:
    """Return the number of whole nodes that a policy asks for; None where something else sets its amount."""
    return next((field.replicas for field in plan.wanted_by if field.source is Source.NODES), None)


def why_of(plan: PolicyPlan) -> str | None:
    """Return why this much is kept; None without an objective."""
    return None if plan.why is None else why_text(plan.why, pair(plan.desired))


def objective_status(why: SizingReason, desired: IntArray) -> StatusObjective:
    """Return what an objective's amount follows from; figures are rounded, so that few writes say the same."""
    reached = why.share_today
    return StatusObjective(
        instant_start=f"{why.objective * 100:.4g}%",
        reached=None if reached is None else f"{math.floor(reached * 1000) / 10:g}%",
        started=why.started_today,
        late=why.late_today,
        quantile=f"{why.quantile * 100:.3g}%" if why.known else None,
        window=f"{round(why.window_seconds / 5) * 5}s",
        pattern=why.pattern,
        price_per_hour=None if why.price_per_hour is None else f"{why.price_per_hour:.3g}",
        why=why_text(why, pair(desired)),
    )


@dataclass(slots=True)
class _Written:
    status: Status
    at: float
    displaced_before: int
    """What the status had counted before this process did."""
    since: str
    heartbeat_at: float
    """When it is written again though it says nothing new. Monotonic."""
    trouble: int | None = None
    """Generation of a Ready that is false."""
    trouble_since: float = 0.0
    satisfied_at: float = float("-inf")
    """When it was last written that all capacity is there, and had not been before. Monotonic."""


class StatusBoard:
    """What stands in each policy's status, and whether the next one is worth a write."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def open(self, uid: str, seen: Status, stamp: str, now: float) -> Status:
        """Return what stands in the status; for a policy that is new to this process, what our watch showed.

        Args:
            uid: of the policy.
            seen: the status that our watch showed.
            stamp: now, RFC 3339.
            now: monotonic seconds.
        """
        if uid not in self._written:
            displaced = seen.get("displaced") or {}
            before, since = int(displaced.get("total") or 0), str(displaced.get("since") or stamp)
            age = _age_seconds(seen, stamp)
            self._written[uid] = _Written(dict(seen), float("-inf"), before, since, now - age + _heartbeat_seconds(uid))
        return self._written[uid].status

    def displaced(self, uid: str, counted: int) -> tuple[int, str]:
        """Return the total to show, and since when it is counted."""
        written = self._written[uid]
        return written.displaced_before + counted, written.since

    def judged(self, uid: str, status: dict[str, Any], now: float, stamp: str) -> dict[str, Any]:
        """Return a status with Stalled in it where Ready has been false for a while, and without it elsewhere.

        Args:
            uid: of the policy.
            status: without the judgement.
            now: monotonic seconds.
            stamp: the same as RFC 3339.
        """
        written = self._written[uid]
        before = condition_of(written.status, STALLED)
        ready = condition_of(status, ConditionType.READY)
        conditions = [condition for condition in status["conditions"] if condition["type"] != STALLED]
        if ready is None or ready["status"] != "False":
            written.trouble = None
            return {**status, "conditions": conditions}
        trouble = int(ready.get("observedGeneration") or 0)
        if trouble != written.trouble:
            known = before is not None and before.get("observedGeneration") == trouble
            written.trouble, written.trouble_since = trouble, float("-inf") if known else now
        if ready["reason"] in STALLED_AT_ONCE or now - written.trouble_since >= STALLED_SECONDS:
            since = stamp if before is None else before["lastTransitionTime"]
            conditions.append({**ready, "type": STALLED, "status": "True", "lastTransitionTime": since})
        return {**status, "conditions": conditions}

    def due_in(self, uid: str, status: Status, now: float) -> float | None:
        """Return the seconds until a status is worth a write; None while it says nothing new and is not old.

        Args:
            uid: of the policy.
            status: what would be written.
            now: monotonic seconds.
        """
        written = self._written[uid]
        if _plain(status) == _plain(written.status):
            return 0.0 if now >= written.heartbeat_at else None
        news = _is_satisfied(status) and not _is_satisfied(written.status)
        if news and now - written.satisfied_at >= max(SATISFIED_SECONDS, _SECONDS_A_POLICY * len(self._written)):
            return 0.0
        moving = _moves(status) or _moves(written.status) or _moved(status) != _moved(written.status)
        between = max(MOVING_SECONDS, _SECONDS_A_POLICY * len(self._written)) if moving else COUNTERS_SECONDS
        return max(written.at + between - now, 0.0)

    def written(self, uid: str, status: Status, now: float) -> None:
        """It was written."""
        written = self._written[uid]
        if _is_satisfied(status) and not _is_satisfied(written.status):
            written.satisfied_at = now
        written.status, written.at, written.heartbeat_at = status, now, now + _heartbeat_seconds(uid)

    def keep_only(self, uids: set[str]) -> None:
        """Forget policies that are no more."""
        self._written = {uid: written for uid, written in self._written.items() if uid in uids}


def _heartbeat_seconds(uid: str) -> float:
    """Return the time between two heartbeats of a policy, which is its own."""
    return HEARTBEAT_SECONDS * (1 - _HEARTBEAT_SPREAD * (zlib.crc32(uid.encode()) % 1000) / 1000)


def _age_seconds(seen: Status, stamp: str) -> float:
    """Return how old a status is by its `observedTime`; one that has none, or one of the future, is written soon."""
    try:
        age = (datetime.fromisoformat(stamp) - datetime.fromisoformat(str(seen.get("observedTime")))).total_seconds()
    except (ValueError, TypeError):
        return HEARTBEAT_SECONDS
    return age if age >= 0 else HEARTBEAT_SECONDS


def condition_of(status: Status, kind: str) -> Mapping[str, Any] | None:
    """Return a status's condition of a type."""
    return next((condition for condition in status.get("conditions", ()) if condition["type"] == kind), None)


def _is_satisfied(status: Status) -> bool:
    """Whether all planned capacity is there."""
    condition = condition_of(status, ConditionType.SLACK_SATISFIED)
    return condition is not None and condition["status"] == "True"


def _moves(status: Status) -> bool:
    """Whether a policy's slack is on the move, or its operator not content: then people look at each figure."""
    if status.get("pending"):
        return True
    wanted = (condition_of(status, kind) for kind in (ConditionType.READY, ConditionType.SLACK_SATISFIED))
    return any(condition is not None and condition["status"] != "True" for condition in wanted)


def _moved(status: Status) -> object:
    """Return what tells people that something has happened, where it differs."""
    conditions = sorted((c["type"], c["status"], c["reason"]) for c in status.get("conditions", ()))
    placeholders = sorted((s["name"], s.get("replicas"), s.get("bound")) for s in status.get("shapes", ()))
    displaced = (status.get("displaced") or {}).get("total", 0)
    # HPAs wait for the replicas
    form = (status.get("hold") or {}).get("form")
    return status.get("observedGeneration"), status.get("replicas"), form, displaced, placeholders, conditions


def _plain(status: Status) -> object:
    """The status as it compares: the API server keeps no order among what it treats as a map."""
    return {
        **status,
        "observedTime": "",
        "conditions": sorted(status.get("conditions", ()), key=lambda condition: str(condition["type"])),
        "shapes": sorted(status.get("shapes", ()), key=lambda shape: str(shape["name"])),
    }
