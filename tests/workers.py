"""Run the tests in several processes that are forked once all tests are collected: `-p tests.workers --workers 2`.

The workers of pytest-xdist import and collect all tests each for itself, and tell of each test six times. Here one
process collects, and a worker tells what the terminal shows. A worker takes some tests of one module at a time, so that
what a module shares is made once.
"""

import multiprocessing
import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

_FORK = multiprocessing.get_context("fork")
_AT_ONCE = 16
"""Tests that a worker takes at a time; it ends at most so many later than the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", metavar="N", default="0", help="forked processes for the tests; auto: one a core")


def _worker_count(config: pytest.Config) -> int:
    asked: str = config.getoption("--workers")
    if config.getoption("usepdb") or config.getoption("capture") == "no" or not hasattr(os, "fork"):
        return 0
    return (os.cpu_count() or 1) if asked == "auto" else int(asked)


def _pieces(items: Sequence[pytest.Item]) -> Iterator[list[int]]:
    """Yield the numbers of the tests that a worker takes at once: some that follow one another in a module."""
    for _, found in groupby(range(len(items)), key=lambda number: items[number].path):
        numbers = list(found)
        for start in range(0, len(numbers), _AT_ONCE):
            yield numbers[start : start + _AT_ONCE]


class _Queue:
    """The pieces, each given to who asks first."""

    def __init__(self, pieces: list[list[int]]) -> None:
        self._pieces = pieces
        self._given = _FORK.Value("i", 0)

    def numbers(self) -> Iterator[int]:
        while True:
            with self._given.get_lock():
                given = self._given.value
                self._given.value = given + 1
            if given >= len(self._pieces):
                return
            yield from self._pieces[given]

    def close(self) -> None:
        """Give nothing more to anybody."""
        with self._given.get_lock():
            self._given.value = len(self._pieces)


class _Sender:
    """A worker's side: which test began, and the reports that the terminal shows."""

    def __init__(self, connection: Connection, config: pytest.Config) -> None:
        self._connection = connection
        self._config = config
        self._waiting: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._waiting.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def send(self, began: int | None) -> None:
        """Tell which test begins, or that none does any more, and what came of those before."""
        self._connection.send((began, self._waiting))
        self._waiting = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.send(None)


def _run(session: pytest.Session, numbers: Iterator[int], sender: _Sender) -> None:
    number = next(numbers, None)
    while number is not None and not (session.shouldfail or session.shouldstop):
        following = next(numbers, None)
        item = session.items[number]
        next_item = None if following is None else session.items[following]
        sender.send(number)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        number = following


def _become_worker(session: pytest.Session, sender: _Sender, name: str) -> None:
    """Leave terminal and cache to the parent: `workerinput` is what pytest's own plugins ask for."""
    config = session.config
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(sender, name)
    vars(config)["workerinput"] = {"workerid": name}


def _death_report(session: pytest.Session, number: int | None) -> pytest.TestReport:
    item = session.items[number or 0]
    nodeid, location = ("a worker", item.location) if number is None else (item.nodeid, item.location)
    return pytest.TestReport(
        nodeid, location, {}, "failed", "the worker ended in this test, and others were not run", "call"
    )


def _follow(session: pytest.Session, workers: list[Connection], queue: _Queue) -> None:
    """Show what the workers tell, until all have ended."""
    hook, terminal = session.config.hook, session.config.pluginmanager.getplugin("terminalreporter")
    last: dict[Connection, int | None] = dict.fromkeys(workers)
    while last:
        for connection in wait(list(last)):
            assert isinstance(connection, Connection)
            try:
                began, reports = connection.recv()
            except EOFError:
                hook.pytest_runtest_logreport(report=_death_report(session, last.pop(connection)))
                continue
            last[connection] = began
            for data in reports:
                report = hook.pytest_report_from_serializable(config=session.config, data=data)
                hook.pytest_runtest_logreport(report=report)
            if terminal is not None:
                terminal.flush()
            if began is None:
                del last[connection]
        if session.shouldfail or session.shouldstop:
            queue.close()


def _capture_anew(capture: Any) -> None:
    """Capture into files of this process, as between two tests: the terminal is not captured."""
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = _worker_count(session.config)
    if count < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    queue = _Queue(list(_pieces(session.items)))
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    workers: list[Connection] = []
    processes: list[int] = []
    for number in range(count):
        receiver, connection = _FORK.Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # OpenBLAS has threads, and survives a fork
            process = os.fork()
        if process == 0:
            for other in (*workers, receiver):
                other.close()
            _capture_anew(capture)
            sender = _Sender(connection, session.config)
            _become_worker(session, sender, f"worker{number}")
            _run(session, queue.numbers(), sender)
            return True
        connection.close()
        workers.append(receiver)
        processes.append(process)
    _capture_anew(capture)
    _follow(session, workers, queue)
    for process in processes:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (code and not session.testsfailed):
            session.shouldfail = f"a worker ended with exit code {code}: see above, or run with --workers=0"
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True
