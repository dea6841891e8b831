"""One CpuAuditReport a namespace: the worst findings with both figures and what to do, bounded in size, rounded.

Figures are rounded for people; `digest` rounds further, so that a report is written anew only when somebody would care.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from slack.audit.advice.rules import Advice, Facts, advise
from slack.audit.api.crd import REPORT_KIND
from slack.audit.api.policy import KIND, AuditPolicy
from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupLevel
from slack.audit.findings.throttling import lost_cores_total
from slack.audit.kernel.quota_bugs import KernelVerdict
from slack.audit.sources.pods import AuditedPodFacts
from slack.cluster.labels import API_VERSION
from slack.documents.audit_status import (
    MOST_KERNELS,
    PATCH_CHARACTERS,
    AuditedNodes,
    CpuAuditReportContent,
    ReportFinding,
    ReportKernel,
    ReportSummary,
)

REPORT_NAME = "cpu-audit"
MAX_BYTES = 240 << 10
"""etcd takes 1.5 MiB; this keeps a list of many reports small, and what managedFields adds below 256 KiB."""

Json = dict[str, Any]


@dataclass(frozen=True)
class PodFinding:
    """A finding of a pod or container, with whose it is and what to do."""

    finding: Finding
    """Its target has names."""
    pod: AuditedPodFacts
    facts: Facts

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What to do; made when it is asked for, as its patches cost more than the judgement."""
        return advise(self.finding, self.facts)


@dataclass(frozen=True, slots=True)
class NamespaceFindings:
    """What a report says: all that is known of one namespace at one moment."""

    name: str
    pods: int = 0
    containers: int = 0
    no_limit: int = 0
    too_few: int = 0
    other: int = 0
    findings: tuple[PodFinding, ...] = ()
    """The worst first."""
    nodes_reporting: int = 0
    nodes_silent: int = 0
    """Nodes that its pods are on, by whether they report."""
    kernels: Mapping[str, tuple[KernelVerdict, int]] = field(default_factory=dict)
    """By release: the verdict, and how many of those nodes have it."""
    troubles: Mapping[str, int] = field(default_factory=dict)
    unknown: bool = False
    """Some node's last report was kept without the window that the policy wants now: the next one has it."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report on."""
        return not self.pods and not self.findings

    def count(self, severity: Severity) -> int:
        """Return how many findings are so bad."""
        return sum(entry.finding.severity is severity for entry in self.findings)


def cores_text(cores: float | None) -> str:
    """Write CPU as a quantity of three digits: `382m`, `1.25`, `10.6`."""
    if cores is None:
        return ""
    if cores < 0.9995:
        return f"{round(cores * 1000)}m" if round(cores * 1000) else "0"
    return f"{cores:.0f}" if cores >= 100 else f"{cores:.3g}"


def percent(share: float | None) -> float | None:
    """Write a share as percent with one digit behind the point."""
    return None if share is None else round(share * 100, 1)


def figures_text(finding: Finding) -> str:
    """Say both figures: `lost 38.1 % of its time, throttled in 97.5 % of periods`."""
    lost, ratio = percent(finding.lost_ratio), percent(finding.throttled_ratio)
    said = f"lost {lost or 0:g} % of its time"
    return said + (f", throttled in {ratio:g} % of periods" if ratio is not None else "")


def workload(pod: AuditedPodFacts) -> str:
    """Return the owner as Kind/name; the pod itself where it has none."""
    return f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else f"Pod/{pod.name}"


def finding_json(entry: PodFinding) -> Json:
    """Return one finding as it is in the report."""
    finding, target = entry.finding, entry.finding.window.target
    blamed = finding.blamed
    patch = next((advice.patch for advice in entry.advice if advice.patch is not None), None)
    text = (patch.merge_yaml or patch.command or "") if patch is not None else ""
    stop = finding.stop_seconds
    elsewhere = blamed is not None and blamed.key != target.key
    return ReportFinding(
        pod=entry.pod.name,
        container=(target.container or None) if target.level is CgroupLevel.CONTAINER else None,
        level=str(target.level),
        workload=workload(entry.pod),
        node=target.node or None,
        severity=finding.severity.name.lower(),
        marks=sorted(str(mark) for mark in finding.marks) or None,
        throttled_percent=percent(finding.throttled_ratio),
        lost_percent=percent(finding.lost_ratio),
        neighbours_percent=percent(finding.neighbours_ratio),
        stop_millis=None if stop is None else round(stop * 1000),
        use=cores_text(finding.use_cores) or None,
        limit=cores_text(finding.limit_cores) or None,
        lost_cores=cores_text(finding.lost_cores) or None,
        blamed=f"{blamed.level} {blamed.path}" if blamed is not None and elsewhere else None,
        advice=[str(advice.id) for advice in entry.advice] or None,
        patch=text if text and len(text) <= PATCH_CHARACTERS else None,
    ).document()


def report(namespace: NamespaceFindings, policy: AuditPolicy, measured_at: str, *, max_bytes: int = MAX_BYTES) -> Json:
    """Return the whole object as it is applied.

    Args:
        namespace: what is known of it.
        policy: of the namespace; it becomes the owner.
        measured_at: RFC 3339.
        max_bytes: bound of the object as JSON; findings are left out until it holds.
    """
    shown = [finding_json(entry) for entry in namespace.findings[: policy.spec.report.max_findings]]
    whole = _object(namespace, policy, measured_at)
    size = len(msgspec.json.encode(whole)) + 64
    kept: list[Json] = []
    for item in shown:
        size += len(msgspec.json.encode(item)) + 1
        if size > max_bytes:
            break
        kept.append(item)
    return whole | {"findings": kept, "truncated": len(namespace.findings) - len(kept)}


def _object(namespace: NamespaceFindings, policy: AuditPolicy, measured_at: str) -> Json:
    kernels = sorted(namespace.kernels.items(), key=lambda item: (-item[1][1], item[0]))[:MOST_KERNELS]
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": policy.name, "uid": policy.uid}
    content = CpuAuditReportContent(
        policy=policy.name,
        window=policy.spec.window,
        measured_at=measured_at,
        summary=_summary(namespace),
        kernels=[
            ReportKernel(
                release=verdict.release[:256],
                verdict=str(verdict.state) + (f": {verdict.bug}" if verdict.bug else ""),
                why=verdict.why[:1024],
                nodes=count,
            )
            for _, (verdict, count) in kernels
        ],
    )
    head = {
        "apiVersion": API_VERSION,
        "kind": REPORT_KIND,
        "metadata": {"name": REPORT_NAME, "namespace": namespace.name, "ownerReferences": [owner]},
    }
    return head | content.document()


def _summary(namespace: NamespaceFindings) -> ReportSummary:
    bad = [entry for entry in namespace.findings if entry.finding.severity >= Severity.WARN]
    levels = Counter(str(entry.finding.window.target.level) for entry in bad)
    return ReportSummary(
        pods=namespace.pods,
        containers=namespace.containers,
        no_limit=namespace.no_limit,
        too_few=namespace.too_few,
        other=namespace.other,
        high=namespace.count(Severity.HIGH),
        warn=namespace.count(Severity.WARN),
        info=namespace.count(Severity.INFO),
        lost_cores=cores_text(lost_cores_total(entry.finding for entry in namespace.findings)),
        worst=_worst(bad[0]) if bad else "",
        nodes=AuditedNodes(reporting=namespace.nodes_reporting, silent=namespace.nodes_silent),
        # An empty map that is applied over one with keys becomes null (seen on 1.36), which the schema refuses.
        levels=dict(sorted(levels.items())) or None,
        troubles=dict(sorted(namespace.troubles.items())) or None,
    )


def _worst(entry: PodFinding) -> str:
    target = entry.finding.window.target
    name = f"{entry.pod.name}/{target.container}" if target.level is CgroupLevel.CONTAINER else entry.pod.name
    return f"{name} {figures_text(entry.finding)}"[:512]


def digest(found: Mapping[str, Any]) -> object:
    """Return what must have changed of a report for it to be worth a write.

    Shares count in steps of five percent, pods and nodes as they are. When it was measured does not count, nor do
    figures that follow from shares.
    """
    summary = found["summary"]
    counts = tuple(summary[name] for name in ("pods", "containers", "noLimit", "high", "warn", "info"))
    owner = found["metadata"]["ownerReferences"][0]["uid"]
    return (
        owner,
        found["window"],
        counts,
        tuple(sorted(summary.get("troubles", ()))),
        summary["nodes"]["silent"],
        tuple((kernel["release"], kernel["verdict"], kernel["nodes"]) for kernel in found["kernels"]),
        tuple(sorted(_coarse(found["findings"]))),
        found["truncated"] > 0,
    )


def _coarse(findings: Sequence[Mapping[str, Any]]) -> Iterable[tuple[object, ...]]:
    for finding in findings:
        yield (
            finding["pod"],
            finding.get("container", ""),
            finding["severity"],
            finding.get("limit", ""),
            tuple(finding.get("advice", ())),
            round(finding.get("lostPercent", 0.0) / 5),
            round(finding.get("throttledPercent", 0.0) / 5),
        )
