"""How loaded the node is, by its /proc: load average, share of busy CPUs, pressure (PSI).

What cannot be read, or is not what the kernel writes, is unknown, and why is kept: an unknown figure holds nobody back,
a wrong one would. Nothing is read more often than a few times a second, however often it is asked. Owned by one thread.
"""

import os
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from slack.throttler.limits import Usage

LEAST_SECONDS: Final = 0.25
"""From one reading to the next: asked sooner, the former is given again."""
SHORTEST_SECONDS: Final = 1.0
"""A share of CPU time over less says nothing: ticks are 10 ms."""
_MOST_BYTES = 4096
"""Of each file; the line that is read is its first."""
_KEPT_A_WINDOW = 20
_LOAD = re.compile(rb"(\d{1,9}\.\d\d) \d{1,9}\.\d\d \d{1,9}\.\d\d \d+/\d+ \d+\n")
_SOME = re.compile(rb"some avg10=(\d{1,3}\.\d\d) avg60=\d{1,3}\.\d\d avg300=\d{1,3}\.\d\d total=\d+\n")
_CPU = re.compile(rb"cpu +((?:\d{1,20} ){7,}\d{1,20})\n")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
"""Places in the first line of /proc/stat; what guests use, behind them, is part of user time."""

T = TypeVar("T")


class Unreadable(Exception):
    """A figure is not known now; the text says why."""


class NotYet(Unreadable):
    """It will be known soon."""


class _Ticks(NamedTuple):
    at: float
    busy: int
    total: int


class NodeUsageReader:
    """The usage of one node; call `read`."""

    def __init__(self, proc: Path) -> None:
        self.unknown: dict[str, str] = {}
        """By figure, why it is not known; a figure that is known is not in it."""
        self.troubles: dict[str, str] = {}
        """Those of them that no waiting mends."""
        self._proc = proc
        self._ticks: deque[_Ticks] = deque()
        self._read_at = float("-inf")
        self._usage = Usage()

    def read(self, now: float, average_over_seconds: float) -> Usage:
        """Return what the node says of itself.

        Args:
            now: monotonic seconds.
            average_over_seconds: over which the share of busy CPU time is taken; over what there is while that is
                shorter.
        """
        if 0 <= now - self._read_at < LEAST_SECONDS:
            return self._usage
        self._read_at = now
        self._usage = Usage(
            load1=self._known("load1", self._load),
            cpu=self._known("cpu", lambda: self._cpu(now, average_over_seconds)),
            cpu_pressure=self._known("cpu_pressure", lambda: self._pressure("cpu")),
            io_pressure=self._known("io_pressure", lambda: self._pressure("io")),
        )
        return self._usage

    def _known(self, figure: str, read: Callable[[], T]) -> T | None:
        try:
            value = read()
        except Unreadable as problem:
            self.unknown[figure] = str(problem)
            if isinstance(problem, NotYet):
                self.troubles.pop(figure, None)
            else:
                self.troubles[figure] = str(problem)
            return None
        self.unknown.pop(figure, None)
        self.troubles.pop(figure, None)
        return value

    def _load(self) -> float:
        return float(self._first_line("loadavg", _LOAD)[1])

    def _pressure(self, resource: str) -> float:
        percent = float(self._first_line(f"pressure/{resource}", _SOME)[1])
        if percent > 100:
            raise Unreadable(f"{self._proc / 'pressure' / resource}: {percent:g} is no percentage")
        return percent / 100

    def _cpu(self, now: float, average_over_seconds: float) -> float:
        ticks = self._now(now)
        if self._ticks:
            last = self._ticks[-1]
            if now < last.at or ticks.total < last.total or ticks.busy < last.busy:
                self._ticks.clear()  # a CPU that was taken away takes its time with it
            elif now - last.at > 2 * average_over_seconds + SHORTEST_SECONDS:
                self._ticks.clear()  # nobody has looked for so long
        while len(self._ticks) > 1 and self._ticks[1].at <= now - average_over_seconds:
            self._ticks.popleft()
        before = self._ticks[0] if self._ticks else None
        if not self._ticks or now - self._ticks[-1].at >= average_over_seconds / _KEPT_A_WINDOW:
            self._ticks.append(ticks)
        if before is None or now - before.at < SHORTEST_SECONDS or ticks.total == before.total:
            raise NotYet(f"CPU time has not been watched for {SHORTEST_SECONDS:g} s yet")
        share = (ticks.busy - before.busy) / (ticks.total - before.total)
        if not 0 <= share <= 1:
            self._ticks.clear()
            raise Unreadable(f"{self._proc / 'stat'}: more time was busy than passed")
        return share

    def _now(self, now: float) -> _Ticks:
        try:
            found = self._first_line("stat", _CPU)
        except Unreadable:
            self._ticks.clear()
            raise
        spent = [int(word) for word in found[1].split()][: _STEAL + 1]
        total = sum(spent)
        return _Ticks(now, total - spent[_IDLE] - spent[_IOWAIT], total)

    def _first_line(self, name: str, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Read the beginning of a file of /proc at once: what the kernel gives in one read is of one moment.

        Raises:
            Unreadable: it is not there, or not as the kernel writes it.
        """
        place = self._proc / name
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                text = os.read(descriptor, _MOST_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise Unreadable(f"{place}: {error.strerror}") from None
        found = pattern.match(text)
        if found is None:
            raise Unreadable(f"{place}: is not as the kernel writes it")
        return found
