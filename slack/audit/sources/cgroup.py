"""One cgroup as it is audited: its limits, read at each listing, and its counters, read each time."""

import errno
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from slack.audit.findings.sample import CgroupLevel, CgroupTarget, Sample
from slack.audit.sources import cpustat
from slack.audit.sources.cpustat import CpuStat, Malformed
from slack.audit.sources.descriptors import Descriptors, Gathered, KeptFile, Read, content_of
from slack.audit.sources.read_errors import ReadErrorCounts, is_gone

T = TypeVar("T")
ReportProblem = Callable[[str, OSError | Malformed], None]
"""Is told which file could not be read, and why."""
PRESSURE_FILE = "cpu.pressure"
DEFAULT_PERIOD_US = 100_000
"""What a cgroup without a quota has; it means nothing there and is not read."""


class Fetched(NamedTuple):
    """The counters of one cgroup as they were read, and when."""

    at_seconds: float
    stat: Read
    usage: Read | None
    pressure: Read | None


class CgroupLimits(NamedTuple):
    """What is set, not counted."""

    quota_us: int | None
    period_us: int = DEFAULT_PERIOD_US
    burst_us: int | None = None
    has_controller: bool = True
    """v2: whether the cpu controller is on for this cgroup; without it there is only the time used."""


class CgroupPlace(NamedTuple):
    """Where the files of a cgroup are."""

    directory: str
    usage_directory: str | None
    """v1: the same cgroup in the hierarchy of cpuacct, None where that is not mounted."""
    is_v2: bool
    pressure_directory: str | None = None
    """v2's, or on a hybrid the same cgroup in v2's hierarchy; None where there is none."""


LIMIT_FILES = {
    False: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"),
    True: ("cpu.max", "cpu.max.burst"),
}
"""What `limits_of` reads, by whether it is v2."""


def quota_file(*, is_v2: bool) -> str:
    """Return the name of the file that has the quota."""
    return "cpu.max" if is_v2 else "cpu.cfs_quota_us"


def is_unlimited(quota: Read) -> bool:
    """Say whether what the quota's file says is no quota, without working on it more than that."""
    return isinstance(quota, bytes) and (quota == b"-1\n" or quota.startswith(b"max "))


def other_files(*, is_v2: bool, limited: bool, whole: bool, counters: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files to gather of a cgroup beside its quota: limits, all of them if `whole`, and `counters`."""
    names = ["cpu.cfs_period_us"] if limited and not is_v2 else []
    if whole and limited:
        names.append("cpu.max.burst" if is_v2 else "cpu.cfs_burst_us")
    return (*names, *counters)


def quota_of(files: Gathered, *, is_v2: bool) -> int | None:
    """Return the quota alone; None is no limit.

    Raises:
        OSError: It could not be read.
        Malformed: It is no quota.
    """
    if not is_v2:
        return cpustat.parse_quota_v1(content_of(files, "cpu.cfs_quota_us"))
    found = _max_of(files)
    return found.quota_us if found else None


def limits_of(files: Gathered, report: ReportProblem, *, is_v2: bool) -> CgroupLimits:
    """Return what is set. What is not needed to judge is None when it could not be read, and told.

    Raises:
        OSError: The quota or its period could not be read.
        Malformed: They are not what a kernel writes.
    """
    if is_v2:
        found = _max_of(files)
        if found is None:
            return CgroupLimits(None, has_controller=False)
        burst = _optional("cpu.max.burst", files, report) if found.quota_us is not None else None
        return CgroupLimits(found.quota_us, found.period_us, burst)
    quota = quota_of(files, is_v2=False)
    if quota is None:
        return CgroupLimits(None)
    period = cpustat.parse_period_v1(content_of(files, "cpu.cfs_period_us"))
    return CgroupLimits(quota, period, _optional("cpu.cfs_burst_us", files, report))


def _max_of(files: Gathered) -> cpustat.CpuMax | None:
    """Return cpu.max; None where the controller is off, as for the root."""
    try:
        return cpustat.parse_max(content_of(files, "cpu.max"))
    except FileNotFoundError:
        return None


def _optional(file: str, files: Gathered, report: ReportProblem) -> int | None:
    if file not in files:
        return None  # was not asked for
    try:
        return cpustat.parse_number(content_of(files, file))
    except FileNotFoundError:
        return None  # a kernel that has none
    except (OSError, Malformed) as error:
        report(file, error)
        return None


class Cgroup:
    """One audited cgroup, with its kept files."""

    __slots__ = (
        *("_ahead", "_descriptors", "_has_local", "_inherited_ns", "_local", "_place", "_pressure"),
        *("_stat", "_last", "_usage"),
        *("above", "ever", "limits", "moved", "target"),
    )

    def __init__(self, target: CgroupTarget, place: CgroupPlace, descriptors: Descriptors) -> None:
        self.target = target
        self.limits: CgroupLimits | None = None
        self._place = place
        parse = cpustat.parse_stat_v2 if place.is_v2 else cpustat.parse_stat_v1
        self._stat: KeptFile[CpuStat] = KeptFile(f"{place.directory}/cpu.stat", parse, descriptors)
        self._usage: KeptFile[int] | None = None
        self._pressure: KeptFile[cpustat.Pressure] | None = None
        self._local: KeptFile[int] | None = None
        self._has_local = True
        self._descriptors = descriptors
        self.above: Cgroup | None = None
        """The next audited cgroup above, whose quota can stop this one too; it is sampled before."""
        self._last: CpuStat | None = None
        self._inherited_ns: int | None = None
        self._ahead: tuple[float, Gathered] | None = None
        self.ever = True
        """Whether a quota here or above ever ran out, as far as is known."""
        self.moved = False
        """Whether it may have stood still between the last two samples."""

    def set_limits(self, limits: CgroupLimits | None) -> None:
        """Take what was read at a listing, None if it could not be.

        Files that were not there are looked for again: a v2 cgroup may have been given the cpu controller.
        """
        self.limits = limits
        if limits is not None and not limits.has_controller:
            if self._local is not None:
                self._local.close()
            self._local = self._inherited_ns = None
            self._has_local = False  # cpu.stat.local is there all the same, and empty
        else:
            self._has_local = True
        if self._usage is None and self._place.usage_directory is not None:
            usage = f"{self._place.usage_directory}/cpuacct.usage"
            self._usage = KeptFile(usage, cpustat.parse_number, self._descriptors)
        if (
            self._pressure is None
            and self._place.pressure_directory is not None
            and self.target.level is CgroupLevel.CONTAINER
        ):
            pressure = f"{self._place.pressure_directory}/{PRESSURE_FILE}"
            self._pressure = KeptFile(pressure, cpustat.parse_pressure, self._descriptors)

    def preload(self, files: Gathered, at_seconds: float) -> None:
        """Take the counters that were gathered with the limits, for the next `fetch`."""
        self._ahead = at_seconds, files

    def fetch(self, at_seconds: float) -> Fetched:
        """Take the counters that are needed each time, and when they were read, for `sample`."""
        files: Gathered = {}
        if self._ahead is not None:
            (at_seconds, files), self._ahead = self._ahead, None
        stat, usage, pressure = (
            read if isinstance(read := files.get(name), bytes) else file.fetch() if file is not None else None
            for name, file in (
                ("cpu.stat", self._stat),
                ("cpuacct.usage", self._usage),
                (PRESSURE_FILE, self._pressure),
            )
        )
        assert stat is not None
        return Fetched(at_seconds, stat, usage, pressure)

    @property
    def kept(self) -> tuple[int, int, int]:
        """The descriptors of cpu.stat, cpuacct.usage and cpu.pressure; -1 where there is no such file.

        The first is -1 where any of the files is not kept: `fetch` reads them then.
        """
        others = [-1 if file is None else file.descriptor for file in (self._usage, self._pressure)]
        wanted = sum(file is not None for file in (self._usage, self._pressure))
        if sum(descriptor >= 0 for descriptor in others) < wanted:
            return -1, -1, -1
        return self._stat.descriptor, others[0], others[1]

    def sample(self, fetched: Fetched, troubles: ReadErrorCounts) -> Sample | None:
        """Work on the counters that were fetched; None where the limits are not known.

        Raises:
            OSError: cpu.stat cannot be read; ENODEV or ENOENT: the cgroup is gone.
            Malformed: cpu.stat is not what a kernel writes.
        """
        limits = self.limits
        if limits is None:
            return None
        self.moved = True  # for those below, should this one not be read
        stat = self._stat.parsed(fetched.stat)
        above, last = self.above, self._last
        if stat is last:
            self.moved = above is not None and above.moved
        else:
            self.moved = last is None or stat[1:3] != last[1:3] or (above is not None and above.moved)
            self._last = stat
            self.ever = stat.throttled > 0 or stat.throttled_ns > 0 or (above is not None and above.ever)
        usage_ns = stat.usage_ns
        if self._usage is not None and fetched.usage is not None:
            try:
                usage_ns = self._usage.parsed(fetched.usage)
            except (OSError, Malformed) as error:
                self._usage = self._unavailable(self._usage, error, troubles)
        # Nothing stands still unless a quota here or above ran out: mostly there is no need to look.
        if self._inherited_ns is None and not self.ever and above is not None and above.has_inherited:
            self._inherited_ns = 0  # nobody ever stopped it, and this kernel has the file
        elif (self.moved or self._inherited_ns is None) and self._has_local:
            self._inherited_ns = None
            local = self._local = self._local or self._local_file()
            try:
                self._inherited_ns = local.read()
            except (OSError, Malformed) as error:
                self._local = self._unavailable(local, error, troubles)
                self._has_local = self._local is not None
        pressure = self._pressure_of(fetched.pressure, troubles)
        return Sample(
            self.target,
            fetched.at_seconds,
            limits.quota_us,
            limits.period_us,
            stat.periods,
            stat.throttled,
            stat.throttled_ns,
            usage_ns,
            self._inherited_ns,
            limits.burst_us,
            stat.bursts,
            pressure.some_ns if pressure is not None else None,
            pressure.full_ns if pressure is not None else None,
        )

    def _pressure_of(self, read: Read | None, troubles: ReadErrorCounts) -> cpustat.Pressure | None:
        """Return what cpu.pressure says; None where the kernel has none, or does not count it (psi=0, cgroup.pressure).

        On a hybrid nobody may be in v2's cgroup of that name: one that never waited says nothing there.
        """
        if self._pressure is None or read is None:
            return None
        try:
            found = self._pressure.parsed(read)
        except (OSError, Malformed) as error:
            if isinstance(error, OSError) and error.errno == errno.EOPNOTSUPP:
                error = FileNotFoundError(errno.ENOENT, "not counted")
            self._pressure = self._unavailable(self._pressure, error, troubles)
            return None
        return found if found.some_ns or self._place.is_v2 else None

    def _local_file(self) -> KeptFile[int]:
        """Most never need one."""
        parse = cpustat.parse_local_v2 if self._place.is_v2 else cpustat.parse_local_v1
        return KeptFile(f"{self._place.directory}/cpu.stat.local", parse, self._descriptors, keep=False)

    def _unavailable(
        self, file: KeptFile[T], error: OSError | Malformed, troubles: ReadErrorCounts
    ) -> KeptFile[T] | None:
        """Return the file if it is to be read again; one that is not there is not (an older kernel, no cpuacct)."""
        if is_gone(error):
            file.close()
            return None
        troubles.count_error(self.target.path, file.path, error)
        return file

    @property
    def has_inherited(self) -> bool:
        """Whether cpu.stat.local, which kernels before 6.6 lack, was there for it."""
        return self._inherited_ns is not None

    @property
    def stat_path(self) -> str:
        """For messages."""
        return self._stat.path

    @property
    def files(self) -> int:
        """How many descriptors it would keep."""
        return 1 + (self._usage is not None) + (self._pressure is not None)

    def close(self) -> None:
        """Let go of all descriptors."""
        for file in (self._stat, self._usage, self._pressure, self._local):
            if file is not None:
                file.close()
