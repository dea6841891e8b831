"""Programs that the harness starts end when they should, and only they."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.harness.errors import HarnessError
from e2e.harness.processes import Program, start_ticks, stop_recorded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local backend reads /proc")
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def up(program: Program) -> Callable[[], bool]:
    return lambda: "up" in program.log_tail()


def test_a_program_is_recorded_while_it_runs_and_logs_to_the_run_folder(tmp_path: Path) -> None:
    program = Program("sleeper", SLEEP, tmp_path).start()
    program.wait_until_ready(up(program), 5)
    record = json.loads((tmp_path / "sleeper.pid").read_text())
    assert record["pid"] == program.pid
    assert record["start_ticks"] == start_ticks(program.pid)
    program.stop()
    assert not program.running
    assert not (tmp_path / "sleeper.pid").exists()


def test_a_program_that_ignores_the_request_is_ended_anyway(tmp_path: Path) -> None:
    program = Program("stubborn", STUBBORN, tmp_path).start()
    program.wait_until_ready(up(program), 5)
    began = time.monotonic()
    program.stop(seconds=0.3)
    assert not program.running
    assert 0.3 <= time.monotonic() - began < 3


def test_a_start_that_fails_tells_the_end_of_the_log(tmp_path: Path) -> None:
    program = Program("broken", [sys.executable, "-c", "raise SystemExit('no such flag: --x')"], tmp_path).start()
    with pytest.raises(HarnessError, match=r"broken ended while starting[^$]*no such flag: --x"):
        program.wait_until_ready(lambda: False, 10)


def test_a_program_cannot_be_started_twice(tmp_path: Path) -> None:
    program = Program("sleeper", SLEEP, tmp_path).start()
    with pytest.raises(HarnessError, match="already running"):
        program.start()
    program.stop()


def test_children_die_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from e2e.harness.processes import Program\n"
        f"print(Program('sleeper', {SLEEP!r}, Path({str(tmp_path)!r})).start().pid, flush=True); time.sleep(60)"
    )
    root = Path(__file__).parents[2]
    harness = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    child = int(harness.stdout.readline())
    harness.stdout.close()
    assert start_ticks(child) is not None
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert eventually(lambda: start_ticks(child) is None)


def test_what_an_earlier_run_left_is_ended_by_its_record(tmp_path: Path) -> None:
    left = subprocess.Popen(SLEEP)
    record = {"pid": left.pid, "start_ticks": start_ticks(left.pid), "command": SLEEP}
    (tmp_path / "sleeper.pid").write_text(json.dumps(record))
    assert stop_recorded(tmp_path, seconds=0.2) == ["sleeper"]
    assert left.wait(timeout=5) in {-signal.SIGTERM, -signal.SIGKILL}


def test_a_process_that_only_has_the_same_id_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(SLEEP)
    started = start_ticks(other.pid)
    assert started is not None
    record = {"pid": other.pid, "start_ticks": started - 1, "command": ["etcd"]}
    (tmp_path / "etcd.pid").write_text(json.dumps(record))
    assert stop_recorded(tmp_path) == []
    assert other.poll() is None
    other.kill()
    other.wait()
