"""`audit explain`: finds out what is meant, and prints or draws what its CPU limit does."""

from pathlib import Path
from typing import Any

from slack.audit.findings.sample import Source, Target
from slack.audit.results.audit_result import AuditResult
from slack.audit.results.explanation import Explanation, explain_finding
from slack.cli.audit.options import SourceOptions
from slack.cli.audit.selection import select_finding
from slack.cli.terminal.formats import OutputKind, print_document

SCHEMA = "resource-slack.io/audit-explain/v1"


def run(
    options: SourceOptions, text: str, namespace: str, *, output: OutputKind, picture: Path | None, program: str
) -> None:
    """Audit once, and explain what `text` means.

    Raises:
        UserError, KubeError: when it is not there, or nothing can be read.
    """
    from slack.cli.audit.sampling import audit_once
    from slack.cli.terminal.pictures import checked_picture

    drawn = checked_picture(picture)
    threads: list[int | None] = []

    def count(source: Source, found: AuditResult) -> None:
        threads.append(_threads(source, select_finding(found, text, namespace).finding.window.target))

    def refuse(seen: AuditResult) -> None:
        select_finding(seen, text, namespace)

    explanation = explain(audit_once(options, also=count, refuse=refuse), text, namespace, threads[0])
    if drawn is not None:
        from slack.cli.audit.picture import draw

        drawn.save(draw(explanation, drawn.format))
    if output.for_machines:
        print_document(document(explanation), output)
    else:
        from slack.cli.audit.period_chart import print_explanation

        print_explanation(explanation, program=program)


def _threads(source: Source, target: Target) -> int | None:
    """Count the threads of a cgroup; only the walker can."""
    from slack.audit.sources.walker import CgroupWalker

    return source.threads(target) if isinstance(source, CgroupWalker) else None


def explain(result: AuditResult, text: str, namespace: str, threads: int | None) -> Explanation:
    """Return what there is to tell about what `text` names.

    Raises:
        UserError: when nothing or several things have that name.
    """
    selected = select_finding(result, text, namespace)
    nearest_of = text if selected.nearest else None
    return explain_finding(result, selected.finding, threads, pods=selected.pods, nearest_of=nearest_of)


def document(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation for machines."""
    from slack.cli.audit.export import finding_document, kernel_document, target_document

    result, shape = explanation.result, explanation.shape
    target = explanation.subject.window.target
    kernel = result.kernels.get(target.node)
    return {
        "schema": SCHEMA,
        "source": str(result.kind),
        "at": f"{result.at:%Y-%m-%dT%H:%M:%SZ}",
        "windowSeconds": round(result.windows.seconds, 3),
        "throttled": explanation.throttled,
        "pods": explanation.alike,
        "threads": explanation.threads,
        "finding": finding_document(result, explanation.subject),
        "governing": None if explanation.governing is None else target_document(explanation.governing.window.target),
        "period": None
        if shape is None
        else {
            "quotaMicroseconds": shape.quota_us,
            "periodMicroseconds": shape.period_us,
            "burstMicroseconds": shape.burst_us,
            "busyCpus": shape.busy_cpus,
            "busyCpusAssumed": explanation.assumed,
            "runsMicroseconds": shape.runs_us,
            "stopsMicroseconds": shape.stops_us,
            "limitCores": shape.limit_cores,
            "endingLimitCores": shape.ending_limit_cores,
        },
        "levels": [finding_document(result, finding) for finding in explanation.levels],
        "kernel": None if kernel is None else kernel_document(kernel),
    }
