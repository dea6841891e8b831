"""The recording rules and the alerts of resource-slack.

Alerts leave out what another alert says already. Thresholds are far from what a healthy cluster does: slack that is
pushed out once in a burst, or a node that takes five minutes, wakes nobody.
"""

from tools.monitoring import audit, demand, load_watcher, scoring, throttler
from tools.monitoring.expressions import (
    BY_POLICY,
    SOURCE,
    STARTS,
    condition,
    instant_ratio,
    of_policies,
    quantile,
    reserved_ratio,
)
from tools.monitoring.rules import Alert, AlertSeverity, RecordingRule, RuleGroup

_POLICY = "SlackPolicy {{ $labels.policy }}"
_IN_SLACK = 'in_slack="true"'
_REFUSALS = "0|401|403|422|429|5.."
"""Answers that mean trouble; 404, 409 and 410 are how the API works."""


def _recordings() -> tuple[RecordingRule, ...]:
    rules = []
    for window in ("5m", "1h"):
        rules += [
            RecordingRule(f"slack:instant_start:ratio_rate{window}", instant_ratio(window)),
            RecordingRule(f"slack:instant_start_in_slack:ratio_rate{window}", instant_ratio(window, _IN_SLACK)),
            RecordingRule(f"slack:instant_start_seconds:p50_rate{window}", quantile(0.5, window)),
            RecordingRule(f"slack:instant_start_seconds:p99_rate{window}", quantile(0.99, window)),
        ]
    return (
        *rules,
        RecordingRule("slack:starts:rate5m", f"sum by ({BY_POLICY}, in_slack) (rate({STARTS}_count[5m]))"),
        RecordingRule("slack:displaced:rate5m", f"sum by ({BY_POLICY}, cause) (rate(slack_displaced_total[5m]))"),
        RecordingRule("slack:reserved_cpu:ratio", reserved_ratio("cpu")),
        RecordingRule("slack:reserved_memory:ratio", reserved_ratio("memory")),
    )


def _hangs(window: str) -> str:
    """More pods were found hanging than were freed; each counts once, however long it hangs."""
    found, freed = (
        f"round(sum by ({SOURCE}) (increase({metric}[{window}])))"
        for metric in ("slack_preemptions_stuck_total", "slack_preemption_rescues_total")
    )
    return f"{found} > {freed}"


_DRY_RUN = f"{of_policies('slack_policy_dry_run')} == 1"
_AT_CEILING = f"{of_policies('slack_policy_ceiling_reached')} == 1"
_NOT_READY = condition("Ready", False)
_LIMITED = condition("LimitReached", True)
_IGNORED = condition("AutoscalerIgnoresPlaceholders", True)
_STALE = condition("ViewStale", True)
_PENDING = of_policies("slack_pending_placeholders")
_PLACEHOLDERS = f"({of_policies('slack_bound_placeholders')} + {_PENDING})"
_OBJECTIVE = of_policies("slack_objective_ratio")
_REACHED = of_policies("slack_objective_reached_ratio")
_LATE = of_policies("slack_objective_late_pods")
_DISPLACED = f"sum by ({BY_POLICY}) (increase(slack_displaced_total[15m]))"

_OPERATOR = (
    Alert(
        "ResourceSlackNotLeading",
        f"sum by ({SOURCE}) (slack_leader) == 0 or absent(slack_leader)",
        AlertSeverity.CRITICAL,
        "5m",
        "No operator of resource-slack leads",
        "No process holds the lease, or none is scraped. Placeholders that are there stay, and the stock controllers "
        "refill them, but slack follows the load no more.",
    ),
    Alert(
        "ResourceSlackTwoLeaders",
        f"sum by ({SOURCE}) (slack_leader) > 1",
        AlertSeverity.CRITICAL,
        "2m",
        "More than one operator of resource-slack acts",
        "{{ $value }} processes act at the same time and undo each other's work.",
    ),
    Alert(
        "ResourceSlackPlanStale",
        "time() - slack_plan_timestamp_seconds > clamp_min(3 * slack_plan_interval_seconds, 300) and slack_leader == 1",
        AlertSeverity.CRITICAL,
        "2m",
        "The leading operator makes no plans",
        "{{ $labels.instance }} leads and has carried out no plan for more than 5 minutes and three times its "
        "--interval: it cannot see the whole cluster, cannot write, or fails.",
    ),
    Alert(
        "ResourceSlackBuffersUnserved",
        f"max by ({SOURCE}, reason) "
        '(slack_capacity_buffers{reason=~"Infeasible|NotReadyForProvisioning|Conflict"}) > 0',
        AlertSeverity.WARNING,
        "15m",
        "CapacityBuffers hold less than they ask for: {{ $labels.reason }}",
        "{{ $value | humanize }} CapacityBuffers have had the reason {{ $labels.reason }} for 15 minutes: no node "
        "comes for their chunks, their reference or size cannot be used, or another server writes their status.",
    ),
    Alert(
        "ResourceSlackWatchRestarts",
        f"max by ({SOURCE}, path) (increase(slack_watch_restarts_total[15m])) > 10",
        AlertSeverity.WARNING,
        "5m",
        "The watch of {{ $labels.path }} breaks again and again",
        "It was opened anew {{ $value | humanize }} times in 15 minutes; each time the operator may be blind for "
        "seconds, and lists cost the API server work.",
    ),
    Alert(
        "ResourceSlackApiErrors",
        f'sum by ({SOURCE}) (rate(slack_api_requests_total{{code=~"{_REFUSALS}"}}[10m])) / '
        f"sum by ({SOURCE}) (rate(slack_api_requests_total[10m])) > 0.05",
        AlertSeverity.WARNING,
        "10m",
        "The API server refuses or fails the operator's requests",
        "{{ $value | humanizePercentage }} of its requests over 10 minutes had no answer (0), were not allowed (401, "
        "403), invalid (422), too many (429) or failed (5xx).",
    ),
    Alert(
        "ResourceSlackPreemptionStuck",
        f"{_hangs('30m')} or {_hangs('6h')} and on ({SOURCE}) "
        f"count by ({SOURCE}) ({condition('PreemptionStuck', True)})",
        AlertSeverity.WARNING,
        "1m",
        "Pods hang after preemption and were not freed",
        "The scheduler made room for pods and left them pending; {{ $value }} were found in 30 minutes, and not all of "
        "them could be freed.",
    ),
)

_MADE_WAY = f"sum by ({BY_POLICY}) (increase(slack_made_way_total[1h]))"
_IN_VAIN = f"sum by ({BY_POLICY}) (increase(slack_made_way_in_vain_total[1h]))"

_POLICIES = (
    Alert(
        "ResourceSlackMakesWayInVain",
        f"{_IN_VAIN} / ({_MADE_WAY} >= 20) > 0.2",
        AlertSeverity.INFO,
        "15m",
        f"Placeholders of {_POLICY} make way in vain",
        "{{ $value | humanizePercentage }} of the placeholders that the operator deleted for bursts in the last hour "
        "went for pods that did not come, or that the scheduler had helped by itself.",
    ),
    Alert(
        "ResourceSlackNotSatisfied",
        f"{condition('SlackSatisfied', False)} unless {_NOT_READY} unless {_DRY_RUN} unless {_AT_CEILING} "
        f"unless {_LIMITED} unless {_IGNORED} unless {_STALE}",
        AlertSeverity.WARNING,
        "15m",
        f"{_POLICY} has less slack than it wants",
        "Not every wanted placeholder has had a node in the last 15 minutes: new pods may wait for one.",
    ),
    Alert(
        "ResourceSlackCoverageLost",
        f"{of_policies('slack_coverage_ratio')} and {condition('Covered', False)} unless {_NOT_READY} "
        f"unless {_AT_CEILING} unless {_STALE}",
        AlertSeverity.WARNING,
        "15m",
        f"{_POLICY} keeps no room for some of its pods",
        "{{ $value | humanizePercentage }} of arrivals fit the room of one placeholder, less than spec.cover asks for; "
        "the others wait for a node.",
    ),
    Alert(
        "ResourceSlackInstantStartLow",
        f"(({instant_ratio('1h')} < 0.9 and sum by ({BY_POLICY}) (increase({STARTS}_count[1h])) >= 20 "
        f"unless {_OBJECTIVE}) "
        f"or ({_REACHED} < {_OBJECTIVE} and {_LATE} >= 5)) unless {_DRY_RUN} unless {_AT_CEILING}",
        AlertSeverity.WARNING,
        "30m",
        f"Pods of {_POLICY} wait",
        "Only {{ $value | humanizePercentage }} of the pods were bound within 2 seconds: of the last hour's, or, if "
        "the policy has an objective that this misses, of the last day's that slack could help.",
    ),
    Alert(
        "ResourceSlackDisplacedStorm",
        f"{_DISPLACED} > clamp_min(3 * {_PLACEHOLDERS}, 10)",
        AlertSeverity.WARNING,
        "5m",
        f"Placeholders of {_POLICY} are pushed out again and again",
        "{{ $value | humanize }} left in 15 minutes, more than three times as many as there are.",
    ),
    Alert(
        "ResourceSlackAutoscalerIgnoresPlaceholders",
        f"{_IGNORED} unless {_STALE}",
        AlertSeverity.WARNING,
        "5m",
        f"No autoscaler says a word about placeholders of {_POLICY}",
        "They wait for a node and nobody adds one: none is running, or it takes them for expendable.",
    ),
    Alert(
        "ResourceSlackLimitReached",
        f"{_LIMITED} unless {_STALE}",
        AlertSeverity.WARNING,
        "15m",
        f"{_POLICY} cannot grow",
        "An autoscaler's limit or a quota refuses placeholders; the operator holds them back and tries again later.",
    ),
    Alert(
        "ResourceSlackNotFeasible",
        f"{condition('Feasible', False)} unless {_NOT_READY} unless {_STALE}",
        AlertSeverity.WARNING,
        "15m",
        f"{_POLICY} wants what fits no node",
        "Some wanted placeholder fits no eligible node, or the policy has none.",
    ),
    Alert(
        "ResourceSlackPolicyNotReady",
        f"{_NOT_READY} unless {_STALE}",
        AlertSeverity.WARNING,
        "15m",
        f"{_POLICY} is not acted upon",
        "Somebody must mend something: its spec is invalid, its PriorityClass cannot be used, another policy has its "
        "nodes, writes for it are refused, or the operator lacks a right.",
    ),
    Alert(
        "ResourceSlackMoreThanDoubles",
        f"{of_policies('slack_policy_more_than_doubles')} == 1 unless {_DRY_RUN}",
        AlertSeverity.WARNING,
        "1m",
        f"{_POLICY} more than doubles the cluster",
        "So many nodes must come for its placeholders that there will be more than twice as many as now. A rate of 1 "
        "is 100 %, not 1 %; a floor may be in the wrong unit.",
    ),
    Alert(
        "ResourceSlackPinsNodes",
        condition("PinsNodes", True),
        AlertSeverity.INFO,
        "1h",
        f"Placeholders of {_POLICY} keep nodes from being removed",
        "One placeholder takes more of a node than the autoscaler's utilisation threshold: that node stays although "
        "nothing else may run on it.",
    ),
)

GROUPS = (
    RuleGroup("resource-slack.recording", _recordings()),
    RuleGroup("resource-slack.operator", _OPERATOR),
    RuleGroup("resource-slack.policies", _POLICIES),
    RuleGroup("resource-slack.cpu-limits", audit.ALERTS),
    RuleGroup("resource-slack.load-watcher", load_watcher.ALERTS),
    RuleGroup("resource-slack.scoring", scoring.ALERTS),
    RuleGroup("resource-slack.throttler", throttler.ALERTS),
    RuleGroup("resource-slack.demand", demand.ALERTS),
)
