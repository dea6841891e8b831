"""A small cluster as a file, and the command run as a user runs it.

Commands run in the process of the tests, as `slack.cli.main` runs them: a process of its own costs half a second of
CPU. What is about the process itself (signals, pipes, terminals, imports) starts COMMAND.
"""

import io
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from slack.cli.commands import run as run_program
from tests.cli.build import Json, listed, slack_policy, small_cluster

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).parent / "resource-slack"
_PROGRESS = re.compile(r"^.*: \d+ % after \d+ s\n", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str
    """Without the lines that tell how far a command is: they come on a slow machine only."""


Run = Callable[..., Result]
Policy = Callable[..., Path]


@contextmanager
def _process_state_kept() -> Iterator[None]:
    """Give back what belongs to the whole process and what a command may set: signal handlers and log handlers."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logger.level for name, logger in root.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    }
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, before in levels.items():
            logger = logging.getLogger(name)
            if logger.level != before:  # setting one empties the caches of all
                logger.setLevel(before)
        for number, handler in signals.items():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """Let what is started here hear Ctrl-C, even where a shell runs the tests in the background, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `resource-slack` in an empty folder, without any cluster in reach."""

    def execute(*args: str | Path, stdin: str = "", **environment: str) -> Result:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "RESOURCE_SLACK"))}
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        code: object = 0
        with (
            _process_state_kept(),
            chdir(tmp_path),
            mock.patch.dict(os.environ, clean | {"HOME": str(tmp_path)} | environment, clear=True),
            mock.patch.object(sys, "argv", [str(COMMAND), *map(str, args)]),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                run_program()
            except SystemExit as end:
                code = end.code or 0
        stdout, stderr = (_written(stream) for stream in (out, err))
        assert isinstance(code, int), code
        assert "Traceback" not in stdout + stderr
        return Result(code, stdout, _PROGRESS.sub("", stderr))

    return execute


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Write a policy file: name and spec."""

    def write(spec: Json, name: str = "web", file: str = "policy.yaml") -> Path:
        path = tmp_path / file
        path.write_text(json.dumps(slack_policy(spec, name)))
        return path

    return write


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Three nodes with six pods of one Deployment."""
    path = tmp_path / "cluster.json"
    path.write_text(listed(*small_cluster()))
    return path
