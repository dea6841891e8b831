"""`audit explain`: finds the cgroup that is meant, the quota that governs it, and the shape of its periods."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slack.cfs.finding import Finding, Severity
from slack.cfs.sample import Level, NodeFacts, Source, Target
from slack.cfs.shape import Shape, period_shape
from slack.cli.audit_look import Look
from slack.cli.audit_options import Kind, Where
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cfs.pods import PodFacts

SCHEMA = "resource-slack.io/audit-explain/v1"
_KINDS = {
    "deploy": "deployment",
    "deployments": "deployment",
    "sts": "statefulset",
    "statefulsets": "statefulset",
    "ds": "daemonset",
    "daemonsets": "daemonset",
    "rs": "replicaset",
    "replicasets": "replicaset",
    "jobs": "job",
    "rc": "replicationcontroller",
}
_PODS = ("pod", "pods", "po")
_ID = re.compile(r"(?:[a-z-]+://)?(?P<id>[0-9a-f-]{6,64})")
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
    """The busy CPUs are no measurement: nothing was throttled."""
    threads: int | None
    """Of the subject, running or sleeping; None where only the node could count them."""
    alike: int
    """Pods that the name means; the worst of them is the subject."""


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
        threads.append(_threads(source, subject_of(found, text, namespace)[0].window.target))

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
    subject, alike = subject_of(look, text, namespace)
    levels = _levels(look, subject)
    governing = _governing(levels, subject)
    if governing is None:
        return Explained(look, subject, levels, None, None, False, threads, alike)
    facts = look.windows.nodes.get(subject.window.target.node, NodeFacts(None))
    measured = governing.busy_cpus if governing.window.throttled else None
    busy = measured or _busy_if_all_ran(governing, facts, threads)
    window = governing.window
    shape = period_shape(window.quota_us or 0, window.period_us, busy, window.burst_us or 0)
    return Explained(look, subject, levels, governing, shape, measured is None, threads, alike)


def subject_of(look: Look, text: str, namespace: str) -> tuple[Finding, int]:
    """Return the worst finding that a text means, and how many pods it means.

    Raises:
        UserError: when nothing or several things have that name.
    """
    if text.startswith("/"):
        path = text.rstrip("/") or "/"
        found = [one for one in look.findings if one.window.target.path == path]
        if not found:
            raise UserError(_absent(text, [one.window.target.path for one in look.findings], "cgroup"))
        return found[0], 1
    kind, slash, rest = text.partition("/")
    if not slash or "://" in text:
        return _by_id(look, text)
    name, _, container = rest.partition("/")
    if not name or "/" in container:
        raise UserError(f"{text}: write KIND/NAME or KIND/NAME/CONTAINER, such as pod/api or deploy/api/main")
    return _by_name(look, kind.lower(), name, container, namespace, text)


def _by_id(look: Look, text: str) -> tuple[Finding, int]:
    whole = _ID.fullmatch(text)
    begins = whole["id"] if whole else ""
    found = [
        one
        for one in look.findings
        if begins
        and (one.window.target.pod_uid.startswith(begins) or one.window.target.container_id.startswith(begins))
    ]
    of_containers = [one for one in found if one.window.target.container_id.startswith(begins)]
    if not found:
        raise UserError(
            f"{text}: write pod/NAME, deploy/NAME, a pod's uid, a container's id, or a cgroup's path that begins with /"
        )
    return (of_containers or found)[0], 1


def _by_name(look: Look, kind: str, name: str, container: str, namespace: str, text: str) -> tuple[Finding, int]:
    named = [one for one in look.findings if one.window.target.pod]
    if not named:
        raise UserError(f"{text}: no pod's name is known; give its uid, a container's id or a cgroup's path")
    inside = [one for one in named if not namespace or one.window.target.namespace == namespace]
    if kind in _PODS:
        found = [one for one in inside if one.window.target.pod == name]
        known = [one.window.target.pod for one in inside]
    else:
        owners = {one.window.target.key: _owner(look, one.window.target) for one in inside}
        wanted = (_KINDS.get(kind, kind), name)
        found = [one for one in inside if owners[one.window.target.key] == wanted]
        known = [owner for of_kind, owner in owners.values() if of_kind == wanted[0]]
    where = f" in namespace {namespace}" if namespace else ""
    if not found:
        raise UserError(_absent(f"{kind}/{name}{where}", known, kind))
    namespaces = sorted({one.window.target.namespace for one in found})
    if len(namespaces) > 1:
        raise UserError(f"{text}: is in namespaces {', '.join(namespaces)}; choose one with -n")
    pods = len({(one.window.target.node, one.window.target.pod) for one in found})
    if container:
        of_it = [one for one in found if one.window.target.container == container]
        if not of_it:
            there = sorted({one.window.target.container for one in found if one.window.target.container})
            raise UserError(f"{text}: no container {container!r} is seen in it; there are {', '.join(there) or 'none'}")
        found = of_it
    return found[0], pods


def _owner(look: Look, target: Target) -> tuple[str, str]:
    facts: PodFacts | None = look.names.facts_of(target)[0] if look.names is not None else None
    return (facts.owner_kind.lower(), facts.owner_name) if facts is not None else ("", "")


def _absent(what: str, known: Iterable[str], kind: str) -> str:
    names = sorted(set(filter(None, known)))
    near = get_close_matches(what.split(" ")[0].rpartition("/")[2], names, 3, 0.4)
    hint = f"; near it are {', '.join(near)}" if near else f"; {len(names):,} of that kind are"
    return f"{what}: no such {kind} is seen here{hint}"


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
    """Return whose quota stops the subject; where nothing was throttled the tightest that could."""
    if subject.blamed is not None:
        blamed = [one for one in levels if one.window.target.key == subject.blamed.key]
        if blamed and blamed[0].window.limited:
            return blamed[0]
    chain = levels[: levels.index(subject) + 1]
    limited = [one for one in chain if one.window.limited]
    return min(limited, key=_limit, default=None)


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
        "throttled": explained.subject.severity is not Severity.NONE,
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
