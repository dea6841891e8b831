"""cAdvisor's series, as a kubelet shows them at /metrics/cadvisor, made into samples of cgroups.

Counters carry the time at which cAdvisor read the cgroup, up to 15 s before the scrape; that is the sample's time. A
cgroup without a quota has no container_cpu_cfs_* series at all (cadvisor metrics/prometheus.go, `Quota != 0`): it
becomes a sample without a limit, never one of 0 % throttled. Pods' own cgroups have container="", the pods' sandboxes
have no container's name either but a container's id; the sandboxes are dropped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from slack.audit.findings.sample import CgroupLevel, CgroupTarget, ReadError, Sample
from slack.audit.sources.exposition import InvalidSampleLine, Lines, Point, count, labels, nanoseconds, point, positive
from slack.audit.sources.series_labels import by_names, label, target_of

_USAGE = b"container_cpu_usage_seconds_total"
_ALL_CPUS = b',cpu="total",'
_KERNEL = b"cadvisor_version_info"
_CORES = b"machine_cpu_cores"
_FIELDS: Mapping[bytes, tuple[str, Callable[[float], int]]] = {
    b"container_cpu_cfs_periods_total": ("periods", count),
    b"container_cpu_cfs_throttled_periods_total": ("throttled", count),
    b"container_cpu_cfs_throttled_seconds_total": ("throttled_ns", nanoseconds),
    b"container_cpu_cfs_burst_periods_total": ("bursts", count),
    b"container_spec_cpu_quota": ("quota_us", positive),
    b"container_spec_cpu_period": ("period_us", count),
    # KubeletPSI (1.34 on by default), cgroup v2: cpu.pressure's lines some and full
    b"container_pressure_cpu_waiting_seconds_total": ("waiting_ns", nanoseconds),
    b"container_pressure_cpu_stalled_seconds_total": ("stalled_ns", nanoseconds),
}
_PREFIXES = (
    *(b"container_cpu_cfs_", b"container_spec_cpu_quota", b"container_spec_cpu_period", b"container_pressure_cpu_"),
    *(_USAGE, _KERNEL, _CORES),
)
_ENFORCED = ("periods", "throttled", "throttled_ns", "quota_us", "period_us")
"""What a cgroup with a quota must have, all of it: without one of them nothing can be said of it."""
_COUNTED = ("periods", "throttled", "throttled_ns", "bursts")
_PERIOD_US = 100_000
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Scraped:
    """What one node's scrape says."""

    samples: tuple[Sample, ...]
    troubles: Mapping[ReadError, int]
    """Series that could not be read, and cgroups that lack one of the series that belong together."""
    examples: Mapping[ReadError, str]
    cpus: int | None
    """machine_cpu_cores."""
    kernel_release: str
    hierarchy: str
    """v1 or v2, seen at the root, which has a period in v1 only; '' when the root is not there."""


@dataclass(slots=True)
class _Row:
    """One cgroup while its series come in, family by family."""

    target: CgroupTarget | None
    """None for a pod's sandbox."""
    values: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    """By CPU; "total" is what kubelets have."""
    stamps: dict[str, float] = field(default_factory=dict)
    """When the counters were read; specifications carry no time."""


class CadvisorScrape:
    """One scrape, read while it comes: what is kept is a row a cgroup.

    >>> scrape = Scrape("node-1", at_seconds=1700000000.0)
    >>> scrape.feed(b'container_spec_cpu_period{id="/"} 100000\\n')
    >>> [sample.target.path for sample in scrape.finish().samples]
    ['/']
    """

    def __init__(self, node: str = "", at_seconds: float = 0.0) -> None:
        """Begin.

        Args:
            node: What `CgroupTarget.node` says.
            at_seconds: When the scrape was made (Unix): the time of series without one of their own.
        """
        self._node = node
        self._at_seconds = at_seconds
        self._lines = Lines(_PREFIXES)
        self._rows: dict[str, _Row] = {}
        self._by_labels: dict[bytes, _Row] = {}
        """A cgroup's labels are the same text in every family but usage: they are read once."""
        self._troubles: Counter[ReadError] = Counter()
        self._examples: dict[ReadError, str] = {}
        self._cpus: int | None = None
        self._kernel = ""

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body, of any length."""
        for line in self._lines.feed(data):
            try:
                self._take(point(line))
            except InvalidSampleLine as error:
                self._bad(f"{line[:_SHOWN].decode(errors='replace').strip()}: {error}")

    def finish(self) -> Scraped:
        """Return what was found; the scrape is over."""
        if rest := self._lines.unfinished():
            self._bad(f"{rest[:_SHOWN].decode(errors='replace')}: the answer ends within a line")
        samples = tuple(self._samples())
        if not self._rows:
            self._tell(
                ReadError.EMPTY, "no container_cpu_* series in the answer" if self._lines.seen_bytes else "no byte"
            )
        return Scraped(samples, dict(self._troubles), dict(self._examples), self._cpus, self._kernel, self._hierarchy())

    def _take(self, found: Point) -> None:
        if found.family == _USAGE:
            self._take_usage(found)
        elif found.family in _FIELDS:
            name, read = _FIELDS[found.family]
            row = self._by_labels.get(found.labels)
            if row is None:
                row = self._by_labels[found.labels] = self._row(labels(found.labels))
            self._put(row.values, name, read(found.value), row, found)
        elif found.family == _CORES:
            self._cpus = count(found.value) or None
        elif found.family == _KERNEL:
            self._kernel = labels(found.labels).get("kernelVersion", "")

    def _take_usage(self, found: Point) -> None:
        others, cpu = found.labels.replace(_ALL_CPUS, b",", 1), "total"
        row = self._by_labels.get(others)
        if row is None:
            known = labels(found.labels)
            row, cpu = self._row(known), known.get("cpu", cpu)
            if len(others) != len(found.labels):
                self._by_labels[others] = row
        self._put(row.usage, cpu, nanoseconds(found.value), row, found)

    def _put(self, into: dict[str, int], name: str, value: int, row: _Row, found: Point) -> None:
        """Take a value; of two of one cgroup the younger counts, or else the larger, and it is told."""
        at = self._at_seconds if found.at_seconds is None else found.at_seconds
        if name not in into:
            into[name], row.stamps[name] = value, at
            return
        if (at, value) > (row.stamps[name], into[name]):
            into[name], row.stamps[name] = value, at
        self._bad(f"{found.family.decode()}{{{found.labels[:_SHOWN].decode(errors='replace')}}}: comes twice")

    def _row(self, known: Mapping[str, str]) -> _Row:
        target = target_of(known, self._node)
        path, names = label(known, "id"), by_names(known)
        if not path and names == "/":
            raise InvalidSampleLine("no label says of which cgroup it is")
        key = path or names
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(target)
        return row

    def _samples(self) -> Iterable[Sample]:
        seen: set[tuple[CgroupLevel, str, str]] = set()
        for row in self._rows.values():
            if row.target is None:
                continue
            same = row.target.level, row.target.pod_uid, row.target.container_id
            if same in seen:
                continue  # a node in a container shows its cgroups by the inner and by the outer path
            missing = [name for name in _ENFORCED if name not in row.values]
            if any(name in row.values for name in (*_COUNTED, "quota_us")):
                if missing:
                    self._bad(f"{row.target.path}: no {', '.join(missing)} beside its other series")
                    continue
            elif row.target.level is CgroupLevel.OTHER:
                continue  # a systemd unit without a quota
            if row.target.pod_uid and row.target.level is not CgroupLevel.OTHER:
                seen.add(same)
            yield self._sample(row.target, row)

    def _sample(self, target: CgroupTarget, row: _Row) -> Sample:
        values = row.values
        usage = row.usage.get("total", sum(row.usage.values())) if row.usage else None
        # A kubelet on cgroup v1 tells 0 of everybody: who never waited has told nothing.
        waited = target.level is CgroupLevel.CONTAINER and bool(values.get("waiting_ns")) and self._hierarchy() != "v1"
        stamps = (row.stamps[name] for name in ("periods", "total", *row.usage) if name in row.stamps)
        return Sample(
            target,
            next(stamps, self._at_seconds),
            quota_us=values.get("quota_us"),
            period_us=values.get("period_us") or _PERIOD_US,
            periods=values.get("periods", 0),
            throttled=values.get("throttled", 0),
            throttled_ns=values.get("throttled_ns", 0),
            usage_ns=usage,
            bursts=values.get("bursts"),
            waiting_ns=values.get("waiting_ns") if waited else None,
            stalled_ns=values.get("stalled_ns") if waited else None,
        )

    def _hierarchy(self) -> str:
        root = self._rows.get("/")
        if root is None or "period_us" not in root.values:
            return ""
        return "v1" if root.values["period_us"] else "v2"

    def _bad(self, what: str) -> None:
        self._tell(ReadError.MALFORMED, what)

    def _tell(self, trouble: ReadError, what: str) -> None:
        self._troubles[trouble] += 1
        self._examples.setdefault(trouble, f"{self._node}: {what}" if self._node else what)


def scraped(body: bytes, node: str = "", at_seconds: float = 0.0) -> Scraped:
    """Read a whole body at once."""
    scrape = CadvisorScrape(node, at_seconds)
    scrape.feed(body)
    return scrape.finish()
