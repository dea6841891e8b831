"""`audit explain`: finds out what is meant, and prints or draws what its CPU limit does."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slack.audit.findings.sample import CgroupTarget, SampleSource
from slack.audit.results.audit_result import AuditResult
from slack.audit.results.explanation import CgroupExplanation, explain_finding
from slack.cli.audit.formats import cores, milliseconds, percent, target_name
from slack.cli.audit.options import SourceOptions
from slack.cli.audit.selection import select_finding
from slack.cli.terminal.formats import Output, print_document

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slack.audit.findings.period_shape import PeriodShape

SCHEMA = "resource-slack.io/audit-explain/v1"


def run(
    options: SourceOptions, text: str, namespace: str, *, output: Output, picture: Path | None, program: str
) -> None:
    """Audit once, and explain what `text` means.

    Raises:
        UserError, KubeError: when it is not there, or nothing can be read.
    """
    from slack.cli.audit.sampling import audit_once
    from slack.cli.terminal.pictures import checked_picture

    drawn = checked_picture(picture)
    threads: list[int | None] = []

    def count(source: SampleSource, found: AuditResult) -> None:
        threads.append(_threads(source, select_finding(found, text, namespace).finding.window.target))

    def refuse(seen: AuditResult) -> None:
        select_finding(seen, text, namespace)

    explanation = explain(audit_once(options, also=count, refuse=refuse), text, namespace, threads[0])
    if drawn is not None:
        drawn.save(draw(explanation, drawn.format))
    if output.for_machines:
        print_document(document(explanation), output)
    else:
        from slack.cli.audit.period_chart import print_explanation

        print_explanation(explanation, program=program)


def _threads(source: SampleSource, target: CgroupTarget) -> int | None:
    """Count the threads of a cgroup; only the walker can."""
    from slack.audit.sources.walker import CgroupWalker

    return source.threads(target) if isinstance(source, CgroupWalker) else None


def explain(result: AuditResult, text: str, namespace: str, threads: int | None) -> CgroupExplanation:
    """Return what there is to tell about what `text` names.

    Raises:
        UserError: when nothing or several things have that name.
    """
    selected = select_finding(result, text, namespace)
    nearest_of = text if selected.nearest else None
    return explain_finding(result, selected.finding, threads, pods=selected.pods, nearest_of=nearest_of)


def document(explanation: CgroupExplanation) -> dict[str, Any]:
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


_RUNS, _STOPS, _EDGE = "#1f5fa8", "#e9b0a8", "#555555"
_DPI = 110
_PERIODS = 2
_MOST_CPUS = 32


def draw(explanation: CgroupExplanation, picture_format: str) -> bytes:
    """Draw an explanation.

    Args:
        explained: what there is to tell.
        picture_format: png or svg.
    """
    import matplotlib
    from matplotlib.figure import Figure

    shape = explanation.shape
    rows = 1 if shape is None else min(_MOST_CPUS, max(1, round(shape.busy_cpus)))
    figure = Figure(figsize=(10, 1.8 + 0.22 * rows), layout="constrained")
    axis = figure.subplots()
    axis.set_title(title(explanation), loc="left", fontsize=10)
    if shape is None:
        axis.text(0.5, 0.5, "no level has a CPU limit: no quota can stop it", ha="center", transform=axis.transAxes)
        axis.set_axis_off()
    else:
        _bars(axis, shape, rows)
    out = io.BytesIO()
    # ids in an SVG are random and its date is today's unless told otherwise
    options: dict[str, Any] = {"metadata": {"Date": None}} if picture_format == "svg" else {"dpi": _DPI}
    with matplotlib.rc_context({"svg.hashsalt": "resource-slack"}):
        figure.savefig(out, format=picture_format, **options)
    return out.getvalue()


def title(explanation: CgroupExplanation) -> str:
    """Return what stands above the bars: whose limit it is, and what was measured."""
    subject, governing = explanation.subject, explanation.governing
    name = target_name(subject.window.target)
    if governing is None or explanation.shape is None:
        return name
    whose = "" if governing is subject else f" of the {governing.window.target.level}"
    limit = f"limit{whose} {cores(explanation.shape.limit_cores)} cores"
    if explanation.assumed:
        measured = explanation.unjudged or "nothing is throttled"
        return f"{name}: {limit}; {measured}, drawn as if all CPUs were busy"
    return (
        f"{name}: {limit}; {percent(governing.throttled_ratio)} of periods throttled, "
        f"{percent(governing.lost_ratio)} of the time lost, stop {milliseconds(governing.stop_seconds)}"
    )


def _bars(axis: "Axes", shape: "PeriodShape", rows: int) -> None:
    period, runs, stops = (value / 1000 for value in (shape.period_us, shape.runs_us, shape.stops_us))
    starts = [period * count for count in range(_PERIODS)]
    for cpu in range(rows):
        first = cpu == 0
        place = (cpu - 0.4, 0.8)
        axis.broken_barh([(start, runs) for start in starts], place, facecolors=_RUNS, label="runs" if first else None)
        if shape.stops:
            axis.broken_barh(
                [(start + runs, stops) for start in starts],
                place,
                facecolors=_STOPS,
                hatch="//",
                edgecolor="white",
                label="stands still" if first else None,
            )
    for start in (*starts, period * _PERIODS):
        axis.axvline(start, color=_EDGE, linewidth=1, linestyle=":")
    axis.set_xlim(0, period * _PERIODS)
    axis.set_ylim(rows - 0.5, -0.5)
    axis.set_yticks(range(rows), [f"cpu {cpu}" for cpu in range(rows)], fontsize=8)
    axis.set_xlabel("milliseconds")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
