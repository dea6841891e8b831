"""What the view keeps of objects that are gone, of long ones, and while nothing is planned is bounded."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType
from slack_operator.placeholders.view import admission
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.displaced import EXPECTED_SECONDS, Displaced
from slack_operator.placeholders.view.instant_starts import KEPT_SECONDS, InstantStarts
from slack_operator.placeholders.view.owners import MOST_SETS, MOST_TEMPLATE_BYTES, Owners
from slack_operator.placeholders.view.sinks import NodeSink, PodSink, WorkloadSink
from tests.operator.fakes import NAMESPACE, node, pod

CONTROLLER = {"kind": "Deployment", "name": "api", "uid": "d", "controller": True}


def replica_set(number: int, replicas: int = 0, **metadata: Any) -> wire.ReplicaSet:
    document = {
        "metadata": {"name": f"api-{number}", "namespace": "shop", "uid": f"r{number}", "ownerReferences": [CONTROLLER]}
        | metadata,
        "spec": {"replicas": replicas},
        "status": {"replicas": 0},
    }
    return msgspec.json.decode(json.dumps(document).encode(), type=wire.ReplicaSet)


def deployment(replicas: int, **spec: Any) -> wire.Deployment:
    document = {
        "metadata": {"name": "api", "namespace": "shop", "uid": "d", "generation": 2},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c"}], **spec}}},
        "status": {"replicas": 0, "observedGeneration": 2},
    }
    return msgspec.json.decode(json.dumps(document).encode(), type=wire.Deployment)


def grown(work: Callable[[], object]) -> int:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before


def test_of_a_replica_set_only_what_is_read_is_kept() -> None:
    owners = Owners()

    def feed() -> None:
        for number in range(100):
            notes = {"notes": str(number) + "x" * 100_000, "deployment.kubernetes.io/revision": "7"}
            owners.applied(EventType.ADDED, replica_set(number, annotations=notes), 0.0, listing=True)

    assert grown(feed) < 100 * 3000
    (kept, *_) = owners._sets["shop", "d"].values()
    assert kept.metadata.annotations == {"deployment.kubernetes.io/revision": "7"}


@pytest.mark.parametrize(("count", "asking", "promised"), [(10, 1, 3), (2000, 1, 3), (2000, 2, 0), (2000, 0, 0)])
def test_a_deployment_with_many_replica_sets_is_judged_by_the_one_that_asks_for_pods(
    count: int, asking: int, promised: int
) -> None:
    owners = Owners()
    for number in range(count):
        owners.applied(EventType.ADDED, replica_set(number, 1 if number < asking else 0), 0.0, listing=True)
    owners.applied(EventType.MODIFIED, deployment(3), 1.0, listing=False)
    assert sum(known.left for known in owners.outstanding(1.0)) == promised
    looked_at = owners._looked_at(deployment(3), "d")
    assert looked_at is None or len(looked_at) <= MOST_SETS
    for number in range(count):
        owners.applied(EventType.DELETED, replica_set(number), 2.0, listing=False)
    assert not owners._sets
    assert not owners._asking


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"a": "x" * MOST_TEMPLATE_BYTES}},
        {"volumes": [{"name": "v"}] * (MOST_TEMPLATE_BYTES // 100)},
        {"containers": [{"name": "c", "ports": [{"containerPort": 1}] * (MOST_TEMPLATE_BYTES // 100)}]},
        {"initContainers": [{"name": "c"}] * (MOST_TEMPLATE_BYTES // 100)},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_template_that_is_too_long_promises_nothing_and_none_holds_its_message(spec: dict[str, Any]) -> None:
    owners = Owners()
    owners.applied(EventType.ADDED, deployment(3, **spec), 0.0, listing=False)
    assert owners.outstanding(0.0) == []
    owners.applied(EventType.MODIFIED, deployment(3), 0.0, listing=False)
    (known,) = owners.outstanding(0.0)
    assert known.left == 3
    assert known.promise.template.spec is not None
    assert known.promise.template.raw_bytes() < 100


def starting(number: int, node_name: str = "") -> wire.Pod:
    document = pod(f"job-{number}", node_name)
    document["metadata"]["uid"] = f"u{number}"
    return msgspec.json.decode(json.dumps(document).encode(), type=wire.Pod)


def test_of_a_quota_only_what_it_admits_is_kept_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST", 100)
    view = ClusterView(NAMESPACE, lambda: None)

    def quota(number: int) -> wire.ResourceQuota:
        notes = {"notes": str(number) + "x" * 100_000}
        metadata = {"name": f"q{number}", "namespace": "shop", "annotations": notes, "labels": notes}
        document = {"metadata": metadata, "spec": {"hard": {"pods": str(number)}}}
        return msgspec.json.decode(json.dumps(document).encode(), type=wire.ResourceQuota)

    def feed() -> None:
        view.quotas.begin()
        for number in range(300):
            view.quotas.apply([(EventType.ADDED, quota(number))])
        view.quotas.end()

    assert grown(feed) < 300 * 3000
    assert len(view.quotas.in_namespaces(["shop"])) == 100
    view.quotas.apply([(EventType.DELETED, quota(5)), (EventType.ADDED, quota(200))])
    kept = {found.metadata.name for found in view.quotas.in_namespaces(["shop"])}
    assert kept == {f"q{number}" for number in range(100)} - {"q5"} | {"q200"}
    view.quotas.begin()
    view.quotas.end()
    assert view.quotas.in_namespaces(["shop"]) == []
    assert view.quotas._count == 0


def test_starts_that_no_plan_takes_are_forgotten() -> None:
    starts = InstantStarts()
    for second in range(1000):
        starts.seen(starting(second), float(second))
        starts.seen(starting(second, "n0"), float(second))
    assert len(starts.drain_starts()) == KEPT_SECONDS + 1
    assert starts.drain_starts() == []


def test_what_was_to_be_deleted_and_never_went_is_forgotten() -> None:
    displaced = Displaced()
    displaced.expect("slack-a", 5, 0.0)
    displaced.push_out("u1", 0.0)
    displaced.make_way("u2", 0.0)
    displaced.decide(EXPECTED_SECONDS - 1.0, lambda _node, _since: False)
    assert (len(displaced._expected), len(displaced._ours)) == (1, 2)
    displaced.decide(EXPECTED_SECONDS, lambda _node, _since: False)
    assert (displaced._expected, displaced._ours) == ({}, {})


def test_a_pod_or_node_of_a_new_list_that_cannot_be_read_stays_as_it_was() -> None:
    view = ClusterView(NAMESPACE, lambda: None)
    pods, nodes = PodSink(view), NodeSink(view)
    for _ in range(2):
        for sink in (pods, nodes):
            sink.begin()
        if not view.columns.pods.rows:
            nodes.apply([(EventType.ADDED, msgspec.convert(node(name), wire.Node)) for name in ("n0", "n1")])
            pods.apply([(EventType.ADDED, starting(number, "n0")) for number in range(3)])
        else:
            nodes.keep(ObjectName("n0", uid=node("n0")["metadata"].get("uid", "")))
            pods.keep(ObjectName("job-1", pod("job-1")["metadata"]["namespace"], "u1"))
            pods.keep(ObjectName("job-2", pod("job-2")["metadata"]["namespace"], "another pod of its name"))
        for sink in (pods, nodes):
            sink.end()
    assert [key.partition("/")[2] for key in view.columns.pods.rows] == ["job-1"]
    assert [name for name, row in view.columns.nodes.rows.items() if view.columns.nodes.known[row]] == ["n0"]


def test_a_replica_set_of_a_new_list_that_cannot_be_read_stays_as_it_was() -> None:
    view = ClusterView(NAMESPACE, lambda: None)
    view.follow_owners(lambda: None)
    assert view.owners is not None
    sink: WorkloadSink[wire.ReplicaSet] = WorkloadSink(view, "ReplicaSet")
    sink.begin()
    sink.apply([(EventType.ADDED, replica_set(number)) for number in range(2)])
    sink.end()
    sink.begin()
    sink.keep(ObjectName("api-1", "shop", "r1"))
    sink.end()
    assert set(view.owners._sets["shop", "d"]) == {"r1"}


def test_a_list_without_thousands_of_pods_keeps_the_lock_for_few_of_them_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = ClusterView(NAMESPACE, lambda: None)
    sink = PodSink(view)
    sink.begin()
    sink.apply([(EventType.ADDED, wire_pod(f"p{number}")) for number in range(1000)])
    sink.end()
    assert len(view.instant.waiting) == 1000
    held: list[int] = []
    vanished = view.vanished

    def counted(uids: Any, now: float) -> None:
        held.append(len(uids))
        vanished(uids, now)

    monkeypatch.setattr(view, "vanished", counted)
    sink.begin()
    sink.end()
    assert sum(held) == 1000
    assert max(held) <= 100
    assert not view.instant.waiting
    assert not view.unplaced.pods


def test_a_list_without_thousands_of_replica_sets_keeps_the_lock_for_few_of_them_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = ClusterView(NAMESPACE, lambda: None)
    view.follow_owners(lambda: None)
    owners = view.owners
    assert owners is not None
    sink = WorkloadSink[wire.ReplicaSet](view, "ReplicaSet")
    sink.begin()
    sink.apply([(EventType.ADDED, replica_set(number)) for number in range(500)])
    sink.end()
    held: list[int] = []
    dropped = owners.drop_sets

    def counted(gone: Any) -> None:
        held.append(len(gone))
        dropped(gone)

    monkeypatch.setattr(owners, "drop_sets", counted)
    sink.begin()
    sink.apply([(EventType.ADDED, replica_set(7))])
    sink.end()
    assert (sum(held), max(held)) == (499, 100)
    assert list(owners._sets["shop", "d"]) == ["r7"]


def wire_pod(name: str) -> wire.Pod:
    document = pod(name) | {"metadata": {"name": name, "namespace": "shop", "uid": name}}
    return msgspec.json.decode(json.dumps(document).encode(), type=wire.Pod)
