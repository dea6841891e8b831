"""`audit explain`: the quota that governs a cgroup, and the shape of its periods."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import typer

from slack.cfs.finding import Finding, Severity
from slack.cfs.sample import Level, NodeFacts, Source, Target
from slack.cfs.shape import Shape, period_shape
from slack.cfs.window import State
from slack.cli.audit_look import Look
from slack.cli.audit_meant import meant
from slack.cli.audit_options import Kind, Where

SCHEMA = "resource-slack.io/audit-explain/v1"
_LEAST_THREADS_SHOWN = 1


@dataclass(frozen=True, slots=True)
class Explained:
    """What there is to tell of one cgroup."""

    look: Look
    subject: Finding
    levels: tuple[Finding, ...]
    """From the top down to the subject, then what is below it."""
    governing: Finding | None
    """Whose quota the picture shows: the one to blame, else the nearest; None where no level has one."""
    shape: Shape | None
    assumed: bool
    """The busy CPUs are no measurement: nothing was throttled, or too little was seen."""
    threads: int | None
    """Of the subject, running or sleeping; None where only the node could count them."""
    alike: int
    """Pods that the name means; the worst of them is the subject."""
    nearest_of: str = ""
    """What was asked for, when nothing is known to be wrong there and the subject is what is nearest its limit."""

    @property
    def unjudged(self) -> str:
        """Why nothing can be said of the governing quota, such as too few periods; '' when something can."""
        if self.governing is None or self.governing.window.state is State.MEASURED:
            return ""
        window = self.governing.window
        if window.state is State.TOO_FEW:
            return f"too few periods to judge ({window.throttled:,} of {window.periods:,} were throttled)"
        return f"no figures to judge by ({window.state})"

    @property
    def throttled(self) -> bool | None:
        """Whether the subject lost time to a quota; None when that cannot be said."""
        if self.subject.severity is Severity.NONE and self.unjudged:
            return None
        return self.subject.severity is not Severity.NONE


def run(where: Where, text: str, namespace: str, *, as_json: bool, picture: Path | None, program: str) -> None:
    """Look, and explain what `text` means.

    Raises:
        UserError, KubeError: when it is not there, or nothing can be read.
    """
    from slack.cli.audit_taking import look
    from slack.cli.pictures import check_picture, save_picture

    picture_format = check_picture(picture)
    threads: list[int | None] = []

    def count(source: Source, found: Look) -> None:
        threads.append(_threads(source, meant(found, text, namespace).finding.window.target))

    explained = explain(look(where, also=count), text, namespace, threads[0])
    if picture is not None:
        from slack.cli.audit_picture import draw

        save_picture(picture, draw(explained, picture_format))
    if as_json:
        import json

        typer.echo(json.dumps(document(explained), indent=2, ensure_ascii=False))
    else:
        from slack.cli.audit_drawing import print_explained

        print_explained(explained, program=program)


def _threads(source: Source, target: Target) -> int | None:
    """Count the threads of a cgroup; only the walker can."""
    from slack.cfs.walker import CgroupWalker

    return source.threads(target) if isinstance(source, CgroupWalker) else None


def explain(look: Look, text: str, namespace: str, threads: int | None) -> Explained:
    """Return what there is to tell about what `text` names.

    Raises:
        UserError: when nothing or several things have that name.
    """
    found = meant(look, text, namespace)
    subject = found.finding
    levels = _levels(look, subject)
    governing = _governing(levels, subject)
    nearest_of = text if found.nearest else ""
    if governing is None:
        return Explained(look, subject, levels, None, None, False, threads, found.pods, nearest_of)
    facts = look.windows.nodes.get(subject.window.target.node, NodeFacts(None))
    measured = governing.busy_cpus if governing.window.throttled else None
    busy = measured or _busy_if_all_ran(governing, facts, threads)
    window = governing.window
    shape = period_shape(window.quota_us or 0, window.period_us, busy, window.burst_us or 0)
    return Explained(look, subject, levels, governing, shape, measured is None, threads, found.pods, nearest_of)


def _levels(look: Look, subject: Finding) -> tuple[Finding, ...]:
    """Return the chain from the top to the subject and what is directly part of it, without the bare root."""
    node, path = subject.window.target.key
    same = [one for one in look.findings if one.window.target.node == node]
    above = [one for one in same if _contains(one.window.target.path, path) and one.window.target.path != "/"]
    below = [one for one in same if _contains(path, one.window.target.path)] if path != "/" else []
    below = [one for one in below if one.window.target.level is Level.CONTAINER]
    return (*sorted(above, key=_depth), subject, *sorted(below, key=lambda one: one.window.target.path))


def _contains(above: str, below: str) -> bool:
    return below != above and below.startswith(above.rstrip("/") + "/")


def _depth(finding: Finding) -> int:
    return finding.window.target.path.count("/")


def _governing(levels: tuple[Finding, ...], subject: Finding) -> Finding | None:
    """Return whose quota stops the subject; where none is to blame one that did at all, else the tightest."""
    if subject.blamed is not None:
        blamed = [one for one in levels if one.window.target.key == subject.blamed.key]
        if blamed and blamed[0].window.limited:
            return blamed[0]
    chain = levels[: levels.index(subject) + 1]
    limited = [one for one in chain if one.window.limited]
    return min(limited, key=lambda one: (not one.window.throttled, _limit(one)), default=None)


def _limit(finding: Finding) -> float:
    return (finding.window.quota_us or 0) / finding.window.period_us


def _busy_if_all_ran(governing: Finding, facts: NodeFacts, threads: int | None) -> float:
    """Return how many CPUs could be busy at once: as many as there are threads and CPUs; else just too many."""
    bounds = [bound for bound in (facts.cpus, threads) if bound]
    return float(min(bounds)) if bounds else float(ceil(_limit(governing)) + _LEAST_THREADS_SHOWN)


def document(explained: Explained) -> dict[str, Any]:
    """Return the explanation for machines."""
    from slack.cli.audit_output import finding_document, kernel_document, target_document

    look, shape = explained.look, explained.shape
    target = explained.subject.window.target
    kernel = look.kernels.get(target.node)
    return {
        "schema": SCHEMA,
        "source": str(look.kind),
        "at": f"{look.at:%Y-%m-%dT%H:%M:%SZ}",
        "windowSeconds": round(look.windows.seconds, 3),
        "throttled": explained.throttled,
        "pods": explained.alike,
        "threads": explained.threads,
        "finding": finding_document(look, explained.subject),
        "governing": None if explained.governing is None else target_document(explained.governing.window.target),
        "period": None
        if shape is None
        else {
            "quotaMicroseconds": shape.quota_us,
            "periodMicroseconds": shape.period_us,
            "burstMicroseconds": shape.burst_us,
            "busyCpus": shape.busy_cpus,
            "busyCpusAssumed": explained.assumed,
            "runsMicroseconds": shape.runs_us,
            "stopsMicroseconds": shape.stops_us,
            "limitCores": shape.limit_cores,
            "endingLimitCores": shape.ending_limit_cores,
        },
        "levels": [finding_document(look, one) for one in explained.levels],
        "kernel": None if kernel is None else kernel_document(kernel),
    }


def source_name(kind: Kind) -> str:
    """Return what a source is called in a sentence."""
    return {
        Kind.CGROUPS: "this node's cgroups",
        Kind.CADVISOR: "cAdvisor through the API server",
        Kind.PROMETHEUS: "Prometheus",
    }[kind]
