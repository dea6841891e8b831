"""Decisions on disk: each can be read back, and none holds up the extender."""

from pathlib import Path

import pytest

from slack.process.line_recorder import MOST_WAITING, LineRecorder
from slack.scorer.record import read_line
from slack_operator.scorer.process import decision_recorder
from tests.operator.scorer.test_scores import Scene, pod


def test_a_decision_is_a_line_that_can_be_read_back(tmp_path: Path) -> None:
    recorder = decision_recorder(tmp_path / "decisions.jsonl")
    recorder.start()
    scene = Scene({"a": 10.0, "b": 35.0}, record=recorder)
    for name in ("first", "second"):
        scene.asked(pod(name), "a", "b")
    recorder.stop()
    lines = (tmp_path / "decisions.jsonl").read_bytes().splitlines()
    read = [read_line(line) for line in lines]
    assert [found.name for found in read] == ["first", "second"]
    assert read[0].total.tolist() == [75, 100]
    assert read[0].nodes.names == ("a", "b")


def test_what_comes_quicker_than_it_is_written_is_left_out_and_waits_for_nobody(tmp_path: Path) -> None:
    recorder = decision_recorder(tmp_path / "decisions.jsonl")
    scene = Scene({"a": 10.0}, record=recorder)
    for number in range(MOST_WAITING + 3):  # nothing is written before it is started
        scene.asked(pod(f"p{number}"), "a")
    assert recorder.left_out == 3
    recorder.stop()


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        decision_recorder(tmp_path / "nowhere" / "decisions.jsonl").start()


def test_a_file_that_is_full_is_put_aside_and_the_one_before_it_is_gone(tmp_path: Path) -> None:
    file, aside = tmp_path / "decisions.jsonl", tmp_path / "decisions.jsonl.1"
    recorder = decision_recorder(file, most_bytes=3_000)
    recorder.start()
    scene = Scene({"a": 10.0, "b": 35.0}, record=recorder)
    for number in range(20):
        scene.asked(pod(f"p{number}"), "a", "b")
    recorder.stop()
    assert {path.name for path in tmp_path.iterdir()} == {file.name, aside.name}
    assert max(file.stat().st_size, aside.stat().st_size) <= 3_000
    names = [read_line(line).name for path in (aside, file) for line in path.read_bytes().splitlines()]
    assert names == [f"p{number}" for number in range(20 - len(names), 20)], "the newest ones, in order"


@pytest.mark.parametrize("left", [1, 9, 40, -1])
def test_a_decision_that_a_kill_cut_off_goes_before_the_next_is_written(tmp_path: Path, left: int) -> None:
    file = tmp_path / "decisions.jsonl"
    for names in (("first", "second"), ("third",)):
        recorder = decision_recorder(file)
        recorder.start()
        scene = Scene({"a": 10.0}, record=recorder)
        for name in names:
            scene.asked(pod(name), "a")
        recorder.stop()
        if len(names) == 2:
            whole, second = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(whole + second[:left])
    kept = ["first", "second", "third"] if left == -1 else ["first", "third"]
    assert [read_line(line).name for line in file.read_bytes().splitlines()] == kept


def test_a_decision_that_cannot_be_written_down_does_not_end_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "decisions.jsonl"
    recorder = LineRecorder[int](file, lambda number: b"{%d}\n" % (6 // number), what="numbers", begin=b"{")
    recorder.start()
    for number in (0, 3):
        recorder.add_item(number)
    recorder.stop()
    assert file.read_bytes() == b"{2}\n"
    assert "one of the numbers could not be written down" in caplog.text
