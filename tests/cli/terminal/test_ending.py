"""The end of a command: quick, and nothing that somebody waits for is lost."""

import subprocess
import sys

import pytest

_END = "from slack.cli.terminal.ending import end_at_once\n"


def ended(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", _END + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("code", "expected"), [("None", 0), ("0", 0), ("3", 3), ("True", 1)])
def test_a_command_ends_with_its_exit_code_and_all_that_was_printed(code: str, expected: int) -> None:
    found = ended(f"import sys; print('out'); sys.stderr.write('err'); end_at_once({code}); print('still here')")
    assert (found.returncode, found.stdout, found.stderr) == (expected, "out\n", "err")


def test_what_was_registered_for_the_end_is_run() -> None:
    assert ended("import atexit; atexit.register(print, 'last'); end_at_once(0)").stdout == "last\n"


def test_a_text_as_exit_code_and_a_thread_that_works_are_left_to_python() -> None:
    assert ended("import sys; end_at_once('why'); sys.exit('why')").stderr == "why\n"
    worker = "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start()\n"
    assert ended(worker + "end_at_once(0)").stdout == "done\n"
