"""spec.objective.maxCostPerHour by the operator's prices, where a policy has no prices of its own.

With prices of its own (spec.objective.prices) the learner keeps the bound. Where nobody knows a price nothing would
bound the amount, so the objective does not decide: the rate holds, as while too little has been seen, and Ready has it.
"""

from dataclasses import replace

from slack.cluster.snapshot import Snapshot
from slack.planner.domain.capacity import row
from slack.planner.domain.costs import Priced, costs_of, own_prices
from slack.planner.domain.membership import Domain
from slack.planner.objective.amount import Amount, Requests


def bounded(amount: Amount, snapshot: Snapshot, domain: Domain, nodes: Priced) -> tuple[Amount, str | None]:
    """Cut an amount to what the policy's objective may cost by the operator's prices.

    Args:
        amount: that the policy's objective asks for.
        snapshot: the cluster.
        domain: of the policy.
        nodes: of the same snapshot.

    Returns:
        the amount, and why nothing bounds it, None where something does or need not.
    """
    objective = domain.policy.spec.objective
    most = objective.max_cost_per_hour if objective is not None else None
    if most is None or own_prices(domain.policy):
        return amount, None
    now = (amount.cpu_millis, amount.memory_bytes)
    rooms = [row(snapshot, {"cpu": cpu, "memory": memory}) for cpu, memory in (now, amount.soon)]
    costs = costs_of(snapshot, domain, rooms, nodes)
    if nodes.prices and costs[0] is None:
        return amount, None  # it has no node that could cost anything
    of_now, of_soon = (None if cost is None else cost.per_hour for cost in costs)
    if of_now is None or of_soon is None:
        lack = "nobody says what nodes cost" if not nodes.prices else "no node of the policy has a price"
        said = (
            f"spec.objective.maxCostPerHour is {most:g}, and {lack}: give spec.objective.prices, or the operator's "
            "--prices (the chart's prices; for plan a file, --prices FILE); until then the rate holds"
        )
        return replace(amount, why=replace(amount.why, known=False, lacking=f"for maxCostPerHour {lack}")), said
    cut = min(most / of_now, 1.0) if of_now else 1.0
    why = replace(
        amount.why,
        price_per_hour=of_now * cut,
        bounded_by=amount.why.bounded_by if cut == 1.0 else "maxCostPerHour",
    )
    cpu, memory = _times(now, cut)
    soon = _times(amount.soon, min(most / of_soon, 1.0) if of_soon else 1.0)
    return replace(amount, cpu_millis=cpu, memory_bytes=memory, soon=soon, why=why), None


def _times(requests: Requests, share: float) -> Requests:
    return requests if share == 1.0 else (int(requests[0] * share), int(requests[1] * share))
