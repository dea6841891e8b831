"""How fast the CPU auditor reads a node of 500 pods, beside a plain os.walk, and what the agent needs for it.

Usage:
    python -m benchmarks.auditing                 # also: make bench-auditing
    python -m benchmarks.auditing --pods 100 -o json

The tree is one of real cgroups where they can be made (root, v1), else one of plain files, and the report says which:
reads of plain files are faster, and nothing in them ends. Only this tree is read, whatever else runs on the machine.
All times are the best of some rounds, of all methods in one run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.report import Report, Row, parser, say, show
from benchmarks.usage import usage
from slack.audit.sources.mounts import V1, CpuMounts, InvalidMounts, find_mounts
from slack.audit.sources.walker import CgroupWalker
from tests.audit.tree import pack, unpack

CONTAINERS = 2
FULL_MS, STEADY_MS = 60, 10
RSS_MIB, CPU_PERCENT = 60, 1.0
ROUNDS = 15
_FILES = {
    "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0\n",
    "cpu.stat.local": "throttled_time 0\n",
    "cpu.cfs_quota_us": "100000\n",
    "cpu.cfs_period_us": "100000\n",
    "cpu.cfs_burst_us": "0\n",
    "cpu.shares": "1024\n",
    "cpuacct.usage": "0\n",
}


def paths(pods: int) -> Iterator[tuple[str, int | None]]:
    """Yield the cgroups of a kubelet with the cgroupfs driver and their quotas in microseconds; three have none."""
    yield "kubepods", None
    yield "kubepods/besteffort", None
    yield "kubepods/burstable", None
    for number in range(pods):
        pod = f"kubepods/burstable/pod{number:08x}-5eed-4000-8000-000000000000"
        yield pod, 100_000 * CONTAINERS
        for place in range(CONTAINERS):
            yield f"{pod}/{number * CONTAINERS + place:064x}", 100_000


@contextmanager
def real_tree(mounts: CpuMounts, root: Path, pods: int) -> Iterator[None]:
    """Make cgroups, and let `root` show them and no others; remove them.

    Raises:
        OSError: They cannot be made.
    """
    below = root / "sys" / "fs" / "cgroup"
    below.mkdir(parents=True)
    made: list[Path] = []
    try:
        for mount, name in ((mounts.cpu, "cpu"), (mounts.usage, "cpuacct")):
            if mount is None or (name == "cpuacct" and mounts.usage is mounts.cpu):
                continue
            top = Path(mount.directory, f"resource-slack-bench-{os.getpid()}")
            top.mkdir()
            made.append(top)
            (below / (name if mounts.usage is not mounts.cpu else "cpu,cpuacct")).symlink_to(top)
            for path, quota_us in paths(pods):
                (top / path).mkdir()
                made.append(top / path)
                if quota_us is not None and name == "cpu":
                    (top / path / "cpu.cfs_quota_us").write_text(str(quota_us))
        yield
    finally:
        for folder in reversed(made):
            folder.rmdir()


def plain_tree(root: Path, pods: int) -> None:
    """Write the same as files."""
    top = "sys/fs/cgroup/cpu,cpuacct"
    folders = [top, *(f"{top}/{path}" for path, _ in paths(pods))]
    text = pack({f"{folder}/{name}": content for folder in folders for name, content in _FILES.items()})
    packed = root / "all.tree"
    packed.write_text(text)
    unpack(packed, root)


def naive(top: Path) -> int:
    """What a script does: os.walk, open and read three files of each cgroup."""
    found = 0
    for folder, _, _ in os.walk(top):
        stat = {}
        with open(os.path.join(folder, "cpu.stat")) as file:  # noqa: PTH123, PTH118 - as scripts do it
            for line in file:
                key, value = line.split()
                stat[key] = int(value)
        with open(os.path.join(folder, "cpu.cfs_quota_us")) as file:  # noqa: PTH123, PTH118
            quota = int(file.read())
        with open(os.path.join(folder, "cpu.cfs_period_us")) as file:  # noqa: PTH123, PTH118
            period = int(file.read())
        found += bool(period and quota and stat["nr_periods"] >= 0)
    return found


def walking(root: Path, pods: int, kind: str) -> Report:
    """Measure the walker and the plain one."""
    walker = CgroupWalker(root, relist_seconds=3600.0)
    top = Path(walker.mounts.cpu.directory)
    cgroups = len(walker.sample().samples) - 1
    times: dict[str, list[float]] = {name: [] for name in ("naive", "full", "listed", "steady")}
    for _ in range(ROUNDS):
        walker.close()
        walker = CgroupWalker(root, relist_seconds=3600.0)
        times["naive"].append(_ms(lambda: naive(top)))
        times["full"].append(_ms(walker.sample))
        times["listed"].append(_ms(walker.sample))
        walker.sample()
        times["steady"].extend(_ms(walker.sample) for _ in range(5))
    result = walker.sample()
    walker.close()
    best = {name: min(found) for name, found in times.items()}
    rows: list[Row] = [
        _row("os.walk, open() of 3 files", best["naive"], best["naive"], None),
        _row("full walk, nothing known or open", best["full"], best["naive"], FULL_MS),
        _row("the second, with all limits", best["listed"], best["naive"], None),
        _row("steady, on kept descriptors", best["steady"], best["naive"], STEADY_MS),
    ]
    if len(result.samples) - 1 != cgroups or result.troubles:
        raise RuntimeError(f"{cgroups} cgroups at first, {len(result.samples) - 1} at last: {result.examples}")
    notes = [f"{cgroups} cgroups ({pods} pods of {CONTAINERS} containers), {kind}; best of {ROUNDS} rounds"]
    return Report("Walking", rows, notes)


def agent(root: Path, seconds: float) -> Report:
    """Run the agent's process on that tree and look what it needs."""
    command = [sys.executable, "-m", "slack_operator.auditor.agent.process", f"--root={root}", "--listen=127.0.0.1:0"]
    top = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(top), str(top / "operator")])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(5.0)  # its start
        before = usage(process.pid)
        time.sleep(seconds)
        after = usage(process.pid)
    except OSError as error:
        raise RuntimeError(f"the agent ended: {process.communicate()[1][-500:]}") from error
    finally:
        process.terminate()
        process.communicate(timeout=10.0)
    percent = (after.cpu_seconds - before.cpu_seconds) / seconds * 100
    row: Row = {
        "process": "resource-slack audit agent",
        "peak MiB": after.peak_bytes / 2**20,
        "at most MiB": RSS_MIB,
        "CPU millicores": percent * 10,
        "at most millicores": CPU_PERCENT * 10,
    }
    return Report("Agent", [row], [f"one sample every 10 s, over {seconds:g} s, its start left out"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the tree, measure, print."""
    options: argparse.ArgumentParser = parser("The CPU auditor's walker beside a plain one, and its agent.")
    options.add_argument("--pods", type=int, default=500)
    options.add_argument("--agent-seconds", type=float, default=60.0, help="0: leave the agent out")
    asked = options.parse_args(arguments)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resource-slack-auditing-")))
        say("making the tree")
        kind = _make(stack, root, asked.pods)
        say("walking")
        reports = [walking(root, asked.pods, kind)]
        if asked.agent_seconds:
            say(f"the agent, {asked.agent_seconds:g} s")
            reports.append(agent(root, asked.agent_seconds))
    show(reports, asked.output)


def _make(stack: ExitStack, root: Path, pods: int) -> str:
    """Make the tree; return in words what it is."""
    try:
        mounts = find_mounts(Path("/"))
        if mounts.cpu.is_v2:
            why = "made for v1 only"
        else:
            stack.enter_context(real_tree(mounts, root, pods))
            return f"real cgroups ({V1})"
    except (OSError, InvalidMounts) as error:
        why = str(error)
    shutil.rmtree(root / "sys", ignore_errors=True)  # what was begun of the other
    plain_tree(root, pods)
    return f"plain files, as no real cgroups could be made: {why}"


def _ms(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1000


def _row(method: str, milliseconds: float, naive_ms: float, bar: int | None) -> Row:
    return {
        "method": method,
        "took us": round(milliseconds * 1000, 1),
        "at most us": None if bar is None else bar * 1000.0,
        "faster than os.walk x": naive_ms / milliseconds,
    }


if __name__ == "__main__":
    main()
