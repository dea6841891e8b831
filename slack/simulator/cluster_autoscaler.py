"""Cluster Autoscaler, scale-up: one loop every scan interval, one node group a loop.

Order of things as in core/static_autoscaler.go: expendable pods are nobody; nominated pods have their room; pods that
fit on existing or upcoming nodes are left out, the highest priority first; what is left is grouped by kind and packed
onto each node group's template (FFD, the largest first); the expander chooses. Failing and backed-off groups, similar
group balancing, and limits on cores and memory are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.planner.outcome import Answer
from slack.simulator.autoscalers import ClusterAutoscaler as Settings
from slack.simulator.kinds import Kind
from slack.simulator.packing import Space, headroom
from slack.simulator.scale_down import ScaleDown
from slack.simulator.scheduler import Scheduler
from slack.simulator.state import Cluster

Hear = Callable[[Kind, Answer, str], None]
"""What the autoscaler says about pods of a kind, as its Events would."""


@dataclass(frozen=True, slots=True)
class Option:
    """So many nodes of a group would take so many pods of each kind."""

    group: int
    nodes: int
    pods: tuple[tuple[Kind, int], ...]
    waste: float
    """(unused share of cpu + unused share of memory) / 2 over the new nodes (expander/waste/waste.go)."""


def estimate(cluster: Cluster, group: int, pods: list[tuple[Kind, int]], most: int) -> Option | None:
    """Pack pods onto new nodes of a group, first fit decreasing (estimator/binpacking_estimator.go).

    Args:
        cluster: for the group's template.
        group: its row.
        pods: kinds with counts.
        most: so many nodes at most.
    """
    spec = cluster.groups[group]
    allocatable = cluster.group_allocatable[group]
    empty = allocatable - cluster.group_daemon[group]
    slots = cluster.group_slots[group] - spec.daemon_pods
    fitting = [
        (kind, count)
        for kind, count in pods
        if slots > 0 and cluster.admitted(kind)[group] and (kind.requests <= empty).all()
    ]
    fitting.sort(key=lambda pair: (-_size(pair[0], allocatable), pair[0].index))
    free: IntArray = np.repeat(empty[:, None], most, axis=1)
    left: IntArray = np.full(most, slots, dtype=np.int64)
    standing: dict[int, IntArray] = {}
    placed: list[tuple[Kind, int]] = []
    opened = 0
    for kind, count in fitting:
        room = left.copy()
        for column, amount in kind.needs:
            np.minimum(room, free[column] // amount, out=room)
        for other in kind.conflicts:
            if other in standing:
                room[standing[other] > 0] = 0
        if kind.index in kind.conflicts:
            np.minimum(room, 1, out=room)
        taken = np.clip(count - (np.cumsum(room) - room), 0, room)
        if not taken.any():
            continue
        for column, amount in kind.needs:
            free[column] -= taken * amount
        left -= taken
        if kind.conflicts:
            standing[kind.index] = standing.get(kind.index, 0) + taken
        opened = max(opened, int(np.flatnonzero(taken)[-1]) + 1)
        placed.append((kind, int(taken.sum())))
    if not opened:
        return None
    unused = [
        float(free[column, :opened].sum()) / max(opened * float(allocatable[column]), 1.0) for column in (CPU, MEMORY)
    ]
    return Option(group, opened, tuple(placed), sum(unused) / 2)


def _size(kind: Kind, allocatable: IntArray) -> float:
    """Score of decreasing_pod_orderer.go: share of cpu + share of memory of the template."""
    return float(sum(kind.requests[c] / max(allocatable[c], 1) for c in (CPU, MEMORY)))


class ClusterAutoscaler:
    """The loop. `add_nodes` is the engine's: it draws when each will be ready."""

    def __init__(
        self,
        cluster: Cluster,
        scheduler: Scheduler,
        settings: Settings,
        scale_down: ScaleDown,
        add_nodes: Callable[[int, int], None],
        hear: Hear,
        seed: int,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._settings = settings
        self._scale_down = scale_down
        self._add_nodes = add_nodes
        self._hear = hear
        self._rng = np.random.default_rng(seed)
        self.last_scale_up = -float("inf")

    def loop(self, now: float) -> None:
        """RunOnce."""
        space = Space(self._cluster, expendable_below=self._settings.expendable_pods_priority_cutoff)
        pods, youngest_only = self._unschedulable(space, now)
        if pods and not youngest_only and self._scale_up(pods):
            self.last_scale_up = now
            return  # no scale-down in a loop that scales up
        if self._settings.scale_down_enabled:
            delay = self._settings.scale_down_delay_after_add.total_seconds()
            cooling = youngest_only or now - self.last_scale_up < delay
            self._scale_down.loop(space, now, cooling=cooling)

    def _unschedulable(self, space: Space, now: float) -> tuple[list[tuple[Kind, int]], bool]:
        """Return kinds with the pods that need a node, and whether all of these are too young (allPodsAreNew)."""
        cluster, settings = self._cluster, self._settings
        helped: list[tuple[Kind, int]] = []
        oldest = now
        kinds = [cluster.kinds[index] for index, pods in self._scheduler.refused.items() if pods]
        for kind in sorted(kinds, key=lambda k: (-k.priority, k.index)):
            if kind.priority < settings.expendable_pods_priority_cutoff:
                continue
            pods = [
                pod
                for pod in self._scheduler.refused[kind.index]
                if cluster.nominated[pod] < 0 and now - cluster.created[pod] >= settings.new_pod_scale_up_delay_seconds
            ]
            left = space.fill(kind, len(pods)) if pods else 0
            if left:
                helped.append((kind, left))
                oldest = min(oldest, min(cluster.created[pod] for pod in pods[len(pods) - left :]))
        return helped, bool(helped) and now - oldest < settings.unschedulable_pod_time_buffer_seconds

    def _scale_up(self, pods: list[tuple[Kind, int]]) -> bool:
        cluster, settings = self._cluster, self._settings
        options: list[Option] = []
        full: list[int] = []
        for group in range(len(cluster.groups)):
            room, total_short = headroom(cluster, group, settings.max_nodes_total)
            if room:
                wanted = min(room, settings.max_nodes_per_scale_up, sum(count for _, count in pods))
                option = estimate(cluster, group, pods, wanted)
                if option is not None:
                    options.append(option)
            elif cluster.groups[group].max or total_short:
                full.append(group)
        best = self._expand(options) if options else None
        helped = {kind.index for option in options for kind, _ in option.pods}
        for kind, _ in pods:
            if best is not None and any(k is kind for k, _ in best.pods):
                self._hear(kind, Answer.TRIGGERED, f"pod triggered scale-up: {cluster.groups[best.group].name}")
            elif kind.index not in helped:
                self._refuse(kind, full)
        if best is None:
            return False
        self._add_nodes(best.group, best.nodes)
        return True

    def _refuse(self, kind: Kind, full: list[int]) -> None:
        cluster = self._cluster
        would = any(
            cluster.admitted(kind)[g]
            and (kind.requests <= cluster.group_allocatable[g] - cluster.group_daemon[g]).all()
            for g in full
        )
        if would:
            self._hear(kind, Answer.LIMIT, "pod didn't trigger scale-up: max node group size reached")
        else:
            self._hear(kind, Answer.REFUSED, "pod didn't trigger scale-up: it fits no node group")

    def _expand(self, options: list[Option]) -> Option:
        """Choose as --expander says; among equals upstream draws, here least-waste takes the first."""
        match self._settings.expander:
            case "leastWaste":
                return min(options, key=lambda option: option.waste)
            case "priority":
                ranks = self._settings.expander_priorities
                named = [(ranks.get(self._cluster.groups[o.group].name), o) for o in options]
                known = [rank for rank, _ in named if rank is not None]
                if known:
                    options = [o for rank, o in named if rank == max(known)]
        return options[int(self._rng.integers(len(options)))]
