"""What the load watcher tells Prometheus, as data: every metric's name, type, labels, unit and help."""

from slack.process.metric_definition import UNREADABLE, MetricTable

LOAD_WATCHER_FAMILIES = MetricTable(UNREADABLE)

FETCHES = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_fetches_total",
    "counter",
    ("outcome",),
    "",
    "Fetches of all windows from the provider, by outcome: fetched, failed. What was fetched before is told until it "
    "is too old.",
)
QUERY_ERRORS = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_query_errors_total",
    "counter",
    ("type",),
    "",
    "Questions that the provider did not answer, by what they are about: cpu, memory, network, disk. Those about CPU "
    "and memory fail the fetch.",
)
FETCH_SECONDS = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_fetch_seconds", "gauge", (), "seconds", "How long the last fetch took."
)
WINDOW_END = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_window_end_timestamp_seconds",
    "gauge",
    ("window",),
    "seconds",
    "When the newest window of this length ended, in Unix seconds; its age is the time since.",
)
NODES = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_nodes",
    "gauge",
    ("state",),
    "",
    "Nodes with CPU and memory (measured), with one of them (partial), and those of the cluster of which nothing is "
    "known (unknown).",
)
OLDEST = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_oldest_sample_seconds",
    "gauge",
    (),
    "seconds",
    "Age of the newest sample of the node that was seen longest ago, among those that are told.",
)
DROPPED = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_dropped_series",
    "gauge",
    ("reason",),
    "",
    "Series that the analyser dropped in the last fetch, by why: NotANumber, Negative, Stale, Future.",
)
UNMATCHED = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_unmatched_series",
    "gauge",
    (),
    "",
    "Names in the provider's answers that no node goes by, or more than one does.",
)
STATE_ERRORS = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_state_errors_total",
    "counter",
    ("operation",),
    "",
    "Troubles with the state file, by operation: read, write, put_aside. The watcher goes on without it.",
)
REQUESTS = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_requests_total", "counter", ("code",), "", "Requests that were answered, by HTTP code."
)
API_REQUESTS = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests to the API server by verb and HTTP code; 0 when no answer came.",
)
BUILD_INFO = LOAD_WATCHER_FAMILIES.declare(
    "slack_load_watcher_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label."
)
