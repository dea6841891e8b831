"""The documents of `-o json` and `-o yaml`, field by field: their schemas are made of this, and tests hold them to it.

One vocabulary: names are in snake_case and end with their unit where they have one (`cpu_millis`, `memory_bytes`,
`p99_seconds`, `node_hours`), apart from `apiVersion` and `kind`, which are Kubernetes' own, and from objects of
Kubernetes that a document carries as they are. `audit` has names of its own (`audit_vocabulary`). Fields are only ever
added.
"""

from typing import Any, Literal

import msgspec

from slack.cli.terminal.audit_vocabulary import AUDIT_DOCUMENTS
from slack.cluster.labels import API_VERSION

Amounts = dict[str, int]
"""`cpu_millis` and `memory_bytes`, and further resources by their Kubernetes names, in base units."""
Interval = tuple[float, float] | None
"""Of 95 %; null of a single run."""
_VERSION = Literal["resource-slack.io/v1alpha1"]


class Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is not declared is not printed."""


class Change(Record):
    """How many placeholders come, stay and go."""

    add: int
    keep: int
    remove: int


class PlannedShape(Record):
    """Placeholders of one size."""

    name: str
    role: Literal["cover", "fill", "mirror"]
    count: int
    requests: Amounts
    for_: list[str] = msgspec.field(name="for")
    change: Change


class BindingLimit(Record):
    """A limit that binds: of a ceiling more is wanted than it allows, of a floor less; replicas are in `wanted_by`."""

    limit: Literal["ceiling", "floor"]
    at: Amounts
    wanted: Amounts
    text: str


class WantedBy(Record):
    """The field of a policy that sets how much of some resources is wanted; of the others it says nothing."""

    source: Literal["rate", "ladder", "floor", "replicas", "objective"]
    resources: list[str]
    window: str | None
    rate: float | None
    base: Amounts | None
    floor: Amounts | None
    replicas: int | None
    instant_start: float | None
    text: str


class Cost(Record):
    """What placeholders cost: node hours always, money where nodes have prices."""

    node_hours_per_hour: float
    node_hours_per_month: float
    currency: str
    per_hour: float | None
    per_month: float | None
    node_per_hour: float | None
    unpriced_nodes: int
    text: str


class Spared(Record):
    """What the pods of a day that took a placeholder's place would have waited; null where no operator has told it."""

    pods: int
    seconds: int
    text: str


class Uncovered(Record):
    """A pod for which no room is kept."""

    pod: str
    reason: str


class Condition(Record):
    """As in a SlackPolicy's status."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class PlannedFor(Record):
    """What an objective asks for, and why this much; `known` is false where the rate holds in its place."""

    instant_start: float
    known: bool
    why: str


class PolicyPlanned(Record):
    """One policy's plan."""

    policy: str
    nodes: int
    base: Amounts
    desired: Amounts
    asked: Amounts
    wanted_by: list[WantedBy]
    binding: list[BindingLimit]
    planned: Amounts
    objective: PlannedFor | None
    new_nodes: int
    cost: Cost | None
    reserved_cost: Cost | None
    spared: Spared | None
    shapes: list[PlannedShape]
    uncovered: list[Uncovered]
    conditions: list[Condition]


class PlanList(Record):
    """`plan`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["PlanList"]
    items: list[PolicyPlanned]


class ExplainedRoom(Record):
    """A placeholder in whose place a pod could go."""

    policy: str
    shape: str
    role: str
    requests: Amounts
    count: int
    bound: int
    pending: int
    nodes: dict[str, int]


class Explanation(Record):
    """`explain`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Explanation"]
    workload: str
    pods: int
    requests: Amounts
    ready: bool
    rooms: list[ExplainedRoom]
    reasons: list[str]
    warnings: list[str]


class StatusFinding(Record):
    """Something to know, or to mend."""

    level: str
    reason: str
    text: str
    advice: str
    since: str


class OperatorSeen(Record):
    """Whether the operator runs."""

    runs: bool | None
    text: str


class PolicyState(Record):
    """How a policy's slack is, in a word."""

    name: str
    calm: bool
    words: str
    remedy: str


class PolicyStatus(Record):
    """One policy; `status` is the object's own, as Kubernetes has it. Null where no operator keeps that up."""

    name: str
    good: bool
    ready: bool | None
    satisfied: bool | None
    not_known_since: str | None
    text: str
    state: PolicyState
    limit: str
    bound: int
    pending: int
    nodes: dict[str, dict[str, int]]
    findings: list[StatusFinding]
    status: dict[str, Any]


class Status(Record):
    """`status`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Status"]
    good: bool
    satisfied: bool | None
    built_in: bool
    idle: bool
    operator: OperatorSeen
    not_seen: list[str]
    findings: list[StatusFinding]
    policies: list[PolicyStatus]


class RateRun(Record):
    """One seed's run."""

    seed: int
    pods: int
    instant_start_ratio: float | None
    cost_per_month: float
    waste: float
    p99_seconds: float | None
    nodes: float
    late_per_day: float
    waited_hours_per_day: float


class RatePoint(Record):
    """A rate, and what it brings and costs."""

    rate: float
    instant_start_ratio: float
    interval: Interval
    cost_per_month: float
    cost_interval: Interval
    waste: float
    p99_seconds: float
    nodes: float
    node_hours_per_month: float
    late_per_day: float
    waited_hours_per_day: float
    runs: list[RateRun]


class RateCurve(Record):
    """`simulate --curve`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["RateCurve"]
    currency: str
    scenario: str
    seeds: list[int]
    curve: list[RatePoint]


class SimulatedStarts(Record):
    """Pods of one workload in one run, of all under the name `*`; ratios and waits of no pods are null."""

    workload: str
    pods: int
    bound: int
    instant: int
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    max_seconds: float | None
    pending_pod_seconds: float
    recreated: int
    recreated_instant: int
    instant_start_ratio: float | None
    recreated_instant_start_ratio: float | None


class SimulatedNodes(Record):
    """Nodes of one group in one run."""

    group: str
    node_hours: float
    cost: float
    scale_ups: int
    scale_downs: int
    most: int
    last: int


class SimulatedChurn(Record):
    """Placeholders that were made in one measured hour, and why."""

    created: int
    displaced: int
    drained: int
    grown: int
    other: int


class SimulatedMoment(Record):
    """The simulated cluster at a moment."""

    time_seconds: float
    requested_cpu_millis: int
    requested_memory_bytes: int
    slack_bound_cpu_millis: int
    slack_bound_memory_bytes: int
    slack_pending_cpu_millis: int
    slack_pending_memory_bytes: int
    capacity_cpu_millis: int
    capacity_memory_bytes: int
    nodes: int
    starting_nodes: int
    leaving_nodes: int
    pending_pods: int
    placeholders: int
    displaced: int


class SimulatedRun(Record):
    """One seed's run of a variant (docs/reference/scenario.md has what the figures mean)."""

    scenario: str
    slack: str
    seed: int
    measured_seconds: float
    total: SimulatedStarts
    workloads: list[SimulatedStarts]
    groups: list[SimulatedNodes]
    requested_cpu_hours: float
    requested_memory_gib_hours: float
    capacity_cpu_hours: float
    capacity_memory_gib_hours: float
    scale_ups: int
    scale_up_decisions: int
    scale_downs: int
    placeholders_created: int
    placeholders_displaced: int
    placeholders_drained: int
    placeholders_made_way: int
    placeholders_grown: int
    placeholders_other: int
    churn_by_hour: list[SimulatedChurn]
    pods_preempted: int
    pods_drained: int
    plans: int
    events: int
    timeline: list[SimulatedMoment]
    instant_start_ratio: float | None
    node_hours: float
    cost: float
    cost_per_month: float
    waste: float


class Simulated(msgspec.Struct, kw_only=True):
    """One variant; the fields of its runs are those of a scenario's result (docs/reference/scenario.md)."""

    name: str
    variant: str
    scenario: str
    slack: str
    seeds: list[int]
    measured_seconds: float
    instant_start_ratio: float | None
    instant_start_interval: Interval
    cost: float
    cost_interval: Interval
    cost_per_month: float
    node_hours: float
    waste: float
    total: dict[str, float | str | None]
    workloads: list[dict[str, float | str | None]]
    groups: list[dict[str, float | str]]
    runs: list[SimulatedRun]


class SimulationList(Record):
    """`simulate`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["SimulationList"]
    currency: str
    items: list[Simulated]


class Tuning(Record):
    """`tune`; `policies` are SlackPolicies, as Kubernetes has them."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Tuning"]
    instant_start: float
    seeds: list[int]
    currency: str
    reached: bool
    chosen: RatePoint | None
    surer: RatePoint | None
    curve: list[RatePoint]
    given_up: list[float]
    policies: list[dict[str, Any]]
    left_out_pods: int


class LoadMoment(Record):
    """What there was at a moment."""

    seconds: float
    bound: int
    waiting: int
    placeholders: int
    nodes: int


class Load(Record):
    """`load`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Load"]
    pods: int
    unbound: int
    at_once: int
    p50_seconds: float | None
    p99_seconds: float | None
    displaced: int
    nodes_before: int
    nodes_most: int
    nodes_now: int
    nodes_gone_seconds: float | None
    waits_for: str
    notes: list[str]
    timeline: list[LoadMoment]


class WindowUse(Record):
    """What a node uses of one resource over one window."""

    window: Literal["15m", "10m", "5m"]
    type: Literal["cpu", "memory", "network", "disk"]
    average_percent: float | None
    deviation_percent: float | None


class NodeLoad(Record):
    """What a load watcher knows of a node; no verdict means that its analyser has nothing against it."""

    node: str
    age_seconds: float | None
    verdicts: list[str]
    windows: list[WindowUse]


class NodeLoadList(Record):
    """`load-watcher show`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["NodeLoadList"]
    source: str
    window_end_unix_seconds: int
    error: str | None
    unmatched: list[str]
    items: list[NodeLoad]


class ScoreTerms(Record):
    """One algorithm's score, 0 to 100, and every figure on the way to it; null for what is not known."""

    name: str
    score: int
    terms: dict[str, float | None]


class NodeScore(Record):
    """One node. `terms` are figures that all algorithms share."""

    node: str
    score: int
    state: Literal["Measured", "New", "NoMetrics", "Stale", "Future"]
    algorithms: list[ScoreTerms]
    terms: dict[str, float | None]


class NodeScores(Record):
    """`scorer score`: nodes with their scores, the best first."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["NodeScores"]
    pod: str
    requests: Amounts
    predicted: Amounts
    placeholder: bool
    at: str
    rule: Literal["Measured", "BestFitOnAllocations", "Placeholder"]
    highest_score: int
    best: str | None
    unmatched: list[str]
    items: list[NodeScore]


class DecisionAgain(Record):
    """A recorded decision, made again."""

    pod: str
    at: str
    nodes: int
    rule: str
    best: str | None
    best_score: int | None
    recorded_rule: str
    recorded_best: str | None
    recorded_best_score: int | None
    changed_nodes: int


class DecisionList(Record):
    """`scorer score --lines`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["DecisionList"]
    decisions: int
    other_best: int
    other_scores: int
    items: list[DecisionAgain]


class NamedOnly(Record):
    """The metadata of an object that no server has seen."""

    name: str


class MigratedPolicy(Record):
    """A SlackPolicy as `kubectl apply` takes it; its spec is held to the CRD."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["SlackPolicy"]
    metadata: NamedOnly
    spec: dict[str, Any]


class MigratedList(Record):
    """Several of them, as `kubectl get -o json` prints several."""

    api_version: Literal["v1"] = msgspec.field(name="apiVersion")
    kind: Literal["List"]
    items: list[MigratedPolicy]


class Uninstalled(Record):
    """What became of an object; in another run without --yes it says what would."""

    kind: str
    namespace: str | None
    name: str
    outcome: Literal["Deleted", "WasGone", "WouldBeDeleted", "ScaledToZero", "WouldBeScaledToZero", "Kept", "Left"]
    reason: str | None


class UninstallList(Record):
    """`uninstall`; `pods_left` are placeholders that were still on their way out when it stopped to wait."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["UninstallList"]
    namespace: str
    yes: bool
    pods_left: int
    items: list[Uninstalled]


class Recording(Record):
    """`record`: what the file holds; `complete` is false where a server failed before the end."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Recording"]
    file: str
    pods: int
    nodes: int
    recorded_seconds: float
    complete: bool
    notes: list[str]


class Version(Record):
    """`version`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["Version"]
    version: str
    python: str


class StartLimits(Record):
    """What a ThrottlePolicy comes to on a node; null for what is off. Shares are of 1."""

    slots: int | None
    namespace_slots: int | None
    max_load1: float | None
    max_cpu: float | None
    max_cpu_pressure: float | None
    max_io_pressure: float | None
    force_after_seconds: float | None
    gap_seconds: float
    start_timeout_seconds: float | None
    delete_late: bool
    no_probe_hold_seconds: float
    fail_open_after_seconds: float
    average_over_seconds: float
    gate_restarts: bool


class CheckedStart(Record):
    """One document: limits of a policy, or levels of a pod, each level with the containers that may start at once."""

    kind: Literal["ThrottlePolicy", "MinionConfig", "Pod"]
    name: str
    cores: float | None
    limits: StartLimits | None
    levels: list[list[str]] | None


class ThrottlerCheck(Record):
    """`throttler check`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["ThrottlerCheck"]
    items: list[CheckedStart]


class StartEvent(Record):
    """Something that happened to a container; `at` is seconds from the scenario's beginning."""

    at: float
    pod: str
    container: str
    event: Literal["start", "ready", "failed"]
    forced: bool
    reason: str


class StartRun(Record):
    """One run of a scenario. `limit` is null without a gate, `makespan_seconds` where not all became ready."""

    name: str
    limit: int | None
    containers: int
    ready: int
    failures: int
    most: int
    makespan_seconds: float | None
    mean_ready_seconds: float | None
    order: list[str]
    events: list[StartEvent]


class StartSimulationList(Record):
    """`throttler simulate`."""

    api_version: _VERSION = msgspec.field(name="apiVersion")
    kind: Literal["StartSimulationList"]
    items: list[StartRun]


DOCUMENTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "plan": (PlanList,),
    "explain": (Explanation,),
    "status": (Status,),
    "simulate": (SimulationList, RateCurve),
    "tune": (Tuning,),
    "load": (Load,),
    "score": (NodeScores, DecisionList),
    "load-watcher": (NodeLoadList,),
    "migrate": (MigratedPolicy, MigratedList),
    "uninstall": (UninstallList,),
    "record": (Recording,),
    "version": (Version,),
    "throttler-check": (ThrottlerCheck,),
    "throttler-simulate": (StartSimulationList,),
    **AUDIT_DOCUMENTS,
}
"""By command, what it prints."""
_CALLED = {
    "score": "scorer score",
    "load-watcher": "load-watcher show",
    "audit-explain": "audit explain",
    "audit-kernel": "audit kernel",
    "throttler-check": "throttler check",
    "throttler-simulate": "throttler simulate",
}
"""Commands of several words."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON schema of what a command prints for machines."""
    kinds = DOCUMENTS[command]
    found, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    body = found[0] if len(found) == 1 else {"oneOf": list(found)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://resource-slack.io/schemas/{API_VERSION.partition('/')[2]}/{command}.json",
        "title": f"resource-slack {_CALLED.get(command, command)} -o json",
        **body,
        "$defs": definitions,
    }
