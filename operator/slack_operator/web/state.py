"""All that the page shows but nodes and timeline, made of the last reconciliation and the last one with figures."""

from slack.health.reasons import OPERATOR_ABSENT, advice_on
from slack.planner.model.pool import Pool
from slack_operator.capacity_buffers.buffer_serving import ServingReport
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.web.documents import BufferView, DisplacedView, PageDocument, PoolView
from slack_operator.web.load import LoadView
from slack_operator.web.page_state import About, pod_of
from slack_operator.web.policy_views import policy_views


def state_of(
    version: int,
    reconciliation: Reconciliation | None,
    figures: Reconciliation | None,
    about: About,
    *,
    now: float,
    nodes_version: int,
    port: int,
    load: LoadView | None = None,
    buffers: ServingReport | None = None,
) -> PageDocument:
    """Build the state.

    Args:
        version: of the last reconciliation.
        reconciliation: the last one.
        figures: the last one that saw the cluster; older than `reconciliation` while the view is stale.
        about: the process.
        now: Unix time.
        nodes_version: of the document of nodes that goes with it.
        port: where the page is served.
        load: how nodes' real use stands; None where no load watcher is named.
        buffers: what serving CapacityBuffers has come to; None where that is off.
    """
    observation = figures.observation if figures is not None else None
    leading = reconciliation is not None and reconciliation.leading
    pools = pool_views(figures) if figures is not None else []
    served = buffer_views(buffers) if buffers is not None and leading else []
    vacant_seconds = None if leading else about.vacant_seconds()
    return PageDocument(
        version=version,
        now=now,
        at=figures.at if figures is not None else None,
        seen=reconciliation.at if reconciliation is not None else None,
        leading=leading,
        leader=pod_of(about.leader()),
        vacant_since=None if vacant_seconds is None else now - vacant_seconds,
        vacant_remedy=advice_on(OPERATOR_ABSENT, about.namespace),
        identity=pod_of(about.identity),
        stale=(reconciliation.stale or "")
        if reconciliation is not None
        else "the first look at the cluster is not through yet",
        stale_remedy=advice_on("NotWhole", about.namespace),
        namespace=about.namespace,
        port=port,
        operator_version=about.operator_version,
        interval_seconds=about.interval_seconds,
        nodes=len(observation.snapshot.nodes.names) if observation is not None else 0,
        nodes_version=nodes_version,
        load=load,
        policies=policy_views(figures, about.namespace) if figures is not None else [],
        pools=pools[:MAX_POOLS],
        more_pools=max(0, len(pools) - MAX_POOLS),
        buffers=served[:MAX_BUFFERS],
        more_buffers=max(0, len(served) - MAX_BUFFERS),
        buffer_server=str(buffers.finding) if served and buffers is not None else "",
        displaced=_displaced_views(figures) if figures is not None and figures.leading else [],
    )


def _displaced_views(reconciliation: Reconciliation) -> list[DisplacedView]:
    recent = reconciliation.observation.displacements if reconciliation.observation is not None else ()
    return [
        DisplacedView(
            displacement.number,
            reconciliation.at - (reconciliation.clock - displacement.at),
            displacement.policy,
            displacement.cause,
            displacement.pod,
            displacement.node,
        )
        for displacement in reversed(recent)
    ]


MAX_BUFFERS = 50


def buffer_views(report: ServingReport) -> list[BufferView]:
    """Return all buffers that are served, those that lack most chunks first, then by name."""
    rows = sorted(report.buffers, key=lambda row: (row["fitting"] - row["replicas"], row["name"]))
    return [
        BufferView(
            name=row["name"],
            asked=row["asked"],
            replicas=row["replicas"],
            fitting=row["fitting"],
            reason=str(row["reason"]),
            message=row["message"],
            limits=row["limits"],
        )
        for row in rows
    ]


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
