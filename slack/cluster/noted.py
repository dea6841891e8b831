"""The few pods that are kept one by one: placeholders, those of them that are leaving, and nominated real pods.

Owned by `ClusterColumns`; keyed by pod row, nodes are rows of the node table.
"""

from typing import NamedTuple, TypeVar

from slack.cluster import wire
from slack.cluster.identity import PLACEHOLDER, POLICY_LABEL, REAL, SHAPE_LABEL, deletion_cost

_V = TypeVar("_V")


class PlaceholderFacts(NamedTuple):
    """A placeholder as the columns keep it: its node as a row of the node table."""

    uid: str
    name: str
    policy: str
    shape: str
    replica_set: str
    node: int
    created_seconds: float
    deletion_cost: int
    unschedulable: bool


class NominatedPod(NamedTuple):
    """A real pod that waits for its victims to leave the node that the scheduler has promised to it."""

    uid: str
    namespace: str
    name: str
    node: str
    created_seconds: float
    """Unix time of creation."""


class NotedPods:
    """Placeholders, leaving placeholders and nominated pods."""

    def __init__(self) -> None:
        self.placeholders: dict[int, PlaceholderFacts] = {}
        """Not finished and not being deleted."""
        self.terminating: dict[int, int] = {}
        """Node row of each placeholder that is being deleted."""
        self.nominated: dict[int, NominatedPod] = {}
        self.version = 0
        """Grows when `placeholders` changes."""

    def note(self, row: int, pod: wire.Pod, role: int, node: int) -> bool:
        """Keep what is to be kept of a pod, which has no role when it uses nothing; return whether that is news."""
        if role != PLACEHOLDER and node >= 0 and not self._has(row):
            return False  # nearly every pod there is
        deleting = pod.metadata.deletion_timestamp is not None
        if role == PLACEHOLDER:
            facts = None if deleting else _placeholder(pod, node)
            return self._keep(row, facts, None, node if deleting else None)
        nominee = None
        if role == REAL and node < 0 and pod.status is not None and pod.status.nominated_node_name:
            nominee = NominatedPod(
                pod.metadata.uid or "",
                pod.metadata.namespace or "",
                pod.metadata.name,
                pod.status.nominated_node_name,
                _created(pod.metadata),
            )
        return self._keep(row, None, nominee, None)

    def forget(self, row: int) -> None:
        """Drop what was kept of a pod that has gone."""
        self._keep(row, None, None, None)

    def _has(self, row: int) -> bool:
        return row in self.placeholders or row in self.nominated or row in self.terminating

    def _keep(
        self, row: int, placeholder: PlaceholderFacts | None, nominee: NominatedPod | None, leaving: int | None
    ) -> bool:
        shown = _put(self.placeholders, row, placeholder)
        self.version += shown
        nominated = _put(self.nominated, row, nominee)
        return _put(self.terminating, row, leaving) or nominated or shown


def _placeholder(pod: wire.Pod, node: int) -> PlaceholderFacts:
    metadata = pod.metadata
    owner = metadata.controller()
    return PlaceholderFacts(
        metadata.uid or "",
        metadata.name,
        metadata.label(POLICY_LABEL),
        metadata.label(SHAPE_LABEL),
        owner.name if owner else "",
        node,
        _created(metadata),
        deletion_cost(metadata),
        node < 0 and _unschedulable(pod.status),
    )


def _created(metadata: wire.Metadata) -> float:
    return metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0


def _unschedulable(status: wire.PodStatus | None) -> bool:
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for one in (status.conditions if status else None) or ()
    )


def _put(table: dict[int, _V], row: int, value: _V | None) -> bool:
    """Write or remove a row's value; return whether that changed anything."""
    if table.get(row) == value:
        return False
    if value is None:
        del table[row]
    else:
        table[row] = value
    return True
