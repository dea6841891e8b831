"""From reports to namespaces: names, silence, and what becomes of a node, a pod or a report that goes."""

import json
from typing import Any

import pytest

from slack.cfs.finding import Severity, Thresholds
from slack.cfs.pods import Pod, decode_pods
from slack.cfs.sample import Level, NodeFacts, Sampled, Target
from slack.cfs.window import compare
from slack.cfs.wire import BurstState, NodeReport, window_report
from slack.kube.watch import EventType
from slack_operator.audit.cluster_watches import _Sink
from slack_operator.audit.judging import Nodes
from slack_operator.audit.pods_view import ClusterView, NamespaceObject, Node, ReportObject, _Meta
from slack_operator.audit.summing import How
from tests.cfs.build import sample, zero
from tests.operator.fakes import Clock

HOW = How("5m", Thresholds())
ID = "c" * 64


def _id(name: str) -> str:
    return ID if name in "ab" else name * 64


def pods(*names: str, node: str = "n1", **annotations: str) -> list[Pod]:
    items = [
        {
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"name": "api", "resources": {"limits": {"cpu": "500m"}}}]},
            "status": {
                "qosClass": "Burstable",
                "containerStatuses": [
                    {
                        "name": "api",
                        "containerID": f"containerd://{_id(name)}",
                        "resources": {"limits": {"cpu": "500m"}},
                    }
                ],
            },
        }
        for name in names
    ]
    return decode_pods(json.dumps({"items": items}).encode())


def report(name: str = "a", node: str = "n1", **fields: Any) -> NodeReport:
    target = Target(Level.CONTAINER, f"/kubepods/poduid-{name}/{_id(name)}", "", f"uid-{name}", _id(name))
    after = sample(target, 300.0, quota_ms=50, periods=3000, throttled=2900, throttled_ms=2900 * 60, usage_ms=150_000)
    facts = {"": NodeFacts(8)}
    windows = compare(Sampled((zero(after),), facts), Sampled((after,), facts))
    told = {"5m": window_report(windows), "1h": window_report(windows)}
    return NodeReport(node=node, cpus=8, kernel_release="6.12.0", windows=told, **fields)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.view = ClusterView(self.clock)
        self.nodes = Nodes(self.view, self.clock)
        for name in ("n1", "n2"):
            self.view.put_node(Node(_Meta(name=name)))
        self.view.put_namespace(NamespaceObject(_Meta(name="shop")))


@pytest.fixture
def world() -> World:
    return World()


def test_a_report_becomes_findings_with_names_and_advice(world: World) -> None:
    for one in pods("a"):
        world.view.put_pod(one)
    world.nodes.put(report())
    found = world.nodes.look({"shop": HOW})
    (told,) = found.namespaces["shop"].told
    target = told.finding.window.target
    assert (target.namespace, target.pod, target.container, told.finding.severity) == (
        "shop",
        "a",
        "api",
        Severity.HIGH,
    )
    assert str(told.advice[0].id) == "raise-limit"
    shop = found.namespaces["shop"]
    assert (shop.pods, shop.containers, shop.nodes_reporting) == (1, 1, 1)


def test_names_that_come_later_are_taken_without_a_new_report(world: World) -> None:
    world.nodes.put(report())
    assert world.nodes.look({"shop": HOW}).namespaces["shop"].empty
    for one in pods("a"):
        world.view.put_pod(one)
    assert world.nodes.look({"shop": HOW}).namespaces["shop"].count(Severity.HIGH) == 1


def test_a_namespace_without_a_policy_is_not_judged_for(world: World) -> None:
    for one in pods("a"):
        world.view.put_pod(one)
    world.nodes.put(report())
    assert dict(world.nodes.look({}).namespaces) == {}


def test_other_thresholds_judge_anew(world: World) -> None:
    for one in pods("a"):
        world.view.put_pod(one)
    world.nodes.put(report())
    world.nodes.look({"shop": HOW})
    strict = How("5m", Thresholds(high_lost=0.99))
    assert world.nodes.look({"shop": strict}).namespaces["shop"].count(Severity.HIGH) == 0


def test_a_node_is_silent_after_three_of_its_own_intervals_and_a_new_one_has_time(world: World) -> None:
    world.nodes.put(report(push_seconds=10.0))
    assert world.nodes.look({}).silent == frozenset()
    world.clock.now += 31
    found = world.nodes.look({})
    assert not found.reporting
    assert found.silent == {"n1"}  # n2 was first seen less than three minutes ago
    world.clock.now += 150
    assert world.nodes.look({}).silent == {"n1", "n2"}
    world.view.drop_node(Node(_Meta(name="n2")))
    assert world.nodes.look({}).silent == {"n1"}


def test_only_windows_that_a_policy_wants_are_kept(world: World) -> None:
    world.nodes.look({"shop": How("1h", Thresholds())})
    world.nodes.put(report())
    assert set(world.nodes.look({"shop": How("1h", Thresholds())}).reports["n1"].windows) == {"1h"}


def test_names_are_told_of_pods_of_that_node_only(world: World) -> None:
    for one in (*pods("a"), *pods("b", node="n2")):
        world.view.put_pod(one)
    answer = world.nodes.answer(report(unnamed=("uid-a", "uid-b", "uid-c")))
    assert {uid: (one.name, dict(one.containers)) for uid, one in answer.names.items()} == {"uid-a": ("a", {ID: "api"})}


def test_a_node_has_no_say_in_pods_of_other_nodes(world: World) -> None:
    for one in pods("a", node="n2"):
        world.view.put_pod(one)
    world.nodes.put(report("a", "n1"))
    assert world.nodes.look({"shop": HOW}).namespaces["shop"].empty
    world.nodes.put(report("a", "n2"))
    assert world.nodes.look({"shop": HOW}).namespaces["shop"].count(Severity.HIGH) == 1


def test_a_new_leader_lets_bursts_stand_until_it_has_decided(world: World) -> None:
    told = report(bursts=(BurstState(pod_uid="uid-a", container_id=ID, burst_us=50_000),))
    assert [one.burst_us for one in world.nodes.answer(told).bursts] == [50_000]
    world.nodes.order({}, frozenset({"n1"}))
    assert world.nodes.answer(told).bursts == ()


def test_a_list_takes_away_what_is_not_in_it(world: World) -> None:
    sink = _Sink(world.view.put_pod, world.view.drop_pod, world.view.keep_pods, lambda one: one.metadata.uid or "")
    sink.begin()
    sink.apply([(EventType.ADDED, one) for one in pods("a", "b")])
    sink.end()
    sink.begin()
    sink.apply([(EventType.ADDED, one) for one in pods("b")])
    sink.end()
    assert (world.view.pod("uid-a"), world.view.pod_count) == (None, 1)
    sink.apply([(EventType.DELETED, one) for one in pods("b")])
    assert world.view.pod_count == 0


def test_a_raise_is_known_from_the_pod_s_annotation_and_status(world: World) -> None:
    former = '{"api": {"limit": "250m", "raised": "500m", "at": 1.0}}'
    for one in pods("a", **{"audit.resource-slack.io/former-limits": former}):
        world.view.put_pod(one)
    (standing,) = world.view.standing()
    assert (standing.ours, standing.added_millis) == (True, 250)
    assert world.view.resize("uid-a").in_force == {"api": 500}
    for one in pods("a"):
        world.view.put_pod(one)
    assert world.view.standing() == ()


def test_reports_of_other_names_are_not_ours(world: World) -> None:
    world.view.put_report(ReportObject(_Meta(name="mine", namespace="shop", uid="1")))
    assert world.view.reports() == {}
