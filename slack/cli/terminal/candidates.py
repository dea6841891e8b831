"""Shell completion: what may follow the words so far.

The protocol is the one that kubectl speaks with its plugins: the words so far as arguments, the last one incomplete;
back come lines of `value<TAB>help` and at the end `:4` (only these) or `:0` (file names will do). Every shell's script
asks in the same way, so that there is one place to answer.
"""

import io
import os
import shlex
from contextlib import redirect_stderr, redirect_stdout, suppress

import typer

ASK = "__complete"
"""Hidden command, with the words after it."""
_VARIABLE = "_RESOURCE_SLACK_COMPLETE"
_ONE_LINE = "10000"
_ONLY_THESE, _FILES = ":4", ":0"


def completion_answer(app: typer.Typer, words: list[str]) -> str:
    """Return the answer to a shell: lines of candidates and the last line that says what else will do.

    Args:
        app: the commands that may follow.
        words: what was typed after the program's name, the last one incomplete, maybe ''.
    """
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()  # makes the library know its shells
    *whole, incomplete = words or [""]
    asked = shlex.join(["resource-slack", *whole]) + " " + (shlex.quote(incomplete) if incomplete else "")
    question = {
        _VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_ARGS": asked,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COLUMNS": _ONE_LINE,  # the library breaks a help text as for a terminal
    }
    before = {name: os.environ.get(name) for name in question}
    os.environ |= question
    found = io.StringIO()
    try:
        with redirect_stdout(found), redirect_stderr(io.StringIO()), suppress(SystemExit):
            app(args=[], prog_name="resource-slack")
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    lines = [_short(line) for line in found.getvalue().splitlines() if line.strip()]
    return "\n".join([*lines, _ONLY_THESE if lines else _FILES]) + "\n"


def _short(line: str) -> str:
    """Keep a help text's first sentence: a list of candidates has one line each."""
    value, tab, text = line.partition("\t")
    first = text.split(". ")[0].strip().removesuffix(".")
    return f"{value}{tab}{first}" if first else value
