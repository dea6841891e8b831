"""Load-aware scores: alerts on the scorer and what it knows, and its dashboard.

kube-scheduler says nothing of an extender that fails or is late, it places pods without it: these alerts are the only
ones to see that pods go by requests again.
"""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query
from tools.monitoring.rules import Alert, AlertSeverity

_RATE = "$__rate_interval"
_NODES = f"sum by ({SOURCE}) (slack_scorer_nodes)"
_UNKNOWN = f'sum by ({SOURCE}) (slack_scorer_nodes{{state=~"Stale|NoMetrics|NoCpu|Future"}})'
_SLOW_SECONDS = 0.1
"""Half of the 200 ms that the scheduler waits."""


def _slowest(window: str) -> str:
    buckets = f'rate(slack_scorer_handler_seconds_bucket{{verb="prioritize"}}[{window}])'
    return f"histogram_quantile(0.99, sum by (le, {SOURCE}) ({buckets}))"


ALERTS = (
    Alert(
        "ResourceSlackScoringFallsBack",
        f"max by ({SOURCE}) (slack_scorer_falling_back) == 1",
        AlertSeverity.WARNING,
        "10m",
        "Pods are not placed by load, because too little of it is known",
        "The load of no node, or of fewer nodes than scorer.minMeasuredNodes, is known. Until it is, the scorer places "
        "pods by requests or scores all nodes the same.",
    ),
    Alert(
        "ResourceSlackScorerSlow",
        f"{_slowest('5m')} > {_SLOW_SECONDS:g}",
        AlertSeverity.WARNING,
        "10m",
        "The scorer answers late",
        "One answer in a hundred takes {{ $value | humanizeDuration }} and more. The scheduler waits 200 ms, and then "
        "places the pod without it.",
    ),
    Alert(
        "ResourceSlackLoadStale",
        f"{_UNKNOWN} > 0.1 * {_NODES} unless max by ({SOURCE}) (slack_scorer_falling_back) == 1",
        AlertSeverity.WARNING,
        "15m",
        "The load of many nodes is not known",
        "Of {{ $value }} nodes, more than a tenth, metrics are missing, older than five minutes or from the future. "
        "They get the minimum and pods go elsewhere.",
    ),
    Alert(
        "ResourceSlackLoadUnmatched",
        f"max by ({SOURCE}) (slack_scorer_unmatched_names) > 0",
        AlertSeverity.INFO,
        "15m",
        "Metrics name nodes that the cluster does not have",
        "{{ $value }} names in the load watcher's figures are no node's name, host name or address.",
    ),
    Alert(
        "ResourceSlackScorerAbsent",
        "absent(slack_scorer_build_info)",
        AlertSeverity.WARNING,
        "10m",
        "The scorer is not scraped",
        "No scorer is running, or Prometheus does not scrape it. Pods with its schedulerName wait while none runs.",
    ),
)


def _decision_panels() -> tuple[Panel, ...]:
    states = f"max by ({SOURCE}, state) (slack_scorer_nodes)"
    return (
        Panel(
            "Nodes by what is known of their load",
            "All but Measured and New get the minimum. If too few are measured, load does not decide.",
            (Query(f"sum by (state) ({states})", "{{state}}"),),
            "short",
            decimals=0,
            stacked=True,
        ),
        Panel(
            "Decisions",
            "Answers to the scheduler by the rule that held.",
            (Query(f"sum by (rule) (rate(slack_scorer_decisions_total[{_RATE}]))", "{{rule}}"),),
            "reqps",
        ),
        Panel(
            "Time of an answer",
            "The slowest in a hundred, and the middle one. From 200 ms on the scheduler does without.",
            (
                Query(_slowest(_RATE), "p99"),
                Query(_slowest(_RATE).replace("0.99", "0.5"), "p50"),
            ),
            "s",
        ),
    )


def _load_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Age of the load",
            "Of the newest figure of any node. After five minutes it tells nothing.",
            (Query(f"max by ({SOURCE}) (slack_scorer_load_age_seconds)", "{{job}}"),),
            "s",
        ),
        Panel(
            "Answers by code",
            "All but 200 are pods that were placed without us.",
            (Query(f"sum by (code) (rate(slack_scorer_calls_total[{_RATE}]))", "{{code}}"),),
            "reqps",
        ),
        Panel(
            "Errors",
            "Windows that the load watcher did not give, and nodes that are not known.",
            (
                Query(f"sum by (why) (rate(slack_scorer_fetch_errors_total[{_RATE}]))", "load: {{why}}"),
                Query(f"sum(rate(slack_scorer_unknown_nodes_total[{_RATE}]))", "unknown nodes"),
            ),
            "ops",
        ),
        Panel(
            "Predicted",
            "CPU of pods that metrics do not show yet, on all nodes.",
            (Query(f"max by ({SOURCE}) (slack_scorer_predicted_cpu_cores)", "{{job}}"),),
            "short",
            kind=PanelKind.TIMESERIES,
        ),
        Panel(
            "Series left out",
            "By the load watcher: those that cannot be believed, by why, and names that no node goes by.",
            (
                Query("sum by (reason) (slack_load_watcher_dropped_series)", "{{reason}}"),
                Query("sum(slack_load_watcher_unmatched_series)", "unmatched"),
            ),
            "short",
            decimals=0,
        ),
    )


def rows() -> tuple[PanelRow, ...]:
    """Return whether scores go by load and how quick they are, and how old the load is that they go by."""
    return (PanelRow("Decisions of the scorer", _decision_panels()), PanelRow("Figures of the load", _load_panels()))
