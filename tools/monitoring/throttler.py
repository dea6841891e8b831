"""The start-up throttler: alerts on starts that are not paced, late or held for long, and its dashboard.

Agents are one a node: their figures are added up by installation, but for whether one node stands still.
"""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query
from tools.monitoring.rules import Alert, AlertSeverity

_RATE = "$__rate_interval"
_NODE = f"{SOURCE}, instance"


def _increase(metric: str, window: str, labels: str = SOURCE) -> str:
    return f"sum by ({labels}) (increase({metric}[{window}]))"


def _permits(outcomes: str) -> str:
    return f'slack_throttler_permits_total{{outcome=~"{outcomes}"}}'


def _quantile(share: float, metric: str, window: str) -> str:
    return f"histogram_quantile({share:g}, sum by (le) (rate({metric}_bucket[{window}])))"


ALERTS = (
    Alert(
        "ResourceSlackStartsFailOpen",
        f"{_increase('slack_throttler_opened_total', '15m')} >= 1 or {_increase(_permits('opened'), '15m')} >= 1",
        AlertSeverity.WARNING,
        "1m",
        "Containers start without a permit",
        "{{ $value | humanize }} containers have started in 15 minutes because nobody heard of their agent: nothing "
        "paces their nodes. The next storm there is as without the throttler.",
    ),
    Alert(
        "ResourceSlackStartsTimeOut",
        f"{_increase('slack_throttler_timed_out_total', '30m')} >= 1",
        AlertSeverity.WARNING,
        "5m",
        "Containers are not ready in time",
        "{{ $value | humanize }} containers have held a slot for the whole of startTimeout in half an hour. Others "
        "waited for them.",
    ),
    Alert(
        "ResourceSlackStartsWaitLong",
        f'sum by ({_NODE}) (slack_throttler_containers{{state="pending"}}) > 0 unless '
        f"{_increase('slack_throttler_grants_total', '5m', _NODE)} > 0",
        AlertSeverity.WARNING,
        "10m",
        "Containers wait and none is let in",
        "{{ $value }} containers of the node behind {{ $labels.instance }} are pending, and for 15 minutes none has "
        "been given a permit.",
    ),
    Alert(
        "ResourceSlackPermitsNotWritten",
        f"{_increase(_permits('refused|failed'), '15m')} >= 1",
        AlertSeverity.WARNING,
        "5m",
        "Permits cannot be written into ConfigMaps",
        "{{ $value | humanize }} times in 15 minutes the throttler's controller could not let containers start that "
        "wait for a key of their ConfigMap. They wait on.",
    ),
    Alert(
        "ResourceSlackStartsUnpaced",
        f'max by ({SOURCE}) (slack_throttler_nodes{{state="silent"}}) > 0',
        AlertSeverity.WARNING,
        "5m",
        "Agents of the throttler are silent",
        "{{ $value }} nodes have an agent that reports no more. Starts there wait for failOpenAfter, and then are not "
        "paced.",
    ),
    Alert(
        "ResourceSlackThrottlerAbsent",
        "absent(slack_throttler_controller_build_info)",
        AlertSeverity.WARNING,
        "10m",
        "The start-up throttler's controller is not scraped",
        "No controller of the throttler is running, or Prometheus does not scrape it. While none runs, new "
        "pods get no gates.",
    ),
)


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
