"""What the controller of demand tells Prometheus, as data: every metric's name, type, labels, unit and help."""

from slack.process.metric_definition import UNREADABLE, MetricTable

DEMAND_CONTROLLER_FAMILIES = MetricTable(UNREADABLE)

_CREATIONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0)
_RUNS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
_TICKS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_POOL = ("namespace", "pool")
BUILD_INFO = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_controller_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label."
)
LEADER = DEMAND_CONTROLLER_FAMILIES.declare("demand_leader", "gauge", (), "", "1 for the replica that decides.")
BROKER_REACHABLE = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_broker_reachable", "gauge", (), "", "1 while the leader can read the queues; 0 where nothing is decided."
)
TICK_SECONDS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_tick_seconds",
    "histogram",
    (),
    "seconds",
    "From the read of the queues to all that follows from it.",
    buckets=_TICKS,
)
QUEUE_MESSAGES = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_queue_messages",
    "gauge",
    (*_POOL, "state"),
    "",
    "Messages of the pool's queue: queued, in_flight, stale (queued for longer than timing.stale).",
)
OLDEST_SECONDS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_oldest_message_seconds", "gauge", _POOL, "seconds", "How long the oldest message that waits has waited."
)
QUEUE_UNREAD = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_queue_unread",
    "gauge",
    _POOL,
    "",
    "1 while the broker does not answer for the pool's queue; there is no series of a queue that is read.",
)
CONTAINERS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_containers",
    "gauge",
    (*_POOL, "state"),
    "",
    "The pool's containers: ready, creating, unschedulable (of those), draining.",
)
CREATIONS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_creations_total",
    "counter",
    (*_POOL, "result", "reason"),
    "",
    "Containers that were to be created: created, or failed with a reason (QuotaExceeded, Forbidden, Invalid, Refused, "
    "Unreachable, TimedOut).",
)
CREATION_SECONDS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_creation_seconds",
    "histogram",
    _POOL,
    "seconds",
    "From the creation of a container until it is ready.",
    buckets=_CREATIONS,
)
WAIT_SECONDS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_wait_seconds",
    "histogram",
    _POOL,
    "seconds",
    "How long the oldest message of a queue had waited, at each tick at which any did.",
    buckets=_RUNS,
)
RUN_SECONDS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_run_seconds",
    "histogram",
    _POOL,
    "seconds",
    "How long runs took, as the proxies report the last of them.",
    buckets=_RUNS,
)
DECISIONS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_decisions_total",
    "counter",
    (*_POOL, "action"),
    "",
    "Decisions by what came of them: add, throttle, unthrottle, clipped (less was added than needed).",
)
THROTTLED = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_throttled", "gauge", _POOL, "", "1 while new messages of the pool are refused."
)
REJECTED = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_rejected_total", "counter", _POOL, "", "Requests that were answered 429 by this replica."
)
EVICTIONS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_evictions_total",
    "counter",
    (*_POOL, "reason"),
    "",
    "Containers that were ended, by reason: Idle, Evicted, Yielded, Revision, Quota, TimedOut, PoolDeleted, Finished.",
)
WANTED = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_wanted", "gauge", _POOL, "", "Containers that the pool needs, what it cannot have included."
)
UNMET = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_unmet", "gauge", _POOL, "", "Of these, those that no node has room for."
)
SLACK_PODS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_slack_pods", "gauge", _POOL, "", "Containers of the pool that slack is to hold."
)
REQUESTS = DEMAND_CONTROLLER_FAMILIES.declare(
    "demand_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests of the controller to the API server by verb and HTTP status; 0 is no answer.",
)
