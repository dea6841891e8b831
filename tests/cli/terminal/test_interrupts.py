"""Ctrl-C at any moment: exit code 130, no traceback, nobody left behind."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND

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


@pytest.mark.parametrize("whom", ["the group, as a terminal does", "the process alone"])
@pytest.mark.parametrize(
    "after_seconds", [0.4, 2.5, *(pytest.param(other, marks=pytest.mark.thorough) for other in (0.7, 1.0, 1.4, 1.8))]
)
def test_an_interrupted_simulation_ends_with_130_and_says_nothing(
    tmp_path: Path, after_seconds: float, whom: str
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    command = [str(COMMAND), "simulate", "long.yaml", "--seeds", "4"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, start_new_session=True
    ) as process:
        time.sleep(after_seconds)
        send = os.killpg if whom.startswith("the group") else os.kill
        send(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out, said) == (130, "", "")
    ends = time.monotonic() + 5
    while (left := _running(process.pid)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left == []


def test_who_ignores_interrupts_goes_on_ignoring_them(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(LONG.replace("8000h", "30m"))
    shell = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", str(COMMAND), "simulate", "short.yaml"]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True) as process:
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "AT ONCE" in out
