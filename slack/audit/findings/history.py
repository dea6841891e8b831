"""What the counters of every cgroup were up to an hour ago, in a bounded number of bytes each.

Each window keeps marks a twentieth of its length apart, so that an hour costs no more than five minutes: a cgroup has
at most 49 marks of 96 bytes at the usual windows. A window begins at the oldest mark that is not older than it, so it
is up to a twentieth shorter than its name; shorter still while the history, or the cgroup, is younger.
Times are those of the samples, by the source's clock; the wall clock is never asked.
"""

from array import array
from collections.abc import Mapping
from types import MappingProxyType

from slack.audit.findings.sample import CgroupTarget, Sample, Sampled
from slack.audit.findings.window import Windows, WindowState, compare, window_between

WINDOWS: Mapping[str, float] = MappingProxyType({"1m": 60.0, "5m": 300.0, "1h": 3600.0})
"""Seconds of each window, by the name that metrics, reports and policies use."""
MARKS = 20
"""That a window is cut into."""
FORGET_SECONDS = 60.0
"""How long a cgroup that is missing is remembered: a file may be unreadable once, and `gone` is told for so long."""

_INTEGERS = 11
_NONE = (1 << 64) - 1
_EARLY_SECONDS = 0.5


class _Marks:
    """Sample values of one cgroup, oldest first, for one window: times, and `_INTEGERS` numbers each."""

    __slots__ = ("_values", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self._values = array("Q")

    def __len__(self) -> int:
        return len(self.times)

    def size_bytes(self) -> int:
        return len(self.times) * self.times.itemsize + len(self._values) * self._values.itemsize

    def add_sample(self, sample: Sample) -> None:
        self.times.append(sample.at_seconds)
        numbers = _numbers(sample)
        try:
            self._values.extend(numbers)
        except OverflowError:  # v2's microseconds in nanoseconds may be more than 64 bits: such a file is damaged
            del self._values[(len(self.times) - 1) * _INTEGERS :]
            self._values.extend(min(number, _NONE - 1) for number in numbers)

    def drop_before(self, since: float) -> None:
        keep = 0
        while keep < len(self.times) - 1 and self.times[keep] < since:
            keep += 1
        if keep:
            del self.times[:keep]
            del self._values[: keep * _INTEGERS]

    def oldest(self, target: CgroupTarget) -> Sample:
        return _sample(target, self.times[0], self._values[:_INTEGERS])


class _Ring:
    """One cgroup: its newest sample, the one before a reset, and the marks of each window."""

    __slots__ = ("before_reset", "marks", "newest", "round")

    def __init__(self, sample: Sample, windows: int) -> None:
        self.newest = sample
        self.round = 0
        """Number of the result that it was last in."""
        self.before_reset: Sample | None = None
        """The last one with the old counters, until the next sample: so that the reset is told once."""
        self.marks = tuple(_Marks() for _ in range(windows))


class History:
    """The newest result of a source and what came before. Owned by one thread; `compare` results are values."""

    def __init__(self, windows: Mapping[str, float] = WINDOWS) -> None:
        self._names = tuple(windows)
        # A little longer, and due a little earlier: samples come late by milliseconds, and marks shall not skip one.
        self._lengths = tuple(
            (length + _EARLY_SECONDS, max(length / MARKS - _EARLY_SECONDS, _EARLY_SECONDS))
            for length in windows.values()
        )
        self._round = 0
        self._rings: dict[tuple[str, str], _Ring] = {}
        self._newest: Sampled | None = None

    @property
    def newest(self) -> Sampled | None:
        """The last result that was added."""
        return self._newest

    def size_bytes(self) -> int:
        """How much the marks of all cgroups hold."""
        return sum(marks.size_bytes() for ring in self._rings.values() for marks in ring.marks)

    def __len__(self) -> int:
        """Cgroups that are remembered."""
        return len(self._rings)

    def add_result(self, sampled: Sampled) -> None:
        """Take in a result; a sample that is no newer than the one before it is left out."""
        self._round += 1
        self._newest = sampled
        now = float("-inf")
        for sample in sampled.samples:
            key = sample.target.key
            ring = self._rings.get(key)
            if ring is None:
                ring = self._rings[key] = _Ring(sample, len(self._lengths))
            elif sample.at_seconds > ring.newest.at_seconds:
                anew = _fell(ring.newest, sample) and window_between(ring.newest, sample).state is WindowState.RESET
                ring.before_reset = ring.newest if anew else None
                ring.newest = sample
                if anew:
                    ring.marks = tuple(_Marks() for _ in self._lengths)
            ring.round = self._round
            now = max(now, sample.at_seconds)
            self._mark(ring, sample)
        for key in [key for key, ring in self._rings.items() if now - ring.newest.at_seconds > FORGET_SECONDS]:
            del self._rings[key]

    def _mark(self, ring: _Ring, sample: Sample) -> None:
        now = sample.at_seconds
        for marks, (length, spacing) in zip(ring.marks, self._lengths, strict=True):
            times = marks.times
            if not times or now - times[-1] >= spacing:
                marks.add_sample(sample)
            if now - times[0] > length:
                marks.drop_before(now - length)

    def use_cores(self, target: CgroupTarget, name: str) -> float | None:
        """Return the CPU time that a cgroup used a second over a window; None where nobody knows."""
        ring = self._rings.get(target.key)
        if ring is None:
            return None
        oldest, newest = ring.marks[self._names.index(name)].oldest(target), ring.newest
        seconds = newest.at_seconds - oldest.at_seconds
        if oldest.usage_ns is None or newest.usage_ns is None or seconds <= 0:
            return None
        return (newest.usage_ns - oldest.usage_ns) / seconds / 1e9

    def windows(self, name: str) -> Windows:
        """Compare the newest result with that at the beginning of a window."""
        if self._newest is None:
            return Windows(windows=(), nodes={}, troubles={}, examples={}, seconds=0.0)
        index = self._names.index(name)
        before = []
        for ring in self._rings.values():
            oldest = ring.before_reset or ring.marks[index].oldest(ring.newest.target)
            if oldest.at_seconds < ring.newest.at_seconds or ring.round < self._round:
                before.append(oldest)
        return compare(Sampled(tuple(before), self._newest.nodes), self._newest)


def _fell(before: Sample, after: Sample) -> bool:
    """Whether some counter is lower, which few are: then it is worth asking whether all began anew."""
    if after.periods < before.periods or after.throttled < before.throttled or after.throttled_ns < before.throttled_ns:
        return True
    return (
        (after.usage_ns or 0) < (before.usage_ns or 0)
        or (after.inherited_ns or 0) < (before.inherited_ns or 0)
        or (after.bursts or 0) < (before.bursts or 0)
    )


def _numbers(sample: Sample) -> tuple[int, ...]:
    optional = (
        *(sample.quota_us, sample.usage_ns, sample.inherited_ns, sample.burst_us, sample.bursts),
        *(sample.waiting_ns, sample.stalled_ns),
    )
    numbers = (sample.period_us, sample.periods, sample.throttled, sample.throttled_ns)
    return *numbers, *(_NONE if number is None else number for number in optional)


def _sample(target: CgroupTarget, at_seconds: float, values: "array[int]") -> Sample:
    period_us, periods, throttled, throttled_ns, *optional = values
    quota_us, usage_ns, inherited_ns, burst_us, bursts, waiting_ns, stalled_ns = (
        None if number == _NONE else number for number in optional
    )
    return Sample(
        target=target,
        at_seconds=at_seconds,
        quota_us=quota_us,
        period_us=period_us,
        periods=periods,
        throttled=throttled,
        throttled_ns=throttled_ns,
        usage_ns=usage_ns,
        inherited_ns=inherited_ns,
        burst_us=burst_us,
        bursts=bursts,
        waiting_ns=waiting_ns,
        stalled_ns=stalled_ns,
    )
