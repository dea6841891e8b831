import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from slack.cluster import wire
from slack.simulator.traces.format import NodeTraceRow, PodTraceRow
from slack.simulator.traces.recording import TraceRecording

START = 1_768_000_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(START + int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    uid: str,
    created: float,
    *,
    spec: dict[str, Any] | None = None,
    on: str = "",
    bound: float | None = None,
    **metadata: Any,
) -> wire.Pod:
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}] if bound else []
    owner = {"kind": "ReplicaSet", "name": "api-5d8f7c9b6d", "controller": True}
    raw = {
        "metadata": {
            "name": uid,
            "namespace": "shop",
            "uid": uid,
            "creationTimestamp": at(created),
            "labels": {"pod-template-hash": "5d8f7c9b6d"},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {
            "nodeName": on,
            "priority": 5,
            "nodeSelector": {"pool": "web"},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"resources": {"requests": {"cpu": "250m", "memory": "64Mi", "nvidia.com/gpu": "1"}}}],
            **(spec or {}),
        },
        "status": {"phase": "Pending", "conditions": conditions},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=wire.Pod)


def held(uid: str, created: float, **spec: Any) -> wire.Pod:
    """Return a pod without a node, of this spec."""
    return pod(uid, created, spec=spec)


def node(name: str, created: float, ready: float | None = None) -> wire.Node:
    condition = {"type": "Ready", "status": "True" if ready is not None else "False"}
    raw = {
        "metadata": {
            "name": name,
            "creationTimestamp": at(created),
            "labels": {"kubernetes.io/hostname": name, "pool": "web", "own": name},
        },
        "spec": {
            "taints": [
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
                {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
            ]
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "58"},
            "conditions": [condition | ({"lastTransitionTime": at(ready)} if ready is not None else {})],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=wire.Node)


def one_pod(recording: TraceRecording, now: float = 100.0) -> PodTraceRow:
    (row,) = recording.trace(START + now).pods
    return row


def one_node(recording: TraceRecording, now: float = 100.0) -> NodeTraceRow:
    (row,) = recording.trace(START + now).nodes
    return row


def test_a_gated_pod_arrives_when_its_gates_are_removed() -> None:
    recording = TraceRecording(START)
    gates = {"schedulingGates": [{"name": "queue"}]}
    recording.pod_seen(held("a", 10, **gates), START + 10.2)
    recording.pod_seen(held("never", 10, **gates), START + 10.2)
    assert recording.trace(START + 20).pods == ()
    recording.pod_seen(pod("a", 10), START + 50.0)
    recording.pod_seen(pod("a", 10, on="n", bound=51), START + 51.0)
    row = one_pod(recording)
    assert (row.time_seconds, row.bound_seconds) == (50.0, 1.0)


def test_a_gated_pod_that_has_gone_unseen_is_forgotten() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(held("a", 10, schedulingGates=[{"name": "queue"}]), START + 10.2)
    recording.begin()
    recording.end_pods(recording.generation, START + 20)
    recording.pod_seen(pod("a", 10), START + 50.0)
    assert one_pod(recording).time_seconds == 10.0  # seen for the first time, so timed by the API


def test_a_queue_of_another_scheduler_that_never_starts_is_no_arrival() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(held("queued", 10, schedulerName="volcano"), START + 10.2)
    recording.pod_seen(held("started", 10, schedulerName="volcano"), START + 10.2)
    recording.pod_seen(held("started", 10, schedulerName="volcano", nodeName="n"), START + 12.2)
    assert [row.node for row in recording.trace(START + 100).pods] == ["n"]


def test_a_pod_that_is_seen_to_come_is_timed_finer_than_the_apis_seconds() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(pod("a", 10), START + 10.4)
    recording.pod_seen(pod("a", 10, on="n", bound=11), START + 11.1)
    recording.pod_seen(pod("a", 10, on="n", bound=11), START + 41.1, gone=True)
    row = one_pod(recording)
    assert (round(row.time_seconds, 3), round(row.bound_seconds or 0, 3), row.node) == (10.4, 0.7, "n")
    assert round(row.life_seconds or 0, 3) == 30.0
    assert not row.initial


def test_the_time_to_ready_is_kept() -> None:
    recording = TraceRecording(START)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    recording.pod_seen(pod("a", 10), START + 10.4)
    recording.pod_seen(pod("a", 10, on="n", bound=11), START + 11.1)
    assert one_pod(recording).ready_seconds is None
    later = pod("a", 10, on="n", bound=11)
    assert later.status is not None
    later.status.conditions_json = msgspec.Raw(msgspec.json.encode([ready]))
    recording.pod_seen(later, START + 51.4)
    recording.pod_seen(later, START + 60.0)
    assert round(one_pod(recording).ready_seconds or 0, 3) == 41.0


def test_what_a_pod_asks_for_is_kept() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(pod("a", 10), START + 10.4)
    row = one_pod(recording)
    assert (row.namespace, row.workload, row.cpu_millis, row.memory_bytes) == ("shop", "deploy/api", 250, 64 << 20)
    assert row.requests_json == '{"nvidia.com/gpu":1}'
    assert row.constraints_json == '{"nodeSelector":{"pool":"web"}}'
    assert (row.priority, row.preempts, row.bound_seconds) == (5, True, None)


def test_a_pod_that_was_there_is_initial_and_lives_from_the_start() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(pod("a", -500, on="n", bound=-490), START + 1)
    recording.pod_seen(pod("a", -500, on="n", bound=-490), START + 60, gone=True)
    row = one_pod(recording)
    assert (row.initial, row.time_seconds, row.bound_seconds, row.life_seconds) == (True, 0.0, 10.0, 60.0)


def test_a_pod_that_came_while_the_watch_was_broken_is_timed_by_the_api() -> None:
    recording = TraceRecording(START)
    recording.pod_seen(pod("a", 20, on="n", bound=25), START + 90)
    row = one_pod(recording)
    assert (row.time_seconds, row.bound_seconds, row.initial) == (20.0, 5.0, False)


def test_what_has_gone_while_the_watch_was_broken_ends_when_that_is_seen() -> None:
    recording = TraceRecording(START)
    recording.begin()
    recording.pod_seen(pod("a", -9, on="n", bound=-8), START)
    recording.node_seen(node("n", -99, -90), START)
    recording.begin()
    recording.end_pods(recording.generation, START + 50)
    recording.end_nodes(recording.generation, START + 50)
    assert one_pod(recording).life_seconds == 50.0
    assert one_node(recording).life_seconds == 50.0


def test_a_node_that_starts_tells_how_long_it_took() -> None:
    recording = TraceRecording(START)
    recording.node_seen(node("n", 30), START + 30.2)
    recording.node_seen(node("n", 30, 71), START + 71.6)
    row = one_node(recording)
    assert (round(row.time_seconds, 3), round(row.ready_seconds or 0, 3), row.initial) == (30.2, 41.4, False)
    assert row.labels_json == '{"pool":"web"}'
    assert row.taints_json == '[{"effect":"NoSchedule","key":"dedicated","value":"web"}]'


def test_daemons_belong_to_their_node_and_are_no_arrivals() -> None:
    recording = TraceRecording(START)
    recording.node_seen(node("n", -99, -90), START)
    for name in ("proxy", "agent"):
        owner = [{"kind": "DaemonSet", "name": name, "controller": True}]
        recording.pod_seen(pod(name, -80, on="n", ownerReferences=owner), START)
    assert recording.trace(START + 1).pods == ()
    assert '"cpu":500' in one_node(recording).daemon_json
    assert '"pods":2' in one_node(recording).daemon_json


def test_a_daemonsets_rollout_does_not_count_twice() -> None:
    recording = TraceRecording(START)
    recording.node_seen(node("n", -99, -90), START)
    owner = [{"kind": "DaemonSet", "name": "proxy", "controller": True}]
    recording.pod_seen(pod("proxy-a", -80, on="n", ownerReferences=owner), START)
    recording.pod_seen(pod("proxy-a", -80, on="n", ownerReferences=owner), START + 5, gone=True)
    recording.pod_seen(pod("proxy-b", 6, on="n", ownerReferences=owner), START + 6)
    assert '"pods":1' in one_node(recording).daemon_json


def test_placeholders_are_marked_and_not_counted() -> None:
    recording = TraceRecording(START)
    labels = {"resource-slack.io/placeholder": "true"}
    recording.pod_seen(pod("p", 5, namespace="resource-slack", labels=labels), START + 5)
    recording.pod_seen(pod("a", 6), START + 6)
    assert [row.placeholder for row in recording.trace(START + 9).pods] == [True, False]
    assert recording.counts == (1, 0)


def test_a_finished_pod_of_before_is_no_arrival() -> None:
    recording = TraceRecording(START)
    done = pod("a", -50, on="n", bound=-49)
    assert done.status is not None
    done.status.phase = "Succeeded"
    recording.pod_seen(done, START + 1)
    assert recording.trace(START + 2).pods == ()


def test_what_was_so_at_first_sight_and_has_no_time_was_so_before() -> None:
    """A pod that was given its node by its maker has no PodScheduled condition; some nodes' Ready has no time."""
    recording = TraceRecording(START)
    seen = node("n", -99, -90)
    assert seen.status is not None
    assert seen.status.conditions is not None
    seen.status.conditions[0].last_transition_time = None
    recording.node_seen(seen, START + 0.5)
    recording.pod_seen(pod("pinned", -50, on="n"), START + 0.5)
    assert one_node(recording).initial
    (row,) = recording.trace(START + 9).pods
    assert (row.initial, row.bound_seconds) == (True, 0.0)


def test_the_labels_that_a_pods_own_selectors_use_are_kept() -> None:
    def labels_of(labels: dict[str, str] | None, affinity: Any) -> str:
        seen = pod("a", 10)
        seen.metadata.labels = labels
        assert seen.spec is not None
        seen.spec.affinity = msgspec.Raw(json.dumps(affinity).encode())
        recording = TraceRecording(START)
        recording.pod_seen(seen, START + 10.4)
        return recording.trace(START + 20).pods[0].labels_json

    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "api"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert labels_of({"app": "api", "team": "a"}, anti) == '{"app":"api"}'
    assert labels_of({"team": "a"}, anti) == "{}"
    assert labels_of(None, anti) == "{}"
    assert labels_of({"app": "api"}, {}) == ""
