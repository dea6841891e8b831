"""Cluster Autoscaler, scale-down: who is unneeded, since when, and who may go now.

As core/scaledown/{planner,eligibility,unneeded,unremovable,budgets,actuation}: a node is a candidate while its requests
are at most the threshold of its allocatable; it is unneeded while every pod on it, and every pod that was moved there
in the same look, would find a place on another ready node; it goes when it has been unneeded for long enough: empty
ones first, together with one that needs a drain. A node that could not be emptied is left alone for five minutes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.simulator.autoscalers import ClusterAutoscaler as Settings
from slack.simulator.kinds import Kind
from slack.simulator.packing import Space, kinds_on
from slack.simulator.state import READY, Cluster

DRAIN_POLL_SECONDS = 5.0
"""waitPodsToDisappear (actuation/drain.go) looks at once, when nothing has stopped yet, and then every 5 s."""

Remove = Callable[[int, float, float], None]
"""Taint a node now, evict its pods after a delay, delete it after another."""


class Unneeded(NamedTuple):
    """Since when a node is unneeded, and whether pods would have to leave it."""

    since: float
    drain: bool


def unneeded_nodes_limit(
    before: int, *, parallelism: int, unneeded_seconds: float, shortest_interval_seconds: float
) -> int:
    """Return how many unneeded nodes are looked for (planner.go, unneededNodesLimit).

    Args:
        before: that were unneeded at the last look.
        parallelism: --max-scale-down-parallelism.
        unneeded_seconds: --scale-down-unneeded-time.
        shortest_interval_seconds: between two looks so far.
    """
    looks = int(max(unneeded_seconds, shortest_interval_seconds) // shortest_interval_seconds)
    return min(before + 2 * parallelism, parallelism * looks + parallelism)


def crop(
    empty: list[int], drain: list[int], *, most: int, most_drains: int, removing: int, draining: int
) -> tuple[list[int], list[int]]:
    """Return which of the nodes may go now, empty ones first (budgets.go, CropNodes).

    Args:
        empty: nodes that may go as they are.
        drain: nodes whose pods must leave first.
        most: --max-scale-down-parallelism.
        most_drains: --max-drain-parallelism.
        removing: nodes that are on their way out.
        draining: so many of these need a drain.
    """
    budget = max(most - removing, 0)
    empty = empty[:budget]
    return empty, drain[: max(min(budget - len(empty), most_drains - draining), 0)]


class ScaleDown:
    """Timers by node. `remove` is the engine's."""

    def __init__(self, cluster: Cluster, settings: Settings, remove: Remove) -> None:
        self._cluster = cluster
        self._settings = settings
        self._remove = remove
        self.unneeded: dict[int, Unneeded] = {}
        self._unremovable_until: dict[int, float] = {}
        self.removing: dict[int, bool] = {}
        """Nodes that are on their way out: whether they needed a drain."""
        self._last_delete = -math.inf
        self._last_update = -math.inf
        self._shortest_interval = settings.scale_down_unneeded_time.total_seconds() or 1e-9

    def gone(self, node: int, _now: float) -> None:
        """A node that was being removed is gone."""
        self.removing.pop(node, None)
        self._unremovable_until.pop(node, None)

    def drained(self) -> dict[int, tuple[Kind, int]]:
        """Return by kind the pods that still run on nodes that are being drained: they are about to need a place."""
        found: dict[int, tuple[Kind, int]] = {}
        for node, drain in self.removing.items():
            if drain:
                for kind, count in kinds_on(self._cluster, node):
                    found[kind.index] = (kind, count + found.get(kind.index, (kind, 0))[1])
        return found

    def loop(self, space: Space, now: float, *, cooling: bool) -> bool:
        """UpdateClusterState, and unless scale-down is cooling, NodesToDelete; True when nodes begin to go."""
        self._update(space, now)
        delay = self._settings.scale_down_delay_after_delete_seconds
        started = not cooling and now - self._last_delete >= delay and self._start(now)
        self._soft_taints()
        return started

    def utilization(self, space: Space) -> IntArray:
        """Return rows of ready nodes at or below the threshold: max of cpu and memory, every pod counts."""
        cluster = self._cluster
        rows = cluster.rows(READY)
        allocatable = cluster.allocatable[:2, rows]
        used = (allocatable - space.free[:2, rows]) / np.maximum(allocatable, 1)
        low: IntArray = rows[np.maximum(used[CPU], used[MEMORY]) <= self._settings.scale_down_utilization_threshold]
        return low

    def _candidates(self, space: Space, now: float) -> list[int]:
        """Empty nodes first, then those that were unneeded before (upstream draws among equals: the longest first)."""
        cluster = self._cluster
        sizes = list(cluster.group_counts)
        for node in self.removing:
            sizes[int(cluster.group_of[node])] += 1
        found = [
            node
            for node in self.utilization(space).tolist()
            if self._unremovable_until.get(node, 0.0) <= now
            and sizes[group := int(cluster.group_of[node])] > cluster.groups[group].min
        ]
        loaded = [bool(cluster.pods_on[node]) or bool(space.added.get(node)) for node in found]
        since = [self.unneeded[node].since if node in self.unneeded else math.inf for node in found]
        order = np.lexsort((found, since, loaded)).tolist() if found else []
        return [found[i] for i in order]

    def _update(self, space: Space, now: float) -> None:
        settings = self._settings
        self._shortest_interval = min(self._shortest_interval, max(now - self._last_update, 1e-9))
        self._last_update = now
        limit = unneeded_nodes_limit(
            len(self.unneeded),
            parallelism=settings.max_scale_down_parallelism,
            unneeded_seconds=settings.scale_down_unneeded_time.total_seconds(),
            shortest_interval_seconds=self._shortest_interval,
        )
        space.only_ready()  # podDestinations: nodes that are on their way take no moved pods
        found: dict[int, Unneeded] = {}
        for node in self._candidates(space, now):
            if len(found) >= limit:
                break
            pods = space.kinds_on(node, from_priority=settings.expendable_pods_priority_cutoff)
            space.usable[node] = False
            if not space.fits_all(pods):
                space.usable[node] = True
                self._unremovable_until[node] = now + settings.unremovable_node_recheck_timeout.total_seconds()
                continue
            before = self.unneeded.get(node)
            found[node] = Unneeded(before.since if before else now, bool(pods))
        self.unneeded = found

    def _start(self, now: float) -> bool:
        """RemovableAt and CropNodes."""
        cluster, settings = self._cluster, self._settings
        needed = settings.scale_down_unneeded_time.total_seconds()
        sizes = list(cluster.group_counts)
        empty: list[int] = []
        drain: list[int] = []
        for node, unneeded in sorted(self.unneeded.items(), key=lambda item: (item[1].drain, item[1].since)):
            group = int(cluster.group_of[node])
            if now - unneeded.since >= needed and sizes[group] > cluster.groups[group].min:
                sizes[group] -= 1
                (drain if unneeded.drain else empty).append(node)
        empty, drain = crop(
            empty,
            drain,
            most=settings.max_scale_down_parallelism,
            most_drains=settings.max_drain_parallelism,
            removing=len(self.removing),
            draining=sum(self.removing.values()),
        )
        delay = settings.node_delete_delay_after_taint_seconds
        for node in empty:
            self.removing[node] = False
            self._remove(node, delay, 0.0)
        for node in drain:
            self.removing[node] = True
            self._remove(node, delay, DRAIN_POLL_SECONDS)
        if not empty and not drain:
            return False
        self._last_delete = now
        return True

    def _soft_taints(self) -> None:
        """DeletionCandidateOfClusterAutoscaler on what is unneeded: first taken off, then put on, ten calls a look."""
        cluster = self._cluster
        calls = self._settings.max_bulk_soft_taint_count
        tainted = np.flatnonzero(cluster.candidate[: cluster.size] & (cluster.state[: cluster.size] == READY))
        needed = [node for node in tainted.tolist() if node not in self.unneeded][:calls]
        cluster.candidate[needed] = False
        new = [node for node in self.unneeded if not cluster.candidate[node] and node not in self.removing]
        cluster.candidate[new[: calls - len(needed)]] = True
