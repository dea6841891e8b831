"""How many pods an owner is about to make: promises, before the first of them is there.

Each function says what the owner's controller will do next with what it sees now (kube-controller-manager 1.36), and
rather too little than too much: a promise that is not kept costs placeholders for nothing. An owner whose pods were
refused lately promises nothing; its pods are seen when they come. What admission webhooks make of a pod is not seen
either: the pod's own requests correct it when it appears. An autoscaler of pods writes `spec.replicas`, so it needs no
case of its own.

`there` counts the owner's pods as the watch of pods shows them: not finished and, but for StatefulSets, not being
deleted. A status may lag behind it, or ahead of it; the higher of both counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from slack.cluster import wire
from slack.cluster.identity import workload_of_owner

MOST_AT_ONCE = 500
"""Pods that a controller makes in one go (replicaset BurstReplicas, job MaxPodCreateDeletePerSync)."""
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
"""On a ReplicaSet: the size of its Deployment when it was last scaled."""
MOST = "deployment.kubernetes.io/max-replicas"
"""The same with the surge of that time."""
_NO_CLAIMS = (wire.ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b"[]"))
_REFUSED = "ReplicaFailure"
_LONGEST = 10
"""Digits of an int32."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Pods that are about to be made of one template."""

    key: str
    """`shop/deploy/api`, as a pod of it is called."""
    namespace: str
    owner_uid: str
    """Of the object that will control the pods; of a Deployment's that has no ReplicaSet yet, the Deployment's."""
    count: int
    template: wire.PodTemplate


def slim_replica_set(own: wire.ReplicaSet) -> wire.ReplicaSet:
    """Return what is read here of a ReplicaSet of a Deployment, without a template; tenants may fill the rest."""
    metadata, spec, status = own.metadata, own.spec, own.status
    annotations = {
        name: text for name in (REVISION, DESIRED, MOST) if 0 < len(text := metadata.annotation(name)) <= _LONGEST
    }
    refused = [c for c in (status.conditions if status is not None else None) or () if c.type == _REFUSED]
    return wire.ReplicaSet(
        metadata=wire.Metadata(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            deletion_timestamp=metadata.deletion_timestamp,
            annotations=annotations or None,
        ),
        spec=wire.ReplicatedSpec(replicas=spec.replicas if spec is not None else None),
        status=None
        if status is None
        else wire.ReplicatedStatus(replicas=status.replicas, conditions=refused[:1] or None),
    )


def of_replica_set(owner: wire.ReplicaSet, there: int) -> Promise | None:
    """Return what a ReplicaSet without a Deployment is about to make."""
    return _of_replica_set(owner, there, _desired_replicas(owner), key_of("ReplicaSet", owner.metadata))


def of_stateful_set(owner: wire.StatefulSet, there: int) -> Promise | None:
    """Return what a StatefulSet is about to make: one at a time, unless its pods are managed in parallel.

    One with volumes of its own promises nothing: these decide where its pods may go, and its template does not say so.

    Args:
        owner: the StatefulSet.
        there: its pods, those that are being deleted too: their names are taken until they have gone.
    """
    own = owner.spec
    if _idle(owner.metadata, owner.status) or (own is not None and own.volume_claim_templates not in _NO_CLAIMS):
        return None
    missing = _desired_replicas(owner) - max(there, _status_replicas(owner))
    if owner.spec is not None and owner.spec.pod_management_policy != "Parallel":
        ready = (owner.status.ready_replicas or 0) if owner.status is not None else 0
        # each waits for the one before it, which may have just come
        missing = min(missing, 1) if ready >= max(there, _status_replicas(owner)) else 0
    return _promise(key_of("StatefulSet", owner.metadata), owner.metadata, missing, owner.spec)


def of_job(owner: wire.Job, there: int) -> Promise | None:
    """Return what a Job is about to make (job_controller.go manageJob)."""
    spec, status = owner.spec, owner.status or wire.JobStatus()
    if spec is None or spec.suspend or spec.managed_by not in (None, "kubernetes.io/job-controller"):
        return None
    ended = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")
    if owner.metadata.deletion_timestamp is not None or _holds(status.conditions, *ended):
        return None
    if status.failed:  # what replaces a pod that failed waits, from ten seconds to as many minutes
        return None
    succeeded = status.succeeded or 0
    wanted = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - succeeded)
    elif succeeded:
        wanted = 0
    # A pod that has finished is there no more before the status counts it: until then it may be among the completions.
    missing = wanted - max(there, status.active or 0)
    if spec.pod_replacement_policy == "Failed":
        missing -= status.terminating or 0
    return _promise(key_of("Job", owner.metadata), owner.metadata, missing, spec)


def of_deployment(
    owner: wire.Deployment, replica_sets: Sequence[wire.ReplicaSet], there: Mapping[str, int]
) -> tuple[Promise, ...]:
    """Return what a Deployment is about to make, by ReplicaSet; these are not to be asked again one by one.

    Args:
        owner: the Deployment.
        replica_sets: all of its ReplicaSets.
        there: pods by uid of the ReplicaSet.
    """
    metadata, spec = owner.metadata, owner.spec
    if spec is None or _idle(metadata, owner.status):
        return ()
    key, wanted = key_of("Deployment", metadata), _desired_replicas(owner)
    if not replica_sets:
        # A paused Deployment gets no ReplicaSet.
        first = None if spec.paused else _promise(key, metadata, wanted, spec)
        return () if first is None else (first,)
    targets = scaled_sizes(owner, replica_sets)
    found = []
    for own in replica_sets:
        uid = own.metadata.uid or ""
        promise = _of_replica_set(own, there.get(uid, 0), targets.get(uid, _desired_replicas(own)), key)
        if promise is not None:
            found.append(promise)
    return tuple(found)


def scaled_sizes(owner: wire.Deployment, replica_sets: Sequence[wire.ReplicaSet]) -> dict[str, int]:
    """Return the sizes that the Deployment's controller will give ReplicaSets next, by uid (deployment/sync.go scale).

    A new template is not looked for: its ReplicaSet says what is made of it as soon as it is there.
    """
    wanted = _desired_replicas(owner)
    active = [own for own in replica_sets if _desired_replicas(own) > 0]
    newest = max(replica_sets, key=lambda own: (_revision(own.metadata), own.metadata.name))
    strategy = owner.spec.strategy if owner.spec is not None else None
    recreates = strategy is not None and strategy.type == "Recreate"
    if recreates and not active and any(_number(own, DESIRED) == wanted for own in replica_sets):
        # In a rollout: scaled down to none at this size, and nothing is made before the last of its pods has ended.
        return {}
    if len(active) <= 1:
        only = active[0] if active else newest
        return {only.metadata.uid or "": wanted}
    if recreates:
        return {}
    limit = wanted + surge_of(strategy, wanted) if wanted else 0
    total = sum(_desired_replicas(own) for own in active)
    if any(_number(own, DESIRED) not in (None, wanted) for own in active):
        before = (owner.status.replicas or 0) if owner.status is not None else 0
        return _in_proportion(active, limit - total, limit, before)
    if owner.spec is None or owner.spec.paused or newest not in replica_sets:
        return {}
    more = max(min(limit - total, wanted - _desired_replicas(newest)), 0)
    return {newest.metadata.uid or "": _desired_replicas(newest) + more}


def _in_proportion(active: Sequence[wire.ReplicaSet], add: int, limit: int, before: int) -> dict[str, int]:
    """Return sizes after `add` pods more, each ReplicaSet in proportion; what rounding leaves, to the largest.

    Args:
        active: ReplicaSets with pods.
        add: pods that may be added.
        limit: pods that there may be then.
        before: pods that there are, for ReplicaSets that do not say how many there might be when they were scaled last.
    """
    if add <= 0:
        return {}
    largest_first = sorted(
        active, key=lambda own: (-_desired_replicas(own), -_revision(own.metadata), own.metadata.name)
    )
    sizes: dict[str, int] = {}
    given = 0
    for own in largest_first:
        size, base = _desired_replicas(own), _number(own, MOST) or before
        part = min((2 * size * limit + base) // (2 * base) - size, add - given) if base else 0
        sizes[own.metadata.uid or ""] = size + part
        given += part
    sizes[largest_first[0].metadata.uid or ""] += add - given
    return sizes


def surge_of(strategy: wire.Strategy | None, replicas: int) -> int:
    """Return maxSurge in pods, a percentage rounded up; 25 % where nothing is said."""
    rolling = strategy.rolling_update if strategy is not None else None
    surge = rolling.max_surge if rolling is not None and rolling.max_surge is not None else "25%"
    if isinstance(surge, str):
        percent = _integer(surge.removesuffix("%")) if surge.endswith("%") else None
        return -(-replicas * percent // 100) if percent is not None else 0
    return max(surge, 0)


def key_of(kind: str, metadata: wire.Metadata) -> str:
    """Return what pods of an owner are called, as `workload_of` does: `shop/deploy/api`."""
    return "/".join(workload_of_owner(kind, metadata))


def _of_replica_set(owner: wire.ReplicaSet, there: int, wanted: int, key: str) -> Promise | None:
    if _idle(owner.metadata, owner.status):
        return None
    return _promise(key, owner.metadata, wanted - max(there, _status_replicas(owner)), owner.spec)


def _promise(
    key: str, metadata: wire.Metadata, missing: int, spec: wire.ReplicatedSpec | wire.JobSpec | None
) -> Promise | None:
    if missing <= 0 or spec is None or spec.template is None:
        return None
    return Promise(key, metadata.namespace or "", metadata.uid or "", min(missing, MOST_AT_ONCE), spec.template)


def _idle(metadata: wire.Metadata, status: wire.ReplicatedStatus | None) -> bool:
    """Say whether the owner is going, or its pods were refused: its controller tries again later and later."""
    refused = status is not None and _holds(status.conditions, _REFUSED)
    return metadata.deletion_timestamp is not None or refused


def _holds(conditions: list[wire.ObjectCondition] | None, *types: str) -> bool:
    return any(condition.type in types and condition.status == "True" for condition in conditions or ())


def _desired_replicas(owner: wire.Deployment | wire.ReplicaSet | wire.StatefulSet) -> int:
    replicas = owner.spec.replicas if owner.spec is not None else None
    return 1 if replicas is None else replicas


def _status_replicas(owner: wire.ReplicaSet | wire.StatefulSet) -> int:
    return (owner.status.replicas or 0) if owner.status is not None else 0


def _revision(metadata: wire.Metadata) -> int:
    return _integer(metadata.annotation(REVISION)) or 0


def _number(owner: wire.ReplicaSet, annotation: str) -> int | None:
    return _integer(owner.metadata.annotation(annotation))


def _integer(text: str) -> int | None:
    """Return the number that an annotation holds; anybody may have written it."""
    return int(text) if len(text) <= _LONGEST and text.isascii() and text.isdecimal() else None
