"""What the throttler's agent tells Prometheus, as data: every metric's name, type, labels, unit and help."""

from slack.process.metric_definition import BUILD_INFO, UNREADABLE, MetricTable

THROTTLER_AGENT_FAMILIES = MetricTable(BUILD_INFO, UNREADABLE)

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

CONTAINERS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_containers",
    "gauge",
    ("state",),
    "",
    "Gated containers of the node by state: downloading, blocked, pending, starting, ready, failed.",
)
SLOTS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_slots", "gauge", (), "", "How many containers may start at once on the node; +Inf without a limit."
)
SLOTS_TAKEN = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_slots_taken", "gauge", (), "", "How many slots are taken."
)
POLICY_KNOWN = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_policy_known",
    "gauge",
    (),
    "",
    "1 once the agent knows the policies and its node's labels; 0: nothing is granted for up to a minute.",
)
BLIND = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_blind",
    "gauge",
    (),
    "",
    "1 while the agent does not see its node's pods: its gates let all containers start after failOpenAfter.",
)
GRANTS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_grants_total",
    "counter",
    ("forced",),
    "",
    "Permits that were given, by whether minRate forced them: true, false.",
)
TIMED_OUT = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_timed_out_total", "counter", (), "", "Containers that were not ready within startTimeout."
)
OPENED = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_opened_total",
    "counter",
    (),
    "",
    "Containers that started without a permit, because their gate had no answer of an agent that sees its pods.",
)
WAIT = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_wait_seconds",
    "histogram",
    (),
    "seconds",
    "From when the kubelet would have started a container until its permit.",
    buckets=_BUCKETS,
)
START = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_start_seconds",
    "histogram",
    (),
    "seconds",
    "From a container's permit until it was ready.",
    buckets=_BUCKETS,
)
GATES = THROTTLER_AGENT_FAMILIES.declare("slack_throttler_gates", "gauge", (), "", "Gates that are connected.")
REFUSED = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_refused_gates_total", "counter", (), "", "Gates whose token was no good."
)
JOURNAL_ERRORS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_journal_errors_total",
    "counter",
    (),
    "",
    "Permits that could not be written down before they were given.",
)
UNKNOWN = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_usage_unknown",
    "gauge",
    ("figure",),
    "",
    "1 where a figure of the node cannot be read, and holds nobody back: load1, cpu, cpu_pressure, io_pressure.",
)
REPORTS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_agent_reports_total",
    "counter",
    ("outcome",),
    "",
    "Reports to the controller by outcome: sent, refused, failed (no answer, or a replica that does not lead).",
)
API_REQUESTS = THROTTLER_AGENT_FAMILIES.declare(
    "slack_throttler_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests to the API server by verb and HTTP status; 0 is no answer.",
)
