"""Why placeholder pods are deleted one by one, where no ReplicaSet controller takes them away, or not soon enough."""

from enum import StrEnum


class RemovalReason(StrEnum):
    """The reasons, in the order in which they are applied: a pod is deleted for the first one that holds.

    The text of each is in the log. A ReplicaSet controller removes all other placeholders, by a lower count.
    """

    UNDISPLACEABLE = "real pods cannot displace it"
    """1. Its priority is above that of all placeholders: it may even displace real pods."""
    MADE_OTHERWISE = "it was made from a changed template"
    """2. It requests less than its shape, or has another scheduler or priority."""
    BEYOND_THE_PLAN = "it is beyond the plan"
    """3. It is pending and more than are wanted: it would ask for a node before its controller gets to it."""
    LOST = "it belongs to no ReplicaSet any more"
    """4. Its labels or its owner were changed."""
    NOBODYS = "it belongs to no policy"
    """5. Its label names no policy that is there."""
