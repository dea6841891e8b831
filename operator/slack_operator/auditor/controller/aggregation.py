"""From judged nodes to namespaces: counts, findings with the worst first, kernels, silence.

The work of a turn grows with the namespaces that each node has and with findings, not with pods times nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from slack.audit.api.messages import AgentReport
from slack.audit.api.report import NamespaceFindings, PodFinding
from slack.audit.findings.finding import Finding, Thresholds
from slack.audit.findings.sample import CgroupLevel
from slack.audit.kernel.quota_bugs import KernelVerdict
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts


class Criteria(NamedTuple):
    """What decides a verdict, by policy; many policies share one."""

    window: str
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class NamedFinding:
    """A finding with its pod and, at container level, the container."""

    told: PodFinding
    container: AuditedContainerFacts | None


@dataclass(slots=True)
class NamespaceCounts:
    """Pods and containers of one namespace on one node."""

    pods: int = 0
    containers: int = 0
    no_limit: int = 0
    too_few: int = 0
    other: int = 0


@dataclass(slots=True)
class ReportFindings:
    """What one report of a node means, by one way to judge."""

    findings: list[NamedFinding] = field(default_factory=list)
    above: list[Finding] = field(default_factory=list)
    """Findings of levels above pods, which are no namespace's."""
    counts: dict[str, NamespaceCounts] = field(default_factory=dict)
    complete: bool = True
    """All pods had names."""


@dataclass(slots=True)
class NodeState:
    """A node's newest report, and what it means."""

    report: AgentReport
    at: float
    judged: dict[Criteria, ReportFindings] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    """Windows that the report had and no policy wanted."""
    looks: int = 0


@dataclass(frozen=True, slots=True)
class ClusterFindings:
    """The whole cluster at one moment."""

    namespaces: Mapping[str, NamespaceFindings]
    judged: Mapping[str, Sequence[NamedFinding]]
    """By namespace, the worst first."""
    above: Sequence[Finding]
    reporting: frozenset[str]
    silent: frozenset[str]
    reports: Mapping[str, AgentReport]
    """Of the nodes that are reporting."""


def aggregate(
    policies: Mapping[str, Criteria],
    reporting: Mapping[str, NodeState],
    silent: frozenset[str],
    silent_by_namespace: Mapping[str, int],
    verdict: Callable[[str, str], KernelVerdict],
) -> ClusterFindings:
    """Return the whole cluster.

    Args:
        policies: how each namespace that has a policy is judged.
        reporting: nodes with their judged reports, by name.
        silent: nodes that do not report.
        silent_by_namespace: how many of them have pods of a namespace.
        verdict: of a kernel's release and version.
    """
    counts: dict[str, NamespaceCounts] = defaultdict(NamespaceCounts)
    judged: dict[str, list[NamedFinding]] = defaultdict(list)
    places: dict[str, set[str]] = defaultdict(set)
    above: list[Finding] = []
    for name, node in reporting.items():
        for criteria, result in node.judged.items():
            _gather(result, criteria, policies, name, counts, judged, places)
        if node.judged:
            above += next(iter(node.judged.values())).above
    for found in judged.values():
        found.sort(key=_harm)
    dropped: frozenset[str] = frozenset().union(*(node.dropped for node in reporting.values()))
    namespaces = {
        name: replace(
            _namespace(name, counts[name], judged[name], [reporting[place].report for place in places[name]], verdict),
            nodes_silent=silent_by_namespace.get(name, 0),
            unknown=criteria.window in dropped,
        )
        for name, criteria in policies.items()
    }
    return ClusterFindings(
        namespaces=namespaces,
        judged=judged,
        above=above,
        reporting=frozenset(reporting),
        silent=silent,
        reports={name: node.report for name, node in reporting.items()},
    )


def _namespace(
    name: str,
    counts: NamespaceCounts,
    judged: Sequence[NamedFinding],
    reports: Sequence[AgentReport],
    verdict: Callable[[str, str], KernelVerdict],
) -> NamespaceFindings:
    releases = Counter((report.kernel_release, report.kernel_version) for report in reports)
    troubles: Counter[str] = Counter()
    for report in reports:
        troubles.update({str(kind): count for kind, count in report.troubles.items() if count})
    return NamespaceFindings(
        name=name,
        pods=counts.pods,
        containers=counts.containers,
        no_limit=counts.no_limit,
        too_few=counts.too_few,
        other=counts.other,
        findings=tuple(named.told for named in judged),
        nodes_reporting=len(reports),
        kernels={" ".join(kernel): (verdict(*kernel), count) for kernel, count in releases.items()},
        troubles=troubles,
    )


def _gather(
    result: ReportFindings,
    criteria: Criteria,
    policies: Mapping[str, Criteria],
    node: str,
    counts: dict[str, NamespaceCounts],
    judged: dict[str, list[NamedFinding]],
    places: dict[str, set[str]],
) -> None:
    """Add what a node has of the namespaces that are judged in this way."""
    for namespace, found in result.counts.items():
        if policies.get(namespace) != criteria:
            continue
        places[namespace].add(node)
        total = counts[namespace]
        total.pods += found.pods
        total.containers += found.containers
        total.no_limit += found.no_limit
        total.too_few += found.too_few
        total.other += found.other
    for item in result.findings:
        if policies.get(item.told.pod.namespace) == criteria:
            judged[item.told.pod.namespace].append(item)
            places[item.told.pod.namespace].add(node)


def _harm(item: NamedFinding) -> tuple[float, float, float, str, str]:
    finding = item.told.finding
    lost = finding.lost_cores or 0.0
    return -finding.severity, -finding.counted_cores, -lost, item.told.pod.name, finding.window.target.path


def container_findings(
    judged: Iterable[NamedFinding],
) -> Iterable[tuple[NamedFinding, AuditedPodFacts, AuditedContainerFacts]]:
    """Those at container level whose container is known."""
    for named in judged:
        if named.container is not None and named.told.finding.window.target.level is CgroupLevel.CONTAINER:
            yield named, named.told.pod, named.container
