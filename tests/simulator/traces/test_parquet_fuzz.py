"""Whatever happened to a trace file, reading it ends with a trace or with a clear refusal."""

from hypothesis import given
from hypothesis import strategies as st

from slack.simulator.traces.format import InvalidTrace
from slack.simulator.traces.parquet import read_trace, write_trace
from tests.examples import examples
from tests.simulator.trace_rows import burst_trace

WHOLE = write_trace(burst_trace())
WHOLE_DATA = len(WHOLE) - 8 - int.from_bytes(WHOLE[-8:-4], "little")
"""Where the pages end and the footer begins."""
mistakes = examples(250)
"""EXAMPLES=5000 looks further, and elsewhere each time."""


def _refusal(data: bytes) -> InvalidTrace | None:
    try:
        read_trace(data, source="day.parquet")
    except InvalidTrace as error:
        return error
    return None


def _is_clear(error: InvalidTrace | None) -> bool:
    return error is None or (
        bool(error.problems) and all(len(problem) < 400 and problem.isprintable() for problem in error.problems)
    )


@mistakes
@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_anywhere_is_refused(at: int) -> None:
    error = _refusal(WHOLE[:at])
    assert error is not None
    assert _is_clear(error)


@mistakes
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 7)), min_size=1, max_size=4))
def test_flipped_bits_are_refused_clearly_or_leave_a_trace(flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, bit in flips:
        data[place] ^= 1 << bit
    assert _is_clear(_refusal(bytes(data)))


@mistakes
@given(st.integers(4, len(WHOLE) - 9), st.binary(min_size=1, max_size=40))
def test_overwritten_bytes_are_refused_clearly_or_leave_a_trace(at: int, junk: bytes) -> None:
    assert _is_clear(_refusal((WHOLE[:at] + junk + WHOLE[at + len(junk) :])[: len(WHOLE)]))


@mistakes
@given(st.integers(WHOLE.index(b"PAR1") + 4, WHOLE_DATA - 1), st.integers(0, 7))
def test_a_flipped_bit_of_the_data_is_never_a_number_of_the_trace(place: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= 1 << bit
    if _refusal(bytes(data)) is None:  # a field of a page header that nobody reads
        assert read_trace(bytes(data), source="t") == burst_trace()
