"""What a run came to, as values: how fast pods started, what it cost, what the placeholders went through.

Everything is measured after the warm-up. A pod that never was bound counts with the time it had waited at the end, so
that slack cannot look good by leaving pods pending. Starts are first starts: a pod that takes the place of one that was
evicted or preempted is `recreated` and counted apart, as it tells of the autoscaler and not of the load.
"""

from dataclasses import asdict, dataclass
from typing import Any

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """Pods of one workload; all of them together under the name `*`."""

    workload: str
    pods: int
    """First starts: pods created and either bound, or waiting for longer than an instant."""
    bound: int
    instant: int
    """Of these, bound within `instantSeconds` of their creation."""
    p50_seconds: float
    """Time from creation to binding of first starts: median, and so on."""
    p95_seconds: float
    p99_seconds: float
    max_seconds: float
    pending_pod_seconds: float
    """Sum of all waiting, that of recreated pods too."""
    recreated: int = 0
    """Pods that took the place of an evicted or preempted one; counted as `pods` are, but not among them."""
    recreated_instant: int = 0

    @property
    def instant_start_ratio(self) -> float:
        """Share of pods that started at once; 1 when there was none (null in JSON): nobody waited."""
        return self.instant / self.pods if self.pods else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; ratio and waits of no pods are null."""
        waits = ("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds")
        return {
            **asdict(self),
            **({} if self.pods else dict.fromkeys(waits)),
            "instant_start_ratio": self.instant / self.pods if self.pods else None,
            "recreated_instant_start_ratio": self.recreated_instant / self.recreated if self.recreated else None,
        }


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Nodes of one group."""

    group: str
    node_hours: float
    """From the request for a node until it is gone: what is paid."""
    cost: float
    scale_ups: int
    """Nodes requested."""
    scale_downs: int
    """Nodes removed."""
    most: int
    """Most nodes at a time."""
    last: int
    """Nodes at the end."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The cluster at one moment; cpu in millicores, memory in bytes."""

    time_seconds: float
    requested_cpu_millis: int
    """Of all real pods, bound or not."""
    requested_memory_bytes: int
    slack_bound_cpu_millis: int
    slack_bound_memory_bytes: int
    slack_pending_cpu_millis: int
    slack_pending_memory_bytes: int
    capacity_cpu_millis: int
    """Allocatable, less DaemonSets, of nodes that have joined and are not gone: ready ones and leaving ones."""
    capacity_memory_bytes: int
    nodes: int
    """Ready ones."""
    starting_nodes: int
    leaving_nodes: int
    """Tainted and on their way out; their pods still run."""
    pending_pods: int
    """Real ones."""
    placeholders: int
    displaced: int
    """Placeholders displaced so far."""


@dataclass(frozen=True, slots=True)
class Churn:
    """Placeholders that were made, and why. Created = refilled after displaced and drained ones + grown + other."""

    created: int = 0
    displaced: int = 0
    """Preempted by real pods."""
    drained: int = 0
    """Evicted because their node left."""
    grown: int = 0
    """Created because more slack was wanted than was there."""
    other: int = 0
    """Created for none of these reasons: there was enough already, in other shapes."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one scenario."""

    scenario: str
    slack: str
    """none, policies, static, proportional."""
    seed: int
    measured_seconds: float
    """Duration less warm-up."""
    total: WorkloadResult
    workloads: tuple[WorkloadResult, ...]
    groups: tuple[GroupResult, ...]
    requested_cpu_hours: float
    """Core hours that bound real pods requested."""
    requested_memory_gib_hours: float
    capacity_cpu_hours: float
    """Core hours that were paid."""
    capacity_memory_gib_hours: float
    scale_ups: int
    """Nodes requested, of all groups."""
    scale_up_decisions: int
    """Decisions to request nodes; one may request many."""
    scale_downs: int
    """Nodes removed, of all groups."""
    placeholders_created: int
    """New ones and those that took a displaced or drained one's place; fillers of a baseline count as placeholders."""
    placeholders_displaced: int
    """Preempted by real pods."""
    placeholders_drained: int
    """Evicted because their node left."""
    placeholders_made_way: int
    """Of the displaced ones, those that the operator took away for a burst before the scheduler preempted them."""
    placeholders_grown: int
    """Created because more slack was wanted than was there; fillers of a baseline always are, or take one's place."""
    placeholders_other: int
    """Created though as much slack was there, in other shapes: none of them served anybody."""
    churn_by_hour: tuple[Churn, ...]
    """The same for each measured hour."""
    pods_preempted: int
    """Real pods preempted by others."""
    pods_drained: int
    """Real pods evicted because their node left."""
    taint_writes: int
    """Soft taints that the operator has written to nodes or taken away."""
    plans: int
    events: int
    timeline: tuple[TimelineRow, ...]

    @property
    def instant_start_ratio(self) -> float:
        """Of all pods."""
        return self.total.instant_start_ratio

    @property
    def node_hours(self) -> float:
        """Of all groups."""
        return sum(group.node_hours for group in self.groups)

    @property
    def cost(self) -> float:
        """Of all groups."""
        return sum(group.cost for group in self.groups)

    @property
    def cost_per_month(self) -> float:
        """The cost if a month went on like this."""
        return self.cost * HOURS_PER_MONTH * 3600 / self.measured_seconds if self.measured_seconds else 0.0

    @property
    def waste(self) -> float:
        """Share of what was paid that no real pod requested: the mean of cpu and memory."""
        shares = (
            1 - used / paid if paid else 0.0
            for used, paid in (
                (self.requested_cpu_hours, self.capacity_cpu_hours),
                (self.requested_memory_gib_hours, self.capacity_memory_gib_hours),
            )
        )
        return sum(shares) / 2

    def to_dict(self, *, timeline: bool = True) -> dict[str, Any]:
        """Return it as JSON has it; keys are the fields' names, ratios and sums included."""
        data = asdict(self)
        data["total"], data["workloads"] = self.total.to_dict(), [workload.to_dict() for workload in self.workloads]
        data["groups"] = list(data["groups"])
        data["churn_by_hour"] = list(data["churn_by_hour"])
        data["timeline"] = list(data["timeline"]) if timeline else []
        data["instant_start_ratio"] = data["total"]["instant_start_ratio"]
        for name in ("node_hours", "cost", "cost_per_month", "waste"):
            data[name] = getattr(self, name)
        return data
