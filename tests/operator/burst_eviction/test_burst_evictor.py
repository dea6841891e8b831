"""Making way against an API server in memory: a burst of pods, and what stands there afterwards."""

import json
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.errors import ApiError
from slack.kube.pipelining import OnAnswer, ShouldSend, WriteRequest
from slack.kube.watch import EventType
from slack_operator.burst_eviction.burst_evictor import BurstEvictor
from slack_operator.burst_eviction.burst_reporter import BurstReporter
from slack_operator.burst_eviction.eviction_writer import NO_CLASS, EvictionWriter
from slack_operator.burst_eviction.replica_set_suspender import ReplicaSetSuspender
from slack_operator.placeholders.view.sinks import PodSink, WorkloadSink
from tests.cluster.build import activation_pool
from tests.operator.fakes import NAMESPACE, TIME, Crash, FakeApi, Json, Sender, World, pod, policy

SLACK = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "7", "memory": "7Gi"}}}


class Way:
    """A world with placeholders on full nodes, and the thread that makes way, turned by hand."""

    def __init__(self, pool: Json | None = None, **spec: Any) -> None:
        self.world = World(nodes=3, pods=9)
        if pool is not None:
            self.world.api.put("/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/thumbnail", pool)
        self.world.apply_policy(policy("web", **(SLACK | spec)))
        self.start()
        self.world.settle()
        self.fill()

    def start(self, sender: Sender | None = None) -> None:
        hands = EvictionWriter(sender or Sender(self.world.api), namespace=NAMESPACE, may_write=self.world.may_write)
        self.woken = 0
        self.making_way = BurstEvictor(
            self.world.view,
            ReplicaSetSuspender(self.world.view, hands, may_write=self.world.may_write),
            BurstReporter(self.world.metrics, self.world.recorder),  # type: ignore[arg-type]
            may_write=self.world.may_write,
            stale=lambda: None,
            wake=self._wake,
        )
        self.world.on_planned = (self.making_way.take_plan,)
        self.world.actuator._is_suspended = self.world.view.is_suspended

    def _wake(self) -> None:
        self.woken += 1

    def restart(self) -> None:
        self.world.restart()
        self.start()

    def fill(self) -> None:
        """Leave no free room on any node."""
        used = {f"n{number}": 0 for number in range(3)}
        for item in self.world.api.items("pods").values():
            used[item["spec"]["nodeName"]] += int(item["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        for node, cpu in used.items():
            for number in range(8 - cpu):
                self.world.api.put(
                    f"/api/v1/namespaces/shop/pods/fill-{node}-{number}", pod(f"fill-{node}-{number}", node)
                )
        self.world.reconcile()

    def burst(self, count: int, **changes: object) -> None:
        for number in range(count):
            item = pod(f"burst-{number}")
            item["metadata"]["creationTimestamp"] = TIME
            item["spec"].update(changes)
            self.world.api.put(f"/api/v1/namespaces/shop/pods/burst-{number}", item)
        self.world.observe()

    def arrive(self, item: Json) -> None:
        """A pod as the watch of pods shows it."""
        stored = self.world.api.put(f"/api/v1/namespaces/shop/pods/{item['metadata']['name']}", item)
        sink = PodSink(self.world.view)
        sink._unseen = None
        sink.apply([(EventType.ADDED, msgspec.json.decode(json.dumps(stored).encode(), type=wire.Pod))])

    def bind(self) -> None:
        """The scheduler, once: pods go where there is room."""
        used = {f"n{number}": 0 for number in range(3)}
        for item in self.world.api.items("pods").values():
            if item["spec"].get("nodeName"):
                used[item["spec"]["nodeName"]] += 1
        for item in self.world.api.items("pods").values():
            free = next((node for node, count in used.items() if count < 8), None)
            if not item["spec"].get("nodeName") and free is not None:
                item["spec"]["nodeName"] = free
                used[free] += 1
                self.world.api._bump(item)
        self.world.observe()

    def turn(self, seconds: float = 0.0, *, seen: bool = True) -> None:
        self.world.clock.now += seconds
        if seconds and seen:
            self.world.controllers_see()
            self.world.observe()
        self.making_way.run_cycle()
        self.world.observe()

    @property
    def classes(self) -> set[str]:
        sets = self.world.api.items("replicasets").values()
        return {item["spec"]["template"]["spec"]["priorityClassName"] for item in sets}

    @property
    def replicas(self) -> int:
        return sum(self.world.replicas().values())

    def pod(self, name: str) -> Json:
        return self.world.api.items("pods")[name]


def test_a_burst_gets_the_room_of_as_many_placeholders_and_nothing_is_made_meanwhile() -> None:
    way = Way()
    before = set(way.world.placeholders())
    assert len(before) == way.replicas == 7
    way.burst(4)
    way.turn()
    assert len(way.world.placeholders()) == 3
    assert way.classes == {NO_CLASS}
    way.world.controllers()
    assert set(way.world.placeholders()) < before
    way.bind()
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 3)


def test_way_is_made_for_a_burst_of_a_pool_whose_pods_nobody_else_owns() -> None:
    """Bare pods of an ActivationPool are one burst, and what was announced for them leaves."""
    announced = activation_pool("thumbnail", cpu="1", memory="1Gi", slack_pods=7)
    way = Way(announced, extraCapacity={"minRate": 0}, cover={"mode": "None"})
    before = set(way.world.placeholders())
    assert len(before) == 7
    for number in range(4):
        item = pod(f"burst-{number}")
        item["metadata"] |= {"namespace": "media", "creationTimestamp": TIME}
        item["metadata"]["ownerReferences"] = [
            {"kind": "ActivationPool", "name": "thumbnail", "uid": "pool", "controller": True}
        ]
        way.world.api.put(f"/api/v1/namespaces/media/pods/burst-{number}", item)
    way.world.observe()
    way.turn()
    assert len(way.world.placeholders()) == 3
    assert set(way.world.placeholders()) < before


def test_a_count_is_lowered_when_its_controller_has_seen_who_left_or_after_seconds() -> None:
    """Lowered before, it would delete as many more, of its own choice."""
    way = Way()
    way.burst(4)
    way.turn()
    way.turn(0.2, seen=False)
    assert (way.classes, way.replicas) == ({NO_CLASS}, 7)
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 3)
    way = Way()
    way.burst(4)
    way.turn()
    way.turn(3.9, seen=False)
    assert (way.classes, way.replicas) == ({NO_CLASS}, 7)
    way.turn(0.2, seen=False)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 3)


def test_what_was_made_anew_before_the_stop_was_seen_goes_and_no_other() -> None:
    """On a busy server its controller makes some, and the scheduler gives them the burst's room."""
    way = Way()
    before = set(way.world.placeholders())
    way.burst(4)
    way.turn()
    left = set(way.world.placeholders())
    for own in way.world.api.items("replicasets").values():
        for _ in range(2):
            way.world._new_placeholder(own["metadata"]["name"], own)
    way.turn(0.2)
    assert (set(way.world.placeholders()), way.classes, way.replicas) == (left, {NO_CLASS}, 7)
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 3)
    way.world.controllers()
    assert set(way.world.placeholders()) == left < before
    assert way.world.view.displaced.counts == {("web", "MadeWay"): 4}


def test_when_the_burst_is_bound_the_next_plan_asks_for_the_room_again() -> None:
    way = Way()
    way.burst(4)
    way.turn()
    way.bind()
    way.turn(0.2)
    assert way.woken
    way.world.reconcile(seconds=0.2)
    assert way.replicas >= 7
    assert way.world.view.displaced.counts == {("web", "MadeWay"): 4}


def test_the_loop_writes_nothing_to_what_is_suspended() -> None:
    way = Way()
    way.burst(4)
    way.turn()
    writes = [line for line in way.world.api.writes if "slack-web" in line]
    for _ in range(3):
        way.world.reconcile(seconds=0.1)
    assert [line for line in way.world.api.writes if "slack-web" in line] == writes


def test_a_pod_that_does_not_come_has_its_room_taken_back_after_two_seconds() -> None:
    way = Way()
    way.burst(4)
    way.turn()
    way.turn(0.2)
    way.world.reconcile(seconds=0.5)
    assert way.replicas == 3
    way.turn(2.5)
    way.world.reconcile(seconds=0.2)
    assert way.replicas >= 7


def test_a_lone_pod_is_left_to_the_scheduler() -> None:
    way = Way()
    way.burst(1)
    way.turn()
    assert len(way.world.placeholders()) == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"schedulingGates": [{"name": "wait"}]},
        {"schedulerName": "another"},
        {"priority": -10},
        {"preemptionPolicy": "Never"},
        {"nodeSelector": {"there": "is none"}},
    ],
)
def test_nobody_leaves_for_pods_that_may_not_or_cannot_displace(changes: dict[str, object]) -> None:
    way = Way()
    way.burst(4, **changes)
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_a_standby_makes_no_way() -> None:
    way = Way()
    way.world.leading = False
    way.burst(4)
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_a_server_that_refuses_is_asked_once_and_the_template_is_mended() -> None:
    way = Way()
    way.burst(4)
    way.world.api.refuse = lambda verb, path: (
        ApiError(429, "TooManyRequests", "later") if verb == "delete" and "/pods/" in path else None
    )
    way.turn()
    assert len(way.world.placeholders()) == 7
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 7)
    assert way.world.view.displaced.counts == {}


@pytest.mark.parametrize("writes", range(7))
def test_whoever_leads_after_a_crash_restores_the_counts(writes: int) -> None:
    way = Way()
    way.burst(4)
    way.world.api.crash_at = len(way.world.api.log) + writes
    try:
        way.turn()
        way.turn(0.2)
    except Crash:
        pass
    way.world.api.crash_at = None
    way.bind()
    way.restart()
    for _ in range(4):
        way.world.reconcile(seconds=5.0)
        way.bind()
    assert way.classes == {"resource-slack"}
    assert way.replicas >= 7
    assert way.world.metrics.registry.get_sample_value("slack_ownership_taken_back_total") is None
    assert not [line for line in way.world.recorder.lines if "taken" in line[2]]


def deployment(replicas: int, cpu: str = "1", **spec: Any) -> wire.Deployment:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]} | spec}
    item = {
        "metadata": {"name": "api", "namespace": "shop", "uid": "uid-api"},
        "spec": {"replicas": replicas, "template": template},
    }
    return msgspec.json.decode(json.dumps(item).encode(), type=wire.Deployment)


def promise(way: Way, item: wire.Workload, kind: str = "Deployment") -> None:
    sink: WorkloadSink[Any] = WorkloadSink(way.world.view, kind)
    sink.apply([(EventType.MODIFIED, item)])


def test_way_is_made_for_pods_that_a_deployment_is_about_to_make() -> None:
    way = Way()
    promise(way, deployment(5))
    way.turn()
    assert len(way.world.placeholders()) == 2
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 2)


def test_the_room_of_promised_pods_that_do_not_come_is_taken_back_after_five_seconds_and_not_given_again() -> None:
    way = Way()
    promise(way, deployment(5))
    way.turn()
    way.turn(0.2)
    way.turn(4.0)
    assert not way.woken
    way.turn(1.5)
    assert way.woken
    way.world.settle(2, seconds=1.0)
    assert len(way.world.placeholders()) == 7
    promise(way, deployment(6))
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_pods_that_were_promised_are_not_made_way_for_twice_when_they_appear() -> None:
    way = Way()
    promise(way, deployment(4))
    way.turn()
    way.turn(0.2)
    for number in range(4):
        item = pod(f"api-{number}")
        item["metadata"]["ownerReferences"] = [
            {"kind": "ReplicaSet", "name": "api-abc", "uid": "uid-api", "controller": True}
        ]
        way.arrive(item)
        way.turn()
    assert len(way.world.placeholders()) == 3
    way.bind()
    way.turn()
    assert way.woken


def test_a_policy_can_forbid_it() -> None:
    way = Way(makeWay=False)
    way.burst(4)
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_it_is_told_and_counted() -> None:
    way = Way()
    way.burst(4)
    way.turn()
    way.bind()
    way.turn(0.2)
    assert ("web", "MadeWay", "4 placeholders have made way for shop/deploy/api (4 pods)") in way.world.recorder.lines
    value = way.world.metrics.registry.get_sample_value
    assert value("slack_made_way_total", {"policy": "web", "cause": "pods"}) == 4
    assert value("slack_made_way_in_vain_total", {"policy": "web"}) == 0
    assert value("slack_making_way_seconds_count", {"policy": "web"}) == 1


def test_a_turn_that_failed_leaves_nothing_that_the_loop_may_not_write() -> None:
    way = Way()
    (own,) = way.world.view.sets.values()
    way.world.view.suspended[own.metadata.name] = own
    way.turn()
    assert not way.world.view.suspended


def test_bursts_without_end_do_not_keep_slack_from_being_made() -> None:
    way = Way()
    promise(way, deployment(3))
    way.turn()
    for number in range(8):
        way.turn(4.0)
        promise(way, deployment(4 + number))
    assert way.woken


def test_the_deletions_go_out_with_the_stop_and_do_not_wait_for_its_answer() -> None:
    way = Way()
    under_way: list[list[str]] = []

    class AnsweredLate(Sender):
        def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
            sent = [index for index in range(len(asks)) if goes_on(index)]  # none of them is answered yet
            under_way.append([asks[index].method for index in sent])
            super().send(asks, lambda index: index in sent, on_answer)

    way.start(AnsweredLate(way.world.api))
    way.world.settle()
    way.burst(4)
    way.turn()
    assert under_way[0] == ["PATCH", "DELETE", "DELETE", "DELETE", "DELETE"]
    assert (len(way.world.placeholders()), way.classes) == (3, {NO_CLASS})


def test_where_a_replica_set_cannot_be_stopped_its_count_is_left_as_it_is() -> None:
    way = Way()
    way.burst(4)
    way.world.api.refuse = lambda verb, path: (
        ApiError(429, "TooManyRequests", "later") if verb == "patch" and "/replicasets/" in path else None
    )
    way.turn()
    assert (way.classes, way.replicas) == ({"resource-slack"}, 7)
    assert not way.world.view.suspended
    way.world.controllers()
    assert len(way.world.placeholders()) == 7


def owned(name: str) -> Json:
    item = pod(name)
    item["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "api-abc", "uid": "uid-api", "controller": True}
    ]
    return item


def test_a_burst_is_over_when_none_of_its_pods_waits_however_many_came() -> None:
    way = Way()
    promise(way, deployment(5))
    way.turn()
    for number in range(3):
        way.arrive(owned(f"api-{number}"))
    way.world.view.owners = None  # what it promised beside is withdrawn
    way.bind()
    way.turn(0.2)
    assert not way.woken
    way.turn(0.3)
    assert way.woken


def test_the_room_of_a_burst_whose_pods_wait_is_asked_for_again_two_seconds_after_they_appeared() -> None:
    way = Way()
    promise(way, deployment(5))
    way.turn()
    for number in range(5):
        way.arrive(owned(f"api-{number}"))
    way.turn(0.2)
    way.turn(1.9)
    assert not way.woken
    way.turn(0.2)
    assert way.woken


def test_that_a_pod_of_a_burst_is_placed_wakes_who_made_way_and_that_of_another_does_not() -> None:
    way = Way()
    way.burst(4)
    way.turn()
    woken = []
    way.world.view.on_unplaced = lambda: woken.append(True)
    way.world.view.unplaced.news = False
    way.bind()
    assert woken


@pytest.mark.parametrize(("spec", "woken"), [({}, True), ({"makeWay": False}, False)])
def test_a_burst_costs_no_turn_where_way_is_made_for_nobody(spec: Json, *, woken: bool) -> None:
    way = Way(**spec)
    way.turn()
    way.making_way._touched.clear()
    way.arrive(pod("burst-0"))
    assert way.making_way._touched.is_set() is woken


def quota(**hard: str) -> wire.ResourceQuota:
    item = {
        "metadata": {"name": "most", "namespace": "shop"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {"pods": "10"}},
    }
    return msgspec.json.decode(json.dumps(item).encode(), type=wire.ResourceQuota)


def test_of_promised_pods_no_more_get_room_than_a_quota_lets_in() -> None:
    way = Way()
    way.world.view.quotas.apply([(EventType.ADDED, quota(pods="13"))])
    promise(way, deployment(5))
    way.turn()
    assert len(way.world.placeholders()) == 4


def test_nobody_leaves_for_promised_pods_that_a_quota_refuses_until_it_is_gone() -> None:
    way = Way()
    way.world.view.quotas.apply([(EventType.ADDED, quota(pods="10"))])
    promise(way, deployment(5))
    way.turn()
    assert len(way.world.placeholders()) == 7
    way.world.view.quotas.begin()
    way.world.view.quotas.end()
    way.turn()
    assert len(way.world.placeholders()) == 2


def test_a_promised_pod_that_says_nothing_asks_for_what_a_limit_range_gives_it() -> None:
    way = Way()
    item = {
        "metadata": {"name": "defaults", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2", "memory": "2Gi"}}]},
    }
    limits = msgspec.json.decode(json.dumps(item).encode(), type=wire.LimitRange)
    way.world.view.limit_ranges.apply([(EventType.ADDED, limits)])
    promise(way, deployment(2, containers=[{"name": "c"}]))
    way.turn()
    assert len(way.world.placeholders()) == 3


def grows(way: Way, name: str, cpu: str, reason: str = "Deferred") -> None:
    """A pod asks for more where it is, and its kubelet has no room for it now."""
    item = way.pod(name)
    item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    item["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    way.world.api._bump(item)
    way.world.observe()


def on_node(way: Way, node: str) -> list[str]:
    items = way.world.api.items("pods")
    return [name for name in way.world.placeholders() if items[name]["spec"]["nodeName"] == node]


def crowded() -> tuple[Way, str, int]:
    """A world, the node that has most placeholders, and how many."""
    way = Way()
    node = max(("n0", "n1", "n2"), key=lambda name: len(on_node(way, name)))
    return way, node, len(on_node(way, node))


def test_a_pod_whose_resize_is_deferred_gets_what_it_asks_from_placeholders_on_its_node() -> None:
    way, node, count = crowded()
    elsewhere = 7 - count
    assert count >= 2
    grows(way, f"api-abc-{node[1:]}", "3")
    way.turn()
    assert len(on_node(way, node)) == count - 2
    assert len(way.world.placeholders()) == elsewhere + count - 2
    assert way.classes == {NO_CLASS}
    way.turn(0.2)
    assert (way.classes, way.replicas) == ({"resource-slack"}, 5)


def test_where_the_plan_has_just_pushed_one_out_for_a_growth_no_other_leaves_for_it() -> None:
    way, node, count = crowded()
    grows(way, f"api-abc-{node[1:]}", "2")
    uid = way.world.api.items("pods")[on_node(way, node)[0]]["metadata"]["uid"]
    assert way.world.view.push_out(uid, way.world.clock.now)
    way.turn()
    assert len(on_node(way, node)) == count
    assert way.classes == {"resource-slack"}


def test_nothing_is_deleted_for_a_growth_before_its_replica_set_is_known_to_be_stopped() -> None:
    way, node, _ = crowded()
    sent: list[list[str]] = []

    class Noting(Sender):
        def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
            sent.append([ask.method for ask in asks])
            super().send(asks, goes_on, on_answer)

    way.start(Noting(way.world.api))
    way.world.reconcile()
    grows(way, f"api-abc-{node[1:]}", "2")
    way.turn()
    assert sent == [["PATCH"], ["DELETE"]]


def test_when_the_pod_has_grown_the_room_is_asked_for_again_and_it_is_told_as_growth() -> None:
    way, node, _ = crowded()
    name = f"api-abc-{node[1:]}"
    grows(way, name, "2")
    way.turn()
    way.turn(0.2)
    assert not way.woken
    way.pod(name)["status"]["conditions"] = [{"type": "PodResizeInProgress", "status": "True"}]
    way.world.api._bump(way.pod(name))
    way.world.observe()
    way.turn(0.2)
    assert way.woken
    value = way.world.metrics.registry.get_sample_value
    assert value("slack_made_way_total", {"policy": "web", "cause": "growth"}) == 1
    assert value("slack_made_way_in_vain_total", {"policy": "web"}) == 0


@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_no_placeholder_leaves_for_a_growth_that_all_of_them_would_not_make_room_for(reason: str) -> None:
    way, node, count = crowded()
    more = 1 + count if reason == "Infeasible" else 2 + count
    grows(way, f"api-abc-{node[1:]}", str(more), reason)
    way.turn()
    assert len(way.world.placeholders()) == 7


def test_a_growth_that_its_kubelet_does_not_grant_is_not_made_room_for_again_soon() -> None:
    way, node, _ = crowded()
    grows(way, f"api-abc-{node[1:]}", "2")
    way.turn()
    way.turn(0.2)
    assert len(way.world.placeholders()) == 6
    way.turn(5.5)
    assert way.woken
    way.world.settle(2, seconds=1.0)
    before = len(way.world.placeholders())
    way.turn()
    assert len(way.world.placeholders()) == before


class Ready(Sender):
    """Tells for how many it is to be ready."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__(api)
        self.kept: SimpleQueue[int] = SimpleQueue()

    def keep(self, asks: int) -> None:
        self.kept.put(asks)


def test_connections_are_opened_as_soon_as_there_are_placeholders() -> None:
    way = Way()
    sender, standing = Ready(way.world.api), dict(way.world.view.placeholders)
    way.start(sender)
    way.world.view.placeholders.clear()
    way.making_way.start()
    try:
        assert sender.kept.get(timeout=60) == 0
        way.world.view.placeholders.update(standing)
        way.world.reconcile()  # the clock stands still meanwhile
        assert sender.kept.get(timeout=60) == len(standing) == 7
    finally:
        way.making_way.stop()


NOT_ADMITTED = [
    {"nodeName": "n0"},
    {"priority": 1_000_000},
    {"preemptionPolicy": "PreemptLowerPriority", "priority": 7},
]


@pytest.mark.parametrize("spec", NOT_ADMITTED)
def test_nobody_leaves_for_promised_pods_that_admission_refuses_or_that_name_their_node(spec: dict[str, Any]) -> None:
    way = Way()
    promise(way, deployment(5, **spec))
    way.turn()
    assert len(way.world.placeholders()) == 7


APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "api"}}}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}


@pytest.mark.parametrize(("name", "leave"), [("api", 0), ("other", 3)])
def test_promised_pods_that_avoid_one_another_get_no_room_where_one_of_them_is(name: str, leave: int) -> None:
    """The harness has a pod of `api` on each node, and none of another Deployment."""
    way = Way()
    owner = deployment(3, affinity=ANTI)
    owner.metadata.name, owner.metadata.uid = name, f"uid-{name}"
    promise(way, owner)
    way.turn()
    assert len(way.world.placeholders()) == 7 - leave


class Recording(Sender):
    """Remembers what was sent."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__(api)
        self.asks: list[WriteRequest] = []

    def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
        self.asks += asks
        super().send(asks, goes_on, on_answer)


def test_each_write_names_the_uid_of_what_was_meant() -> None:
    """Another pod or ReplicaSet of the name, made meanwhile, is not touched: the API server compares."""
    way = Way()
    sender = Recording(way.world.api)
    way.start(sender)
    way.world.reconcile()
    uids = {item["metadata"]["uid"] for item in way.world.placeholders().values()}
    way.burst(5)
    way.turn()
    way.turn(0.2)
    deleted = [(ask.body or {})["preconditions"]["uid"] for ask in sender.asks if ask.method == "DELETE"]
    assert len(deleted) == 5
    assert set(deleted) <= uids
    assert all((ask.body or {})["metadata"]["uid"] for ask in sender.asks if ask.method == "PATCH")


def test_what_the_scheduler_has_preempted_meanwhile_is_not_made_anew_when_the_count_is_lowered() -> None:
    """The burst's other pods took it: made anew it would only be in their way."""
    way = Way()
    way.burst(4)
    way.turn()
    preempted = min(way.world.placeholders())
    del way.world.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{preempted}"]
    way.world.observe()
    way.turn(0.2)
    way.world.controllers()
    assert (way.classes, way.replicas, len(way.world.placeholders())) == ({"resource-slack"}, 2, 2)
