"""The Grafana dashboards, one per component. The operator's: is slack there, do pods start without waiting, its cost.

Those of the companions have the panels of `tools.monitoring.audit`, `.scoring`, `.throttler` and `.demand`. Each links
to the others. Queries read metrics themselves, so that a dashboard works where the recording rules are not loaded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools.monitoring import audit, demand, scoring, throttler
from tools.monitoring.expressions import BY_POLICY, INSTANT_SECONDS, SOURCE, STARTS, instant_ratio, quantile
from tools.monitoring.panels import DATASOURCE, Panel, PanelKind, PanelRow, Query, laid_out

TAG = "resource-slack"
"""By which Grafana lists the dashboards of all components."""
_HOURS_PER_MONTH = 730
_RATE = "$__rate_interval"
_WHERE = 'cluster=~"$cluster", namespace=~"$namespace"'
_JOB = f'{_WHERE}, job=~"$job"'
_CHOSEN = f'{_JOB}, policy=~"$policy"'
_IN_SLACK = f'{_CHOSEN}, in_slack="true"'
_GOOD = "Ready|SlackSatisfied|Covered|Feasible"
_RED_TO_GREEN = ((None, "red"), (0.9, "orange"), (0.99, "green"))


def _max(metric: str, labels: str = BY_POLICY, chosen: str = _CHOSEN) -> str:
    return f"max by ({labels}) ({metric}{{{chosen}}})"


def _rate(metric: str, labels: str, chosen: str = _CHOSEN) -> str:
    return f"sum by ({labels}) (rate({metric}{{{chosen}}}[{_RATE}]))"


def _least_reserved() -> str:
    """Two resources in one vector: a label of its own keeps either from hiding the other."""
    found = (
        f"label_replace({_max(f'slack_reserved_{unit}')} / ({_max(f'slack_desired_{unit}')} > 0), "
        f'"unit", "{unit}", "", "")'
        for unit in ("cpu_cores", "memory_bytes")
    )
    return f"min({' or '.join(found)})"


def _operator_quantiles(histogram: str) -> tuple[Query, ...]:
    return tuple(
        Query(
            f"histogram_quantile({share:g}, sum by ({SOURCE}, le) (rate({histogram}_bucket{{{_JOB}}}[{_RATE}])))",
            f"p{share * 100:g}",
        )
        for share in (0.5, 0.99)
    )


def _stat(title: str, description: str, query: str, unit: str, thresholds: Sequence[tuple[float | None, str]]) -> Panel:
    return Panel(title, description, (Query(query),), unit, PanelKind.STAT, width=4, height=5, thresholds=thresholds)


def _overview() -> PanelRow:
    return PanelRow(
        "Is my slack there?",
        (
            _stat(
                "Policies ready",
                "Share of the chosen policies that are acted upon; what is not, somebody must fix.",
                f"avg({_max('slack_policy_condition', chosen=_ready())})",
                "percentunit",
                ((None, "red"), (1, "green")),
            ),
            _stat(
                "Instant starts",
                f"Share of the last hour's real pods that were bound within {INSTANT_SECONDS} seconds of creation.",
                instant_ratio("1h", _CHOSEN, SOURCE),
                "percentunit",
                _RED_TO_GREEN,
            ),
            _stat(
                "Reserved",
                "Slack that is on nodes, as a share of what is wanted: CPU or memory, whichever is less, of the policy "
                "that has least.",
                _least_reserved(),
                "percentunit",
                _RED_TO_GREEN,
            ),
            _stat(
                "Covered",
                "Share of arrivals that fit the room of one placeholder, of the policy that has least.",
                f"min({_max('slack_coverage_ratio')})",
                "percentunit",
                _RED_TO_GREEN,
            ),
            _stat(
                "Pending placeholders",
                "Placeholders that wait for a node. After a burst some do until the autoscaler has added one.",
                f"sum({_max('slack_pending_placeholders')})",
                "short",
                ((None, "green"), (1, "orange")),
            ),
            _stat(
                "Leaders",
                "Operators that act; one is right.",
                f"sum(slack_leader{{{_JOB}}})",
                "short",
                ((None, "red"), (1, "green"), (2, "red")),
            ),
        ),
    )


def _ready() -> str:
    return f'{_CHOSEN}, type="Ready", status="true"'


def _starts() -> PanelRow:
    return PanelRow(
        "Do pods start without waiting for a node?",
        (
            Panel(
                f"Bound within {INSTANT_SECONDS} seconds",
                "Share of real pods, all and those that took a placeholder's place; a gap where none started.",
                (
                    Query(instant_ratio(_RATE, _CHOSEN), "{{policy}}"),
                    Query(instant_ratio(_RATE, _IN_SLACK), "{{policy}}, in slack"),
                ),
                "percentunit",
                highest=1,
            ),
            Panel(
                "Time to start",
                "From a real pod's creation to its binding; quantiles are as exact as the buckets are narrow.",
                (
                    Query(quantile(0.5, _RATE, _CHOSEN), "{{policy}} p50"),
                    Query(quantile(0.99, _RATE, _CHOSEN), "{{policy}} p99"),
                ),
                "s",
            ),
            Panel(
                "Time to Ready",
                "From a real pod's creation until it is Ready, and the part of it that pulls of images take.",
                tuple(
                    Query(
                        f"histogram_quantile({share:g}, sum by ({BY_POLICY}, le) (rate({metric}[{_RATE}])))",
                        f"{{{{policy}}}} {text} p{share * 100:g}",
                    )
                    for metric, text in (
                        (f'slack_time_to_ready_seconds_bucket{{{_CHOSEN}, stage="ready"}}', "Ready"),
                        (f"slack_image_pull_seconds_bucket{{{_CHOSEN}}}", "pull"),
                    )
                    for share in (0.5, 0.99)
                ),
                "s",
            ),
            Panel(
                "Starts",
                "Real pods bound, by whether they took a placeholder's place.",
                (Query(_rate(f"{STARTS}_count", f"{BY_POLICY}, in_slack"), "{{policy}}, in slack: {{in_slack}}"),),
                "ops",
                stacked=True,
            ),
            Panel(
                "Objectives",
                "Of policies with an objective: the share that is wanted, and that of the pods of the last 24 hours "
                "that slack could help.",
                (
                    Query(_max("slack_objective_ratio"), "{{policy}} wanted"),
                    Query(_max("slack_objective_reached_ratio"), "{{policy}} reached"),
                ),
                "percentunit",
                highest=1,
            ),
            Panel(
                "How long pods waited",
                "Real pods a second by the time from creation to binding.",
                (Query(_rate(f"{STARTS}_bucket", "le"), "{{le}}", heatmap=True),),
                "s",
                kind=PanelKind.HEATMAP,
                width=24,
            ),
        ),
    )


def _desired_and_reserved(unit: str) -> tuple[Query, ...]:
    return tuple(Query(_max(f"slack_{what}_{unit}"), f"{{{{policy}}}} {what}") for what in ("desired", "reserved"))


def _resource_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "CPU",
            "Extra capacity wanted, and requests of the placeholders that are on nodes, in cores.",
            _desired_and_reserved("cpu_cores"),
            "short",
        ),
        Panel(
            "Memory",
            "Extra capacity wanted, and requests of the placeholders that are on nodes.",
            _desired_and_reserved("memory_bytes"),
            "bytes",
        ),
        Panel(
            "Other resources",
            "The same for resources such as GPUs; empty where no policy keeps any.",
            tuple(
                Query(
                    _max(f"slack_{what}_extended_resources", f"{BY_POLICY}, resource"),
                    f"{{{{policy}}}} {{{{resource}}}} {what}",
                )
                for what in ("desired", "reserved")
            ),
            "short",
        ),
    )


def _placeholder_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Placeholders",
            "On nodes, and waiting for one.",
            (
                Query(_max("slack_bound_placeholders"), "{{policy}} bound"),
                Query(_max("slack_pending_placeholders"), "{{policy}} pending"),
            ),
            "short",
            decimals=0,
        ),
        Panel(
            "Displaced",
            "Placeholders that left their node without the operator's doing, by cause; PreemptionByScheduler is "
            "slack at work.",
            (Query(_rate("slack_displaced_total", f"{BY_POLICY}, cause"), "{{policy}} {{cause}}"),),
            "ops",
            stacked=True,
        ),
        Panel(
            "Made way",
            "Placeholders that the operator deleted for bursts of pods, by what it saw of them, and those whose "
            "pods did not come or were helped by the scheduler; in 10 minutes.",
            (
                Query(
                    f"sum by ({BY_POLICY}, cause) (increase(slack_made_way_total{{{_CHOSEN}}}[10m]))",
                    "{{policy}} {{cause}}",
                ),
                Query(
                    f"sum by ({BY_POLICY}) (increase(slack_made_way_in_vain_total{{{_CHOSEN}}}[10m]))",
                    "{{policy}} in vain",
                ),
            ),
            "short",
            decimals=0,
        ),
        Panel(
            "Coverage",
            "Share of arrivals that fit the room of one placeholder of the plan.",
            (Query(_max("slack_coverage_ratio"), "{{policy}}"),),
            "percentunit",
            highest=1,
        ),
    )


def _slack() -> PanelRow:
    return PanelRow(
        "Slack",
        (*_resource_panels(), *_placeholder_panels()),
    )


def _costs() -> PanelRow:
    money = _max("slack_cost_per_hour", f"{BY_POLICY}, currency")
    return PanelRow(
        "What it costs",
        (
            Panel(
                "Cost per hour",
                "Of the placeholders that are on nodes, by the operator's --prices; empty without.",
                (Query(money, "{{policy}} {{currency}}"),),
                "short",
                stacked=True,
            ),
            Panel(
                "Cost per month",
                "The same for 730 hours; in node hours where there are no prices.",
                (
                    Query(f"{money} * {_HOURS_PER_MONTH}", "{{policy}} {{currency}}"),
                    Query(
                        f"{_max('slack_cost_nodes')} * {_HOURS_PER_MONTH} unless on ({BY_POLICY}) {money}",
                        "{{policy}} node hours",
                    ),
                ),
                "short",
            ),
            Panel(
                "Waiting spared",
                "What the pods of a day that took a placeholder's place would have waited for a node, all together.",
                (Query(_max("slack_spared_wait_seconds"), "{{policy}}"),),
                "s",
            ),
        ),
    )


def _conditions() -> PanelRow:
    labels = f"{BY_POLICY}, type"
    bad_when_false = _max("slack_policy_condition", labels, f'{_CHOSEN}, type=~"{_GOOD}", status="false"')
    bad_when_true = _max("slack_policy_condition", labels, f'{_CHOSEN}, type!~"{_GOOD}", status="true"')
    return PanelRow(
        "Policies",
        (
            Panel(
                "Conditions",
                "Red: the condition says that something is wrong; `kubectl describe slackpolicy` says what.",
                (Query(f"{bad_when_false} or {bad_when_true}", "{{policy}} {{type}}"),),
                "none",
                kind=PanelKind.STATE_TIMELINE,
                width=16,
                height=10,
                mappings={"0": ("fine", "green"), "1": ("trouble", "red")},
                lowest=None,
            ),
            Panel(
                "Hanging preemptors",
                "Pods that the scheduler left pending after it had made room for them, found and freed in 10 minutes.",
                (
                    Query(f"sum by ({SOURCE}) (increase(slack_preemptions_stuck_total{{{_JOB}}}[10m]))", "found"),
                    Query(f"sum by ({SOURCE}) (increase(slack_preemption_rescues_total{{{_JOB}}}[10m]))", "freed"),
                ),
                "short",
                height=10,
            ),
            Panel(
                "Others' hands on placeholders",
                "Writes of others to the operator's objects that it took back, by part, and placeholders that kubelets "
                "ended, by cause; in 10 minutes. The Events of the policy say whose they were.",
                (
                    Query(
                        f"sum by ({BY_POLICY}, part) (increase(slack_ownership_taken_back_total{{{_CHOSEN}}}[10m]))",
                        "{{policy}} {{part}} taken back",
                    ),
                    Query(
                        f"sum by ({BY_POLICY}, cause) (increase(slack_failed_placeholders_total{{{_CHOSEN}}}[10m]))",
                        "{{policy}} failed: {{cause}}",
                    ),
                ),
                "short",
                decimals=0,
            ),
        ),
    )


def _loop_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Who leads",
            "1 for the process that holds the lease, 0 for standbys.",
            (Query(f"slack_leader{{{_JOB}}}", "{{instance}}"),),
            "none",
            highest=1,
            decimals=0,
        ),
        Panel(
            "Age of the last plan",
            "Since the leader last made a plan and carried it out; about the interval when all is well.",
            (
                Query(
                    f"time() - slack_plan_timestamp_seconds{{{_JOB}}} and slack_leader{{{_JOB}}} == 1",
                    "{{instance}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Lag",
            "From the first change that no plan has seen to the start of the plan for it; 0.2 s of it are meant.",
            _operator_quantiles("slack_loop_lag_seconds"),
            "s",
        ),
        Panel(
            "Time of a plan",
            "Without reading and writing.",
            _operator_quantiles("slack_plan_duration_seconds"),
            "s",
        ),
    )


def _process_panels() -> tuple[Panel, ...]:
    return (
        Panel(
            "Requests to the API server",
            "By verb and HTTP status; code 0 is no answer. Most are renewals of the lease.",
            (Query(_rate("slack_api_requests_total", "verb, code", _JOB), "{{verb}} {{code}}"),),
            "reqps",
        ),
        Panel(
            "CapacityBuffers",
            "Served ones by the reason of Provisioning; Conflict: left to another server.",
            (Query(f"max by (reason) (slack_capacity_buffers{{{_JOB}}})", "{{reason}}"),),
            "short",
        ),
        Panel(
            "Chunks of CapacityBuffers",
            "Wanted within all bounds, and fitting now.",
            (Query(f"max by (state) (slack_capacity_buffer_chunks{{{_JOB}}})", "{{state}}"),),
            "short",
        ),
        Panel(
            "Watches opened anew",
            "In 15 minutes, by path of the API; the API server ends each after half an hour to an hour.",
            (Query(f"max by (path) (increase(slack_watch_restarts_total{{{_JOB}}}[15m]))", "{{path}}"),),
            "short",
        ),
        Panel(
            "CPU of the operator",
            "In cores.",
            (Query(f"rate(process_cpu_seconds_total{{{_JOB}}}[{_RATE}])", "{{instance}}"),),
            "short",
        ),
        Panel(
            "Memory of the operator",
            "Resident set.",
            (Query(f"process_resident_memory_bytes{{{_JOB}}}", "{{instance}}"),),
            "bytes",
        ),
        Panel(
            "Versions",
            "Processes by version of resource-slack; two during an upgrade.",
            (Query(f"count by (version) (slack_build_info{{{_JOB}}})", "{{version}}", instant=True),),
            "short",
            kind=PanelKind.STAT,
        ),
    )


def _operator() -> PanelRow:
    return PanelRow(
        "Operator",
        (*_loop_panels(), *_process_panels()),
    )


@dataclass(frozen=True, slots=True)
class DashboardPlan:
    """What tells the dashboard of one component from those of the others."""

    title: str
    description: str
    rows: Callable[[], Sequence[PanelRow]]
    variables: Mapping[str, tuple[str, str]]
    """Label and query by the name of a variable, in addition to the data source."""


def _places(metric: str) -> dict[str, tuple[str, str]]:
    """Return the variables that each dashboard has; both match series without the label too."""
    return {
        "cluster": ("Cluster", f"label_values({metric}, cluster)"),
        "namespace": ("Namespace", f'label_values({metric}{{cluster=~"$cluster"}}, namespace)'),
    }


def _slack_rows() -> Sequence[PanelRow]:
    return (_overview(), _starts(), _slack(), _costs(), _conditions(), _operator())


def _chosen(rows: Sequence[PanelRow]) -> tuple[PanelRow, ...]:
    """Return a companion's rows with the chosen cluster and namespace in each query."""

    def panel(found: Panel) -> Panel:
        queries = tuple(replace(query, expression=_with_places(query.expression)) for query in found.queries)
        return replace(found, queries=queries)

    return tuple(PanelRow(row.title, tuple(panel(found) for found in row.panels)) for row in rows)


def _with_places(expression: str) -> str:
    def chosen(metric: re.Match[str]) -> str:
        more = (metric[2] or "").strip("{}")
        return f"{metric[1]}{{{_WHERE}{', ' if more else ''}{more}}}"

    return re.sub(r"\b((?:slack|demand)_[a-z_0-9]+)(\{[^{}]*\})?", chosen, expression)


DASHBOARDS: Mapping[str, DashboardPlan] = {
    "operator": DashboardPlan(
        "resource-slack",
        "Placeholders that reserve capacity for new pods: is the capacity there, do pods start without waiting.",
        _slack_rows,
        {
            **_places("slack_plan_interval_seconds"),
            "job": ("Job", f"label_values(slack_plan_interval_seconds{{{_WHERE}}}, job)"),
            "policy": ("Policy", f"label_values(slack_bound_placeholders{{{_JOB}}}, policy)"),
        },
    ),
    "audit": DashboardPlan(
        "resource-slack: CPU limits",
        "Containers that a CPU limit throttles, and the nodes under them.",
        lambda: _chosen(audit.rows()),
        _places("slack_audit_throttled_periods_ratio"),
    ),
    "scorer": DashboardPlan(
        "resource-slack: load-aware scores",
        "The scorer and the load watcher: decisions, time, and how old the figures are.",
        lambda: _chosen(scoring.rows()),
        _places("slack_scorer_nodes"),
    ),
    "throttler": DashboardPlan(
        "resource-slack: container start-ups",
        "Containers that wait for a permit, for how long, and starts without one.",
        lambda: _chosen(throttler.rows()),
        _places("slack_throttler_containers"),
    ),
    "demand": DashboardPlan(
        "resource-slack: container pools",
        "Queues, the containers of their pools, and how long a decision takes.",
        lambda: _chosen(demand.rows()),
        _places("demand_queue_messages"),
    ),
}


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def dashboard(component: str) -> dict[str, Any]:
    """Return the dashboard of a component as Grafana imports it."""
    plan = DASHBOARDS[component]
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    link = {"title": "resource-slack", "type": "dashboards", "tags": [TAG], "asDropdown": True}
    return {
        "uid": TAG if component == "operator" else f"{TAG}-{component}",
        "title": plan.title,
        "description": plan.description,
        "tags": ["kubernetes", TAG],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{**link, "includeVars": True, "keepTime": True, "targetBlank": False}],
        "templating": {"list": [source, *(_variable(name, *told) for name, told in plan.variables.items())]},
        "annotations": {"list": []},
        "panels": laid_out(plan.rows()),
    }


def panels(component: str) -> list[dict[str, Any]]:
    """Return the panels of a component's dashboard, those of closed rows too, without the rows."""
    found = dashboard(component)["panels"]
    return [panel for item in found for panel in (item, *item.get("panels", ())) if panel["type"] != "row"]
