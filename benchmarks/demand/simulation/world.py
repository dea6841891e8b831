"""Where a simulation takes place: nodes with slots, and what it takes to create and to remove a container there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Equal nodes. The times are those that the proposal's author measured on Docker (apache/openwhisk issue 3621)."""

    nodes: int
    slots: int
    """Containers a node."""
    creation_seconds: tuple[float, float] = (0.7, 1.3)
    removal_seconds: tuple[float, float] = (0.1, 0.2)
    """On top, for pools only: in the old scheduler's figure a removal is within the creation."""
    operations: int = 10
    """Containers that a node creates at once."""

    @property
    def all_slots(self) -> int:
        """Containers that fit."""
        return self.nodes * self.slots
