"""Karpenter, disruption: emptiness, then consolidation of several nodes, then of one; one command at a time.

As pkg/controllers/disruption: a node is a candidate when no pod has come or gone for consolidateAfter; empty ones go
together; otherwise the longest row of nodes, the most savings by pod first, whose pods all fit elsewhere or on one new
node that is cheaper than they are together (found by halving, as firstNConsolidationOption does); then single nodes.
A command is looked at again after consolidationTTL (validation.go): of empty nodes those that are no longer empty are
left out, any other command is dropped whole when it is no longer the same; then what comes next in this order is tried.
A replacement is ready before the pods move.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction

import numpy as np

from slack.simulator.autoscaling.karpenter import ModelledNodeClaim, cheapest, claims_for, unplaced
from slack.simulator.autoscaling.packing import Space, by_size, headroom, kinds_on, moving
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.state import READY, ModelledCluster
from slack.simulator.scenario.autoscaler_settings import Karpenter as Settings

_MOST = 100
"""MaxParallel of multinodeconsolidation.go."""
_SINGLES = 15
"""Single nodes looked at in one poll: upstream has three minutes for it."""


class Method(IntEnum):
    """What is tried, in this order (controller.go, NewMethods)."""

    EMPTY = 0
    SEVERAL = 1
    SINGLE = 2


@dataclass(frozen=True, slots=True)
class ConsolidationCommand:
    """Nodes that go, and the groups of which one is their replacement's; none when they need no replacement."""

    method: Method
    nodes: tuple[int, ...]
    groups: tuple[int, ...] = ()


def allowed_disruptions(nodes: int, disrupting: int, share: Fraction) -> int:
    """Return how many more nodes may go (nodepool.go, GetAllowedDisruptions; helpers.go, BuildDisruptionBudgetMapping).

    Args:
        nodes: that have been initialized, those that are on their way out too.
        disrupting: so many of these are on their way out.
        share: of the nodes may go at a time, rounded up.
    """
    return max(math.ceil(nodes * share) - disrupting, 0)


class Disruption:
    """The disruption controller. `launch` calls back when its node is ready; `remove` evicts and deletes."""

    def __init__(
        self,
        cluster: ModelledCluster,
        scheduler: ModelledScheduler,
        clock: Clock,
        settings: Settings,
        launch: Callable[[int, Callable[[], None]], None],
        remove: Callable[[int, float], None],
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._share = Fraction(str(settings.budget_share))  # as it was written: 0.07 of 100 nodes are 7, not 7.0000001
        self._launch = launch
        self._remove = remove
        self._pending: ConsolidationCommand | None = None
        self._disrupting: set[int] = set()
        self._done: dict[Method, tuple[object, ...]] = {}
        """What a method saw when it found nothing: IsConsolidated while it is so still."""
        self._next_single = 0
        self._singles: tuple[tuple[object, ...], int] = ((), 0)
        """What was seen when single nodes were looked at last, and how many have been since it is so."""

    def gone(self, node: int, now: float) -> None:
        """A node that was being removed is gone."""
        self._disrupting.discard(node)

    def poll(self, now: float) -> None:
        """Look for something to do, unless a command waits for its validation."""
        if self._pending is None:
            self._disrupt(Method.EMPTY)

    def _disrupt(self, first: Method) -> None:
        candidates, budget = self._candidates(), self._budget()
        command = self._emptiness(candidates, budget) if first is Method.EMPTY else None
        if command is None and self._settings.consolidation_policy == "WhenEmptyOrUnderutilized":
            command = self._consolidation(first, candidates, budget)
        if command is not None:
            self._pending = command
            self._clock.after(self._settings.consolidation_ttl_seconds, self._validate)

    def _quiet(self) -> list[int]:
        """Return the nodes that are ready and where no pod came or went for consolidateAfter."""
        cluster, since = self._cluster, self._clock.now - self._settings.consolidate_after_seconds
        return [node for node in cluster.rows(READY).tolist() if cluster.last_change[node] <= since]

    def _candidates(self) -> list[int]:
        """Empty nodes first, then the most savings by pod (types.go, SavingsRatio).

        Every node costs 1 and every pod 1: what priorities and deletion costs add is left out.
        """
        cluster = self._cluster
        nodes = [node for node in self._quiet() if not self._nominated(node)]
        price = [cluster.groups[group].price_per_hour for group in cluster.group_of[: cluster.size].tolist()]

        def order(node: int) -> tuple[bool, float, int, int]:
            pods = len(cluster.pods_on[node])
            return pods > 0, -price[node] / (1 + pods), pods, node

        return self._spare(sorted(nodes, key=order))

    def _nominated(self, node: int) -> bool:
        """Whether pods that stay pending fit there: such a node is no candidate (types.go, ValidateNodeDisruptable)."""
        return self._cluster.held_until.get(node, -math.inf) > self._clock.now

    def _spare(self, nodes: Sequence[int]) -> list[int]:
        """Leave out what a group needs for its minimum, the last ones."""
        cluster = self._cluster
        counts = list(cluster.group_counts)
        spare = []
        for node in nodes:
            group = int(cluster.group_of[node])
            if counts[group] > cluster.groups[group].min:
                counts[group] -= 1
                spare.append(node)
        return spare

    def _budget(self) -> int:
        """Nodes that may be disrupted now; those that are starting are no part of the whole."""
        disrupting = len(self._disrupting)
        return allowed_disruptions(len(self._cluster.rows(READY)) + disrupting, disrupting, self._share)

    # -- what could go -----------------------------------------------------------------------------------------------

    def _emptiness(self, candidates: Sequence[int], budget: int) -> ConsolidationCommand | None:
        empty = [node for node in candidates if not self._cluster.pods_on[node]][:budget]
        return ConsolidationCommand(Method.EMPTY, tuple(empty)) if empty else None

    def _consolidation(self, first: Method, candidates: Sequence[int], budget: int) -> ConsolidationCommand | None:
        """Empty nodes are emptiness's, also those that its budget left."""
        cluster = self._cluster
        loaded = [node for node in candidates if cluster.pods_on[node]]
        seen = (cluster.room_version, cluster.created_total, budget, tuple(loaded), tuple(self._quiet()))
        if first <= Method.SEVERAL and self._done.get(Method.SEVERAL) != seen:
            command = self._several(loaded, budget)
            if command is not None:
                return command
            self._done[Method.SEVERAL] = seen
        return self._single(loaded, budget, seen)

    def _several(self, loaded: Sequence[int], budget: int) -> ConsolidationCommand | None:
        low, high = 2, min(len(loaded), budget, _MOST)
        best: ConsolidationCommand | None = None
        while low <= high:
            middle = (low + high) // 2
            found = self._consolidated(Method.SEVERAL, tuple(loaded[:middle]))
            if found is None:
                high = middle - 1
            else:
                best, low = found, middle + 1
        return best

    def _single(self, loaded: Sequence[int], budget: int, seen: tuple[object, ...]) -> ConsolidationCommand | None:
        before, tried = self._singles
        tried = tried if before == seen else 0
        steps = min(len(loaded) - tried, _SINGLES) if budget else 0
        for step in range(steps):
            node = loaded[(self._next_single + step) % len(loaded)]
            found = self._consolidated(Method.SINGLE, (node,))
            if found is not None:
                return found
        if steps:
            self._next_single = (self._next_single + steps) % len(loaded)
        self._singles = (seen, tried + steps)
        return None

    def _consolidated(self, method: Method, nodes: tuple[int, ...]) -> ConsolidationCommand | None:
        """computeConsolidation: how these nodes could go, without a replacement or with one that costs less."""
        cluster = self._cluster
        price = [spec.price_per_hour for spec in cluster.groups]
        own = [int(cluster.group_of[node]) for node in nodes]
        claims = self._simulated(nodes, cheaper_than=sum(price[group] for group in own))
        if claims is None or len(claims) > 1:
            return None
        if not claims:
            return ConsolidationCommand(method, nodes)
        groups = claims[0].groups
        if method is Method.SEVERAL:
            # filterOutSameInstanceType: rather than to replace a node by its like, that one is left where it is
            limit = min((price[group] for group in own if group in groups), default=math.inf)
            groups = [group for group in groups if price[group] < limit]
        return ConsolidationCommand(method, nodes, tuple(groups)) if groups else None

    def _simulated(self, nodes: tuple[int, ...], *, cheaper_than: float = math.inf) -> list[ModelledNodeClaim] | None:
        """Return the new nodes that would be needed without these nodes; None when pods would find no place at all.

        Pods that must move anyway come first: the room that they will take is nobody else's. Pods of the nodes find
        no place where nodes are not initialized, nor where consolidateAfter is not over (addToExistingNode).
        """
        cluster = self._cluster
        space = Space(cluster, upcoming=False, strict_taints=True)
        space.usable[list(nodes)] = False
        pending: list[tuple[PodKind, int]] = []
        """Unbound pods that fit no longer: a new node for them makes the command one with a replacement."""
        for kind, count in by_size([*unplaced(cluster, self._scheduler), *moving(cluster)]):
            missing = space.fill(kind, count)
            if missing and kind.stays_pending:
                pending.append((kind, missing))
        if self._settings.consolidate_after_seconds:
            space.usable[np.setdiff1d(np.flatnonzero(space.usable), self._quiet())] = False
        left: list[tuple[PodKind, int]] = []
        for kind, count in by_size(pair for node in nodes for pair in kinds_on(cluster, node)):
            missing = space.fill(kind, count)
            if missing:
                left.append((kind, missing))
        if not left and not pending:
            return []
        most, counted = self._settings.max_nodes_total, sum(cluster.group_counts) - len(nodes)
        groups = [
            group
            for group, spec in enumerate(cluster.groups)
            if spec.price_per_hour < cheaper_than and headroom(cluster, group, most, counted=counted)[0] > 0
        ]
        claims = claims_for(cluster, [*pending, *left], groups) if groups else []
        placed = sum(claim.kinds.get(kind.index, 0) for claim in claims for kind, _ in left)
        return claims if placed == sum(count for _, count in left) else None  # AllNonPendingPodsScheduled

    # -- what goes ---------------------------------------------------------------------------------------------------

    def _validate(self, _: object) -> None:
        command, self._pending = self._pending, None
        assert command is not None
        valid = self._valid(command)
        if valid is not None:
            self._start(valid)
            self._disrupt(Method.EMPTY)
        elif command.method is not Method.SINGLE:
            self._disrupt(Method(command.method + 1))

    def _valid(self, command: ConsolidationCommand) -> ConsolidationCommand | None:
        """Return what of a command may still be done."""
        budget = self._budget()
        quiet = {node for node in self._quiet() if not self._nominated(node)}
        nodes = self._spare([node for node in command.nodes if node in quiet])
        loaded = [node for node in nodes if self._cluster.pods_on[node]]
        if command.method is Method.EMPTY:
            empty = [node for node in nodes if node not in loaded][:budget]
            return replace(command, nodes=tuple(empty)) if empty else None
        if len(loaded) < len(command.nodes) or len(loaded) > budget:
            return None
        claims = self._simulated(command.nodes)
        if claims is None or len(claims) != bool(command.groups):
            return None
        return command if all(set(command.groups) <= set(claim.groups) for claim in claims) else None

    def _start(self, command: ConsolidationCommand) -> None:
        self._disrupting.update(command.nodes)

        def go() -> None:
            for node in command.nodes:
                self._remove(node, 0.0)

        if not command.groups:
            go()
            return
        for node in command.nodes:
            self._cluster.make_leaving(node)  # karpenter.sh/disrupted comes before the replacement
        self._launch(cheapest(self._cluster, list(command.groups)), go)
