"""ActivationPools as the page shows them: what they announce, and why less is kept. Values, as the plan has them."""

from slack.planner.model.pool import Pool
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.web.documents import PoolView

MAX_POOLS = 50


def pool_views(reconciliation: Reconciliation) -> list[PoolView]:
    """Return all pools, those that announce most first."""
    if reconciliation.observation is None:
        return []
    lacking: dict[str, str] = {}
    for plan in reconciliation.items:
        for uncovered in plan.uncovered:
            lacking.setdefault(uncovered.pod, uncovered.reason)
    ordered = sorted(reconciliation.observation.pools, key=lambda pool: (-pool.slack_pods, pool.workload))
    return [_view(pool, lacking.get(str(pool.workload), "")) for pool in ordered]


def _view(pool: Pool, lacking: str) -> PoolView:
    return PoolView(
        name=f"{pool.workload.namespace}/{pool.workload.name}",
        wanted=pool.wanted,
        most=pool.most,
        announced=pool.slack_pods,
        observed=pool.observed_at_seconds,
        lacking=pool.problem or lacking,
    )
