"""What a kubelet shows at /metrics/cadvisor: whole bodies, whose counters grow with the time that is asked for.

Families, labels, their order and the way numbers are written are those of kubelet 1.36 (cAdvisor 0.56, Go's
strconv.FormatFloat 'g'). cAdvisor reads each cgroup every 10 s at a time of its own; the counters are those of that
time, and so is the time stamp. Specifications carry none.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

HOUSEKEEPING_SECONDS = 10.0
"""How often cAdvisor reads a cgroup (kubelet: pkg/kubelet/cadvisor, defaultHousekeepingInterval)."""
PERIOD_US = 100_000
_IMAGE = "registry.example/shop/api:v1"
_PAUSE = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True)
class Cgroup:
    """One cgroup and how its counters grow."""

    path: str
    namespace: str = ""
    pod: str = ""
    container: str = ""
    name: str = ""
    image: str = ""
    quota_us: int = 0
    """0: no limit."""
    period_us: int = PERIOD_US
    """0 at the root of v2, which has no cpu.max."""
    shares: int = 1024
    use_cores: float = 0.0
    throttled_share: float = 0.0
    """Of its periods."""
    stop_ms: float = 0.0
    """A throttled period, summed over CPUs."""
    born: float = 0.0
    """When its counters were zero."""

    @property
    def sandbox(self) -> bool:
        """Whether it is a pod's pause container, which has the network's series."""
        return bool(self.name) and not self.container

    def read_at(self, now: float) -> float:
        """Return when cAdvisor has read it last, in whole milliseconds."""
        phase = int(sha256(self.path.encode()).hexdigest()[:6], 16) % 10_000 / 1000
        return math.floor((now - phase) / HOUSEKEEPING_SECONDS) * HOUSEKEEPING_SECONDS + phase

    def counters(self, now: float) -> tuple[int, int, int, int]:
        """Return periods, throttled periods, throttled ns and usage ns as cAdvisor has read them last."""
        seconds = max(0.0, self.read_at(now) - self.born)
        periods = int(seconds * 1e6 / self.period_us) if self.quota_us else 0
        throttled = int(periods * self.throttled_share)
        return periods, throttled, int(throttled * self.stop_ms * 1e6), int(seconds * self.use_cores * 1e9)


@dataclass(frozen=True)
class _Series:
    family: str
    value: Callable[[Cgroup, float], float]
    extra: tuple[tuple[str, str], ...] = ()
    timed: bool = True
    wanted: Callable[[Cgroup], bool] = lambda cgroup: True


def full_node(pods: int, containers: int = 2, *, born: float = 0.0) -> list[Cgroup]:
    """Return the cgroups of a node: every pod with a sandbox, all but the last container of a pod with a limit."""
    found = [
        Cgroup("/", use_cores=4.0),
        Cgroup("/kubepods", use_cores=3.5),
        Cgroup("/kubepods/besteffort", shares=2),
        Cgroup("/kubepods/burstable", use_cores=3.5),
        Cgroup("/system.slice/containerd.service", use_cores=0.1),
        Cgroup("/system.slice/ssh.service"),
    ]
    for number in range(pods):
        found += _pod(number, containers, born)
    return found


def _pod(number: int, containers: int, born: float) -> Iterable[Cgroup]:
    uid = UUID(sha256(b"pod %d" % number).hexdigest()[:32])
    path = f"/kubepods/burstable/pod{uid}"
    namespace, pod = f"team-{number % 20}", f"api-{number // 20}-7c9fd8b6d5-{uid.hex[:5]}"
    yield Cgroup(path, namespace, pod, use_cores=0.2 * containers, born=born)
    sandbox = sha256(b"sandbox %d" % number).hexdigest()
    yield Cgroup(f"{path}/{sandbox}", namespace, pod, name=sandbox, image=_PAUSE, shares=2, born=born)
    for place in range(containers):
        limited = place < max(1, containers - 1)
        yield Cgroup(
            f"{path}/{(digest := sha256(b'container %d %d' % (number, place)).hexdigest())}",
            namespace,
            pod,
            f"c{place}",
            digest,
            image=_IMAGE,
            quota_us=50_000 if limited else 0,
            shares=256,
            use_cores=0.2,
            throttled_share=number % 10 / 10 if limited else 0.0,
            stop_ms=40.0,
            born=born,
        )


def go_float(value: float) -> str:
    """Write a number as Go does with the fewest digits that read back as it."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    if power < -4 or power >= 6:
        return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{power:+03d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return sign + digits[: power + 1].ljust(power + 1, "0") + ("." + digits[power + 1 :] if digits[power + 1 :] else "")


def scrape(cgroups: Sequence[Cgroup], now: float, *, cpus: int = 8, kernel: str = "6.12.48+deb13-amd64") -> bytes:
    """Return the whole body that a kubelet would answer at `now` (Unix seconds)."""
    version = f'cadvisorRevision="",cadvisorVersion="",dockerVersion="",kernelVersion="{kernel}"'
    lines = ["# HELP cadvisor_version_info A metric with a constant '1' value.", "# TYPE cadvisor_version_info gauge"]
    lines.append(f'cadvisor_version_info{{{version},osVersion="Debian GNU/Linux 13 (trixie)"}} 1')
    ordered = sorted(cgroups, key=lambda cgroup: (cgroup.container, cgroup.path))
    written = [(cgroup, _labels(cgroup), int(cgroup.read_at(now) * 1000 + 0.5)) for cgroup in ordered]
    last = ""
    for series in _SERIES:
        if series.family != last:
            last = series.family
            kind = "counter" if last.endswith("_total") else "gauge"
            lines += [f"# HELP {last} As cAdvisor has it.", f"# TYPE {last} {kind}"]
        extra = tuple(f'{key}="{value}"' for key, value in series.extra)
        for cgroup, labels, stamp in written:
            if series.wanted(cgroup):
                named = ",".join(sorted((*labels, *extra)))
                text = go_float(series.value(cgroup, now))
                lines.append(f"{last}{{{named}}} {text}{f' {stamp}' if series.timed else ''}")
    lines += ["# HELP machine_cpu_cores Number of logical CPU cores.", "# TYPE machine_cpu_cores gauge"]
    machine = 'boot_id="b0",machine_id="m0",system_uuid="u0"'
    lines.append(f"machine_cpu_cores{{{machine}}} {cpus} {int(now * 1000)}")
    return ("\n".join(lines) + "\n").encode()


def _labels(cgroup: Cgroup) -> tuple[str, ...]:
    values = {
        "container": cgroup.container,
        "id": cgroup.path,
        "image": cgroup.image,
        "name": cgroup.name,
        "namespace": cgroup.namespace,
        "pod": cgroup.pod,
    }
    return tuple(f'{key}="{value}"' for key, value in values.items())


def _counter(place: int, per: float = 1.0) -> Callable[[Cgroup, float], float]:
    return lambda cgroup, now: cgroup.counters(now)[place] / per


def _fixed(value: float) -> Callable[[Cgroup, float], float]:
    return lambda cgroup, now: value


def _limited(cgroup: Cgroup) -> bool:
    return cgroup.quota_us > 0


def _container(cgroup: Cgroup) -> bool:
    return bool(cgroup.container)


def _sandbox(cgroup: Cgroup) -> bool:
    return cgroup.sandbox


def _all_series() -> list[_Series]:
    mebibytes = float(1 << 20)
    plain = {
        "cpu_load_average_10s": 0.0,
        "cpu_load_d_average_10s": 0.0,
        "file_descriptors": 11.0,
        "memory_cache": 3 * mebibytes,
        "memory_failcnt": 0.0,
        "memory_kernel_usage": 0.5 * mebibytes,
        "memory_mapped_file": mebibytes,
        "memory_max_usage_bytes": 41 * mebibytes,
        "memory_rss": 30 * mebibytes,
        "memory_swap": 0.0,
        "memory_total_active_file_bytes": mebibytes,
        "memory_total_inactive_file_bytes": 2 * mebibytes,
        "memory_usage_bytes": 40 * mebibytes,
        "memory_working_set_bytes": 35.5 * mebibytes,
        "oom_events_total": 0.0,
        "pressure_cpu_stalled_seconds_total": 1.5,
        "pressure_cpu_waiting_seconds_total": 2.25,
        "pressure_io_stalled_seconds_total": 0.0,
        "pressure_io_waiting_seconds_total": 0.0,
        "pressure_memory_stalled_seconds_total": 0.0,
        "pressure_memory_waiting_seconds_total": 0.0,
        "processes": 1.0,
        "sockets": 3.0,
        "threads": 12.0,
        "threads_max": 31_000.0,
    }
    found = [_Series(f"container_{name}", _fixed(value)) for name, value in plain.items()]
    found += [
        _Series("container_cpu_cfs_periods_total", _counter(0), wanted=_limited),
        _Series("container_cpu_cfs_throttled_periods_total", _counter(1), wanted=_limited),
        _Series("container_cpu_cfs_throttled_seconds_total", _counter(2, 1e9), wanted=_limited),
        _Series("container_cpu_cfs_burst_periods_total", _fixed(0.0), wanted=_limited),
        _Series("container_cpu_cfs_burst_seconds_total", _fixed(0.0), wanted=_limited),
        _Series("container_cpu_usage_seconds_total", _counter(3, 1e9), (("cpu", "total"),)),
        _Series("container_cpu_user_seconds_total", _counter(3, 1.25e9)),
        _Series("container_cpu_system_seconds_total", _counter(3, 5e9)),
        _Series("container_last_seen", lambda cgroup, now: math.floor(now)),
        _Series("container_start_time_seconds", lambda cgroup, now: math.floor(cgroup.born), timed=False),
        _Series("container_spec_cpu_period", lambda cgroup, now: cgroup.period_us, timed=False),
        _Series("container_spec_cpu_quota", lambda cgroup, now: cgroup.quota_us, timed=False, wanted=_limited),
        _Series("container_spec_cpu_shares", lambda cgroup, now: cgroup.shares, timed=False),
        _Series("container_spec_memory_limit_bytes", _fixed(128 * mebibytes), timed=False),
        _Series("container_spec_memory_reservation_limit_bytes", _fixed(0.0), timed=False),
        _Series("container_spec_memory_swap_limit_bytes", _fixed(0.0), timed=False),
        *(
            _Series("container_memory_failures_total", _fixed(7_000.0), (("failure_type", kind), ("scope", scope)))
            for kind in ("pgfault", "pgmajfault")
            for scope in ("container", "hierarchy")
        ),
        *(
            _Series("container_tasks_state", _fixed(0.0), (("state", state),))
            for state in ("iowaiting", "running", "sleeping", "stopped", "uninterruptible")
        ),
        *(
            _Series(f"container_fs_{name}_total", _fixed(4096.0), (("device", "/dev/vda1"),), wanted=_container)
            for name in ("reads", "reads_bytes", "writes", "writes_bytes")
        ),
        *(
            _Series(f"container_network_{way}_{what}_total", _fixed(10.0), (("interface", "eth0"),), wanted=_sandbox)
            for way in ("receive", "transmit")
            for what in ("bytes", "errors", "packets", "packets_dropped")
        ),
    ]
    return sorted(found, key=lambda series: series.family)


_SERIES = _all_series()
