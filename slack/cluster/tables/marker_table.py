"""Marker pods: each stands for the label that releases a node, where the operator may not write that label.

Owned by `ClusterColumns`, keyed as pods are: `namespace/name`.
"""

from typing import NamedTuple

from slack.cluster import wire
from slack.cluster.labels import LABEL_MANAGED_BY, LABEL_RELEASE, MANAGED_BY

_FINISHED = ("Succeeded", "Failed")
_LONGEST_TEXT = 200


class Marker(NamedTuple):
    """A marker pod, finished ones included: somebody has to delete them."""

    name: str
    uid: str
    node: str
    value: str
    """As the node's label would have it."""
    leaving: bool
    """It is being deleted."""
    failure: str
    """Why it has finished, '' while it has not."""

    @property
    def releases(self) -> bool:
        """Whether autoscalers keep unbound placeholders off its node."""
        return bool(self.node) and not self.leaving and not self.failure


class MarkerTable:
    """The marker pods that are there."""

    def __init__(self) -> None:
        self.rows: dict[str, Marker] = {}

    def put(self, key: str, pod: wire.Pod) -> bool:
        """Keep what a daemon's pod in our namespace is now, if it is a marker; return whether that is news."""
        metadata, status = pod.metadata, pod.status
        value = metadata.label(LABEL_RELEASE)
        if not value or metadata.label(LABEL_MANAGED_BY) != MANAGED_BY:
            return self.drop(key)
        failure = ""
        if status is not None and status.phase in _FINISHED:
            said = ": ".join(text for text in (status.reason, status.message) if text)
            failure = (said or status.phase or "")[:_LONGEST_TEXT]
        node = (pod.spec.node_name if pod.spec else None) or ""
        leaving = metadata.deletion_timestamp is not None
        marker = Marker(metadata.name, metadata.uid or "", node, value, leaving, failure)
        news = self.rows.get(key) != marker
        self.rows[key] = marker
        return news

    def drop(self, key: str) -> bool:
        """Forget a pod; return whether it was a marker."""
        return self.rows.pop(key, None) is not None
