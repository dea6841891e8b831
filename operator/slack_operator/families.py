"""What the operator tells Prometheus, as data: every metric's name, type, labels, unit and help.

`metrics` makes them, the reference page and the tests of rules and dashboard read them; no running operator is needed.
Every label has few values: `policy` comes and goes with its SlackPolicy, the others are finite.
"""

from typing import NamedTuple

_LEADER_ONLY = "Only from the operator that leads; gone with the policy."


class Family(NamedTuple):
    """One metric as Prometheus has it."""

    name: str
    type: str
    """gauge, counter or histogram."""
    labels: tuple[str, ...]
    unit: str
    """What one is: cores, bytes, seconds; '' for a count or a flag."""
    help: str


DESIRED_CPU = Family(
    "slack_desired_cpu_cores", "gauge", ("policy",), "cores", f"CPU of the extra capacity wanted. {_LEADER_ONLY}"
)
DESIRED_MEMORY = Family(
    "slack_desired_memory_bytes", "gauge", ("policy",), "bytes", f"Memory of the extra capacity wanted. {_LEADER_ONLY}"
)
DESIRED_EXTENDED = Family(
    "slack_desired_extended_resources",
    "gauge",
    ("policy", "resource"),
    "",
    f"Extra capacity wanted of resources other than CPU and memory, in their base units. {_LEADER_ONLY}",
)
RESERVED_CPU = Family(
    "slack_reserved_cpu_cores", "gauge", ("policy",), "cores", f"CPU requests of bound placeholders. {_LEADER_ONLY}"
)
RESERVED_MEMORY = Family(
    "slack_reserved_memory_bytes",
    "gauge",
    ("policy",),
    "bytes",
    f"Memory requests of bound placeholders. {_LEADER_ONLY}",
)
RESERVED_EXTENDED = Family(
    "slack_reserved_extended_resources",
    "gauge",
    ("policy", "resource"),
    "",
    f"Requests of bound placeholders for resources other than CPU and memory, in their base units. {_LEADER_ONLY}",
)
PENDING = Family(
    "slack_pending_placeholders", "gauge", ("policy",), "", f"Placeholders that are on no node. {_LEADER_ONLY}"
)
BOUND = Family("slack_bound_placeholders", "gauge", ("policy",), "", f"Placeholders that are on a node. {_LEADER_ONLY}")
COVERAGE = Family(
    "slack_coverage_ratio",
    "gauge",
    ("policy",),
    "",
    "Share of arrivals, among pods that could take a placeholder's place and have none of their own "
    "(resource-slack.io/reserve), that fit the room of one planned placeholder; 1 when there are no such pods. "
    f"{_LEADER_ONLY}",
)
CONDITION = Family(
    "slack_policy_condition",
    "gauge",
    ("policy", "type", "status"),
    "",
    "1 for the status (true or false) that a condition of the policy has, 0 for the other; types are those of the "
    f"SlackPolicy's status. {_LEADER_ONLY}",
)
DRY_RUN = Family(
    "slack_policy_dry_run", "gauge", ("policy",), "", f"1 where spec.dryRun is true: nothing is kept. {_LEADER_ONLY}"
)
DISPLACED = Family(
    "slack_displaced_total",
    "counter",
    ("policy", "cause"),
    "",
    "Bound placeholders that left without the operator's doing. PreemptionByScheduler is slack at work: a real pod "
    f"took the place. {_LEADER_ONLY}",
)
INSTANT_START = Family(
    "slack_instant_start_seconds",
    "histogram",
    ("policy", "in_slack"),
    "seconds",
    "From a real pod's creation to its binding, both as the operator's watch shows them (its delay cancels out); for "
    "pods found waiting in a list, from creationTimestamp, whole seconds. Time behind scheduling gates does not count, "
    "nor do pods that no watch showed without a node. in_slack is true where the pod took a placeholder's place. "
    f"{_LEADER_ONLY}",
)
PLAN_DURATION = Family(
    "slack_plan_duration_seconds",
    "histogram",
    (),
    "seconds",
    "Time of one plan, without reading and writing. Standbys make none.",
)
PLAN_TIMESTAMP = Family(
    "slack_plan_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "Unix time at which the last plan was made and carried out; 0 before this process's first, so on standbys.",
)
PLAN_INTERVAL = Family(
    "slack_plan_interval_seconds",
    "gauge",
    (),
    "seconds",
    "--interval: a leader plans at least this often. Standbys have it too.",
)
LOOP_LAG = Family(
    "slack_loop_lag_seconds",
    "histogram",
    (),
    "seconds",
    "From the first change in the cluster that no plan has seen, or from when the interval was over, to the beginning "
    "of the plan for it; 0.2 s of it let changes gather. Standbys make no plans.",
)
WATCH_RESTARTS = Family(
    "slack_watch_restarts_total",
    "counter",
    ("path",),
    "",
    "Watches that were opened anew, by the path of the API. API servers end each after half an hour to an hour, so two "
    "an hour are usual. Standbys watch too.",
)
API_REQUESTS = Family(
    "slack_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests to the API server by Kubernetes verb and HTTP status; code 0: no answer.",
)
LEADER = Family(
    "slack_leader",
    "gauge",
    (),
    "",
    "1 while this process holds the lease and acts, 0 on a standby; one process of a release has 1.",
)
STUCK = Family(
    "slack_preemptions_stuck_total",
    "counter",
    (),
    "",
    "Real pods that the scheduler left pending after it had promised them a node and made room there.",
)
RESCUES = Family(
    "slack_preemption_rescues_total",
    "counter",
    (),
    "",
    "Real pods hanging after a preemption that were freed by clearing status.nominatedNodeName.",
)
BUILD_INFO = Family("slack_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label.")

FAMILIES = (
    DESIRED_CPU,
    DESIRED_MEMORY,
    DESIRED_EXTENDED,
    RESERVED_CPU,
    RESERVED_MEMORY,
    RESERVED_EXTENDED,
    BOUND,
    PENDING,
    COVERAGE,
    CONDITION,
    DRY_RUN,
    DISPLACED,
    INSTANT_START,
    STUCK,
    RESCUES,
    PLAN_DURATION,
    PLAN_TIMESTAMP,
    PLAN_INTERVAL,
    LOOP_LAG,
    WATCH_RESTARTS,
    API_REQUESTS,
    LEADER,
    BUILD_INFO,
)
