"""Karpenter, disruption: emptiness, then consolidation of several nodes, then of one; one decision at a time.

As pkg/controllers/disruption: a node is a candidate when no pod has come or gone for consolidateAfter; empty ones go
together; otherwise the longest row of nodes, those with the fewest pods first, whose pods all fit elsewhere or on one
new node that is cheaper than they are together (found by halving, as firstNConsolidationOption does); then single
nodes. A decision is looked at again after consolidationTTL. A replacement is ready before the pods move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slack.simulator.autoscalers import Karpenter as Settings
from slack.simulator.clock import Clock
from slack.simulator.karpenter import NodeClaim, cheapest, claims_for
from slack.simulator.kinds import Kind
from slack.simulator.packing import Space, headroom, kinds_on
from slack.simulator.scheduler import Scheduler
from slack.simulator.state import READY, Cluster

_MOST = 100
"""MaxParallel of multinodeconsolidation.go."""
_SINGLES = 15
"""Single nodes looked at in one poll: upstream has three minutes for it."""


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that go, and the group of the node that replaces them; -1 for none."""

    nodes: tuple[int, ...]
    replacement: int = -1


class Disruption:
    """The disruption controller. `launch` returns a node row; `remove` evicts and deletes after a delay."""

    def __init__(
        self,
        cluster: Cluster,
        scheduler: Scheduler,
        clock: Clock,
        settings: Settings,
        launch: Callable[[int, Callable[[], None]], None],
        remove: Callable[[int, float], None],
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._launch = launch
        self._remove = remove
        self._pending: Command | None = None
        self._disrupting: set[int] = set()
        self._looked: tuple[object, ...] = ()
        self._next_single = 0

    def gone(self, node: int, now: float) -> None:
        """A node that was being removed is gone."""
        self._disrupting.discard(node)

    def poll(self, now: float) -> None:
        """Look for something to do, unless a decision waits for its validation."""
        if self._pending is not None:
            return
        candidates = self._candidates(now)
        command = self._emptiness(candidates)
        if command is None and self._settings.consolidation_policy == "WhenEmptyOrUnderutilized":
            looked = (self._cluster.room_version, self._cluster.created_total, candidates)
            if looked == self._looked:
                return  # IsConsolidated: nothing has changed since
            command = self._several(candidates) or self._single(candidates)
            if command is None:
                self._looked = looked
        if command is not None:
            self._pending = command
            self._clock.after(self._settings.consolidation_ttl_seconds, self._validate)

    def _candidates(self, now: float) -> list[int]:
        cluster = self._cluster
        after = self._settings.consolidate_after_seconds
        rows = [n for n in cluster.rows(READY).tolist() if now - cluster.last_change[n] >= after]
        counts = list(cluster.group_counts)
        kept = []
        # fewest pods first: the disruption cost of pods without annotations is 1 each
        for node in sorted(rows, key=lambda n: (len(cluster.pods_on[n]), n)):
            group = int(cluster.group_of[node])
            if counts[group] > cluster.groups[group].min:
                counts[group] -= 1
                kept.append(node)
        return kept

    def _budget(self) -> int:
        """Nodes that may be disrupted now; 10 % are rounded up (nodepool.go, GetAllowedDisruptions)."""
        total = sum(self._cluster.group_counts) + len(self._disrupting)
        return max(-int(-total * self._settings.budget_share // 1) - len(self._disrupting), 0)

    def _emptiness(self, candidates: Sequence[int]) -> Command | None:
        empty = [node for node in candidates if not self._cluster.pods_on[node]][: self._budget()]
        return Command(tuple(empty)) if empty else None

    def _several(self, candidates: Sequence[int]) -> Command | None:
        low, high = 2, min(len(candidates), self._budget(), _MOST)
        best: Command | None = None
        while low <= high:
            middle = (low + high) // 2
            found = self.consolidated(tuple(candidates[:middle]))
            if found is None:
                high = middle - 1
            else:
                best, low = found, middle + 1
        return best

    def _single(self, candidates: Sequence[int]) -> Command | None:
        if not candidates or not self._budget():
            return None
        for step in range(min(len(candidates), _SINGLES)):
            found = self.consolidated((candidates[(self._next_single + step) % len(candidates)],))
            if found is not None:
                return found
        self._next_single = (self._next_single + _SINGLES) % len(candidates)
        return None

    def consolidated(self, nodes: tuple[int, ...]) -> Command | None:
        """Return how these nodes could go: without a replacement, or with one that costs less."""
        cluster = self._cluster
        space = Space(cluster, upcoming=False)  # pods never move onto a node that is not initialized
        space.usable[list(nodes)] = False
        for kind, count in self._waiting():
            space.fill(kind, count)
        counts: dict[int, tuple[Kind, int]] = {}
        for node in nodes:
            for kind, count in kinds_on(cluster, node):
                counts[kind.index] = (kind, counts.get(kind.index, (kind, 0))[1] + count)
        left: list[tuple[Kind, int]] = []
        for kind, count in sorted(counts.values(), key=lambda pair: (*(-pair[0].requests).tolist(), pair[0].index)):
            missing = space.fill(kind, count)
            if missing:
                left.append((kind, missing))
        if not left:
            return Command(nodes)
        price = sum(cluster.groups[cluster.group_of[node]].price_per_hour for node in nodes)
        groups = [
            g
            for g, spec in enumerate(cluster.groups)
            if spec.price_per_hour < price and headroom(cluster, g, self._settings.max_nodes_total)[0] > 0
        ]
        claims: list[NodeClaim] = claims_for(cluster, left, groups) if groups else []
        if len(claims) != 1 or claims[0].pods < sum(count for _, count in left):
            return None
        return Command(nodes, cheapest(cluster, claims[0].groups))

    def _waiting(self) -> list[tuple[Kind, int]]:
        """Pending pods come first: the room that they will take is nobody else's."""
        refused = self._scheduler.refused
        return [(self._cluster.kinds[index], len(refused[index])) for index in sorted(refused) if refused[index]]

    def _validate(self, _: object) -> None:
        command, self._pending = self._pending, None
        assert command is not None
        cluster = self._cluster
        if any(cluster.state[node] != READY for node in command.nodes):
            return
        if self._emptied(command.nodes):
            command = Command(command.nodes)
        else:
            again = self.consolidated(command.nodes)
            if self._settings.consolidation_policy == "WhenEmpty" or again is None:
                return
            if again.replacement >= 0 and command.replacement < 0:
                return
            command = again
        self._disrupting.update(command.nodes)
        if command.replacement < 0:
            for node in command.nodes:
                self._remove(node, 0.0)
            return

        for node in command.nodes:
            cluster.make_leaving(node)  # karpenter.sh/disrupted comes before the replacement

        def replace() -> None:
            for node in command.nodes:
                self._remove(node, 0.0)

        self._launch(command.replacement, replace)

    def _emptied(self, nodes: Sequence[int]) -> bool:
        return not any(self._cluster.pods_on[node] for node in nodes)
