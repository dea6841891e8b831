"""The core of the suites: what is in it, that a failure is run once more alone, and that neither result is hidden."""

from pathlib import Path

import pytest

from e2e import core

REPORT = '<testsuites><testsuite name="pytest" errors="{}" failures="{}" skipped="{}" tests="{}"/></testsuites>'


def test_the_suites_of_the_core_are_those_with_a_test_that_is_marked() -> None:
    marked = {path.name for path in core.FOLDER.glob("test_*.py") if "mark.core" in path.read_text(encoding="utf-8")}
    assert marked == set(core.SUITES)
    assert len(core.SUITES) == len(marked)


def test_a_core_test_never_waits_for_a_fixed_time() -> None:
    """Waits are for conditions; the one sleep left chooses the moment of a fault."""
    found = []
    for name in core.SUITES:
        text = (core.FOLDER / name).read_text(encoding="utf-8")
        for part in text.split("\n\n\n"):
            if "mark.core" in part and "def test_" in part:
                found += [(name, line.strip()) for line in part.splitlines() if "time.sleep(" in line]
    assert found == [("test_faults.py", "time.sleep(moment)")]


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        (REPORT.format(0, 0, 0, 4), (4, 0, 0)),
        (REPORT.format(1, 2, 3, 10), (4, 3, 3)),
        (None, (0, 1, 0)),
    ],
    ids=["all passed", "each kind", "no report"],
)
def test_counts_are_read_from_pytests_report(tmp_path: Path, report: str | None, counts: tuple[int, int, int]) -> None:
    path = tmp_path / "junit.xml"
    if report is not None:
        path.write_text(report)
    assert core.read_counts(path) == counts


def result(name: str, exit_code: int, passed: int = 2, failed: int = 0) -> core.SuiteResult:
    return core.SuiteResult(name, exit_code, passed, failed, 0, 1.0, f"what {name} printed")


@pytest.mark.parametrize(
    ("first", "again", "code", "said"),
    [
        (0, None, 0, "core: 4 passed, 0 failed"),
        (1, 0, 0, "run a second time, alone: test_faults.py passed"),
        (1, 1, 1, "run a second time, alone: test_faults.py failed again"),
        (-9, 0, 0, "run a second time, alone: test_faults.py passed"),
        (core.NO_TEST_WAS_RUN, None, 1, "core: 2 passed, 1 failed"),
    ],
)
def test_a_suite_that_fails_is_run_once_more_and_both_results_are_shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    first: int,
    again: int | None,
    code: int,
    said: str,
) -> None:
    left = {"test_faults.py": [first, again], "test_scorer.py": [0, None]}

    def run(name: str) -> core.SuiteResult:
        exit_code = left[name].pop(0)
        assert exit_code is not None, f"{name} was run too often"
        return result(name, exit_code, *((2, 0) if exit_code == 0 else (0, 1)))

    monkeypatch.setattr(core, "run_suite", run)
    monkeypatch.setattr("e2e.core.build.ensure", lambda names: {})
    assert core.main(["test_faults", "test_scorer.py"]) == code
    printed = capsys.readouterr().out
    assert said in printed
    assert ("what test_faults.py printed" in printed) == (first != 0)


def test_an_unknown_suite_is_refused_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert core.main(["test_nothing"]) == 2
    assert "test_nothing.py" in capsys.readouterr().out


def test_a_suite_that_hangs_is_ended_and_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "SUITE_SECONDS", 0.2)
    monkeypatch.setattr(core, "time_scale", lambda: 1.0)
    monkeypatch.setattr(core, "suite_command", lambda name, folder: ["/bin/sleep", "30"])
    found = core.run_suite("test_faults.py")
    assert (found.exit_code, found.failed) == (-1, 1)
    assert "ended after 0 s" in found.output
