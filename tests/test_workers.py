"""Forked workers run each test once, and whatever goes wrong in one of them fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import run_for_each

ROOT = Path(__file__).resolve().parent.parent
MODULE = """
import os
from pathlib import Path
import pytest

PLACE = Path(__file__).parent

@pytest.fixture(scope="module")
def made():
    (PLACE / f"made-{os.getpid()}").touch(exist_ok=False)

@pytest.mark.parametrize("number", range(40))
def test_number(number, made, tmp_path):
    (PLACE / f"{__name__}-{number}").touch(exist_ok=False)
"""
BAD = """
import pytest

def test_fails():
    print("printed by the test")
    assert 1 == 2

@pytest.fixture
def broken():
    yield
    raise RuntimeError("not taken away")

def test_is_not_taken_away(broken):
    pass

@pytest.mark.skip(reason="not here")
def test_is_skipped():
    pass
"""
DEADLY = """
import os

def test_kills_its_worker():
    os._exit(3)
"""


def run(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    options = ["-p", "tests.workers", "--workers=2", "-p", "no:cacheprovider", "-ra", f"--rootdir={place}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *args, str(place)],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_test_runs_once_and_what_fails_or_dies_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text(MODULE)
    (tmp_path / "test_bad.py").write_text(BAD)
    (tmp_path / "test_last.py").write_text(DEADLY)
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert "2 failed, 41 passed, 1 skipped, 1 error" in last
    assert "a worker ended with exit code 3" in done.stdout
    assert "printed by the test" in done.stdout
    assert "FAILED test_bad.py::test_fails - assert 1 == 2" in done.stdout
    assert "ERROR test_bad.py::test_is_not_taken_away - RuntimeError: not taken away" in done.stdout
    assert "FAILED test_last.py::test_kills_its_worker - the worker ended in this test" in done.stdout
    assert len(list(tmp_path.glob("test_good-*"))) == 40
    assert 1 <= len(list(tmp_path.glob("made-*"))) <= 2


@pytest.mark.thorough
@run_for_each(("args", "code", "last"), [([], 0, " 40 passed"), (["-x", "-k", "fails or number"], 1, " 1 failed")])
def test_what_goes_well_ends_well_and_the_first_failure_ends_it_when_asked_to(
    args: list[str], code: int, last: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("place")
    (place / "test_good.py").write_text(MODULE)
    if args:
        (place / "test_bad.py").write_text(BAD)
    done = run(place, *args)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    assert last in done.stdout.splitlines()[-1]
