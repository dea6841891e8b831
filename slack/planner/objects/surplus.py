"""Placeholder pods that must go one by one, because no ReplicaSet controller takes them away, or not soon enough.

A count that somebody raised by hundreds is lowered at once, yet the controller first makes all that it had begun to
make, and each of them may bring a node. A pod whose labels were changed belongs to no ReplicaSet any more and holds its
room for ever; one that was made from a changed template does not hold the room that the plan counts on. Values only.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from slack.cluster.labels import LABEL_POLICY, LABEL_SHAPE
from slack.cluster.requests import RequestError, effective_requests, request_text
from slack.cluster.wire import OwnReplicaSet, Pod, PodSpec, PodStatus
from slack.planner.model.shape import Shape
from slack.planner.objects.priority_classes import HIGHEST_PRIORITY

_NO_STATUS = PodStatus()
MOST = 250
"""So many a turn: the next one follows at once."""
_FEW = 10
"""The controller takes so many pending ones in the same moment."""


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


def newest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods with those before that were created last."""
    return sorted(pods, key=_age, reverse=True)


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


def undisplaceable(pods: Iterable[Pod]) -> list[Pod]:
    """Return placeholders that real pods cannot displace, and that may even displace those.

    Admission, or another PriorityClass of the same name, has given them a priority that none of ours may have.
    """
    return [pod for pod in pods if pod.spec and pod.spec.priority is not None and pod.spec.priority > HIGHEST_PRIORITY]


def made_otherwise(pods: Iterable[Pod], shape: Shape) -> list[Pod]:
    """Return placeholders that do not hold a shape's room: less is requested, or another scheduler or priority.

    What admission has added to them (a sidecar, an overhead) is more, and no reason to go.
    """
    less: dict[bytes, bool] = {}
    return [pod for pod in pods if _is_other(pod, shape, less)]


def strays(pods: Mapping[str, Pod], policy: str, shapes: Iterable[str], sets: Container[str]) -> list[Pod]:
    """Return a policy's placeholders that no ReplicaSet of ours has, or will take in.

    Args:
        pods: by name.
        policy: as their label has it.
        shapes: names of those whose ReplicaSets are kept up: their controller takes in what has their labels.
        sets: names of our ReplicaSets.
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
    """Return placeholders that no ReplicaSet of ours has, and whose label names no policy that there is."""
    known = set(policies)
    return [
        pod
        for pod in pods.values()
        if pod.metadata.label(LABEL_POLICY) not in known
        and pod.metadata.deletion_timestamp is None
        and _is_lost(pod, sets, free=True)
    ]


def maker_of(pod: Pod) -> str:
    """Name the ReplicaSet that has made a placeholder; its labels and its owner may be others by now."""
    return pod.metadata.name.rpartition("-")[0]


def held_up(replica_set: OwnReplicaSet) -> tuple[str, ...]:
    """Name the finalizers for which a ReplicaSet that is deleted stays; those of the garbage collector pass by."""
    if replica_set.metadata.deletion_timestamp is None:
        return ()
    return tuple(name for name in replica_set.metadata.finalizers or () if name not in ("foregroundDeletion", "orphan"))


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


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)
