"""The trace file of a recording: whether it can be written, and its writing, whole (beside its place, then renamed)."""

import errno
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slack.cli.terminal.problems import UserError
from slack.process.atomic_write import write_atomically

if TYPE_CHECKING:
    from slack.simulator.traces.format import Trace

FLUSH_SECONDS = 30.0


def check_place(out: Path, *, overwrite: bool) -> None:
    """Find out before a long recording whether its file can be written.

    Raises:
        UserError: when it cannot, or would replace another.
    """
    try:
        if out.is_dir():
            raise UserError(f"--out: {out} is a folder; name a file in it")
        if out.exists() and not overwrite:
            raise UserError(f"--out: {out} is there already; add --overwrite to replace it")
        with tempfile.TemporaryFile(dir=out.absolute().parent):
            pass
    except OSError as error:
        raise UserError(_words(out, error)) from None


def flush(out: Path, trace: "Trace", counts: tuple[int, int] | None) -> None:
    """Write what there is, and tell the counts; a disk that is full now may have room at the next turn."""
    from slack.simulator.traces.parquet import write_trace

    try:
        write_atomically(out, write_trace(trace))
    except OSError as error:
        tell(f"{_words(out, error)}; the file holds what was written before, trying again in {FLUSH_SECONDS:g} s")
        return
    if counts is not None:
        tell(f"{trace.seconds:.0f} s: {counts[0]} pods came, {counts[1]} nodes started")


def write(out: Path, trace: "Trace") -> None:
    """Write all that was recorded.

    Raises:
        UserError: when it cannot be written.
    """
    from slack.simulator.traces.parquet import write_trace

    try:
        write_atomically(out, write_trace(trace))
    except OSError as error:
        raise UserError(_words(out, error)) from None


def _words(out: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"--out: {out}: the disk is full"
    return f"--out: {out}: {(error.strerror or str(error)).lower()}"


def tell(text: str) -> None:
    """Say something on stderr, with the time: recordings take hours."""
    typer.echo(f"{datetime.now(UTC):%H:%M:%S} {text}", err=True)
