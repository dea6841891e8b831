"""The two forms of placeholders: bound to nodes by a scheduler, or unbound, so that their capacity stays free."""

from enum import StrEnum

UNBOUND_SCHEDULER = "resource-slack.io/unbound"
"""The schedulerName of unbound placeholders unless it was set: no scheduler has this name."""


class ReleaseNodes(StrEnum):
    """How the operator releases nodes from unbound placeholders."""

    LABEL = "Label"
    """A label on the node; takes the right to patch nodes."""
    MARKER_POD = "MarkerPod"
    """A pod of the operator's namespace on the node, which unbound placeholders avoid by an anti-affinity. Not used
    on Cluster Autoscaler."""
    OFF = "Off"


class Hold(StrEnum):
    """What a user can ask for."""

    AUTO = "Auto"
    """Unbound where an autoscaler is recognised that keeps nodes for unbound placeholders, else bound."""
    BOUND = "Bound"
    UNBOUND = "Unbound"
