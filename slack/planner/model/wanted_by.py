"""What sets the amount that a policy wants: its rate, a step of its ladder, its floor, a fixed number, its objective;
or what pools announce.

Each resource has one: the largest of them wins. The same words in `plan` and in its document.
"""

from dataclasses import dataclass
from enum import StrEnum

from slack.planner.model.amount_text import resources_text, written_text


class Source(StrEnum):
    """Which field of a policy."""

    RATE = "rate"
    LADDER = "ladder"
    FLOOR = "floor"
    REPLICAS = "replicas"
    NODES = "nodes"
    OBJECTIVE = "objective"
    DEMAND = "demand"
    """No field: ActivationPools announce more than any asks for."""


@dataclass(frozen=True, slots=True)
class WantedByField:
    """One field of a policy, and the resources of which it sets how much is wanted."""

    source: Source
    resources: tuple[str, ...]
    """Whose amount it sets, in the order of the snapshot."""
    window: str | None = None
    """The window of the schedule that it stands in: its name, or when it opens."""
    rate: float | None = None
    """Of a rate, and of a ladder's step."""
    base: tuple[tuple[str, int], ...] = ()
    """What the rate is taken of, of these resources."""
    floor: tuple[tuple[str, int], ...] = ()
    """The floor of these resources, whole, however many zones it is divided among."""
    replicas: int | None = None
    """The fixed number, whole; of nodes, for each zone where slack is kept per zone."""
    instant_start: float | None = None
    """The objective."""

    def __str__(self) -> str:
        """Return it in words: `10 % of 41 cpu`, `floor 500 cpu, window night`."""
        match self.source:
            case Source.FLOOR:
                text = f"floor {written_text(self.floor)}"
            case Source.REPLICAS:
                text = _counted(self.replicas, "replica")
            case Source.NODES:
                text = _counted(self.replicas, "whole node")
            case Source.DEMAND:
                text = "what pools announce"
            case Source.OBJECTIVE:
                text = f"what {(self.instant_start or 0) * 100:g} % at once takes, as learnt"
            case _:
                text = f"{(self.rate or 0) * 100:g} % of {resources_text(self.base)}"
                text += ", by the ladder" if self.source is Source.LADDER else ""
        return text if self.window is None else f"{text}, window {self.window}"


def _counted(number: int | None, what: str) -> str:
    """Return a fixed number in words; with none at all, only what is covered is kept."""
    if number == 0:
        return f"no {what} beside the cover"
    return f"1 {what}" if number == 1 else f"{number} {what}s"
