"""The newest report of each node: in from the agents, out as a view for who asks and as sums for the policies.

Reports are kept as they came, as bytes: a storm on thousands of nodes is 150,000 rows, which as objects would be most
of the process. The receiver's threads put and look, the loop sums; all under one lock.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from slack.process.reporting.packing import InvalidReportBody, pack, unpack
from slack.throttler.protocol import InvalidThrottlerMessage
from slack.throttler.reports.messages import (
    MAX_REPORT_BYTES,
    LatePod,
    NodeReport,
    ReportAnswer,
    SilentNode,
    View,
    decode_report,
    encode,
)
from slack.throttler.reports.summary import NodeSummary
from slack_operator.runtime.callers import Caller, CallerRefused
from slack_operator.runtime.report_receiver import Body

MAX_NODES = 20_000
REPORTS_PER_SECOND = 50.0
"""More than that is not asked for, of those that move and of those that do not: a report is a TLS handshake."""
QUIET_SECONDS, MOVING_SECONDS = 60.0, 5.0
SILENT_INTERVALS = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one node."""

    summary: NodeSummary
    body: Body
    policy: str
    at: float
    """Monotonic seconds at which it came."""
    unix: float
    blind: str
    """Why the agent does not see its node's pods; empty: it sees them."""


class Starts:
    """All reports."""

    def __init__(
        self,
        on_news: Callable[[], None],
        on_report: Callable[[NodeReport], None] = lambda report: None,
        on_late: Callable[[str, Sequence[LatePod]], None] = lambda node, late: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nobody has reported.

        Args:
            on_news: called when a report has other counts than the one before.
            on_report: called with each report that was taken, in the receiver's thread.
            on_late: called with the pods that each report says are late, in the receiver's thread; with none while the
                agent does not see its pods.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._on_news = on_news
        self._on_report = on_report
        self._on_late = on_late
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._nodes: dict[str, Kept] = {}
        self._moving = 0

    def accept_report(self, caller: Caller, body: Body) -> bytes:
        """Take an agent's report, and say when the next is wanted.

        Raises:
            Refused: 400 it cannot be read, 403 it is of another node, 503 there are more nodes than can be kept.
        """
        report = _read(body)
        if report.node != caller.node:
            raise CallerRefused(403, f"pod {caller.pod} is on node {caller.node} and may not report on {report.node}")
        now = self._clock()
        kept = Kept(
            NodeSummary.from_report(report, now), _small(report), report.policy, now, self._wall(), report.blind
        )
        with self._lock:
            former = self._nodes.get(report.node)
            if former is None and len(self._nodes) >= MAX_NODES:
                raise CallerRefused(503, f"more than {MAX_NODES} nodes report")
            self._nodes[report.node] = kept
            self._moving += kept.summary.moving - (former is not None and former.summary.moving)
            answer = ReportAnswer(every_seconds=self.every_seconds, moving_seconds=self.moving_seconds)
        known = None if former is None else (former.summary.counts, bool(former.blind))
        if known != (kept.summary.counts, bool(kept.blind)):
            self._on_news()
        self._on_report(report)
        self._on_late(report.node, () if report.blind else report.late)
        return encode(answer)

    @property
    def every_seconds(self) -> float:
        """How often a node reports of which nothing waits."""
        return max(QUIET_SECONDS, len(self._nodes) / REPORTS_PER_SECOND)

    @property
    def moving_seconds(self) -> float:
        """How often the others do."""
        return max(MOVING_SECONDS, self._moving / REPORTS_PER_SECOND)

    @property
    def silent_seconds(self) -> float:
        """After so long without a report a node is silent."""
        return SILENT_INTERVALS * max(self.every_seconds, self.moving_seconds)

    def forget(self) -> None:
        """Another leads now: what comes later is not to be joined with what was."""
        with self._lock:
            self._nodes, self._moving = {}, 0

    def keep(self, nodes: frozenset[str]) -> None:
        """Forget every node but these."""
        with self._lock:
            for name in self._nodes.keys() - nodes:
                self._moving -= self._nodes.pop(name).summary.moving

    def heard(self) -> Mapping[str, tuple[NodeSummary, bool]]:
        """Return what every node that has reported has said last, and whether it still reports and sees its pods."""
        now, longest = self._clock(), self.silent_seconds
        with self._lock:
            return {
                name: (kept.summary, now - kept.at <= longest and not kept.blind) for name, kept in self._nodes.items()
            }

    def view(self, node: str = "", namespace: str = "", pod: str = "") -> bytes:
        """Return a `View`: of all nodes, of one, or of a pod's."""
        now, longest = self._clock(), self.silent_seconds
        with self._lock:
            nodes = dict(self._nodes)
        wanted = [nodes[name] for name in sorted(nodes) if node in ("", name)]
        reports, silent = [], []
        for kept in wanted:
            if now - kept.at > longest or kept.blind:
                reason = kept.blind if now - kept.at <= longest else ""
                silent.append(SilentNode(node=kept.summary.node, policy=kept.policy, at=kept.unix, reason=reason))
                continue
            report = _read(kept.body)
            if pod:
                rows = tuple(row for row in report.containers if (row.namespace, row.pod) == (namespace, pod))
                if not rows:
                    continue
                report = msgspec.structs.replace(report, containers=rows)
            reports.append(report)
        return encode(View(at=self._wall(), reports=tuple(reports), silent=tuple(silent)))


def _small(report: NodeReport) -> Body:
    """Write a report anew, for one with thousands of fields that nobody knows would be kept whole."""
    return Body(*pack(encode(msgspec.structs.replace(report, permits=(), late=(), pending_pods=()))))


def _read(body: Body) -> NodeReport:
    try:
        return decode_report(unpack(body.data, body.encoding, MAX_REPORT_BYTES))
    except (InvalidReportBody, InvalidThrottlerMessage) as error:
        raise CallerRefused(400, f"the report cannot be read: {error}") from None
