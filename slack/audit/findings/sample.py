"""What every source gives: the CPU counters of cgroups at one moment, and what could not be read.

Three sources have the one method `sample()`: the cgroupfs walker, cAdvisor and Prometheus. Two of what they return make
windows (`slack.audit.findings.window`). Counters are the kernel's since the cgroup was made; nothing is a rate here.
What a source cannot know is None, which is never the same as 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec


class CgroupLevel(StrEnum):
    """Where in the tree a cgroup is; a quota at any of these stops all that is below."""

    NODE = "node"
    KUBEPODS = "kubepods"
    QOS = "qos"
    POD = "pod"
    CONTAINER = "container"
    OTHER = "other"
    """Not the kubelet's: a systemd unit, a container of Docker's own."""


@dataclass(frozen=True, slots=True)
class CgroupTarget:
    """Which cgroup. Names are '' until somebody who knows them has told."""

    level: CgroupLevel
    path: str
    """From the root of the hierarchy, such as /kubepods/burstable/pod4c1f.../3a9b...; a source without paths makes one
    of the names, which is as stable."""
    node: str = ""
    """'' for the machine that the program runs on."""
    pod_uid: str = ""
    container_id: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells targets of one source apart: node and path."""
        return self.node, self.path


class Sample(msgspec.Struct, frozen=True, gc=False):
    """The counters of one cgroup. A cgroup without a quota has `quota_us` None and no periods.

    No dataclass, as thousands are made each time; `msgspec.structs.replace` makes a changed one.
    """

    target: CgroupTarget
    at_seconds: float
    """When they were read, by a clock that is the same for all samples of the source (a series' own time stamp)."""
    quota_us: int | None
    """cpu.cfs_quota_us or the first word of cpu.max; None: no limit."""
    period_us: int
    periods: int
    """nr_periods: enforcement periods in which something wanted to run."""
    throttled: int
    """nr_throttled."""
    throttled_ns: int
    """throttled_time, summed over CPUs: no share of wall time."""
    usage_ns: int | None = None
    """CPU time used; None where it could not be read."""
    inherited_ns: int | None = None
    """cpu.stat.local: time in which this cgroup stood still for its own quota or an ancestor's, summed over CPUs."""
    burst_us: int | None = None
    """cpu.max.burst or cpu.cfs_burst_us; None where the kernel has none or nobody knows."""
    bursts: int | None = None
    waiting_ns: int | None = None
    """cpu.pressure, some: time in which a thread of it could have run and waited for a CPU, for whatever reason."""
    stalled_ns: int | None = None
    """cpu.pressure, full: time in which none of its threads ran and one could have. Kernels before 5.13 have none."""


class ReadError(StrEnum):
    """Why something was left out of an audit; counted and told, never fatal."""

    EMPTY = "empty"
    MALFORMED = "malformed"
    """Half-written, negative, overflowing, or with words where numbers belong."""
    FORBIDDEN = "forbidden"
    GONE = "gone"
    """Between the listing and the reading; usual for pods that end."""
    UNREADABLE = "unreadable"
    """Any other error of the file system."""
    NO_ANSWER = "no answer"
    """A node, an API server or a Prometheus that did not answer, or not in time."""


@dataclass(frozen=True, slots=True)
class CgroupNodeFacts:
    """What must be known of a node to judge its cgroups."""

    cpus: int | None
    """Online CPUs; None when nobody knows."""
    kernel_release: str = ""
    """`uname -r`."""
    kernel_version: str = ""
    """/proc/version or `uname -v`, where it can be had: Debian's patch level is only there."""
    hierarchy: str = ""
    """v1, v2 or hybrid; '' for a source that does not see it."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """All that one call of `sample()` found."""

    samples: tuple[Sample, ...]
    nodes: Mapping[str, CgroupNodeFacts]
    """By `CgroupTarget.node`."""
    troubles: Mapping[ReadError, int] = field(default_factory=dict)
    """How many cgroups (of remote sources: nodes or series) are not, or not wholly, in `samples`, and why."""
    examples: Mapping[ReadError, str] = field(default_factory=dict)
    """One of each: the file or node, and what is wrong with it."""


class SampleSource(Protocol):
    """The walker, cAdvisor or Prometheus."""

    def sample(self) -> Sampled:
        """Read the counters of everything once."""

    def close(self) -> None:
        """Let go of descriptors and connections."""
