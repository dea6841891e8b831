"""Samples of Metrics Server: real averages and deviations, over what is there."""

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher.analysis import Analyser, Fault
from slack.loadwatcher.metrics_api import decode
from slack.loadwatcher.node_names import KnownNode
from slack.loadwatcher.payload import MetricType, RollupWindow
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.readings import Statistic
from slack.loadwatcher.sample import LoadSample
from slack.loadwatcher.samples import Rings
from tests.loadwatcher.build import NOW

_VALUES = st.lists(st.floats(0, 100, width=32), min_size=1, max_size=30)


@given(_VALUES)
def test_averages_and_deviations_are_those_of_the_samples(values: list[float]) -> None:
    rings = Rings(10.0)
    rings.add_samples(LoadSample("n", NOW - 10 * back, value, 0.5) for back, value in reversed(list(enumerate(values))))
    found = rings.readings(NOW)
    average = found.values_of(Statistic.AVERAGE, MetricType.CPU, RollupWindow.FIFTEEN_MINUTES)["n"]
    assert average == pytest.approx(statistics.fmean(values), abs=1e-4)
    deviation = found.values_of(Statistic.DEVIATION, MetricType.CPU, RollupWindow.FIFTEEN_MINUTES)["n"]
    assert deviation == pytest.approx(statistics.pstdev(values), abs=1e-4)
    assert found.values_of(Statistic.LATEST, MetricType.CPU)["n"] == pytest.approx(values[0], abs=1e-4)


def test_a_window_has_only_its_own_samples() -> None:
    rings = Rings(60.0)
    rings.add_samples(LoadSample("n", NOW - 60 * minute, float(minute), 1.0) for minute in reversed(range(14)))
    found = rings.readings(NOW)
    averages = [found.values_of(Statistic.AVERAGE, MetricType.CPU, window)["n"] for window in RollupWindow]
    assert averages == [6.5, 4.5, 2.0]
    assert found.windows == set(RollupWindow)


def test_a_young_sampler_has_short_windows_only() -> None:
    rings = Rings(15.0)
    for age, windows in ((0, {"5m"}), (299, {"5m"}), (300, {"5m", "10m"}), (450, {"5m", "10m", "15m"})):
        rings.add_samples([LoadSample("n", NOW - 450, 1.0, 1.0)])
        assert rings.readings(NOW - 450 + age).windows == windows


def test_the_same_sample_is_taken_once_and_a_ring_keeps_the_newest() -> None:
    rings = Rings(300.0)
    assert (
        len(
            rings.add_samples(
                [LoadSample("n", NOW, 1.0, 1.0), LoadSample("n", NOW, 9.0, 9.0), LoadSample("n", NOW - 5, 9.0, 9.0)]
            )
        )
        == 1
    )
    rings.add_samples(LoadSample("n", NOW + second, float(second), 1.0) for second in range(1, 20))
    assert rings.readings(NOW + 19).values_of(Statistic.LATEST, MetricType.CPU)["n"] == 19


def test_nodes_come_and_go_and_their_rows_are_used_again() -> None:
    rings = Rings(60.0)
    for turn in range(3):
        now = NOW + 1000 * turn
        rings.add_samples(LoadSample(f"n{turn}-{index}", now, float(index), 1.0) for index in range(200))
        found = rings.readings(now)
        assert len(rings) == 200
        assert found.values_of(Statistic.AVERAGE, MetricType.CPU, RollupWindow.FIVE_MINUTES)[f"n{turn}-7"] == 7.0


def test_a_sample_that_cannot_be_read_is_told_and_costs_no_average() -> None:
    rings = Rings(60.0)
    rings.add_samples([LoadSample("n", NOW - 60, 10.0, 1.0), LoadSample("n", NOW, math.nan, 2.0)])
    found = rings.readings(NOW)
    assert found.values_of(Statistic.AVERAGE, MetricType.CPU, RollupWindow.FIVE_MINUTES)["n"] == 10.0
    judgement = Analyser(max_age_seconds=300).judge(found, NOW)
    assert [(dropped.type, dropped.fault) for dropped in judgement.dropped] == [(MetricType.CPU, Fault.NOT_A_NUMBER)]


def test_a_sample_from_the_future_is_dropped_and_forgotten() -> None:
    rings = Rings(60.0)
    rings.add_samples([LoadSample("n", NOW + 3600, 10.0, 1.0)])
    judgement = Analyser(max_age_seconds=300).judge(rings.readings(NOW), NOW)
    assert {dropped.fault for dropped in judgement.dropped} == {Fault.FUTURE}
    rings.add_samples([LoadSample("n", NOW, 11.0, 1.0)])
    assert rings.readings(NOW).values_of(Statistic.LATEST, MetricType.CPU) == {"n": 11.0}


def test_without_nodes_there_is_nothing() -> None:
    found = Rings(60.0).readings(NOW)
    assert found.types() == ()
    assert found.windows == {"5m"}


NODES = {"n": KnownNode("n", cpu_millis=4000, memory_bytes=8 << 30), "bare": KnownNode("bare")}


def items(*given_: tuple[str, str, str, str]) -> bytes:
    return json.dumps(
        {
            "kind": "NodeMetricsList",
            "items": [
                {"metadata": {"name": name}, "timestamp": at, "window": "20s", "usage": {"cpu": cpu, "memory": memory}}
                for name, at, cpu, memory in given_
            ],
        }
    ).encode()


_AT = "2026-01-15T10:00:00Z"


@pytest.mark.parametrize(
    ("cpu", "memory", "percents"),
    [
        ("1000000000n", "2097152Ki", (25.0, 25.0)),
        ("1u", "4Gi", (2.5e-05, 50.0)),
        ("2", "1000", (50.0, 1000 / (8 << 30) * 100)),
        ("500m", "8589934592", (12.5, 100.0)),
    ],
)
def test_use_becomes_percent_of_capacity(cpu: str, memory: str, percents: tuple[float, float]) -> None:
    (sample,) = decode(items(("n", _AT, cpu, memory)), NODES)
    assert (sample.cpu_percent, sample.memory_percent) == pytest.approx(percents)
    assert sample.at == 1768471200.0


def test_what_cannot_be_read_is_no_number_and_who_is_unknown_is_left_out() -> None:
    given_ = (
        ("n", _AT, "much", "9" * 30 + "Ki"),
        ("n", _AT, "9" * 30 + "n", ""),
        ("bare", _AT, "1", "1"),
        ("stranger", _AT, "1", "1"),
        ("n", "yesterday", "1", "1"),
    )
    found = list(decode(items(*given_), NODES))
    assert [sample.node for sample in found] == ["n", "n", "bare"]
    assert all(math.isnan(sample.cpu_percent) for sample in found)
    assert list(decode(b'{"items":null}', NODES)) == []


@pytest.mark.parametrize("cpu", ["18446744073709551449n", "18446744074", "18446744073709m", "41"])
def test_more_than_a_node_could_use_is_no_number(cpu: str) -> None:
    """metrics-server 1300 and kubernetes 27194: a counter that fell reads as 2^64 nanoseconds, less a few."""
    (sample,) = decode(items(("n", _AT, cpu, "4Gi")), NODES)
    assert math.isnan(sample.cpu_percent)
    assert sample.memory_percent == 50.0
    (busy,) = decode(items(("n", _AT, "5", "4Gi")), NODES)
    assert busy.cpu_percent == 125.0


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"<html>", b'{"items":[{}]}', b"[" * 10_000])
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidProviderAnswer, match="Metrics Server"):
        decode(body, NODES)


@given(st.binary(max_size=80) | st.text(max_size=20).map(lambda text: items(("n", text, text, text))))
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    try:
        found = list(decode(body, NODES))
    except InvalidProviderAnswer:
        return
    assert all(sample.node == "n" for sample in found)
