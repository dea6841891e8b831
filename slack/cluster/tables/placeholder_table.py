"""The placeholders, kept one by one with what a plan asks of each. Owned by `ClusterColumns`, keyed by pod row."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.constraints import parse_constraints
from slack.cluster.identity import deletion_cost
from slack.cluster.labels import (
    ANNOTATION_BUFFER_CREATED,
    ANNOTATION_RESERVED_FOR,
    LABEL_HOLD,
    LABEL_POLICY,
    LABEL_RELEASE,
    LABEL_SHAPE,
    SOFT_TAINT,
    UNBOUND,
)
from slack.cluster.requests import effective_requests

UID_BITS = 32
"""Two of 20,000 random uids have them in common in one case of twenty."""


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
    requests: tuple[tuple[str, int], ...]
    terminating: bool
    """It is being deleted, and in no snapshot any more."""
    constraints: Constraints | None = None
    """Where an unbound one may go; None where a scheduler binds it."""
    reserved_for: str = ""
    """The workload that an unbound one mirrors."""
    buffer_created: str = ""
    """When its CapacityBuffer was created, RFC 3339 in UTC; '' where it is of a policy."""
    tolerates_soft_taint: bool = False
    """Whether it may go to a node with the taint of those that hold unbound placeholders."""


class PlaceholderTable:
    """Placeholders that are not finished, and in columns by pod row what is asked of all of them within a burst."""

    def __init__(self) -> None:
        self.rows: dict[int, PlaceholderFacts] = {}
        self.version = 0
        """Grows with every change of them; that one got ready is none."""
        self.policies: list[str] = []
        """By the number that `policy` has for it; '' for a number that is free."""
        self._numbers: dict[str, int] = {}
        self._held: list[int] = []
        """How many placeholders have each number."""
        self._free: list[int] = []
        self.policy: npt.NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self.leaving: npt.NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        self.cost: npt.NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        self.ready_seconds: npt.NDArray[np.float64] = np.zeros(64)
        """Unix time since when it is ready, nan while it is not."""
        self.uid_order: npt.NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        """The beginning of its uid, which nearly always tells two apart."""

    def put(self, row: int, pod: wire.Pod, node: int) -> bool:
        """Keep what a placeholder is now; return whether that is news."""
        facts = _facts(pod, node)
        if row >= self.policy.size:
            self._grow(row)
        self.ready_seconds[row] = _ready_since(pod.status)
        before = self.rows.get(row)
        if before == facts:
            return False
        number = self._hold(facts.policy)
        if before is not None:
            self._release(before.policy)
        self.policy[row], self.leaving[row], self.cost[row] = number, facts.terminating, facts.deletion_cost
        self.uid_order[row] = _beginning(facts.uid)
        self.rows[row] = facts
        self.version += 1
        return True

    def drop(self, row: int) -> None:
        """Forget a placeholder that has gone or finished."""
        self._release(self.rows.pop(row).policy)
        self.version += 1

    def _hold(self, policy: str) -> int:
        """Return a policy's number, which one more placeholder has."""
        number = self._numbers.get(policy)
        if number is None:
            if not self._free:
                self._free.append(len(self.policies))
                self.policies.append("")
                self._held.append(0)
            number = self._numbers[policy] = self._free.pop()
            self.policies[number] = policy
        self._held[number] += 1
        return number

    def _release(self, policy: str) -> None:
        number = self._numbers[policy]
        self._held[number] -= 1
        if not self._held[number]:
            del self._numbers[policy]
            self.policies[number] = ""
            self._free.append(number)

    def _grow(self, row: int) -> None:
        size = max(2 * self.policy.size, row + 1)
        self.policy = _grown(self.policy, size)
        self.leaving = _grown(self.leaving, size)
        self.cost = _grown(self.cost, size)
        self.ready_seconds = _grown(self.ready_seconds, size)
        self.uid_order = _grown(self.uid_order, size)


def _grown(column: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    larger = np.zeros(size, dtype=column.dtype)
    larger[: column.size] = column
    return larger


_constraints_of = lru_cache(maxsize=256)(parse_constraints)
"""Pods of one shape send the same bytes."""


def _facts(pod: wire.Pod, node: int) -> PlaceholderFacts:
    metadata = pod.metadata
    owner = metadata.controller()
    constraints = _constraints(pod.spec) if node < 0 else None
    unbound = constraints is not None and _is_unbound(metadata, constraints)
    return PlaceholderFacts(
        metadata.uid or "",
        metadata.name,
        metadata.label(LABEL_POLICY),
        metadata.label(LABEL_SHAPE),
        owner.name if owner else "",
        node,
        metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
        deletion_cost(metadata),
        node < 0 and is_unschedulable(pod.status),
        tuple(sorted(effective_requests(pod.spec, pod.status).items())),
        metadata.deletion_timestamp is not None,
        constraints if unbound else None,
        metadata.annotation(ANNOTATION_RESERVED_FOR) if unbound else "",
        metadata.annotation(ANNOTATION_BUFFER_CREATED) if unbound else "",
        unbound and pod.spec is not None and SOFT_TAINT.encode() in bytes(pod.spec.tolerations),
    )


def _constraints(spec: wire.PodSpec | None) -> Constraints:
    """Return where a pod may go.

    Raises:
        ValueError: when it cannot be read.
    """
    if spec is None:
        return Constraints()
    return _constraints_of(bytes(spec.node_selector), bytes(spec.affinity), bytes(spec.tolerations))


def is_unbound(pod: wire.Pod) -> bool:
    """Say whether a placeholder without a node waits for none: no scheduler is to bind it.

    Raises:
        ValueError: when it cannot be read.
    """
    return _is_unbound(pod.metadata, _constraints(pod.spec))


def _is_unbound(metadata: wire.Metadata, constraints: Constraints) -> bool:
    """Go by two marks, as people change labels and admission changes specs: a label, and a required node affinity."""
    return metadata.label(LABEL_HOLD) == UNBOUND or any(
        requirement.key == LABEL_RELEASE for term in constraints.node_affinity for requirement in term
    )


def is_unschedulable(status: wire.PodStatus | None) -> bool:
    """Say whether a pod's status tells autoscalers that it needs a node."""
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in (status.conditions if status else None) or ()
    )


def _ready_since(status: wire.PodStatus | None) -> float:
    for condition in (status.conditions if status else None) or ():
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time.timestamp() if condition.last_transition_time else 0.0
    return math.nan


def _beginning(uid: str) -> int:
    """Return the first characters of a uid as a number of `UID_BITS` that sorts as they do."""
    try:
        return int(uid[: UID_BITS // 4].ljust(UID_BITS // 4, "0"), 16)
    except ValueError:  # no API server makes such a uid
        return int.from_bytes(uid.encode()[: UID_BITS // 8].ljust(UID_BITS // 8, b"\0"), "big")
