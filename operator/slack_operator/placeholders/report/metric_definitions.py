"""What the operator tells Prometheus, as data: every metric's name, type, labels, unit and help.

`metrics` makes them, the reference page and the tests of rules and dashboard read them; no running operator is needed.
Every label has few values: `policy` comes and goes with its SlackPolicy, the others are finite.
"""

from slack.process.metric_definition import BUILD_INFO, UNREADABLE, MetricTable

FAMILIES = MetricTable(BUILD_INFO, UNREADABLE)

_INSTANT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
_LAG_BUCKETS = (0.25, 0.5, 1, 2, 5, 10, 30, 60)
_PLAN_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_READY_BUCKETS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_WAY_BUCKETS = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)

_LEADER_ONLY = "Only from the operator that leads; gone with the policy."


DESIRED_CPU = FAMILIES.declare(
    "slack_desired_cpu_cores", "gauge", ("policy",), "cores", f"CPU of the extra capacity wanted. {_LEADER_ONLY}"
)
DESIRED_MEMORY = FAMILIES.declare(
    "slack_desired_memory_bytes", "gauge", ("policy",), "bytes", f"Memory of the extra capacity wanted. {_LEADER_ONLY}"
)
DESIRED_EXTENDED = FAMILIES.declare(
    "slack_desired_extended_resources",
    "gauge",
    ("policy", "resource"),
    "",
    f"Extra capacity wanted of resources other than CPU and memory, in their base units. {_LEADER_ONLY}",
)
RESERVED_CPU = FAMILIES.declare(
    "slack_reserved_cpu_cores",
    "gauge",
    ("policy",),
    "cores",
    f"CPU requests of placeholders that are on nodes; of unbound ones those that fit and that autoscalers know of. "
    f"{_LEADER_ONLY}",
)
RESERVED_MEMORY = FAMILIES.declare(
    "slack_reserved_memory_bytes",
    "gauge",
    ("policy",),
    "bytes",
    f"Memory requests of placeholders that are on nodes; of unbound ones those that fit and that autoscalers know of. "
    f"{_LEADER_ONLY}",
)
RESERVED_EXTENDED = FAMILIES.declare(
    "slack_reserved_extended_resources",
    "gauge",
    ("policy", "resource"),
    "",
    "Requests of placeholders that are on nodes, or fit there unbound, for resources other than CPU and memory, in "
    f"their base units. {_LEADER_ONLY}",
)
PENDING = FAMILIES.declare(
    "slack_pending_placeholders",
    "gauge",
    ("policy",),
    "",
    f"Placeholders that are on no node, or fit on none. {_LEADER_ONLY}",
)
BOUND = FAMILIES.declare(
    "slack_bound_placeholders",
    "gauge",
    ("policy",),
    "",
    f"Placeholders that are on a node, or unbound ones that fit on one. {_LEADER_ONLY}",
)
LOW_PRIORITY_CPU = FAMILIES.declare(
    "slack_low_priority_cpu_cores",
    "gauge",
    ("policy",),
    "cores",
    "CPU requests of pods on the policy's nodes whose priority is not above the placeholders': they take capacity that "
    f"unbound placeholders hold free. Only where placeholders are unbound. {_LEADER_ONLY}",
)
LOW_PRIORITY_MEMORY = FAMILIES.declare(
    "slack_low_priority_memory_bytes",
    "gauge",
    ("policy",),
    "bytes",
    f"The same of memory. {_LEADER_ONLY}",
)
BUFFERED_CPU = FAMILIES.declare(
    "slack_buffered_cpu_cores",
    "gauge",
    ("policy",),
    "cores",
    "CPU of the wanted slack that CapacityBuffers keep, so that placeholders of the policy do not. Only with "
    f"spec.capacityBuffers: Count, and while there is such a buffer. {_LEADER_ONLY}",
)
BUFFERED_MEMORY = FAMILIES.declare(
    "slack_buffered_memory_bytes",
    "gauge",
    ("policy",),
    "bytes",
    f"The same of memory. {_LEADER_ONLY}",
)
COVERAGE = FAMILIES.declare(
    "slack_coverage_ratio",
    "gauge",
    ("policy",),
    "",
    "Share of arrivals, among pods that could take a placeholder's place and have none of their own "
    "(resource-slack.io/reserve), that fit the room of one planned placeholder; 1 when there are no such pods. "
    f"{_LEADER_ONLY}",
)
OBJECTIVE = FAMILIES.declare(
    "slack_objective_ratio",
    "gauge",
    ("policy",),
    "",
    f"Share of pods that must start without waiting for a node, if the policy has an objective. {_LEADER_ONLY}",
)
OBJECTIVE_REACHED = FAMILIES.declare(
    "slack_objective_reached_ratio",
    "gauge",
    ("policy",),
    "",
    "Instant starts of the last 24 hours: the share of pods that slack could help that were bound within 2 s of their "
    f"creation; absent while there were none. {_LEADER_ONLY}",
)
OBJECTIVE_LATE = FAMILIES.declare(
    "slack_objective_late_pods",
    "gauge",
    ("policy",),
    "",
    f"Pods of the last 24 hours that slack could help and that waited for a node. {_LEADER_ONLY}",
)
OBJECTIVE_WINDOW = FAMILIES.declare(
    "slack_objective_window_seconds",
    "gauge",
    ("policy",),
    "seconds",
    f"From the need for a node until pods run there, as an objective counts with. {_LEADER_ONLY}",
)
OBJECTIVE_PRICE = FAMILIES.declare(
    "slack_objective_price_per_hour",
    "gauge",
    ("policy",),
    "",
    f"What the amount of an objective costs an hour, in the currency of its prices; absent without. {_LEADER_ONLY}",
)
COST_PER_HOUR = FAMILIES.declare(
    "slack_cost_per_hour",
    "gauge",
    ("policy", "currency"),
    "",
    f"What the placeholders that are on nodes cost per hour, by --prices; absent without. {_LEADER_ONLY}",
)
COST_NODES = FAMILIES.declare(
    "slack_cost_nodes",
    "gauge",
    ("policy",),
    "",
    "How many of the policy's nodes the placeholders amount to that are on nodes, by cpu or memory, whichever is "
    f"more. {_LEADER_ONLY}",
)
SPARED_SECONDS = FAMILIES.declare(
    "slack_spared_wait_seconds",
    "gauge",
    ("policy",),
    "seconds",
    "What the pods that took a placeholder's place would have waited for a node, those of the day before the last of "
    f"them together. {_LEADER_ONLY}",
)
HOLD = FAMILIES.declare(
    "slack_policy_hold",
    "gauge",
    ("policy", "form", "reason"),
    "",
    f"1 for the form that the policy's placeholders have (Bound or Unbound) and the reason of it. {_LEADER_ONLY}",
)
CONDITION = FAMILIES.declare(
    "slack_policy_condition",
    "gauge",
    ("policy", "type", "status"),
    "",
    "1 for the status (true or false) that a condition of the policy has, 0 for the other; types are those of the "
    f"SlackPolicy's status. {_LEADER_ONLY}",
)
DRY_RUN = FAMILIES.declare(
    "slack_policy_dry_run", "gauge", ("policy",), "", f"1 where spec.dryRun is true: nothing is kept. {_LEADER_ONLY}"
)
CEILING_REACHED = FAMILIES.declare(
    "slack_policy_ceiling_reached",
    "gauge",
    ("policy",),
    "",
    "1 where spec.extraCapacity.ceiling is all that keeps the policy from the slack that it wants. " + _LEADER_ONLY,
)
MORE_THAN_DOUBLES = FAMILIES.declare(
    "slack_policy_more_than_doubles",
    "gauge",
    ("policy",),
    "",
    "1 where so many nodes must come for the policy's placeholders that the cluster more than doubles. " + _LEADER_ONLY,
)
DISPLACED = FAMILIES.declare(
    "slack_displaced_total",
    "counter",
    ("policy", "cause"),
    "",
    "Bound placeholders that left their nodes for others. PreemptionByScheduler and MadeWay (deleted for a burst of "
    "pods) are slack at work: real pods took the place. PreemptionByResize: one that grows there did (Kubernetes 1.37, "
    "alpha; told from a resize "
    f"that was deferred there while no pod was promised the node). {_LEADER_ONLY}",
)
MADE_WAY = FAMILIES.declare(
    "slack_made_way_total",
    "counter",
    ("policy", "cause"),
    "",
    "Placeholders that the operator deleted for a burst of real pods: cause is pods (they were there without a node), "
    f"promise (their owner was about to make them) or growth (of a pod on the node). {_LEADER_ONLY}",
)
MADE_WAY_IN_VAIN = FAMILIES.declare(
    "slack_made_way_in_vain_total",
    "counter",
    ("policy",),
    "",
    f"Placeholders of slack_made_way_total whose pods did not come, or were helped by the scheduler. {_LEADER_ONLY}",
)
MAKING_WAY = FAMILIES.declare(
    "slack_making_way_seconds",
    "histogram",
    ("policy",),
    "seconds",
    "From the first pod of a burst, as the operator's watch shows it, to the last placeholder that made way for it; 0 "
    f"where all had gone before the first pod was there. {_LEADER_ONLY}",
    buckets=_WAY_BUCKETS,
)
FAILED = FAMILIES.declare(
    "slack_failed_placeholders_total",
    "counter",
    ("policy", "cause"),
    "",
    "Placeholders that have failed or completed, by the kubelet's word (Evicted, OutOfcpu, Terminated and so on): the "
    f"operator deletes what is left of them. {_LEADER_ONLY}",
)
INSTANT_START = FAMILIES.declare(
    "slack_instant_start_seconds",
    "histogram",
    ("policy", "in_slack"),
    "seconds",
    "From a real pod's creation to its binding; an instant start takes up to 2 s. Both times are as the operator's "
    "watch shows them (its delay cancels out); for pods found waiting in a list, from creationTimestamp, in seconds. "
    "Time behind scheduling gates does not count, nor do pods that no watch showed without a node. in_slack is true "
    "where the pod took a placeholder's place. "
    f"{_LEADER_ONLY}",
    buckets=_INSTANT_BUCKETS,
)
TIME_TO_READY = FAMILIES.declare(
    "slack_time_to_ready_seconds",
    "histogram",
    ("policy", "stage"),
    "seconds",
    "From a real pod's creation to each stage of its start, for pods that have become Ready: bound (it has a node), "
    "image (its last image is there, by the kubelet's Events Pulled), started (all containers), ready. The pods are "
    f"those of slack_instant_start_seconds. {_LEADER_ONLY}",
    buckets=_READY_BUCKETS,
)
IMAGE_PULL = FAMILIES.declare(
    "slack_image_pull_seconds",
    "histogram",
    ("policy",),
    "seconds",
    "How long real pods that have become Ready waited for pulls of images, by the kubelet's Events Pulled; pods whose "
    f"images were there do not count. {_LEADER_ONLY}",
    buckets=_READY_BUCKETS,
)
IMAGE_PULLED_BYTES = FAMILIES.declare(
    "slack_image_pulled_bytes_total",
    "counter",
    ("policy",),
    "",
    f"Sizes of the images that these pods waited for; kubelets say them from Kubernetes 1.30 on. {_LEADER_ONLY}",
)
WARM_PULLS = FAMILIES.declare(
    "slack_warm_pulls_total",
    "counter",
    ("policy", "result"),
    "",
    "Pulls of images for spec.warm that have ended: `Pulled`, or why not in the kubelet's word, such as "
    f"`ErrImagePull`; `WarmRefused`: the API server refused the pod. {_LEADER_ONLY}",
)
WARM_PULLED_BYTES = FAMILIES.declare(
    "slack_warm_pulled_bytes_total",
    "counter",
    ("policy",),
    "",
    f"Sizes of the images that were pulled for spec.warm; an image of unknown size counts as 1 GiB. {_LEADER_ONLY}",
)
PLAN_DURATION = FAMILIES.declare(
    "slack_plan_duration_seconds",
    "histogram",
    (),
    "seconds",
    "Time of one plan, without reading and writing. Standbys make none.",
    buckets=_PLAN_BUCKETS,
)
PLAN_TIMESTAMP = FAMILIES.declare(
    "slack_plan_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "Unix time at which the last plan was made and carried out; 0 before this process's first, so on standbys.",
)
PLAN_INTERVAL = FAMILIES.declare(
    "slack_plan_interval_seconds",
    "gauge",
    (),
    "seconds",
    "--interval: a leader plans at least this often. Standbys have it too.",
)
LOOP_LAG = FAMILIES.declare(
    "slack_loop_lag_seconds",
    "histogram",
    (),
    "seconds",
    "From the first change in the cluster that no plan has seen, or from when the interval was over, to the beginning "
    "of the plan for it; 0.2 s of it let changes gather. Standbys make no plans.",
    buckets=_LAG_BUCKETS,
)
WATCH_RESTARTS = FAMILIES.declare(
    "slack_watch_restarts_total",
    "counter",
    ("path",),
    "",
    "Watches that were opened anew, by the path of the API. API servers end each after half an hour to an hour, so two "
    "an hour are usual. Standbys watch too.",
)
API_REQUESTS = FAMILIES.declare(
    "slack_api_requests_total",
    "counter",
    ("verb", "code"),
    "",
    "Requests to the API server by Kubernetes verb and HTTP status; code 0: no answer.",
)
LEADER = FAMILIES.declare(
    "slack_leader",
    "gauge",
    (),
    "",
    "1 while this process holds the lease and acts, 0 on a standby; one process of a release has 1.",
)
STUCK = FAMILIES.declare(
    "slack_preemptions_stuck_total",
    "counter",
    (),
    "",
    "Real pods that the scheduler left pending after it had promised them a node and made room there.",
)
RESCUES = FAMILIES.declare(
    "slack_preemption_rescues_total",
    "counter",
    (),
    "",
    "Real pods hanging after a preemption that were freed by clearing status.nominatedNodeName.",
)
TAKEN_BACK = FAMILIES.declare(
    "slack_ownership_taken_back_total",
    "counter",
    ("policy", "part"),
    "",
    "Writes of others to the operator's own objects that it took back: part is replicas, template, metadata, owner, "
    "object (it was deleted), pods (made from a changed template), cost (deletion costs), priority (of placeholders), "
    "lost (their labels or owner) or globalDefault. Empty policy: the PriorityClass.",
)
BUFFERS = FAMILIES.declare(
    "slack_capacity_buffers",
    "gauge",
    ("reason",),
    "",
    "CapacityBuffers that are served, by the reason of their condition Provisioning; Conflict: left to another server. "
    "Only from the operator that leads.",
)
BUFFER_CHUNKS = FAMILIES.declare(
    "slack_capacity_buffer_chunks",
    "gauge",
    ("state",),
    "",
    "Chunks of served CapacityBuffers: wanted, as bounds leave them, and fitting, in free capacity of nodes now. "
    "Only from the operator that leads.",
)
BUFFER_SERVER = FAMILIES.declare(
    "slack_capacity_buffer_server",
    "gauge",
    ("server",),
    "",
    "1 for who serves CapacityBuffers beside the operator, by its probe: Nobody, ClusterAutoscaler, "
    "ClusterAutoscalerController, Karpenter, Other, NoCRD, UnusableCRD or Probing. Only while capacityBuffers.serve is "
    "not Off, from the operator that leads.",
)
