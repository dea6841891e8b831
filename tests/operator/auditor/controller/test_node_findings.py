"""From reports to namespaces: names, silence, and what becomes of a node, a pod or a report that goes."""

import json
from typing import Any

import msgspec
import pytest

from slack.audit.api.messages import AgentReport, BurstState
from slack.audit.api.window_report import window_report
from slack.audit.enforcement.raised_limits import FormerLimit, write_former
from slack.audit.findings.finding import Severity, Thresholds
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sampled
from slack.audit.findings.window import compare
from slack.audit.sources.node_objects import AuditedNode
from slack.audit.sources.pod_objects import AuditedMetadata, AuditedPod, AuditedResources, Cpu, decode_pods
from slack.kube.watch import EventType
from slack_operator.auditor.controller.aggregation import Criteria
from slack_operator.auditor.controller.cluster_view import (
    AuditedClusterView,
    NamespaceObject,
    ReportObject,
    Resize,
    _Meta,
)
from slack_operator.auditor.controller.cluster_watches import _Sink
from slack_operator.auditor.controller.node_findings import NodeFindings
from tests.audit.build import sample, zero
from tests.operator.fakes import Clock

HOW = Criteria("5m", Thresholds())
ID = "c" * 64


def _id(name: str) -> str:
    return ID if name in "ab" else name * 64


def pods(*names: str, node: str = "n1", **annotations: str) -> list[AuditedPod]:
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


def report(name: str = "a", node: str = "n1", **fields: Any) -> AgentReport:
    target = CgroupTarget(CgroupLevel.CONTAINER, f"/kubepods/poduid-{name}/{_id(name)}", "", f"uid-{name}", _id(name))
    after = sample(target, 300.0, quota_ms=50, periods=3000, throttled=2900, throttled_ms=2900 * 60, usage_ms=150_000)
    facts = {"": CgroupNodeFacts(8)}
    windows = compare(Sampled((zero(after),), facts), Sampled((after,), facts))
    told = {"5m": window_report(windows), "1h": window_report(windows)}
    return AgentReport(node=node, cpus=8, kernel_release="6.12.0", windows=told, **fields)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.view = AuditedClusterView(self.clock)
        self.nodes = NodeFindings(self.view, self.clock)
        for name in ("n1", "n2"):
            self.view.put_node(AuditedNode(AuditedMetadata(name=name)))
        self.view.put_namespace(NamespaceObject(_Meta(name="shop")))


@pytest.fixture
def world() -> World:
    return World()


def test_a_report_becomes_findings_with_names_and_advice(world: World) -> None:
    for pod in pods("a"):
        world.view.put_pod(pod)
    world.nodes.put(report())
    found = world.nodes.findings({"shop": HOW})
    (told,) = found.namespaces["shop"].findings
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
    assert world.nodes.findings({"shop": HOW}).namespaces["shop"].empty
    for pod in pods("a"):
        world.view.put_pod(pod)
    assert world.nodes.findings({"shop": HOW}).namespaces["shop"].count(Severity.HIGH) == 1


def test_a_namespace_without_a_policy_is_not_judged_for(world: World) -> None:
    for pod in pods("a"):
        world.view.put_pod(pod)
    world.nodes.put(report())
    assert dict(world.nodes.findings({}).namespaces) == {}


def test_other_thresholds_judge_anew(world: World) -> None:
    for pod in pods("a"):
        world.view.put_pod(pod)
    world.nodes.put(report())
    world.nodes.findings({"shop": HOW})
    strict = Criteria("5m", Thresholds(high_lost=0.99))
    assert world.nodes.findings({"shop": strict}).namespaces["shop"].count(Severity.HIGH) == 0


def test_a_node_is_silent_after_three_of_its_own_intervals_and_a_new_one_has_time(world: World) -> None:
    world.nodes.put(report(push_seconds=10.0))
    assert world.nodes.findings({}).silent == frozenset()
    world.clock.now += 31
    found = world.nodes.findings({})
    assert not found.reporting
    assert found.silent == {"n1"}  # n2 was first seen less than three minutes ago
    world.clock.now += 150
    assert world.nodes.findings({}).silent == {"n1", "n2"}
    world.view.drop_node(AuditedNode(AuditedMetadata(name="n2")))
    assert world.nodes.findings({}).silent == {"n1"}


def test_only_windows_that_a_policy_wants_are_kept(world: World) -> None:
    world.nodes.findings({"shop": Criteria("1h", Thresholds())})
    world.nodes.put(report())
    assert set(world.nodes.findings({"shop": Criteria("1h", Thresholds())}).reports["n1"].windows) == {"1h"}


def test_names_are_told_of_pods_of_that_node_only(world: World) -> None:
    for pod in (*pods("a"), *pods("b", node="n2")):
        world.view.put_pod(pod)
    answer = world.nodes.answer(report(unnamed=("uid-a", "uid-b", "uid-c")))
    assert {uid: (pod.name, dict(pod.containers)) for uid, pod in answer.names.items()} == {"uid-a": ("a", {ID: "api"})}


def test_a_node_has_no_say_in_pods_of_other_nodes(world: World) -> None:
    for pod in pods("a", node="n2"):
        world.view.put_pod(pod)
    world.nodes.put(report("a", "n1"))
    assert world.nodes.findings({"shop": HOW}).namespaces["shop"].empty
    world.nodes.put(report("a", "n2"))
    assert world.nodes.findings({"shop": HOW}).namespaces["shop"].count(Severity.HIGH) == 1


def test_a_new_leader_lets_bursts_stand_until_it_has_decided(world: World) -> None:
    told = report(bursts=(BurstState(pod_uid="uid-a", container_id=ID, burst_us=50_000),))
    assert [burst.burst_us for burst in world.nodes.answer(told).bursts] == [50_000]
    world.nodes.order({}, frozenset({"n1"}))
    assert world.nodes.answer(told).bursts == ()


def test_a_list_takes_away_what_is_not_in_it(world: World) -> None:
    sink = _Sink(world.view.put_pod, world.view.drop_pod, world.view.keep_pods, lambda pod: pod.metadata.uid or "")
    sink.begin()
    sink.apply([(EventType.ADDED, pod) for pod in pods("a", "b")])
    sink.end()
    sink.begin()
    sink.apply([(EventType.ADDED, pod) for pod in pods("b")])
    sink.end()
    assert (world.view.pod("uid-a"), world.view.pod_count) == (None, 1)
    sink.apply([(EventType.DELETED, pod) for pod in pods("b")])
    assert world.view.pod_count == 0


def test_a_limit_that_the_kubelet_has_not_in_force_yet_is_known_from_the_status(world: World) -> None:
    (pod,) = pods("a")
    world.view.put_pod(pod)
    assert world.view.resize("uid-a") == Resize()
    assert pod.status is not None
    assert pod.status.container_statuses is not None
    pod.status.container_statuses[0].resources = AuditedResources(limits=Cpu("250m"))
    world.view.put_pod(pod)
    assert world.view.resize("uid-a").differing == {"api"}


def test_annotations_are_kept_until_they_are_taken_over_and_never_long_ones(world: World) -> None:
    name = "audit.resource-slack.io/former-limits"
    text = str(write_former({"api": FormerLimit("250m", "500m", 1.0)}))
    for pod in (*pods("a", **{name: text}), *pods("b", **{name: "x" * 20_000})):
        world.view.put_pod(pod)
    assert world.view.annotated() == {"uid-a": text}
    world.view.drop_annotated()
    for pod in pods("a", **{name: text}):
        world.view.put_pod(pod)
    assert world.view.annotated() == {}


def test_reports_of_other_names_are_not_ours(world: World) -> None:
    world.view.put_report(ReportObject(_Meta(name="mine", namespace="shop", uid="1")))
    assert world.view.reports() == {}


def test_a_node_without_linux_is_not_waited_for(world: World) -> None:
    body = b'{"metadata": {"name": "w1"}, "status": {"nodeInfo": {"operatingSystem": "windows"}}}'
    world.view.put_node(msgspec.json.decode(body, type=AuditedNode))
    assert "w1" not in world.view.nodes()
