"""Threads that keep CPUs busy, and note when they were: `python -m e2e.harness.node.busy_threads JSON`.

A process of its own, so that it can be moved into a control group before its first thread starts. Hashing a large
buffer lets go of the interpreter's lock, so the threads run at once. All of them write down when they finished a piece
of work; where *no* thread did for a while, the whole group stood still, which is what a quota does and what neighbours
on the same CPUs hardly do.
"""

import hashlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError

_PIECE = b"\0" * 65_536  # 30-200 us of hashing
STOP_NS = 5_000_000
"""Nothing done for longer than this is a stop: pieces take far less, and a scheduler's slice is 3 ms."""


@dataclass(frozen=True)
class Work:
    """What the threads do."""

    threads: int
    seconds: float
    busy_ms: float = 0.0
    """CPU time that each thread uses each time; 0: always busy."""
    every_ms: float = 0.0
    """How long after the last such piece of work began the next begins."""
    cpus: Sequence[int] = ()
    """Where they may run; none: anywhere."""


@dataclass(frozen=True)
class Done:
    """What came of it."""

    cpu_seconds: float
    stops_ns: Sequence[int]
    """How long the group stood still, each time, without the first and the last stop, which are not whole."""
    runs_ns: Sequence[int]
    """How long it ran between two stops."""
    pieces_ns: Sequence[int]
    """How long each thread's piece of work took, by the clock; empty for threads that are always busy."""

    @property
    def stop_ms(self) -> float:
        """The median stop; 0 when there was none."""
        return statistics.median(self.stops_ns) / 1e6 if self.stops_ns else 0.0

    @property
    def run_ms(self) -> float:
        """The median time between two stops; 0 when there were none."""
        return statistics.median(self.runs_ns) / 1e6 if self.runs_ns else 0.0

    @property
    def piece_ms(self) -> float:
        """The median time that a piece of work took."""
        return statistics.median(self.pieces_ns) / 1e6


class Threads:
    """The process with the threads, in a control group (of several hierarchies).

    Usage:

        with Threads(Work(threads=2, seconds=5), [folder]) as threads:
            ...                       # they run
            done = threads.result()   # waits for their end
    """

    def __init__(self, work: Work, folders: Sequence[Path]) -> None:
        self._work = work
        self._folders = folders
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start the process, move it into the group, and let the threads go."""
        command = [sys.executable, "-m", "e2e.harness.node.busy_threads", json.dumps(asdict(self._work))]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        try:
            self._read()
            for folder in self._folders:
                (folder / "cgroup.procs").write_text(str(self._process.pid), encoding="ascii")
            assert self._process.stdin is not None
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BaseException:
            self.stop()
            raise
        return self

    def result(self) -> Done:
        """Wait until the time of the work is over and return what was seen."""
        return Done(**json.loads(self._read()))

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HarnessError(f"the threads' process ended with {self._process.wait()}")
        return line


def _always(marks: list[int], until_ns: int) -> None:
    now = time.monotonic_ns()
    while now < until_ns:
        hashlib.sha256(_PIECE).digest()
        now = time.monotonic_ns()
        marks.append(now)


def _now_and_then(work: Work, pieces: list[int], until_ns: int) -> None:
    begin = time.monotonic_ns()
    while begin < until_ns:
        cpu_until = time.thread_time_ns() + int(work.busy_ms * 1e6)
        while time.thread_time_ns() < cpu_until:
            hashlib.sha256(_PIECE).digest()
        now = time.monotonic_ns()
        pieces.append(now - begin)
        begin += int(work.every_ms * 1e6)
        time.sleep(max(0, begin - now) / 1e9)


def _run(work: Work) -> Done:
    until_ns = time.monotonic_ns() + int(work.seconds * 1e9)
    notes: list[list[int]] = [[] for _ in range(work.threads)]
    began = time.process_time()
    if work.every_ms:
        threads = [threading.Thread(target=_now_and_then, args=(work, note, until_ns)) for note in notes]
    else:
        threads = [threading.Thread(target=_always, args=(note, until_ns)) for note in notes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu_seconds = time.process_time() - began
    if work.every_ms:
        return Done(cpu_seconds, (), (), [piece for note in notes for piece in note])
    marks = sorted(mark for note in notes for mark in note)
    gaps = [(left, right) for left, right in itertools.pairwise(marks) if right - left > STOP_NS]
    stops = [right - left for left, right in gaps[1:-1]]
    runs = [after[0] - before[1] for before, after in itertools.pairwise(gaps)]
    return Done(cpu_seconds, stops, runs, ())


def main(text: str) -> None:
    """Wait for a line, work, and print what was seen."""
    work = Work(**json.loads(text))
    if work.cpus:
        os.sched_setaffinity(0, work.cpus)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(_run(work))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
