"""What placeholders cost the cluster: objects, writes, pod slots and addresses, beside a CapacityBuffer's.

The figures of placeholders are counted: objects by listing them, writes in the API server's audit log. No other server
of CapacityBuffers runs here; their lines follow from what both write (cluster-autoscaler 1.37, karpenter 1.14).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.bursts.case import Kind
from benchmarks.report import Report, Row
from e2e.harness.cluster.audit_log import WRITES, AuditEntry
from e2e.harness.product.operator import NAMESPACE

BURSTS_PER_HOUR = 6
_SIZED_BY = ("resource-slack.io/slackpolicies", "autoscaling.x-k8s.io/capacitybuffers")
_LEASES = "coordination.k8s.io/leases"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the placeholders of one policy cost the API server."""

    placeholders: int
    objects: int
    """Pods, ReplicaSets and Events in their namespace, once all hold capacity."""
    slots: int
    """Pod slots of nodes."""
    addresses: int
    creation_writes: int
    """By anybody, from the policy's creation until all hold capacity."""
    idle_writes_per_hour: float
    burst_pods: int
    burst_writes: int
    """By anybody, for one burst that arrives and leaves again."""

    @property
    def writes_per_hour(self) -> float:
        """Return the writes of an hour with `BURSTS_PER_HOUR` bursts."""
        return self.idle_writes_per_hour + BURSTS_PER_HOUR * self.burst_writes


def writes_of_placeholders(entries: Iterable[AuditEntry]) -> int:
    """Count the writes that placeholders cause: pods, ReplicaSets and Events, and the status of what sizes them."""
    return sum(
        entry.verb in WRITES
        and 200 <= entry.code < 300
        and not entry.dry_run
        and entry.resource != _LEASES
        and (entry.namespace == NAMESPACE or entry.resource.startswith(_SIZED_BY))
        for entry in entries
    )


def report(costs: Mapping[Kind, Cost]) -> Report:
    """Return the table; a line for each form, and that of a CapacityBuffer with as many replicas."""
    if not costs:
        return Report("what placeholders cost the cluster: not counted")
    some = next(iter(costs.values()))
    rows = [
        _row(
            str(kind),
            cost.objects,
            cost.slots,
            cost.addresses,
            cost.creation_writes,
            cost.idle_writes_per_hour,
            cost.burst_writes,
            cost.writes_per_hour,
        )
        for kind, cost in costs.items()
    ]
    # The autoscaler holds the buffer in memory. CA copies the template into an object of its own, and its condition
    # does not change in a burst; Karpenter's Provisioning turns False and True again.
    rows.append(_row("CapacityBuffer, Cluster Autoscaler", 3, 0, 0, 3 + 2, 0, 0, 0))
    rows.append(_row("CapacityBuffer, Karpenter", 2, 0, 0, 2 + 2, 0, 2, 2 * BURSTS_PER_HOUR))
    title = f"what {some.placeholders} placeholders cost the cluster; bursts of {some.burst_pods} pods"
    notes = [
        "(counted in the audit log, by anybody, without leases; idle: nothing happens)",
        "(CapacityBuffer: one for one size of pod, by what its own servers write; these were not run here)",
    ]
    return Report(title, rows, notes)


def _row(
    name: str,
    objects: int,
    slots: int,
    addresses: int,
    creation_writes: int,
    idle_writes: float,
    burst_writes: int,
    hour_writes: float,
) -> Row:
    return {
        "held by": name,
        "API objects": objects,
        "pod slots": slots,
        "addresses": addresses,
        "writes to create": creation_writes,
        "idle writes per hour": idle_writes,
        "writes per burst": burst_writes,
        f"writes per hour with {BURSTS_PER_HOUR} bursts": hour_writes,
    }
