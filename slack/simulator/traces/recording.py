"""A recording as it grows: watch events of pods and nodes in, rows of a trace out. Pure: the time is an argument.

The API's times are whole seconds, so what was seen to happen is timed by when it was seen, and only what had happened
before by the API's. Owned by one thread at a time; who records from two watches locks.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from slack.cluster import wire
from slack.cluster.classes import is_transient
from slack.cluster.constraints import parse_constraints
from slack.cluster.identity import DAEMON, PLACEHOLDER, role_of, workload_of
from slack.cluster.labels import HOSTNAME
from slack.cluster.requests import RequestError, allocatable_amounts, effective_requests
from slack.cluster.selectors import label_keys
from slack.cluster.start_stages import ready_condition
from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace

_DEFAULT_SCHEDULER = "default-scheduler"
_LIVE_SECONDS = 2.5
"""An object this young when it is first seen was seen to come: whole seconds, and the watch's delay."""


@dataclass(slots=True)
class _Pod:
    created: float
    row: PodTraceRow
    bound: float | None = None
    ready: float | None = None
    ended: float | None = None
    live: bool = False
    """It was seen to come, so `created` is our clock's."""
    foreign: bool = False
    """Another scheduler than the default one decides when it starts."""
    generation: int = 0


@dataclass(slots=True)
class _Node:
    created: float
    row: NodeTraceRow
    ready: float | None = None
    ended: float | None = None
    live: bool = False
    generation: int = 0


@dataclass(slots=True)
class _Daemons:
    """DaemonSet and static pods of one node, and the most that they requested together."""

    pods: dict[str, dict[str, int]] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    def add_pod(self, uid: str, amounts: dict[str, int]) -> None:
        """Count a pod that is there."""
        self.pods[uid] = {**amounts, "pods": 1}
        for name in {name for requests in self.pods.values() for name in requests}:
            self.most[name] = max(self.most.get(name, 0), sum(requests.get(name, 0) for requests in self.pods.values()))


class TraceRecording:
    """Pods and nodes of one cluster since `started_seconds` (Unix time)."""

    def __init__(self, started_seconds: float, placeholder_namespace: str = "resource-slack") -> None:
        self.started = float(int(started_seconds))  # whole, as the API's times: what comes in this second is new
        self.unreadable = 0
        """Pods and nodes with a quantity that nobody can read."""
        self._namespace = placeholder_namespace
        self._pods: dict[str, _Pod] = {}
        self._gated: dict[str, int] = {}
        """Generation in which pods behind scheduling gates were last seen, by uid: they arrive when these go."""
        self._nodes: dict[str, _Node] = {}
        self._daemons: dict[str, _Daemons] = {}
        self._done_pods: list[_Pod] = []
        self._done_nodes: list[_Node] = []
        self._texts: dict[str, str] = {}
        self._generation = 0

    @property
    def counts(self) -> tuple[int, int]:
        """Pods and nodes that came since the start, for people."""
        pods = [pod for pod in [*self._done_pods, *self._pods.values()] if not pod.row.placeholder]
        nodes = [*self._done_nodes, *self._nodes.values()]
        return sum(pod.created >= self.started for pod in pods), sum(node.created >= self.started for node in nodes)

    def begin(self) -> None:
        """Every object of one kind will be seen again; see `end_pods` and `end_nodes`."""
        self._generation += 1

    def end_pods(self, generation: int, now: float) -> None:
        """Pods that were not seen since that generation began have gone meanwhile."""
        for uid in [uid for uid, pod in self._pods.items() if pod.generation < generation]:
            self._end_pod(uid, now)
        self._gated = {uid: seen for uid, seen in self._gated.items() if seen >= generation}

    def end_nodes(self, generation: int, now: float) -> None:
        """The same for nodes."""
        for name in [name for name, node in self._nodes.items() if node.generation < generation]:
            self._end_node(name, now)

    @property
    def generation(self) -> int:
        """The one that began last."""
        return self._generation

    def pod_seen(self, pod: wire.Pod, now: float, *, gone: bool = False) -> None:
        """A pod was added, changed or (gone) deleted."""
        uid = pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"
        spec = pod.spec or wire.PodSpec()
        role = role_of(pod.metadata, self._namespace)
        if role == DAEMON:
            self._daemon_seen(uid, pod, spec, gone=gone)
            return
        finished = pod.status is not None and pod.status.phase in ("Succeeded", "Failed")
        entry = self._pods.get(uid)
        first = entry is None
        if entry is None:
            was_gated = self._gated.pop(uid, None) is not None
            if finished or gone:
                return  # it ended before we looked
            if spec.is_gated():
                self._gated[uid] = self._generation
                return
            row = self._pod_row(pod, spec, placeholder=role == PLACEHOLDER)
            if row is None:
                return
            created = now if was_gated else _unix(pod.metadata.creation_timestamp, now)
            live = 0 <= now - created < _LIVE_SECONDS and created >= self.started
            foreign = (spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER
            entry = self._pods[uid] = _Pod(now if live else created, row, live=live, foreign=foreign)
        entry.generation = self._generation
        if entry.bound is None and spec.node_name:
            # Without a time of its own, what was so when it was first seen has been so from its creation.
            bound = _scheduled(pod.status, entry.created if first else now)
            entry.bound = now if entry.live else max(entry.created, bound)
            entry.row = replace(entry.row, node=spec.node_name)
        if entry.ready is None and entry.bound is not None:
            self._ready_seen(entry, pod.status, now, first=first)
        if gone or finished:
            self._end_pod(uid, now)

    def _ready_seen(self, entry: _Pod, status: wire.PodStatus | None, now: float, *, first: bool) -> None:
        condition = ready_condition(status)
        if condition is not None:
            said = _unix(condition.last_transition_time, entry.created if first else now)
            entry.ready = now if entry.live else max(entry.created, said)

    def node_seen(self, node: wire.Node, now: float, *, gone: bool = False) -> None:
        """A node was added, changed or (gone) deleted."""
        name = node.metadata.name
        entry = self._nodes.get(name)
        first = entry is None
        if entry is None:
            row = None if gone else self._node_row(node)
            if row is None:
                return
            created = _unix(node.metadata.creation_timestamp, now)
            live = 0 <= now - created < _LIVE_SECONDS and created >= self.started
            entry = self._nodes[name] = _Node(now if live else created, row, live=live)
        elif not gone:
            entry.row = self._node_row(node) or entry.row  # allocatable and labels may come after registration
        entry.generation = self._generation
        if entry.ready is None:
            ready = _ready(node.status, entry.created if first else now)
            entry.ready = now if entry.live and ready is not None else ready
        if gone:
            self._end_node(name, now)

    def trace(self, now: float) -> Trace:
        """Return the recording so far."""
        # A queue of another scheduler's that never started is no demand.
        seen = [pod for pod in [*self._done_pods, *self._pods.values()] if pod.bound is not None or not pod.foreign]
        pods = [self._pod(pod) for pod in seen]
        nodes = [self._node(node) for node in [*self._done_nodes, *self._nodes.values()]]
        return Trace(
            datetime.fromtimestamp(self.started, UTC),
            datetime.fromtimestamp(max(now, self.started + 0.001), UTC),
            "watch",
            tuple(sorted(pods, key=lambda row: row.time_seconds)),
            tuple(sorted(nodes, key=lambda row: row.time_seconds)),
        )

    def _end_pod(self, uid: str, now: float) -> None:
        pod = self._pods.pop(uid)
        pod.ended = now
        self._done_pods.append(pod)

    def _end_node(self, name: str, now: float) -> None:
        node = self._nodes.pop(name)
        node.ended = now
        self._done_nodes.append(node)

    def _daemon_seen(self, uid: str, pod: wire.Pod, spec: wire.PodSpec, *, gone: bool) -> None:
        if not spec.node_name:
            return
        if gone:  # a rollout's next pod takes its place and is not counted on top of it
            if spec.node_name in self._daemons:
                self._daemons[spec.node_name].pods.pop(uid, None)
            return
        try:
            amounts = effective_requests(spec, pod.status)
        except RequestError:
            self.unreadable += 1
            return
        self._daemons.setdefault(spec.node_name, _Daemons()).add_pod(uid, amounts)

    def _pod_row(self, pod: wire.Pod, spec: wire.PodSpec, *, placeholder: bool) -> PodTraceRow | None:
        try:
            amounts = effective_requests(spec, pod.status)
        except RequestError:
            self.unreadable += 1
            return None
        namespace, kind, name = workload_of(pod.metadata)
        return PodTraceRow(
            time_seconds=0.0,
            namespace=namespace,
            workload=f"{kind}/{name}",
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=self._text(amounts),
            constraints_json=self._text(_constraints(spec)),
            labels_json=self._labels(pod.metadata, spec),
            priority=spec.priority or 0,
            preempts=spec.preemption_policy != "Never",
            placeholder=placeholder,
        )

    def _labels(self, metadata: wire.Metadata, spec: wire.PodSpec) -> str:
        """Return the labels that the pod's own terms look at: `{}` if it has none of them, '' if nothing looks."""
        affinity, spread = bytes(spec.affinity), bytes(spec.topology_spread_constraints)
        try:
            keys = label_keys(parse_constraints(b"", affinity, b"", spread))
        except msgspec.DecodeError:  # the API server has let it in; a term that cannot be read is replayed by nobody
            return ""
        own = {key: value for key, value in (metadata.labels or {}).items() if key in keys}
        return self._text(own) or ("{}" if b'"labelSelector"' in affinity + spread else "")

    def _node_row(self, node: wire.Node) -> NodeTraceRow | None:
        try:
            amounts = allocatable_amounts(node.status.allocatable if node.status else None)
        except RequestError:
            self.unreadable += 1
            return None
        name = node.metadata.name
        labels = {key: value for key, value in (node.metadata.labels or {}).items() if key != HOSTNAME}
        taints = [
            {"key": taint.key, "value": taint.value or "", "effect": taint.effect}
            for taint in (node.spec.taints if node.spec else None) or ()
            if not is_transient(taint.key)
        ]
        return NodeTraceRow(
            name=name,
            time_seconds=0.0,
            labels_json=self._text({key: value for key, value in labels.items() if value != name}),
            taints_json=self._text(sorted(taints, key=str)),
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=self._text(amounts),
        )

    def _pod(self, pod: _Pod) -> PodTraceRow:
        # Bound within the second in which the recording began: it was there already, as far as whole seconds tell.
        initial = pod.created < self.started and pod.bound is not None and pod.bound < self.started + 1
        began = max(self.started, pod.bound) if pod.bound is not None else None
        return replace(
            pod.row,
            time_seconds=max(0.0, pod.created - self.started),
            initial=initial,
            bound_seconds=None if pod.bound is None else max(0.0, pod.bound - pod.created),
            ready_seconds=None if pod.ready is None or pod.row.placeholder else max(0.0, pod.ready - pod.created),
            life_seconds=None if pod.ended is None or began is None else max(0.0, pod.ended - began),
        )

    def _node(self, node: _Node) -> NodeTraceRow:
        initial = node.created < self.started and node.ready is not None and node.ready <= self.started
        daemons = self._daemons.get(node.row.name)
        ready = None if node.ready is None or initial else max(0.0, node.ready - node.created)
        return replace(
            node.row,
            time_seconds=max(0.0, node.created - self.started),
            initial=initial,
            daemon_json=self._text(daemons.most) if daemons else "",
            ready_seconds=ready,
            life_seconds=None if node.ended is None else max(0.0, node.ended - max(node.created, self.started)),
        )

    def _text(self, value: Mapping[str, object] | Iterable[object]) -> str:
        """Return JSON, one object in memory for equal texts; '' for what is empty."""
        if not value:
            return ""
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return self._texts.setdefault(text, text)


def _unix(time: datetime | None, otherwise: float) -> float:
    return time.timestamp() if time is not None else otherwise


def _condition(conditions: list[wire.ObjectCondition] | None, name: str) -> wire.ObjectCondition | None:
    return next(
        (condition for condition in conditions or () if condition.type == name and condition.status == "True"), None
    )


def _scheduled(status: wire.PodStatus | None, otherwise: float) -> float:
    condition = _condition(status.conditions if status else None, "PodScheduled")
    return _unix(condition.last_transition_time, otherwise) if condition else otherwise


def _ready(status: wire.NodeStatus | None, otherwise: float) -> float | None:
    condition = _condition(status.conditions if status else None, "Ready")
    return None if condition is None else _unix(condition.last_transition_time, otherwise)


def _constraints(spec: wire.PodSpec) -> dict[str, object]:
    """Return the scheduling fields that are there, as the API names them."""
    fields = (
        ("nodeSelector", spec.node_selector),
        ("affinity", spec.affinity),
        ("tolerations", spec.tolerations),
        ("topologySpreadConstraints", spec.topology_spread_constraints),
    )
    found = {name: msgspec.json.decode(raw) for name, raw in fields if bytes(raw)}
    # Admission gives these two tolerations to every pod; about lasting taints they say nothing.
    if isinstance(found.get("tolerations"), list):
        found["tolerations"] = [
            toleration for toleration in found["tolerations"] if not is_transient(toleration.get("key") or "")
        ]
    return {name: value for name, value in found.items() if value}
