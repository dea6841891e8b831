import pytest

from slack.audit.sources.cpustat import (
    CpuMax,
    CpuStat,
    Empty,
    Malformed,
    Pressure,
    parse_local_v1,
    parse_local_v2,
    parse_max,
    parse_number,
    parse_period_v1,
    parse_pressure,
    parse_quota_v1,
    parse_stat_v1,
    parse_stat_v2,
)
from tests.cases import run_for_each

V1_OLD = b"nr_periods 81\nnr_throttled 27\nthrottled_time 123456789\n"
V1 = V1_OLD + b"nr_bursts 3\nburst_time 20000000\n"
V2_ROOT = b"usage_usec 1000\nuser_usec 600\nsystem_usec 400\nnice_usec 0\ncore_sched.force_idle_usec 0\n"
V2_PERIODS = b"nr_periods 43\nnr_throttled 42\nthrottled_usec 45696000\n"
V2_OLD = b"usage_usec 1000\nuser_usec 600\nsystem_usec 400\n" + V2_PERIODS
V2 = V2_ROOT + V2_PERIODS + b"nr_bursts 7\nburst_usec 9\n"
PARSERS = (
    *(parse_stat_v1, parse_stat_v2, parse_local_v1, parse_local_v2),
    *(parse_max, parse_quota_v1, parse_period_v1, parse_number, parse_pressure),
)


def test_v1_counts_in_nanoseconds_and_has_bursts_since_5_15() -> None:
    assert parse_stat_v1(V1_OLD) == CpuStat(81, 27, 123456789, None, None)
    assert parse_stat_v1(V1) == CpuStat(81, 27, 123456789, 3, None)


def test_v2_counts_in_microseconds_which_become_nanoseconds() -> None:
    assert parse_stat_v2(V2_OLD) == CpuStat(43, 42, 45_696_000_000, None, 1_000_000)
    assert parse_stat_v2(V2) == CpuStat(43, 42, 45_696_000_000, 7, 1_000_000)


def test_a_v2_cgroup_without_the_controller_has_the_time_used_and_no_periods() -> None:
    assert parse_stat_v2(V2_ROOT) == CpuStat(0, 0, 0, None, 1_000_000)


@pytest.mark.parametrize("parse", [parse_stat_v1, parse_stat_v2])
def test_keys_of_later_kernels_and_another_order_do_not_matter(parse: object) -> None:
    text, expected = (V1, parse_stat_v1(V1)) if parse is parse_stat_v1 else (V2, parse_stat_v2(V2))
    lines = text.splitlines(keepends=True)
    again = b"".join([*reversed(lines), b"nr_wonders 5\n"])
    assert (parse_stat_v1 if parse is parse_stat_v1 else parse_stat_v2)(again) == expected


def test_the_local_statistics_are_one_number_of_either_unit() -> None:
    assert parse_local_v1(b"throttled_time 5\n") == 5
    assert parse_local_v2(b"throttled_usec 5\n") == 5000
    assert parse_local_v2(b"new_usec 1\nthrottled_usec 5\n") == 5000


SOME = b"some avg10=46.47 avg60=12.06 avg300=2.69 total=8142744\n"
FULL = b"full avg10=0.00 avg60=100.00 avg300=0.00 total=7\n"


def test_pressure_has_two_totals_in_microseconds_and_before_5_13_one() -> None:
    assert parse_pressure(SOME + FULL) == Pressure(8_142_744_000, 7000)
    assert parse_pressure(SOME) == Pressure(8_142_744_000, None)


@pytest.mark.parametrize("data", [FULL, SOME + SOME, SOME[:-1], SOME + FULL[:-3], SOME.replace(b"total=", b"total=-")])
def test_what_is_no_pressure_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_pressure(data)


def test_a_quota_is_a_number_or_none() -> None:
    assert parse_max(b"max 100000\n") == CpuMax(None, 100_000)
    assert parse_max(b"20000 5000\n") == CpuMax(20_000, 5_000)
    assert parse_quota_v1(b"-1\n") is None
    assert parse_quota_v1(b"200000\n") == 200_000
    assert parse_period_v1(b"100000\n") == 100_000


def test_counters_go_up_to_64_bits() -> None:
    assert parse_number(b"18446744073709551615\n") == 2**64 - 1
    assert parse_stat_v1(V1.replace(b"123456789", b"18446744073709551615")).throttled_ns == 2**64 - 1
    with pytest.raises(Malformed, match="2\\^64"):
        parse_number(b"18446744073709551616\n")
    with pytest.raises(Malformed):
        parse_stat_v2(V2.replace(b"45696000", b"18446744073709551616"))


@pytest.mark.parametrize("parse", PARSERS)
def test_an_empty_file_is_told_from_a_malformed_one(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(Empty):
        parse(b"")


@run_for_each("parse", PARSERS)
@run_for_each(
    "data",
    [
        b"\n",
        b"\0" * 40,
        b"-5\n",
        b"abc\n",
        b"1_000\n",
        b" 12\n",
        b"+1\n",
        b"0x10\n",
        b"1\n2\n",
        b"\xff\xfe\n",
        b"1e3\n",
    ],
)
def test_nothing_is_guessed_from_what_no_kernel_writes(parse: object, data: bytes) -> None:
    assert callable(parse)
    with pytest.raises(Malformed):
        parse(data)


@run_for_each("cut", range(1, len(V1_OLD)))
def test_a_half_written_file_is_malformed_unless_its_last_number_is_there(cut: int) -> None:
    data = V1_OLD[:cut]
    if data.rpartition(b"\n")[2].startswith(b"throttled_time ") and data[-1:].isdigit():
        assert parse_stat_v1(data).periods == 81
    else:
        with pytest.raises(Malformed):
            parse_stat_v1(data)


@pytest.mark.parametrize("key", [b"nr_periods", b"nr_throttled", b"throttled_time"])
def test_a_missing_a_doubled_and_a_negative_counter_are_named_or_refused(key: bytes) -> None:
    lines = V1.splitlines(keepends=True)
    mine = next(line for line in lines if line.startswith(key))
    with pytest.raises(Malformed, match=f"lacks {key.decode()}"):
        parse_stat_v1(b"".join(line for line in lines if line is not mine))
    with pytest.raises(Malformed, match="twice"):
        parse_stat_v1(b"".join([*lines, mine]))
    with pytest.raises(Malformed, match="wants a number"):
        parse_stat_v1(V1.replace(mine, key + b" -1\n"))


def test_v2_with_some_of_the_three_counters_lacks_the_others() -> None:
    with pytest.raises(Malformed, match="lacks nr_throttled"):
        parse_stat_v2(V2_OLD.replace(b"nr_throttled 42\n", b""))
    with pytest.raises(Malformed, match="lacks usage_usec"):
        parse_stat_v2(V2_PERIODS)


@pytest.mark.parametrize(
    "data", [b"0 100000\n", b"max 0\n", b"max\n", b"max max\n", b"100000 max\n", b"1 2 3\n", b"-1 100000\n"]
)
def test_a_quota_and_a_period_are_above_nothing(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_max(data)


def test_v1_knows_one_negative_quota_only() -> None:
    for data in (b"-2\n", b"0\n", b"max\n"):
        with pytest.raises(Malformed):
            parse_quota_v1(data)
