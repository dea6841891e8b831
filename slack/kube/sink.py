"""What a reflector asks of the one who keeps its objects, and what it tells about itself.

A sink is called from one thread only, the reflector's; if others read what it keeps, the sink locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType

T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Where objects go. Called from the reflector's thread only.

    A sync that breaks off is followed by another `begin` without an `end`.
    """

    def begin(self) -> None:
        """A new generation starts: every object will be applied again."""

    def apply(self, events: Sequence[tuple[EventType, T_contra]]) -> None:
        """Some events, in order."""

    def end(self) -> None:
        """The generation is complete: drop what was not applied since `begin`."""


@runtime_checkable
class KeepingSink(Protocol):
    """A sink to which it matters that an object that cannot be read is still there."""

    def keep(self, who: ObjectName) -> None:
        """The list has this object, and it cannot be read: what is known of it stays as it is."""


@dataclass
class ReflectorCounters:
    """What happened so far; written by the reflector's thread, read by anybody."""

    lists: int = 0
    watchlists: int = 0
    watches: int = 0
    expired: int = 0
    errors: int = 0
    idle_timeouts: int = 0
    events: int = 0
