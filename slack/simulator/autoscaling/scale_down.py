"""Cluster Autoscaler, scale-down: who is unneeded, since when, and who may go now.

As core/scaledown/{planner,eligibility,unneeded,unremovable,budgets,actuation}: a node is a candidate while its requests
are at most the threshold of its allocatable; it is unneeded while every pod on it, and every pod that was moved there
in the same scan, would find a place on another ready node; it goes when it has been unneeded for long enough: empty
ones first, together with one that needs a drain. A node that could not be emptied is left alone for five minutes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.simulator.autoscaling.packing import Space, kinds_on
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import READY, ModelledCluster
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler as Settings

DRAIN_POLL_SECONDS = 5.0
"""waitPodsToDisappear (actuation/drain.go) looks at once, when nothing has stopped yet, and then every 5 s."""

_ROUNDING = 1e-6
"""Sums of seconds are not exact: a scan too early finds nothing, one too late would be another result."""

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
        before: that were unneeded at the last scan.
        parallelism: --max-scale-down-parallelism.
        unneeded_seconds: --scale-down-unneeded-time.
        shortest_interval_seconds: between two scans so far.
    """
    scans = int(max(unneeded_seconds, shortest_interval_seconds) // shortest_interval_seconds)
    return min(before + 2 * parallelism, parallelism * scans + parallelism)


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

    def __init__(self, cluster: ModelledCluster, settings: Settings, remove: Remove) -> None:
        self._cluster = cluster
        self._settings = settings
        self._remove = remove
        self.unneeded: dict[int, Unneeded] = {}
        self._unremovable_until: dict[int, float] = {}
        self.removing: dict[int, bool] = {}
        """Nodes that are on their way out: whether they needed a drain."""
        self._last_delete = -math.inf
        self._last_update = -math.inf
        self._settled = False
        """Whether the last scan has found what the one before had found, and has changed nothing."""
        self._same_since = -math.inf
        """Since when scans have found the same in the same cluster."""
        self._seen: tuple[int, object] = (-1, None)
        self._blocked: list[int] = []
        """Nodes with little on them that were left alone in the last scan, as they could not be emptied before."""
        self._hopeless: list[int] = []
        """Of these, those that will not be emptied however often they are looked at, while nothing changes."""
        self._recheck_at = math.inf
        self._shortest_interval = settings.scale_down_unneeded_time.total_seconds() or 1e-9

    def gone(self, node: int, _now: float) -> None:
        """A node that was being removed is gone."""
        self.removing.pop(node, None)
        self._unremovable_until.pop(node, None)

    def drained(self) -> dict[int, tuple[PodKind, int]]:
        """Return by kind the pods that still run on nodes that are being drained: they are about to need a place."""
        found: dict[int, tuple[PodKind, int]] = {}
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

    def passed(self, now: float) -> None:
        """A scan is left out, for it would find what the last one has found."""
        self._heed(now)
        if now >= self._recheck_at:
            timeout = self._settings.unremovable_node_recheck_timeout.total_seconds()
            for node in self._hopeless:
                if self._unremovable_until[node] <= now:
                    self._unremovable_until[node] = now + timeout
            self._recheck_at = min(self._unremovable_until[node] for node in self._hopeless)

    def still_until(self, now: float, last_scale_up: float) -> float:
        """Return until when scans of the same cluster change nothing; `now` where the next one might."""
        if not self._settled:
            return now
        settings = self._settings
        # Looked at since anything was different, and after all that are unneeded: so it goes the next time, too.
        known = self._same_since + settings.unremovable_node_recheck_timeout.total_seconds()
        blocked = {node: self._unremovable_until[node] for node in self._blocked}
        self._hopeless = [node for node, until in blocked.items() if until >= known]
        self._recheck_at = min((blocked[node] for node in self._hopeless), default=math.inf)
        unneeded_seconds = settings.scale_down_unneeded_time.total_seconds()
        ends = [
            last_scale_up + settings.scale_down_delay_after_add.total_seconds(),
            self._last_delete + settings.scale_down_delay_after_delete_seconds,
            *(until for until in blocked.values() if until < known),
            *(unneeded.since + unneeded_seconds for unneeded in self.unneeded.values()),
        ]
        return min((end for end in ends if end > now - _ROUNDING), default=math.inf) - _ROUNDING

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
        low = [
            node
            for node in self.utilization(space).tolist()
            if sizes[group := int(cluster.group_of[node])] > cluster.groups[group].min
        ]
        found = [node for node in low if self._unremovable_until.get(node, 0.0) <= now]
        self._blocked = [node for node in low if self._unremovable_until.get(node, 0.0) > now]
        loaded = [bool(cluster.pods_on[node]) or bool(space.added.get(node)) for node in found]
        since = [self.unneeded[node].since if node in self.unneeded else math.inf for node in found]
        order = np.lexsort((found, since, loaded)).tolist() if found else []
        return [found[i] for i in order]

    def _update(self, space: Space, now: float) -> None:
        settings = self._settings
        self._heed(now)
        limit = unneeded_nodes_limit(
            len(self.unneeded),
            parallelism=settings.max_scale_down_parallelism,
            unneeded_seconds=settings.scale_down_unneeded_time.total_seconds(),
            shortest_interval_seconds=self._shortest_interval,
        )
        space.only_ready()  # podDestinations: nodes that are on their way take no moved pods
        found: dict[int, Unneeded] = {}
        self._settled = True
        for node in self._candidates(space, now):
            if len(found) >= limit:
                self._settled = False
                break
            pods = space.kinds_on(node, from_priority=settings.expendable_pods_priority_cutoff)
            space.usable[node] = False
            if not space.fits_all(pods):
                space.usable[node] = True
                self._unremovable_until[node] = now + settings.unremovable_node_recheck_timeout.total_seconds()
                self._settled = False
                continue
            before = self.unneeded.get(node)
            found[node] = Unneeded(before.since if before else now, bool(pods))
        seen = (self._cluster.changes, list(found.items()))
        if seen != self._seen:
            self._seen, self._same_since, self._settled = seen, now, False
        self.unneeded = found

    def _heed(self, now: float) -> None:
        self._shortest_interval = min(self._shortest_interval, max(now - self._last_update, 1e-9))
        self._last_update = now

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
        """DeletionCandidateOfClusterAutoscaler on what is unneeded: first taken off, then put on, ten calls a scan."""
        cluster = self._cluster
        calls = self._settings.max_bulk_soft_taint_count
        tainted = np.flatnonzero(cluster.candidate[: cluster.size] & (cluster.state[: cluster.size] == READY))
        needed = [node for node in tainted.tolist() if node not in self.unneeded][:calls]
        cluster.candidate[needed] = False
        new = [node for node in self.unneeded if not cluster.candidate[node] and node not in self.removing]
        new = new[: calls - len(needed)]
        cluster.candidate[new] = True
        if needed or new:
            self._settled = False
            cluster.changes += 1
