"""Unbound placeholders with another schedulerName than planned: which policy, who, and what admission says."""

import json
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.actions import Present
from slack.planner.objects.changed_scheduler import changed_schedulers, refused_schedulers, refused_template
from slack.planner.objects.manifests import replica_set

PLANNED = "resource-slack.io/unbound"
SHAPE = Shape((("cpu", 100),), unbound_scheduler=PLANNED)


def present(*, template: str = PLANNED, pod: dict[str, Any] | None = None, pods: int = 1, manager: str = "") -> Present:
    manifest = replica_set("web", SHAPE, Role.COVER, 2, namespace="resource-slack", owner=None)
    made = manifest["spec"]["template"]
    name = manifest["metadata"]["name"]
    owner = {"kind": "ReplicaSet", "name": name, "uid": "rs", "controller": True}
    spec = {**made["spec"], **(pod or {})}
    items = {
        f"{name}-{i}": {
            "metadata": {**made["metadata"], "name": f"{name}-{i}", "ownerReferences": [owner]},
            "spec": spec,
        }
        for i in range(pods)
    }
    made["spec"]["schedulerName"] = template
    if manager:
        fields: dict[str, Any] = {"f:spec": {"f:template": {}}}
        manifest["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": fields}]
    return Present(
        {name: msgspec.json.decode(json.dumps(manifest), type=wire.OwnReplicaSet)},
        {key: msgspec.json.decode(json.dumps(item), type=wire.Pod) for key, item in items.items()},
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (present(), None),
        (present(pod={"schedulerName": "volcano"}), "schedulerName volcano, planned resource-slack.io/unbound: as the"),
        (present(pod={"schedulerName": "other"}), "an admission webhook or policy writes it"),
        (present(pod={"nodeName": "n1"}), "was bound to a node: some scheduler has the name resource-slack.io/unbound"),
        (present(template="yunikorn"), "has the schedulerName yunikorn, planned resource-slack.io/unbound"),
        (present(template="other", manager="kyverno"), "written by kyverno"),
    ],
)
def test_a_changed_scheduler_is_said_with_who_writes_it(seen: Present, said: str | None) -> None:
    found = changed_schedulers(seen)
    assert set(found) == (set() if said is None else {"web"})
    assert said is None or said in found["web"]


def test_a_pod_without_our_labels_is_known_by_its_replica_set() -> None:
    seen = present(pod={"schedulerName": "other"})
    for pod in seen.pods.values():
        pod.metadata.labels = {}
    assert set(changed_schedulers(seen)) == {"web"}


def test_a_refusal_counts_if_it_is_about_the_scheduler_and_pods_are_missing() -> None:
    (name,) = present().sets
    refusal = {name: "pods is forbidden: schedulerName is not allowed"}
    assert refused_schedulers(present(), refusal) == {"web": f"pods of {name} are refused: {refusal[name]}"}
    assert refused_schedulers(present(pods=2), refusal) == {}
    assert refused_schedulers(present(), {name: "exceeded quota"}) == {}
    assert refused_schedulers(present(), {"gone": refusal[name]}) == {}
    assert refused_template(["no right", f"unknown scheduler {PLANNED}"], PLANNED) == f"unknown scheduler {PLANNED}"
    assert refused_template(["no right"], PLANNED) is None
