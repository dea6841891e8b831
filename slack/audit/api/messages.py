"""What agent and controller say to each other: POST /v1/reports, a `AgentReport` there, an `ControllerAnswer` back,
both JSON.

A report holds figures only of what was throttled and of what shares a pod or a way up with it; of all else it holds
counts. Every field is bounded, so whoever decodes a report holds no more than `MAX_REPORT_BYTES` can make of it. Fields
that a side does not know are skipped and those that are missing have defaults: agent and controller may be of
different versions while a DaemonSet rolls.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError
from slack.audit.findings.window import Window, Windows, WindowState

REPORTS_PATH = "/v1/reports"
AUDIENCE = "resource-slack-audit"
"""Of the service account token that an agent sends as bearer."""
VERSION = 1
MAX_REPORT_BYTES = 4 << 20
"""Unpacked. 1,000 rows in each of three windows and 500 pods are less than 1.5 MiB."""
MAX_ANSWER_BYTES = 4 << 20
MAX_ROWS = 1000
"""In one window of a report; those with the least time lost are left out first, and counted."""
MAX_PODS = 2000
MAX_PATH = 1024
MAX_TEXT = 512

_MOST = (1 << 63) - 1
Count = Annotated[int, Meta(ge=0, le=_MOST)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Uid = Annotated[str, Meta(max_length=255)]
Id = Annotated[str, Meta(max_length=255)]
Name = Annotated[str, Meta(max_length=253)]
Path = Annotated[str, Meta(max_length=MAX_PATH)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base: values, with what is as usual left out of the text."""


def text(value: str, limit: int = MAX_PATH) -> str:
    """Make a text that can be sent: names of the file system may hold bytes that are no UTF-8."""
    return value.encode(errors="replace").decode()[:limit]


def _count(value: int) -> int:
    return min(value, _MOST)  # the kernel's own counters may be twice as large


class Row(_Message, frozen=True):
    """One `Window`, without its node."""

    level: CgroupLevel
    path: Path
    state: WindowState = WindowState.MEASURED
    seconds: Seconds = 0.0
    pod_uid: Uid = ""
    container_id: Id = ""
    quota_us: Count | None = None
    period_us: Count = 100_000
    quota_changed: bool = False
    periods: Count = 0
    throttled: Count = 0
    throttled_ns: Count = 0
    usage_ns: Count | None = None
    inherited_ns: Count | None = None
    burst_us: Count | None = None
    bursts: Count | None = None
    waiting_ns: Count | None = None
    stalled_ns: Count | None = None

    @classmethod
    def from_window(cls, window: Window) -> "Row":
        """Make the row of a window."""
        target = window.target
        return cls(
            level=target.level,
            path=text(target.path),
            state=window.state,
            seconds=round(window.seconds, 3),
            pod_uid=target.pod_uid,
            container_id=target.container_id,
            quota_us=window.quota_us,
            period_us=window.period_us,
            quota_changed=window.quota_changed,
            periods=_count(window.periods),
            throttled=_count(window.throttled),
            throttled_ns=_count(window.throttled_ns),
            usage_ns=None if window.usage_ns is None else _count(window.usage_ns),
            inherited_ns=None if window.inherited_ns is None else _count(window.inherited_ns),
            burst_us=window.burst_us,
            bursts=window.bursts,
            waiting_ns=None if window.waiting_ns is None else _count(window.waiting_ns),
            stalled_ns=None if window.stalled_ns is None else _count(window.stalled_ns),
        )

    def window(self, node: str) -> Window:
        """Give the window back; names are '' until somebody tells them."""
        return Window(
            target=CgroupTarget(self.level, self.path, node, self.pod_uid, self.container_id),
            state=self.state,
            seconds=self.seconds,
            quota_us=self.quota_us,
            period_us=self.period_us,
            quota_changed=self.quota_changed,
            periods=self.periods,
            throttled=self.throttled,
            throttled_ns=self.throttled_ns,
            usage_ns=self.usage_ns,
            inherited_ns=self.inherited_ns,
            burst_us=self.burst_us,
            bursts=self.bursts,
            waiting_ns=self.waiting_ns,
            stalled_ns=self.stalled_ns,
        )


class PodCounts(_Message, frozen=True, array_like=True):
    """How many of a pod's containers are in which state; the sandbox counts as a container without a limit."""

    measured: Count = 0
    no_limit: Count = 0
    too_few: Count = 0
    other: Count = 0
    """Reset, appeared or gone."""


class WindowReport(_Message, frozen=True):
    """All cgroups over one window."""

    seconds: Seconds = 0.0
    """The longest that the history goes back, up to the window's length."""
    states: dict[WindowState, Count] = msgspec.field(default_factory=dict)
    """Cgroups of all levels."""
    pods: Annotated[dict[Uid, PodCounts], Meta(max_length=MAX_PODS)] = msgspec.field(default_factory=dict)
    """By pod uid, pods with containers only. A pod that is here and has no row has lost nothing."""
    rows: Annotated[tuple[Row, ...], Meta(max_length=MAX_ROWS)] = ()
    """What was throttled, by its own quota or another's, all levels and containers of the same pods, and what is below
    a throttled level above the pods."""
    left_out: Count = 0
    """Rows that were more than `MAX_ROWS`."""


class BurstState(_Message, frozen=True):
    """What became of one burst order, or of a burst that was written before and has no order any more."""

    pod_uid: Uid
    container_id: Id
    burst_us: Count = 0
    """As it is written now."""
    error: Text = ""
    """Why it is not what the order says; '' when it is."""


class AgentReport(_Message, frozen=True):
    """All that an agent tells of its node, once a minute; the newest replaces all before."""

    node: Annotated[str, Meta(min_length=1, max_length=253)]
    version: Count = VERSION
    agent: Name = ""
    """Name of the agent's pod."""
    at_unix: Seconds = 0.0
    """By the node's clock, which may be wrong."""
    interval_seconds: Seconds = 0.0
    push_seconds: Seconds = 60.0
    """When to expect the next."""
    cpus: Count | None = None
    kernel_release: Text = ""
    kernel_version: Text = ""
    hierarchy: Text = ""
    use_cores: Seconds | None = None
    """CPU time of the whole node a second, over the 5 minutes' window."""
    windows: Annotated[dict[Name, WindowReport], Meta(max_length=8)] = msgspec.field(default_factory=dict)
    """By the window's name: 1m, 5m, 1h."""
    troubles: dict[ReadError, Count] = msgspec.field(default_factory=dict)
    """Since the agent began."""
    examples: dict[ReadError, Text] = msgspec.field(default_factory=dict)
    unnamed: Annotated[tuple[Uid, ...], Meta(max_length=MAX_PODS)] = ()
    """Pods whose names, or one of whose containers' names, the agent would like to know."""
    writes_bursts: bool = False
    bursts: Annotated[tuple[BurstState, ...], Meta(max_length=MAX_ROWS)] = ()

    @property
    def facts(self) -> CgroupNodeFacts:
        """What judging needs to know of the node."""
        return CgroupNodeFacts(self.cpus, self.kernel_release, self.kernel_version, self.hierarchy)

    def measured(self, window: str) -> Windows:
        """Return the rows of one window as windows; none where the agent has no such window."""
        report = self.windows.get(window, WindowReport())
        return Windows(
            windows=tuple(row.window(self.node) for row in report.rows),
            nodes={self.node: self.facts},
            troubles=self.troubles,
            examples=self.examples,
            seconds=report.seconds,
        )


class PodName(_Message, frozen=True):
    """The names of a pod."""

    namespace: Name
    name: Name
    containers: dict[Id, Name] = msgspec.field(default_factory=dict)
    """Container names by container id, without the runtime's prefix; those that have one yet."""


class BurstOrder(_Message, frozen=True):
    """Let a container burst."""

    pod_uid: Uid
    container_id: Id
    burst_us: Count
    """Microseconds of CPU time that it may save up; the agent writes no more than the container's quota."""
    seconds: Annotated[float, Meta(gt=0, le=86400)] = 900.0
    """How long the order holds when no answer comes any more."""


class ControllerAnswer(_Message, frozen=True):
    """What the controller says to a report."""

    names: Annotated[dict[Uid, PodName], Meta(max_length=MAX_PODS)] = msgspec.field(default_factory=dict)
    """Of those that the report asks for, by the uid as it asks."""
    bursts: Annotated[tuple[BurstOrder, ...], Meta(max_length=MAX_ROWS)] = ()
    """All orders for this node: one that was in the answer before and is not in this one has ended."""
