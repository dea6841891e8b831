"""What the placeholders of one domain, or one zone of it, follow from."""

from dataclasses import dataclass

from slack.cluster.snapshot import Amounts, IntArray, Workload
from slack.planner.domain.capacity import Size
from slack.planner.domain.empty_nodes import EmptyNodes
from slack.planner.domain.membership import Domain
from slack.planner.model.added import Additions
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import WantedShape
from slack.planner.wanted.chances import Chances
from slack.planner.wanted.cover_choice import Items
from slack.planner.wanted.demand import Demand


@dataclass(frozen=True, slots=True, eq=False)
class PartInputs:
    """All of it, and nothing else: while these are the same, so is the plan."""

    resources: tuple[str, ...]
    workloads: tuple[Workload, ...]
    """[K] of `Snapshot.kinds`."""
    unoffered: tuple[Amounts, ...]
    """[K] of the same."""
    domain: Domain
    size: Size
    demand: Demand
    items: Items
    """Of the demand."""
    chances: Chances
    """Of the items."""
    empty: EmptyNodes
    mirrors: tuple[WantedShape, ...]
    existing: tuple[ExistingShape, ...]
    """Of this policy, with the replicas that count here."""
    guests: IntArray
    """[R] what other policies' placeholders request that stand here and are counted on."""
    buffered: IntArray
    """[R] what CapacityBuffers keep here that counts."""
    elapsed: bool
    """A change of the cover has been due for the whole stabilisation window."""
    added: Additions
    """What admission adds to this policy's placeholders."""

    @property
    def beside(self) -> IntArray:
        """[R] what others make up of the extra capacity."""
        return self.guests + self.buffered

    @property
    def mirrored(self) -> IntArray:
        """[R] what the mirrors take."""
        return self.added.room_in(self.mirrors, len(self.resources))
