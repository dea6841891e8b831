"""Whatever happened to a trace file, reading it ends with a trace or with a clear refusal."""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slack.simulator.trace import read_trace, write_trace
from slack.simulator.traceformat import BadTrace
from tests.simulator.traces import burst_trace

WHOLE = write_trace(burst_trace())
WHOLE_DATA = len(WHOLE) - 8 - int.from_bytes(WHOLE[-8:-4], "little")
"""Where the pages end and the footer begins."""
quick = settings(
    max_examples=int(os.environ.get("EXAMPLES", "250")),
    deadline=None,
    derandomize="EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
"""EXAMPLES=5000 looks further, and elsewhere each time."""


def _refusal(data: bytes) -> BadTrace | None:
    try:
        read_trace(data, source="day.parquet")
    except BadTrace as error:
        return error
    return None


def _is_clear(error: BadTrace | None) -> bool:
    return error is None or (
        bool(error.problems) and all(len(one) < 400 and one.isprintable() for one in error.problems)
    )


@quick
@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_anywhere_is_refused(at: int) -> None:
    error = _refusal(WHOLE[:at])
    assert error is not None
    assert _is_clear(error)


@quick
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 7)), min_size=1, max_size=4))
def test_flipped_bits_are_refused_clearly_or_leave_a_trace(flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, bit in flips:
        data[place] ^= 1 << bit
    assert _is_clear(_refusal(bytes(data)))


@quick
@given(st.integers(4, len(WHOLE) - 9), st.binary(min_size=1, max_size=40))
def test_overwritten_bytes_are_refused_clearly_or_leave_a_trace(at: int, junk: bytes) -> None:
    assert _is_clear(_refusal((WHOLE[:at] + junk + WHOLE[at + len(junk) :])[: len(WHOLE)]))


@quick
@given(st.integers(WHOLE.index(b"PAR1") + 4, WHOLE_DATA - 1), st.integers(0, 7))
def test_a_flipped_bit_of_the_data_is_never_a_number_of_the_trace(place: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= 1 << bit
    if _refusal(bytes(data)) is None:  # a field of a page header that nobody reads
        assert read_trace(bytes(data), source="t") == burst_trace()
