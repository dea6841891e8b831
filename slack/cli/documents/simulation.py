"""What `simulate` prints: variants with their runs, or with `--curve` what each rate brings and costs."""

from typing import Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Interval, Record


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

    api_version: ApiVersion = msgspec.field(name="apiVersion")
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
    taint_writes: int
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

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["SimulationList"]
    currency: str
    items: list[Simulated]
