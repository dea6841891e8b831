"""What a pod says of itself that no plan answers for: which node can take it depends on more than a plan looks at.

`slack.cluster.tables.kind_table.unchecked_of` finds it in a pod.
"""

from enum import StrEnum


class Unchecked(StrEnum):
    """Parts of a pod's spec on which its node depends."""

    DEVICE_CLAIMS = "device claims"
    """spec.resourceClaims: devices are on some nodes only, and may be in use (plugin DynamicResources)."""
    CLAIMED_RESOURCES = "claimed resources"
    """Extended resources that device claims serve (KEP-5004): devices are on some nodes only, and may be in use."""
    VOLUME_CLAIMS = "volume claims"
    """Volumes may be in one zone or on one node only, or attached elsewhere (plugins VolumeBinding, VolumeZone).

    So are disks that a pod names itself (plugins VolumeRestrictions, NodeVolumeLimits).
    """
    HOST_PORTS = "host ports"
    """Ports of the node may be in use, so that two such pods cannot stand on one (plugin NodePorts)."""
