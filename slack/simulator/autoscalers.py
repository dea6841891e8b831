"""Settings of the autoscalers, each with its upstream default and name."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from slack.planner.fields import Duration
from slack.simulator.distributions import Model, PositiveSeconds, Seconds

Whole = Annotated[int, Field(ge=0)]


class ClusterAutoscaler(Model):
    """kubernetes/autoscaler's Cluster Autoscaler; names and defaults of its flags (config/flags/flags.go)."""

    kind: Literal["clusterAutoscaler"] = "clusterAutoscaler"
    scan_interval_seconds: PositiveSeconds = 10.0
    """--scan-interval, 10s."""
    new_pod_scale_up_delay_seconds: Seconds = 0.0
    """--new-pod-scale-up-delay, 0s."""
    unschedulable_pod_time_buffer_seconds: Seconds = 2.0
    """unschedulablePodTimeBuffer, 2s (core/static_autoscaler.go): younger pods than this alone skip the loop."""
    expendable_pods_priority_cutoff: int = -10
    """--expendable-pods-priority-cutoff, -10."""
    expander: Literal["leastWaste", "random", "priority"] = "leastWaste"
    """--expander, least-waste since 1.33, random before."""
    expander_priorities: dict[str, int] = Field(default_factory=dict)
    """Node group -> priority for expander priority (the ConfigMap); the highest wins, unnamed groups are last."""
    max_nodes_total: Whole = 0
    """--max-nodes-total, 0: no limit."""
    max_nodes_per_scale_up: Annotated[int, Field(ge=1)] = 1000
    """--max-nodes-per-scaleup, 1000."""
    scale_down_enabled: bool = True
    """--scale-down-enabled, true."""
    scale_down_unneeded_time: Duration = timedelta(minutes=10)
    """--scale-down-unneeded-time, 10m."""
    scale_down_utilization_threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    """--scale-down-utilization-threshold, 0.5."""
    scale_down_delay_after_add: Duration = timedelta(minutes=10)
    """--scale-down-delay-after-add, 10m, for the whole cluster."""
    scale_down_delay_after_delete_seconds: Seconds = 0.0
    """--scale-down-delay-after-delete, 0s: the scan interval."""
    scale_down_non_empty_candidates_count: Whole = 30
    """--scale-down-non-empty-candidates-count, 30."""
    unremovable_node_recheck_timeout: Duration = timedelta(minutes=5)
    """--unremovable-node-recheck-timeout, 5m."""
    max_scale_down_parallelism: Annotated[int, Field(ge=1)] = 10
    """--max-scale-down-parallelism, 10."""
    max_drain_parallelism: Annotated[int, Field(ge=1)] = 1
    """--max-drain-parallelism, 1."""
    max_bulk_soft_taint_count: Whole = 10
    """--max-bulk-soft-taint-count, 10: nodes a loop that get DeletionCandidateOfClusterAutoscaler."""
    node_delete_delay_after_taint_seconds: Seconds = 5.0
    """--node-delete-delay-after-taint, 5s."""


class Karpenter(Model):
    """Karpenter with one NodePool whose instance types are the node groups."""

    kind: Literal["karpenter"]
    batch_idle_seconds: PositiveSeconds = 1.0
    """--batch-idle-duration, 1s."""
    batch_max_seconds: PositiveSeconds = 10.0
    """--batch-max-duration, 10s."""
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized"] = "WhenEmptyOrUnderutilized"
    """spec.disruption.consolidationPolicy, WhenEmptyOrUnderutilized."""
    consolidate_after_seconds: Seconds = 0.0
    """spec.disruption.consolidateAfter, 0s: so long since the last pod came to or left a node."""
    poll_seconds: PositiveSeconds = 10.0
    """pollingPeriod of the disruption controller, 10s."""
    consolidation_ttl_seconds: Seconds = 15.0
    """consolidationTTL, 15s: a decision is looked at again after this time."""
    budget_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """spec.disruption.budgets: 10 % of the nodes at a time."""
    max_nodes_total: Whole = 0
    """NodePool limits, as a number of nodes; 0: none."""


class NoAutoscaler(Model):
    """The nodes stay as they are."""

    kind: Literal["none"]
