"""The images of workloads, by their pod templates: a rollout shows here before its first pod.

Only names are kept, each text once. A workload without a template of a kind that is watched, such as a Rollout or a
RayCluster, has the images of the newest pod that came without a node. Owned by the view, under its lock.
"""

import sys
from collections.abc import Mapping

from slack.cluster import wire
from slack.cluster.identity import workload_of, workload_of_owner
from slack.cluster.snapshot import Workload
from slack.kube.watch import EventType

MAX_IMAGES = 32
"""Of one workload."""
MAX_WORKLOADS = 4096
"""Known by their pods alone; those whose last pod came longest ago are forgotten."""


class TemplateImages:
    """By workload, as `shop/deploy/api`: its images, init containers first."""

    def __init__(self) -> None:
        self.asked = False
        """Whether anybody wants images: until then no event of a pod costs anything here."""
        self._kinds: dict[str, dict[str, tuple[str, ...]]] = {}
        """By kind of the object, then by workload."""
        self._by_pods: dict[str, tuple[str, ...]] = {}
        """By workload without a template, the newest last."""
        self._unseen: dict[str, set[str]] = {}
        """By kind, while a list is read: the workloads that it has not shown yet."""

    def begin(self, kind: str) -> None:
        """A new list of a kind begins."""
        self._unseen[kind] = set(self._kinds.get(kind, ()))

    def end(self, kind: str) -> None:
        """The list is whole: what it does not have is no more."""
        for name in self._unseen.pop(kind, set()):
            self._kinds[kind].pop(name, None)

    def apply(self, event: EventType, kind: str, owner: wire.Workload) -> None:
        """Take a workload object; those that belong to another, such as a Deployment's ReplicaSets, are left out."""
        if owner.metadata.controller() is not None:
            return
        name = str(Workload(*workload_of_owner(kind, owner.metadata)))
        known = self._kinds.setdefault(kind, {})
        self._unseen.get(kind, set()).discard(name)
        images = () if event is EventType.DELETED else images_of(_template(owner))
        if images:
            known[name] = images
        else:
            known.pop(name, None)

    def see_pod(self, pod: wire.Pod) -> None:
        """Take a pod that has just come; one that belongs to nobody is no workload that comes again."""
        if pod.metadata.controller() is None:
            return
        name = str(Workload(*workload_of(pod.metadata)))
        self._by_pods.pop(name, None)
        if any(name in known for known in self._kinds.values()) or not (images := _images(pod.spec)):
            return
        self._by_pods[name] = images
        if len(self._by_pods) > MAX_WORKLOADS:
            del self._by_pods[next(iter(self._by_pods))]

    def by_workload(self) -> Mapping[str, tuple[str, ...]]:
        """Return a copy of all; what a template says wins. From now on pods are looked at, too."""
        self.asked = True
        return self._by_pods | {name: images for known in self._kinds.values() for name, images in known.items()}


def images_of(template: wire.PodTemplate | None) -> tuple[str, ...]:
    """Return the images of a pod template, each once."""
    return _images(template.spec if template is not None else None)


def _images(spec: wire.PodSpec | None) -> tuple[str, ...]:
    if spec is None:
        return ()
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return tuple(dict.fromkeys(sys.intern(each.image) for each in containers if each.image))[:MAX_IMAGES]


def _template(owner: wire.Workload) -> wire.PodTemplate | None:
    if isinstance(owner, wire.CronJob):
        job = owner.spec.job_template if owner.spec is not None else None
        return job.spec.template if job is not None and job.spec is not None else None
    return owner.spec.template if owner.spec is not None else None
