"""Whose cgroup it is: pods to be found by uid, by container id and by name, from any of the places that list them."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.sources.pod_objects import AuditedPod
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts, bare_container_id, facts_of_pod
from slack.cluster.labels import ANNOTATION_STATIC_POD

_SHARED = 32_768
"""Distinct containers whose facts are shared; beyond that the sharing starts anew, so that memory stays bounded."""


class PodNames:
    """Pods by uid, by container id and by name. One thread at a time.

    >>> names = PodNames([Pod(metadata=Metadata(name="api", namespace="shop", uid="4c1f"))])
    >>> names.named(Target(Level.POD, "/kubepods/pod4c1f", pod_uid="4c1f")).pod
    'api'
    """

    def __init__(self, pods: Iterable[AuditedPod] = ()) -> None:
        self._by_uid: dict[str, AuditedPodFacts] = {}
        self._by_other_uid: dict[str, AuditedPodFacts] = {}
        """Static pods, by the uid in their cgroup's path. Whoever may write a pod may claim any uid in an annotation:
        the mirror that a kubelet made takes precedence, and a pod's own uid is never another's."""
        self._by_container: dict[str, AuditedPodFacts] = {}
        self._by_name: dict[tuple[str, str], AuditedPodFacts] = {}
        self._shared: dict[AuditedContainerFacts, AuditedContainerFacts] = {}
        for pod in pods:
            self.put(pod)

    def __len__(self) -> int:
        """Return how many pods are known."""
        return len(self._by_uid)

    def put(self, pod: AuditedPod) -> AuditedPodFacts:
        """Add a pod, or what it has become; returns what is kept."""
        facts = self._share(facts_of_pod(pod))
        self.drop(facts.uid)
        self._by_uid[facts.uid] = facts
        if facts.cgroup_uid != facts.uid and (_is_mirror(pod) or facts.cgroup_uid not in self._by_other_uid):
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

    def pods(self) -> Iterable[AuditedPodFacts]:
        """All pods, in the order in which they came."""
        return self._by_uid.values()

    def by_uid(self, uid: str) -> AuditedPodFacts | None:
        """Return a pod by its uid, or by the one in its cgroup's path."""
        return self._by_uid.get(uid) or self._by_other_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> AuditedPodFacts | None:
        """Return a pod by its name."""
        return self._by_name.get((namespace, name))

    def by_container_id(self, container_id: str) -> tuple[AuditedPodFacts, AuditedContainerFacts] | None:
        """Return the pod and the container that has this id, with or without the runtime in front."""
        bare = bare_container_id(container_id)
        pod = self._by_container.get(bare)
        return (pod, pod.containers[pod.container_ids.index(bare)]) if pod is not None else None

    def facts_of(self, target: CgroupTarget) -> tuple[AuditedPodFacts | None, AuditedContainerFacts | None]:
        """Return whose cgroup it is, by container id, by pod uid, and by names where a source has nothing else."""
        if target.container_id and (found := self.by_container_id(target.container_id)):
            return found
        pod = self.by_uid(target.pod_uid.replace("_", "-")) if target.pod_uid else None
        if pod is None and target.pod and not self._contradicts(target):
            pod = self.by_name(target.namespace, target.pod)
        return pod, pod.container(target.container) if pod and target.container else None

    def _contradicts(self, target: CgroupTarget) -> bool:
        """Whether the names may be those of another pod: the uid in the cgroup's path counts, and of several clusters
        (their names are before those of nodes) a pod of each may have a name."""
        pod = self.by_name(target.namespace, target.pod) if target.pod else None
        uid = target.pod_uid.replace("_", "-")
        if not uid:
            return "/" in target.node
        return pod is not None and uid not in (pod.uid, pod.cgroup_uid)

    def is_sandbox(self, target: CgroupTarget) -> bool:
        """Say whether a cgroup in a pod's is none of its containers', all of which are known.

        It is that of the pod's sandbox: the pause container, and of a runtime that isolates pods all that runs in it
        (gVisor, Kata), beside empty cgroups of the containers or none.
        """
        if target.level is not CgroupLevel.CONTAINER or not target.container_id or not target.pod_uid:
            return False
        pod = self.by_uid(target.pod_uid.replace("_", "-"))
        if pod is None or target.container_id in pod.container_ids:
            return False
        started = zip(pod.containers, pod.container_ids, strict=True)
        return all(container_id or container.init for container, container_id in started)

    def named(self, target: CgroupTarget) -> CgroupTarget:
        """Return the target with its names; as it is where nobody knows them."""
        pod, container = self.facts_of(target)
        if pod is None:
            return target
        is_container = target.level is CgroupLevel.CONTAINER
        return replace(
            target,
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name if container and is_container else target.container,
            pod_uid=target.pod_uid or pod.cgroup_uid,
        )

    def _share(self, facts: AuditedPodFacts) -> AuditedPodFacts:
        if len(self._shared) > _SHARED:
            self._shared.clear()
        shared = tuple(self._shared.setdefault(container, container) for container in facts.containers)
        return msgspec.structs.replace(facts, containers=shared)


def _is_mirror(pod: AuditedPod) -> bool:
    """Whether a kubelet shows a static pod by it: a kubelet deletes what others call a mirror."""
    marks = pod.metadata.annotations or {}
    return bool(marks.get(ANNOTATION_STATIC_POD))
