"""The standard placeholders of one domain: what cover and mirrors leave of the extra capacity, in chunks.

The chunk that is there already is kept as long as it costs little more than a fresh one, for sizes follow every pod and
shapes must not (R1-2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.capacity import RATED, Size
from slack.planner.covering import shape_of
from slack.planner.domain import Domain
from slack.planner.feasible import why_not
from slack.planner.fill import Bounds, Fill, cost_of, count_for, fill, fill_further, standard_chunk, version_1
from slack.planner.fill import useful as chunk_is_useful
from slack.planner.ground import Ground
from slack.planner.outcome import ExistingShape
from slack.planner.policy import CoverMode
from slack.planner.shape import Role
from slack.planner.wanted import Wanted, room_in

MOST_PLACEHOLDERS = 5000
"""Of one shape. More than a pod a node of the largest cluster is a mistake of units, and would flood the API server."""
_MANY = 5
"""Twice as many placeholders as needed are too many, but not while they are this few."""


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """The standard placeholders of one domain."""

    wanted: tuple[Wanted, ...]
    desired: IntArray
    """[R] extra capacity wanted; a fixed number of placeholders is the room of so many chunks."""
    due: bool
    """A change of the chunk waits for the stabilisation window."""
    capped: bool
    """The ceiling cut placeholders off."""
    infeasible: tuple[str, ...]


def fill_domain(
    domain: Domain,
    size: Size,
    taken: IntArray,
    bounds: Bounds,
    ground: Ground,
    existing: Sequence[ExistingShape],
    resources: tuple[str, ...],
    *,
    elapsed: bool,
) -> Filling:
    """Fill what is left of a domain's extra capacity.

    Args:
        domain: the policy's part of the cluster.
        size: its extra capacity.
        taken: [R] what cover and mirrors make up of it.
        bounds: of its chunks.
        ground: its empty nodes.
        existing: the policy's ReplicaSets that are not being retired.
        resources: names of the R resources.
        elapsed: a change of the chunk has been due for the whole stabilisation window.
    """
    spec, constraints = domain.policy.spec, domain.constraints
    desired, chunk = size.desired, None
    if size.replicas is not None:
        chunk = standard_chunk(size.base, bounds)
        if chunk is not None:
            desired = np.minimum(np.maximum(desired, chunk * size.replicas), size.ceiling)
    filled: list[Wanted] = []
    infeasible: list[str] = []
    capped = due = False

    def add(choice: Fill) -> None:
        nonlocal capped
        takes = choice.chunk > 0
        left = size.ceiling - taken - room_in(filled, len(taken))
        within_ceiling = max(min(choice.count, int(np.min(left[takes] // choice.chunk[takes]))), 0)
        capped = capped or within_ceiling < choice.count
        count = min(within_ceiling, MOST_PLACEHOLDERS)
        if count < within_ceiling:
            infeasible.append(
                f"standard placeholder: {within_ceiling} would be needed, {count} is the most; check the size"
            )
        if not ground.holds(choice.chunk, constraints):
            infeasible.append(f"standard placeholder: {why_not(ground.room, choice.chunk, constraints, resources)}")
        elif count:
            shape = shape_of(domain.policy, choice.chunk, constraints, resources)
            filled.append(Wanted(shape, Role.FILL, count, choice.chunk))

    for r in range(RATED, len(taken)):
        remaining = desired - taken - room_in(filled, len(taken))
        if remaining[r] > 0:
            add(fill_further(remaining, bounds, r))
    remaining = np.maximum(desired - taken - room_in(filled, len(taken)), 0)
    remaining[RATED:] = 0
    left = size.ceiling - taken - room_in(filled, len(taken))
    if chunk is not None:
        best = Fill(chunk, count_for(np.where(chunk > 0, remaining, 0), chunk))
    elif spec.cover.mode is CoverMode.NONE:
        best = version_1(remaining, bounds.average, spec.granularity) or Fill(remaining, 0)
    else:
        best = fill(remaining, bounds, left) or Fill(remaining, 0)
    if best.count:
        chooser = _Chooser(domain, bounds, ground, resources, remaining, left)
        best, due = chooser.choose(best, existing, elapsed=elapsed)
        add(best)
        # A ceiling in equal parts may be a few millicores or bytes less than the ceiling; nobody misses them.
        crumbs = remaining - best.count * best.chunk
        desired = desired - np.where((crumbs > 0) & (crumbs < best.count), crumbs, 0)
    else:
        # No pod requests all that is wanted: each resource is filled like the pods that bring it.
        for r in range(RATED):
            remaining = np.maximum(desired - taken - room_in(filled, len(taken)), 0)
            if remaining[r] > 0:
                add(fill_further(remaining, bounds, r))
    return Filling(tuple(filled), desired, due, capped, tuple(infeasible))


@dataclass(frozen=True, slots=True, eq=False)
class _Chooser:
    """Chooses between the chunk that is there and a fresh one."""

    domain: Domain
    bounds: Bounds
    ground: Ground
    resources: tuple[str, ...]
    remaining: IntArray
    left: IntArray

    def choose(self, best: Fill, existing: Sequence[ExistingShape], *, elapsed: bool) -> tuple[Fill, bool]:
        """Return the chunk to use, and whether a change of it waits."""
        spec = self.domain.policy.spec
        usable = [kept for there in existing if (kept := self._usable(there, best)) is not None]
        for kept in usable:
            dear = cost_of(kept, self.bounds) > cost_of(best, self.bounds) * (1 + spec.stabilization.shape_tolerance)
            if not dear and (kept.count <= 2 * best.count or kept.count <= _MANY):
                return kept, False
        return (usable[0], True) if usable and not elapsed else (best, False)

    def _usable(self, there: ExistingShape, best: Fill) -> Fill | None:
        """Return the fill with a chunk that is there, None where it does not serve."""
        vector = there.shape.vector(self.resources)
        # A covering placeholder of the same size may have taken the chunk's role for a while; it counts as a chunk when
        # there are several of it.
        chunk = there.role is Role.FILL or (there.role is Role.COVER and there.replicas > 1)
        constraints = self.domain.constraints
        if not chunk or there.shape != shape_of(self.domain.policy, vector, constraints, self.resources):
            return None
        if not (vector[self.remaining > 0] > 0).all() or not self.ground.holds(vector, constraints):
            return None
        if there.role is Role.COVER and (vector > self.bounds.chunk).any():
            return None
        if self.domain.policy.spec.cover.mode is not CoverMode.NONE and not chunk_is_useful(vector, self.bounds):
            return None
        kept = Fill(vector, count_for(self.remaining, vector))
        over = (kept.count * vector > self.left).any() and not (best.count * best.chunk > self.left).any()
        return None if over else kept
