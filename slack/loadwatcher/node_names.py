"""Which node a series is about: providers name nodes by host name, by address, with a port or without.

A node goes by its name, its label kubernetes.io/hostname, its addresses, and its name up to the first dot; upper and
lower case are the same. What two nodes go by means neither, and a node's own name always means that node: whoever can
label a node must not be able to take another's figures.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_BRACKETED = re.compile(r"\[([^\]]*)\](?::\d+)?")
_WITH_PORT = re.compile(r"([^:]+):\d+")


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node of the cluster, as far as the watcher needs it."""

    name: str
    hostname: str = ""
    """Of the label."""
    addresses: tuple[str, ...] = ()
    cpu_millis: int = 0
    """Capacity."""
    memory_bytes: int = 0


def bare(name: str) -> str:
    """Return a series' name of a node without port, brackets, and last dot, in lower case.

    >>> bare("10.0.0.2:9100"), bare("[fd00::1]:9100"), bare("Node-1.example.")
    ('10.0.0.2', 'fd00::1', 'node-1.example')
    """
    word = name.strip().lower()
    if found := _BRACKETED.fullmatch(word) or _WITH_PORT.fullmatch(word):
        word = found[1]
    return word.rstrip(".")


@dataclass(frozen=True, slots=True)
class NodeNames:
    """All that nodes go by."""

    _by_name: Mapping[str, str] = field(default_factory=dict)
    _by_other: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def from_nodes(cls, nodes: Iterable[KnownNode]) -> "NodeNames":
        """Gather what nodes go by."""
        by_name: dict[str, str] = {}
        others: dict[str, str | None] = {}
        for node in nodes:
            by_name[node.name.lower()] = node.name
            for word in {bare(other) for other in (node.hostname, *node.addresses, node.name.partition(".")[0])}:
                if word:
                    others[word] = node.name if others.get(word, node.name) == node.name else None
        return cls(by_name, others)

    def node(self, series: str) -> str | None:
        """Return the node that a series is about; None where no node goes by that, or more than one does."""
        word = bare(series)
        return self._by_name.get(word) or self._by_other.get(word)


class AsTheyAre(NodeNames):
    """Names are taken as the provider has them, ports aside."""

    def node(self, series: str) -> str | None:
        """Return the name without its port."""
        return bare(series) or None
