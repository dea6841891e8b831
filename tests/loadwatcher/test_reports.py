"""Reports: matched to nodes, and the window that answers a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher.analysis import Analyser
from slack.loadwatcher.node_names import AsTheyAre, KnownNode, NodeNames, bare
from slack.loadwatcher.payload import WINDOWS, LoadReport, MetricType, Rollup, RollupWindow
from slack.loadwatcher.readings import ReadingKey, Readings, Statistic
from slack.loadwatcher.reports import Assembled, assemble, choose
from tests.cases import run_for_each
from tests.loadwatcher.build import NOW, readings

NODES = NodeNames.from_nodes(
    [
        KnownNode("ip-10-0-0-1.eu.compute", "host-1", ("10.0.0.1", "fd00::1", "Node-A.example")),
        KnownNode("ip-10-0-0-2.eu.compute", "same", ("10.0.0.2",)),
        KnownNode("ip-10-0-0-3.eu.compute", "same", ("10.0.0.3", "ip-10-0-0-2.eu.compute")),
    ]
)


def made(found: Readings, names: NodeNames | None = None) -> Assembled:
    judgement = Analyser(max_age_seconds=300).judge(found, NOW)
    return assemble(found, judgement, names or AsTheyAre(), source="Test")


@run_for_each(
    ("series", "node"),
    [
        ("10.0.0.1:9100", "ip-10-0-0-1.eu.compute"),
        ("10.0.0.1", "ip-10-0-0-1.eu.compute"),
        ("[fd00::1]:9100", "ip-10-0-0-1.eu.compute"),
        ("fd00::1", "ip-10-0-0-1.eu.compute"),
        ("HOST-1", "ip-10-0-0-1.eu.compute"),
        ("node-a.example.:9100", "ip-10-0-0-1.eu.compute"),
        ("ip-10-0-0-1", "ip-10-0-0-1.eu.compute"),
        ("IP-10-0-0-2.eu.compute:80", "ip-10-0-0-2.eu.compute"),
        ("same", None),
        ("10.0.0.9:9100", None),
        ("", None),
        (":9100", None),
    ],
)
def test_a_series_is_matched_by_any_name_that_only_one_node_goes_by(series: str, node: str | None) -> None:
    assert NODES.node(series) == node


def test_no_node_can_take_anothers_figures_by_a_label() -> None:
    thief = NodeNames.from_nodes([KnownNode("victim"), KnownNode("thief", "victim", ("victim",))])
    assert thief.node("victim:9100") == "victim"


@given(st.text(max_size=20))
def test_a_bare_name_stays_as_it_is(name: str) -> None:
    assert AsTheyAre().node(name) == (bare(name) or None)


def test_ports_in_names_are_taken_off_and_unmatched_names_are_told() -> None:
    found = made(readings(["10.0.0.1:9100", "10.0.0.9:9100"]), NODES)
    assert list(found.reports[RollupWindow.FIVE_MINUTES].nodes) == ["ip-10-0-0-1.eu.compute"]
    assert found.unmatched == ("10.0.0.9:9100",)


def test_a_report_has_average_deviation_and_latest_and_says_when_the_node_was_seen() -> None:
    report = made(readings(age_seconds=20)).reports[RollupWindow.TEN_MINUTES]
    load = report.nodes["node-1"]
    assert [load.percent(MetricType.CPU, rollup) for rollup in Rollup] == [20.0, 5.0, 25.0]
    assert load.percent(MetricType.NETWORK, Rollup.AVG) is None
    assert (report.window.end - report.window.start, report.window.end) == (600, int(NOW))
    assert report.observed_at("node-1") == int(NOW) - 20


def test_of_two_series_of_a_node_the_one_with_the_newest_sample_counts() -> None:
    newest = {ReadingKey(Statistic.OBSERVED_AT, kind): {"host-1": NOW - 1} for kind in MetricType}
    values = {ReadingKey(Statistic.AVERAGE, MetricType.CPU, window): {"host-1": 77.0} for window in WINDOWS}
    found = made(readings(["10.0.0.1", "host-1"], more={**newest, **values}), NODES)
    assert (
        found.reports[RollupWindow.FIVE_MINUTES].nodes["ip-10-0-0-1.eu.compute"].percent(MetricType.CPU, Rollup.AVG)
        == 77
    )


def test_a_deviation_without_its_average_is_no_idle_node() -> None:
    deviation = ReadingKey(Statistic.DEVIATION, MetricType.CPU, RollupWindow.FIVE_MINUTES)
    found = readings((), more={deviation: {"a": 3.0}, ReadingKey(Statistic.OBSERVED_AT, MetricType.CPU): {"a": NOW}})
    assert made(found).reports == {}


def test_a_deviation_may_be_missing() -> None:
    found = readings(types=())
    values = {
        ReadingKey(Statistic.AVERAGE, MetricType.CPU, RollupWindow.FIVE_MINUTES): {"a": 3.0},
        ReadingKey(Statistic.OBSERVED_AT, MetricType.CPU): {"a": NOW},
    }
    report = made(Readings(found.ends_at, values)).reports[RollupWindow.FIVE_MINUTES]
    assert [metric.rollup for metric in report.nodes["a"].metrics] == [Rollup.AVG]


def reports(*windows: RollupWindow, age_seconds: float = 0.0) -> dict[RollupWindow, LoadReport]:
    return dict(made(readings(windows=windows, now=NOW - age_seconds)).reports)


@pytest.mark.parametrize(
    ("there", "asked", "given_"),
    [
        (WINDOWS, "15m", "15m"),
        (WINDOWS, "5m", "5m"),
        (("10m", "5m"), "15m", "10m"),
        (("5m",), "15m", "5m"),
        (("5m",), "10m", "5m"),
        (("15m", "10m"), "5m", None),
        ((), "15m", None),
    ],
)
def test_a_question_falls_back_to_shorter_windows_down_to_five_minutes(
    there: tuple[str, ...], asked: str, given_: str | None
) -> None:
    found = choose(reports(*map(RollupWindow, there)), RollupWindow(asked), now=NOW, max_age_seconds=300)
    assert (found and found.window.duration) == given_


def test_a_window_that_is_too_old_is_not_told_and_a_newer_shorter_one_is() -> None:
    both = reports(RollupWindow.FIFTEEN_MINUTES, age_seconds=250) | reports(RollupWindow.FIVE_MINUTES)
    for later, given_ in ((0, "15m"), (60, "5m"), (301, None), (-700, None)):
        found = choose(both, RollupWindow.FIFTEEN_MINUTES, now=NOW + later, max_age_seconds=300)
        assert (found and found.window.duration) == given_


def test_a_question_about_one_node_falls_back_for_this_node() -> None:
    long = dict(made(readings(["old"])).reports)
    short = dict(made(readings(["old", "new"])).reports)
    both = {
        RollupWindow.FIFTEEN_MINUTES: long[RollupWindow.FIFTEEN_MINUTES],
        RollupWindow.FIVE_MINUTES: short[RollupWindow.FIVE_MINUTES],
    }
    found = choose(both, RollupWindow.FIFTEEN_MINUTES, now=NOW, max_age_seconds=300, node="new")
    assert found is not None
    assert (found.window.duration, list(found.nodes)) == ("5m", ["new"])
    assert choose(both, RollupWindow.FIFTEEN_MINUTES, now=NOW, max_age_seconds=300, node="none") is None
