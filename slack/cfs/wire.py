"""What agent and controller say to each other: POST /v1/reports, a `NodeReport` there, an `Answer` back, both JSON.

A report holds figures only of what was throttled and of what shares a pod or a way up with it; of all else it holds
counts. Every field is bounded, so whoever decodes a report holds no more than `MAX_REPORT_BYTES` can make of it. Fields
that a side does not know are skipped and those that are missing have defaults: agent and controller may be of
different versions while a DaemonSet rolls.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from slack.cfs.sample import Level, NodeFacts, Target, Trouble
from slack.cfs.window import State, Window, Windows

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
PACK_FROM_BYTES = 16 << 10
"""From here on a message is sent gzipped."""

_MOST = (1 << 63) - 1
Count = Annotated[int, Meta(ge=0, le=_MOST)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Uid = Annotated[str, Meta(max_length=255)]
Id = Annotated[str, Meta(max_length=255)]
Name = Annotated[str, Meta(max_length=253)]
Path = Annotated[str, Meta(max_length=MAX_PATH)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
T = TypeVar("T")


class BadMessage(ValueError):
    """A message of the other side that cannot be read; the text names the field and what it should be."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base: values, with what is as usual left out of the text."""


def text(value: str, limit: int = MAX_PATH) -> str:
    """Make a text that can be sent: names of the file system may hold bytes that are no UTF-8."""
    return value.encode(errors="replace").decode()[:limit]


def _count(value: int) -> int:
    return min(value, _MOST)  # the kernel's own counters may be twice as large


class Row(_Message, frozen=True):
    """One `Window`, without its node."""

    level: Level
    path: Path
    state: State = State.MEASURED
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

    @classmethod
    def of(cls, window: Window) -> "Row":
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
        )

    def window(self, node: str) -> Window:
        """Give the window back; names are '' until somebody tells them."""
        return Window(
            target=Target(self.level, self.path, node, self.pod_uid, self.container_id),
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
    states: dict[State, Count] = msgspec.field(default_factory=dict)
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


class NodeReport(_Message, frozen=True):
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
    troubles: dict[Trouble, Count] = msgspec.field(default_factory=dict)
    """Since the agent began."""
    examples: dict[Trouble, Text] = msgspec.field(default_factory=dict)
    unnamed: Annotated[tuple[Uid, ...], Meta(max_length=MAX_PODS)] = ()
    """Pods whose names, or one of whose containers' names, the agent would like to know."""
    writes_bursts: bool = False
    bursts: Annotated[tuple[BurstState, ...], Meta(max_length=MAX_ROWS)] = ()

    @property
    def facts(self) -> NodeFacts:
        """What judging needs to know of the node."""
        return NodeFacts(self.cpus, self.kernel_release, self.kernel_version, self.hierarchy)

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


class Answer(_Message, frozen=True):
    """What the controller says to a report."""

    names: Annotated[dict[Uid, PodName], Meta(max_length=MAX_PODS)] = msgspec.field(default_factory=dict)
    """Of those that the report asks for, by the uid as it asks."""
    bursts: Annotated[tuple[BurstOrder, ...], Meta(max_length=MAX_ROWS)] = ()
    """All orders for this node: one that was in the answer before and is not in this one has ended."""


def window_report(windows: Windows) -> WindowReport:
    """Sum up one window of one node; of more rows than `MAX_ROWS` those with the most throttled time stay."""
    states: dict[State, int] = {}
    pods: dict[str, dict[str, int]] = {}
    concerned: set[str] = set()
    worst: list[Window] = []
    for one in windows.windows:
        target = one.target
        states[one.state] = states.get(one.state, 0) + 1
        if one.throttled or one.throttled_ns or one.inherited_ns:
            worst.append(one)
            if target.pod_uid:
                concerned.add(target.pod_uid)
        if target.level is Level.CONTAINER and target.pod_uid and (target.pod_uid in pods or len(pods) < MAX_PODS):
            counts = pods.setdefault(target.pod_uid, {})
            name = _COUNTED.get(one.state, "other")
            counts[name] = counts.get(name, 0) + 1
    rows = _rows(windows.windows, worst, concerned)
    rows.sort(key=lambda one: (-(one.throttled_ns or one.inherited_ns or 0), one.target.path))
    return WindowReport(
        seconds=round(windows.seconds, 3),
        states=states,
        pods={uid: PodCounts(**counts) for uid, counts in pods.items()},
        rows=tuple(Row.of(one) for one in rows[:MAX_ROWS]),
        left_out=max(0, len(rows) - MAX_ROWS),
    )


_COUNTED = {State.MEASURED: "measured", State.NO_LIMIT: "no_limit", State.TOO_FEW: "too_few"}


def _rows(windows: Iterable[Window], worst: Iterable[Window], pods: set[str]) -> list[Window]:
    """Choose what was throttled, its pods whole, what is below, and the levels above that have a quota."""
    chosen = {one.target.path for one in worst}
    above = {start for path in chosen for start in _starts(path)}
    over_pods = {one.target.path for one in worst if one.throttled and not one.target.pod_uid}
    return [
        one
        for one in windows
        if len(one.target.path) <= MAX_PATH
        and (
            one.target.path in chosen
            or one.target.pod_uid in pods
            or (one.target.path in above and one.limited)
            or (over_pods and not over_pods.isdisjoint(_starts(one.target.path)))
        )
    ]


def _starts(path: str) -> Iterator[str]:
    """Yield the paths of the cgroups above one, without the root."""
    return (path[:at] for at in range(1, len(path)) if path[at] == "/")


def encode(message: NodeReport | Answer) -> bytes:
    """Write a message as JSON."""
    return msgspec.json.encode(message)


def packed(data: bytes) -> tuple[bytes, str]:
    """Return what to send of a body and its Content-Encoding: gzip when it is large, else ''."""
    return (gzip.compress(data, 5, mtime=0), "gzip") if len(data) >= PACK_FROM_BYTES else (data, "")


def unpacked(data: bytes, encoding: str, limit: int) -> bytes:
    """Undo `packed`; stops unpacking at the limit, so a small body cannot become a large one.

    Raises:
        BadMessage: more than `limit` bytes, no gzip, or an encoding other than gzip.
    """
    if encoding.lower() in ("", "identity"):
        if len(data) > limit:
            raise BadMessage(f"the body is longer than {limit} bytes")
        return data
    if encoding.lower() != "gzip":
        raise BadMessage(f"Content-Encoding {encoding[:40]!r} is not known; send gzip or none")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        whole = unpacker.decompress(data, limit + 1)
    except zlib.error:
        raise BadMessage("the body is no gzip") from None
    if len(whole) > limit:
        raise BadMessage(f"the body is longer than {limit} bytes when unpacked")
    if not unpacker.eof:
        raise BadMessage("the gzip body ends too early")
    return whole


def _decode(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(str(error)) from None


_REPORTS = msgspec.json.Decoder(NodeReport)
_ANSWERS = msgspec.json.Decoder(Answer)


def decode_report(data: bytes) -> NodeReport:
    """Read a report.

    Raises:
        BadMessage: with the field that is wrong.
    """
    return _decode(data, _REPORTS)


def decode_answer(data: bytes) -> Answer:
    """Read an answer.

    Raises:
        BadMessage: with the field that is wrong.
    """
    return _decode(data, _ANSWERS)
