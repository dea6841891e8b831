"""What goes on, while it goes on, on stderr: one line that is redrawn on a terminal, a line now and then elsewhere."""

import shutil
import sys
import time
from types import TracebackType
from typing import Self

from slack.loadtest.report import LoadTestReport, Moment

_LINE_SECONDS = 5.0


class LiveLine:
    """One line. stdout stays free for the answer."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._told_at = 0.0
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def show(self, moment: Moment, report: LoadTestReport) -> None:
        """Show how it stands."""
        text = live_text(moment, report)
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            print(f"\r\x1b[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)
            self._drawn = True
        elif time.monotonic() - self._told_at >= _LINE_SECONDS:
            self._told_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def print_line(self, text: str) -> None:
        """Say something that stays."""
        self._clear()
        print(printable(text), file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False


def printable(text: str) -> str:
    """Return a text in which nothing moves a cursor: webhooks and quotas are named by others."""
    return "".join(char if char.isprintable() else " " for char in text)


def live_text(moment: Moment, report: LoadTestReport) -> str:
    """Return the line."""
    waits = ""
    p50, p99 = report.percentile_seconds(50), report.percentile_seconds(99)
    if p50 is not None and p99 is not None:
        waits = f", p50 {p50:.1f} s, p99 {p99:.1f} s"
    return (
        f"{moment.seconds:4.0f} s  {moment.bound} on nodes, {moment.waiting} waiting{waits}; "
        f"{report.displaced} placeholders left for them; {moment.nodes} nodes"
    )
