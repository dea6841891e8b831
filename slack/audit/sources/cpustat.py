"""Parsers of the kernel's cpu.* files (kernel/sched/core.c, cpu_cfs_stat_show and its neighbours), v1 and v2.

They take bytes and are strict: what the kernel cannot have written is `Malformed`, never a number. Times come out in
nanoseconds, quotas and periods in microseconds, no quota as None. Keys that are not known here are passed over, as
kernels add some.
"""

import re
from typing import NamedTuple

_GREATEST = 2**64 - 1
"""Counters are u64."""
_NS = 1000
"""v2 counts in microseconds, v1 in nanoseconds."""


class Malformed(ValueError):
    """The file is there, but is not what a kernel writes."""


class Empty(Malformed):
    """There is nothing in the file."""


class CpuStat(NamedTuple):
    """cpu.stat. Without the cpu controller a v2 cgroup has the time used and nothing else."""

    periods: int
    throttled: int
    throttled_ns: int
    bursts: int | None
    usage_ns: int | None


class CpuMax(NamedTuple):
    """A quota and its period; no quota is None."""

    quota_us: int | None
    period_us: int


class Pressure(NamedTuple):
    """cpu.pressure, the two totals."""

    some_ns: int
    full_ns: int | None
    """None before 5.13, which has no such line for CPUs."""


# The kernels' own layouts, in one match; all else goes the long way through `_table`.
_STAT_V1 = re.compile(
    rb"nr_periods (\d{1,19})\nnr_throttled (\d{1,19})\nthrottled_time (\d{1,19})\n"
    rb"(?:nr_bursts (\d{1,19})\nburst_time \d{1,19}\n)?"
).fullmatch
_STAT_V2 = re.compile(
    rb"usage_usec (\d{1,19})\n(?:(?!nr_)[a-z_.]+ \d{1,19}\n)*"
    rb"nr_periods (\d{1,19})\nnr_throttled (\d{1,19})\nthrottled_usec (\d{1,19})\n"
    rb"(?:nr_bursts (\d{1,19})\nburst_usec \d{1,19}\n)?"
).fullmatch
_PRESSURE = re.compile(
    rb"some(?: avg\d{1,4}=\d{1,3}\.\d\d)+ total=(\d{1,19})\n"
    rb"(?:full(?: avg\d{1,4}=\d{1,3}\.\d\d)+ total=(\d{1,19})\n)?"
).fullmatch
_ONE_NUMBER = re.compile(rb"(\d{1,19})\n").fullmatch
_KEY = re.compile(rb"[!-~]+").fullmatch
_LOCAL_V1 = re.compile(rb"throttled_time (\d{1,19})\n").fullmatch
_LOCAL_V2 = re.compile(rb"throttled_usec (\d{1,19})\n").fullmatch


def parse_stat_v1(data: bytes) -> CpuStat:
    """Read cpu.stat of v1.

    Raises:
        Malformed: It is empty, half-written, has something else than counters or lacks one of the three.
    """
    if found := _STAT_V1(data):
        periods, throttled, throttled_ns, bursts = found.groups()
        return CpuStat(int(periods), int(throttled), int(throttled_ns), None if bursts is None else int(bursts), None)
    table = _table(data)
    return CpuStat(
        _wanted(table, b"nr_periods"),
        _wanted(table, b"nr_throttled"),
        _wanted(table, b"throttled_time"),
        table.get(b"nr_bursts"),
        None,
    )


def parse_stat_v2(data: bytes) -> CpuStat:
    """Read cpu.stat of v2. The root and cgroups without the controller have no periods: zeros.

    Raises:
        Malformed: It is empty, half-written, has something else than counters or lacks some of them.
    """
    if found := _STAT_V2(data):
        usage, periods, throttled, throttled_us, bursts = found.groups()
        return CpuStat(
            int(periods),
            int(throttled),
            int(throttled_us) * _NS,
            None if bursts is None else int(bursts),
            int(usage) * _NS,
        )
    table = _table(data)
    usage_ns = _wanted(table, b"usage_usec") * _NS
    if not any(key in table for key in (b"nr_periods", b"nr_throttled", b"throttled_usec")):
        return CpuStat(0, 0, 0, None, usage_ns)
    return CpuStat(
        _wanted(table, b"nr_periods"),
        _wanted(table, b"nr_throttled"),
        _wanted(table, b"throttled_usec") * _NS,
        table.get(b"nr_bursts"),
        usage_ns,
    )


def parse_local_v1(data: bytes) -> int:
    """Read cpu.stat.local of v1; return nanoseconds.

    Raises:
        Malformed: As `parse_stat_v1`.
    """
    if found := _LOCAL_V1(data):
        return int(found[1])
    return _wanted(_table(data), b"throttled_time")


def parse_local_v2(data: bytes) -> int:
    """Read cpu.stat.local of v2; return nanoseconds.

    Raises:
        Malformed: As `parse_stat_v1`.
    """
    if found := _LOCAL_V2(data):
        return int(found[1]) * _NS
    return _wanted(_table(data), b"throttled_usec") * _NS


def parse_max(data: bytes) -> CpuMax:
    """Read cpu.max: a quota or `max`, and the period.

    Raises:
        Malformed: It is anything else; neither can be 0.
    """
    words = _words(data)
    if len(words) != 2:
        raise Malformed(f"wants a quota and a period, has {_shown(data)}")
    quota = None if words[0] == b"max" else _positive(words[0])
    return CpuMax(quota, _positive(words[1]))


def parse_quota_v1(data: bytes) -> int | None:
    """Read cpu.cfs_quota_us; -1 is no quota.

    Raises:
        Malformed: It is not one number, or one that is no quota.
    """
    if (found := _ONE_NUMBER(data)) and (quota := int(found[1])):
        return quota
    words = _words(data)
    if words == [b"-1"]:
        return None
    return _positive(_single(words, data))


def parse_period_v1(data: bytes) -> int:
    """Read cpu.cfs_period_us.

    Raises:
        Malformed: It is not one number above 0.
    """
    if (found := _ONE_NUMBER(data)) and (period := int(found[1])):
        return period
    return _positive(_single(_words(data), data))


def parse_number(data: bytes) -> int:
    """Read a file of one number: cpuacct.usage, cpu.cfs_burst_us, cpu.max.burst.

    Raises:
        Malformed: It is not one number of 64 bits.
    """
    if (found := _ONE_NUMBER(data)) is not None:
        return int(found[1])
    return _number(_single(_words(data), data))


def parse_pressure(data: bytes) -> Pressure:
    """Read cpu.pressure.

    Raises:
        Malformed: It is empty, half-written or something else.
    """
    found = _PRESSURE(data)
    if found is None:
        if not data:
            raise Empty("is empty")
        raise Malformed(f"wants lines some and full with a total, has {_shown(data)}")
    some, full = found.groups()
    return Pressure(int(some) * _NS, None if full is None else int(full) * _NS)


def _table(data: bytes) -> dict[bytes, int]:
    """Return `key number` lines. A last line without its end counts if its number is there."""
    if not data:
        raise Empty("is empty")
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    table: dict[bytes, int] = {}
    for line in lines:
        key, _, value = line.partition(b" ")
        if key in table:
            raise Malformed(f"has {_shown(key)} twice")
        if not _KEY(key):
            raise Malformed(f"wants lines of a key and a number, has {_shown(line)}")
        table[key] = _number(value)
    return table


def _wanted(table: dict[bytes, int], key: bytes) -> int:
    value = table.get(key)
    if value is None:
        raise Malformed(f"lacks {key.decode()}")
    return value


def _words(data: bytes) -> list[bytes]:
    """Return the words of a file of one line."""
    if not data:
        raise Empty("is empty")
    return data.removesuffix(b"\n").split(b" ")


def _single(words: list[bytes], data: bytes) -> bytes:
    if len(words) != 1:
        raise Malformed(f"wants one number, has {_shown(data)}")
    return words[0]


def _number(word: bytes) -> int:
    # int() alone would take signs, blanks and underscores, and any length.
    if not word.isdigit() or len(word) > 20 or (value := int(word)) > _GREATEST:
        raise Malformed(f"wants a number from 0 to 2^64-1, has {_shown(word)}")
    return value


def _positive(word: bytes) -> int:
    value = _number(word)
    if value == 0:
        raise Malformed("wants a number above 0, has 0")
    return value


def _shown(data: bytes) -> str:
    """Return a few bytes of it as they can be printed."""
    text = data[:40].decode("ascii", "backslashreplace")
    return repr(text) + ("..." if len(data) > 40 else "")
