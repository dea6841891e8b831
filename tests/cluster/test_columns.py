from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from benchmarks.verify import verify
from slack.cluster.columns import ClusterColumns, InvalidObject
from slack.cluster.snapshot import Snapshot, Workload
from tests.cases import run_for_each
from tests.cluster.build import (
    NAMESPACE,
    NOW,
    Json,
    apply,
    as_pod,
    columns_of,
    node,
    placeholder,
    pod,
    priority_class,
    workload,
)

GI = 1 << 30
RESERVE, EXCLUDE = "resource-slack.io/reserve", "resource-slack.io/exclude"


def view(*objects: Json) -> Snapshot:
    columns = columns_of(*objects)
    verify(columns)
    return columns.snapshot(NOW)


def names(snapshot: Snapshot) -> list[str]:
    return [str(owner) for owner in snapshot.kinds.workloads]


# What is requested where


def test_real_daemon_and_placeholder_requests_are_kept_apart_per_node() -> None:
    snapshot = view(
        node("n1"),
        pod("api", node="n1", cpu="1", memory="2Gi"),
        pod("agent", node="n1", cpu="100m", memory="1Gi", owner=("DaemonSet", "agent")),
        pod("etcd", node="n1", cpu="200m", memory="1Gi", annotations={"kubernetes.io/config.mirror": "x"}),
        pod("kubelet-static", node="n1", cpu="50m", memory="1Gi", owner=("Node", "n1")),
        placeholder("p", node="n1", cpu="500m", memory="3Gi"),
    )
    assert snapshot.nodes.real.tolist() == [[1000, 2 * GI]]
    assert snapshot.nodes.daemon.tolist() == [[350, 3 * GI]]
    assert snapshot.nodes.placeholders.tolist() == [[500, 3 * GI]]
    assert snapshot.nodes.free.tolist() == [[2150, 8 * GI]]
    assert snapshot.nodes.pod_count.tolist() == [5]
    assert snapshot.nodes.daemon_count.tolist() == [3]
    assert names(snapshot) == ["shop/pod/api"]


def test_a_pending_pod_uses_no_node() -> None:
    snapshot = view(node("n1"), pod("a"))
    assert snapshot.nodes.real.tolist() == [[0, 0]]
    assert snapshot.kinds.pending.tolist() == [1]
    assert snapshot.kinds.running.tolist() == [0]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_uses_nothing_but_has_arrived(phase: str) -> None:
    snapshot = view(node("n1"), pod("a", node="n1", phase=phase), pod("b", node="n1", phase=phase))
    assert snapshot.nodes.pod_count.tolist() == [0]
    assert snapshot.kinds.running.tolist() == [0, 0]
    assert snapshot.kinds.arrivals.tolist() == [1, 1]
    assert snapshot.kinds.example == ("shop/a", "shop/b")


def test_a_terminating_pod_still_uses_its_node_but_a_pending_one_uses_nothing() -> None:
    gone = "2027-01-15T07:59:00Z"
    snapshot = view(node("n1"), pod("a", node="n1", deleted=gone), pod("b", deleted=gone))
    assert snapshot.nodes.real.tolist() == [[500, GI]]
    assert snapshot.kinds.pending.sum() == 0


def test_a_resized_pod_moves_its_delta_only() -> None:
    columns = columns_of(node("n1"), pod("a", node="n1", cpu="1"), pod("b", node="n1", cpu="1"))
    apply(columns, "MODIFIED", pod("a", node="n1", cpu="3"))
    verify(columns)
    assert columns.snapshot(NOW).nodes.real.tolist() == [[4000, 2 * GI]]


def test_a_pod_on_a_node_that_is_not_seen_yet_counts_once_it_appears_and_leaves_with_it() -> None:
    columns = columns_of(pod("a", node="n1"), placeholder("p", node="n1"))
    assert columns.snapshot(NOW).kinds.running.tolist() == [0]
    assert columns.snapshot(NOW).placeholders == ()
    apply(columns, "ADDED", node("n1"))
    snapshot = columns.snapshot(NOW)
    assert snapshot.kinds.running.tolist() == [1]
    assert snapshot.nodes.real.tolist() == [[500, GI]]
    assert snapshot.presence.count.tolist() == [1]
    assert snapshot.placeholders[0].node == 0
    apply(columns, "DELETED", node("n1"))
    verify(columns)
    assert columns.snapshot(NOW).nodes.names == ()
    assert columns.snapshot(NOW).presence.count.size == 0
    apply(columns, "DELETED", pod("a", node="n1"), placeholder("p", node="n1"))
    verify(columns)
    assert columns.nodes.rows == {}


def test_other_resources_stand_behind_cpu_and_memory_sorted_while_nodes_have_them() -> None:
    columns = columns_of(node("n1", extended={"hugepages-2Mi": "0", "example.com/disk": "-5"}))
    apply(columns, "ADDED", node("n2", extended={"nvidia.com/gpu": "2", "example.com/net": "1"}))
    apply(columns, "ADDED", pod("a", extended={"example.com/fpga": "1"}), pod("d", owner=("DaemonSet", "d"), node="n1"))
    apply(columns, "ADDED", workload("Job", "j", annotations={RESERVE: "1"}, overhead={"example.com/disk": "5"}))
    snapshot = columns.snapshot(NOW)
    assert snapshot.resources == ("cpu", "memory", "example.com/net", "nvidia.com/gpu")
    assert snapshot.kinds.requests.tolist() == [[500, GI, 0, 0]]
    assert snapshot.kinds.unoffered == ((("example.com/fpga", 1),),)
    assert snapshot.nodes.allocatable[1].tolist() == [4000, 16 * GI, 1, 2]
    assert snapshot.reserved[0].requests.tolist() == [500, GI, 0, 0]
    assert snapshot.reserved[0].unoffered == (("example.com/disk", 5),)
    apply(columns, "DELETED", node("n2"), workload("Job", "j"))
    assert columns.snapshot(NOW).resources == ("cpu", "memory")
    apply(columns, "ADDED", pod("e", owner=("DaemonSet", "d"), node="n1", extended={"example.com/net": "1"}))
    assert columns.snapshot(NOW).resources == ("cpu", "memory")
    apply(columns, "MODIFIED", node("n1", extended={"example.com/net": "2", "example.com/fpga": "1"}))
    snapshot = columns.snapshot(NOW)
    assert snapshot.resources == ("cpu", "memory", "example.com/fpga", "example.com/net")
    assert snapshot.kinds.requests.tolist() == [[500, GI, 1, 0]]
    assert snapshot.kinds.unoffered == ((),)
    assert snapshot.nodes.daemon[0].tolist() == [1000, 2 * GI, 0, 1]
    verify(columns)
    verify(columns)


# Whose pod it is


@run_for_each(
    ("owner", "hash_label", "expected"),
    [
        (("ReplicaSet", "api-5d4f"), "5d4f", "shop/deploy/api"),
        (("ReplicaSet", "api-5d4f"), None, "shop/rs/api-5d4f"),
        (("ReplicaSet", "api-5d4f"), "9999", "shop/rs/api-5d4f"),
        (("ReplicaSet", "-5d4f"), "5d4f", "shop/rs/-5d4f"),
        (("StatefulSet", "db"), None, "shop/sts/db"),
        (("Job", "nightly-29012345"), None, "shop/cronjob/nightly"),
        (("Job", "report-20240101"), None, "shop/job/report-20240101"),
        (("Job", "migrate-7"), None, "shop/job/migrate-7"),
        (("SparkApplication", "etl"), None, "shop/sparkapplication/etl"),
        (None, None, "shop/pod/x"),
    ],
)
def test_a_workload_has_the_name_that_people_use(
    owner: tuple[str, str] | None, hash_label: str | None, expected: str
) -> None:
    labels = {"pod-template-hash": hash_label} if hash_label else None
    assert names(view(pod("x", owner=owner, labels=labels))) == [expected]


def test_the_controller_among_several_owners_counts() -> None:
    item = pod("x")
    owners = [{"kind": "A", "name": "a"}, {"kind": "B", "name": "b", "controller": True}]
    item["metadata"]["ownerReferences"] = owners
    assert names(view(item)) == ["shop/b/b"]
    item["metadata"]["ownerReferences"] = [{"kind": "A", "name": "a"}, {"kind": "C", "name": "c"}]
    assert names(view(item)) == ["shop/pod/x"]
    item["metadata"]["ownerReferences"] = [{"kind": "A", "name": "a"}]
    assert names(view(item)) == ["shop/a/a"]


def test_pods_alike_are_one_kind_and_any_difference_that_matters_makes_another() -> None:
    owner = ("StatefulSet", "db")
    alike = [pod(f"db-{i}", owner=owner) for i in range(3)]
    different: list[Json] = [
        pod("cpu", cpu="1", owner=owner),
        pod("selector", owner=owner, nodeSelector={"pool": "web"}),
        pod("priority", owner=owner, priority=5),
        pod("never", owner=owner, preemptionPolicy="Never"),
        pod("out", owner=owner, annotations={EXCLUDE: "true"}),
        pod("kept", owner=owner, annotations={RESERVE: "1"}),
    ]
    kinds = view(*alike, *different).kinds
    assert len(kinds) == 7
    assert sorted(kinds.pending.tolist()) == [1, 1, 1, 1, 1, 1, 3]
    assert kinds.preempts.tolist().count(False) == 1
    assert kinds.excluded.tolist().count(True) == 1
    assert sorted(kinds.reserve) == ["", "", "", "", "", "", "1"]


def test_priority_comes_from_the_pod_else_from_its_class_else_it_is_zero() -> None:
    pods = [
        pod("a", priority=7, priorityClassName="low"),
        pod("b", priorityClassName="low"),
        pod("c", priorityClassName="unknown"),
        pod("d"),
    ]
    columns = columns_of(*pods)
    assert columns.snapshot(NOW).kinds.priority.tolist() == [7, 0, 0, 0]
    apply(columns, "ADDED", priority_class("low", -5, preempts=False))
    kinds = columns.snapshot(NOW).kinds
    assert kinds.priority.tolist() == [7, -5, 0, 0]
    assert kinds.preempts.tolist() == [False, False, True, True]
    apply(columns, "DELETED", priority_class("low", -5))
    assert columns.snapshot(NOW).kinds.priority.tolist() == [7, 0, 0, 0]


def test_the_example_is_the_smallest_pod_that_is_there() -> None:
    owner = ("StatefulSet", "db")
    columns = columns_of(*(pod(f"db-{i}", owner=owner) for i in (2, 1, 3)))
    assert columns.snapshot(NOW).kinds.example == ("shop/db-1",)
    apply(columns, "DELETED", pod("db-1", owner=owner))
    apply(columns, "ADDED", pod("db-4", owner=owner))
    assert columns.snapshot(NOW).kinds.example == ("shop/db-2",)


# Nodes


def taint(key: str, effect: str = "NoSchedule", value: str | None = None) -> Json:
    return {"key": key, "value": value, "effect": effect}


@run_for_each(
    ("key", "ready", "schedulable"),
    [
        ("node.kubernetes.io/not-ready", False, True),
        ("node.kubernetes.io/unreachable", False, True),
        ("node.kubernetes.io/network-unavailable", False, True),
        ("node.cloudprovider.kubernetes.io/uninitialized", False, True),
        ("karpenter.sh/unregistered", False, True),
        ("startup-taint.cluster-autoscaler.kubernetes.io/cni", False, True),
        ("node.cilium.io/agent-not-ready", False, True),
        ("cni.istio.io/not-ready", False, True),
        ("ebs.csi.aws.com/agent-not-ready", False, True),
        ("efs.csi.aws.com/agent-not-ready", False, True),
        ("node.kubernetes.io/of-a-later-version", True, False),
        ("node.kubernetes.io/unschedulable", True, False),
        ("node.kubernetes.io/disk-pressure", True, False),
        ("node.kubernetes.io/pid-pressure", True, False),
        ("node.kubernetes.io/out-of-service", True, False),
        ("ToBeDeletedByClusterAutoscaler", True, False),
        ("karpenter.sh/disrupted", True, False),
        ("node.kubernetes.io/memory-pressure", True, True),
    ],
)
def test_life_cycle_taints_are_flags_and_no_class(key: str, ready: bool, schedulable: bool) -> None:
    snapshot = view(node("n1", taints=[taint(key)]), node("n2"))
    assert snapshot.nodes.ready.tolist() == [ready, True]
    assert snapshot.nodes.schedulable.tolist() == [schedulable, True]
    assert len(snapshot.node_classes) == 1


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
def test_a_node_counts_as_soon_as_it_is_ready_and_not_when_the_monitor_has_looked_at_it(key: str) -> None:
    lately = view(node("n1", taints=[taint(key, "NoExecute")]))
    assert lately.nodes.ready.tolist() == [True]
    still = view(node("n1", taints=[taint(key, "NoExecute"), taint(key)]))
    assert still.nodes.ready.tolist() == [False]


def test_lasting_taints_make_a_class_and_prefer_no_schedule_does_not() -> None:
    snapshot = view(
        node("n1", taints=[taint("dedicated", value="gpu"), taint("spot", "PreferNoSchedule")]),
        node("n2", taints=[taint("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule", "1")]),
        pod("a"),
    )
    assert [len(node_class.taints) for node_class in snapshot.node_classes] == [0, 1]
    assert snapshot.nodes.class_id.tolist() == [1, 0]
    assert snapshot.nodes.deletion_candidate.tolist() == [False, True]
    assert snapshot.reach.tolist() == [[True, False]]


def test_a_node_is_ready_by_its_condition_and_schedulable_unless_cordoned_or_deleted() -> None:
    bare = {"kind": "Node", "metadata": {"name": "d"}, "spec": None, "status": None}
    going = node("c", deletionTimestamp="2027-01-15T07:59:00Z")
    nodes = view(node("a", ready=False), node("b", unschedulable=True), going, bare).nodes
    assert nodes.ready.tolist() == [False, True, True, False]
    assert nodes.schedulable.tolist() == [True, False, False, True]
    assert nodes.max_pods.tolist() == [110, 110, 110, 0]


def test_only_labels_that_somebody_looks_at_tell_nodes_apart() -> None:
    zone = "topology.kubernetes.io/zone"
    columns = columns_of(
        node("n1", labels={zone: "a", "pool": "web", "rack": "1"}),
        node("n2", labels={zone: "a", "pool": "db", "rack": "2"}),
    )
    assert [node_class.labels for node_class in columns.snapshot(NOW).node_classes] == [((zone, "a"),)]
    apply(columns, "ADDED", pod("a", nodeSelector={"pool": "web"}))
    assert [node_class.labels for node_class in columns.snapshot(NOW).node_classes] == [
        (("pool", "db"), (zone, "a")),
        (("pool", "web"), (zone, "a")),
    ]
    apply(columns, "DELETED", pod("a"))
    columns.require_labels(["rack"])
    assert len(columns.snapshot(NOW + 1e6).node_classes) == 2
    columns.require_labels([])
    columns.require_labels([])
    assert len(columns.snapshot(NOW + 1e6).node_classes) == 1
    verify(columns)


def test_a_pod_pinned_to_a_host_makes_a_class_of_that_host_only_and_daemon_pods_make_none() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    field = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": field}}}
    daemon = pod("agent", node="n3", owner=("DaemonSet", "agent"), affinity=affinity)
    assert len(view(*nodes, daemon).node_classes) == 1
    snapshot = view(*nodes, pod("a", nodeSelector={"kubernetes.io/hostname": "n2"}), pod("b", affinity=affinity))
    assert sorted(node_class.labels for node_class in snapshot.node_classes) == [
        (),
        (("kubernetes.io/hostname", "n2"),),
        (("metadata.name", "n3"),),
    ]
    assert snapshot.reach.sum() == 2


def test_a_nodes_start_is_the_median_of_those_created_in_the_window() -> None:
    assert view(node("n1", created="2026-01-01T00:00:00Z")).node_start_seconds == 120
    started = [node(f"n{i}", ready_at=f"2027-01-15T07:0{i}:00Z") for i in (1, 2, 4)]
    assert view(*started, node("new", ready=False)).node_start_seconds == 120
    assert view(node("n1", ready_at="2027-01-15T06:59:00Z")).node_start_seconds == 0


def test_a_node_that_says_nothing_of_its_times_counts_for_no_start() -> None:
    item = node("n1")
    item["status"]["conditions"][0]["lastTransitionTime"] = None
    other = node("n2")
    other["metadata"]["creationTimestamp"] = None
    assert view(item, other).node_start_seconds == 120


# Placeholders, victims and nominations


def test_placeholders_are_listed_by_policy_shape_and_name() -> None:
    unschedulable = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-7"}
    listed = view(
        node("n1"),
        placeholder("c", policy="web", status=unschedulable),
        placeholder("b", node="n1", annotations=cost),
        placeholder(
            "a", shape="zz", annotations={"controller.kubernetes.io/pod-deletion-cost": "x"}, owner=("Other", "o")
        ),
        placeholder("done", phase="Failed"),
        placeholder("leaving", node="n1", deleted="2027-01-15T07:59:00Z"),
    ).placeholders
    assert [(listing.name, listing.node, listing.deletion_cost, listing.unschedulable) for listing in listed] == [
        ("b", 0, -7, False), ("a", -1, 0, False), ("c", -1, 0, True),
    ]  # fmt: skip
    assert listed[0].replica_set == "slack-default-9f3c2a"
    assert listed[0].uid == "pod-resource-slack-b"
    assert listed[0].created_seconds == NOW - 3600


def test_only_the_label_in_our_own_namespace_makes_a_placeholder() -> None:
    label = {"resource-slack.io/placeholder": "true"}
    snapshot = view(pod("a", "shop", labels=label), pod("b", NAMESPACE))
    assert snapshot.placeholders == ()
    assert len(snapshot.kinds) == 2


def test_a_placeholder_that_is_being_deleted_holds_its_room_and_is_in_no_snapshot() -> None:
    leaving = placeholder("a", node="n1", deleted="2027-01-15T07:59:00Z")
    columns = columns_of(node("n1"), placeholder("a", node="n1"))
    apply(columns, "MODIFIED", leaving)
    verify(columns)
    snapshot = columns.snapshot(NOW)
    assert (snapshot.placeholders, snapshot.nodes.placeholders.tolist()) == ((), [[500, GI]])
    apply(columns, "DELETED", leaving)
    verify(columns)
    snapshot = columns.snapshot(NOW)
    assert (snapshot.placeholders, snapshot.nodes.placeholders.tolist()) == ((), [[0, 0]])


# Reserved and excluded workloads


@pytest.mark.parametrize(
    ("kind", "short"),
    [("Deployment", "deploy"), ("ReplicaSet", "rs"), ("StatefulSet", "sts"), ("Job", "job"), ("CronJob", "cronjob")],
)
def test_annotated_workloads_are_reserved_with_their_template(kind: str, short: str) -> None:
    item = workload(
        kind,
        "api",
        replicas=3,
        cpu="2",
        annotations={RESERVE: "25%"},
        labels={"b": "2", "a": "1"},
        nodeSelector={"x": "y"},
    )
    snapshot = view(item, workload(kind, "plain"))
    (reserved,) = snapshot.reserved
    assert reserved.workload == Workload("shop", short, "api")
    assert (reserved.reserve, reserved.replicas, reserved.requests.tolist()) == ("25%", 3, [2000, GI])
    assert reserved.labels == (("a", "1"), ("b", "2"))
    assert snapshot.constraints[reserved.constraint_id].node_selector == (("x", "y"),)


@pytest.mark.parametrize("kind", ["Deployment", "Job", "CronJob"])
def test_a_workload_without_numbers_or_template_asks_for_one_pod_of_nothing(kind: str) -> None:
    empty = workload(kind, "api", annotations={RESERVE: "1"}) | {"spec": None}
    (reserved,) = view(empty).reserved
    assert (reserved.replicas, reserved.requests.tolist()) == (1, [0, 0])
    (reserved,) = view(workload(kind, "api", replicas=None, annotations={RESERVE: "1"})).reserved
    assert reserved.replicas == 1


def test_copies_of_the_annotation_that_controllers_make_are_passed_over() -> None:
    note = {RESERVE: "1"}
    copies = [
        workload("ReplicaSet", "api-1", annotations=note, owner=("Deployment", "api")),
        workload("Job", "n-29012345", annotations=note, owner=("CronJob", "n")),
    ]
    assert view(*copies).reserved == ()
    assert len(view(workload("ReplicaSet", "x-1", annotations=note, owner=("Rollout", "x"))).reserved) == 1


def test_an_excluded_workload_excludes_its_pods_kinds_whenever_it_is_heard_of() -> None:
    api = pod("api-1-x", owner=("ReplicaSet", "api-1"), labels={"pod-template-hash": "1"})
    columns = columns_of(api, pod("db-0", owner=("StatefulSet", "db")))
    assert columns.snapshot(NOW).kinds.excluded.tolist() == [False, False]
    apply(columns, "ADDED", workload("Deployment", "api", annotations={EXCLUDE: "true"}))
    snapshot = columns.snapshot(NOW)
    assert snapshot.kinds.excluded.tolist() == [True, False]
    assert snapshot.reserved == ()
    apply(columns, "MODIFIED", workload("Deployment", "api"))
    assert columns.snapshot(NOW).kinds.excluded.tolist() == [False, False]


def test_workloads_follow_their_events_and_relists() -> None:
    note = {RESERVE: "1"}
    columns = columns_of(workload("Deployment", "a", annotations=note), workload("StatefulSet", "s", annotations=note))
    before = columns.changed
    apply(columns, "MODIFIED", workload("Deployment", "a", annotations=note))
    assert columns.changed == before
    other = workload("Deployment", "a", annotations=note)
    other["metadata"]["uid"] = "older"
    apply(columns, "DELETED", other, workload("Deployment", "unknown"))
    apply(columns, "MODIFIED", workload("Deployment", "a", annotations={RESERVE: "5"}))
    assert [reservation.reserve for reservation in columns.snapshot(NOW).reserved] == ["5", "1"]
    columns.begin_workloads("Deployment")
    apply(columns, "ADDED", workload("Deployment", "b", annotations=note))
    columns.end_workloads("Deployment")
    columns.end_workloads("StatefulSet")
    assert [str(reservation.workload) for reservation in columns.snapshot(NOW).reserved] == [
        "shop/deploy/b",
        "shop/sts/s",
    ]
    verify(columns)


def test_an_old_workload_event_is_no_news_except_in_a_relist() -> None:
    def at(version: str, reserve: str) -> Json:
        item = workload("Deployment", "a", annotations={RESERVE: reserve})
        item["metadata"]["resourceVersion"] = version
        return item

    columns = columns_of(at("10", "1"))
    apply(columns, "MODIFIED", at("9", "2"))
    assert columns.snapshot(NOW).reserved[0].reserve == "1"
    columns.begin_workloads("Deployment")
    apply(columns, "ADDED", at("9", "2"))
    assert columns.snapshot(NOW).reserved[0].reserve == "2"


# Arrivals


def test_each_pod_arrives_once_and_is_remembered_for_the_window() -> None:
    owner = ("StatefulSet", "db")
    columns = columns_of(pod("db-0", owner=owner), pod("old", owner=owner, created="2027-01-14T07:00:00Z"))
    apply(columns, "MODIFIED", pod("db-0", node="n1", owner=owner))
    apply(columns, "DELETED", pod("db-0", owner=owner))
    apply(columns, "ADDED", pod("db-0", owner=owner, uid="another"))
    apply(columns, "ADDED", pod("db-0", owner=owner, uid="another"))
    assert columns.snapshot(NOW).kinds.arrivals.tolist() == [2]
    assert columns.snapshot(NOW + 5.1 * 3600).kinds.arrivals.tolist() == [0]
    verify(columns)


def test_a_kind_vanishes_with_its_last_pod_and_arrival() -> None:
    columns = columns_of(pod("a"))
    apply(columns, "DELETED", pod("a"))
    assert columns.snapshot(NOW).kinds.arrivals.tolist() == [1]
    assert columns.snapshot(NOW).kinds.example == ("shop/a",)
    later = columns.snapshot(NOW + 6 * 3600)
    assert (len(later.kinds), later.constraints) == (0, ())
    assert len(columns.kinds) == len(columns.requests) == len(columns.constraints) == 0
    verify(columns)


def test_a_gated_pod_is_in_no_number_until_its_gates_are_removed() -> None:
    columns = columns_of(node("n1"), pod("running", node="n1", owner=("Job", "run")))
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "other"}]
    states: tuple[list[Json] | None, ...] = (gates, gates[:1], [], None)
    found = []
    for number, left in enumerate(states):
        event = "ADDED" if number == 0 else "MODIFIED"
        columns.apply_pods([(event, as_pod(pod("held", owner=("Job", "run"), rv=number + 1, schedulingGates=left)))])
        verify(columns)
        kinds = columns.snapshot(NOW).kinds
        found.append([int(column.sum()) for column in (kinds.running, kinds.pending, kinds.gated, kinds.arrivals)])
    assert found == [[1, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 2], [1, 1, 0, 2]]
    assert len(columns.snapshot(NOW).kinds) == 1, "a pod whose gates are gone is of the kind of its siblings"


def test_an_arrival_goes_over_to_the_kind_that_its_pod_becomes() -> None:
    columns = columns_of(pod("a", cpu="1"))
    apply(columns, "MODIFIED", pod("a", cpu="2"))
    kinds = columns.snapshot(NOW).kinds
    assert (kinds.requests[:, 0].tolist(), kinds.arrivals.tolist()) == ([2000], [1])
    columns.snapshot(NOW + 6 * 3600)
    apply(columns, "MODIFIED", pod("a", cpu="3"))
    assert columns.snapshot(NOW + 6 * 3600).kinds.arrivals.tolist() == [0]
    verify(columns)


def test_two_pods_of_a_kind_may_part() -> None:
    owner = ("StatefulSet", "db")
    columns = columns_of(pod("db-0", owner=owner), pod("db-1", owner=owner))
    apply(columns, "MODIFIED", pod("db-1", cpu="2", owner=owner))
    assert columns.snapshot(NOW).kinds.arrivals.tolist() == [1, 1]
    verify(columns)


# Order, repetition, gaps


def test_a_repeated_event_changes_nothing() -> None:
    objects = [node("n1"), pod("a", node="n1"), placeholder("p", node="n1"), priority_class("c", 1)]
    columns = columns_of(*objects)
    before = columns.changed
    apply(columns, "ADDED", *objects)
    apply(columns, "MODIFIED", node("n1", resourceVersion="5"))
    assert columns.changed == before
    apply(columns, "MODIFIED", pod("a", node="n1", cpu="3"))
    assert columns.changed > before


def test_an_event_older_than_what_is_known_is_dropped() -> None:
    columns = columns_of(pod("a", cpu="2", rv=10), node("n1", cpu="8", resourceVersion="10"))
    apply(columns, "MODIFIED", pod("a", cpu="1", rv=9), node("n1", cpu="4", resourceVersion="9"))
    snapshot = columns.snapshot(NOW)
    assert snapshot.kinds.requests[0, 0] == 2000
    assert snapshot.nodes.allocatable[0, 0] == 8000


def test_an_event_that_comes_after_the_deletion_raises_no_ghost() -> None:
    columns = columns_of(pod("a", rv=10), node("n1", resourceVersion="10"))
    apply(columns, "DELETED", pod("a", rv=12), node("n1", resourceVersion="12"))
    apply(columns, "MODIFIED", pod("a", rv=11), node("n1", resourceVersion="11"))
    assert len(columns.pods.rows) == len(columns.nodes.rows) == 0


def test_deleting_what_is_unknown_is_harmless() -> None:
    columns = columns_of()
    apply(columns, "DELETED", pod("a"), node("n1"), priority_class("c", 1), workload("Job", "j"))
    assert columns.changed == 0
    assert columns.snapshot(NOW).nodes.names == ()


def test_the_same_name_with_a_new_uid_replaces() -> None:
    owner = ("StatefulSet", "db")
    columns = columns_of(node("n1"), pod("db-0", owner=owner, node="n1", uid="one"))
    columns.snapshot(NOW + 6 * 3600)  # its arrival is forgotten, so that only the pod holds its kind
    apply(columns, "ADDED", pod("db-0", owner=owner, node="n1", uid="two", created="2026-01-01T00:00:00Z"))
    verify(columns)
    apply(columns, "DELETED", pod("db-0", owner=owner, node="n1", uid="one"))
    verify(columns)
    assert columns.snapshot(NOW).nodes.pod_count.tolist() == [1]
    apply(columns, "ADDED", node("n1", uid="other", cpu="8"))
    apply(columns, "DELETED", node("n1"))
    assert columns.snapshot(NOW).nodes.allocatable[0, 0] == 8000
    verify(columns)


def test_a_relist_drops_what_vanished_meanwhile() -> None:
    columns = columns_of(node("n1"), node("n2"), pod("a", node="n1", rv=5), pod("b", node="n2"), priority_class("c", 1))
    columns.begin_pods()
    columns.begin_nodes()
    columns.begin_priority_classes()
    apply(columns, "ADDED", node("n1"), pod("a", node="n1", cpu="2", rv=3), priority_class("d", 1))
    # In a re-list an older version counts (etcd was restored); after that, order counts again.
    apply(columns, "MODIFIED", pod("a", node="n1", cpu="3", rv=2))
    columns.end_pods()
    columns.end_nodes()
    columns.end_priority_classes()
    verify(columns)
    snapshot = columns.snapshot(NOW)
    assert snapshot.nodes.names == ("n1",)
    assert snapshot.nodes.real[0, 0] == 2000
    assert list(columns.priorities) == ["d"]


def test_an_old_event_of_a_pod_that_is_there_counts_as_seen() -> None:
    columns = columns_of(pod("a", rv=5))
    columns.begin_pods()
    apply(columns, "ADDED", pod("a", rv=5))
    apply(columns, "ADDED", pod("a", rv=4))
    columns.end_pods()
    apply(columns, "MODIFIED", pod("a", rv=4, uid="an older pod of that name"))
    assert len(columns.pods.rows) == 1


def test_an_end_without_a_beginning_is_harmless() -> None:
    columns = columns_of(pod("a"), node("n1"), workload("Job", "j", annotations={RESERVE: "1"}), priority_class("c", 1))
    before = columns.changed
    columns.end_pods()
    columns.end_nodes()
    columns.end_workloads("Job")
    columns.end_priority_classes()
    assert columns.changed == before


# Errors, immutability, size


def test_a_pod_that_cannot_be_read_is_named_and_changes_nothing() -> None:
    columns = columns_of(node("n1"), pod("a", node="n1"))
    bad: list[dict[str, Any]] = [pod("a", cpu="x"), pod("a", affinity="x"), pod("b", tolerations=[5])]
    for item in bad:
        with pytest.raises(InvalidObject, match=r"^Pod shop/[ab]: "):
            columns.apply_pods([("MODIFIED", as_pod(item))])
    verify(columns)
    assert columns.snapshot(NOW).nodes.pod_count.tolist() == [1]


def test_snapshots_cannot_be_written_and_do_not_change_later() -> None:
    columns = columns_of(node("n1"), pod("a", node="n1"))
    snapshot = columns.snapshot(NOW)
    for part in (snapshot.nodes, snapshot.kinds, snapshot.presence):
        values = [getattr(part, field.name) for field in fields(part)]
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        assert arrays
        assert not any(array.flags.writeable for array in arrays)
    assert not snapshot.reach.flags.writeable
    assert not snapshot.nodes.free.flags.writeable
    apply(columns, "MODIFIED", pod("a", node="n1", cpu="3"), node("n1", cpu="8"))
    assert snapshot.nodes.real.tolist() == [[500, GI]]
    assert snapshot.nodes.allocatable[0, 0] == 4000


def test_tables_grow_and_rows_are_recycled() -> None:
    count = 700
    nodes = [node(f"n{i:03}", labels={"kubernetes.io/os": f"os-{i}"}) for i in range(count)]
    pods = [pod(f"p{i:03}", cpu=f"{i + 1}m", node=f"n{i:03}", nodeSelector={"k": str(i)}) for i in range(count)]
    columns = columns_of(*nodes, *pods)
    verify(columns)
    snapshot = columns.snapshot(NOW)
    assert snapshot.nodes.real[:, 0].tolist() == list(range(1, count + 1))
    assert snapshot.reach.shape == (count, count)
    apply(columns, "DELETED", *pods, *nodes)
    columns.snapshot(NOW + 6 * 3600)
    apply(columns, "ADDED", *nodes[:3], *pods[:3])
    verify(columns)
    assert columns.pods.size == count
    assert columns.snapshot(NOW).nodes.real[:, 0].tolist() == [1, 2, 3]


def test_check_finds_a_wrong_aggregate() -> None:
    columns = columns_of(node("n1"), pod("a", node="n1"))
    columns.nodes.pod_count[0] += 1
    with pytest.raises(RuntimeError, match="columns disagree with their rows in pods per node"):
        verify(columns)


def test_a_cluster_of_nothing_has_a_snapshot() -> None:
    snapshot = ClusterColumns(NAMESPACE).snapshot(NOW)
    assert (snapshot.resources, snapshot.nodes.names, len(snapshot.kinds)) == (("cpu", "memory"), (), 0)
    assert snapshot.reach.shape == (0, 0)


def test_a_placeholder_is_shown_with_what_it_requests_in_effect_and_not_with_what_was_planned() -> None:
    injected = placeholder("a", "500m", "1Gi")
    injected["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
    injected["spec"]["initContainers"] = [
        {"name": "native", "restartPolicy": "Always", "resources": {"requests": {"cpu": "30m", "memory": "64Mi"}}}
    ]
    injected["spec"]["overhead"] = {"cpu": "250m", "ephemeral-storage": "1Gi"}
    (shown,) = columns_of(injected).snapshot(NOW).placeholders
    assert shown.requests == (("cpu", 880), ("ephemeral-storage", 1 << 30), ("memory", (1024 + 64) << 20))
