"""A recording stays one that can be read: whatever its last line was when the recorder came."""

from pathlib import Path

import pytest

from slack.demand.trace import Line, SettingsLine, TickLine, encode, read
from slack.process.line_recorder import end_last_line
from slack_operator.demand.controller import BEGIN, trace_recorder

SETTINGS = SettingsLine(epoch="x", guards="all", fresh=True)
TICK = TickLine(now_seconds=1.0, lags={}, containers=())
WHOLE = encode(SETTINGS) + encode(TICK)


def record(file: Path, line: Line) -> None:
    recorder = trace_recorder(file)
    recorder.start()
    recorder.add_item(line)
    recorder.stop()


@pytest.mark.parametrize("left", range(len(encode(TICK)) + 1))
def test_after_a_kill_anywhere_in_a_line_all_whole_ones_are_read(tmp_path: Path, left: int) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(encode(SETTINGS) + encode(TICK)[:left])
    record(file, SETTINGS)
    ticks = [TICK] if left >= len(encode(TICK)) - 1 else []
    assert list(read(file.read_bytes().splitlines(keepends=True))) == [SETTINGS, *ticks, SETTINGS]


def test_a_line_longer_than_is_read_at_once_is_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(WHOLE + encode(TickLine(now_seconds=2.0, created=("x" * (3 << 20),)))[:-2])
    end_last_line(file, BEGIN)
    assert file.read_bytes() == WHOLE


def test_what_is_no_line_of_ours_is_not_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"mine")
    end_last_line(file, BEGIN)
    assert file.read_bytes() == b"mine\n"
    end_last_line(file, BEGIN)
    assert file.read_bytes() == b"mine\n"
    end_last_line(tmp_path / "nothing", BEGIN)
    end_last_line(tmp_path, BEGIN)
    assert not (tmp_path / "nothing").exists()


def test_a_line_that_a_full_disk_cut_off_is_taken_away_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace.jsonl"
    full = [encode(TICK)[:9]]

    def written(line: Line) -> bytes:
        if full:
            with file.open("ab") as opened:
                opened.write(full.pop())
            raise OSError(28, "No space left on device")
        return encode(line)

    monkeypatch.setattr("slack_operator.demand.controller.encode", written)
    recorder = trace_recorder(file)
    recorder.start()
    for line in (SETTINGS, TICK):
        recorder.add_item(line)
    recorder.stop()
    assert list(read(file.read_bytes().splitlines(keepends=True))) == [TICK]
