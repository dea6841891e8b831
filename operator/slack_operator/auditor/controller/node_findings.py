"""From nodes' reports to namespaces: the newest report of each node, judged once, named, and summed up.

Judging is the dear part, so its result is kept until the node reports again, a policy's thresholds change, or names
that were missing have come. The receiver's threads put reports, the turn reads: both under one lock.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from slack.audit.advice.rules import Facts
from slack.audit.api.messages import AgentReport, BurstOrder, ControllerAnswer
from slack.audit.api.report import PodFinding
from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupLevel
from slack.audit.findings.throttling import judge
from slack.audit.kernel.quota_bugs import KernelState, KernelVerdict, kernel_verdict
from slack_operator.auditor.controller.aggregation import (
    ClusterFindings,
    Criteria,
    NamedFinding,
    NamespaceCounts,
    NodeState,
    ReportFindings,
    aggregate,
)
from slack_operator.auditor.controller.cluster_view import AuditedClusterView

SILENT_INTERVALS = 3
DEFAULT_PUSH_SECONDS = 60.0
MAX_NODES = 20_000
LOOKS = 3
"""How often a report with names missing is judged."""

_POD_LEVELS = frozenset({CgroupLevel.POD, CgroupLevel.CONTAINER})


class NodeFindings:
    """Keeps reports and what they mean."""

    def __init__(self, view: AuditedClusterView, clock: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeState] = {}
        self._windows: frozenset[str] = frozenset({"5m"})
        self._orders: Mapping[str, tuple[BurstOrder, ...]] = {}
        self._looked_at: frozenset[str] = frozenset()
        self._kernels: dict[tuple[str, str], KernelVerdict] = {}

    def put(self, report: AgentReport) -> None:
        """Take the newest report of a node; of its windows only those that a policy wants are kept."""
        windows = {name: window for name, window in report.windows.items() if name in self._windows}
        slim = msgspec.structs.replace(report, windows=windows, unnamed=())
        with self._lock:
            if report.node in self._nodes or len(self._nodes) < MAX_NODES:
                dropped = frozenset(report.windows) - frozenset(windows)
                self._nodes[report.node] = NodeState(slim, self._clock(), dropped=dropped)

    def answer(self, report: AgentReport) -> ControllerAnswer:
        """Return names and orders for the node of a report."""
        names = self._view.pod_names(report.unnamed, report.node)
        orders = self._orders.get(report.node, ())
        if report.node not in self._looked_at:  # a leader that has just begun lets stand what the last one ordered
            orders = tuple(
                BurstOrder(pod_uid=burst.pod_uid, container_id=burst.container_id, burst_us=burst.burst_us)
                for burst in report.bursts
                if burst.burst_us and not burst.error
            )
        return ControllerAnswer(names=names, bursts=orders)

    def order(self, orders: Mapping[str, tuple[BurstOrder, ...]], nodes: frozenset[str]) -> None:
        """Give all burst orders by node, made from the reports of these nodes."""
        self._orders = orders
        self._looked_at = nodes

    def findings(self, policies: Mapping[str, Criteria]) -> ClusterFindings:
        """Return what is known now.

        Args:
            policies: how each namespace that has a policy is judged.
        """
        self._windows = frozenset(criteria.window for criteria in policies.values()) or self._windows
        known = self._view.nodes()
        now = self._clock()
        with self._lock:
            self._nodes = {name: node for name, node in self._nodes.items() if name in known}
            kept = dict(self._nodes)
        reporting = {
            name: node
            for name, node in kept.items()
            if now - node.at <= _silent_after_seconds(node.report.push_seconds)
        }
        silent = frozenset(
            name
            for name, node in known.items()
            if name not in reporting
            and (name in kept or now - node.seen_at > _silent_after_seconds(DEFAULT_PUSH_SECONDS))
        )
        ways = frozenset(policies.values())
        for node in reporting.values():
            self._judge_node(node, ways)
        return aggregate(policies, reporting, silent, self._view.pods_on(silent) if silent else {}, self.verdict)

    def verdict(self, release: str, version: str) -> KernelVerdict:
        """Return what the table says of a kernel."""
        key = release, version
        if key not in self._kernels:
            if len(self._kernels) > 1000:
                self._kernels.clear()
            self._kernels[key] = kernel_verdict(release, version)
        return self._kernels[key]

    def _judge_node(self, node: NodeState, ways: frozenset[Criteria]) -> None:
        node.looks += 1
        again = node.looks <= LOOKS  # names come within seconds, or never: a static pod that no API server knows
        node.judged = {
            criteria: result
            for criteria, result in node.judged.items()
            if criteria in ways and (result.complete or not again)
        }
        for criteria in ways - node.judged.keys():
            node.judged[criteria] = self._judged(node.report, criteria)

    def _judged(self, report: AgentReport, criteria: Criteria) -> ReportFindings:
        result = ReportFindings()
        windows = report.measured(criteria.window)
        for finding in judge(windows.windows, windows.nodes, criteria.thresholds):
            if finding.severity is Severity.NONE:
                continue
            if finding.window.target.level not in _POD_LEVELS:
                result.above.append(finding)
                continue
            judged = self._named(finding, report)
            if judged is None:
                result.complete = False
            else:
                result.findings.append(judged)
        self._count(report, criteria.window, result)
        return result

    def _named(self, finding: Finding, report: AgentReport) -> NamedFinding | None:
        pod, container, target = self._view.whose(finding.window.target)
        if pod is None or pod.node != report.node:  # a node has no say in pods that are elsewhere
            return None
        window = replace(finding.window, target=target)
        blamed = self._view.whose(finding.blamed)[2] if finding.blamed is not None else None
        named = replace(finding, window=window, blamed=blamed)
        return NamedFinding(PodFinding(named, pod, Facts(pod=pod, container=container, node=report.facts)), container)

    def _count(self, report: AgentReport, window: str, result: ReportFindings) -> None:
        told = report.windows.get(window)
        for uid, states in told.pods.items() if told is not None else ():
            pod = self._view.pod(uid.replace("_", "-"))
            if pod is None or pod.node != report.node:
                result.complete = False
                continue
            counts = result.counts.setdefault(pod.namespace, NamespaceCounts())
            counts.pods += 1
            counts.containers += states.measured + states.no_limit + states.too_few + states.other
            counts.no_limit += states.no_limit
            counts.too_few += states.too_few
            counts.other += states.other

    def affected(self, report: AgentReport | None) -> bool:
        """Whether the kernel of a report's node is known to have a bug of quotas."""
        if report is None:
            return False
        return self.verdict(report.kernel_release, report.kernel_version).state is KernelState.AFFECTED


def _silent_after_seconds(push_seconds: float) -> float:
    return SILENT_INTERVALS * min(600.0, max(1.0, push_seconds or DEFAULT_PUSH_SECONDS))
