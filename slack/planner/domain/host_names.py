"""Requirements on a node's host name, in the unbound form: Karpenter refuses them.

Karpenter adds no node for a pod with any requirement on `kubernetes.io/hostname`, and counts it nowhere
(provisioner.go, Validate). An unbound placeholder with one would hold nothing, so none is made, and status says why.
"""

from slack.cluster.classes import Constraints
from slack.cluster.labels import HOSTNAME, KARPENTER_NODE_POOL
from slack.cluster.snapshot import Snapshot
from slack.planner.policy.spec import Policy

HOST_REFUSED = (
    f"it requires {HOSTNAME}, and Karpenter keeps no node for unbound placeholders that do; spec.hold: Bound keeps it"
)


def refuses_hosts(snapshot: Snapshot, policy: Policy) -> bool:
    """Tell whether an unbound placeholder of this policy may not name hosts: Karpenter has made a node here."""
    return not policy.form.may_name_hosts and has_karpenter_nodes(snapshot)


def has_karpenter_nodes(snapshot: Snapshot) -> bool:
    """Tell whether Karpenter has made a node of this cluster."""
    return any(key == KARPENTER_NODE_POOL for each in snapshot.node_classes for key, _ in each.labels)


def requires_host(constraints: Constraints) -> bool:
    """Tell whether pods with these constraints have any requirement on the label; matchFields are none."""
    if any(key == HOSTNAME for key, _ in constraints.node_selector):
        return True
    return any(each.key == HOSTNAME and not each.field for term in constraints.node_affinity for each in term)
