"""What a process uses, as Linux tells (proc(5)): CPU time so far, resident memory and its peak."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """One process at one moment."""

    cpu_seconds: float
    rss_bytes: int
    peak_bytes: int


def usage(pid: int) -> Usage:
    """Return what a process uses; its threads count, its children do not.

    Raises:
        ProcessLookupError: it has ended, so that it has no memory any more.
    """
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if line
    )
    if "VmRSS" not in status:
        raise ProcessLookupError(f"process {pid} has ended")
    cpu_seconds = (int(stat[11]) + int(stat[12])) / _TICKS_PER_SECOND
    return Usage(cpu_seconds, _bytes(status["VmRSS"]), _bytes(status["VmHWM"]))


def _bytes(text: str) -> int:
    return int(text.split()[0]) * 1024
