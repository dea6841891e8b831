"""The lead time of each policy's nodes, measured: from the need for a node to its creation, and from there to ready.

All by the API server's own timestamps, in whole seconds: a placeholder or a real pod that got a node younger than its
wait has waited for that node. Owned by the planning loop.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from slack.cluster.snapshot import Placeholder
from slack.planner.objective.lead import LeadTimes

OLDEST_SECONDS = 21_600.0
"""Nodes that are older say nothing: readiness that went and came again looks like a long start."""
NodeStarts = Mapping[str, tuple[float, float, str]]
"""By name of a node that is ready: Unix time of its creation, seconds from there to ready, and its node group."""


class Waited(Protocol):
    """A real pod that got its node."""

    @property
    def node(self) -> str:
        """Its node."""

    @property
    def waited_seconds(self) -> float:
        """How long it had none."""

    @property
    def at(self) -> float:
        """When it got it, monotonic."""


class LeadFeed:
    """Lead times by policy."""

    def __init__(self) -> None:
        self._times: dict[str, LeadTimes] = {}
        self._ready: set[str] = set()
        """Nodes that were counted, and are still there."""
        self._bound: set[str] = set()
        """Placeholders (uids) that were counted, and are still there."""
        self._looked = False
        """Whether there was a turn before: since when an unbound placeholder has waited is not known at the first."""

    def window_seconds(self, policy: str) -> float:
        """Return how long it takes until pods run on a node that is not there yet."""
        return self._of(policy).window_seconds

    def feed_starts(
        self,
        nodes: NodeStarts,
        placeholders: Iterable[tuple[Placeholder, str]],
        starts: Iterable[tuple[str, Waited]],
        policy_of_node: Mapping[str, str],
        *,
        now: float,
        clock: float,
    ) -> None:
        """Take what has happened since the last turn.

        Args:
            nodes: that are ready.
            placeholders: that are bound, with their nodes.
            starts: of real pods since the last turn, with their policies.
            policy_of_node: whose each node is.
            now: Unix seconds.
            clock: the monotonic clock at the same moment.
        """
        for name in nodes.keys() - self._ready:
            created, seconds, group = nodes[name]
            if name in policy_of_node and now - created <= OLDEST_SECONDS:
                self._of(policy_of_node[name]).started(seconds, group)
        self._ready = set(nodes)
        bound = set()
        for pod, node in placeholders:
            bound.add(pod.uid)
            if pod.uid not in self._bound and (self._looked or not pod.unbound):
                self._waited(nodes, node, pod.created_seconds, policy_of_node.get(node), now)
        self._bound, self._looked = bound, True
        for policy, start in starts:
            self._waited(nodes, start.node, now - (clock - start.at) - start.waited_seconds, policy, now)

    def keep_only(self, policies: set[str]) -> None:
        """Forget policies that have no objective any more."""
        self._times = {name: times for name, times in self._times.items() if name in policies}

    def _waited(self, nodes: NodeStarts, node: str, since: float, policy: str | None, now: float) -> None:
        created, _, group = nodes.get(node, (0.0, 0.0, ""))
        if policy is not None and created > since and now - created <= OLDEST_SECONDS:
            self._of(policy).asked(created - since, group)

    def _of(self, policy: str) -> LeadTimes:
        return self._times.setdefault(policy, LeadTimes())
