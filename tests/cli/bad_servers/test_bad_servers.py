"""Every command against every bad server: an exit code, an end in time, and a word that names the server."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slack.cli.inputs import prometheus_server
from slack.kube import deadline
from slack.kube.deadline import Deadline
from tests.cli.bad_servers.rows import COMPLETION, ROWS, Ending, Row, ways
from tests.cli.bad_servers.servers import LATE, NINE, OTHERS, BadServer, serving
from tests.cli.bad_servers.table import MOST_SECONDS, OURS, all_tried, lines, words_of
from tests.cli.conftest import Run, run
from tests.examples import by_profile

_HTML = next(server for server in NINE if server.name == "html")
_STATUS = ROWS[0]
_SEEN_AT_ONCE = [row for row in ROWS if row.ending in (Ending.REFUSES, Ending.PROCESS) and not row.execs]
_EXECS = [row for row in ROWS if row.execs]
_ALL_SERVERS = ("status --kubeconfig {config}", "record --out", "audit --no-names --prometheus {url}")
_LATER = ("silent", "html", "half JSON", "500")

__all__ = ["run"]


def test_every_command_that_can_reach_a_server_has_a_row() -> None:
    assert {(row.command, row.server) for row in ROWS} == set(ways())


@pytest.mark.parametrize("row", _SEEN_AT_ONCE, ids=lambda row: row.name)
def test_a_login_page_is_named_by_every_command(run: Run, tmp_path: Path, row: Row) -> None:
    with serving(_HTML, tmp_path, []) as address:
        found = run(*words_of(row, address, tmp_path))
    assert found.code == 2, found.stderr
    assert address in found.stderr
    assert "mistake" not in found.stderr


@pytest.mark.parametrize(
    "row",
    [_EXECS[0], *(pytest.param(row, marks=pytest.mark.thorough) for row in _EXECS[1:])],
    ids=lambda row: row.name,
)
def test_a_login_page_is_named_by_a_command_that_becomes_another_program(tmp_path: Path, row: Row) -> None:
    program = str(Path(sys.executable).parent / "resource-slack")
    with serving(_HTML, tmp_path, []) as address:
        words = [program, *words_of(row, address, tmp_path)]
        found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode in (1, 2), found.stderr
    assert address in found.stderr
    assert "mistake" not in found.stderr


@pytest.mark.parametrize("server", [*NINE, *OTHERS], ids=lambda server: server.name)
def test_every_bad_server_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: BadServer
) -> None:
    monkeypatch.setattr(deadline, "FIRST_ANSWER_SECONDS", 0.5 if server.name in ("silent", "slow", "slow body") else 60)
    with serving(server, tmp_path, []) as address:
        found = run(*words_of(_STATUS, address, tmp_path))
    assert found.code == 2, found.stderr
    assert f"error: {address}: GET " in found.stderr
    assert not [text for text in OURS if text in found.stderr]


@pytest.mark.parametrize("server", LATE, ids=lambda server: server.name)
@pytest.mark.parametrize("words", ["uninstall --kubeconfig", "audit --no-names --prometheus"])
def test_a_server_that_falls_ill_later_is_named_as_well(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: BadServer, words: str
) -> None:
    monkeypatch.setattr(deadline, "SILENT_SECONDS", 0.5 if server.name in ("silent", "slow", "slow body") else 60)
    monkeypatch.setattr(prometheus_server, "QUERY_SECONDS", deadline.SILENT_SECONDS)
    monkeypatch.setattr(prometheus_server, "_MOST_BYTES", by_profile(8, 256) << 20)
    row = next(row for row in ROWS if row.words.startswith(words))
    with serving(server, tmp_path, [], late=True) as address:
        found = run(*words_of(row, address, tmp_path))
    assert found.code == 2, found.stderr
    assert address in found.stderr
    assert not [text for text in OURS if text in found.stderr]


def test_a_person_is_told_after_two_seconds_for_whom_he_waits(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "WORD_SECONDS", 0.1)
    monkeypatch.setattr(deadline, "FIRST_ANSWER_SECONDS", 1.0)
    silent = next(server for server in NINE if server.name == "silent")
    with serving(silent, tmp_path, []) as address:
        found = run(*words_of(_STATUS, address, tmp_path))
    assert found.stderr.splitlines()[0] == f"waiting for the API server at {address}"


class WaitingCounted(threading.Event):
    """Moves the clock that patience goes by, by what is waited: what else a loaded machine does counts nothing."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if not super().wait(0.02):
            WaitingCounted.seconds += timeout or 0.0
        return self.is_set()


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["silent", "slow"])
@pytest.mark.parametrize("row", [row for row in ROWS if row.ending is Ending.REFUSES], ids=lambda row: row.name)
def test_no_command_waits_longer_than_twenty_seconds_for_who_never_answers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row, server: str
) -> None:
    start = deadline._Attempt.start

    def counted(attempt: deadline._Attempt[object]) -> None:
        attempt.done = WaitingCounted()
        start(attempt)

    monkeypatch.setattr(WaitingCounted, "seconds", 0.0)
    monkeypatch.setattr(deadline._Attempt, "start", counted)
    defaults = {**(Deadline.__init__.__kwdefaults__ or {}), "clock": lambda: WaitingCounted.seconds}
    monkeypatch.setattr(Deadline.__init__, "__kwdefaults__", defaults)
    bad = next(found for found in NINE if found.name == server)
    with serving(bad, tmp_path, []) as address:
        found = run(*words_of(row, address, tmp_path))
    assert found.code == 2, found.stderr
    assert address in found.stderr
    assert deadline.WORD_SECONDS < WaitingCounted.seconds <= MOST_SECONDS


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", [*ROWS, COMPLETION], ids=lambda row: row.name)
def test_every_call_ends_with_its_exit_code_and_without_a_traceback(tmp_path: Path, row: Row) -> None:
    """As processes. `python -m tests.cli.bad_servers --late` prints the whole table; it goes by the wall clock."""
    servers = (*NINE, *OTHERS) if row.words.startswith(_ALL_SERVERS) else NINE
    calls = [(row, server, False) for server in servers]
    calls += [(row, server, True) for server in LATE if row.late and server.name in _LATER]
    cells = all_tried(calls, tmp_path)
    faults = [(cell, cell.faults(timed=False)) for cell in cells]
    wrong = [(cell.server, found, cell.stderr[-500:]) for cell, found in faults if found]
    assert not wrong, "\n".join(lines(cells))
