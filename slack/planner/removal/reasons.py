"""Why placeholder pods are deleted one by one, where no ReplicaSet controller takes them away, or not soon enough.

`slack.planner.objects.decide` walks the list `FINDERS` for each ReplicaSet, and looks for strays beside it. A pod is
deleted for the first reason that holds, and once. All other placeholders leave by a lower count of their ReplicaSet.

A count that somebody raised by hundreds is lowered at once, yet the controller first makes all that it had begun to
make, and each of them may bring a node. A pod whose labels were changed belongs to no ReplicaSet any more and holds its
room for ever; one that was made from a changed template does not hold the room that the plan counts on. Values only.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from slack.cluster.labels import LABEL_POLICY, LABEL_SHAPE
from slack.cluster.requests import RequestError, effective_requests, request_text
from slack.cluster.wire import Pod, PodSpec, PodStatus
from slack.planner.model.shape import HIGHEST_PRIORITY, Shape
from slack.planner.removal.ordering import newest_first

MOST = 250
"""How many pods are deleted per turn and ReplicaSet; the next turn follows at once."""
MOST_ENDED = 50
"""How many ended placeholders are deleted per turn; the next turn follows soon."""
_FEW = 10
"""The controller takes this many pending pods in the same moment."""
_NO_STATUS = PodStatus()


class RemovalReason(StrEnum):
    """The reasons, in the order in which they are applied: a pod is deleted for the first one that holds.

    The text of each is in the log.
    """

    UNDISPLACEABLE = "real pods cannot displace it"
    """1. Its priority is above that of all placeholders: it may even displace real pods."""
    PUSHED_OUT = "real pods leave it no room on its node"
    """2. The requests on its node exceed what the node has (`victims.pushed_out` chooses)."""
    MADE_OTHERWISE = "it was made from a changed template"
    """3. It requests less than its shape, or has another scheduler or priority."""
    BEYOND_THE_PLAN = "it is beyond the plan"
    """4. It is pending and more than are wanted: it would ask for a node before its controller gets to it."""
    LOST = "it belongs to no ReplicaSet any more"
    """5. Its labels or its owner were changed."""
    NOBODYS = "it belongs to no policy"
    """6. Its label names no policy that is there."""
    RETIRED = "retired"
    """7. Its shape is given up, and all of its pods have left: the ReplicaSet itself is deleted."""
    ENDED = "it has ended"
    """8. It has failed or completed: its ReplicaSet has made another one and leaves it behind."""


@dataclass(frozen=True, slots=True)
class ReplicaSetFacts:
    """What finders know about a ReplicaSet beside its pods."""

    shape: Shape
    pushed_out: Collection[str] = ()
    """Names of the pods that the plan pushes out of overcommitted nodes."""
    replaces_changed: bool = False
    """Pods that were made from a changed template are to be replaced."""
    target: int | None = None
    """How many pods there should be; None while that is not decided, or where it is left to another writer."""
    is_lowered: bool = False
    """Its count is no more than the target already, and still there are more pods."""


@dataclass(frozen=True, slots=True)
class FailedPlaceholder:
    """A placeholder that has failed or completed, and is still there."""

    name: str
    uid: str
    policy: str
    replica_set: str
    cause: str


def undisplaceable(pods: Iterable[Pod]) -> list[Pod]:
    """Return placeholders that real pods cannot displace, and that may even displace those.

    Admission, or another PriorityClass of the same name, has given them a priority that no placeholder may have.
    """
    return [pod for pod in pods if pod.spec and pod.spec.priority is not None and pod.spec.priority > HIGHEST_PRIORITY]


def made_otherwise(pods: Iterable[Pod], shape: Shape) -> list[Pod]:
    """Return placeholders that do not hold a shape's room: less is requested, or another scheduler or priority.

    What admission has added to them (a sidecar, an overhead) is more, and no reason to go.
    """
    less: dict[bytes, bool] = {}
    return [pod for pod in pods if _is_other(pod, shape, less)]


def pending_surplus(pods: Sequence[Pod], wanted: int, *, lowered: bool) -> list[Pod]:
    """Return pending placeholders of one ReplicaSet beyond its count, the newest first.

    Args:
        pods: those that are not on their way out.
        wanted: how many there should be.
        lowered: its count is no more than that already, and still they are there.
    """
    pending = [pod for pod in pods if not (pod.spec and pod.spec.node_name)]
    surplus = min(len(pending), len(pods) - wanted)
    if surplus <= 0 or (surplus <= _FEW and not lowered):
        return []
    return newest_first(pending)[:surplus]


def _find_pushed_out(pods: Sequence[Pod], facts: ReplicaSetFacts) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.name in facts.pushed_out]


def _find_made_otherwise(pods: Sequence[Pod], facts: ReplicaSetFacts) -> list[Pod]:
    return made_otherwise(pods, facts.shape) if facts.replaces_changed else []


def _find_beyond_the_plan(pods: Sequence[Pod], facts: ReplicaSetFacts) -> list[Pod]:
    return [] if facts.target is None else pending_surplus(pods, facts.target, lowered=facts.is_lowered)


FINDERS: tuple[tuple[RemovalReason, Callable[[Sequence[Pod], ReplicaSetFacts], list[Pod]]], ...] = (
    (RemovalReason.UNDISPLACEABLE, lambda pods, _: undisplaceable(pods)),
    (RemovalReason.PUSHED_OUT, _find_pushed_out),
    (RemovalReason.MADE_OTHERWISE, _find_made_otherwise),
    (RemovalReason.BEYOND_THE_PLAN, _find_beyond_the_plan),
)
"""Why pods of a ReplicaSet are deleted, in order, and what finds them. Pods without a ReplicaSet: `strays`, `nobodys`.
Pods that have ended: `select_ended`."""


def find_removals(
    pods: Sequence[Pod], facts: ReplicaSetFacts, earlier: Mapping[str, RemovalReason] = MappingProxyType({})
) -> dict[str, RemovalReason]:
    """Return the pods of a ReplicaSet that are deleted one by one, by name: each with the first reason that holds.

    Args:
        pods: those that are not on their way out.
        facts: what is known about their ReplicaSet.
        earlier: what was found with fewer facts; it stands, and comes first.
    """
    found = dict(earlier)
    for reason, find in FINDERS:
        for pod in find(pods, facts):
            found.setdefault(pod.metadata.name, reason)
    return found


def strays(pods: Mapping[str, Pod], policy: str, shapes: Iterable[str], sets: Container[str]) -> list[Pod]:
    """Return a policy's placeholders that no ReplicaSet of placeholders has, or will take in (`LOST`).

    Args:
        pods: by name.
        policy: as their label has it.
        shapes: names of those whose ReplicaSets are kept up: their controller takes in what has their labels.
        sets: names of the ReplicaSets of placeholders.
    """
    taken = set(shapes)
    return [
        pod
        for pod in pods.values()
        if pod.metadata.label(LABEL_POLICY) == policy
        and pod.metadata.deletion_timestamp is None
        and _is_lost(pod, sets, free=pod.metadata.label(LABEL_SHAPE) not in taken)
    ]


def nobodys(pods: Mapping[str, Pod], policies: Iterable[str], sets: Container[str]) -> list[Pod]:
    """Return placeholders that no ReplicaSet of placeholders has, and whose label names no policy that there is."""
    known = set(policies)
    return [
        pod
        for pod in pods.values()
        if pod.metadata.label(LABEL_POLICY) not in known
        and pod.metadata.deletion_timestamp is None
        and _is_lost(pod, sets, free=True)
    ]


def select_ended(failed: Iterable[FailedPlaceholder], dry: Container[str]) -> list[FailedPlaceholder]:
    """Return the ended placeholders that are deleted in one turn.

    Nobody else deletes failed pods before there are thousands in the cluster.

    Args:
        failed: those that are there.
        dry: policies that write nothing.
    """
    return [each for each in failed if each.policy not in dry][:MOST_ENDED]


def running_away(pods: Sequence[Pod], before: int, wanted: int) -> bool:
    """Whether a controller is making many more than there should be, and will not look up before it has.

    Args:
        pods: those of one ReplicaSet that are not on their way out.
        before: its count, as the watch shows it.
        wanted: what its count should be.
    """
    if before > wanted:
        return before - wanted > _FEW and before - len(pods) > _FEW
    return len(pending_surplus(pods, wanted, lowered=True)) > _FEW


def maker_of(pod: Pod) -> str:
    """Name the ReplicaSet that has made a placeholder; its labels and its owner may be others by now."""
    return pod.metadata.name.rpartition("-")[0]


def _is_lost(pod: Pod, sets: Container[str], *, free: bool) -> bool:
    """Whether a pod has no controller and is free, or has one that has taken it away from a ReplicaSet of ours."""
    owner = pod.metadata.controller()
    return free if owner is None else owner.kind != "ReplicaSet" and maker_of(pod) in sets


def _is_other(pod: Pod, shape: Shape, less: dict[bytes, bool]) -> bool:
    spec = pod.spec
    if spec is None or spec.priority_class_name != shape.priority_class_name:
        return True
    if (spec.scheduler_name or "default-scheduler") != shape.pod_scheduler:
        return True
    text = request_text(spec, _NO_STATUS)
    if text not in less:
        less[text] = _requests_less(spec, shape)
    return less[text]


def _requests_less(spec: PodSpec, shape: Shape) -> bool:
    try:
        requests = effective_requests(spec)
    except RequestError:
        return True
    return any(requests.get(name, 0) < value for name, value in shape.requests)
