"""What a proxy tells Prometheus, as data."""

from slack.process.metric_family import BUILD_INFO, Family

WAIT = Family(
    "demand_proxy_wait_seconds",
    "histogram",
    (),
    "seconds",
    "From a message's publication until its run began, of first attempts; by the broker's clock and the node's.",
)
RUN = Family("demand_proxy_run_seconds", "histogram", (), "seconds", "How long runs took, good or bad.")
RUNS = Family(
    "demand_proxy_runs_total",
    "counter",
    ("outcome",),
    "",
    "Runs that ended, by outcome: acked, given_back.",
)
BUSY = Family("demand_proxy_slots_busy", "gauge", (), "", "Slots of the container that run a message.")
SLOTS = Family("demand_proxy_slots", "gauge", (), "", "Slots of the container.")
DEMAND_PROXY_FAMILIES = (WAIT, RUN, RUNS, BUSY, SLOTS, BUILD_INFO)
