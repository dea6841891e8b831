"""What the auditor's agent and controller tell Prometheus, as data: every metric's name, type, labels, unit and help.

Series of a cgroup come and go with it; only one that has a quota and at least 100 enforcement periods in the window has
any: idle sidecars and containers without a limit would read as 0 % throttled. The neighbours' share is every
container's.
"""

from slack.process.metric_definition import UNREADABLE, MetricTable

AGENT_FAMILIES = MetricTable()
CONTROLLER_FAMILIES = MetricTable(UNREADABLE)

WINDOW = "5m"
"""The window of all gauges; reports have others too."""
_CGROUP = ("level", "namespace", "pod", "container", "window")
_WHO = (
    "level is kubepods, qos, pod, container or other; pod and container hold the uid and the beginning of the "
    "container id until the names are known, and the cgroup's path at level other."
)

THROTTLED_RATIO = AGENT_FAMILIES.declare(
    "slack_audit_throttled_periods_ratio",
    "gauge",
    _CGROUP,
    "",
    f"Share of enforcement periods in which the cgroup ran into its quota. Says nothing of time. {_WHO}",
)
TIME_LOST = AGENT_FAMILIES.declare(
    "slack_audit_time_lost_ratio",
    "gauge",
    _CGROUP,
    "",
    "Share of its time in which the cgroup stood still for a quota: throttled time over wall time and the CPUs that "
    f"it could run on. {_WHO}",
)
STOP = AGENT_FAMILIES.declare(
    "slack_audit_stop_seconds",
    "gauge",
    _CGROUP,
    "seconds",
    f"Mean stop of a throttled period on each CPU that was busy; 0 where none was throttled. {_WHO}",
)
USE = AGENT_FAMILIES.declare("slack_audit_use_cores", "gauge", _CGROUP, "cores", f"CPU time used a second. {_WHO}")
LIMIT = AGENT_FAMILIES.declare("slack_audit_limit_cores", "gauge", _CGROUP, "cores", f"Quota over period. {_WHO}")
LOST = AGENT_FAMILIES.declare(
    "slack_audit_lost_cores", "gauge", _CGROUP, "cores", f"CPU time wanted and not got for a quota, a second. {_WHO}"
)
NEIGHBOURS = AGENT_FAMILIES.declare(
    "slack_audit_neighbours_ratio",
    "gauge",
    _CGROUP,
    "",
    "Share of the time in which a container stood still because others had the CPU: its cpu.pressure, full, less the "
    "time lost to quotas. Of containers without a limit too; absent on cgroup v1, without PSI, and before kernel 5.13. "
    f"{_WHO}",
)
TROUBLES = AGENT_FAMILIES.declare(
    "slack_audit_read_troubles_total",
    "counter",
    ("trouble",),
    "",
    "Cgroups that could not be read in a sample, by why: empty, malformed, forbidden, gone, unreadable. Gone is usual: "
    "pods end.",
)
KERNEL_AFFECTED = AGENT_FAMILIES.declare(
    "slack_audit_kernel_affected",
    "gauge",
    ("bug",),
    "",
    "1 where the node's kernel has a CFS quota bug, 0 where it has not; no series where the version does not tell.",
)
CGROUPS = AGENT_FAMILIES.declare(
    "slack_audit_cgroups",
    "gauge",
    ("state",),
    "",
    "Cgroups by what the window says of them: measured, no limit, too few periods, counters reset, appeared, gone "
    "(within the last minute).",
)
PRESSURE = AGENT_FAMILIES.declare(
    "slack_audit_node_cpu_pressure_seconds_total",
    "counter",
    (),
    "seconds",
    "Time in which some task of the node waited for a CPU (PSI, cpu.pressure); one throttled pod raises it, so it says "
    "nothing of a full node: slack_audit_neighbours_ratio does. Absent without PSI.",
)
NODE_CPUS = AGENT_FAMILIES.declare("slack_audit_node_cpus", "gauge", (), "", "Online CPUs of the node.")
NODE_USE = AGENT_FAMILIES.declare(
    "slack_audit_node_use_cores", "gauge", (), "cores", "CPU time of the whole node a second."
)
SAMPLE_SECONDS = AGENT_FAMILIES.declare(
    "slack_audit_sample_seconds", "gauge", (), "seconds", "How long the last sample of all cgroups took."
)
SAMPLE_TIMESTAMP = AGENT_FAMILIES.declare(
    "slack_audit_sample_timestamp_seconds", "gauge", (), "seconds", "Unix time of the last sample; 0 before the first."
)
PUSHES = AGENT_FAMILIES.declare(
    "slack_audit_reports_total",
    "counter",
    ("outcome",),
    "",
    "Reports to the controller: sent, refused (its answer was 4xx), failed (no answer, 5xx, or none that can be read).",
)
BURST_WRITES = AGENT_FAMILIES.declare(
    "slack_audit_burst_writes_total",
    "counter",
    ("outcome",),
    "",
    "Bursts of containers: written, reverted, failed. Only with --write-burst.",
)

FINDINGS = CONTROLLER_FAMILIES.declare(
    "slack_audit_findings",
    "gauge",
    ("severity", "level"),
    "",
    "Findings of the cluster by severity (info, warn, high) and level. Only from the controller that leads.",
)
NODES = CONTROLLER_FAMILIES.declare(
    "slack_audit_nodes",
    "gauge",
    ("state",),
    "",
    "Nodes whose agent is reporting, and those of which nothing was heard for three intervals (silent). Only from the "
    "controller that leads.",
)
RESIZES = CONTROLLER_FAMILIES.declare(
    "slack_audit_resizes_total",
    "counter",
    ("outcome",),
    "",
    "Limits raised or put back through pods/resize, by what became of it; dry runs are counted apart.",
)
REPORTS_WRITTEN = CONTROLLER_FAMILIES.declare(
    "slack_audit_reports_written_total", "counter", (), "", "CpuAuditReports created, changed or deleted."
)
# Names of its own: alerts and panels on the operator's ask for slack_leader and its like, whoever the job is.
AUDIT_LEADER = CONTROLLER_FAMILIES.declare(
    "slack_audit_leader", "gauge", (), "", "1 while this controller holds its lease, takes reports and writes; else 0."
)
AUDIT_REQUESTS = CONTROLLER_FAMILIES.declare(
    "slack_audit_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "The controller's requests to the API server by Kubernetes verb and HTTP status; code 0: no answer.",
)
TURNS = CONTROLLER_FAMILIES.declare(
    "slack_audit_turns_total",
    "counter",
    (),
    "",
    "Turns, each with all reports judged, and what was due written. Only a leader's.",
)
AUDIT_BUILD_INFO = CONTROLLER_FAMILIES.declare(
    "slack_audit_build_info", "gauge", ("version",), "", "1, with the version of resource-slack as a label."
)
