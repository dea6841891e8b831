"""The dashboard of the start-up throttler. Agents are one a node: their figures are added up by installation."""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query

_RATE = "$__rate_interval"


def _quantile(share: float, metric: str, window: str) -> str:
    return f"histogram_quantile({share:g}, sum by (le) (rate({metric}_bucket[{window}])))"


def _slot_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Containers by state",
            "Gated containers of all nodes; those that are ready are left out.",
            (Query('sum by (state) (slack_throttler_containers{state!="ready"})', "{{state}}"),),
            "short",
            decimals=0,
            stacked=True,
        ),
        Panel(
            "Slots",
            "Taken, and all there are on nodes that have a limit.",
            (
                Query("sum(slack_throttler_slots_taken)", "taken"),
                Query("sum(slack_throttler_slots < Inf)", "all"),
            ),
            "short",
            decimals=0,
        ),
    )


def _time_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Wait for a permit",
            "From when the kubelet would have started a container.",
            (
                Query(_quantile(0.99, "slack_throttler_wait_seconds", _RATE), "p99"),
                Query(_quantile(0.5, "slack_throttler_wait_seconds", _RATE), "p50"),
            ),
            "s",
        ),
        Panel(
            "Permit to ready",
            "How long a start holds its slot. A limit that is too high makes this grow.",
            (
                Query(_quantile(0.99, "slack_throttler_start_seconds", _RATE), "p99"),
                Query(_quantile(0.5, "slack_throttler_start_seconds", _RATE), "p50"),
            ),
            "s",
        ),
    )


def _permit_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Permits",
            "By whether minRate forced them, beside those that nobody gave.",
            (
                Query(f"sum by (forced) (rate(slack_throttler_grants_total[{_RATE}]))", "forced {{forced}}"),
                Query(f"sum(rate(slack_throttler_opened_total[{_RATE}]))", "without a permit"),
                Query(f"sum by (outcome) (rate(slack_throttler_permits_total[{_RATE}]))", "key: {{outcome}}"),
            ),
            "ops",
        ),
        Panel(
            "Troubles of starts",
            "Starts that timed out, gates that were refused, permits that could not be written down.",
            (
                Query(f"sum(rate(slack_throttler_timed_out_total[{_RATE}]))", "timed out"),
                Query(f"sum(rate(slack_throttler_refused_gates_total[{_RATE}]))", "gates refused"),
                Query(f"sum(rate(slack_throttler_journal_errors_total[{_RATE}]))", "journal"),
            ),
            "ops",
        ),
    )


def _node_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Agents of the throttler",
            "Nodes by whether their agent reports, as the controller has it.",
            (Query(f"sum by (state) (max by ({SOURCE}, state) (slack_throttler_nodes))", "{{state}}"),),
            "short",
            decimals=0,
        ),
        Panel(
            "Admissions",
            "Pods that the webhook has seen, by what became of them.",
            (Query(f"sum by (outcome) (rate(slack_throttler_admissions_total[{_RATE}]))", "{{outcome}}"),),
            "reqps",
            kind=PanelKind.TIMESERIES,
        ),
    )


def rows() -> tuple[PanelRow, ...]:
    """Return who waits and for how long, what is let in without a free slot, and which agents report."""
    return (
        PanelRow("Containers that wait", (*_slot_panels(), *_time_panels())),
        PanelRow("Permits and troubles", _permit_panels()),
        PanelRow("Agents and admission", _node_panels()),
    )
