"""Which cgroup somebody means: a pod or workload by its name, a pod's uid, a container's id, or a cgroup's path."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupTarget
from slack.audit.results.audit_result import AuditResult
from slack.cli.audit.formats import clean
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.audit.sources.pods import AuditedPodFacts

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
_NEAR_SHOWN = 3
_WRITE = "write pod/NAME, deploy/NAME, a pod's uid, a container's id, or a cgroup's path that begins with /"


@dataclass(frozen=True, slots=True)
class SelectedFinding:
    """What a text means."""

    finding: Finding
    """The worst; where nothing is known to be wrong, what is nearest its limit."""
    pods: int
    """How many pods have that name."""
    nearest: bool = False
    """It was chosen as what is nearest its limit."""


def select_finding(result: AuditResult, text: str, namespace: str) -> SelectedFinding:
    """Return the worst finding that a text means.

    Raises:
        UserError: when nothing or several things have that name.
    """
    if not text.strip():
        raise UserError(f"nothing is named: {_WRITE}")
    if text.startswith("/"):
        path = text.rstrip("/") or "/"
        found = [finding for finding in result.findings if finding.window.target.path == path]
        if not found:
            raise UserError(_absent(text, path, [finding.window.target.path for finding in result.findings], "cgroup"))
        return SelectedFinding(found[0], 1)
    kind, slash, rest = text.partition("/")
    if not slash or "://" in text:
        return _by_id(result, text)
    name, _, container = rest.partition("/")
    if not name or "/" in container:
        raise UserError(f"{text}: write KIND/NAME or KIND/NAME/CONTAINER, such as pod/api or deploy/api/main")
    return _by_name(result, kind.lower(), name, container, namespace, text)


def _worst_or_nearest(found: list[Finding], pods: int) -> SelectedFinding:
    """Choose among all levels of one or more pods.

    A pod's cgroup has no quota when one of its containers has no limit, and the other containers' stop them all the
    same: so where nothing is known to be wrong the pod is rarely what somebody wants to see.
    """
    if found[0].severity is not Severity.NONE:
        return SelectedFinding(found[0], pods)
    limited = [finding for finding in found if finding.window.limited]
    if not limited:
        return SelectedFinding(found[0], pods)
    nearest = max(limited, key=lambda finding: (finding.window.throttled, finding.use_of_limit or 0.0))
    return SelectedFinding(nearest, pods, nearest=len(limited) > 1 or nearest is not found[0])


def _by_id(result: AuditResult, text: str) -> SelectedFinding:
    whole = _ID.fullmatch(text)
    begins = whole["id"] if whole else ""
    found = [
        finding
        for finding in result.findings
        if begins
        and (finding.window.target.pod_uid.startswith(begins) or finding.window.target.container_id.startswith(begins))
    ]
    of_containers = [finding for finding in found if finding.window.target.container_id.startswith(begins)]
    if not found:
        raise UserError(f"{text}: {_WRITE}")
    return SelectedFinding(of_containers[0], 1) if of_containers else _worst_or_nearest(found, 1)


def _by_name(result: AuditResult, kind: str, name: str, container: str, namespace: str, text: str) -> SelectedFinding:
    named = [finding for finding in result.findings if finding.window.target.pod]
    if not named:
        raise UserError(f"{text}: no pod's name is known; give its uid, a container's id or a cgroup's path")
    inside = [finding for finding in named if not namespace or finding.window.target.namespace == namespace]
    if kind in _PODS:
        found = [finding for finding in inside if finding.window.target.pod == name]
        known = [finding.window.target.pod for finding in inside]
    else:
        owners = {finding.window.target.key: _owner(result, finding.window.target) for finding in inside}
        wanted = (_KINDS.get(kind, kind), name)
        found = [finding for finding in inside if owners[finding.window.target.key] == wanted]
        known = [owner for of_kind, owner in owners.values() if of_kind == wanted[0]]
    where = f" in namespace {namespace}" if namespace else ""
    if not found:
        noun = "pod" if kind in _PODS else _KINDS.get(kind, kind)
        raise UserError(_absent(f"{kind}/{name}{where}", name, known, noun))
    namespaces = sorted({finding.window.target.namespace for finding in found})
    if len(namespaces) > 1:
        raise UserError(f"{text}: is in namespaces {', '.join(namespaces)}; choose one with -n")
    pods = len({(finding.window.target.node, finding.window.target.pod) for finding in found})
    if container:
        of_it = [finding for finding in found if finding.window.target.container == container]
        if not of_it:
            if _has_container(result, found[0].window.target, container):
                raise UserError(
                    f"{text}: the container {container!r} has no cgroup of its own here; a runtime that isolates pods "
                    f"(gVisor, Kata) runs all of them in the pod's: ask for {kind}/{name}"
                )
            there = sorted({finding.window.target.container for finding in found if finding.window.target.container})
            raise UserError(f"{text}: no container {container!r} is seen in it; there are {', '.join(there) or 'none'}")
        return SelectedFinding(of_it[0], pods)
    return _worst_or_nearest(found, pods)


def _has_container(result: AuditResult, target: CgroupTarget, container: str) -> bool:
    pod: AuditedPodFacts | None = result.names.facts_of(target)[0] if result.names is not None else None
    return pod is not None and pod.container(container) is not None


def _owner(result: AuditResult, target: CgroupTarget) -> tuple[str, str]:
    facts: AuditedPodFacts | None = result.names.facts_of(target)[0] if result.names is not None else None
    return (facts.owner_kind.lower(), facts.owner_name) if facts is not None else ("", "")


def _absent(what: str, name: str, known: Iterable[str], kind: str) -> str:
    """Say that something is not there, with what is near: names that begin so come first, as those of pods do."""
    names = sorted({clean(text) for text in known if text})
    if not names:
        return f"{what}: no {kind} at all is seen here"
    begin = [text for text in names if text.startswith(name)]
    near = [*begin, *(text for text in get_close_matches(name, names, _NEAR_SHOWN, 0.4) if text not in begin)]
    if near:
        return f"{what}: no such {kind} is seen here; near it are {', '.join(near[:_NEAR_SHOWN])}"
    some = ", ".join(names[:_NEAR_SHOWN])
    are = f"{count_text(len(names), kind)} {'is' if len(names) == 1 else 'are'}"
    return f"{what}: no such {kind} is seen here; {are}{': ' if len(names) <= _NEAR_SHOWN else ', such as '}{some}"
