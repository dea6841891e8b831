"""What kube-state-metrics remembered, as a trace: samples of a Prometheus in, rows out. Pure.

Prometheus keeps no constraints, no taints and no priorities' values; such a trace lets every pod go everywhere. Times
that end something are as fine as the scrape interval.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slack.cluster import wire
from slack.cluster.identity import workload_of
from slack.simulator.traceformat import NodeRow, PodRow, Trace

PLACEHOLDERS = "resource-slack"
_STILL_THERE_SECONDS = 150.0
"""What was seen so shortly before the end is there still: scrapes come every minute at most, staleness is 5 min."""
_READY = 'kube_node_status_condition{condition="Ready",status="true"} == 1'
QUERIES: Mapping[str, str] = {
    "pod_created": "last_over_time(kube_pod_created[{window}])",
    "pod_scheduled": "last_over_time(kube_pod_status_scheduled_time[{window}])",
    "pod_completed": "last_over_time(kube_pod_completion_time[{window}])",
    "pod_requests": "last_over_time(kube_pod_container_resource_requests[{window}])",
    "pod_info": "last_over_time(kube_pod_info[{window}])",
    "pod_last_seen": "max_over_time(timestamp(kube_pod_created)[{window}:30s])",
    "node_created": "last_over_time(kube_node_created[{window}])",
    "node_allocatable": "last_over_time(kube_node_status_allocatable[{window}])",
    "node_labels": "last_over_time(kube_node_labels[{window}])",
    "node_ready": "min_over_time(timestamp(" + _READY + ")[{window}:15s])",
    "node_last_seen": "max_over_time(timestamp(kube_node_created)[{window}:30s])",
}
"""Instant queries, asked at the end of each window, whose length takes the place of `{window}`."""
_HASH = re.compile(r"-(?P<hash>[bcdfghjklmnpqrstvwxz2456789]{5,10})$")
"""A pod-template-hash (apimachinery util/rand SafeEncodeString)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series' value."""

    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class _PodFacts:
    info: Mapping[str, str] = field(default_factory=dict)
    created: float | None = None
    scheduled: float | None = None
    completed: float | None = None
    last_seen: float = 0.0
    requests: dict[tuple[str, str], float] = field(default_factory=dict)
    """By container and resource."""


@dataclass(slots=True)
class _NodeFacts:
    created: float | None = None
    ready: float | None = None
    last_seen: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: dict[str, float] = field(default_factory=dict)


class History:
    """Gathers the answers of one window after the other, in order of time."""

    def __init__(self, started_seconds: float, placeholder_namespace: str = PLACEHOLDERS) -> None:
        self._started = started_seconds
        self._namespace = placeholder_namespace
        self._pods: dict[tuple[str, str, str], _PodFacts] = defaultdict(_PodFacts)
        self._nodes: dict[str, _NodeFacts] = defaultdict(_NodeFacts)

    def add(self, query: str, samples: Iterable[Sample]) -> None:
        """Take the answer to one of QUERIES."""
        for sample in samples:
            if query.startswith("node"):
                self._add_node(query, self._nodes[sample.labels.get("node", "")], sample)
            else:
                labels = sample.labels
                key = labels.get("namespace", ""), labels.get("pod", ""), labels.get("uid", "")
                self._add_pod(query, self._pods[key], sample)

    def trace(self, ended_seconds: float) -> Trace:
        """Return the rows of all that was added."""
        pods: list[PodRow] = []
        daemons: dict[str, list[dict[str, int]]] = defaultdict(list)
        for (namespace, name, _), facts in self._pods.items():
            if facts.created is None:
                continue  # made after its window's other answers, or before the first
            if facts.info.get("created_by_kind") in ("DaemonSet", "Node"):
                daemons[facts.info.get("node", "")].append({**_amounts(facts), "pods": 1})
            else:
                pods.append(self._pod(namespace, name, facts, ended_seconds))
        nodes = [
            self._node(name, facts, daemons.get(name, []), ended_seconds)
            for name, facts in self._nodes.items()
            if name and facts.created is not None and facts.allocatable
        ]
        return Trace(
            datetime.fromtimestamp(self._started, UTC),
            datetime.fromtimestamp(ended_seconds, UTC),
            "prometheus",
            tuple(sorted(pods, key=lambda row: (row.time_seconds, row.namespace, row.workload))),
            tuple(sorted(nodes, key=lambda row: (row.time_seconds, row.name))),
        )

    @staticmethod
    def _add_pod(query: str, facts: _PodFacts, sample: Sample) -> None:
        labels = sample.labels
        match query:
            case "pod_created":
                facts.created = sample.value
            case "pod_scheduled":
                facts.scheduled = sample.value
            case "pod_completed":
                facts.completed = sample.value
            case "pod_last_seen":
                facts.last_seen = max(facts.last_seen, sample.value)
            case "pod_info":
                facts.info = labels
            case "pod_requests":
                facts.requests[labels.get("container", ""), labels.get("resource", "")] = sample.value

    @staticmethod
    def _add_node(query: str, facts: _NodeFacts, sample: Sample) -> None:
        match query:
            case "node_created":
                facts.created = sample.value
            case "node_ready":
                facts.ready = sample.value if facts.ready is None else min(facts.ready, sample.value)
            case "node_last_seen":
                facts.last_seen = max(facts.last_seen, sample.value)
            case "node_labels":
                facts.labels = sample.labels
            case "node_allocatable":
                facts.allocatable[sample.labels.get("resource", "")] = sample.value

    def _pod(self, namespace: str, name: str, facts: _PodFacts, ended: float) -> PodRow:
        created = facts.created or 0.0
        amounts = _amounts(facts)
        end = facts.completed
        if end is None and facts.last_seen and facts.last_seen < ended - _STILL_THERE_SECONDS:
            end = facts.last_seen
        bound = facts.scheduled
        began = None if bound is None else max(bound, self._started)
        return PodRow(
            time_seconds=max(0.0, created - self._started),
            namespace=namespace,
            workload=_workload(namespace, name, facts.info),
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=_text(amounts),
            placeholder=namespace == self._namespace and facts.info.get("created_by_kind") == "ReplicaSet",
            initial=created < self._started and bound is not None and bound < self._started,
            bound_seconds=None if bound is None else max(0.0, bound - created),
            life_seconds=None if end is None or began is None else max(0.0, end - began),
            node=facts.info.get("node", "") if bound is not None else "",
        )

    def _node(self, name: str, facts: _NodeFacts, daemons: Sequence[Mapping[str, int]], ended: float) -> NodeRow:
        created = facts.created or 0.0
        initial = created < self._started
        amounts = {_resource(key): _units(key, value) for key, value in facts.allocatable.items()}
        together: dict[str, int] = defaultdict(int)
        for one in daemons:
            for key, value in one.items():
                together[key] += value
        gone = 0 < facts.last_seen < ended - _STILL_THERE_SECONDS
        return NodeRow(
            name=name,
            time_seconds=max(0.0, created - self._started),
            labels_json=_text(_labels(facts.labels, name)),
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=_text(amounts),
            daemon_json=_text(together),
            initial=initial,
            ready_seconds=None if initial or facts.ready is None else max(0.0, facts.ready - created),
            life_seconds=max(0.0, facts.last_seen - max(created, self._started)) if gone else None,
        )


_KNOWN_LABELS = {
    f"label_{re.sub('[^a-zA-Z0-9_]', '_', key)}": key
    for key in (
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "eks.amazonaws.com/nodegroup",
        "cloud.google.com/gke-nodepool",
        "kubernetes.azure.com/agentpool",
        "karpenter.sh/nodepool",
    )
}
"""kube-state-metrics writes label keys with underscores, which cannot be undone for others."""
_KNOWN_RESOURCES = {
    "ephemeral_storage": "ephemeral-storage",
    "nvidia_com_gpu": "nvidia.com/gpu",
    "amd_com_gpu": "amd.com/gpu",
}


def _labels(labels: Mapping[str, str], name: str) -> dict[str, str]:
    found = {_KNOWN_LABELS[key]: value for key, value in labels.items() if key in _KNOWN_LABELS}
    return {key: value for key, value in found.items() if value and value != name}


def _resource(name: str) -> str:
    return _KNOWN_RESOURCES.get(name, name)


def _units(resource: str, value: float) -> int:
    """Return millicores or base units; kube-state-metrics gives cores and bytes as floats."""
    return round(value * 1000) if resource == "cpu" else round(value)


def _amounts(facts: _PodFacts) -> dict[str, int]:
    """Return requests summed over containers; init containers are in a series of their own."""
    total: dict[str, int] = defaultdict(int)
    for (_, resource), value in facts.requests.items():
        total[_resource(resource)] += _units(resource, value)
    return {name: value for name, value in total.items() if value > 0}


def _text(amounts: Mapping[str, object]) -> str:
    return json.dumps(amounts, sort_keys=True, separators=(",", ":")) if amounts else ""


def _workload(namespace: str, name: str, info: Mapping[str, str]) -> str:
    kind, owner = info.get("created_by_kind", ""), info.get("created_by_name", "")
    if kind in ("", "<none>"):
        owners: list[wire.OwnerReference] = []
    else:
        owners = [wire.OwnerReference(kind=kind, name=owner, controller=True)]
    match = _HASH.search(owner) if kind == "ReplicaSet" else None
    labels = {"pod-template-hash": match["hash"]} if match else {}
    metadata = wire.Metadata(name=name, namespace=namespace, labels=labels, owner_references=owners)
    _, short, workload = workload_of(metadata)
    return f"{short}/{workload}"
