"""Karpenter, provisioning: pending pods are batched, packed largest first, each new node the cheapest that fits.

As pkg/controllers/provisioning: a batch closes 1 s after its last pod and 10 s after its first; pods are sorted by
size, not by priority (scheduling/queue.go), those of nodes that are on their way out among them; existing and upcoming
nodes come first, then new nodes that grow while some instance type still holds all of their pods; at last each becomes
the cheapest type that does. One NodePool; node groups are its instance types. There is no priority cut-off. Nodes that
are on their way out do not count against limits (state/cluster.go, updateNodePoolResources).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.model.result import Answer
from slack.simulator.autoscaling.cluster_autoscaler import OnAnswer
from slack.simulator.autoscaling.packing import Space, by_size, headroom, moving
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.state import ModelledCluster
from slack.simulator.scenario.autoscaler_settings import Karpenter as Settings

RETRY_SECONDS = 10.0
"""Provisionable pods are queued again every 10 s (provisioning/controller.go, PodController)."""

LEAST_NOMINATION_SECONDS = 10.0
"""nominationWindow (state/statenode.go): twice the batch's longest time, and no less than this."""


@dataclass(eq=False)
class ModelledNodeClaim:
    """A node to be: what it must hold, and which groups could be it."""

    groups: list[int]
    requests: IntArray
    pods: int
    kinds: dict[int, int]


def _rooms(cluster: ModelledCluster, claim: ModelledNodeClaim, kind: PodKind) -> dict[int, int]:
    """Return by group how many more pods of a kind the claim could hold as a node of it."""
    if any(other in claim.kinds for other in kind.conflicts):
        return {}
    rooms = {}
    for group in claim.groups:
        if not cluster.admitted(kind)[group]:
            continue
        free = cluster.group_allocatable[group] - cluster.group_daemon[group] - claim.requests
        room = cluster.group_slots[group] - cluster.groups[group].daemon_pods - claim.pods
        for column, amount in kind.needs:
            room = min(room, int(free[column]) // amount)
        if kind.index in kind.conflicts:
            room = min(room, 1)
        if room > 0:
            rooms[group] = room
    return rooms


def _put(claim: ModelledNodeClaim, kind: PodKind, rooms: dict[int, int], count: int) -> int:
    """Add up to `count` pods; return how many. Groups that are too small for them are no longer possible."""
    taken = min(count, max(rooms.values()))
    claim.groups = [group for group, room in rooms.items() if room >= taken]
    claim.requests = claim.requests + taken * kind.requests
    claim.pods += taken
    claim.kinds[kind.index] = claim.kinds.get(kind.index, 0) + taken
    return taken


def claims_for(cluster: ModelledCluster, pods: list[tuple[PodKind, int]], groups: list[int]) -> list[ModelledNodeClaim]:
    """Pack pods onto new nodes, the largest first; what no group takes is left out."""
    claims: list[ModelledNodeClaim] = []
    width = len(cluster.kinds.resources)
    for kind, count in by_size(pods):
        left = count
        for claim in claims:
            rooms = _rooms(cluster, claim, kind)
            if left and rooms:
                left -= _put(claim, kind, rooms, left)
        while left:
            claim = ModelledNodeClaim(groups, np.zeros(width, dtype=np.int64), 0, {})
            rooms = _rooms(cluster, claim, kind)
            if not rooms:
                break
            left -= _put(claim, kind, rooms, left)
            claims.append(claim)
    return claims


def cheapest(cluster: ModelledCluster, groups: list[int]) -> int:
    """Return the group with the lowest price, the first among equals."""
    return min(groups, key=lambda group: (cluster.groups[group].price_per_hour, group))


def unplaced(cluster: ModelledCluster, scheduler: ModelledScheduler) -> list[tuple[PodKind, int]]:
    """Count by kind the pending pods that the scheduler has promised no node."""
    counts = {k: sum(cluster.nominated[pod] < 0 for pod in waiting) for k, waiting in scheduler.refused.items()}
    return [(cluster.kinds[index], count) for index, count in counts.items() if count]


class KarpenterProvisioner:
    """Batches and launches. `add_nodes` is the engine's."""

    def __init__(
        self,
        cluster: ModelledCluster,
        scheduler: ModelledScheduler,
        clock: Clock,
        settings: Settings,
        add_nodes: Callable[[int, int], None],
        on_answer: OnAnswer,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._add_nodes = add_nodes
        self._on_answer = on_answer
        self._first: float | None = None
        self._last = 0.0

    def notice(self, _: object = None) -> None:
        """A pod is unschedulable."""
        self._last = self._clock.now
        if self._first is None:
            self._first = self._last
            self._clock.after(self._settings.batch_idle_seconds, self._close)

    def _close(self, _: object) -> None:
        assert self._first is not None
        due = min(self._last + self._settings.batch_idle_seconds, self._first + self._settings.batch_max_seconds)
        if self._clock.now < due:
            self._clock.at(due, self._close)
            return
        self._first = None
        if self.provision():
            self._clock.after(RETRY_SECONDS, self.notice)

    def provision(self) -> bool:
        """Launch what the pending pods need; True when some stay pending, so that another look is due."""
        cluster = self._cluster
        space = Space(cluster, strict_taints=True)
        pods: list[tuple[PodKind, int]] = []
        held = False
        for kind, count in by_size([*unplaced(cluster, self._scheduler), *moving(cluster)]):
            left = space.fill(kind, count)
            held = held or kind.stays_pending
            if left:
                pods.append((kind, left))
        self._nominate(space)
        if not pods:
            return held
        most, counted = self._settings.max_nodes_total, sum(cluster.group_counts)
        room = {g: headroom(cluster, g, most, counted=counted)[0] for g in range(len(cluster.groups))}
        total = most - counted if most else 10**9
        launched: dict[int, int] = {}
        for claim in claims_for(cluster, pods, [g for g, free in room.items() if free]):
            possible = [g for g in claim.groups if room[g] > 0]
            if not possible or total <= 0:
                continue
            group = cheapest(cluster, possible)
            room[group] -= 1
            total -= 1
            self._add_nodes(group, 1)
            for index, count in claim.kinds.items():
                launched[index] = launched.get(index, 0) + count
        short = held
        for kind, count in pods:
            if launched.get(kind.index, 0):
                self._on_answer(kind, Answer.TRIGGERED, "Pod should schedule on a new nodeclaim")
            if launched.get(kind.index, 0) < count:
                short = True
                if not launched.get(kind.index, 0):
                    self._refuse(kind)
        return short

    def _nominate(self, space: Space) -> None:
        """Keep the nodes that pods fit on from disruption for a while (NominateNodeForPod, state/statenode.go).

        Of unbound pods alone: others are bound before that matters, and then their node has changed.
        """
        until = self._clock.now + max(2 * self._settings.batch_max_seconds, LEAST_NOMINATION_SECONDS)
        for node, added in space.added.items():
            if any(kind.stays_pending for kind, count in added if count):
                self._cluster.held_until[node] = until

    def _refuse(self, kind: PodKind) -> None:
        cluster = self._cluster
        everything = list(range(len(cluster.groups)))
        empty = ModelledNodeClaim(everything, np.zeros(len(cluster.kinds.resources), dtype=np.int64), 0, {})
        if _rooms(cluster, empty, kind):
            self._on_answer(
                kind, Answer.LIMIT, "Failed to schedule pod, all available instance types exceed limits for nodepool"
            )
        else:
            self._on_answer(kind, Answer.REFUSED, "Failed to schedule pod, no instance type satisfied resources")
