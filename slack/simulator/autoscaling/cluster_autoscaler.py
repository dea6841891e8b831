"""Cluster Autoscaler: when it scans, and scale-up, one node group a scan.

It scans an interval after it last did, and at once when a pod becomes unschedulable or the last scan changed
something (loop/trigger.go). Order of things as in core/static_autoscaler.go: expendable pods are nobody; nominated pods
have their room; pods on nodes that are being drained need another; pods that fit on existing or upcoming nodes are
left out, the highest priority first; what is left is grouped by kind and packed onto each node group's template (FFD,
the largest first); the expander chooses; then comes scale-down. Failing and backed-off groups, similar group balancing,
and limits on cores and memory are left out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.planner.model.result import Answer
from slack.simulator.autoscaling.packing import Hints, Space, headroom
from slack.simulator.autoscaling.scale_down import ScaleDown
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.periodic_timer import PeriodicTimer
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.state import LEAVING, ModelledCluster
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler as Settings

OnAnswer = Callable[[PodKind, Answer, str], None]
"""What the autoscaler says about pods of a kind, as its Events would."""
SCAN_SECONDS = 0.1
"""How long a scan takes, so that a burst of pods does not make one each: 0.02 to 0.1 s were measured with 13 nodes."""


@dataclass(frozen=True, slots=True)
class Option:
    """So many nodes of a group would take so many pods of each kind."""

    group: int
    nodes: int
    pods: tuple[tuple[PodKind, int], ...]
    waste: float
    """(unused share of cpu + unused share of memory) / 2 over the new nodes (expander/waste/waste.go)."""


def estimate(cluster: ModelledCluster, group: int, pods: list[tuple[PodKind, int]], most: int) -> Option | None:
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
    placed: list[tuple[PodKind, int]] = []
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


def _size(kind: PodKind, allocatable: IntArray) -> float:
    """Score of decreasing_pod_orderer.go: share of cpu + share of memory of the template."""
    return float(sum(kind.requests[c] / max(allocatable[c], 1) for c in (CPU, MEMORY)))


class ModelledClusterAutoscaler:
    """The loop; it runs from `start` on. `add_nodes` is the engine's: it draws when each will be ready."""

    def __init__(
        self,
        cluster: ModelledCluster,
        scheduler: ModelledScheduler,
        clock: Clock,
        settings: Settings,
        scale_down: ScaleDown,
        add_nodes: Callable[[int, int], None],
        on_answer: OnAnswer,
        seed: int,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._scale_down = scale_down
        self._add_nodes = add_nodes
        self._on_answer = on_answer
        self._rng = np.random.default_rng(seed)
        self.last_scale_up = -math.inf
        self.rhythm = PeriodicTimer(clock, settings.scan_interval_seconds, self._scan, scale_down.passed, first=True)
        self._hints = Hints(cluster)
        self._nobody_waits = False
        """Whether the last scan has found no pod that needs a node, or will when it is older."""

    def start(self) -> None:
        """Scan for the first time after an interval."""
        self.rhythm.follow(self._clock.now + self._settings.scan_interval_seconds)

    def notice(self) -> None:
        """A pod has become unschedulable."""
        if self._settings.frequent_loops_enabled:
            self.rhythm.wake()
            self.rhythm.follow(max(self._clock.now, self.rhythm.last + SCAN_SECONDS))

    def _scan(self, now: float) -> None:
        changed = self.loop(now)
        following = now + self._settings.scan_interval_seconds
        until = now if changed else self._still_until(now)
        if changed and self._settings.frequent_loops_enabled:
            self.rhythm.follow(now + SCAN_SECONDS)
        elif until > following:
            self.rhythm.rest(until)
        else:
            self.rhythm.follow(following)

    def _still_until(self, now: float) -> float:
        if not self._nobody_waits:
            return now
        return self._scale_down.still_until(now, self.last_scale_up) if self._settings.scale_down_enabled else math.inf

    def loop(self, now: float) -> bool:
        """RunOnce; True when nodes were asked for or begin to go."""
        space = Space(self._cluster, expendable_below=self._settings.expendable_pods_priority_cutoff)
        pods, all_new = self._unschedulable(space, now)
        young = self._settings.new_pod_scale_up_delay_seconds > 0 and any(self._scheduler.refused.values())
        self._nobody_waits = not pods and not young
        grows = bool(pods) and not all_new and self._scale_up(pods)
        if grows:
            self.last_scale_up = now
        if not self._settings.scale_down_enabled:
            return grows
        delay = self._settings.scale_down_delay_after_add.total_seconds()
        cooling = all_new or now - self.last_scale_up < delay
        return self._scale_down.loop(space, now, cooling=cooling) or grows

    def _unschedulable(self, space: Space, now: float) -> tuple[list[tuple[PodKind, int]], bool]:
        """Return kinds with the pods that need a node, and whether all of these are too young (allPodsAreNew).

        An API object's creation time is in whole seconds, so a pod is taken for up to a second older than it is.
        """
        cluster, settings = self._cluster, self._settings
        helped: list[tuple[PodKind, int]] = []
        oldest = now
        self._hints.keep_only(pod for pods in self._scheduler.refused.values() for pod in pods)
        drained = self._scale_down.drained()
        indices = {index for index, pods in self._scheduler.refused.items() if pods} | drained.keys()
        for kind in sorted((cluster.kinds[index] for index in indices), key=lambda k: (-k.priority, k.index)):
            if kind.priority < settings.expendable_pods_priority_cutoff:
                continue
            pods = [pod for pod in self._scheduler.refused.get(kind.index, ()) if cluster.nominated[pod] < 0]
            created = [float(math.floor(cluster.created[pod])) for pod in pods]
            created = [at for at in created if now - at >= settings.new_pod_scale_up_delay_seconds]
            if kind.index in drained:
                created += [-math.inf] * drained[kind.index][1]  # pods that have run are not new
            if kind.stays_pending:  # what stays pending has its place from scan to scan
                left = space.fill_by_hints(kind, pods[: len(created)], self._hints)
            else:
                left = space.fill(kind, len(created)) if created else 0
            if left:
                helped.append((kind, left))
                # upstream's list is in no order: which of the pods fit on the nodes that are there is chance
                oldest = min(oldest, float(self._rng.choice(created, left, replace=False).min()))
        return helped, bool(helped) and now - oldest < settings.unschedulable_pod_time_buffer_seconds

    def _scale_up(self, pods: list[tuple[PodKind, int]]) -> bool:
        cluster, settings = self._cluster, self._settings
        options: list[Option] = []
        full: list[int] = []
        counted = sum(cluster.group_counts) + len(cluster.rows(LEAVING))  # what is registered counts until it is gone
        for group in range(len(cluster.groups)):
            room, total_short = headroom(cluster, group, settings.max_nodes_total, counted=counted)
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
                self._on_answer(kind, Answer.TRIGGERED, f"pod triggered scale-up: {cluster.groups[best.group].name}")
            elif kind.index not in helped:
                self._refuse(kind, full)
        if best is None:
            return False
        self._add_nodes(best.group, best.nodes)
        return True

    def _refuse(self, kind: PodKind, full: list[int]) -> None:
        cluster = self._cluster
        would = any(
            cluster.admitted(kind)[g]
            and (kind.requests <= cluster.group_allocatable[g] - cluster.group_daemon[g]).all()
            for g in full
        )
        if would:
            self._on_answer(kind, Answer.LIMIT, "pod didn't trigger scale-up: max node group size reached")
        else:
            self._on_answer(kind, Answer.REFUSED, "pod didn't trigger scale-up: it fits no node group")

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
