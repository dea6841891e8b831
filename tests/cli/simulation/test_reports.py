"""What tables say in corner cases; worked by hand, without runs."""

import re
from dataclasses import replace

import pytest

from slack.cli.simulation.comparison import ComparedVariant
from slack.cli.simulation.rate_reports import caution, interval_text, print_curve, print_tuned
from slack.cli.simulation.reports import print_runs
from slack.simulator.model.result import WorkloadResult
from slack.simulator.runs.curve import CurvePoint, TrialResult
from slack.simulator.runs.repeated import Repeated
from slack.simulator.runs.tune import Tuned
from tests.simulator.toys import result


def line(label: str, pods: int, *, recreated: int = 0) -> ComparedVariant:
    plain = result()
    api = WorkloadResult("shop/deploy/api", pods, pods, pods // 2, 0.1, 30.0, 60.0, 61.0, 600.0)
    idle = replace(api, workload="shop/deploy/idle", pods=0, instant=0)
    total = replace(plain.total, recreated=recreated, recreated_instant=recreated // 2)
    run = replace(plain, total=total, workloads=(api, idle), scale_ups=7, scale_up_decisions=2, placeholders_drained=5)
    return ComparedVariant(label, label, Repeated((run,)))


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def printed(capsys: pytest.CaptureFixture[str], *lines: ComparedVariant) -> str:
    print_runs(lines, "", 2.0)
    return capsys.readouterr().out


def test_nodes_are_counted_both_ways_and_churn_has_four_parts(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, line("none", 90))
    assert re.search(r"UP/DOWN +CHURN", text)
    assert "7/0  2/1/5/0" in text
    assert "Churn per hour, created/displaced/drained/other: none 2/1/0/0, at most 2/1/0/0." in text
    assert "recreated" not in text
    assert "made way" not in text


def test_what_made_way_for_bursts_is_told_where_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    found = line("own", 90)
    run = replace(found.found.first, placeholders_made_way=12)
    text = printed(capsys, line("none", 90), found._replace(found=Repeated((run,))))
    assert "made way for bursts before the scheduler preempted them: own 12." in text


def test_equal_counts_of_pods_have_one_column_others_stand_in_each(capsys: pytest.CaptureFixture[str]) -> None:
    same = printed(capsys, line("none", 90), line("rate=0.1", 90))
    assert "shop/deploy/api     90  50.0 %, 60 s  50.0 %, 60 s" in same
    assert "shop/deploy/idle     0       no pods       no pods" in same
    other = printed(capsys, line("none", 90), line("rate=0.1", 80))
    assert "instant starts, of how many, p99" in other
    assert "shop/deploy/api   50.0 % of 90, 60 s  50.0 % of 80, 60 s" in other


def test_recreated_pods_have_a_line_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, line("none", 90), line("rate=0.1", 90, recreated=4))
    assert "recreated after a drain or preemption, not in INSTANT: rate=0.1 4 (50.0 % instant)." in text


def test_long_labels_take_two_lines_and_no_cell_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    label = "static=18x500m/1Gi (cost of rate=0.05+cover=Everything)"
    text = printed(capsys, *(line(f"{label}{i}", 90) for i in range(6)))
    assert "…" not in text
    assert text.count("shop/deploy/api") == 2  # six columns do not fit beside each other


def test_a_pipe_of_unknown_width_has_all_figures_within_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("none", "rate=0.1", "static=18x500m/1Gi (cost of rate=0.05+cover=Everything)")
    for seeds in (1, 3):
        lines = [line(label, 90, recreated=4) for label in labels]
        lines = [found._replace(found=Repeated(found.found.runs * seeds)) for found in lines]
        wide = printed(capsys, *lines)
        monkeypatch.delenv("COLUMNS")
        narrow = printed(capsys, *lines)
        monkeypatch.setenv("COLUMNS", "160")
        assert max(map(len, narrow.splitlines())) <= 80
        assert max(map(len, wide.splitlines())) > 80
        assert set(wide.split()) <= set(narrow.split())


def test_a_curve_and_a_choice_fit_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS")
    low, high = point(0, 0.9, 0.92), point(0.4, 0.999, 0.999)
    print_tuned(Tuned(0.95, (1, 2), (low, high), high), "EUR")
    print_curve((low, high), "toy", "EUR", 2.0)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"0\.4 \(chosen\) +99\.9 %", shown)
    assert "instead of 91.0 % at rate 0." in " ".join(shown.split())


def test_a_choice_of_rate_0_is_said_to_need_no_slack(capsys: pytest.CaptureFixture[str]) -> None:
    none = point(0, 0.99, 0.99)
    print_tuned(Tuned(0.9, (1, 2), (none, point(0.4, 0.99, 0.99)), none), "EUR")
    shown = " ".join(capsys.readouterr().out.split())
    assert "no slack is needed for the goal, and a policy with minRate 0 keeps none by its rate." in shown
    assert "instead" not in shown


def point(rate: float, *ratios: float) -> CurvePoint:
    return CurvePoint.from_results(
        [TrialResult(rate, i, 10, ratio, 100.0 + rate, 0.5, 1.0, 5.0) for i, ratio in enumerate(ratios, 1)]
    )


def test_a_choice_is_cautioned_where_chance_may_miss_the_goal() -> None:
    low, high = point(0.1, 0.90, 0.92), point(0.4, 0.99, 0.99)
    text = str(caution(Tuned(0.9, (1, 2), (low, high), low)))
    assert text == (
        "The interval reaches below the goal of 90.0 %: more --seeds make it narrower; or take rate 0.4, whose "
        "interval begins at 99.0 %."
    )
    assert "no rate up to 0.1 has its whole interval there" in str(caution(Tuned(0.9, (1, 2), (low,), low)))
    once = point(0.2, 0.95)
    assert "--exact tells which" in str(caution(Tuned(0.9, (1, 2), (low, once), low)))
    assert caution(Tuned(0.9, (1, 2), (low, high), high)) is None
    assert "One run per rate" in str(caution(Tuned(0.9, (1,), (point(0.1, 0.95),), point(0.1, 0.95))))
    assert caution(Tuned(1.0, (1, 2), (low,), None)) is None


def test_an_interval_that_ends_below_100_percent_does_not_read_as_100() -> None:
    assert interval_text(point(0.1, 0.9999, 0.9999)) == "99.9 to 99.9 %"
    assert interval_text(point(0.1, 1.0, 1.0)) == "100.0 to 100.0 %"
    assert interval_text(point(0.1, 1.0)) == "one run"
