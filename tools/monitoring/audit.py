"""The dashboard of the CPU auditor.

Two numbers, never one: the share of throttled periods beside the time lost. A rule on periods alone, such as
CPUThrottlingHigh of kubernetes-mixin, fires where 40 % of the periods cost 0.9 % of the time, and is silent where a
pod's quota stops a container that has none; docs/cpu-audit-alerts.md has the cases.
"""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.panels import Panel, PanelKind, PanelRow, Query

_RATE = "$__rate_interval"
_WORST = 10
_LEGEND = "{{level}} {{namespace}}/{{pod}} {{container}}"
_CGROUP = "level, cluster, namespace, pod, container"


def _most(metric: str, matchers: str, labels: str) -> str:
    return f"max by ({labels}) (slack_audit_{metric}{{{matchers}}})"


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
