"""Cluster Autoscaler, scale-down: who is unneeded, since when, and who may go now.

As core/scaledown/{eligibility,planner,unneeded,budgets}: a node is a candidate while its requests are at most the
threshold of its allocatable; it is unneeded while every pod on it would find a place elsewhere, placeholders included
and together with the candidates before it; it goes when it has been unneeded for long enough: empty ones up to ten at a
time, one that needs a drain at a time. A node that could not be emptied is looked at again after five minutes.
"""

from collections.abc import Callable

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.simulator.autoscalers import ClusterAutoscaler as Settings
from slack.simulator.packing import Space, kinds_on
from slack.simulator.state import READY, Cluster


class ScaleDown:
    """Timers by node. `remove` is the engine's: taint now, evict and delete after a delay."""

    def __init__(self, cluster: Cluster, settings: Settings, remove: Callable[[int, float], None]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._remove = remove
        self.unneeded_since: dict[int, float] = {}
        self._unremovable_until: dict[int, float] = {}
        self.removing: dict[int, bool] = {}
        """Nodes that are on their way out: whether they needed a drain."""
        self._last_delete = -float("inf")

    def gone(self, node: int, _now: float) -> None:
        """A node that was being removed is gone."""
        self.removing.pop(node, None)
        self._unremovable_until.pop(node, None)

    def loop(self, space: Space, now: float, *, cooling: bool) -> None:
        """UpdateClusterState, and unless scale-down is cooling, NodesToDelete."""
        self._update(space, now)
        settings = self._settings
        delay = settings.scale_down_delay_after_delete_seconds or settings.scan_interval_seconds
        if not cooling and now - self._last_delete >= delay:
            self._start(now)
        self._soft_taints()

    def utilization(self, space: Space) -> IntArray:
        """Return rows of ready nodes at or below the threshold: max of cpu and memory, every pod counts."""
        cluster = self._cluster
        rows = cluster.rows(READY)
        allocatable = cluster.allocatable[:2, rows]
        used = (allocatable - space.free[:2, rows]) / np.maximum(allocatable, 1)
        low: IntArray = rows[np.maximum(used[CPU], used[MEMORY]) <= self._settings.scale_down_utilization_threshold]
        return low

    def _update(self, space: Space, now: float) -> None:
        cluster, settings = self._cluster, self._settings
        before, self.unneeded_since = self.unneeded_since, {}
        cutoff = settings.expendable_pods_priority_cutoff
        candidates = [
            node
            for node in self.utilization(space).tolist()
            if self._unremovable_until.get(node, 0.0) <= now and node not in self.removing
        ]
        surplus = [count - group.min for count, group in zip(cluster.group_counts, cluster.groups, strict=True)]
        loaded = np.array([len(cluster.pods_on[node]) > 0 for node in candidates], dtype=np.bool_)
        # empty ones first, then those that were unneeded before, the longest first
        since = np.array([before.get(node, now) for node in candidates])
        order = np.lexsort((candidates, since, loaded)).tolist() if candidates else []
        non_empty = 0
        for i in order:
            node = candidates[i]
            group = int(cluster.group_of[node])
            if surplus[group] <= 0:
                continue
            pods = kinds_on(cluster, node, from_priority=cutoff)
            if pods:
                if non_empty >= settings.scale_down_non_empty_candidates_count:
                    break
                space.usable[node] = False
                if not space.fits_all(pods):
                    space.usable[node] = True
                    timeout = settings.unremovable_node_recheck_timeout.total_seconds()
                    self._unremovable_until[node] = now + timeout
                    continue
                non_empty += 1
            space.usable[node] = False
            surplus[group] -= 1
            self.unneeded_since[node] = before.get(node, now)

    def _start(self, now: float) -> None:
        cluster, settings = self._cluster, self._settings
        needed = settings.scale_down_unneeded_time.total_seconds()
        drains = sum(self.removing.values())
        for node, since in sorted(self.unneeded_since.items(), key=lambda item: (item[1], item[0])):
            if len(self.removing) >= settings.max_scale_down_parallelism:
                return
            group = int(cluster.group_of[node])
            if now - since < needed or cluster.group_counts[group] <= cluster.groups[group].min:
                continue
            drain = bool(kinds_on(cluster, node, from_priority=settings.expendable_pods_priority_cutoff))
            if drain and drains >= settings.max_drain_parallelism:
                continue
            drains += drain
            self.removing[node] = drain
            del self.unneeded_since[node]
            self._last_delete = now
            self._remove(node, settings.node_delete_delay_after_taint_seconds)

    def _soft_taints(self) -> None:
        """DeletionCandidateOfClusterAutoscaler on what is unneeded: at most ten new ones a loop."""
        cluster = self._cluster
        for node in np.flatnonzero(cluster.candidate[: cluster.size]).tolist():
            if node not in self.unneeded_since:
                cluster.candidate[node] = False
        new = [node for node in self.unneeded_since if not cluster.candidate[node]]
        cluster.candidate[new[: self._settings.max_bulk_soft_taint_count]] = True
