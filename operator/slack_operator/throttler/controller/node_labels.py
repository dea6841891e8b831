"""The cluster's nodes by their labels, and which policy each of them has.

A policy is chosen as the agents choose it. Threads: the reflector's writes, the loop's reads; under one lock.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.throttler.config import ThrottlePolicy, choose


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class NodeRow(msgspec.Struct):
    """A node; decoded by the reflector."""

    metadata: _Meta


@dataclass(frozen=True, slots=True)
class Assigned:
    """Which nodes have which policy."""

    nodes: Mapping[str, frozenset[str]]
    """By name of policy."""
    lost: Mapping[str, Mapping[str, str]]
    """By name of policy: nodes that it selects as specifically as an older one, with that one's name."""


@dataclass(slots=True)
class NodeLabels:
    """All nodes; the reflector's sink."""

    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _fresh: dict[str, Mapping[str, str]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _version: int = 0
    _known: tuple[int, tuple[ThrottlePolicy, ...], Assigned] | None = None

    def begin(self) -> None:
        """A list begins."""
        self._fresh = {}

    def apply(self, events: Sequence[tuple[EventType, NodeRow]]) -> None:
        """Some nodes."""
        with self._lock:
            rows = self._labels if self._fresh is None else self._fresh
            for kind, row in events:
                name, labels = row.metadata.name, row.metadata.labels or {}
                if kind is EventType.DELETED:
                    rows.pop(name, None)
                elif rows.get(name) == labels:
                    continue  # a heartbeat
                else:
                    rows[name] = MappingProxyType(labels)
                self._version += 1

    def keep(self, who: ObjectName) -> None:
        """The list has a node that cannot be read."""
        with self._lock:
            if self._fresh is not None and who.name in self._labels:
                self._fresh[who.name] = self._labels[who.name]

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            if self._fresh is not None:
                self._labels, self._fresh = self._fresh, None
            self._version += 1

    @property
    def names(self) -> frozenset[str]:
        """All nodes."""
        with self._lock:
            return frozenset(self._labels)

    def policy_of(self, node: str, policies: Sequence[ThrottlePolicy]) -> ThrottlePolicy | None:
        """Return which of the policies a node has; None where none selects it, or it is not known."""
        with self._lock:
            labels = self._labels.get(node)
        return None if labels is None else choose(policies, labels).policy

    def assigned(self, policies: Sequence[ThrottlePolicy]) -> Assigned:
        """Return which node has which of the policies; worked out anew only when one of both has changed."""
        with self._lock:
            version, labels = self._version, dict(self._labels)
        wanted = tuple(policies)
        if self._known is not None and self._known[0] == version and self._known[1] == wanted:
            return self._known[2]
        nodes: dict[str, set[str]] = {policy.name: set() for policy in wanted}
        lost: dict[str, dict[str, str]] = {}
        for node, has in labels.items():
            choice = choose(wanted, has)
            if choice.policy is None:
                continue
            nodes[choice.policy.name].add(node)
            for other in choice.conflicts:
                lost.setdefault(other, {})[node] = choice.policy.name
        found = Assigned({name: frozenset(those) for name, those in nodes.items()}, lost)
        self._known = version, wanted, found
        return found


def reflector(connection: Connection, labels: NodeLabels) -> Reflector[NodeRow]:
    """Make what follows the nodes; not started yet."""
    return Reflector(connection, resource_path("v1", "nodes"), NodeRow, labels)
