"""What is kept of a pod: names, limits, requests, owner; a few hundred bytes, most of them shared by a workload's pods.

An API server's uid of a static pod is not the one in its cgroup's path: that is `kubernetes.io/config.hash`.
"""

import sys

import msgspec

from slack.audit.sources.pod_objects import (
    AuditedContainer,
    AuditedMetadata,
    AuditedPod,
    AuditedPodStatus,
    AuditedResources,
    Cpu,
    Spec,
)
from slack.cluster.labels import (
    ANNOTATION_CONFIG_HASH,
    ANNOTATION_LATENCY,
    LABEL_ROLLOUT_HASH,
    LABEL_TEMPLATE_HASH,
)
from slack.cluster.quantity import QuantityError, cpu_millis

THREAD_VARIABLES = ("GOMAXPROCS", "JAVA_TOOL_OPTIONS", "UV_THREADPOOL_SIZE", "WEB_CONCURRENCY")
"""Environment variables that an advice may be about; their values are kept, and no others."""
_LONGEST_VALUE = 1024


class AuditedContainerFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a container; pods of one workload share it."""

    name: str
    image: str
    command: tuple[str, ...]
    """The first words of command and args: enough to see a runtime."""
    cpu_limit_millis: int | None
    cpu_request_millis: int | None
    index: int
    """In spec.containers, or in spec.initContainers."""
    init: bool
    """Of spec.initContainers."""
    sidecar: bool
    """An init container with restartPolicy Always."""
    resize_restarts: bool
    """resizePolicy for cpu is RestartContainer."""
    variables: tuple[tuple[str, str | None], ...] | None = ()
    """Of `THREAD_VARIABLES`, those that are set or may be. None for a value that is not in the pod: of `valueFrom`, or
    of an `envFrom` beside other variables. None for all: not to be known, as `envFrom` may set any."""


class AuditedPodFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a pod."""

    uid: str
    cgroup_uid: str
    """As in the path of its cgroup; another than `uid` for static pods seen through an API server."""
    namespace: str
    name: str
    node: str
    owner_kind: str
    """'' for a pod without one."""
    owner_name: str
    qos_class: str
    latency_class: bool
    static: bool
    """From a file on its node: no API call changes it."""
    deleting: bool
    cpu_limit_millis: int | None
    """spec.resources, the limit of the pod as a whole."""
    cpu_request_millis: int | None
    containers: tuple[AuditedContainerFacts, ...]
    container_ids: tuple[str, ...]
    """By position in `containers`; '' for one that does not run."""
    overhead_millis: int = 0
    """What its RuntimeClass adds to its quota (spec.overhead)."""

    def container(self, name: str) -> AuditedContainerFacts | None:
        """Return the container of that name."""
        return next((container for container in self.containers if container.name == name), None)


def _millis(cpu: Cpu | None) -> int | None:
    """Return millicores; None for none, and for what is no quantity, as a name is worth more than no pod at all."""
    if cpu is None or cpu.cpu is None:
        return None
    try:
        return cpu_millis(str(cpu.cpu))
    except QuantityError:
        return None


def _container(container: AuditedContainer, index: int, init: bool) -> AuditedContainerFacts:
    resources = container.resources or AuditedResources()
    words = [word for part in (container.command, container.args) for word in (part or ())[:3]]
    return AuditedContainerFacts(
        name=sys.intern(container.name),
        image=sys.intern(container.image or ""),
        command=tuple(sys.intern(word[:80]) for word in words[:4]),
        cpu_limit_millis=_millis(resources.limits),
        cpu_request_millis=_millis(resources.requests),
        index=index,
        init=init,
        sidecar=init and container.restart_policy == "Always",
        resize_restarts=any(
            policy.resource_name == "cpu" and policy.restart_policy == "RestartContainer"
            for policy in container.resize_policy or ()
        ),
        variables=_variables(container),
    )


def _variables(container: AuditedContainer) -> tuple[tuple[str, str | None], ...] | None:
    found = tuple(
        (variable.name, None if variable.value_from is not None else (variable.value or "")[:_LONGEST_VALUE])
        for variable in container.env or ()
        if variable.name in THREAD_VARIABLES
    )
    if not container.env_from:
        return found
    known = {name for name, _ in found}
    unread = tuple((name, None) for name in THREAD_VARIABLES if name not in known)
    return found + unread if found else None


def _owner(meta: AuditedMetadata) -> tuple[str, str]:
    """Return kind and name of the owner; of a ReplicaSet, the Deployment or Rollout above it.

    The Deployment controller puts its hash into the ReplicaSet's name and into the label `pod-template-hash`, so equal
    ones tell a Deployment from a ReplicaSet that somebody made by hand.
    """
    owners = meta.owner_references or []
    owner = next((owner for owner in owners if owner.controller), None)
    if owner is None and len(owners) == 1 and owners[0].controller is None:
        owner = owners[0]
    if owner is None:
        return "", ""
    if owner.kind == "ReplicaSet":
        for label, kind in ((LABEL_TEMPLATE_HASH, "Deployment"), (LABEL_ROLLOUT_HASH, "Rollout")):
            hashed = (meta.labels or {}).get(label, "")
            if hashed and owner.name.endswith(f"-{hashed}"):
                return kind, owner.name.removesuffix(f"-{hashed}")
    return owner.kind, owner.name


def bare_container_id(container_id: str) -> str:
    """Strip the runtime: `containerd://3a9b...` is `3a9b...`."""
    return container_id.rpartition("://")[2]


def facts_of_pod(pod: AuditedPod) -> AuditedPodFacts:
    """Keep of a pod what an audit needs."""
    meta, spec, status = pod.metadata, pod.spec or Spec(), pod.status or AuditedPodStatus()
    marks = meta.annotations or {}
    kind, owner = _owner(meta)
    containers = [
        *(_container(container, index, False) for index, container in enumerate(spec.containers or ())),
        *(_container(container, index, True) for index, container in enumerate(spec.init_containers or ())),
    ]
    ids = {
        container.name: bare_container_id(container.container_id)
        for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
        if container.container_id
    }
    uid, hashed = meta.uid or "", marks.get(ANNOTATION_CONFIG_HASH, "")
    resources = spec.resources or AuditedResources()
    return AuditedPodFacts(
        uid=uid,
        cgroup_uid=hashed or uid,
        namespace=sys.intern(meta.namespace or ""),
        name=meta.name,
        node=sys.intern(spec.node_name or ""),
        owner_kind=sys.intern(kind),
        owner_name=sys.intern(owner),
        qos_class=sys.intern(status.qos_class or ""),
        latency_class=marks.get(ANNOTATION_LATENCY, "").lower() == "true",
        static=bool(hashed) or kind == "Node",
        deleting=meta.deletion_timestamp is not None,
        cpu_limit_millis=_millis(resources.limits),
        cpu_request_millis=_millis(resources.requests),
        containers=tuple(containers),
        container_ids=tuple(ids.get(container.name, "") for container in containers),
        overhead_millis=_millis(spec.overhead) or 0,
    )
