"""Settings of the autoscalers, each with its upstream name and default.

Cluster Autoscaler: flags of config/flags/flags.go (1.36). Karpenter: flags, fields of a NodePool, constants.
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from slack.simulator.scenario.distributions import Model
from slack.simulator.scenario.times import Duration, PeriodSeconds, Seconds
from slack.simulator.scenario.upstream import Upstream, also

Whole = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class ClusterAutoscaler(Model):
    """kubernetes/autoscaler's Cluster Autoscaler; upstream's names are its flags."""

    kind: Literal["clusterAutoscaler"] = "clusterAutoscaler"
    """Always clusterAutoscaler."""
    scan_interval_seconds: Annotated[PeriodSeconds, Upstream("--scan-interval", "10s")] = 10.0
    """How often it looks."""
    frequent_loops_enabled: Annotated[bool, Upstream("--frequent-loops-enabled", "true")] = True
    """Whether it looks at once when a pod becomes unschedulable, and again when a look has changed something."""
    new_pod_scale_up_delay_seconds: Annotated[Seconds, Upstream("--new-pod-scale-up-delay", "0s")] = 0.0
    """Pods younger than this do not yet ask for nodes."""
    unschedulable_pod_time_buffer_seconds: Annotated[
        Seconds, Upstream("unschedulablePodTimeBuffer (core/static_autoscaler.go)", "2s")
    ] = 2.0
    """When all pending pods are younger than this, it waits for the next look: more may come."""
    expendable_pods_priority_cutoff: Annotated[int, Upstream("--expendable-pods-priority-cutoff", "-10")] = -10
    """Pods of a lower priority neither ask for nodes nor hold one."""
    expander: Annotated[
        Literal["leastWaste", "random", "priority"],
        also({"least-waste": "leastWaste"}),
        Upstream("--expander", "least-waste"),
    ] = "leastWaste"
    """Which node group it chooses among those that would do. Upstream's default was random before 1.33."""
    expander_priorities: Annotated[
        dict[str, int], Upstream("ConfigMap cluster-autoscaler-priority-expander", differs="none upstream")
    ] = Field(default_factory=dict)
    """Priority by node group, for expander priority; the highest wins, groups that are not named come last."""
    max_nodes_total: Annotated[Whole, Upstream("--max-nodes-total", "0")] = 0
    """It makes no more nodes than this; 0: no limit."""
    max_nodes_per_scale_up: Annotated[AtLeastOne, Upstream("--max-nodes-per-scaleup", "1000")] = 1000
    """At most so many nodes at once."""
    scale_down_enabled: Annotated[bool, Upstream("--scale-down-enabled", "true")] = True
    """Whether it takes nodes away."""
    scale_down_unneeded_time: Annotated[Duration, Upstream("--scale-down-unneeded-time", "10m")] = timedelta(minutes=10)
    """How long a node must have been unneeded before it goes."""
    scale_down_utilization_threshold: Annotated[Share, Upstream("--scale-down-utilization-threshold", "0.5")] = 0.5
    """A node of which a larger share is requested is needed."""
    scale_down_delay_after_add: Annotated[Duration, Upstream("--scale-down-delay-after-add", "10m")] = timedelta(
        minutes=10
    )
    """After adding a node nothing is taken away for so long, in the whole cluster."""
    scale_down_delay_after_delete_seconds: Annotated[Seconds, Upstream("--scale-down-delay-after-delete", "0s")] = 0.0
    """After taking a node away nothing is taken away for so long."""
    unremovable_node_recheck_timeout: Annotated[Duration, Upstream("--unremovable-node-recheck-timeout", "5m")] = (
        timedelta(minutes=5)
    )
    """A node that could not go is looked at again after this time."""
    max_scale_down_parallelism: Annotated[AtLeastOne, Upstream("--max-scale-down-parallelism", "10")] = 10
    """At most so many nodes go at a time."""
    max_drain_parallelism: Annotated[AtLeastOne, Upstream("--max-drain-parallelism", "1")] = 1
    """At most so many of them while they still run pods."""
    max_bulk_soft_taint_count: Annotated[Whole, Upstream("--max-bulk-soft-taint-count", "10")] = 10
    """Unneeded nodes that get the taint DeletionCandidateOfClusterAutoscaler (PreferNoSchedule) in one loop."""
    node_delete_delay_after_taint_seconds: Annotated[Seconds, Upstream("--node-delete-delay-after-taint", "5s")] = 5.0
    """From tainting a node to deleting it."""


class Karpenter(Model):
    """Karpenter with one NodePool whose instance types are the node groups."""

    kind: Literal["karpenter"]
    """Always karpenter."""
    batch_idle_seconds: Annotated[PeriodSeconds, Upstream("--batch-idle-duration", "1s")] = 1.0
    """A batch of pending pods ends when none has come for so long."""
    batch_max_seconds: Annotated[PeriodSeconds, Upstream("--batch-max-duration", "10s")] = 10.0
    """A batch ends after this time at the latest."""
    consolidation_policy: Annotated[
        Literal["WhenEmpty", "WhenEmptyOrUnderutilized"],
        Upstream("spec.disruption.consolidationPolicy", "WhenEmptyOrUnderutilized"),
    ] = "WhenEmptyOrUnderutilized"
    """Which nodes it takes away or replaces by cheaper ones."""
    consolidate_after_seconds: Annotated[Seconds, Upstream("spec.disruption.consolidateAfter", "0s")] = 0.0
    """So long since the last pod came to or left a node, it may be consolidated."""
    poll_seconds: Annotated[PeriodSeconds, Upstream("pollingPeriod (disruption/controller.go)", "10s")] = 10.0
    """How often it looks for nodes to consolidate."""
    consolidation_ttl_seconds: Annotated[Seconds, Upstream("consolidationTTL (disruption/consolidation.go)", "15s")] = (
        15.0
    )
    """A decision is looked at again after this time, and dropped when it is no longer right."""
    budget_share: Annotated[float, Field(gt=0, le=1), Upstream("spec.disruption.budgets[].nodes", "10%")] = 0.1
    """Share of the nodes that may be disrupted at a time."""
    max_nodes_total: Annotated[
        Whole, Upstream("spec.limits", differs="upstream counts cpu and memory, none by default")
    ] = 0
    """It makes no more nodes than this, those on their way out not counted; 0: no limit."""


class NoAutoscaler(Model):
    """The nodes stay as they are."""

    kind: Literal["none"]
    """Always none."""
