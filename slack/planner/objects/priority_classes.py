"""Which PriorityClasses there are, and whether placeholders may have one: judged here only, for all who plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from slack.cluster.labels import PRIORITY_CLASS
from slack.cluster.wire import Metadata, PriorityClass
from slack.planner.model.shape import HIGHEST_PRIORITY, LOWEST_PRIORITY

_ALLOWED = f"{LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """Those that were seen, by name."""

    by_name: Mapping[str, PriorityClass]
    whole: bool = False
    """What is not among them does not exist; otherwise it is unknown, as for a file, and no complaint is made."""

    @classmethod
    def of_values(cls, values: Mapping[str, int]) -> Self:
        """Return classes of which only the values matter."""
        return cls(
            {
                name: PriorityClass(metadata=Metadata(name=name), value=value, preemption_policy="Never")
                for name, value in values.items()
            }
        )

    @property
    def values(self) -> dict[str, int]:
        """Their values by name."""
        return {name: found.value for name, found in self.by_name.items()}

    def problem(self, name: str) -> str | None:
        """Say why placeholders cannot have this class; None when it will do, is ours to create, or is unknown."""
        found = self.by_name.get(name)
        if found is None:
            if name == PRIORITY_CLASS or not self.whole:
                return None
            wrong = (
                f"there is no PriorityClass {name}; create it with a value from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
            )
        elif found.global_default:
            wrong = f"{name} is the global default, so real pods have it too; use one that is not"
        elif found.preemption_policy != "Never":
            wrong = f"{name} lets its pods preempt others; placeholders need one with preemptionPolicy: Never"
        elif not LOWEST_PRIORITY <= found.value <= HIGHEST_PRIORITY:
            wrong = (
                f"{name} has the value {found.value}; placeholders need one from {_ALLOWED}: "
                "the autoscaler ignores pods below, real pods stand above"
            )
        else:
            return None
        return f"spec.priorityClassName: {wrong}"
