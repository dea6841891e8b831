"""The Grafana dashboard: is my slack there, do pods start at once, what pushes it out, is the operator well.

The last row is the auditor's (`slack.monitoring.audit`).

Queries read the operator's metrics themselves, so that the dashboard works where the recording rules are not loaded.
"""

from typing import Any

from slack.monitoring import audit
from slack.monitoring.expressions import BY_POLICY, INSTANT_SECONDS, SOURCE, STARTS, instant_ratio, quantile
from slack.monitoring.panels import DATASOURCE, Kind, Panel, Query, Row, laid_out

UID = "resource-slack"
TITLE = "resource-slack"
_RATE = "$__rate_interval"
_JOB = 'job=~"$job"'
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


def _overview() -> Row:
    return Row(
        "Is my slack there?",
        (
            Panel(
                "Policies ready",
                "Share of the chosen policies whose condition Ready is true.",
                Kind.STAT,
                (Query(f"avg({_max('slack_policy_condition', chosen=_ready())})"),),
                "percentunit",
                width=4,
                height=5,
                thresholds=((None, "red"), (1, "green")),
            ),
            Panel(
                "Started at once",
                f"Share of the last hour's real pods that were bound within {INSTANT_SECONDS} seconds of creation.",
                Kind.STAT,
                (Query(instant_ratio("1h", _CHOSEN, SOURCE)),),
                "percentunit",
                width=4,
                height=5,
                thresholds=_RED_TO_GREEN,
            ),
            Panel(
                "Reserved",
                "Slack that is on nodes, as a share of what is wanted: CPU or memory, whichever is less, of the policy "
                "that has least.",
                Kind.STAT,
                (Query(_least_reserved()),),
                "percentunit",
                width=4,
                height=5,
                thresholds=_RED_TO_GREEN,
            ),
            Panel(
                "Covered",
                "Share of arrivals that fit the room of one placeholder, of the policy that has least.",
                Kind.STAT,
                (Query(f"min({_max('slack_coverage_ratio')})"),),
                "percentunit",
                width=4,
                height=5,
                thresholds=_RED_TO_GREEN,
            ),
            Panel(
                "Pending placeholders",
                "Placeholders that wait for a node. After a burst some do until the autoscaler has added one.",
                Kind.STAT,
                (Query(f"sum({_max('slack_pending_placeholders')})"),),
                "short",
                width=4,
                height=5,
                thresholds=((None, "green"), (1, "orange")),
            ),
            Panel(
                "Leaders",
                "Operators that act; one is right.",
                Kind.STAT,
                (Query(f"sum(slack_leader{{{_JOB}}})"),),
                "short",
                width=4,
                height=5,
                thresholds=((None, "red"), (1, "green"), (2, "red")),
            ),
        ),
    )


def _ready() -> str:
    return f'{_CHOSEN}, type="Ready", status="true"'


def _starts() -> Row:
    return Row(
        "Do pods start at once?",
        (
            Panel(
                f"Bound within {INSTANT_SECONDS} seconds",
                "Share of real pods, all and those that took a placeholder's place; a gap where none started.",
                Kind.TIMESERIES,
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
                Kind.TIMESERIES,
                (
                    Query(quantile(0.5, _RATE, _CHOSEN), "{{policy}} p50"),
                    Query(quantile(0.99, _RATE, _CHOSEN), "{{policy}} p99"),
                ),
                "s",
            ),
            Panel(
                "Starts",
                "Real pods bound, by whether they took a placeholder's place.",
                Kind.TIMESERIES,
                (Query(_rate(f"{STARTS}_count", f"{BY_POLICY}, in_slack"), "{{policy}}, in slack: {{in_slack}}"),),
                "ops",
                stacked=True,
            ),
            Panel(
                "How long pods waited",
                "Real pods a second by the time from creation to binding.",
                Kind.HEATMAP,
                (Query(_rate(f"{STARTS}_bucket", "le"), "{{le}}", heatmap=True),),
                "s",
                width=24,
            ),
        ),
    )


def _slack() -> Row:
    def pair(unit: str) -> tuple[Query, ...]:
        return tuple(Query(_max(f"slack_{what}_{unit}"), f"{{{{policy}}}} {what}") for what in ("desired", "reserved"))

    return Row(
        "Slack",
        (
            Panel(
                "CPU",
                "Extra capacity wanted, and requests of the placeholders that are on nodes, in cores.",
                Kind.TIMESERIES,
                pair("cpu_cores"),
                "short",
            ),
            Panel(
                "Memory",
                "Extra capacity wanted, and requests of the placeholders that are on nodes.",
                Kind.TIMESERIES,
                pair("memory_bytes"),
                "bytes",
            ),
            Panel(
                "Other resources",
                "The same for resources such as GPUs; empty where no policy keeps any.",
                Kind.TIMESERIES,
                tuple(
                    Query(
                        _max(f"slack_{what}_extended_resources", f"{BY_POLICY}, resource"),
                        f"{{{{policy}}}} {{{{resource}}}} {what}",
                    )
                    for what in ("desired", "reserved")
                ),
                "short",
            ),
            Panel(
                "Placeholders",
                "On nodes, and waiting for one.",
                Kind.TIMESERIES,
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
                Kind.TIMESERIES,
                (Query(_rate("slack_displaced_total", f"{BY_POLICY}, cause"), "{{policy}} {{cause}}"),),
                "ops",
                stacked=True,
            ),
            Panel(
                "Coverage",
                "Share of arrivals that fit the room of one placeholder of the plan.",
                Kind.TIMESERIES,
                (Query(_max("slack_coverage_ratio"), "{{policy}}"),),
                "percentunit",
                highest=1,
            ),
        ),
    )


def _conditions() -> Row:
    labels = f"{BY_POLICY}, type"
    bad_when_false = _max("slack_policy_condition", labels, f'{_CHOSEN}, type=~"{_GOOD}", status="false"')
    bad_when_true = _max("slack_policy_condition", labels, f'{_CHOSEN}, type!~"{_GOOD}", status="true"')
    return Row(
        "Policies",
        (
            Panel(
                "Conditions",
                "Red: the condition says that something is wrong; `kubectl describe slackpolicy` says what.",
                Kind.STATE_TIMELINE,
                (Query(f"{bad_when_false} or {bad_when_true}", "{{policy}} {{type}}"),),
                "none",
                width=16,
                height=10,
                mappings={"0": ("fine", "green"), "1": ("trouble", "red")},
                lowest=None,
            ),
            Panel(
                "Hanging preemptors",
                "Pods that the scheduler left pending after it had made room for them, found and freed in 10 minutes.",
                Kind.TIMESERIES,
                (
                    Query(f"sum by ({SOURCE}) (increase(slack_preemptions_stuck_total{{{_JOB}}}[10m]))", "found"),
                    Query(f"sum by ({SOURCE}) (increase(slack_preemption_rescues_total{{{_JOB}}}[10m]))", "freed"),
                ),
                "short",
                height=10,
            ),
        ),
    )


def _operator() -> Row:
    return Row(
        "Operator",
        (
            Panel(
                "Who leads",
                "1 for the process that holds the lease, 0 for standbys.",
                Kind.TIMESERIES,
                (Query(f"slack_leader{{{_JOB}}}", "{{instance}}"),),
                "none",
                highest=1,
                decimals=0,
            ),
            Panel(
                "Age of the last plan",
                "Since the leader last made a plan and carried it out; about the interval when all is well.",
                Kind.TIMESERIES,
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
                Kind.TIMESERIES,
                _operator_quantiles("slack_loop_lag_seconds"),
                "s",
            ),
            Panel(
                "Time of a plan",
                "Without reading and writing.",
                Kind.TIMESERIES,
                _operator_quantiles("slack_plan_duration_seconds"),
                "s",
            ),
            Panel(
                "Requests to the API server",
                "By verb and HTTP status; code 0 is no answer. Most are renewals of the lease.",
                Kind.TIMESERIES,
                (Query(_rate("slack_api_requests_total", "verb, code", _JOB), "{{verb}} {{code}}"),),
                "reqps",
            ),
            Panel(
                "Watches opened anew",
                "In 15 minutes, by path of the API; the API server ends each after half an hour to an hour.",
                Kind.TIMESERIES,
                (Query(f"max by (path) (increase(slack_watch_restarts_total{{{_JOB}}}[15m]))", "{{path}}"),),
                "short",
            ),
            Panel(
                "CPU of the operator",
                "In cores.",
                Kind.TIMESERIES,
                (Query(f"rate(process_cpu_seconds_total{{{_JOB}}}[{_RATE}])", "{{instance}}"),),
                "short",
            ),
            Panel(
                "Memory of the operator",
                "Resident set.",
                Kind.TIMESERIES,
                (Query(f"process_resident_memory_bytes{{{_JOB}}}", "{{instance}}"),),
                "bytes",
            ),
            Panel(
                "Versions",
                "Processes by version of resource-slack; two during an upgrade.",
                Kind.STAT,
                (Query(f"count by (version) (slack_build_info{{{_JOB}}})", "{{version}}", instant=True),),
                "short",
            ),
        ),
    )


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    return {
        "uid": UID,
        "title": TITLE,
        "description": "Placeholders that keep room for new pods: is the room there, do pods start at once.",
        "tags": ["kubernetes", "autoscaling", "resource-slack"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                source,
                _variable("job", "Job", "label_values(slack_plan_interval_seconds, job)"),  # not the auditor's
                _variable("policy", "Policy", 'label_values(slack_bound_placeholders{job=~"$job"}, policy)'),
            ]
        },
        "annotations": {"list": []},
        "panels": laid_out([_overview(), _starts(), _slack(), _conditions(), _operator(), audit.row()]),
    }
