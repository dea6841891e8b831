"""Two lanes of suites: neither failure is lost, and what the second printed is shown."""

import signal
import subprocess
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


FAILS = """
import json, pathlib, sys
cache = next((own.partition("=")[2] for own in sys.argv if own.startswith("cache_dir=")), None)
if cache is None:
    raise SystemExit(int(sys.argv[1]))
pathlib.Path(cache, "v", "cache").mkdir(parents=True)
failed = {f"e2e/suites/test_{name}.py::test_it": True for name in sys.argv[2].split(",")}
pathlib.Path(cache, "v", "cache", "lastfailed").write_text(json.dumps(failed))
raise SystemExit(int(sys.argv[3]))
"""
"""Beside another lane these suites fail; alone it ends with the first argument."""


@pytest.mark.parametrize(
    ("suites", "ends", "alone", "code", "runs_again"),
    [
        ("a", 1, 0, 0, True),
        ("a,b", 1, 1, 1, True),
        ("a,b,c,d", 1, 0, 1, False),  # that many are no accident
        ("a", 3, 0, 3, False),  # not all were run
        ("a", -9, 0, -9, False),
    ],
)
def test_few_suites_that_failed_beside_others_are_run_once_more_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    suites: str,
    ends: int,
    alone: int,
    code: int,
    runs_again: bool,
) -> None:
    alone_with: list[tuple[str, ...]] = []

    def command(*arguments: str) -> list[str]:
        if not any(argument.startswith("cache_dir=") for argument in arguments):
            alone_with.append(arguments)
        dies = "import os; os.kill(os.getpid(), 9)" if ends < 0 else FAILS
        return [sys.executable, "-c", dies, str(alone), suites, str(ends), *arguments]

    monkeypatch.setattr(lanes, "_command", command)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.delenv("BACKEND", raising=False)
    assert lanes.main([]) == code
    wanted = [tuple(f"e2e/suites/test_{name}.py" for name in suites.split(","))] if runs_again else []
    assert alone_with == wanted
    assert ("e2e/suites/test_a.py::test_it" in capsys.readouterr().out) == (runs_again and not alone)


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
    first = [] if arguments else [(str(lanes.ON_KIND), "-s")]
    assert asked == [*first, (str(lanes.SUITES), *arguments)]


def test_every_suite_is_in_one_of_the_lanes() -> None:
    assert {name for name in lanes.WAITING if (Path(lanes.SUITES) / name).is_file()} == set(lanes.WAITING)


SLOW = """
import time
from e2e import conftest
conftest.pytest_configure()
try:
    print("up", flush=True)
    time.sleep(60)
finally:
    time.sleep(1)
    print("taken away", flush=True)
"""
"""A session that has something to take away."""
STARTS = """
import sys
from e2e import lanes
lanes._command = lambda *_: [sys.executable, "-c", sys.argv[1]]
sys.exit(lanes.main(["-k", "slow"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_lane_that_is_ended_takes_away_what_it_has_made(number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-c", STARTS, SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "up\n"
        run.send_signal(number)
        out, _ = run.communicate(timeout=30)
    assert out == "taken away\n"
    assert run.returncode == code
