"""How placeholders differ from what was planned, as the condition says it."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.classes import Toleration
from slack.planner.model.shape import Shape
from slack.planner.objects.changed_pods import changes
from tests.cluster.build import NOW, Json, columns_of, placeholder

SHAPE = Shape((("cpu", 500), ("memory", 1 << 30)))


def planned(**rest: Any) -> Json:
    pod = placeholder("slack-default-a-xyz12", shape=SHAPE.name, **rest)
    pod["spec"]["containers"][0]["name"] = "placeholder"
    return pod


def said(*pods: Json, shape: Shape = SHAPE) -> tuple[str, ...]:
    objects = {pod["metadata"]["name"]: msgspec.json.decode(json.dumps(pod), type=wire.Pod) for pod in pods}
    return changes({shape.name: shape}, columns_of(*pods).snapshot(NOW).placeholders, objects)


def container(name: str, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}}


def test_placeholders_as_planned_are_not_worth_a_word() -> None:
    assert said(planned(), planned()) == ()


def test_a_sidecar_is_named_with_its_amounts_and_its_injector() -> None:
    pod = planned()
    pod["spec"]["containers"].append(container("istio-proxy", cpu="100m", memory="128Mi"))
    (text,) = said(pod)
    assert text == (
        f"pod slack-default-a-xyz12 of slack-default-{SHAPE.name}: "
        "container istio-proxy (Istio) adds cpu 100m memory 128Mi"
    )


def test_a_native_sidecar_and_an_init_container_are_told_apart() -> None:
    pod = planned()
    pod["spec"]["initContainers"] = [
        {**container("linkerd-proxy", cpu="20m"), "restartPolicy": "Always"},
        container("setup", cpu="2"),
    ]
    (text,) = said(pod)
    assert "native sidecar linkerd-proxy (Linkerd) adds cpu 20m, init container setup adds cpu 2" in text


def test_a_default_of_a_limit_range_is_told_by_the_resource_that_nobody_planned() -> None:
    pod = planned(extended={"ephemeral-storage": "1Gi"})
    (text,) = said(pod)
    assert (
        "container placeholder requests ephemeral-storage 1Gi where none is planned (a LimitRange's default?)" in text
    )


def test_the_overhead_of_a_runtime_class_is_named_with_the_class() -> None:
    pod = planned(runtimeClassName="kata", overhead={"cpu": "250m"})
    (text,) = said(pod)
    assert "spec.overhead of RuntimeClass kata adds cpu 250m" in text


def test_the_overhead_of_a_class_that_the_shape_asks_for_is_as_planned() -> None:
    mirror = replace(SHAPE, runtime_class="kata")
    kata = planned(runtimeClassName="kata", overhead={"cpu": "250m"}, nodeSelector={"kata": "true"})
    kata["metadata"]["labels"]["resource-slack.io/shape"] = mirror.name
    assert said(kata, shape=mirror) == ()
    kata["spec"]["containers"].append(container("daprd", cpu="100m"))
    (text,) = said(kata, shape=mirror)
    assert "container daprd (Dapr) adds cpu 100m" in text
    assert "overhead" not in text


def test_other_amounts_of_its_own_container_are_named_beside_the_planned_ones() -> None:
    (text,) = said(planned(cpu="600m"))
    assert "container placeholder requests cpu 600m where 500m is planned" in text


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedulerName": "volcano"}, "spec.schedulerName is volcano, planned default-scheduler"),
        ({"priorityClassName": "gold"}, "spec.priorityClassName is gold, planned resource-slack"),
        ({"nodeSelector": {"pool": "gpu"}}, "spec.nodeSelector has pool=gpu"),
        ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations has every taint"),
        ({"tolerations": [{"key": "gpu", "effect": "NoSchedule"}]}, "spec.tolerations has gpu"),
    ],
)
def test_what_sends_placeholders_elsewhere_is_named(spec: Json, expected: str) -> None:
    (text,) = said(planned(**spec))
    assert expected in text


def test_tolerations_that_kubernetes_adds_by_itself_are_not_worth_a_word() -> None:
    shape = replace(SHAPE, tolerations=(Toleration("team", "", "a", ""),))
    tolerations = [
        {"key": "team", "operator": "Equal", "value": "a"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
        {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    ]
    pod = planned(tolerations=tolerations)
    pod["metadata"]["labels"]["resource-slack.io/shape"] = shape.name
    assert said(pod, shape=shape) == ()


def test_who_changed_a_placeholder_later_is_named_and_who_creates_pods_is_not() -> None:
    pod = planned(cpu="600m")
    pod["metadata"]["managedFields"] = [
        {"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}},
        {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
        {"manager": "vpa-updater", "subresource": "resize", "fieldsV1": {"f:spec": {"f:containers": {}}}},
    ]
    (text,) = said(pod)
    assert text.endswith("(changed by vpa-updater)")


def test_what_strangers_write_into_placeholders_makes_no_long_text() -> None:
    pods = []
    for number in range(40):
        pod = planned(owner=("ReplicaSet", f"slack-{number}"))
        pod["metadata"]["name"] = f"p{number}"
        pod["spec"]["containers"] += [
            container(f"{'x' * 500}{n}", **{f"example.com/{'y' * 300}{r}": "1" for r in range(50)}) for n in range(50)
        ]
        pod["metadata"]["managedFields"] = [
            {"manager": f"{'z' * 500}{n}", "fieldsV1": {"f:spec": {}}} for n in range(50)
        ]
        pods.append(pod)
    texts = said(*pods)
    assert texts[-1] == "37 more ReplicaSets have such pods"
    assert len("; ".join(texts)) < 8000
