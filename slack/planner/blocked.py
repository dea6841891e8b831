"""When a policy may not act at all, and what its plan is then: what is there stays as it is."""

from collections.abc import Mapping, Sequence

import numpy as np

from slack.cluster.snapshot import Snapshot
from slack.planner.domain import Domain
from slack.planner.outcome import Change, ExistingShape, ShapePlan
from slack.planner.patience import Pods

LOWEST_PRIORITY, HIGHEST_PRIORITY = -10, -1
"""Below -10 the Cluster Autoscaler takes pods for expendable; at 0 placeholders would stand beside real pods."""


def why_blocked(domain: Domain, snapshot: Snapshot, priority: int) -> tuple[str, str]:
    """Say why nothing may be done for a policy: (reason, message), empty when something may."""
    spec = domain.policy.spec
    if domain.conflict:
        return "DomainConflict", domain.conflict
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        return "BadPriorityClass", (
            f"spec.priorityClassName: {spec.priority_class_name} has the value {priority}; placeholders need one from "
            f"{LOWEST_PRIORITY} to {HIGHEST_PRIORITY}: the autoscaler ignores pods below, real pods stand above"
        )
    if domain.eligible.any() or domain.templates:
        return "", ""
    count = len(snapshot.nodes.names)
    if not domain.owned.any():
        selector = ",".join(f"{k}={v}" for k, v in sorted(spec.node_selector.items()))
        which = f"spec.nodeSelector: {selector} selects" if selector else "spec: the policy has"
        taken = f" that no other policy holds ({'; '.join(domain.yielded)})" if domain.yielded else ""
        return "NoEligibleNode", f"{which} none of the {count} nodes{taken}; check the labels, or give a node template"
    if not domain.classes.any():
        taints = sorted(
            {
                f"{t.key}={t.value}:{t.effect}"
                for c in np.flatnonzero(domain.owned)
                for t in snapshot.node_classes[c].taints
            }
        )
        return "NoEligibleNode", f"spec.tolerations: every selected node is tainted ({', '.join(taints)}); tolerate one"
    return "NoEligibleNode", "every node of the policy is cordoned, not ready or being removed"


def untouched(existing: Sequence[ExistingShape], pods: Mapping[str, Pods]) -> tuple[ShapePlan, ...]:
    """What is there stays as it is: the plan of a policy that may not act."""
    nothing = Pods(0, 0, 0.0)
    return tuple(
        ShapePlan(
            shape=e.shape,
            role=e.role,
            count=e.replicas,
            replicas=e.replicas,
            workloads=(),
            change=Change(0, e.replicas, 0),
            bound=pods.get(e.shape.name, nothing).bound,
            pending=pods.get(e.shape.name, nothing).pending,
            retiring=e.retiring,
        )
        for e in existing
    )
