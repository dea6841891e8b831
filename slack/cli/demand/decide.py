"""`demand decide`: what the rules say of queues whose figures are given, offline."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.inputs.files import name_of, read_bytes
from slack.cli.terminal.problems import UserError

_EXAMPLE = '{"namespace_limit": 20, "action_limit": 10, "queued": 37, "stale": 12, "containers": 1}'
_Lines = Annotated[
    Path | None,
    typer.Option("--lines", help="Queues, a JSON object a line (docs/reference/demand-lines.md); - is stdin."),
]
_Guards = Annotated[
    str,
    typer.Option("--guards", help="Guards that hold: all, none, or a list such as G1,G4.", metavar="LIST"),
]


def decide(lines: _Lines = None, guards: _Guards = "all") -> None:
    """Decide about queues whose figures are given, offline: a JSON line in, its decision out.

    G2 and G3 weigh queues against each other, and change nothing of a queue that stands alone. Exit code 0; 2: a line
    is no queue's figures, and is named with its field. The decisions about the lines before it are printed.

    [bold]Examples[/bold]

        resource-slack demand decide --lines examples/queues.jsonl

        resource-slack demand decide --lines examples/queues.jsonl --guards none
    """
    from slack.demand.lines import InvalidQueueLine, decision_line
    from slack.demand.model import Guards, InvalidGuards

    if lines is None:
        raise UserError(f"--lines: give a file with a queue a line, such as {_EXAMPLE}")
    try:
        held = Guards.parse(guards)
    except InvalidGuards as error:
        raise UserError(f"--guards: {error}") from None
    out = sys.stdout.buffer
    for number, line in enumerate(read_bytes(lines).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            out.write(decision_line(line, held))
        except InvalidQueueLine as error:
            out.flush()
            raise UserError(f"{name_of(lines)}, line {number}: {error}") from None
    out.flush()
