"""Which cgroup somebody means: a pod or workload by its name, a pod's uid, a container's id, or a cgroup's path."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from slack.cfs.finding import Finding, Severity
from slack.cfs.sample import Target
from slack.cli.audit_look import Look
from slack.cli.audit_words import clean, counted
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cfs.pods import PodFacts

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
class Meant:
    """What a text means."""

    finding: Finding
    """The worst; where nothing is known to be wrong, what is nearest its limit."""
    pods: int
    """How many pods have that name."""
    nearest: bool = False
    """It was chosen as what is nearest its limit."""


def meant(look: Look, text: str, namespace: str) -> Meant:
    """Return the worst finding that a text means.

    Raises:
        UserError: when nothing or several things have that name.
    """
    if not text.strip():
        raise UserError(f"nothing is named: {_WRITE}")
    if text.startswith("/"):
        path = text.rstrip("/") or "/"
        found = [one for one in look.findings if one.window.target.path == path]
        if not found:
            raise UserError(_absent(text, path, [one.window.target.path for one in look.findings], "cgroup"))
        return Meant(found[0], 1)
    kind, slash, rest = text.partition("/")
    if not slash or "://" in text:
        return _by_id(look, text)
    name, _, container = rest.partition("/")
    if not name or "/" in container:
        raise UserError(f"{text}: write KIND/NAME or KIND/NAME/CONTAINER, such as pod/api or deploy/api/main")
    return _by_name(look, kind.lower(), name, container, namespace, text)


def _worst_or_nearest(found: list[Finding], pods: int) -> Meant:
    """Choose among all levels of one or more pods.

    A pod's cgroup has no quota when one of its containers has no limit, and the other containers' stop them all the
    same: so where nothing is known to be wrong the pod is rarely what somebody wants to see.
    """
    if found[0].severity is not Severity.NONE:
        return Meant(found[0], pods)
    limited = [one for one in found if one.window.limited]
    if not limited:
        return Meant(found[0], pods)
    nearest = max(limited, key=lambda one: (one.window.throttled, one.use_of_limit or 0.0))
    return Meant(nearest, pods, nearest=len(limited) > 1 or nearest is not found[0])


def _by_id(look: Look, text: str) -> Meant:
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
        raise UserError(f"{text}: {_WRITE}")
    return Meant(of_containers[0], 1) if of_containers else _worst_or_nearest(found, 1)


def _by_name(look: Look, kind: str, name: str, container: str, namespace: str, text: str) -> Meant:
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
        noun = "pod" if kind in _PODS else _KINDS.get(kind, kind)
        raise UserError(_absent(f"{kind}/{name}{where}", name, known, noun))
    namespaces = sorted({one.window.target.namespace for one in found})
    if len(namespaces) > 1:
        raise UserError(f"{text}: is in namespaces {', '.join(namespaces)}; choose one with -n")
    pods = len({(one.window.target.node, one.window.target.pod) for one in found})
    if container:
        of_it = [one for one in found if one.window.target.container == container]
        if not of_it:
            there = sorted({one.window.target.container for one in found if one.window.target.container})
            raise UserError(f"{text}: no container {container!r} is seen in it; there are {', '.join(there) or 'none'}")
        return Meant(of_it[0], pods)
    return _worst_or_nearest(found, pods)


def _owner(look: Look, target: Target) -> tuple[str, str]:
    facts: PodFacts | None = look.names.facts_of(target)[0] if look.names is not None else None
    return (facts.owner_kind.lower(), facts.owner_name) if facts is not None else ("", "")


def _absent(what: str, name: str, known: Iterable[str], kind: str) -> str:
    """Say that something is not there, with what is near: names that begin so come first, as those of pods do."""
    names = sorted({clean(one) for one in known if one})
    if not names:
        return f"{what}: no {kind} at all is seen here"
    begin = [one for one in names if one.startswith(name)]
    near = [*begin, *(one for one in get_close_matches(name, names, _NEAR_SHOWN, 0.4) if one not in begin)]
    if near:
        return f"{what}: no such {kind} is seen here; near it are {', '.join(near[:_NEAR_SHOWN])}"
    some = ", ".join(names[:_NEAR_SHOWN])
    are = f"{counted(len(names), kind)} {'is' if len(names) == 1 else 'are'}"
    return f"{what}: no such {kind} is seen here; {are}{': ' if len(names) <= _NEAR_SHOWN else ', such as '}{some}"
