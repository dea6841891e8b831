"""What decides about a pod's node and no plan answers for: which node can take it depends on more than a plan looks at.

One judgement for all who promise a start or make room for one: `unchecked`. An explanation names it, a policy's status
counts it, making way leaves such pods to the scheduler, and a hang of such a pod is waited out.
`slack.cluster.tables.kind_table.unchecked_of` finds what a pod's own spec says, `slack.cluster.avoidance` what others
say.
"""

from collections.abc import Iterable
from enum import StrEnum

from slack.cluster.classes import Constraints


class Unchecked(StrEnum):
    """Parts of a pod's spec on which its node depends, in the order in which they are named."""

    DEVICE_CLAIMS = "device claims"
    """spec.resourceClaims: devices are on some nodes only, and may be in use (plugin DynamicResources)."""
    CLAIMED_RESOURCES = "claimed resources"
    """Extended resources that device claims serve (KEP-5004): devices are on some nodes only, and may be in use."""
    VOLUME_CLAIMS = "volume claims"
    """Volumes may be in one zone or on one node only, attached elsewhere, or one too many for a node (plugins
    VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits). So are disks that a pod names itself."""
    HOST_PORTS = "host ports"
    """Ports of the node may be in use, so that two such pods cannot stand on one (plugin NodePorts)."""
    SPREAD = "hard topology spread"
    """Which domain is next depends on where the pods are that it counts (plugin PodTopologySpread)."""
    AFFINITY = "affinity to pods"
    """Required: only domains with such a pod will do (plugin InterPodAffinity)."""
    ANTI_AFFINITY = "anti-affinity to pods"
    """Required: no domain with such a pod will do (plugin InterPodAffinity)."""
    AVOIDED = "anti-affinity of other pods"
    """Required anti-affinity of pods that run matches it: no domain with one of these will do (the same plugin)."""


CLAIMS = frozenset({Unchecked.DEVICE_CLAIMS, Unchecked.CLAIMED_RESOURCES, Unchecked.VOLUME_CLAIMS})
"""For these the scheduler may wait, with the pod assumed on a node already."""
AMONG_PODS = frozenset({Unchecked.SPREAD, Unchecked.AFFINITY, Unchecked.ANTI_AFFINITY, Unchecked.AVOIDED})


def unchecked(own: Iterable[Unchecked], constraints: Constraints, *, kept_apart: bool = False) -> tuple[Unchecked, ...]:
    """Return what decides about a pod's node and is not checked.

    Args:
        own: what its spec says, as `unchecked_of` finds it.
        constraints: of the pod; none of them are soft.
        kept_apart: the nodes are chosen so that none has a pod which the pod must avoid.
    """
    found = set(own)
    if constraints.topology_spread:
        found.add(Unchecked.SPREAD)
    if constraints.pod_affinity:
        found.add(Unchecked.AFFINITY)
    if constraints.anti_affinity and not kept_apart:
        found.add(Unchecked.ANTI_AFFINITY)
    return tuple(part for part in Unchecked if part in found) if found else ()
