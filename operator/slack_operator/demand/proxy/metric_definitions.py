"""What a proxy tells Prometheus, as data."""

from slack.process.metric_definition import BUILD_INFO, MetricDefinition

WAIT = MetricDefinition(
    "demand_proxy_wait_seconds",
    "histogram",
    (),
    "seconds",
    "From a message's publication until its run began, of first attempts; by the broker's clock and the node's.",
)
RUN = MetricDefinition("demand_proxy_run_seconds", "histogram", (), "seconds", "How long runs took, good or bad.")
RUNS = MetricDefinition(
    "demand_proxy_runs_total",
    "counter",
    ("outcome",),
    "",
    "Runs that ended, by outcome: acked, given_back.",
)
BUSY = MetricDefinition("demand_proxy_slots_busy", "gauge", (), "", "Slots of the container that run a message.")
SLOTS = MetricDefinition("demand_proxy_slots", "gauge", (), "", "Slots of the container.")
DEMAND_PROXY_FAMILIES = (WAIT, RUN, RUNS, BUSY, SLOTS, BUILD_INFO)
