"""The state file keeps what windows reach, and nothing that is gone."""

from pathlib import Path

from slack.loadwatcher.analysis import FUTURE_SECONDS
from slack.loadwatcher.payload import LoadReport, NodeLoadFigures, RollupWindow, Span
from slack.loadwatcher.sample import KEPT_SECONDS, LoadSample
from slack_operator.loadwatcher.store import SAVE_SECONDS, Store

NOW = 1_800_000_000.0
_NOTHING = NodeLoadFigures((), {}, {})


def test_a_node_whose_clock_is_ahead_deletes_no_samples_of_others_and_leaves_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "load.sqlite")
    store.open()
    good = [LoadSample("a", NOW + minute * 60, 10.0, 10.0) for minute in range(3)]
    for sample in good:
        store.keep([sample, LoadSample("ahead", sample.at + FUTURE_SECONDS + 1, 10.0, 10.0)], sample.at)
    assert store.samples(NOW + 180) == good
    store.keep([LoadSample("a", NOW + KEPT_SECONDS + 60, 1.0, 1.0)], NOW + KEPT_SECONDS + 60)
    assert [sample.at - NOW for sample in store.samples(NOW)] == [60, 120, KEPT_SECONDS + 60]
    store.close()


def test_a_window_that_is_no_longer_there_leaves_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "load.sqlite")
    store.open()
    end = int(NOW)
    reports = {
        window: LoadReport(end, Span(window, end - window.seconds, end), "Test", {"a": _NOTHING})
        for window in RollupWindow
    }
    store.save(reports, 0.0)
    assert set(store.reports(NOW, 300.0)) == set(RollupWindow)
    store.save({RollupWindow.FIVE_MINUTES: reports[RollupWindow.FIVE_MINUTES]}, SAVE_SECONDS)
    assert set(store.reports(NOW, 300.0)) == {RollupWindow.FIVE_MINUTES}
    store.close()
