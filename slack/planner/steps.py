"""What the six steps of a policy's plan hand on: what is wanted, rolled out, and summed up. Values only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray, Workload
from slack.planner.domain.capacity import Size
from slack.planner.domain.ladder import Held
from slack.planner.model.cost import PlanCost
from slack.planner.model.result import Binding, ShapePlan, UncoveredPods
from slack.planner.model.shape import WantedShape
from slack.planner.model.surplus import Surplus, amount_text
from slack.planner.model.wanted_by import WantedByField
from slack.planner.rollout.backoff import HeldBack, ShapePods
from slack.planner.rollout.rollout import Counts
from slack.planner.wanted.cover_choice import Limit
from slack.planner.wanted.part import PartPlan, PolicyInputs


@dataclass(frozen=True, slots=True, eq=False)
class PolicyWants:
    """Steps 1 and 2: how much extra capacity a policy wants, and which placeholders hold it."""

    width: int
    """How many resources there are: R."""
    blocked: tuple[str, str] | None
    """Why the policy may not plan, as `why_blocked` gives it: then nothing is wanted, and what is there stays."""
    cheaper_since: Mapping[str, float]
    """By zone, since when a change of its cover has been due."""
    ladder: Held | None
    """The steps of the ladder that hold."""
    parts: Sequence[PartPlan] = ()
    """The domain, or each of its zones."""
    wanted: tuple[WantedShape, ...] = ()
    hosted: frozenset[str] = frozenset()
    """Names of other policies' placeholders that are counted on."""
    wanted_by: tuple[WantedByField, ...] = ()
    """What sets the amounts that are asked."""

    @property
    def size(self) -> Size | None:
        """Return the size of the first part, which names what all parts follow from; None if nothing is planned."""
        return self.parts[0].size if self.parts else None

    @property
    def base_amount(self) -> IntArray:
        """[R] what the extra capacity is a share of."""
        return self._sum(part.size.base for part in self.parts)

    @property
    def desired_amount(self) -> IntArray:
        """[R] the extra capacity that is wanted, between floor and ceiling."""
        return self._sum(part.size.desired for part in self.parts)

    @property
    def asked_amount(self) -> IntArray:
        """[R] the same without the ceiling."""
        return self._sum(part.size.asked for part in self.parts)

    @property
    def buffer_amount(self) -> IntArray:
        """[R] what CapacityBuffers keep that counts."""
        return self._sum(part.buffered for part in self.parts if part.buffered is not None)

    @property
    def above_ceiling(self) -> BoolArray:
        """[R] whether more is asked than a ceiling allows, in some part."""
        above = [part.size.asked > part.size.ceiling for part in self.parts]
        found: BoolArray = np.any(above or [np.zeros(self.width, dtype=bool)], axis=0)
        return found

    @property
    def is_capped(self) -> bool:
        """Whether a ceiling cut placeholders off."""
        return any(part.capped or part.limit == "ceiling" for part in self.parts)

    @property
    def limit(self) -> Limit | None:
        """Return what stopped the cover of the first part that was stopped."""
        return next((part.limit for part in self.parts if part.limit is not None), None)

    @property
    def covered_share(self) -> float:
        """Return the least share of arrivals that is covered in a part."""
        return 0.0 if self.blocked is not None else min((part.covered_share for part in self.parts), default=1.0)

    def _sum(self, amounts: Iterable[IntArray]) -> IntArray:
        return sum(amounts, np.zeros(self.width, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRollout:
    """Step 4: what is to be there now, and which placeholders leave."""

    shapes: tuple[ShapePlan, ...]
    counts: Mapping[str, Counts]
    """By shape: wanted counts to remember."""
    vectors: Mapping[str, IntArray]
    """[R] by shape: what one placeholder requests."""
    pods: Mapping[str, ShapePods]
    """By shape: the placeholders that are there."""
    reserved: IntArray
    """[R] what placeholders request whose capacity is held."""
    anywhere: IntArray
    """[R] what all placeholders request."""

    @property
    def heading(self) -> list[ShapePlan]:
        """Return the shapes that the plan heads for, without those that are given up."""
        return [shape for shape in self.shapes if not shape.retiring]

    @property
    def wanted_count(self) -> int:
        """Return how many placeholders the plan heads for."""
        return sum(shape.count for shape in self.heading)

    @property
    def bound_count(self) -> int:
        """Return how many of these are bound, or fit unbound and autoscalers were told of them."""
        return sum(min(shape.bound, shape.count) for shape in self.heading)

    @property
    def untold_count(self) -> int:
        """Return how many unbound placeholders fit, and no autoscaler was told of them yet."""
        return sum(counted.untold for counted in self.pods.values())

    @property
    def oldest_pending_seconds(self) -> float:
        """Return the age of the oldest placeholder that the scheduler has refused; 0 if there is none."""
        return max((counted.oldest_pending_seconds for counted in self.pods.values()), default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PolicyAmounts:
    """What the steps come to, in amounts, nodes and money."""

    planned: IntArray
    """[R] what all placeholders request that the plan heads for, those of others on own nodes included; and what
    CapacityBuffers keep that counts."""
    reserved: IntArray
    """[R] the same of those whose capacity is held now."""
    buffered: IntArray
    """[R] the part of `planned` that CapacityBuffers keep."""
    buffered_now: IntArray
    """[R] the part of it that fits now."""
    new_nodes: int
    """At least so many nodes must come."""
    cost: PlanCost | None = None
    reserved_cost: PlanCost | None = None
    surplus: Surplus | None = None
    binding: tuple[Binding, ...] = ()
    """Ceilings that keep the plan below what is asked."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSteps:
    """All that the steps of a policy's plan have come to: the conditions and the summary are made of it."""

    inputs: PolicyInputs
    wants: PolicyWants
    """Of steps 1 and 2."""
    held_back: HeldBack
    """Of step 3."""
    rollout: PolicyRollout
    """Of step 4."""
    amounts: PolicyAmounts
    """What these come to."""
    uncovered: tuple[UncoveredPods, ...]
    """Workloads that are not covered."""
    unsure: Collection[Workload]
    """Workloads that are covered and about whose nodes more decides than is checked."""

    @property
    def buffered_text(self) -> str:
        """Return in words what CapacityBuffers keep that counts, '' if that is nothing."""
        amounts = zip(self.inputs.snapshot.resources, self.amounts.buffered, strict=True)
        return " and ".join(amount_text(name, int(amount)) for name, amount in amounts if amount)

    @property
    def zones_without_nodes(self) -> tuple[str, ...]:
        """Return the zones without an eligible node, in words: they count, and nothing can be planned for them now."""
        return tuple(part.note for part in self.wants.parts if part.without_nodes and part.note)

    @property
    def unusable_nodes(self) -> int:
        """Return how many nodes the policy has of which none can take a placeholder now."""
        domain = self.inputs.domain
        return int(domain.members.sum()) if self.wants.blocked is None and not domain.usable else 0
