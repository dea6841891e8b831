"""Policies as the page shows them, made of their plans. Values only: the plan has said all of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from slack.cluster.hold import Hold
from slack.cluster.quantity import format_quantity, format_rounded
from slack.cluster.snapshot import CPU, MEMORY
from slack.cluster.start_sketch import bytes_text
from slack.health.reasons import advice_on
from slack.health.states import slack_state
from slack.planner.model.cost import PlanCost
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.process.reasons import Level
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.report.status import (
    MAX_UNCOVERED,
    lasting,
    pair,
    rate_text,
    whole_nodes,
    why_of,
    with_update_times,
)
from slack_operator.runtime.conditions import rfc3339, with_times
from slack_operator.web.documents import (
    AmountView,
    ConditionView,
    CostView,
    PolicyView,
    ShapeView,
    SlackView,
    TimeToReadyView,
    UncoveredView,
    WorkloadStartsView,
)
from slack_operator.web.words import condition_text, level_of

MAX_SHAPES = 32
MAX_WORKLOADS = 5


def policy_views(reconciliation: Reconciliation, namespace: str) -> list[PolicyView]:
    """Return every policy by name, those whose spec cannot be used with their conditions alone."""
    planned = [
        _policy(
            item,
            reconciliation,
            namespace,
            seen=planned.entry.status,
            built_in=not planned.entry.uid,
            unbound=planned.policy.form.hold is Hold.UNBOUND,
        )
        for planned, item in zip(reconciliation.planned_policies, reconciliation.items, strict=True)
    ]
    refused = []
    for entry in reconciliation.invalid:
        extra = reconciliation.extra.get(entry.name, ())
        conditions = _conditions(extra, entry.status, reconciliation.at, namespace)
        refused.append(PolicyView(name=entry.name, slack=_slack(conditions, namespace), conditions=conditions))
    return sorted([*planned, *refused], key=lambda policy: policy.name)


def _policy(
    plan: PolicyPlan,
    reconciliation: Reconciliation,
    namespace: str,
    *,
    seen: Mapping[str, object],
    built_in: bool,
    unbound: bool,
) -> PolicyView:
    extra = reconciliation.extra.get(plan.policy, ())
    replaced = {str(condition.type) for condition in extra}
    conditions = [*(condition for condition in plan.conditions if str(condition.type) not in replaced), *extra]
    counts = reconciliation.observation.displaced if reconciliation.observation is not None else {}
    ready = all(condition.status for condition in conditions if condition.type == ConditionType.READY)
    views = _conditions(conditions, seen, reconciliation.at, namespace)
    return PolicyView(
        name=plan.policy,
        built_in=built_in,
        unbound=unbound,
        dry_run=plan.dry_run,
        planned=True,
        ready=ready,
        satisfied=all(condition.status for condition in conditions if condition.type == ConditionType.SLACK_SATISFIED),
        idle=_idle(plan, reconciliation, ready=ready, built_in=built_in),
        rate=plan.rate,
        nodes=plan.nodes,
        amounts=_amount_views(plan),
        bound=sum(shape.bound for shape in plan.shapes),
        pending=plan.pending,
        burst=plan.burst_chunks,
        instant=reconciliation.instant.get(plan.policy),
        objective=plan.why.objective if plan.why is not None and plan.why.known else None,
        why=why_of(plan) or _why_by_rate(plan),
        spared=reconciliation.spared.get(plan.policy, ""),
        time_to_ready=_time_to_ready(plan.policy, reconciliation),
        cost=_cost(plan.reserved_cost),
        surplus="" if plan.surplus is None else plan.surplus.text(plan.resources, reconciliation.at),
        buffered="" if plan.buffered is None else pair(plan.buffered),
        displaced={cause: count for (policy, cause), count in sorted(counts.items()) if policy == plan.policy},
        limit=", ".join(map(str, plan.limits)),
        slack=_slack(views, namespace),
        conditions=views,
        shapes=_shape_views(plan),
        more_shapes=max(0, len(plan.shapes) - MAX_SHAPES),
        uncovered=[UncoveredView(pod.pod, pod.reason) for pod in plan.uncovered[:MAX_UNCOVERED]],
        more_uncovered=max(0, len(plan.uncovered) - MAX_UNCOVERED),
    )


def _amount_views(plan: PolicyPlan) -> list[AmountView]:
    """Return the amounts of CPU and memory, and of other resources that slack has to do with."""
    return [
        AmountView(name, int(desired), int(planned), int(reserved))
        for name, desired, planned, reserved in zip(
            plan.resources, plan.desired, plan.planned, plan.reserved, strict=True
        )
        if name in ("cpu", "memory") or desired or planned or reserved
    ]


def _shape_views(plan: PolicyPlan) -> list[ShapeView]:
    return [
        ShapeView(
            name=shape.shape.name,
            role=str(shape.role),
            requests={name: format_quantity(name, amount) for name, amount in shape.shape.requests if amount},
            count=shape.count,
            bound=shape.bound,
            pending=shape.pending,
            workloads=list(shape.workloads[:MAX_WORKLOADS]),
            retiring=shape.retiring,
            unbound=shape.shape.form.hold is Hold.UNBOUND,
        )
        for shape in plan.shapes[:MAX_SHAPES]
    ]


def _time_to_ready(policy: str, reconciliation: Reconciliation) -> TimeToReadyView | None:
    found = reconciliation.times_to_ready.get(policy)
    if found is None:
        return None
    figures, slowest = found
    return TimeToReadyView(
        figures.pods,
        figures.ready_p50_seconds,
        figures.ready_p99_seconds,
        str(figures),
        [
            WorkloadStartsView(
                workload=str(workload),
                pods=own.pods,
                bound=own.bound_seconds,
                image=own.image_seconds,
                started=own.started_seconds,
                ready=own.ready_seconds,
                p99=own.ready_p99_seconds,
                pulled=bytes_text(own.pulled_bytes) if own.pulled_bytes else "",
            )
            for workload, own in slowest
        ],
    )


def _cost(cost: PlanCost | None) -> CostView | None:
    if cost is None:
        return None
    return CostView(str(cost), cost.nodes, cost.per_hour, cost.currency, cost.node_per_hour)


def _why_by_rate(plan: PolicyPlan) -> str | None:
    """Say what the amount is a share of; more than the rate stands for a floor, less for a ceiling."""
    if plan.rate <= 0 or plan.replicas is not None or whole_nodes(plan) is not None or not any(plan.base):
        return None
    cpu, memory = (format_rounded(name, int(plan.base[row])) for row, name in ((CPU, "cpu"), (MEMORY, "memory")))
    return f"it is {rate_text(plan)} of the {cpu} cpu and {memory} memory that {plan.pods} pods request"


def _idle(plan: PolicyPlan, reconciliation: Reconciliation, *, ready: bool, built_in: bool) -> str:
    """Say why a plan has nothing to keep room for, '' when it has something.

    A policy that somebody wrote and that has none of the nodes that are there is no such case: its labels may be wrong.
    """
    nodes = len(reconciliation.observation.snapshot.nodes.names) if reconciliation.observation is not None else 0
    if plan.shapes or any(plan.desired):
        return ""
    if nodes == 0:
        return "the cluster has no node"
    if plan.nodes == 0 and built_in:
        return "no node of the cluster can be used"
    if ready and plan.nodes and plan.rate > 0 and not _has_pods(plan.policy, reconciliation):
        return "the policy's nodes run no pod with requests"
    return ""


def _has_pods(policy: str, reconciliation: Reconciliation) -> bool:
    if reconciliation.observation is None:
        return False
    nodes = reconciliation.observation.snapshot.nodes
    rows = [row for row, name in enumerate(nodes.names) if reconciliation.policy_of_node.get(name) == policy]
    return bool(nodes.real[rows].any())


def _slack(conditions: Sequence[ConditionView], namespace: str) -> SlackView:
    state = slack_state(
        (
            (condition_text.type, condition_text.reason, is_trouble(condition_text.type, condition_text.status))
            for condition_text in conditions
        ),
        namespace,
    )
    return SlackView(state.name, state.words, state.remedy, state.calm)


def _conditions(
    conditions: Sequence[StatusCondition], seen: Mapping[str, object], at: float, namespace: str
) -> list[ConditionView]:
    """Give conditions as status has them; times are those that stand there."""
    now = rfc3339(at)
    shown = with_update_times(lasting(with_times(conditions, seen, now), seen, now), seen, now)
    return [_condition(condition, namespace) for condition in shown]


def _condition(condition: Mapping[str, Any], namespace: str) -> ConditionView:
    kind, status, name = condition["type"], condition["status"], condition["reason"]
    level = level_of(kind, status, name)
    return ConditionView(
        type=kind,
        status=status,
        said=condition_text(kind, status),
        level=level,
        reason=name,
        message=condition["message"],
        since=condition["lastUpdateTime"],
        remedy=None if level is Level.GOOD else advice_on(name, namespace) or None,
    )
