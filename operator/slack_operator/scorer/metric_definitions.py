"""What the scorer tells Prometheus, as data: every metric's name, type, labels, unit and help."""

from slack.process.metric_definition import UNREADABLE, MetricTable

SCORER_FAMILIES = MetricTable(UNREADABLE)

_HANDLER_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.2, 1.0)
_REFRESH_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

SCORER_BUILD_INFO = SCORER_FAMILIES.declare(
    "slack_scorer_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label."
)
CALLS = SCORER_FAMILIES.declare(
    "slack_scorer_calls_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests by verb (prioritize, filter, preempt, explain, other) and status. The scheduler does not report those "
    "that fail: it places the pods without the scorer.",
)
HANDLER_SECONDS = SCORER_FAMILIES.declare(
    "slack_scorer_handler_seconds",
    "histogram",
    ("verb",),
    "seconds",
    "From the whole request to the whole answer, without the network.",
    buckets=_HANDLER_BUCKETS,
)
DECISIONS = SCORER_FAMILIES.declare(
    "slack_scorer_decisions_total",
    "counter",
    ("rule",),
    "",
    "Answers to /prioritize by the rule that decided: Measured, TooFewMeasured, Placeholder, NotReady (the cluster is "
    "not listed yet), and while no node's load is known SpreadOnAllocations, BestFitOnAllocations or NoLoad.",
)
UNKNOWN_NODES = SCORER_FAMILIES.declare(
    "slack_scorer_unknown_nodes_total",
    "counter",
    (),
    "",
    "Nodes that the scheduler asked about and that our watch does not have; they get the minimum.",
)
ALL_ABOVE = SCORER_FAMILIES.declare(
    "slack_scorer_all_nodes_above_ceiling_total",
    "counter",
    (),
    "",
    "Requests to /filter and /preempt for which every node was above the ceiling. Such a pod stays Pending, or may go "
    "to any of the nodes (--when-all-above).",
)
NODES = SCORER_FAMILIES.declare(
    "slack_scorer_nodes",
    "gauge",
    ("state",),
    "",
    "Nodes by what is known of their load: Measured, New, NoMetrics, NoCpu, Stale, Future. All but the first two get "
    "the minimum.",
)
FALLING_BACK = SCORER_FAMILIES.declare(
    "slack_scorer_falling_back",
    "gauge",
    (),
    "",
    "1 while the load of no node, or of too few nodes, is known. Nodes then score by requests, or all the same.",
)
UNMATCHED = SCORER_FAMILIES.declare(
    "slack_scorer_unmatched_names",
    "gauge",
    (),
    "",
    "Names in the load watcher's windows that belong to no node, by no name or address of it.",
)
LOAD_AGE = SCORER_FAMILIES.declare(
    "slack_scorer_load_age_seconds",
    "gauge",
    (),
    "seconds",
    "Age of the newest figure of any node; absent while there is none.",
)
RECENT_PODS = SCORER_FAMILIES.declare(
    "slack_scorer_predicted_cpu_cores",
    "gauge",
    (),
    "cores",
    "CPU that is predicted for pods which metrics do not show yet, on all nodes.",
)
FETCH_ERRORS = SCORER_FAMILIES.declare(
    "slack_scorer_fetch_errors_total",
    "counter",
    ("why",),
    "",
    "Windows that the load watcher did not give: unreachable, status, payload, mistake.",
)
IGNORED = SCORER_FAMILIES.declare(
    "slack_scorer_ignored_figures_total",
    "counter",
    ("why",),
    "",
    "Figures of the load watcher that are none: NotANumber, Negative, UnknownType, UnknownRollup, Malformed.",
)
REFRESH_SECONDS = SCORER_FAMILIES.declare(
    "slack_scorer_refresh_seconds",
    "histogram",
    (),
    "seconds",
    "How long what scores are computed from took to be made anew.",
    buckets=_REFRESH_BUCKETS,
)
REQUESTS = SCORER_FAMILIES.declare(
    "slack_scorer_api_requests_total", "counter", ("verb", "code"), "", "Requests to the API server: lists and watches."
)
