"""What the decision of a node is given, and what it answers."""

from dataclasses import dataclass

from slack.throttler.fsm import StartState
from slack.throttler.queue import Key


@dataclass(frozen=True, slots=True)
class GatedContainer:
    """A container that waits to be let in."""

    name: str
    depends_on: tuple[str, ...] = ()
    probed: bool = True
    """Whether it has a startup or readiness probe; without, it holds its slot for noProbeHold."""


@dataclass(frozen=True, slots=True)
class GatedPod:
    """A pod with its gated containers in the order of declaration; its graph is known to be good."""

    uid: str
    namespace: str
    containers: tuple[GatedContainer, ...]
    priority: int = 0
    exempt: bool = False
    """Of the class system-node-critical: never waits for a slot, and holds none."""
    keeps_permits: bool = False
    """Its permits stay once they are given, as those in a ConfigMap do: its restarts are never gated."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A container may start."""

    key: Key
    start: int
    """0 is its first start."""
    at: float
    deadline: float | None
    forced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Late:
    """A container that was starting for too long; its slot is free."""

    key: Key
    start: int
    delete: bool
    """Its pod is to be deleted."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a container stands, and why it waits."""

    state: StartState
    since: float
    position: int
    """1 is next; 0 where it is not pending."""
    reason: str
    until: float | None
    """Pending: by then it is started, if by force; starting: then it is late; None: not known."""
