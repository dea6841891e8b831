"""The cluster's nodes, as far as series are matched to them: names, addresses, capacity. Fed by one watch."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slack.cluster.labels import HOSTNAME
from slack.cluster.quantity import QuantityError, base_units, cpu_millis
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.loadwatcher.node_names import KnownNode, NodeNames
from slack_operator.runtime.watches import Watches


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    labels: dict[str, str] | None = None


class _Address(msgspec.Struct, gc=False):
    address: str = ""


class _Status(msgspec.Struct, gc=False):
    capacity: dict[str, str] | None = None
    addresses: list[_Address] | None = None


class ListedNode(msgspec.Struct, gc=False):
    """v1 Node, as far as it is read."""

    metadata: _Meta
    status: _Status | None = None


def known_node(node: ListedNode) -> KnownNode:
    """Return what is kept of a node."""
    status = node.status or _Status()
    capacity = status.capacity or {}
    return KnownNode(
        node.metadata.name,
        (node.metadata.labels or {}).get(HOSTNAME, ""),
        tuple(found.address for found in status.addresses or ()),
        _amount(cpu_millis, capacity.get("cpu", "")),
        _amount(base_units, capacity.get("memory", "")),
    )


def _amount(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except QuantityError:
        return 0


class NodeNameView:
    """All nodes; the reflector's thread writes, any thread reads what is handed out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, KnownNode] = {}
        self._seen: set[str] | None = None
        self._names: NodeNames | None = None

    def begin(self) -> None:
        """A new generation starts."""
        self._seen = set()

    def apply(self, events: Sequence[tuple[EventType, ListedNode]]) -> None:
        """Some events, in order; heartbeats change nothing that is kept."""
        with self._lock:
            for kind, item in events:
                name = item.metadata.name
                if kind is EventType.DELETED:
                    self._names = None if self._nodes.pop(name, None) is not None else self._names
                    continue
                node = known_node(item)
                if self._nodes.get(name) != node:
                    self._nodes[name], self._names = node, None
                if self._seen is not None:
                    self._seen.add(name)

    def keep(self, who: ObjectName) -> None:
        """The list has a node that cannot be read."""
        if self._seen is not None:
            self._seen.add(who.name)

    def end(self) -> None:
        """The generation is complete."""
        with self._lock:
            if self._seen is not None:
                for name in self._nodes.keys() - self._seen:
                    del self._nodes[name]
                    self._names = None
            self._seen = None

    def nodes(self) -> Mapping[str, KnownNode]:
        """Return all nodes by name."""
        with self._lock:
            return dict(self._nodes)

    def names(self) -> NodeNames:
        """Return what nodes go by."""
        with self._lock:
            if self._names is None:
                self._names = NodeNames.from_nodes(self._nodes.values())
            return self._names


def watches(connection: Connection, view: NodeNameView, clock: Callable[[], float] = time.monotonic) -> Watches:
    """Return the watch that feeds a view."""
    return Watches([Reflector(connection, resource_path("v1", "nodes"), ListedNode, view, clock=clock)], clock=clock)
