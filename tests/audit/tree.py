"""Recorded cgroup trees: one readable text file a moment, unpacked to a directory that stands for a machine's root.

Usage:
    python -m tests.audit.tree record --root / --under kubepods OUT               # NAME.tree, one moment
    python -m tests.audit.tree record --root / --under kubepods --seconds 10 NAME # NAME.before.tree, NAME.after.tree
    python -m tests.audit.tree unpack FILE.tree DIRECTORY

The text: a line `=== path` (from the root) before the content of each file. A content whose last line has no end is
followed by a line `\\ no newline`; a path that ends in `/` is a directory, for those that hold nothing else.
proc/uptime is when it was recorded.
"""

import argparse
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from slack.audit.sources.mounts import CgroupMount, find_mounts, parse_mountinfo

TREES = Path(__file__).parent / "trees"
_HEAD = "=== "
_NO_NEWLINE = "\\ no newline\n"
_NODE_FILES = ("proc/version", "proc/sys/kernel/osrelease", "sys/devices/system/cpu/online")
_CGROUP_FILES = frozenset(
    {
        *("cgroup.controllers", "cpu.stat", "cpu.stat.local", "cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle"),
        *("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpuacct.usage", "cpu.pressure"),
    }
)


def unpack(file: Path, into: Path) -> Path:
    """Make the recorded files under `into`, which may hold an earlier moment; return `into`.

    What an earlier moment had and this one has not is removed: cgroups that ended.
    """
    files = dict(entries(file.read_text()))
    for old in sorted((path for path in into.rglob("*") if path.is_file() and not path.is_symlink()), reverse=True):
        if str(old.relative_to(into)) not in files:
            old.unlink()
    for path, content in files.items():
        target = into / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    for folder in sorted((path for path in into.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()) and f"{folder.relative_to(into)}/" not in files:
            folder.rmdir()
    return into


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield path and content of every file of a recorded tree."""
    path, lines = "", list[str]()
    for line in [*text.splitlines(keepends=True), _HEAD]:
        if not line.startswith(_HEAD):
            lines.append(line)
            continue
        if path:
            yield path, "".join(lines[:-1])[:-1] if lines and lines[-1] == _NO_NEWLINE else "".join(lines)
        path, lines = line[len(_HEAD) :].rstrip("\n"), []


def pack(files: dict[str, str]) -> str:
    """Return the text of a tree of these files."""
    blocks = []
    for path, content in files.items():
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path}: wants a path below the root")
        end = "" if not content or content.endswith("\n") else "\n" + _NO_NEWLINE
        blocks.append(f"{_HEAD}{path}\n{content}{end}")
    return "".join(blocks)


def uptime(root: Path) -> float:
    """Return when an unpacked tree was recorded, in seconds since that machine began: the clock of its samples."""
    return float((root / "proc" / "uptime").read_text().split()[0])


def recorded(root: Path, under: str) -> str:
    """Return the tree of a running machine, as far as the auditor reads it: cgroups whose path begins with `under`."""
    mounts = find_mounts(root)
    files = {"proc/1/mountinfo": _mountinfo(root)}
    for name in _NODE_FILES:
        files |= _read(root, root / name)
    files["proc/version"] = re.sub(r"\(\S+@\S+\)", "(builder@host)", files.get("proc/version", ""))
    files["proc/uptime"] = f"{time.clock_gettime(time.CLOCK_MONOTONIC):.6f} 0.00\n"
    places = {mount.directory: mount for mount in (mounts.cpu, mounts.usage, mounts.unified) if mount is not None}
    for mount in places.values():
        if mount is mounts.unified and mounts.cpu is not mounts.unified:
            # a hybrid's: its root, and how long those in its cgroups waited
            files |= _of_cgroup(root, Path(mount.directory))
            for directory in _cgroups(mount, under):
                files |= _read(root, directory / "cpu.pressure")
        else:
            for directory in _cgroups(mount, under):
                files |= _of_cgroup(root, directory)
    return pack(files)


def _cgroups(mount: CgroupMount, under: str) -> Iterator[Path]:
    top = Path(mount.directory)
    wanted = "/" + under.strip("/")
    for folder, below, _ in os.walk(top):
        path = "/" + os.path.relpath(folder, top).removeprefix(".")
        is_above = wanted.startswith(path.rstrip("/") + "/")
        is_in = path.startswith(wanted)
        below[:] = sorted(below) if is_above or is_in or path == "/" else []
        if path == "/" or is_in:
            yield Path(folder)


def _of_cgroup(root: Path, directory: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for name in sorted(os.listdir(directory)):  # noqa: PTH208 - names are wanted
        if name in _CGROUP_FILES:
            files |= _read(root, directory / name)
    return files


def _read(root: Path, file: Path) -> dict[str, str]:
    try:
        return {str(file.relative_to(root)): file.read_text()}
    except OSError:
        return {}  # a file of another kernel, or a cgroup that has just ended


def _mountinfo(root: Path) -> str:
    """Return the cgroup lines only: the others tell of the machine and not of its cgroups."""
    data = (root / "proc" / ("self" if root == Path("/") else "1") / "mountinfo").read_bytes()
    return b"".join(line + b"\n" for line in data.splitlines() if parse_mountinfo(line)).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record and unpack cgroup trees.")
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("--root", type=Path, default=Path("/"), help="where the machine's file system begins")
    record.add_argument("--under", default="kubepods", help="which cgroups: those whose path begins so")
    record.add_argument("--seconds", type=float, help="record a second moment, that much later")
    record.add_argument("out", metavar="OUT")
    take = commands.add_parser("unpack")
    take.add_argument("file", type=Path)
    take.add_argument("into", type=Path)
    asked = parser.parse_args()
    if asked.command == "unpack":
        asked.into.mkdir(parents=True, exist_ok=True)
        unpack(asked.file, asked.into)
    elif asked.seconds is None:
        Path(asked.out).write_text(recorded(asked.root, asked.under))
    else:
        Path(f"{asked.out}.before.tree").write_text(recorded(asked.root, asked.under))
        time.sleep(asked.seconds)
        Path(f"{asked.out}.after.tree").write_text(recorded(asked.root, asked.under))


if __name__ == "__main__":
    main()
