"""Names of pods and containers, as the controller has told them; kept while their cgroups live.

The agent has no rights at the API server, so it knows only uids and container ids, and asks with each report. What the
controller cannot name either (a pod's sandbox is a container that no status mentions) is asked for rarely.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from slack.audit.api.messages import PodName
from slack.audit.findings.sample import CgroupLevel, CgroupTarget

ASK_AGAIN_SECONDS = 600.0
SHORT_ID = 12
"""Characters of a container id that stand for an unknown name, as `crictl ps` shows them."""


class NameBook:
    """Who is behind a uid. Owned by whoever holds the agent's lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, PodName] = {}
        self._asked: dict[str, tuple[frozenset[str], float]] = {}
        """By uid: the container ids that had no name after the last answer, and when it came."""
        self._alive: dict[str, set[str]] = {}
        """Container ids by uid."""

    def see(self, targets: Iterable[CgroupTarget]) -> None:
        """Take in which cgroups live, and forget the names of all others."""
        alive: dict[str, set[str]] = {}
        for target in targets:
            if target.pod_uid:
                ids = alive.setdefault(target.pod_uid, set())
                if target.container_id:
                    ids.add(target.container_id)
        self._alive = alive
        self._pods = {uid: name for uid, name in self._pods.items() if uid in alive}
        self._asked = {uid: asked for uid, asked in self._asked.items() if uid in alive}

    def unnamed(self) -> tuple[str, ...]:
        """Return the uids to ask for: without a name, or with containers that the last answer did not know of."""
        now = self._clock()
        wanted = []
        for uid, ids in self._alive.items():
            missing = self._missing(uid, ids)
            asked, at = self._asked.get(uid, (None, float("-inf")))
            if uid not in self._pods or (missing and (missing != asked or now - at >= ASK_AGAIN_SECONDS)):
                wanted.append(uid)
        return tuple(wanted)

    def update_names(self, names: Mapping[str, PodName], asked: Iterable[str]) -> None:
        """Take in an answer to `asked`; names of what does not live any more are left out."""
        now = self._clock()
        for uid, name in names.items():
            ids = self._alive.get(uid)
            if ids is not None:
                containers = {
                    container_id: told for container_id, told in name.containers.items() if container_id in ids
                }
                self._pods[uid] = PodName(namespace=name.namespace, name=name.name, containers=containers)
        for uid in asked:
            if uid in self._alive:
                self._asked[uid] = self._missing(uid, self._alive[uid]), now

    def _missing(self, uid: str, ids: set[str]) -> frozenset[str]:
        pod = self._pods.get(uid)
        return frozenset(ids) if pod is None else frozenset(ids.difference(pod.containers))

    def named(self, target: CgroupTarget) -> CgroupTarget:
        """Return the target with its names, as far as they are known."""
        pod = self._pods.get(target.pod_uid)
        if pod is None:
            return target
        container = pod.containers.get(target.container_id, "")
        return replace(target, namespace=pod.namespace, pod=pod.name, container=container)


def shown(target: CgroupTarget) -> tuple[str, str, str]:
    """Return what stands for (namespace, pod, container) in a series.

    The uid and the beginning of the container id where names are not known; the cgroup's path as container where there
    is no pod: several cgroups of the level must not become one series.
    """
    if not target.pod_uid:
        return "", "", "" if target.level is CgroupLevel.NODE else target.path
    container = target.container or target.container_id[:SHORT_ID]
    return target.namespace, target.pod or target.pod_uid, container
