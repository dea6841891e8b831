"""CPU limits: the auditor's alerts, and its dashboard.

Two numbers, never one: the share of throttled periods beside the time lost. A rule on periods alone, such as
CPUThrottlingHigh of kubernetes-mixin, fires where 40 % of the periods cost 0.9 % of the time, and is silent where a
pod's quota stops a container that has none; docs/cpu-audit-alerts.md has the cases. Thresholds are those of
`slack.audit.findings.finding.Thresholds`.
"""

from slack.audit.findings.finding import Thresholds
from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query
from tools.monitoring.rules import Alert, AlertSeverity

_AT = Thresholds()
_CONTAINER = "cluster, namespace, pod, container"
_POD = "cluster, namespace, pod"
_EACH = f"{_CONTAINER}, level"
_ABOVE = f"{_POD}, level, instance"
"""A pod's own quota, or that of a level above; of these the node is all that tells them apart."""
_BY_CONTAINER = 'level="container", window="5m"'
_BY_ABOVE = 'level=~"pod|qos|kubepods", window="5m"'
_BY_BOTH = 'level=~"pod|container", window="5m"'


def _most(metric: str, matchers: str, labels: str) -> str:
    return f"max by ({labels}) (slack_audit_{metric}{{{matchers}}})"


def _harmed_share(matchers: str, labels: str) -> str:
    """Both numbers are bad; the value is the share of time lost."""
    lost = f"{_most('time_lost_ratio', matchers, labels)} > {_AT.high_lost:g}"
    return f"{lost} and {_most('throttled_periods_ratio', matchers, labels)} > {_AT.high_ratio:g}"


_NAMED = "{{ $labels.namespace }}/{{ $labels.pod }}"

ALERTS = (
    Alert(
        "SlackCpuTimeLost",
        _harmed_share(_BY_CONTAINER, _CONTAINER),
        AlertSeverity.WARNING,
        "15m",
        f"{_NAMED} stands still for its CPU limit",
        "Container {{ $labels.container }} lost {{ $value | humanizePercentage }} of its time, and ran into its limit "
        "in more than a quarter of the enforcement periods. `resource-slack audit explain` says which limit would end "
        "it.",
    ),
    Alert(
        "SlackPodCpuTimeLost",
        f"({_harmed_share(_BY_ABOVE, _ABOVE)}) unless on ({_POD}) ({_harmed_share(_BY_CONTAINER, _CONTAINER)})",
        AlertSeverity.WARNING,
        "15m",
        "The CPU limit of a {{ $labels.level }} stops all containers below it",
        "Level {{ $labels.level }}{{ if $labels.pod }} of {{ $labels.namespace }}/{{ $labels.pod }}{{ end }} (agent "
        "{{ $labels.instance }}) lost {{ $value | humanizePercentage }} of its time. Counters of the containers below "
        "may all be zero.",
    ),
    Alert(
        "SlackCpuStops",
        f"max by ({_POD}) ({_most('stop_seconds', _BY_BOTH, _EACH)} > {_AT.stop_seconds:g} "
        f"and {_most('time_lost_ratio', _BY_BOTH, _EACH)} > {_AT.warn_lost:g}) "
        f"unless max by ({_POD}) ({_harmed_share(_BY_BOTH, _EACH)})",
        AlertSeverity.INFO,
        "15m",
        f"{_NAMED} stops for tens of milliseconds",
        "When it runs into its CPU limit it stands still for {{ $value | humanizeDuration }} in the mean, long enough "
        "for health checks and connections to fail, although it loses little time in all.",
    ),
    Alert(
        "SlackKernelQuotaBug",
        f"count by ({SOURCE}, bug) (slack_audit_kernel_affected == 1)",
        AlertSeverity.WARNING,
        "15m",
        "Kernels throttle containers below their CPU limit",
        "{{ $value }} nodes have a kernel with the CFS quota bug {{ $labels.bug }}: limits there cost more than they "
        "say.",
    ),
    Alert(
        "SlackAuditNodesSilent",
        f'max by ({SOURCE}) (slack_audit_nodes{{state="silent"}}) > 0',
        AlertSeverity.WARNING,
        "15m",
        "Nodes are not audited",
        "{{ $value }} nodes have sent the audit's controller no report for three intervals: what their limits do is "
        "in no report and no Event.",
    ),
    Alert(
        "SlackAuditTroubles",
        f'round(sum by ({SOURCE}, trouble) (increase(slack_audit_read_troubles_total{{trouble!="gone"}}[15m]))) > 10',
        AlertSeverity.INFO,
        "15m",
        "The audit cannot read cgroups",
        "{{ $value }} times in 15 minutes a cgroup was left out: {{ $labels.trouble }}. The agent's log has an "
        "example.",
    ),
    Alert(
        "SlackAuditAbsent",
        "absent(slack_audit_build_info)",
        AlertSeverity.WARNING,
        "10m",
        "The CPU auditor is not scraped",
        "No controller of the auditor is running, or Prometheus does not scrape it. Its alerts are silent meanwhile.",
    ),
)

_RATE = "$__rate_interval"
_WORST = 10
_LEGEND = "{{level}} {{namespace}}/{{pod}} {{container}}"
_CGROUP = "level, cluster, namespace, pod, container"


def _worst(expression: str) -> tuple[Query, ...]:
    return (Query(f"topk({_WORST}, {expression})", _LEGEND),)


def _figure(metric: str) -> str:
    return _most(metric, 'window="5m"', _CGROUP)


def rows() -> tuple[PanelRow, ...]:
    """Return utilisation, saturation and errors: of limits, and of the nodes under them."""
    return (
        PanelRow("Time lost to CPU limits", _saturation()),
        PanelRow("Use of CPU limits and nodes", _utilisation()),
        PanelRow("What is audited", _errors()),
    )


def _utilisation() -> tuple[Panel, ...]:
    return (
        Panel(
            "Use of the limit",
            f"CPU time used, as a share of the limit, over 5 minutes; the {_WORST} highest of all levels.",
            _worst(f"{_figure('use_cores')} / {_figure('limit_cores')}"),
            "percentunit",
            width=12,
        ),
        Panel(
            "Use of nodes",
            "CPU time used, as a share of the node's CPUs; a node with room and throttled containers has limits that "
            "are too low.",
            (Query("slack_audit_node_use_cores / slack_audit_node_cpus", "{{instance}}"),),
            "percentunit",
            width=12,
            highest=1,
        ),
    )


def _saturation() -> tuple[Panel, ...]:
    return (
        Panel(
            "Time lost to limits",
            f"Share of its time in which a cgroup stood still for a quota; the {_WORST} highest. What to look at "
            "first.",
            _worst(_figure("time_lost_ratio")),
            "percentunit",
        ),
        Panel(
            "Throttled periods",
            f"Share of enforcement periods in which a cgroup ran into its quota; the {_WORST} highest. Without time "
            "lost it is harmless.",
            _worst(_figure("throttled_periods_ratio")),
            "percentunit",
            highest=1,
        ),
        Panel(
            "Stops",
            f"Mean stop of a throttled period on each busy CPU; the {_WORST} longest. From 50 ms on health checks feel "
            "it.",
            _worst(_figure("stop_seconds")),
            "s",
        ),
        Panel(
            "Waiting for neighbours",
            f"Share of its time in which a container stood still because others had the CPU, not for a quota; the "
            f"{_WORST} highest. That is a full node; empty on cgroup v1 and without PSI.",
            _worst(_figure("neighbours_ratio")),
            "percentunit",
            width=8,
        ),
        Panel(
            "CPU pressure of nodes",
            "Share of time in which some task waited for a CPU. One throttled pod raises it: whether the node is full "
            "say the containers' neighbours. Empty where kernels have no PSI.",
            (Query(f"rate(slack_audit_node_cpu_pressure_seconds_total[{_RATE}])", "{{instance}}"),),
            "percentunit",
            width=8,
        ),
        Panel(
            "Findings",
            "By severity and level, as the controller judges them with its policies' thresholds.",
            (
                Query(
                    "max by (cluster, severity, level) (slack_audit_findings)",
                    "{{severity}} {{level}}",
                ),
            ),
            "short",
            width=8,
            decimals=0,
            stacked=True,
        ),
    )


def _errors() -> tuple[Panel, ...]:
    return (
        Panel(
            "Nodes audited",
            "Nodes whose agent reports, and those that are silent.",
            (Query(f"sum by (state) (max by ({SOURCE}, state) (slack_audit_nodes))", "{{state}}"),),
            "short",
            kind=PanelKind.STAT,
            width=6,
        ),
        Panel(
            "Kernels with a quota bug",
            "Nodes whose kernel throttles below the limit, by bug.",
            (Query("sum by (bug) (slack_audit_kernel_affected)", "{{bug}}"),),
            "short",
            kind=PanelKind.STAT,
            width=6,
            thresholds=((None, "green"), (1, "red")),
        ),
        Panel(
            "Cgroups left out",
            "A second, by why they could not be read; gone is usual, as pods end.",
            (
                Query(
                    f"sum by (trouble) (rate(slack_audit_read_troubles_total[{_RATE}]))",
                    "{{trouble}}",
                ),
            ),
            "ops",
            width=6,
        ),
        Panel(
            "Failed probes",
            f"Health checks that failed, from the kubelets; the {_WORST} pods with most. Those that stop are no "
            "surprise here.",
            (
                Query(
                    f"topk({_WORST}, sum by (cluster, namespace, pod, container, probe_type) "
                    f'(rate(prober_probe_total{{result="failed"}}[{_RATE}])) > 0)',
                    "{{namespace}}/{{pod}} {{container}} {{probe_type}}",
                ),
            ),
            "ops",
            width=6,
        ),
    )
