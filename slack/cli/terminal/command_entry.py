"""A command as the table of commands and a listing have it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of the table of commands."""

    name: str
    module: str
    """Where it is: a function of that name, or `app` with commands of its own."""
    panel: str
    """Under which heading of the help text."""
    summary: str
    """The first sentence of its own help text."""
