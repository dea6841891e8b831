"""Two samples of a cgroup make a window: how much its counters rose, or why that cannot be said.

Counters begin anew with a new container and when a cgroup of the same path is made again; a window over such a
beginning says so and has no figures.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from slack.audit.findings.sample import CgroupNodeFacts, CgroupTarget, ReadError, Sample, Sampled

LEAST_PERIODS = 100
"""Fewer enforcement periods mean nothing: an idle sidecar has three in a minute, one of them throttled."""
_STEP_BACK_NS = 100_000_000
"""Sums over CPUs that are read while they rise may step back a little (throttled_time is read without the lock that
guards it); a counter that begins anew loses more."""

_LEAST_SECONDS = 0.001
"""Two readings closer than this are one: rates over less are noise."""


class WindowState(StrEnum):
    """What a window can say."""

    MEASURED = "measured"
    NO_LIMIT = "no limit"
    """There is no quota on this level; not the same as 0 % throttled."""
    TOO_FEW = "too few periods"
    RESET = "counters reset"
    APPEARED = "appeared"
    """Only in the second sample."""
    GONE = "gone"
    """Only in the first."""


@dataclass(frozen=True, slots=True)
class Window:
    """What happened to one cgroup between two samples. All differences are 0 unless the state has figures.

    The states with figures are MEASURED, TOO_FEW (too few for a verdict) and NO_LIMIT (use, and what an ancestor did).
    """

    target: CgroupTarget
    state: WindowState
    seconds: float
    """Wall time between the two samples of this very cgroup, by their own time stamps; 0 when it did not pass."""
    quota_us: int | None
    """As it is at the end."""
    period_us: int
    quota_changed: bool = False
    """The limit was another at the beginning, or there was none: the window mixes two."""
    periods: int = 0
    throttled: int = 0
    throttled_ns: int = 0
    usage_ns: int | None = None
    inherited_ns: int | None = None
    """Stood still for its own quota or an ancestor's."""
    burst_us: int | None = None
    bursts: int | None = None
    waiting_ns: int | None = None
    """A thread of it waited for a CPU, for a quota, for neighbours or for its own other threads."""
    stalled_ns: int | None = None
    """None of its threads ran although one could have: for a quota or for neighbours."""

    @property
    def limited(self) -> bool:
        """Whether this level has a quota of its own at the end."""
        return has_quota(self.quota_us, self.period_us)


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows between two results of one source."""

    windows: tuple[Window, ...]
    nodes: Mapping[str, CgroupNodeFacts]
    troubles: Mapping[ReadError, int]
    """The larger count of the two samples: what cannot be read now could not be read before, mostly."""
    examples: Mapping[ReadError, str]
    seconds: float
    """The longest of the windows."""


def has_quota(quota_us: int | None, period_us: int) -> bool:
    """Whether two numbers make a limit: the kernel writes `max` or -1 for none."""
    return quota_us is not None and quota_us > 0 and period_us > 0


def compare(before: Sampled, after: Sampled, *, least_periods: int = LEAST_PERIODS) -> Windows:
    """Return a window for every cgroup of either sample, in the order of `after`, those that are gone at the end.

    Of several samples of one cgroup in one result (a cache may still serve the one before) the latest counts.
    """
    old, new = _latest(before.samples), _latest(after.samples)
    windows = [
        window_between(old[key], sample, least_periods=least_periods)
        if key in old
        else _alone(sample, WindowState.APPEARED)
        for key, sample in new.items()
    ]
    windows.extend(_alone(sample, WindowState.GONE) for key, sample in old.items() if key not in new)
    troubles = {
        trouble: max(before.troubles.get(trouble, 0), after.troubles.get(trouble, 0))
        for trouble in (*after.troubles, *(trouble for trouble in before.troubles if trouble not in after.troubles))
    }
    return Windows(
        windows=tuple(windows),
        nodes={**before.nodes, **after.nodes},
        troubles=troubles,
        examples={**before.examples, **after.examples},
        seconds=max((window.seconds for window in windows), default=0.0),
    )


def window_between(before: Sample, after: Sample, *, least_periods: int = LEAST_PERIODS) -> Window:
    """Return what happened between two samples of one cgroup.

    A sample that is not later than the one before says nothing new: `TOO_FEW`, with no figures.
    """
    seconds = after.at_seconds - before.at_seconds
    if not math.isfinite(seconds) or seconds < _LEAST_SECONDS:
        return _alone(
            after, WindowState.TOO_FEW if has_quota(after.quota_us, after.period_us) else WindowState.NO_LIMIT
        )
    if _began_anew(before, after):
        return _alone(after, WindowState.RESET, seconds)
    periods = after.periods - before.periods
    if not has_quota(after.quota_us, after.period_us):
        state = WindowState.NO_LIMIT
    else:
        state = WindowState.TOO_FEW if periods < least_periods else WindowState.MEASURED
    return Window(
        target=after.target,
        state=state,
        seconds=seconds,
        quota_us=after.quota_us,
        period_us=after.period_us,
        quota_changed=not _is_same_limit(_limit(before), _limit(after)),
        periods=periods,
        throttled=after.throttled - before.throttled,
        throttled_ns=max(0, after.throttled_ns - before.throttled_ns),
        usage_ns=_rise(before.usage_ns, after.usage_ns),
        inherited_ns=_rise(before.inherited_ns, after.inherited_ns),
        burst_us=after.burst_us,
        bursts=_rise(before.bursts, after.bursts),
        waiting_ns=_risen(before.waiting_ns, after.waiting_ns),
        stalled_ns=_risen(before.stalled_ns, after.stalled_ns),
    )


def _latest(samples: Iterable[Sample]) -> dict[tuple[str, str], Sample]:
    latest: dict[tuple[str, str], Sample] = {}
    for sample in samples:
        known = latest.get(sample.target.key)
        if known is None or not sample.at_seconds < known.at_seconds:
            latest[sample.target.key] = sample
    return latest


def _alone(sample: Sample, state: WindowState, seconds: float = 0.0) -> Window:
    return Window(sample.target, state, seconds, sample.quota_us, sample.period_us, burst_us=sample.burst_us)


def _began_anew(before: Sample, after: Sample) -> bool:
    """Whether it is another cgroup of the same key: another container or pod, or counters that fell."""
    if _differ(before.target.container_id, after.target.container_id):
        return True
    if _differ(before.target.pod_uid, after.target.pod_uid):
        return True
    if after.periods < before.periods or after.throttled < before.throttled:
        return True
    if after.bursts is not None and before.bursts is not None and after.bursts < before.bursts:
        return True
    times = (
        (before.throttled_ns, after.throttled_ns),
        (before.usage_ns, after.usage_ns),
        (before.inherited_ns, after.inherited_ns),
    )
    return any(old is not None and new is not None and new < old - _STEP_BACK_NS for old, new in times)


def _limit(sample: Sample) -> tuple[int | None, int] | None:
    return (sample.quota_us, sample.period_us) if has_quota(sample.quota_us, sample.period_us) else None


def _is_same_limit(before: tuple[int | None, int] | None, after: tuple[int | None, int] | None) -> bool:
    """Say whether the limits are the same, or one is the other as systemd rounds it.

    runc writes the exact quota. At its next reload systemd writes it rounded up to a hundredth of a CPU (runc issue
    4622). A step of more than a twentieth is taken for a change.
    """
    if before == after:
        return True
    if before is None or after is None or before[0] is None or after[0] is None or before[1] != after[1]:
        return False
    low, high = sorted((before[0], after[0]))
    step = max(1, after[1] // 100)
    return high == -(-low // step) * step and (high - low) * 20 <= low


def _differ(before: str, after: str) -> bool:
    return bool(before and after) and before != after


def _risen(before: int | None, after: int | None) -> int | None:
    """Return the rise of a counter that somebody may switch off and on (cgroup.pressure); None where it fell."""
    return None if before is None or after is None or after < before else after - before


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)
