"""What a reason of a condition or an Event is: one word, how much it matters, what it means and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a reason matters."""

    GOOD = "good"
    NOTE = "note"
    """Worth knowing; nobody has to get up for it."""
    TROUBLE = "trouble"
    """Slack is missing, or soon will be."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One word and its story."""

    name: str
    on: tuple[str, ...]
    """The conditions that have it, as `Type=Status`; none when only an Event has it."""
    level: Level
    meaning: str
    advice: str = ""
    about: str = "SlackPolicy"
    """Kind of the object that the Event is about."""

    def advice_in(self, namespace: str) -> str:
        """Return what to do, with the namespace of the placeholders in its commands; '' if there is nothing to do."""
        return self.advice.replace("NAMESPACE", namespace)
