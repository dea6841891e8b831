"""Making way in the hands of those who mean harm, and where others than the API server are at fault."""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.errors import ApiError
from slack.kube.watch import EventType
from slack_operator.burst_eviction.eviction_writer import NO_CLASS
from slack_operator.burst_eviction.suspensions import LONGEST_SECONDS, Suspensions
from slack_operator.placeholders.view.owners import Owners
from slack_operator.placeholders.view.sinks import PodSink, WorkloadSink
from tests.cases import run_for_each
from tests.examples import by_profile
from tests.operator.burst_eviction.test_burst_evictor import Way, crowded, deployment, grows, promise
from tests.operator.fakes import NAMESPACE, TIME, pod


def test_pods_that_are_deleted_and_held_by_a_finalizer_lack_no_room() -> None:
    way = Way()
    sink = PodSink(way.world.view)
    sink._unseen = None
    for number in range(4):
        item = pod(f"held-{number}")
        item["metadata"] |= {"creationTimestamp": TIME, "finalizers": ["shop.example/never"]}
        way.arrive(item)
        item = copy.deepcopy(way.pod(f"held-{number}"))
        item["metadata"] |= {"deletionTimestamp": TIME, "resourceVersion": f"99999{number}"}
        sink.apply([(EventType.MODIFIED, msgspec.json.decode(json.dumps(item).encode(), type=wire.Pod))])
    assert not way.world.view.unplaced.pods
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_no_way_is_made_while_there_is_a_class_of_the_name_that_stops_a_replica_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = Way()
    item = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": NO_CLASS}, "value": 9}
    way.world.api.put(f"/apis/scheduling.k8s.io/v1/priorityclasses/{NO_CLASS}", item)
    way.world.observe()
    way.world.reconcile()
    way.burst(4)
    way.turn()
    assert (len(way.world.placeholders()), way.classes) == (7, {"resource-slack"})
    assert caplog.text.count("delete it") == 1


@pytest.mark.parametrize(
    ("verb", "kind"), [("delete", "/pods/"), pytest.param("patch", "/replicasets/", marks=pytest.mark.thorough)]
)
def test_a_webhook_that_refuses_for_ever_is_asked_ever_more_seldom(verb: str, kind: str) -> None:
    way = Way()
    way.burst(4)
    refused = ApiError(403, "Forbidden", "denied by policy")
    way.world.api.refuse = lambda asked, path: refused if asked == verb and kind in path else None
    before = len(way.world.api.log)
    for _ in range(60):
        way.turn(0.5)
    assert len(way.world.api.log) - before < 40
    if NO_CLASS in way.classes:  # by chance (the pauses are) it was asked in the last turn
        way.turn(0.5)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 7)
    way.world.api.refuse = lambda verb, path: None
    way.turn(60.0)
    if verb == "delete":  # else some went before the stop was refused, and their workload is left to the scheduler
        assert len(way.world.placeholders()) == 3


def test_a_turn_that_fails_again_and_again_leaves_no_replica_set_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    way.burst(4)
    way.turn()
    assert way.classes == {NO_CLASS}

    def fails(now: float) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(way.making_way, "_evict_for_bursts", fails)
    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            way.turn(1.0)
    assert way.classes == {"resource-slack"}
    assert way.woken
    assert not way.world.view.suspended


def test_placeholders_that_leave_one_after_the_other_do_not_keep_a_replica_set_stopped() -> None:
    way = Way()
    (own,) = way.world.view.sets.values()
    suspensions, now = Suspensions(), 100.0
    suspensions.begin_suspension(own, frozenset({"a"}), now)
    while not suspensions.to_lower(now) and now < 200.0:
        suspensions.record_eviction(own.metadata.name, "a", now)
        now += 0.05
    assert now < 100.0 + LONGEST_SECONDS + 1.0


def test_pods_that_wait_and_pods_that_are_promised_of_one_owner_are_two_bursts_by_key() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "api"}}}
            ]
        }
    }
    way = Way()
    promise(way, deployment(5, affinity=apart))
    item = pod("api-0")
    item["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "api-abc", "uid": "other", "controller": True}
    ]
    item["spec"]["affinity"] = apart
    way.arrive(item)
    way.turn()
    choice = way.making_way._before
    assert choice is not None
    keys = [served.key for served in choice.served]
    assert len(keys) == len(set(keys)) == 2


def test_of_pods_of_ever_another_size_the_largest_bursts_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    monkeypatch.setattr("slack_operator.burst_eviction.bursts.MOST_KINDS", 3)
    for number in range(20):
        item = pod(f"odd-{number}")
        item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{100 + number}m"
        way.arrive(item)
    way.burst(4)
    way.turn()
    choice = way.making_way._before
    assert choice is not None
    assert len(choice.served) == 3
    assert max(served.let_in for served in choice.served) == 4


def test_a_pod_that_may_not_preempt_grows_at_nobody_s_cost() -> None:
    way, node, _ = crowded()
    name = f"api-abc-{node[1:]}"
    way.pod(name)["spec"]["preemptionPolicy"] = "Never"
    grows(way, name, "2")
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_growth_in_vain_counts_for_its_namespace_and_is_told_by_the_pod_s_name() -> None:
    way, node, _ = crowded()
    name = f"api-abc-{node[1:]}"
    grows(way, name, "2")
    way.turn()
    assert {own.namespace for own in way.making_way._tracker.open.values()} == {"shop"}
    way.turn(0.2)
    way.turn(5.5)
    assert [line[2] for line in way.world.recorder.lines if line[1] == "MadeWay"] == [
        f"1 placeholders have made way for resize of shop/{name} (1 pods)"
    ]


def replica_set(
    namespace: str = "shop", uid: str = "uid-set", replicas: int = 0, revision: str = "1"
) -> wire.ReplicaSet:
    owner = {"kind": "Deployment", "name": "api", "uid": "uid-api", "controller": True}
    metadata = {
        "name": uid,
        "namespace": namespace,
        "uid": uid,
        "ownerReferences": [owner],
        "annotations": {"deployment.kubernetes.io/revision": revision},
    }
    item = {"metadata": metadata, "spec": {"replicas": replicas}, "status": {"replicas": replicas}}
    return msgspec.json.decode(json.dumps(item).encode(), type=wire.ReplicaSet)


def asking(own: wire.ReplicaSet, replicas: int) -> wire.ReplicaSet:
    """Return it as it is when its controller has not made any of these pods yet."""
    spec = deployment(replicas).spec
    assert spec is not None
    return msgspec.structs.replace(own, spec=wire.ReplicatedSpec(replicas=replicas, template=spec.template))


def test_a_replica_set_that_names_a_deployment_of_another_namespace_as_its_owner_is_none_of_it() -> None:
    owners = Owners()
    owners.applied(EventType.ADDED, replica_set(replicas=5), 0.0, listing=True)
    forged = replica_set("evil", "forged", revision="2147483647")
    owners.applied(EventType.ADDED, forged, 0.0, listing=True)
    owners.applied(EventType.MODIFIED, deployment(5), 1.0, listing=False)
    assert owners.outstanding(1.0) == []
    owners.applied(EventType.MODIFIED, deployment(7), 1.0, listing=False)
    assert [(known.promise.owner_uid, known.left) for known in owners.outstanding(1.0)] == [("uid-set", 2)]


def test_a_new_deployment_that_is_scaled_down_before_its_first_replica_set_takes_its_promise_back() -> None:
    owners = Owners()
    owners.applied(EventType.ADDED, deployment(12), 0.0, listing=False)
    owners.applied(EventType.MODIFIED, deployment(0), 0.1, listing=False)
    assert owners.outstanding(0.1) == []


@pytest.mark.parametrize("lately", [0, 2])
def test_pods_of_a_new_template_are_not_promised_by_two_replica_sets(lately: int) -> None:
    """A Deployment of none gets pods and a template in one write; it was made way for 22 pods where 12 came."""
    owners = Owners()
    owners.applied(EventType.ADDED, replica_set(), 0.0, listing=True)
    if lately:  # pods of the old template, which have gone again
        owners.applied(EventType.MODIFIED, asking(replica_set(), lately), 0.5, listing=False)
        for _ in range(lately):
            owners.appeared("shop", "uid-set", 0.6)
        owners.applied(EventType.MODIFIED, replica_set(), 0.7, listing=False)
    owners.applied(EventType.MODIFIED, deployment(12), 1.0, listing=False)
    assert [(known.promise.owner_uid, known.left) for known in owners.outstanding(1.0)] == [("uid-set", 12 - lately)]
    newer = asking(replica_set(uid="newer", revision="2"), 12)
    owners.applied(EventType.ADDED, newer, 1.1, listing=False)
    assert [(known.promise.owner_uid, known.left) for known in owners.outstanding(1.1)] == [("newer", 12)]


def test_a_pod_that_names_an_owner_of_another_namespace_does_not_count_as_its() -> None:
    owners = Owners()
    owners.applied(EventType.MODIFIED, deployment(7), 1.0, listing=False)
    owners.appeared("evil", "uid-api", 1.0)
    assert [known.left for known in owners.outstanding(1.0)] == [7]
    owners.appeared("shop", "uid-api", 1.0)
    assert [known.left for known in owners.outstanding(1.0)] == [6]


def test_replica_sets_that_a_new_list_does_not_have_are_forgotten() -> None:
    way = Way()
    owners = way.world.view.owners
    assert owners is not None
    sink: WorkloadSink[Any] = WorkloadSink(way.world.view, "ReplicaSet")
    for listed in (["kept", "gone"], ["kept"]):
        sink.begin()
        sink.apply([(EventType.ADDED, replica_set(uid=uid)) for uid in listed])
        sink.end()
    assert {uid for sets in owners._sets.values() for uid in sets} == {"kept"}
    sink.apply([(EventType.DELETED, replica_set(uid="kept"))])
    assert not owners._sets


def test_where_nobody_asks_what_is_outstanding_pods_that_appeared_are_forgotten_all_the_same() -> None:
    owners = Owners()
    for number in range(100):
        owners.appeared("shop", "uid", float(number))
    assert len(owners._lately) <= 3
    assert owners._count_lately.total() == len(owners._lately)


def test_pods_that_have_appeared_are_counted_by_owner_for_two_seconds_and_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has thousands of ReplicaSets had all pods of a burst gone through for each of them: a second an event."""
    monkeypatch.setattr("slack_operator.placeholders.view.owners._MOST_APPEARED", 4)
    owners = Owners()
    for number in range(6):
        owners.appeared("shop", "uid-api" if number % 2 else "other", 1.0)
    assert owners._count_lately == {("shop", "uid-api"): 2, ("shop", "other"): 2}
    owners.applied(EventType.MODIFIED, deployment(7), 3.0, listing=False)
    owners.appeared("shop", "uid-api", 3.0)
    assert owners._count_lately == {("shop", "uid-api"): 1}


def test_a_promise_whose_time_is_over_counts_no_more_even_if_nobody_has_looked() -> None:
    owners = Owners()
    owners.applied(EventType.MODIFIED, deployment(4), 0.0, listing=False)
    for _ in range(4):
        owners.appeared("shop", "uid-api", 1.0)
    owners.applied(EventType.MODIFIED, deployment(4), 60.0, listing=False)
    assert [known.left for known in owners.outstanding(60.0)] == [4]


def test_a_promise_stands_for_five_seconds_after_it_was_made_and_after_each_of_its_pods() -> None:
    owners = Owners()
    owners.applied(EventType.MODIFIED, deployment(4), 0.0, listing=False)
    assert [known.left for known in owners.outstanding(4.9)] == [4]
    owners.appeared("shop", "uid-api", 4.9)
    assert [known.left for known in owners.outstanding(9.8)] == [3]
    assert owners.outstanding(10.0) == []


SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"


def _more(way: Way, path: str) -> None:
    way.world.api.objects[path]["spec"]["replicas"] = 50


def _none(way: Way, path: str) -> None:
    way.world.api.objects[path]["spec"]["replicas"] = 0


def _mended(way: Way, path: str) -> None:
    way.world.api.objects[path]["spec"]["template"]["spec"]["priorityClassName"] = "resource-slack"


def _critical(way: Way, path: str) -> None:
    item = way.world.api.objects[path]
    item["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"
    item["metadata"]["annotations"] = {}
    way.world.api._bump(item)


def _deleted(way: Way, path: str) -> None:
    way.world.api.request("DELETE", path, body={})


def _another(way: Way, path: str) -> None:
    item = copy.deepcopy(way.world.api.objects[path])
    way.world.api.request("DELETE", path, body={})
    item["metadata"]["uid"] = "uid-of-another"
    way.world.api.put(path, item)


@run_for_each("hand", [_more, _none, _mended, _critical, _deleted, _another])
@run_for_each("lowered", by_profile([True], [False, True]))
def test_whatever_a_hand_does_to_a_replica_set_that_is_suspended_counts_are_right_when_the_burst_is_over(
    hand: Callable[[Way, str], None], lowered: bool
) -> None:
    way = Way()
    (name,) = way.world.replicas()
    way.burst(4)
    way.turn()
    if lowered:
        way.turn(0.2)
    hand(way, f"{SETS}/{name}")
    way.world.observe()
    for _ in range(4):
        way.turn(2.0)
        way.bind()
    for _ in range(4):
        way.world.settle(2, seconds=5.0)
        way.turn()
    assert not way.world.view.suspended
    assert (way.classes, way.replicas, len(way.world.placeholders())) == ({"resource-slack"}, 7, 7)


def test_a_template_that_a_hand_has_changed_is_not_what_a_burst_brings_back() -> None:
    """It would be written again as ours once the burst is over, and be anybody's but the planner's."""
    way = Way()
    (name,) = way.world.replicas()
    _critical(way, f"{SETS}/{name}")
    way.world.observe()
    way.burst(4)
    way.turn()
    assert (way.classes, len(way.world.placeholders())) == ({"system-node-critical"}, 7), "left to the scheduler"
    way.world.settle(2, seconds=5.0)
    assert way.classes == {"resource-slack"}
    way.turn(1.0)
    assert len(way.world.placeholders()) == 3
