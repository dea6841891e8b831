"""Ctrl-C, SIGTERM and SIGHUP at any moment: exit code 128 + number, no traceback, nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND

ALONE = "the process alone"
LONG = """\
duration: 8000h
nodeGroups:
  - name: general
    allocatable: {cpu: "4", memory: 16Gi}
    initial: 3
workloads:
  - name: api
    requests: {cpu: "1", memory: 1Gi}
    life: {kind: exponential, meanSeconds: 600}
    arrivals: {kind: poisson, perMinute: 5}
"""


@pytest.fixture(autouse=True)
def _hangups_are_taken() -> Iterator[None]:
    """Let commands take SIGHUP also where these tests run under `nohup`, whose children inherit that it is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def _running(session: int) -> list[str]:
    """Return the processes of a session; one that has ended and that nobody has asked after yet does not run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, of = rest.rpartition(") ")[2].split()[:4]
        if int(of) == session and state != "Z":
            found.append(pid)
    return found


def _wait_until_workers_are_there(session: int) -> None:
    """Wait until a simulation has started its workers, and for a moment in which they work."""
    ends = time.monotonic() + 20
    while len(_running(session)) < 3 and time.monotonic() < ends:
        time.sleep(0.05)
    time.sleep(0.7)


@pytest.mark.parametrize("whom", ["the group, as a terminal does", pytest.param(ALONE, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "after_seconds", [None, *(pytest.param(other, marks=pytest.mark.thorough) for other in (0.4, 0.7, 1.0, 1.4, 1.8))]
)
def test_an_interrupted_simulation_ends_with_130_and_says_nothing(
    tmp_path: Path, after_seconds: float | None, whom: str
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    command = [str(COMMAND), "simulate", "long.yaml", "--seeds", "4"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, start_new_session=True
    ) as process:
        if after_seconds is None:
            _wait_until_workers_are_there(process.pid)
        else:
            time.sleep(after_seconds)
        send = os.killpg if whom.startswith("the group") else os.kill
        send(process.pid, signal.SIGINT)
        try:
            out, said = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert (process.returncode, out, said) == (130, "", "")
    ends = time.monotonic() + 5
    while (left := _running(process.pid)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left == []


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.thorough) for number in (signal.SIGTERM, signal.SIGHUP)]
)
def test_a_closed_terminal_and_a_kill_end_a_simulation_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    command = [str(COMMAND), "simulate", "long.yaml", "--seeds", "4"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True) as process:
        _wait_until_workers_are_there(process.pid)
        process.send_signal(number)
        try:
            said = process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    ends = time.monotonic() + 5
    while (left := _running(process.pid)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left == []


CLEANS_UP = """
import signal, sys, time
from slack.cli.terminal.interrupts import guard_signals
with guard_signals():
    try:
        print("made", flush=True)
        time.sleep(60)
    finally:
        if int(sys.argv[1]) == signal.SIGHUP:
            signal.raise_signal(signal.SIGHUP)
        print("removed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_command_made_is_removed_whatever_ends_it(number: signal.Signals) -> None:
    command = [sys.executable, "-c", CLEANS_UP, str(int(number))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        process.send_signal(number)
        rest, said = process.communicate(timeout=30)
    assert (rest, said, process.returncode) == ("removed\n", "", 128 + number)


@pytest.mark.thorough
def test_who_ignores_interrupts_goes_on_ignoring_them(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(LONG.replace("8000h", "3m"))
    shell = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", str(COMMAND), "simulate", "short.yaml"]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True) as process:
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert "INSTANT" in out
