"""What a run came to, as values: how fast pods started, what it cost, what the placeholders went through.

Everything is measured after the warm-up. A pod that never was bound counts with the time it had waited at the end, so
that slack cannot look good by leaving pods pending.
"""

from dataclasses import asdict, dataclass
from typing import Any

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """Pods of one workload; all of them together under the name `*`."""

    workload: str
    pods: int
    """Pods created and either bound, or waiting for longer than an instant."""
    bound: int
    instant: int
    """Of these, bound within `instantSeconds` of their creation."""
    p50_seconds: float
    """Time from creation to binding: median, and so on."""
    p95_seconds: float
    p99_seconds: float
    max_seconds: float
    pending_pod_seconds: float
    """Sum of all waiting."""

    @property
    def instant_start_ratio(self) -> float:
        """Share of pods that started at once; 1 when there was none."""
        return self.instant / self.pods if self.pods else 1.0


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
    """Allocatable of ready nodes, less DaemonSets."""
    capacity_memory_bytes: int
    nodes: int
    """Ready ones."""
    starting_nodes: int
    pending_pods: int
    """Real ones."""
    placeholders: int
    displaced: int
    """Placeholders displaced so far."""


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
    """Decisions to add nodes (one may add many)."""
    scale_downs: int
    """Nodes removed."""
    placeholders_created: int
    placeholders_displaced: int
    """Preempted by real pods."""
    placeholders_drained: int
    """Evicted because their node left."""
    pods_preempted: int
    """Real pods preempted by others."""
    pods_drained: int
    """Real pods evicted because their node left."""
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
        for item, workload in zip([data["total"], *data["workloads"]], [self.total, *self.workloads], strict=True):
            item["instant_start_ratio"] = workload.instant_start_ratio
        data["workloads"], data["groups"] = list(data["workloads"]), list(data["groups"])
        data["timeline"] = list(data["timeline"]) if timeline else []
        for name in ("instant_start_ratio", "node_hours", "cost", "cost_per_month", "waste"):
            data[name] = getattr(self, name)
        return data
