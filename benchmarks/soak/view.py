"""A week of the operator's view: workloads, nodes, placeholders and policies come and go, each with a new name.

The parts are the sinks and the view that they feed, the map of policies, and what the loop keeps by policy. The API
server, its controllers and the planner are modelled; now and then a list is read anew, as after an expired version.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from benchmarks.soak.sizes import sizes
from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.labels import LABEL_PLACEHOLDER, LABEL_POLICY
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType, Undecodable
from slack_operator.placeholders.policies import DesiredPolicies
from slack_operator.placeholders.report.saved_waits import SavedWaits
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.instant_starts import InstantRatio
from slack_operator.placeholders.view.sinks import NodeSink, OwnSetSink, PodSink, WorkloadSink

TURN_SECONDS: Final = 600.0
GROUPS: Final = 20
"""Of a node, a policy, a Deployment and their pods; each turn a new one takes the place of the oldest."""
_PODS: Final = 5
_TURNS_TO_A_LIST: Final = 24
_WINDOW_SECONDS: Final = 3600.0
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_NAMESPACE: Final = "resource-slack"
Json = dict[str, Any]
T = TypeVar("T")


class ViewWeek:
    """One view and its surroundings."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int) -> None:
        """Begin with an empty cluster."""
        self._random = Random(seed)
        self._now, self._number, self._turns, self._cleared = 0.0, 0, 0, False
        self._groups: deque[int] = deque()
        self._view = ClusterView(_NAMESPACE, lambda: None, clock=lambda: self._now, wall=self._wall)
        self._view.columns = ClusterColumns(_NAMESPACE, _WINDOW_SECONDS)
        self._view.follow_owners(lambda: None)
        self._desired = DesiredPolicies(lambda: None)
        self._ratio, self._spared = InstantRatio(), SavedWaits()
        self._nodes, self._pods, self._own = NodeSink(self._view), PodSink(self._view), OwnSetSink(self._view)
        self._sets: WorkloadSink[wire.ReplicaSet] = WorkloadSink(self._view, "ReplicaSet")
        self._deployments: WorkloadSink[wire.Deployment] = WorkloadSink(self._view, "Deployment")
        self._list()

    def _wall(self) -> float:
        return _BEGAN + self._now

    def turn(self, now_seconds: float) -> None:
        """Change a group, list now and then, and observe as the loop does."""
        self._now = now_seconds
        self._turns += 1
        if not self._cleared:
            self._number += 1
            self._groups.append(self._number)
            self._come(self._number)
        if self._groups and (self._cleared or len(self._groups) > GROUPS):
            self._go(self._groups.popleft())
        if self._turns % _TURNS_TO_A_LIST == 0 or (self._cleared and not self._groups):
            self._list()
        self._observe()

    def clear(self, now_seconds: float) -> None:
        """Let all groups go."""
        self._cleared = True
        while self._groups:
            self._go(self._groups.popleft())
        self._list()

    def sizes(self) -> Mapping[str, int]:
        """Return the lengths of all maps and sequences."""
        own = (self._nodes, self._pods, self._own, self._sets, self._deployments)
        return sizes([self._view, self._desired, self._ratio, self._spared, *own])

    def close(self) -> None:
        """End nothing: no thread was begun."""

    def _observe(self) -> None:
        observation = self._view.observe(self._wall())
        policies = {entry.name for entry in self._desired.entries()}
        whose = {f"node-{number}": f"policy-{number}" for number in self._groups}
        starts = self._ratio.add_starts(observation.starts, whose)
        self._spared.add_starts(starts, 60.0)
        self._ratio.keep_only(policies)
        self._spared.keep_only(policies)
        self._view.keep_only(policies)

    def _come(self, number: int) -> None:
        """Bring a group; its pods wait, take a placeholder's place, and start."""
        self._policies()
        self._nodes.apply([(EventType.ADDED, _decoded(_node(number), wire.Node))])
        self._own.apply([(EventType.ADDED, _decoded(_own_set(number), wire.OwnReplicaSet))])
        self._deployments.apply([(EventType.ADDED, _decoded(_deployment(number), wire.Deployment))])
        self._sets.apply([(EventType.ADDED, _decoded(_replica_set(number), wire.ReplicaSet))])
        self._view.expect(f"own-{number}", 1, self._now)
        self._view.push_out(f"never-{number}", self._now)
        placeholders = [_placeholder(number, index, self._wall()) for index in range(_PODS)]
        self._pods.apply(_events(EventType.ADDED, placeholders))
        pods = [_pod(number, index, self._wall(), "") for index in range(_PODS)]
        self._pods.apply(_events(EventType.ADDED, pods))
        self._pods.apply(_events(EventType.DELETED, placeholders[:2]))
        self._pods.apply(
            _events(EventType.MODIFIED, [_pod(number, index, self._wall(), f"node-{number}") for index in range(_PODS)])
        )

    def _go(self, number: int) -> None:
        pods = [_pod(number, index, self._wall(), f"node-{number}") for index in range(_PODS)]
        placeholders = [_placeholder(number, index, self._wall()) for index in range(2, _PODS)]
        self._pods.apply(_events(EventType.DELETED, [*pods, *placeholders]))
        self._deployments.apply([(EventType.DELETED, _decoded(_deployment(number), wire.Deployment))])
        self._sets.apply([(EventType.DELETED, _decoded(_replica_set(number), wire.ReplicaSet))])
        self._own.apply([(EventType.DELETED, _decoded(_own_set(number), wire.OwnReplicaSet))])
        self._nodes.apply([(EventType.DELETED, _decoded(_node(number), wire.Node))])
        self._policies()

    def _policies(self) -> None:
        """List the policies; now and then one cannot be decoded."""
        documents = [_policy(number) for number in self._groups]
        bad = []
        if documents and self._random.random() < 0.1:
            who = ObjectName(uid=f"policy-{self._number}", name=f"policy-{self._number}", generation=1)
            bad, documents = [Undecodable(who, "it is nested too deeply")], documents[:-1]
        self._desired.replace_all(documents, events_before=self._desired.events, unreadable=bad)

    def _list(self) -> None:
        """Read every collection anew."""
        numbers = list(self._groups)
        self._nodes.begin()
        self._nodes.apply([(EventType.ADDED, _decoded(_node(number), wire.Node)) for number in numbers])
        self._nodes.end()
        self._own.begin()
        self._own.apply([(EventType.ADDED, _decoded(_own_set(n), wire.OwnReplicaSet)) for n in numbers])
        self._own.end()
        self._deployments.begin()
        self._deployments.apply([(EventType.ADDED, _decoded(_deployment(n), wire.Deployment)) for n in numbers])
        self._deployments.end()
        self._sets.begin()
        self._sets.apply([(EventType.ADDED, _decoded(_replica_set(n), wire.ReplicaSet)) for n in numbers])
        self._sets.end()
        self._pods.begin()
        for number in numbers:
            pods = [_pod(number, index, self._wall(), f"node-{number}") for index in range(_PODS)]
            placeholders = [_placeholder(number, index, self._wall()) for index in range(2, _PODS)]
            self._pods.apply(_events(EventType.ADDED, [*pods, *placeholders]))
        self._pods.end()
        self._policies()


def week(seed: int) -> ViewWeek:
    """Make the view's week."""
    return ViewWeek(seed)


def _decoded(document: Json, kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


def _events(kind: EventType, documents: Sequence[Json]) -> list[tuple[EventType, wire.Pod]]:
    return [(kind, _decoded(document, wire.Pod)) for document in documents]


def _metadata(name: str, namespace: str = "", **more: Any) -> Json:
    return {"name": name, "uid": name, **({"namespace": namespace} if namespace else {}), **more}


def _owner(kind: str, name: str) -> list[Json]:
    return [{"kind": kind, "name": name, "uid": name, "controller": True}]


def _policy(number: int) -> Json:
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": _metadata(f"policy-{number}", generation=1),
        "spec": {},
    }


def _node(number: int) -> Json:
    return {
        "metadata": _metadata(f"node-{number}", labels={"kubernetes.io/hostname": f"node-{number}"}),
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _template(priority: int) -> Json:
    requests = {"cpu": "500m", "memory": "1Gi"}
    return {"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]}


def _deployment(number: int) -> Json:
    return {
        "metadata": _metadata(f"deploy-{number}", f"tenant-{number}", generation=1),
        "spec": {"replicas": _PODS, "template": {"spec": _template(0)}},
        "status": {"replicas": 0, "observedGeneration": 1},
    }


def _replica_set(number: int) -> Json:
    owners = _owner("Deployment", f"deploy-{number}")
    return {
        "metadata": _metadata(f"set-{number}", f"tenant-{number}", ownerReferences=owners),
        "spec": {"replicas": _PODS, "template": {"spec": _template(0)}},
        "status": {"replicas": 0},
    }


def _own_set(number: int) -> Json:
    labels = {LABEL_PLACEHOLDER: "true", LABEL_POLICY: f"policy-{number}"}
    return {
        "metadata": _metadata(f"own-{number}", _NAMESPACE, labels=labels),
        "spec": {"replicas": _PODS, "template": {"spec": _template(-10)}},
        "status": {"replicas": _PODS},
    }


def _pod(number: int, index: int, created: float, node: str) -> Json:
    at = datetime.fromtimestamp(created, UTC).isoformat()
    owners = _owner("ReplicaSet", f"set-{number}")
    metadata = _metadata(f"pod-{number}-{index}", f"tenant-{number}", ownerReferences=owners, creationTimestamp=at)
    status: Json = {"phase": "Running" if node else "Pending"}
    if not node:
        status["nominatedNodeName"] = f"node-{number}"
    return {"metadata": metadata, "spec": {**_template(0), **({"nodeName": node} if node else {})}, "status": status}


def _placeholder(number: int, index: int, created: float) -> Json:
    at = datetime.fromtimestamp(created, UTC).isoformat()
    labels = {LABEL_PLACEHOLDER: "true", LABEL_POLICY: f"policy-{number}"}
    owners = _owner("ReplicaSet", f"own-{number}")
    metadata = _metadata(
        f"own-{number}-{index}", _NAMESPACE, labels=labels, ownerReferences=owners, creationTimestamp=at
    )
    return {
        "metadata": metadata,
        "spec": {**_template(-10), "nodeName": f"node-{number}"},
        "status": {"phase": "Running"},
    }
