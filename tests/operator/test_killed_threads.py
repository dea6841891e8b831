"""Each thread and each task of each process is killed in turn, and /healthz fails each time (`tests.operator.killing`).

kopf's thread and the task of NATS's client have to come back instead. kopf's own tasks are left out: what lists
policies starts kopf again (test_policy_source). So are those that NATS's client has only while a server answers.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.operator.killing import PROCESSES

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
FEWEST_THREADS = {"audit agent": 2, "demand proxy": 2, "demand proxy without a server": 2}
"""Of the others it is three."""


def killed(name: str, what: str) -> list[str]:
    """Kill in a process of its own, and return what was killed."""
    words = [sys.executable, "-W", "ignore", "-m", "tests.operator.killing", name, what]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", PROCESSES)
def test_a_thread_that_is_killed_is_unhealthy_whichever_it_is(name: str) -> None:
    assert len(killed(name, "threads")) >= FEWEST_THREADS.get(name, 3)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_task_that_is_cancelled_is_unhealthy_whichever_it_is(name: str) -> None:
    assert len(killed(name, "tasks")) >= 2
