"""The live probe for the kernel's quota bug: bursts that never need half of the quota must not be throttled.

Ten threads burn 1 ms each about ten times a second under a quota of 20 ms in 100 ms, for five seconds, in a cgroup of
their own. A kernel that takes unused slices back (CVE-2019-19922: it let them expire) does not throttle them. It can
prove `bad` only: a sound kernel throttles a little when a burst falls across the end of a period, so single periods
prove nothing, and on few CPUs the bug does not show.
"""

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from slack.audit.sources import cpustat
from slack.audit.sources.cpustat import CpuStat, Malformed
from slack.audit.sources.descriptors import read_once
from slack.audit.sources.mounts import InvalidMounts, find_mounts

QUOTA_US = 20_000
PERIOD_US = 100_000
THREADS = 10
BURST_SECONDS = 0.001
EVERY_SECONDS = 0.103
"""Not the period itself: so bursts wander through it, and only some fall across its end."""
LEAST_PERIODS = 30
BAD_RATIO = 0.2
"""Of throttled periods. A burst is near the end of its period in 7 of 100."""
BAD_USE = 0.6
"""Of the quota: above it the throttling may be deserved."""
GRACE_SECONDS = 10.0
_CHUNK = bytes(32 << 10)
"""Long enough for hashlib to let other threads run, short enough to stop at 1 ms."""


class ProbeState(StrEnum):
    """What the probe can say. That a kernel is good is not among it."""

    BAD = "bad"
    NOT_SHOWN = "not shown"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What it saw."""

    state: ProbeState
    reason: str
    periods: int = 0
    throttled: int = 0
    use_of_limit: float | None = None


def probe(
    seconds: float = 5.0, root: Path = Path("/"), burn: Callable[[str, float], None] | None = None
) -> ProbeResult:
    """Make a cgroup, run the threads in it, remove it. Needs root and a cpu controller; says so without.

    `burn` is given the cgroup's directory and the seconds, and is by default a process of this program's own.
    """
    try:
        mounts = find_mounts(root)
    except InvalidMounts as error:
        return ProbeResult(ProbeState.NOT_RUN, str(error))
    if is_emulated(_text(root / "proc" / "cpuinfo")):
        return ProbeResult(ProbeState.NOT_RUN, "emulated CPUs keep no time: a sound kernel throttles there too")
    folder = Path(mounts.cpu.directory, f"resource-slack-probe-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        return ProbeResult(ProbeState.NOT_RUN, f"cannot make a cgroup in {mounts.cpu.directory}: {error.strerror}")
    try:
        return _probe_in(folder, seconds, burn or _burn_in_child, is_v2=mounts.cpu.is_v2)
    except (OSError, Malformed, subprocess.SubprocessError) as error:
        return ProbeResult(ProbeState.NOT_RUN, f"the probe failed: {error}")
    finally:
        _remove(folder)


def verdict(stat: CpuStat) -> ProbeResult:
    """Judge the counters of a cgroup that was made for the probe; `usage_ns` must be known.

    Returns:
        `bad`, or `not shown` with why.
    """
    used = (stat.usage_ns or 0) / (QUOTA_US * 1000 * stat.periods) if stat.periods else 0.0
    figures = (stat.periods, stat.throttled, used)
    if stat.periods < LEAST_PERIODS:
        return ProbeResult(ProbeState.NOT_SHOWN, f"only {stat.periods} periods of {LEAST_PERIODS}", *figures)
    if used >= BAD_USE:
        text = f"used {used:.0%} of the quota, more than the threads were to: the machine is too busy to tell"
        return ProbeResult(ProbeState.NOT_SHOWN, text, *figures)
    if stat.throttled / stat.periods >= BAD_RATIO:
        text = f"throttled in {stat.throttled} of {stat.periods} periods with {used:.0%} of the quota used"
        return ProbeResult(ProbeState.BAD, text, *figures)
    text = f"throttled in {stat.throttled} of {stat.periods} periods; another machine with more CPUs may show it"
    return ProbeResult(ProbeState.NOT_SHOWN, text, *figures)


def is_emulated(cpuinfo: str) -> bool:
    """Say whether the CPUs are a program: time within a period means nothing then."""
    return "QEMU TCG" in cpuinfo or "QEMU Virtual CPU" in cpuinfo


def _probe_in(folder: Path, seconds: float, burn: Callable[[str, float], None], *, is_v2: bool) -> ProbeResult:
    if is_v2:
        if not (folder / "cpu.max").exists():
            text = "the cpu controller is not on for children of the root (cgroup.subtree_control)"
            return ProbeResult(ProbeState.NOT_RUN, text)
        (folder / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    began = _used_by_children()
    burn(str(folder), seconds)
    used_ns = _used_by_children() - began
    parse = cpustat.parse_stat_v2 if is_v2 else cpustat.parse_stat_v1
    stat = parse(read_once(str(folder / "cpu.stat")))
    return verdict(stat if stat.usage_ns is not None else stat._replace(usage_ns=used_ns))


def _burn_in_child(folder: str, seconds: float) -> None:
    """Run the threads in a process of their own, which cannot outlive its time."""
    command = [sys.executable, "-m", "slack.audit.kernel.probe", folder, str(seconds)]
    subprocess.run(command, check=True, timeout=seconds + GRACE_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)


def _used_by_children() -> int:
    """CPU time in ns; v1's cpuacct may be another hierarchy, in which the probe makes nothing."""
    times = os.times()
    return int((times.children_user + times.children_system) * 1e9)


def _remove(folder: Path) -> None:
    """A cgroup can be removed a moment after its last process has ended."""
    for _ in range(50):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _burst(until: float) -> None:
    """One thread: 1 ms of CPU time, then sleep until the next turn; what it missed it does not make up for."""
    turn = time.monotonic()
    while turn < until:
        began = time.thread_time()
        while time.thread_time() - began < BURST_SECONDS:
            hashlib.sha256(_CHUNK).digest()
        turn = max(turn + EVERY_SECONDS, time.monotonic())
        time.sleep(max(0.0, turn - time.monotonic()))


def main(folder: str, seconds: float) -> None:
    """What the child does: go into the cgroup, then start the threads."""
    Path(folder, "cgroup.procs").write_text("0")
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=_burst, args=(until,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
