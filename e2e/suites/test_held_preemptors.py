"""Pods that only look as if they hung: preemptors that wait in PreBind, promised a node, are left alone.

Since Kubernetes 1.35 the scheduler writes a nomination for pods that it has assumed, too, and autoscalers read it as a
reservation. These here have displaced a placeholder before, so they differ from a hanging pod in nothing but what they
wait for; and they wait twice as long as the operator waits with a hanging one.
"""

import time
from collections.abc import Callable

from e2e.harness.api import Api, Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import pod, wait_until
from e2e.harness.product.operator import Operator, placeholders
from e2e.suites.test_rescue import RESCUES, STUCK, full_node, rescues

HELD_SECONDS = 30.0
LATE = "late.example"
"""A provisioner and a driver of devices that do nothing by themselves."""


def _left_alone(cluster: Backend, make: Callable[[Api], Json], let_go: Callable[[Api], None]) -> None:
    """A preemptor that waits in PreBind keeps its nomination until what it waits for is there, and is bound then."""
    api = cluster.api
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        full_node(api)
        mark = cluster.audit_mark()
        api.create(make(api))
        path = "/api/v1/namespaces/default/pods/held"
        wait_until(
            lambda: (
                api.get(path)["status"].get("nominatedNodeName") == "node-0" and len(placeholders(api, bound=True)) < 3
            ),
            60,
            "the pod to be promised node-0 and its victim to go",
            state=lambda: api.get(path),
        )
        until = time.monotonic() + HELD_SECONDS
        while time.monotonic() < until:
            held = api.get(path)
            assert held["status"].get("nominatedNodeName") == "node-0"
            assert "nodeName" not in held["spec"]
            assert "Unschedulable" in str(held["status"]["conditions"])  # but for what it waits for, a hang
            time.sleep(0.5)
        assert operator.metric(STUCK) == operator.metric(RESCUES) == 0
        assert rescues(cluster, mark) == []
        let_go(api)
        wait_until(lambda: api.get(path)["spec"].get("nodeName") == "node-0", 60, "the pod to be bound", every=0.5)


def test_a_pod_that_waits_for_a_volume_of_a_late_provisioner_is_left_alone(cluster: Backend) -> None:
    """WaitForFirstConsumer: the scheduler has chosen the node, and waits in PreBind until the claim is bound."""
    claims, volumes = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
    classes = "/apis/storage.k8s.io/v1/storageclasses"

    def make(api: Api) -> Json:
        for manifest in _late_volume():
            api.create(manifest)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        return pod("held", cpu="3", memory="1Gi", volumes=[volume])

    def let_go(api: Api) -> None:
        claim = api.get(f"{claims}/data")
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "node-0"
        api.create(_volume_for(claim))

    try:
        _left_alone(cluster, make, let_go)
    finally:
        _take_away(cluster.api, f"{claims}/data", f"{volumes}/late", f"{classes}/late")


def test_a_pod_that_waits_for_a_device_is_left_alone(cluster: Backend) -> None:
    """A ResourceClaim whose device has a binding condition: the scheduler waits in PreBind until the driver says so."""
    group = "/apis/resource.k8s.io/v1"
    claims = f"{group}/namespaces/default/resourceclaims"

    def make(api: Api) -> Json:
        for manifest in _late_device():
            api.create(manifest)
        return pod("held", cpu="3", memory="1Gi", resourceClaims=[{"name": "device", "resourceClaimName": "device"}])

    def let_go(api: Api) -> None:
        (found,) = api.get(f"{claims}/device")["status"]["allocation"]["devices"]["results"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {
            "type": "late.example/ready",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": now,
        }
        device = {key: found[key] for key in ("driver", "pool", "device")} | {"conditions": [ready]}
        api.patch(f"{claims}/device/status", {"status": {"devices": [device]}})

    try:
        _left_alone(cluster, make, let_go)
    finally:
        _take_away(cluster.api, f"{claims}/device", f"{group}/resourceslices/late", f"{group}/deviceclasses/late")


def _take_away(api: Api, *paths: str) -> None:
    """Delete what is there of these, whatever holds it."""
    for path in paths:
        if api.find(path) is not None:
            api.patch(path, {"metadata": {"finalizers": None}})
            api.delete(path)


def _late_volume() -> list[Json]:
    metadata = {"name": "data", "namespace": "default"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "late",
    }
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": LATE,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec},
    ]


def _volume_for(claim: Json) -> Json:
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "late", "annotations": {"pv.kubernetes.io/provisioned-by": LATE}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": reference | {"uid": claim["metadata"]["uid"]},
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "late",
        },
    }


def _late_device() -> list[Json]:
    device = {"name": "device-0", "bindsToNode": True, "bindingConditions": ["late.example/ready"]}
    device["bindingFailureConditions"] = ["late.example/failed"]
    request = {"name": "device", "exactly": {"deviceClassName": "late"}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "late"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{LATE}"'}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "late"},
            "spec": {
                "driver": LATE,
                "nodeName": "node-0",
                "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
                "devices": [device],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "device", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        },
    ]
