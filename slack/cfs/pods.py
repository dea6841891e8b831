"""Whose cgroup it is: names, limits, requests and owner of pods, from any of the three places that list them.

The same structs decode the kubelet's /pods, lists of the API server, and objects of a watch; only fields that an
audit reads are built. What is kept of a pod is `PodFacts`, a few hundred bytes, most of them shared by the pods of one
workload. An API server's uid of a static pod is not the one in its cgroup's path: that is `kubernetes.io/config.hash`.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TypedDict

import msgspec

from slack.cfs.sample import Level, Target
from slack.cluster.quantity import QuantityError, cpu_millis

ANNOTATION_LATENCY = "audit.resource-slack.io/latency"
"""`true`: this pod would rather have no limit than wait."""
_SHARED = 32_768
"""Distinct containers whose facts are shared; beyond that the sharing starts anew, so that memory stays bounded."""


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Base of all structs here: camelCase on the wire; what Go can write as null is accepted."""


class Owner(_Wire):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


_Annotations = TypedDict(
    "_Annotations",
    {
        "audit.resource-slack.io/latency": str,
        "audit.resource-slack.io/former-limits": str,
        "kubernetes.io/config.hash": str,
        "kubernetes.io/config.mirror": str,
    },
    total=False,
)
_Labels = TypedDict("_Labels", {"pod-template-hash": str}, total=False)


class Metadata(_Wire):
    """ObjectMeta as far as it is read; annotations and labels have only the keys that are."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    annotations: _Annotations | None = None
    labels: _Labels | None = None
    owner_references: list[Owner] | None = None


class Cpu(_Wire):
    """The cpu of a ResourceList."""

    cpu: str | int | float | None = None


class Resources(_Wire):
    """Limits and requests."""

    limits: Cpu | None = None
    requests: Cpu | None = None


class ResizePolicy(_Wire):
    """resizePolicy[] of a container."""

    resource_name: str = ""
    restart_policy: str = ""


class Container(_Wire):
    """A container or init container of a spec."""

    name: str = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    resources: Resources | None = None
    resize_policy: list[ResizePolicy] | None = None
    restart_policy: str | None = None


class Spec(_Wire):
    """spec of a pod."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: Resources | None = None
    """Pod-level resources (1.34+)."""


class ContainerStatus(_Wire):
    """What the kubelet says of a container."""

    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")
    resources: Resources | None = None
    """What the kubelet has in force; differs from the spec while a resize is under way."""


class Condition(_Wire):
    """status.conditions[]; PodResizePending and PodResizeInProgress tell of a resize."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class Status(_Wire):
    """status of a pod."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(_Wire):
    """v1 Pod."""

    metadata: Metadata
    spec: Spec | None = None
    status: Status | None = None


class _PodList(_Wire):
    items: list[Pod] | None = None


_list_decoder = msgspec.json.Decoder(_PodList)


class ContainerFacts(msgspec.Struct, frozen=True, gc=False):
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


class PodFacts(msgspec.Struct, frozen=True, gc=False):
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
    containers: tuple[ContainerFacts, ...]
    container_ids: tuple[str, ...]
    """By position in `containers`; '' for one that does not run."""

    def container(self, name: str) -> ContainerFacts | None:
        """Return the container of that name."""
        return next((one for one in self.containers if one.name == name), None)


def decode_pods(body: bytes) -> list[Pod]:
    """Decode the kubelet's /pods or a list of an API server.

    Raises:
        ValueError: when the body is no list of pods; the message says where.
    """
    try:
        return _list_decoder.decode(body).items or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no list of pods: {error}") from None


def _millis(cpu: Cpu | None) -> int | None:
    """Return millicores; None for none, and for what is no quantity, as a name is worth more than no pod at all."""
    if cpu is None or cpu.cpu is None:
        return None
    try:
        return cpu_millis(str(cpu.cpu))
    except QuantityError:
        return None


def _container(container: Container, index: int, init: bool) -> ContainerFacts:
    resources = container.resources or Resources()
    words = [word for part in (container.command, container.args) for word in (part or ())[:3]]
    return ContainerFacts(
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
    )


def _owner(meta: Metadata) -> tuple[str, str]:
    """Return kind and name of the owner; of a Deployment's ReplicaSet, the Deployment.

    The Deployment controller puts its hash into the ReplicaSet's name and into the label `pod-template-hash`, so equal
    ones tell a Deployment from a ReplicaSet that somebody made by hand.
    """
    owners = meta.owner_references or []
    owner = next((one for one in owners if one.controller), None)
    if owner is None and len(owners) == 1 and owners[0].controller is None:
        owner = owners[0]
    if owner is None:
        return "", ""
    hashed = (meta.labels or {}).get("pod-template-hash", "")
    if owner.kind == "ReplicaSet" and hashed and owner.name.endswith(f"-{hashed}"):
        return "Deployment", owner.name.removesuffix(f"-{hashed}")
    return owner.kind, owner.name


def bare_container_id(container_id: str) -> str:
    """Strip the runtime: `containerd://3a9b...` is `3a9b...`."""
    return container_id.rpartition("://")[2]


def facts_of_pod(pod: Pod) -> PodFacts:
    """Keep of a pod what an audit needs."""
    meta, spec, status = pod.metadata, pod.spec or Spec(), pod.status or Status()
    marks = meta.annotations or {}
    kind, owner = _owner(meta)
    containers = [
        *(_container(one, index, False) for index, one in enumerate(spec.containers or ())),
        *(_container(one, index, True) for index, one in enumerate(spec.init_containers or ())),
    ]
    ids = {
        one.name: bare_container_id(one.container_id)
        for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
        if one.container_id
    }
    uid, hashed = meta.uid or "", marks.get("kubernetes.io/config.hash", "")
    resources = spec.resources or Resources()
    return PodFacts(
        uid=uid,
        cgroup_uid=hashed or uid,
        namespace=sys.intern(meta.namespace or ""),
        name=meta.name,
        node=sys.intern(spec.node_name or ""),
        owner_kind=sys.intern(kind),
        owner_name=sys.intern(owner),
        qos_class=sys.intern(status.qos_class or ""),
        latency_class=marks.get("audit.resource-slack.io/latency", "").lower() == "true",
        static=bool(hashed) or kind == "Node",
        deleting=meta.deletion_timestamp is not None,
        cpu_limit_millis=_millis(resources.limits),
        cpu_request_millis=_millis(resources.requests),
        containers=tuple(containers),
        container_ids=tuple(ids.get(one.name, "") for one in containers),
    )


class PodNames:
    """Pods by uid, by container id and by name. One thread at a time.

    >>> names = PodNames([Pod(metadata=Metadata(name="api", namespace="shop", uid="4c1f"))])
    >>> names.named(Target(Level.POD, "/kubepods/pod4c1f", pod_uid="4c1f")).pod
    'api'
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._by_uid: dict[str, PodFacts] = {}
        self._by_other_uid: dict[str, PodFacts] = {}  # static pods, by the uid in their cgroup's path
        self._by_container: dict[str, PodFacts] = {}
        self._by_name: dict[tuple[str, str], PodFacts] = {}
        self._shared: dict[ContainerFacts, ContainerFacts] = {}
        for pod in pods:
            self.put(pod)

    def __len__(self) -> int:
        """Return how many pods are known."""
        return len(self._by_uid)

    def put(self, pod: Pod) -> PodFacts:
        """Add a pod, or what it has become; returns what is kept."""
        facts = self._share(facts_of_pod(pod))
        self.drop(facts.uid)
        self._by_uid[facts.uid] = facts
        if facts.cgroup_uid != facts.uid:
            self._by_other_uid[facts.cgroup_uid] = facts
        self._by_name[facts.namespace, facts.name] = facts
        for container_id in facts.container_ids:
            if container_id:
                self._by_container[container_id] = facts
        return facts

    def drop(self, uid: str) -> None:
        """Forget a pod by its uid; one that is not known is none of our business."""
        facts = self._by_uid.pop(uid, None)
        if facts is None:
            return
        if self._by_other_uid.get(facts.cgroup_uid) is facts:
            del self._by_other_uid[facts.cgroup_uid]
        if self._by_name.get((facts.namespace, facts.name)) is facts:  # a StatefulSet's next pod has the same name
            del self._by_name[facts.namespace, facts.name]
        for container_id in facts.container_ids:
            if container_id and self._by_container.get(container_id) is facts:
                del self._by_container[container_id]

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all other pods: a list came whole."""
        wanted = frozenset(uids)
        for uid in [uid for uid in self._by_uid if uid not in wanted]:
            self.drop(uid)

    def pods(self) -> Iterable[PodFacts]:
        """All pods, in the order in which they came."""
        return self._by_uid.values()

    def by_uid(self, uid: str) -> PodFacts | None:
        """Return a pod by its uid, or by the one in its cgroup's path."""
        return self._by_uid.get(uid) or self._by_other_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> PodFacts | None:
        """Return a pod by its name."""
        return self._by_name.get((namespace, name))

    def by_container_id(self, container_id: str) -> tuple[PodFacts, ContainerFacts] | None:
        """Return the pod and the container that has this id, with or without the runtime in front."""
        bare = bare_container_id(container_id)
        pod = self._by_container.get(bare)
        return (pod, pod.containers[pod.container_ids.index(bare)]) if pod is not None else None

    def facts_of(self, target: Target) -> tuple[PodFacts | None, ContainerFacts | None]:
        """Return whose cgroup it is, by container id, by pod uid, and by names where a source has nothing else."""
        if target.container_id and (found := self.by_container_id(target.container_id)):
            return found
        pod = self.by_uid(target.pod_uid.replace("_", "-")) if target.pod_uid else None
        if pod is None and target.pod:
            pod = self.by_name(target.namespace, target.pod)
        return pod, pod.container(target.container) if pod and target.container else None

    def named(self, target: Target) -> Target:
        """Return the target with its names; as it is where nobody knows them."""
        pod, container = self.facts_of(target)
        if pod is None:
            return target
        is_container = target.level is Level.CONTAINER
        return replace(
            target,
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name if container and is_container else target.container,
            pod_uid=target.pod_uid or pod.cgroup_uid,
        )

    def _share(self, facts: PodFacts) -> PodFacts:
        if len(self._shared) > _SHARED:
            self._shared.clear()
        shared = tuple(self._shared.setdefault(one, one) for one in facts.containers)
        return msgspec.structs.replace(facts, containers=shared)
