"""Control groups that a suite makes on this machine, in every hierarchy that it needs, and their end. Root only.

A name carries the process that made it, and that process's start time: what one that was killed left behind is known by
that, and the next to come takes it away. Nothing else is ever touched.
"""

import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.processes import start_ticks

PREFIX = "resource-slack-e2e"
_CPUSET = ("cpuset.cpus", "cpuset.mems")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy: where it is, and which controllers of version 1 it has."""

    mount: Path
    controllers: frozenset[str]
    version: int

    def has(self, controller: str) -> bool:
        """Say whether groups made here have the controller's files."""
        if self.version == 1:
            return controller in self.controllers
        return controller in (self.mount / "cgroup.subtree_control").read_text(encoding="ascii").split()


def hierarchies(mountinfo: str | None = None) -> list[Hierarchy]:
    """Return the hierarchies that are mounted from their root (proc(5), mountinfo); of several mounts the last."""
    text = mountinfo if mountinfo is not None else Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found: dict[Path, Hierarchy] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.partition(" ")
        root, mount = left.split()[3:5]
        if root == "/" and kind in {"cgroup", "cgroup2"}:
            named = frozenset(options.split()[-1].split(",")) if kind == "cgroup" else frozenset[str]()
            found[Path(mount)] = Hierarchy(Path(mount), named, 1 if kind == "cgroup" else 2)
    return list(found.values())


def cpu_hierarchy() -> Hierarchy:
    """Return the hierarchy with the cpu controller.

    Raises:
        UnavailableError: there is none, or no group can be made in it.
    """
    for hierarchy in hierarchies():
        if hierarchy.has("cpu"):
            if not os.access(hierarchy.mount, os.W_OK):
                raise UnavailableError(f"no control group can be made in {hierarchy.mount}: that takes root")
            return hierarchy
    raise UnavailableError("no hierarchy of control groups with the cpu controller is mounted here")


class Cgroup:
    """One group of our own at the root of some hierarchies, with all that comes to be below it.

    Usage:

        with Cgroup([cpu_hierarchy()]) as group:
            (folder,) = group.make("child/grandchild")
    """

    def __init__(self, hierarchies: Collection[Hierarchy], suffix: str = "") -> None:
        self.name = f"{PREFIX}-{os.getpid()}-{start_ticks(os.getpid())}{f'-{suffix}' if suffix else ''}"
        self._hierarchies = tuple(hierarchies)

    def path(self, controller: str) -> Path:
        """Return the group's folder in the hierarchy of a controller."""
        return next(hierarchy for hierarchy in self._hierarchies if hierarchy.has(controller)).mount / self.name

    def make(self, below: str) -> list[Path]:
        """Make a group below this one, in each hierarchy, with those above it; return its folders."""
        made = []
        for hierarchy in self._hierarchies:
            folder = hierarchy.mount / self.name
            for part in below.split("/"):
                if hierarchy.version == 2 and hierarchy.has("cpu"):  # controllers are handed down level by level
                    _write(folder / "cgroup.subtree_control", "+cpu")
                folder /= part
                folder.mkdir(exist_ok=True)
            made.append(folder)
        return made

    @contextmanager
    def joined(self, below: str) -> Iterator[None]:
        """Be in a group below this one for a while: beside groups that come before all else, and not behind them."""
        folder = self.make(below)[0]
        hierarchy = self._hierarchies[0]
        before = hierarchy.mount / _own_path(hierarchy).lstrip("/")
        _write(folder / "cgroup.procs", str(os.getpid()))
        try:
            yield
        finally:
            _write(before / "cgroup.procs", str(os.getpid()))

    def start(self) -> Self:
        """Make the group, after taking away those whose makers are gone."""
        try:
            for hierarchy in self._hierarchies:
                _sweep(hierarchy.mount)
                folder = hierarchy.mount / self.name
                folder.mkdir(exist_ok=True)
                if "cpuset" in hierarchy.controllers:  # a new group of version 1 has no CPU and lets nobody in
                    for name in _CPUSET:
                        (folder / name).write_text((hierarchy.mount / name).read_text(encoding="ascii"), "ascii")
        except BaseException:
            self.stop()
            raise
        return self

    def empty(self) -> None:
        """End every process below the group, and remove all groups there."""
        for hierarchy in self._hierarchies:
            for folder in (hierarchy.mount / self.name).iterdir():
                if folder.is_dir():
                    remove(folder)

    def stop(self) -> None:
        """End every process in the group and below it, and remove it."""
        for hierarchy in self._hierarchies:
            remove(hierarchy.mount / self.name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def pids_below(folder: Path) -> set[int]:
    """Return the processes in a group and in all below it."""
    found: set[int] = set()
    for group in _groups(folder):
        with suppress(OSError):  # it went away since it was listed
            found.update(int(word) for word in (group / "cgroup.procs").read_text(encoding="ascii").split())
    return found


def remove(folder: Path, seconds: float = 10.0) -> None:
    """Kill what runs in a group and below it, and remove them, the deepest first.

    Raises:
        HarnessError: something was still there when the time was over.
    """
    deadline = time.monotonic() + seconds
    while folder.is_dir():
        for pid in pids_below(folder) - {os.getpid()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in _groups(folder):
            with suppress(OSError):  # busy until the kernel has let go of the last process
                group.rmdir()
        if time.monotonic() > deadline:
            raise HarnessError(f"{folder} could not be removed; in it: {sorted(pids_below(folder))}")
        time.sleep(0.02)


def set_quota(folder: Path, quota_us: int, period_us: int = 100_000) -> None:
    """Limit a group's CPU time, in either version's file."""
    if (folder / "cpu.max").exists():
        _write(folder / "cpu.max", f"{quota_us} {period_us}")
    else:
        _write(folder / "cpu.cfs_period_us", str(period_us))
        _write(folder / "cpu.cfs_quota_us", str(quota_us))


def set_burst(folder: Path, burst_us: int) -> None:
    """Let a group save up quota.

    Raises:
        UnavailableError: this kernel has no burst (before 5.14).
    """
    for name in ("cpu.max.burst", "cpu.cfs_burst_us"):
        if (folder / name).exists():
            _write(folder / name, str(burst_us))
            return
    raise UnavailableError(f"no cpu.max.burst or cpu.cfs_burst_us in {folder}: the kernel is older than 5.14")


def cpu_stat(folder: Path) -> Mapping[str, int]:
    """Return a group's cpu.stat, throttled time in ns in both versions."""
    words = (folder / "cpu.stat").read_text(encoding="ascii").split()
    found = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    if "throttled_usec" in found:
        found["throttled_time"] = found["throttled_usec"] * 1000
    return found


def _own_path(hierarchy: Hierarchy) -> str:
    """Return this process' group (cgroups(7), /proc/PID/cgroup)."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if frozenset(controllers.split(",") if controllers else ()) <= hierarchy.controllers and (
            bool(controllers) is (hierarchy.version == 1)
        ):
            return path
    raise HarnessError(f"/proc/self/cgroup has no line for {hierarchy.mount}")


def _groups(folder: Path) -> Iterator[Path]:
    """Yield a group and all below it, the deepest first."""
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                yield from _groups(entry)
    yield folder


def _sweep(mount: Path) -> None:
    """Take away the groups of processes that are gone."""
    for folder in mount.glob(f"{PREFIX}-*"):
        pid, _, ticks = folder.name.removeprefix(f"{PREFIX}-").partition("-")
        if pid.isdigit() and str(start_ticks(int(pid))) != ticks.partition("-")[0]:
            remove(folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")
