"""Lines that machines and people can read, and an orderly end."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from slack.process import logs
from slack.process.logs import LogFormat, LogLevel, fields
from slack.process.stopping import Stopping


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)


def test_a_json_line_holds_the_message_and_the_fields(stream: io.StringIO) -> None:
    logs.set_up(LogFormat.JSON, LogLevel.INFO, stream)
    logging.getLogger("a").info("lowered %d", 3, extra=fields(policy="web", uid=object))
    line = json.loads(stream.getvalue())
    assert (line["message"], line["level"], line["policy"], line["logger"]) == ("lowered 3", "info", "web", "a")


def test_a_json_line_holds_the_exception(stream: io.StringIO) -> None:
    logs.set_up(LogFormat.JSON, LogLevel.INFO, stream)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("a").exception("failed")
    assert "ValueError: no" in json.loads(stream.getvalue())["exception"]


def test_a_console_line_ends_with_the_fields(stream: io.StringIO) -> None:
    logs.set_up(LogFormat.CONSOLE, LogLevel.WARNING, stream)
    logging.getLogger("a").info("not shown")
    logging.getLogger("a").warning("shown", extra=fields(policy="web"))
    logging.getLogger("a").error("plain")
    first, second = stream.getvalue().splitlines()
    assert first.endswith("WARNING shown policy=web")
    assert second.endswith("plain")


def test_libraries_are_quiet_unless_everything_is_wanted(stream: io.StringIO) -> None:
    logs.set_up(LogFormat.CONSOLE, LogLevel.INFO, stream)
    logging.getLogger("kopf.objects").info("handled")
    assert stream.getvalue() == ""


def test_the_first_reason_to_stop_is_kept() -> None:
    stopping = Stopping()
    assert not stopping.wait(0)
    stopping.request("the lease is lost", exit_code=1)
    stopping.request("SIGTERM")
    assert (stopping.requested, stopping.reason, stopping.exit_code) == (True, "the lease is lost", 1)


def test_a_signal_asks_for_the_end() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        stopping = Stopping()
        stopping.on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(5)
        assert (stopping.reason, stopping.exit_code) == ("SIGTERM", 0)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


@pytest.mark.parametrize(("later_seconds", "code"), [(0.0, 7), (1.2, -signal.SIGTERM)])
def test_a_second_signal_ends_the_process_only_when_it_comes_later(later_seconds: float, code: int) -> None:
    script = (
        "import os, signal, sys, time\n"
        "from slack.process.stopping import Stopping\n"
        "stopping = Stopping(); stopping.on_signals()\n"
        "os.kill(os.getpid(), signal.SIGINT); stopping.wait(5)\n"
        f"time.sleep({later_seconds}); os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(7 if stopping.reason == 'SIGINT' else 8)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=20).returncode == code


def test_an_api_server_that_is_away_is_told_once_and_then_twice_a_minute() -> None:
    now = [100.0]
    repeats = logs.Repeats(clock=lambda: now[0])

    def shown(path: str, cause: str, name: str = "slack.kube.reflector", level: int = logging.WARNING) -> bool:
        text = "reflector %s: GET %s: %s; again in %.1f s"
        record = logging.LogRecord(name, level, "", 0, text, (path, path, cause, now[0] % 7), None)
        found = bool(repeats.filter(record))
        if found and hasattr(record, "slack_fields"):
            left_out.append(record.slack_fields["repeated"])
        return found

    left_out: list[int] = []
    refused = "[Errno 111] Connection refused"
    assert shown("/pods", refused)
    assert not any(shown(path, refused) for path in ("/pods", "/nodes", "/jobs"))
    assert shown("/pods", "403 Forbidden"), "another cause is another line"
    assert shown("/pods", refused, name="slack_operator.placeholders.loop"), "decisions are never left out"
    assert shown("/pods", refused, level=logging.INFO)
    now[0] += 31
    assert shown("/nodes", refused)
    assert left_out == [3]


@pytest.mark.parametrize(("ignored", "said"), [(False, "SIGHUP"), (True, "")])
def test_a_closed_terminal_asks_for_the_end_however_often_and_nohup_keeps_it_out(ignored: bool, said: str) -> None:
    code = (
        "import signal, time\n"
        "from slack.process.stopping import Stopping\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "stopping = Stopping(); stopping.on_signals()\n"
        f"signal.raise_signal(signal.SIGHUP); stopping.wait({0.1 if ignored else 5.0})\n"
        f"time.sleep({0.0 if ignored else 1.2}); signal.raise_signal(signal.SIGHUP)\n"
        "print(stopping.reason)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == f"{said}\n"
