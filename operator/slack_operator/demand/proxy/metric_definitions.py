"""What a proxy tells Prometheus, as data."""

from slack.process.metric_definition import BUILD_INFO, MetricTable

DEMAND_PROXY_FAMILIES = MetricTable(BUILD_INFO)

_RUN_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0)
_WAIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

WAIT = DEMAND_PROXY_FAMILIES.declare(
    "demand_proxy_wait_seconds",
    "histogram",
    (),
    "seconds",
    "From a message's publication until its run began, of first attempts; by the broker's clock and the node's.",
    buckets=_WAIT_BUCKETS,
)
RUN = DEMAND_PROXY_FAMILIES.declare(
    "demand_proxy_run_seconds", "histogram", (), "seconds", "How long runs took, good or bad.", buckets=_RUN_BUCKETS
)
RUNS = DEMAND_PROXY_FAMILIES.declare(
    "demand_proxy_runs_total",
    "counter",
    ("outcome",),
    "",
    "Runs that ended, by outcome: acked, given_back.",
)
BUSY = DEMAND_PROXY_FAMILIES.declare(
    "demand_proxy_slots_busy", "gauge", (), "", "Slots of the container that run a message."
)
SLOTS = DEMAND_PROXY_FAMILIES.declare("demand_proxy_slots", "gauge", (), "", "Slots of the container.")
