"""Coverage-guided fuzzing of all that reads what a kernel, or a copied tree, has written. `make fuzz` runs it.

Only `Malformed` may come out of the parsers, and nothing at all out of a walk.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["slack.audit"]):
    from slack.audit.sources import cpustat
    from slack.audit.sources.cgroup_names import name_of
    from slack.audit.sources.cpustat import Malformed
    from slack.audit.sources.mounts import InvalidMounts, find_mounts, parse_mountinfo
    from slack.audit.sources.walker import CgroupWalker, count_cpus

_PARSERS: tuple[Callable[[bytes], object], ...] = (
    *(cpustat.parse_stat_v1, cpustat.parse_stat_v2, cpustat.parse_local_v1, cpustat.parse_local_v2),
    *(cpustat.parse_max, cpustat.parse_quota_v1, cpustat.parse_period_v1, cpustat.parse_number),
    cpustat.parse_pressure,
)
_V1 = ("cpu.stat", "cpu.stat.local", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")
_V2 = ("cpu.stat", "cpu.stat.local", "cpu.max", "cpu.max.burst", "cpu.pressure", "cgroup.controllers")
_CGROUPS = ("", "kubepods", "kubepods/pod1", f"kubepods/pod1/{'a' * 64}", "system.slice/x.service")
_WALK_EVERY = 64
"""A walk writes and reads thirty files: one for so many rounds of the parsers."""
_rounds = 0


def try_input(data: bytes) -> None:
    """Try one input on everything."""
    global _rounds
    for parse in _PARSERS:
        try:
            parse(data)
        except Malformed:
            continue
    parse_mountinfo(data)
    text = data.decode("utf-8", "surrogateescape")
    name_of("/" + text)
    count_cpus(text)
    _rounds += 1
    if _rounds % _WALK_EVERY == 0:
        # One a walk: the fuzzer ends its process without cleaning up.
        with tempfile.TemporaryDirectory(prefix="resource-slack-fuzz-") as folder:
            _walk(atheris.FuzzedDataProvider(data), Path(folder))


def _walk(chance: atheris.FuzzedDataProvider, root: Path) -> None:
    is_v2 = chance.ConsumeBool()
    top = root / "sys" / "fs" / "cgroup" / ("" if is_v2 else "cpu,cpuacct")
    for path in _CGROUPS:
        folder = top / path
        folder.mkdir(parents=True, exist_ok=True)
        for name in _V2 if is_v2 else _V1:
            if chance.ConsumeIntInRange(0, 9):
                (folder / name).write_bytes(chance.ConsumeBytes(chance.ConsumeIntInRange(0, 60)))
    (root / "proc" / "1").mkdir(parents=True)
    (root / "proc" / "1" / "mountinfo").write_bytes(chance.ConsumeBytes(80))
    try:
        find_mounts(root)
        walker = CgroupWalker(root, relist_seconds=0.0)
    except InvalidMounts:
        return
    walker.sample()
    walker.sample()
    walker.close()


def main() -> None:
    """Give atheris its arguments: those of libFuzzer, such as -max_total_time=120."""
    atheris.Setup(sys.argv, try_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
