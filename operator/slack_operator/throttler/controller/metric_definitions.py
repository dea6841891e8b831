"""What the throttler's controller tells Prometheus, as data: every metric's name, type, labels, unit and help."""

from slack.process.metric_definition import UNREADABLE, MetricTable

THROTTLER_CONTROLLER_FAMILIES = MetricTable(UNREADABLE)

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)

CONTROLLER_BUILD_INFO = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_controller_build_info",
    "gauge",
    ("version",),
    "",
    "1, with the version of resource-slack as a label.",
)
ADMISSIONS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_admissions_total",
    "counter",
    ("outcome",),
    "",
    "Pods that the webhook has seen: Gated, AsItWas (nothing was to be added), Exempt, Refused (dependencies that "
    "cannot be kept, or a name of the throttler's taken), Unsupported (the API server does not take such variables), "
    "Unreadable.",
)
ADMISSION_SECONDS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_admission_seconds",
    "histogram",
    (),
    "seconds",
    "From the whole request of the API server to the whole answer, without the network.",
    buckets=_BUCKETS,
)
UNSUPPORTED = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_unsupported",
    "gauge",
    (),
    "",
    "1 while the API server does not take variables from files (before Kubernetes 1.35): pods are left as they are.",
)
CONTROLLER_LEADER = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_controller_leader",
    "gauge",
    (),
    "",
    "1 for the replica that takes agents' reports and writes the policies' status.",
)
NODES = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_nodes",
    "gauge",
    ("state",),
    "",
    "Nodes whose agents have reported to the leader: reporting, silent (they do not any more, or see no pods).",
)
CONTROLLER_REPORTS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_reports_total",
    "counter",
    ("outcome",),
    "",
    "Reports of agents, by outcome: taken, refused (a token that is no good, a body that cannot be read).",
)
PERMITS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_permits_total",
    "counter",
    ("outcome",),
    "",
    "Containers that were let in by a key of their pod's ConfigMap (throttler.backend=configmap), by outcome: granted, "
    "opened (no agent has named the pod for failOpenAfter), refused (such as a ConfigMap that is not ours), failed "
    "(and tried again).",
)
LATE_PODS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_late_pods_total",
    "counter",
    ("outcome",),
    "",
    "Pods with a container that was not ready within startTimeout (then: Delete), by outcome: evicted, not_needed "
    "(ready by now, gone, changed, or no policy says so), blocked (by a PodDisruptionBudget), refused, failed (and "
    "tried again).",
)
CONTROLLER_REQUESTS = THROTTLER_CONTROLLER_FAMILIES.declare(
    "slack_throttler_controller_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests of the controller to the API server by verb and HTTP status; 0 is no answer.",
)
