"""How slow this machine is, so that the time limits of the suites scale with it.

Every wait of the harness has a limit in seconds on a free reference machine. `time_scale()` says by how much the limits
are stretched here: the same work is timed on all cores at once, once per process, before the first limit is used. Other
work on the machine makes it slower, and is measured with it. What must be quick is judged by what a test measures,
never by a limit.

`python -m e2e.harness.machine_speed` prints the scale; pytest prints it in its header, `.ci/run` at its start.
"""

import functools
import hashlib
import os
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

REFERENCE_SECONDS = 0.1
"""What one round takes on a free core of the machine on which the limits were chosen (a cloud VM of 2026)."""
ROUNDS = 5
_BLOCKS = 16
_TIMEOUT = re.compile(r"--timeout=(\d+)s\b")
_BLOCK = bytes(8 * 1024 * 1024)
PATIENCE = 3.0
"""Limits are at least this many times what a free machine needs: load may begin after the measurement."""
MOST = 20.0
"""A machine that needs more is stuck; a suite that waits even longer would hide it."""


def time_scale() -> float:
    """Return by how much every time limit is stretched on this machine, from `PATIENCE` to `MOST`."""
    return min(MOST, PATIENCE * max(1.0, slowness()))


@functools.cache
def slowness() -> float:
    """Return the time that fixed work takes on all cores at once, relative to the reference machine (1.0)."""
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        return statistics.median(pool.map(_round_seconds, range(ROUNDS * cores))) / REFERENCE_SECONDS


def stretched(line: str) -> str:
    """Return a command line with each `--timeout=60s`, as kubectl and Helm have it, stretched like other limits."""
    return _TIMEOUT.sub(lambda found: f"--timeout={int(found[1]) * time_scale():.0f}s", line)


def describe() -> str:
    """Return one line that says how slow the machine is and what follows for time limits."""
    return f"this machine takes {slowness():.1f} times the reference time: limits are {time_scale():.1f} times as long"


def _round_seconds(_: int) -> float:
    began = time.perf_counter()
    digest = hashlib.sha256()
    for _ in range(_BLOCKS):  # without Python's lock, so that all cores work
        digest.update(_BLOCK)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(describe())
