"""Two lanes of suites: neither failure is lost, and what the second printed is shown."""

import sys
from pathlib import Path

import pytest

from e2e import lanes


@pytest.mark.parametrize(("first", "second", "code"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (2, 1, 2)])
def test_both_lanes_must_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: int, second: int, code: int
) -> None:
    def command(*arguments: str) -> list[str]:
        ends = first if any(argument.startswith("--ignore=") for argument in arguments) else second
        return [sys.executable, "-c", f"print('ended with {ends}'); raise SystemExit({ends})"]

    monkeypatch.setattr(lanes, "_command", command)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.delenv("BACKEND", raising=False)
    assert lanes.main([]) == code
    assert f"ended with {second}" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "backend"), [(["-k", "burst"], "local"), ([], "kind")])
def test_chosen_tests_and_kind_have_one_lane(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], backend: str
) -> None:
    asked: list[tuple[str, ...]] = []

    def command(*given: str) -> list[str]:
        asked.append(given)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(lanes, "_command", command)
    monkeypatch.setenv("BACKEND", backend)
    assert lanes.main(arguments) == 0
    assert asked == [(str(lanes.SUITES), *arguments)]


def test_every_suite_is_in_one_of_the_lanes() -> None:
    assert {name for name in lanes.WAITING if (Path(lanes.SUITES) / name).is_file()} == set(lanes.WAITING)
