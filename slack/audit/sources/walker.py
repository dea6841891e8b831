"""The cgroupfs walker: the CPU counters of all cgroups of one machine, read from the kernel.

Usage:
    walker = CgroupWalker()
    before = walker.sample()   # a full walk
    after = walker.sample()    # steady: kept descriptors, nothing listed unless something changed
    walker.close()

Every level from kubepods to container is sampled, and the root; other cgroups only where they or something below them
have a quota. Nothing that happens in the tree ends an audit: it is counted in `Sampled.troubles`. Limits, and what a
listing of link counts cannot show, are read every `relist_seconds`.
"""

import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from slack.audit.findings.sample import CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.sources.census import Census
from slack.audit.sources.cgroup import Cgroup, Fetched
from slack.audit.sources.cpustat import Malformed
from slack.audit.sources.descriptors import USUAL_BYTES, Descriptors, Read
from slack.audit.sources.mounts import CpuMounts, InvalidMounts, find_mounts
from slack.audit.sources.read_errors import ReadErrorCounts, is_gone

_log = logging.getLogger(__name__)


class CgroupWalker:
    """A `Source`. Not to be used by two threads at once."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        relist_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        most_descriptors: int | None = None,
    ) -> None:
        """`most_descriptors` bounds what is kept open: each costs about 6 KiB of kernel memory, two a cgroup on v1,
        and on v2 two a container.

        Raises:
            InvalidMounts: There is no cpu controller below `root`.
        """
        self._root = root
        self._relist_seconds = relist_seconds
        self._clock = clock
        self._descriptors = Descriptors(most_descriptors)
        self._is_bounded = most_descriptors is not None
        self._mounts = find_mounts(root)
        self._census = Census(self._mounts, self._descriptors, self._clock)
        self._facts = CgroupNodeFacts(None)
        self._listed_at: float | None = None
        self._kept_list: list[tuple[Cgroup, int, int, int]] = []
        self._kept_version: tuple[int, int] | None = None

    def sample(self) -> Sampled:
        """Read the counters of everything once."""
        troubles = ReadErrorCounts()
        now = self._clock()
        due = self._listed_at is None or not 0 <= now - self._listed_at < self._relist_seconds
        if due or self._census.is_stale():
            self._relist(now, troubles)
        for path, file, error in self._census.troubles:
            troubles.count_error(path, file, error)
        self._census.forget_gone()
        self._descriptors.refused = 0
        samples = self._read(troubles)
        self._release()
        return Sampled(tuple(samples), {"": self._facts}, troubles.counts, troubles.examples)

    def close(self) -> None:
        """Let go of all descriptors."""
        self._census.close()
        self._listed_at = None

    def threads(self, target: CgroupTarget) -> int | None:
        """Return how many threads are in a cgroup and below it; None when nobody can say."""
        directory = self._census.directory(target.path)
        if directory is None:
            return None
        cpu = self._mounts.cpu
        total = None
        for place in directory.walk():
            try:
                ids = Path(f"{cpu.directory}{place.path}/{'cgroup.threads' if cpu.is_v2 else 'tasks'}").read_bytes()
            except OSError:
                continue  # gone, or one of those that may not have threads
            total = (total or 0) + ids.count(b"\n")
        return total

    @property
    def mounts(self) -> CpuMounts:
        """Where the files are."""
        return self._mounts

    def _read(self, troubles: ReadErrorCounts) -> list[Sample]:
        """The steady loop.

        First all system calls, then all work on what they gave: in turns both take twice as long, as each entry of the
        kernel makes the processor forget the branches of what runs here.
        """
        samples, gone = list[Sample](), list[str]()
        for (path, cgroup), fetched in zip(self._census.cgroups.items(), self._fetch(), strict=True):
            try:
                found = cgroup.sample(fetched, troubles)
            except (OSError, Malformed) as error:
                troubles.count_error(path, cgroup.stat_path, error)
                if is_gone(error):
                    gone.append(path)
            else:
                if found is not None:
                    samples.append(found)
        for path in gone:
            self._census.drop(path)
            self._listed_at = None  # another may have its name already
        return samples

    def _fetch(self) -> list[Fetched]:
        """Read all counters of each cgroup. Nothing that can wait is done between."""
        fetched = list[Fetched]()
        clock, pread, size = self._clock, os.pread, USUAL_BYTES
        read: Read
        used: Read | None
        waited: Read | None
        for cgroup, stat, usage, pressure in self._kept():
            now = clock()
            if stat < 0:
                fetched.append(cgroup.fetch(now))
                continue
            try:
                read = pread(stat, size, 0)
            except OSError as error:
                read = error
            used = waited = None
            if usage >= 0:
                try:
                    used = pread(usage, size, 0)
                except OSError as error:
                    used = error
            if pressure >= 0:
                try:
                    waited = pread(pressure, size, 0)
                except OSError as error:
                    waited = error
            fetched.append(Fetched(now, read, used, waited))
        return fetched

    def _kept(self) -> list[tuple[Cgroup, int, int, int]]:
        """Return the cgroups with their kept descriptors, in a list that is made anew only where something changed."""
        version = self._census.version, self._descriptors.changes
        if version != self._kept_version:
            self._kept_list = [(cgroup, *cgroup.kept) for cgroup in self._census.cgroups.values()]
            self._kept_version = version
        return self._kept_list

    def _relist(self, now: float, troubles: ReadErrorCounts) -> None:
        self._census.update()
        if self._census.is_empty:
            try:
                self._mounts = find_mounts(self._root)  # mounted again, or elsewhere
            except InvalidMounts as error:
                troubles.count_error("/", str(self._root), str(error))
            else:
                self._census.close()
                self._census = Census(self._mounts, self._descriptors, self._clock)
                self._kept_version = None
                self._census.update()
        self._facts = read_facts(self._root, self._mounts.hierarchy)
        self._listed_at = now

    def _release(self) -> None:
        """Close what is more than may be kept, and say once that files are opened for each read."""
        for cgroup in reversed(self._census.cgroups.values()):
            if self._descriptors.too_many == 0:
                break
            cgroup.close()
        if self._descriptors.refused and not self._is_bounded:
            self._is_bounded = True
            _log.warning(
                "only %d files of cgroups can be kept open, %d are opened for each read: raise the limit of open files",
                self._descriptors.kept,
                self._descriptors.refused,
            )


_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_RELEASE = re.compile(r"Linux version (\S+)")
_MOST_BYTES = 64 << 10


def read_facts(root: Path, hierarchy: str) -> CgroupNodeFacts:
    """Return the facts of the machine whose file system begins at `root`; what cannot be read is None or ''."""
    version = _text(root / "proc" / "version")
    release = _text(root / "proc" / "sys" / "kernel" / "osrelease")
    if not release and (found := _RELEASE.match(version)):
        release = found[1]
    cpus = count_cpus(_text(root / "sys" / "devices" / "system" / "cpu" / "online"))
    if root == Path("/"):
        release, cpus = release or os.uname().release, cpus or os.cpu_count()
    return CgroupNodeFacts(cpus, release, version, hierarchy)


def count_cpus(online: str) -> int | None:
    """Count a list of CPUs such as 0-3,8; None when it is none.

    >>> count_cpus("0-3,8")
    5
    """
    total = 0
    for part in online.strip().split(","):
        found = _RANGE.fullmatch(part)
        if not found:
            return None
        first = int(found[1])
        last = int(found[2] or first)
        if last < first:
            return None
        total += last - first + 1
    return total


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
