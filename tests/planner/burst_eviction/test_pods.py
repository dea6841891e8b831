"""Which pods are left to the scheduler because something decides their nodes that a choice cannot answer for."""

from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst
from slack.planner.burst_eviction.pods import PodPriorities, burst_of_pod, burst_of_promise
from slack.planner.burst_eviction.promises import Promise, of_stateful_set
from tests.cases import run_for_each

CLASSES = PodPriorities({})
PORT = {"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}
OPEN = {"name": "a", "ports": [{"containerPort": 80}]}
ZONED = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "api"}}}
BY_NODE = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "api"}}}


def promised(spec: dict[str, Any]) -> PodBurst:
    document = {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [{"name": "a"}], **spec}}
    template = msgspec.json.decode(msgspec.json.encode(document), type=wire.PodTemplate)
    return burst_of_promise(Promise("shop/deploy/api", "shop", "u", 3, template), CLASSES)


def why(spec: dict[str, Any]) -> LeftAlone | None:
    """Of a pod and of a template: both are judged alike."""
    document = {"metadata": {"name": "x", "namespace": "shop"}, "spec": {"containers": [{"name": "a"}], **spec}}
    pod = msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)
    found = burst_of_pod(pod, "shop/deploy/api", CLASSES)
    assert promised(spec).left_alone is found.left_alone
    return found.left_alone


def anti(term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(when: str) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": when, **ZONED}]}


@run_for_each(
    ("spec", "reason"),
    [
        ({"containers": [OPEN]}, None),
        ({"containers": [OPEN, PORT]}, LeftAlone.HOST_PORTS),
        ({"initContainers": [PORT]}, None),  # it has ended when the pod runs
        ({"initContainers": [{**PORT, "restartPolicy": "Always"}]}, LeftAlone.HOST_PORTS),
        ({"hostNetwork": True}, None),
        ({"hostNetwork": True, "containers": [OPEN]}, LeftAlone.HOST_PORTS),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, None),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, LeftAlone.CLAIMS),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, LeftAlone.CLAIMS),
        ({"resourceClaims": [{"name": "gpu"}]}, LeftAlone.CLAIMS),
        (spread("DoNotSchedule"), LeftAlone.AMONG_PODS),
        (spread("ScheduleAnyway"), None),
        (anti(ZONED), LeftAlone.AMONG_PODS),
    ],
)
def test_what_decides_the_nodes_of_pods_without_our_knowing_leaves_them_to_the_scheduler(
    spec: dict[str, Any], reason: LeftAlone | None
) -> None:
    assert why(spec) is reason


def test_pods_to_come_that_avoid_only_one_another_on_a_node_are_served_one_a_node() -> None:
    burst = promised(anti(BY_NODE))
    assert (burst.left_alone, burst.one_a_node) == (None, True)


@pytest.mark.parametrize(
    "wider", [{"namespaceSelector": {}}, {"namespaces": ["other"]}, {"mismatchLabelKeys": ["tenant"]}]
)
def test_pods_to_come_that_avoid_others_too_are_left_to_the_scheduler(wider: dict[str, Any]) -> None:
    assert promised(anti({**BY_NODE, **wider})).left_alone is LeftAlone.AMONG_PODS
    assert promised(anti({**BY_NODE, "matchLabelKeys": ["pod-template-hash"]})).one_a_node


@pytest.mark.parametrize("spec", [{"preemptionPolicy": "Never"}, {"containers": [PORT]}, anti(ZONED)])
def test_another_scheduler_hides_no_other_reason(spec: dict[str, Any]) -> None:
    """Whose scheduler it is the operator judges anew, for a policy may have it: what else speaks against it holds."""
    assert why({"schedulerName": "batch"}) is LeftAlone.SCHEDULER
    assert why({"schedulerName": "batch", **spec}) is why(spec)


@pytest.mark.parametrize(("claims", "promised"), [(None, 3), ([], 3), ([{"metadata": {"name": "data"}}], 0)])
def test_a_stateful_set_with_volumes_of_its_own_promises_nothing(claims: Any, promised: int) -> None:
    spec = {"replicas": 3, "podManagementPolicy": "Parallel", "template": {"spec": {"containers": []}}}
    document = {"metadata": {"name": "db", "namespace": "shop", "uid": "s"}, "spec": spec}
    document["spec"] = {**spec, "volumeClaimTemplates": claims}
    owner = msgspec.json.decode(msgspec.json.encode(document), type=wire.StatefulSet)
    found = of_stateful_set(owner, 0)
    assert (found.count if found is not None else 0) == promised


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"nodeName": "n1"}, 0),
        ({"priority": 0}, 3),
        ({"priority": 5}, 0),
        ({"priorityClassName": "high", "priority": 5}, 3),
        ({"priorityClassName": "high", "priority": 6}, 0),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, 3),
        ({"priorityClassName": "meek", "preemptionPolicy": "PreemptLowerPriority"}, 0),
    ],
)
def test_a_promise_of_pods_that_never_reach_the_scheduler_is_of_none(spec: dict[str, Any], count: int) -> None:
    """Admission refuses another priority or preemptionPolicy than the class has; nodeName passes the scheduler by."""
    document = {"spec": {"containers": [{"name": "a"}], **spec}}
    template = msgspec.json.decode(msgspec.json.encode(document), type=wire.PodTemplate)
    classes = PodPriorities({"high": (5, True), "meek": (5, False)})
    assert burst_of_promise(Promise("shop/deploy/api", "shop", "u", 3, template), classes).count == count
