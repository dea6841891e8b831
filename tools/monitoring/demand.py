"""The dashboard of container pools.

Only the leader has figures of pools, and their `namespace` is the pool's own (scraped with `honorLabels`); what is of
the process itself has the namespace that it runs in.
"""

from tools.monitoring.panels import Panel, PanelRow, Query

_RATE = "$__rate_interval"
_POOL = "cluster, job, namespace, pool"


def _of_pools(metric: str, matchers: str = "") -> str:
    return f"max by ({_POOL}) (demand_{metric}{matchers})"


def _of_pools_and(label: str, metric: str) -> str:
    return f"max by ({_POOL}, {label}) (demand_{metric})"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share:g}, sum by (le) (rate(demand_{metric}_bucket[{_RATE}])))"


def _queue_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Messages",
            "Of all queues, by whether they wait or are run.",
            (Query(f"sum by (state) ({_of_pools_and('state', 'queue_messages')})", "{{state}}"),),
            "short",
            decimals=0,
            stacked=True,
        ),
        Panel(
            "Oldest message",
            "Of the ten pools whose messages have waited longest.",
            (Query(f"topk(10, {_of_pools('oldest_message_seconds')})", "{{namespace}}/{{pool}}"),),
            "s",
        ),
    )


def _container_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Containers of pools",
            "By state.",
            (Query(f"sum by (state) ({_of_pools_and('state', 'containers')})", "{{state}}"),),
            "short",
            decimals=0,
            stacked=True,
        ),
        Panel(
            "Containers wanted",
            "By all pools; those that no node has room for; and what slack is asked to hold for bursts.",
            (
                Query(f"sum({_of_pools('wanted')})", "wanted"),
                Query(f"sum({_of_pools('unmet')})", "unmet"),
                Query(f"sum({_of_pools('slack_pods')})", "for slack"),
            ),
            "short",
            decimals=0,
        ),
        Panel(
            "Creations",
            "Containers that were made, by what became of them.",
            (Query(f"sum by (result) (rate(demand_creations_total[{_RATE}]))", "{{result}}"),),
            "ops",
        ),
        Panel(
            "Time to be ready",
            "From a container's creation until it can take messages.",
            (
                Query(_quantile(0.99, "creation_seconds"), "p99"),
                Query(_quantile(0.5, "creation_seconds"), "p50"),
            ),
            "s",
        ),
    )


def _run_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Runs",
            "How long messages are run, as containers report it.",
            (
                Query(_quantile(0.99, "run_seconds"), "p99"),
                Query(_quantile(0.5, "run_seconds"), "p50"),
            ),
            "s",
        ),
        Panel(
            "Containers that ended",
            "By why.",
            (Query(f"sum by (reason) (rate(demand_evictions_total[{_RATE}]))", "{{reason}}"),),
            "ops",
        ),
        Panel(
            "Refused",
            "Answers of 429, and pools that are throttled.",
            (
                Query(f"sum(rate(demand_rejected_total[{_RATE}]))", "429 a second"),
                Query(f"sum({_of_pools('throttled')})", "pools throttled"),
            ),
            "short",
        ),
        Panel(
            "Time of a tick",
            "To read all queues and decide; longer than the tick, and decisions come late.",
            (
                Query(_quantile(0.99, "tick_seconds"), "p99"),
                Query(_quantile(0.5, "tick_seconds"), "p50"),
            ),
            "s",
        ),
    )


def rows() -> tuple[PanelRow, ...]:
    """Return what waits, what there is for it, and how long runs and decisions take."""
    return (
        PanelRow("Queues", _queue_panels()),
        PanelRow("Containers of pools", _container_panels()),
        PanelRow("Runs and decisions", _run_panels()),
    )
