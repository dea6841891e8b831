"""What a policy comes to on a node of so many cores: plain numbers. Light: agents and the simulator decide by them.

None turns a limit off. `floor(perCore x cores)` is at least one slot: a node on which nothing may start is a mistake.
"""

from dataclasses import dataclass
from typing import Final

SHORTEST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 5.0
"""While nothing is due, the node's load is read this often, the more so the shorter its average is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one node decides by; without arguments nothing is limited, as on a node that no policy selects."""

    slots: int | None = None
    """At most so many containers in `starting`, whatever their pods."""
    namespace_slots: int | None = None
    """Of these, at most so many of one namespace."""
    max_load1: float | None = None
    """Normal starts need a load average of one minute below this."""
    max_cpu: float | None = None
    """Normal starts need a share of busy CPU time below this; 0.8 is 80 %."""
    max_cpu_pressure: float | None = None
    """Normal starts need less of PSI's cpu `some avg10`, as a share."""
    max_io_pressure: float | None = None
    """Normal starts need less of PSI's io `some avg10`, as a share."""
    force_after_seconds: float | None = None
    """1 / minRate: when something has been pending so long and nothing has started, one start is forced."""
    gap_seconds: float = 0.0
    """1 / maxRate: from one start to the next, forced or not, it takes at least this."""
    start_timeout_seconds: float | None = None
    """From grant to ready; who takes longer is `failed`, and its slot is free."""
    delete_late: bool = False
    """A pod whose container is late is deleted; else it runs on without a slot."""
    no_probe_hold_seconds: float = 0.0
    """A container without a probe holds its slot so long from its start."""
    fail_open_after_seconds: float = 60.0
    """A gate without an answer of an agent that sees its pods for so long lets its containers start."""
    average_over_seconds: float = 10.0
    """Over which the share of busy CPU time is taken."""
    gate_restarts: bool = True
    """A container that was restarted waits anew."""
    by_priority: bool = False
    """Containers of pods with a higher priority are first in the queue."""

    @property
    def longest_pause_seconds(self) -> float:
        """Return how long it takes at most from one decision to the next: figures of the node change by themselves."""
        return min(max(self.average_over_seconds / 4, SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a node reads of itself; None is what it could not read, and that holds nobody back."""

    load1: float | None = None
    """The first figure of /proc/loadavg; it counts tasks in uninterruptible sleep too."""
    cpu: float | None = None
    """Share of busy CPU time over `average_over_seconds`, by /proc/stat."""
    cpu_pressure: float | None = None
    """`some avg10` of /proc/pressure/cpu, as a share."""
    io_pressure: float | None = None
    """`some avg10` of /proc/pressure/io, as a share."""


UNKNOWN_USAGE = Usage()
