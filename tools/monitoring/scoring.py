"""The dashboard of the load-aware scorer."""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query

_RATE = "$__rate_interval"


def _slowest(window: str) -> str:
    buckets = f'rate(slack_scorer_handler_seconds_bucket{{verb="prioritize"}}[{window}])'
    return f"histogram_quantile(0.99, sum by (le, {SOURCE}) ({buckets}))"


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
