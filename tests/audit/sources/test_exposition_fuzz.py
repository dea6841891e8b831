"""Damaged exposition text: nothing raises, every whole cgroup stays, and damage is counted."""

import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slack.audit.findings.sample import ReadError
from slack.audit.sources.cadvisor import CadvisorScrape, Scraped, scraped
from slack.audit.sources.exposition import InvalidSampleLine, labels, point
from tests.examples import examples

LINES = [
    line
    for line in (Path(__file__).parents[1] / "scrapes" / "kubelet-1.36-v1.after.prom").read_bytes().split(b"\n")
    if line.startswith((b"container_cpu_cfs", b"container_cpu_usage", b"container_spec_cpu", b"machine_cpu_cores"))
    and b"_burst_seconds_" not in line
    and b"_cpu_shares" not in line
]
BODY = b"\n".join(LINES) + b"\n"
WHOLE = scraped(BODY)
PLACES = st.integers(0, len(LINES) - 1)
FAMILIES = (b"container_cpu_cfs_", b"container_spec_cpu_")


def checked(body: bytes, cut: int = 1 << 16) -> Scraped:
    scrape = CadvisorScrape("n", 5.0)
    for at in range(0, len(body), cut):
        scrape.feed(body[at : at + cut])
    found = scrape.finish()
    for sample in found.samples:
        assert min(sample.periods, sample.throttled, sample.throttled_ns, sample.usage_ns or 0) >= 0
        assert math.isfinite(sample.at_seconds)
        assert sample.quota_us is None or sample.quota_us > 0
        assert sample.period_us > 0
    assert found.troubles.keys() == found.examples.keys()
    assert all(count > 0 for count in found.troubles.values())
    return found


@given(st.binary(max_size=2000), st.integers(1, 100))
@example(b"container_cpu_cfs_periods_total{" + b'"' * 500, 7)
@example(b"container_cpu_cfs_periods_total" * 60, 64)
def test_any_bytes_are_survived(body: bytes, cut: int) -> None:
    checked(body, cut)


@given(st.sampled_from(FAMILIES), st.binary(max_size=200))
def test_any_bytes_behind_a_wanted_name_are_one_line_at_most(family: bytes, rest: bytes) -> None:
    body = family + rest.replace(b"\n", b"") + b"\n"
    found = checked(BODY + body)
    known = {sample.target.path for sample in WHOLE.samples}
    assert known <= {sample.target.path for sample in found.samples}
    assert found.troubles.get(ReadError.MALFORMED, 0) <= 2, "the line, and a cgroup that has nothing but it"


PLACE = st.integers(0, len(BODY) - 1)
HOW = st.sampled_from(["flip", "drop", "insert", "end"])


@examples(300)
@given(st.lists(st.tuples(PLACE, HOW, st.integers(0, 255)), min_size=1, max_size=6), st.integers(1, 5000))
def test_a_damaged_answer_is_read_as_far_as_it_goes(damage: list[tuple[int, str, int]], cut: int) -> None:
    body = bytearray(BODY)
    for at, how, byte in damage:
        if how == "flip":
            body[at : at + 1] = bytes([byte])
        elif how == "drop":
            del body[at : at + byte]
        elif how == "insert":
            body[at:at] = bytes([byte]) * 3
        else:
            del body[at:]
    checked(bytes(body), cut)


@given(st.sets(PLACES, max_size=12), st.sampled_from([b"NaN", b"-3", b"", b"1 2 3 4", b'"']))
def test_each_line_whose_value_is_damaged_is_counted(places: set[int], value: bytes) -> None:
    damaged = [
        line[: line.rindex(b"}") + 1] + b" " + value if place in places else line for place, line in enumerate(LINES)
    ]
    found = checked(b"\n".join(damaged) + b"\n")
    left_out = {sample.target.path for sample in WHOLE.samples} - {sample.target.path for sample in found.samples}
    told = found.troubles.get(ReadError.MALFORMED, 0)
    assert len(places) <= told <= len(places) + len(left_out)


@given(st.sets(PLACES, max_size=12))
def test_lines_that_are_not_there_cost_their_own_cgroups_only(places: set[int]) -> None:
    found = checked(b"\n".join(line for place, line in enumerate(LINES) if place not in places) + b"\n")
    hit = b"\n".join(LINES[place] for place in places)
    for sample in WHOLE.samples:
        if f'id="{sample.target.path}"'.encode() not in hit:
            (same,) = (other for other in found.samples if other.target.path == sample.target.path)
            assert (same.periods, same.throttled_ns, same.quota_us, same.usage_ns) == (
                sample.periods,
                sample.throttled_ns,
                sample.quota_us,
                sample.usage_ns,
            )


@given(st.dictionaries(st.from_regex(r"\A[a-zA-Z_][a-zA-Z0-9_]*\Z"), st.text(max_size=40), max_size=6))
def test_labels_written_as_the_format_says_are_read_back(known: dict[str, str]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    known = {name: value.encode("utf-8", "replace").decode() for name, value in known.items()}
    text = ",".join(f'{name}="{escaped(value)}"' for name, value in known.items()).encode()
    assert labels(text) == known
    assert point(b"container_cpu_cfs_periods_total{" + text + b"} 12 1700000000000").labels == text


@given(st.binary(max_size=300))
def test_the_parts_raise_nothing_but_bad_line(text: bytes) -> None:
    with suppress(InvalidSampleLine):
        assert isinstance(labels(text), dict)
    with suppress(InvalidSampleLine):
        assert not math.isnan(point(text).at_seconds or 0.0)


NAMES = st.from_regex(r"\A[a-zA-Z_][a-zA-Z0-9_]{0,12}\Z")
VALUES = st.one_of(
    st.integers(0, 2**53).map(str),
    st.floats(0, 1e18).map(repr),
    st.floats(0, 1e18).map(lambda value: f"{value:e}"),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1.795e+09", "0", "-1"]),
)
STAMPS = st.one_of(
    st.none(),
    st.integers(1_500_000_000_000, 2_000_000_000_000).map(lambda stamp: (str(stamp), stamp / 1000)),
    st.integers(1_500_000_000_000, 2_000_000_000_000).map(lambda stamp: (f"{stamp / 1000:.3f}", stamp / 1000)),
)
"""Milliseconds, and OpenMetrics' seconds."""
EXEMPLARS = st.sampled_from(["", ' # {trace_id="0a1b"} 0.67', ' # {a="}",b="\\""} 1 1795298000.123', " # {} 1"])


@given(
    st.sampled_from(FAMILIES),
    st.none() | st.dictionaries(NAMES, st.text(max_size=30), max_size=5),
    VALUES,
    STAMPS,
    EXEMPLARS,
    st.sampled_from([" ", "  ", "\t"]),
    st.booleans(),
    st.sampled_from(["", " ", "\r"]),
)
def test_a_line_is_read_however_an_exporter_writes_it(
    family: bytes,
    known: dict[str, str] | None,
    value: str,
    stamp: tuple[str, float] | None,
    exemplar: str,
    space: str,
    ends_with_comma: bool,
    end: str,
) -> None:
    """Without labels, with escaped ones, with a time stamp of either format, an exemplar, and what is no number."""
    escaped = {
        name: text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        for name, text in (known or {}).items()
    }
    written = ",".join(f'{name}="{text}"' for name, text in escaped.items())
    if ends_with_comma and written:
        written += ","
    braces = "" if known is None else f"{{{written}}}"
    at = f"{space}{stamp[0]}" if stamp else ""
    found = point(f"{family.decode()}{braces}{space}{value}{at}{exemplar}{end}".encode())
    assert (found.family, labels(found.labels)) == (family, known or {})
    assert found.value == float(value) or (math.isnan(found.value) and value == "NaN")
    assert found.at_seconds == (None if stamp is None else pytest.approx(stamp[1]))
