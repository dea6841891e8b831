"""A finding: one window with the two numbers, how bad they are and what kind of throttling it is; and their thresholds.

Figures are None where a window has none, which is never the same as 0. `throttling` and `inherited` make findings.
"""

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from slack.audit.findings.sample import CgroupTarget
from slack.audit.findings.window import Window


class Severity(IntEnum):
    """In order of harm."""

    NONE = 0
    INFO = 1
    WARN = 2
    HIGH = 3


class Mark(StrEnum):
    """What kind of throttling it is; a finding may have several."""

    BOUNDARY = "boundary"
    """Many periods, hardly any time: use sits at the limit, nobody waits long. Harmless."""
    STOPS = "stops the world"
    """The mean stop of a throttled period is longer than 50 ms: health checks and connections feel it."""
    AT_LIMIT = "at its limit"
    """Uses nine tenths of the limit or more, and loses time: it needs more."""
    BURSTY = "bursty"
    """Throttled although the use is well below the limit on average."""
    BELOW_LIMIT = "throttled below its limit"
    """Throttled in more periods than its CPU time would fill, so with quota left: what the kernel's bug looks like."""
    INHERITED = "an ancestor's quota"
    """It stood still for the quota of a level above, more than for its own."""
    MANY_THREADS = "more busy threads than CPUs of the limit"
    """At least one whole busy CPU more than the limit, rounded up, has."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a window is worth a word."""

    warn_ratio: float = 0.05
    warn_lost: float = 0.02
    high_ratio: float = 0.25
    high_lost: float = 0.05
    stop_seconds: float = 0.05
    at_limit: float = 0.9
    bursty_below: float = 0.7
    below_limit: float = 0.6
    """Use of the limit under which periods that are throttled with quota left are the kernel's doing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One window, judged. Figures are None where the window has none."""

    window: Window
    severity: Severity
    marks: frozenset[Mark]
    throttled_ratio: float | None
    """Throttled periods / periods."""
    lost_ratio: float | None
    """(Time that its own quota and those above it took) / (wall time x busy CPUs): the share of its time in which it
    stood still."""
    stop_seconds: float | None
    """Mean stop of a throttled period, on each CPU that was busy."""
    busy_cpus: float | None
    """CPUs busy at once when the quota ran out: (throttled time a throttled period + quota) / period.
    Below another level's quota: see `inherited`."""
    use_cores: float | None
    limit_cores: float | None
    lost_cores: float | None
    """CPU time that it wanted and did not get, a second."""
    blamed: CgroupTarget | None
    """Whose quota it is; None when nothing was throttled, or when the level above that did it was not seen."""
    counted_cores: float = 0.0
    """The part of `lost_cores` that its own quota took, and no quota below it at the same moment: what findings are
    sorted by and sums are made of."""
    blamed_ratio: float | None = None
    """Throttled periods / periods of the blamed one: the period number of a container that has no periods itself."""
    blamed_cores: float | None = None
    """The quota of the blamed one in force, as it was measured."""
    pressure_ratio: float | None = None
    """The share of the time in which a thread of it waited for a CPU, for whatever reason (cpu.pressure, some)."""
    neighbours_ratio: float | None = None
    """The share of the time in which it stood still for want of a CPU that others had: the second axis (`pressure`)."""

    @property
    def use_of_limit(self) -> float | None:
        """Effective CPU against quota."""
        if self.use_cores is None or not self.limit_cores:
            return None
        return self.use_cores / self.limit_cores

    @property
    def use_of_limit_when_active(self) -> float | None:
        """The same in periods in which something wanted to run; near 1 where it rests and then works for long."""
        window = self.window
        if window.usage_ns is None or not window.limited or not window.quota_us or window.periods <= 0:
            return None
        return window.usage_ns / (window.quota_us * 1000 * window.periods)


def severity_of(ratio: float, lost: float, limits: Thresholds) -> Severity:
    """Return how bad it is: both numbers must be bad; one of them alone is worth a line."""
    if ratio >= limits.high_ratio and lost >= limits.high_lost:
        return Severity.HIGH
    if ratio >= limits.warn_ratio and lost >= limits.warn_lost:
        return Severity.WARN
    if ratio > limits.high_ratio or lost >= limits.warn_lost:
        return Severity.INFO
    return Severity.NONE


def many_threads(busy_cpus: float | None, limit_cores: float | None) -> bool:
    """Whether a whole busy CPU more than the limit, rounded up, has was there."""
    if not busy_cpus or not limit_cores:
        return False
    return math.floor(busy_cpus + 0.5) > max(1, math.ceil(limit_cores))


def share(value: float) -> float:
    """Keep a share between 0 and 1."""
    return between(0.0, value, 1.0)


def between(least: float, value: float, most: float) -> float:
    """Keep a value between two."""
    return max(least, min(value, most))
