"""What admission adds to placeholders and what kubelets refuse, on a real API server: a policy, a LimitRange and so on.

The ceiling is held to every state that a watch shows, in the order in which the API server made them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import urllib3

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import IMAGE, create_all, deployment, pod, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    POLICIES,
    Operator,
    held,
    placeholders,
    policy,
    status,
    wait_for_condition,
)
from slack.cluster.hold import Hold
from slack.cluster.quantity import base_units, cpu_millis

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OURS = "resource-slack.io/placeholder=true"
RENAMED = 'Object{spec: Object.spec{schedulerName: "volcano"}}'
SIDECAR = f"""Object{{spec: Object.spec{{containers: [Object.spec.containers{{
  name: "proxy", image: "{IMAGE}",
  resources: Object.spec.containers.resources{{requests: {{"cpu": "500m", "memory": "128Mi"}}}}
}}]}}}}"""


def requested(found: Json) -> dict[str, int]:
    """What a pod requests: its containers and its overhead."""
    lists = [container.get("resources", {}).get("requests", {}) for container in found["spec"]["containers"]]
    total: dict[str, int] = {}
    for amounts in [*lists, found["spec"].get("overhead", {})]:
        for name, text in amounts.items():
            total[name] = total.get(name, 0) + (cpu_millis(text) if name == "cpu" else base_units(text))
    return total


class Peak:
    """The most that all placeholders have requested at once, state by state as the API server made them."""

    def __init__(self, api: Api) -> None:
        self._there: dict[str, dict[str, int]] = {}
        self.most: dict[str, int] = {}
        self.made = 0
        self.watch = api.watch(PODS, labelSelector=OURS)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(urllib3.exceptions.HTTPError):  # stopped within a line
            self._add_up()

    def _add_up(self) -> None:
        for event in self.watch:
            found, uid = event["object"], event["object"]["metadata"]["uid"]
            if event["type"] == "DELETED":
                self._there.pop(uid, None)
                continue
            self.made += uid not in self._there
            self._there[uid] = requested(found)
            for name in {name for amounts in self._there.values() for name in amounts}:
                total = sum(amounts.get(name, 0) for amounts in self._there.values())
                self.most[name] = max(total, self.most.get(name, 0))


@pytest.fixture
def peak(loaded: Backend) -> Iterator[Peak]:
    found = Peak(loaded.api)
    yield found
    found.watch.stop()


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)])
    cluster.api.create(deployment("web", 8, cpu="1", memory="1Gi"))
    wait_for_running(cluster.api, 8, 60)
    return cluster


@contextmanager
def changed(api: Api, expression: str, shows: Callable[[Json], bool]) -> Iterator[None]:
    """A MutatingAdmissionPolicy that changes each placeholder, from when `shows` sees it in a pod until the end."""
    group = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"resource-slack.io/placeholder": "true"}}
    spec: Json = {
        "matchConstraints": {"resourceRules": [rule], "objectSelector": selector},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    bound: Json = {"policyName": "change"}
    kinds = (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", spec),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", bound),
    )
    if api.find(f"{ADMISSION}/mutatingadmissionpolicies") is None:
        pytest.skip("this API server has no MutatingAdmissionPolicy of v1 (1.36)")
    try:
        for _, kind, content in kinds:
            api.create({"apiVersion": group, "kind": kind, "metadata": {"name": "change"}, "spec": content})
        wait_until(lambda: shows(trial(api)), 60, "the API server to change pods")
        yield
    finally:
        for plural, _, _ in kinds:
            api.delete(f"{ADMISSION}/{plural}/change")
        wait_until(lambda: not shows(trial(api)), 60, "the API server to let pods be")


def trial(api: Api) -> Json:
    """Return what admission makes of a placeholder."""
    plain = pod("trial", namespace=NAMESPACE, labels={"resource-slack.io/placeholder": "true"})
    try:
        return api.request("POST", f"{PODS}?dryRun=All", plain)
    except ApiError as error:
        if "invalid ApplyConfiguration" in str(error):
            pytest.fail(str(error))
        raise


def injects(found: Json) -> bool:
    return len(found["spec"]["containers"]) == 2


def wait_until_reserved(api: Api, cpu: int, hold: Hold = Hold.BOUND) -> Json:
    """Wait until the placeholders that hold capacity request so much, there is no other, and status says the same."""

    def reserved() -> Json | None:
        found = status(api, "default")
        holding = held(api, hold)
        there = sum(requested(item)["cpu"] for item in holding)
        said = found.get("reserved", {}).get("cpu", "0")
        return found if there == cpu == cpu_millis(said) and len(holding) == len(placeholders(api)) else None

    def seen() -> object:
        return [requested(item) for item in placeholders(api)], status(api, "default")

    return wait_until(reserved, 90, f"{cpu}m to be reserved, and said so", state=seen) or {}


def test_a_sidecar_that_a_policy_adds_keeps_within_the_ceiling_and_is_named(
    loaded: Backend, peak: Peak, hold: Hold
) -> None:
    api = loaded.api
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        with changed(api, SIDECAR, injects):
            size = {"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}, "ceiling": {"cpu": "4", "memory": "16Gi"}}
            api.create(policy("default", hold=hold, extraCapacity=size))
            found = wait_for_condition(api, "default", "PlaceholdersChanged", "True", 90)
            print("\n" + found["message"])
            assert "container proxy adds cpu 500m memory 128Mi" in found["message"]
            wait_until(lambda: held(api, hold), 60, "placeholders")
            each = requested(placeholders(api)[0])["cpu"]
            wait_until_reserved(api, 4000 // each * each, hold)
            made = peak.made
        assert peak.most["cpu"] <= 4000, "at every instant"
        assert len(placeholders(api)) == 4000 // each
        assert made == 4000 // each, "none was made in vain"
        # Without the sidecar: what is made anew is as planned, and once the policy is changed, which forgets what was
        # seen of admission, there is room for more of it.
        for item in placeholders(api):
            api.delete(f"{PODS}/{item['metadata']['name']}", grace_seconds=0)
        wait_for_condition(api, "default", "PlaceholdersChanged", "False", 90)
        api.patch(f"{POLICIES}/default", {"spec": {"extraCapacity": {"ceiling": {"memory": "15Gi"}}}})
        wait_until_reserved(api, 4000, hold)
        assert peak.most["cpu"] <= 4000


def test_a_scheduler_name_that_admission_rewrites_is_named_and_few_pods_are_made_for_it(
    loaded: Backend, peak: Peak, hold: Hold
) -> None:
    """As YuniKorn's and Volcano's webhooks may: such pods are not what was planned, and no war is waged for them."""
    api = loaded.api
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        with changed(api, RENAMED, lambda found: bool(found["spec"]["schedulerName"] == "volcano")):
            api.create(policy("default", hold=hold, extraCapacity={"minRate": 0, "floor": {"cpu": "4"}}))
            found = wait_for_condition(api, "default", "PlaceholdersChanged", "True", 90)
            assert "spec.schedulerName is volcano" in found["message"]
            wait_for_condition(api, "default", "OwnershipContested", "True", 120)
            made = peak.made
            operator.wait_for_plans(5, 60)
            assert peak.made == made, "what admission changes each time is left alone"
        for item in placeholders(api):
            api.delete(f"{PODS}/{item['metadata']['name']}", grace_seconds=0)
        wait_until_reserved(api, 4000, hold)


def test_a_default_of_a_limit_range_counts_towards_the_ceiling(loaded: Backend, peak: Peak, hold: Hold) -> None:
    api = loaded.api
    limits = f"/api/v1/namespaces/{NAMESPACE}/limitranges/disk"
    default = {"type": "Container", "defaultRequest": {"ephemeral-storage": "1Gi"}}
    metadata = {"name": "disk", "namespace": NAMESPACE}
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        api.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [default]}})
        try:
            trial = pod("trial", namespace=NAMESPACE)
            wait_until(
                lambda: "ephemeral-storage" in requested(api.request("POST", f"{PODS}?dryRun=All", trial)),
                30,
                "the LimitRange to hold",
            )
            size = {"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}, "ceiling": {"ephemeral-storage": "3Gi"}}
            api.create(policy("default", hold=hold, extraCapacity=size))
            wait_until(lambda: len(held(api, hold)) == 3, 60, "three", state=lambda: status(api, "default"))
            found = wait_for_condition(api, "default", "PlaceholdersChanged", "True", 60)
            assert "ephemeral-storage 1Gi where none is planned" in found["message"]
            # Mere counters are written once a minute at most.
            disk = "ephemeral-storage"
            wait_until(lambda: status(api, "default")["reserved"].get(disk) == "3Gi", 120, "status to say so")
            assert peak.most["ephemeral-storage"] <= 3 << 30
        finally:
            api.delete(limits)


def test_the_overhead_of_a_runtime_class_counts_towards_the_ceiling(loaded: Backend, peak: Peak, hold: Hold) -> None:
    """A mirror is as large as its workload's pods, their overhead included; the class would add it a second time."""
    api = loaded.api
    overhead = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}
    kata = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}}
    api.create({**kata, "handler": "kata", "overhead": overhead})
    try:
        mirrored = deployment("boxed", 4, cpu="500m", memory="256Mi", runtimeClassName="kata")
        mirrored["metadata"]["annotations"]["resource-slack.io/reserve"] = "4"
        api.create(mirrored)
        wait_for_running(api, 12, 60)
        with Operator(loaded) as operator:
            operator.wait_until_ready()
            size = {"minRate": 0, "ceiling": {"cpu": "2"}}
            freely = {"ceiling": {"cpu": "100", "memory": "100Gi", "pods": "100"}}
            api.create(policy("default", hold=hold, extraCapacity=size, cover={"mode": "None"}, reserve=freely))
            found = wait_until_reserved(api, 1500, hold)
            assert not any("runtimeClassName" in item["spec"] for item in placeholders(api))
            assert "PlaceholdersChanged" not in {c["type"] for c in found["conditions"]}, (
                "the workload's pods have it, too"
            )
            assert peak.most["cpu"] <= 2000
    finally:
        api.delete("/apis/node.k8s.io/v1/runtimeclasses/kata")


def fail(api: Api, found: Json, reason: str) -> None:
    """End a pod for good, as its kubelet would."""
    state = {"phase": "Failed", "reason": reason, "message": "Node didn't have enough resource: cpu"}
    with suppress(ApiError):  # it has gone meanwhile
        api.patch(f"{PODS}/{found['metadata']['name']}/status", {"status": state})


def test_a_placeholder_that_a_kubelet_evicts_is_counted_and_its_pod_deleted(loaded: Backend) -> None:
    api = loaded.api
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        api.create(policy("default", extraCapacity={"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}}))
        wait_until_reserved(api, 4000)
        first = placeholders(api)[0]
        fail(api, first, "Evicted")
        path = f"{PODS}/{first['metadata']['name']}"
        wait_until(lambda: api.find(path) is None, 60, "the failed pod to be deleted")
        wait_until_reserved(api, 4000)
        for metric in ("slack_failed_placeholders_total", "slack_displaced_total"):
            wait_until(lambda m=metric: operator.metric(m, cause="Evicted") == 1, 60, metric)  # type: ignore[misc]
        assert operator.metric("slack_displaced_total", cause="Deleted") == 0


def test_placeholders_that_every_kubelet_refuses_are_held(loaded: Backend, peak: Peak) -> None:
    """The ReplicaSet controller would make another for each, without a pause."""
    api, over = loaded.api, threading.Event()

    def refuse() -> None:
        while not over.wait(0.05):
            for found in placeholders(api, bound=True):
                if found["status"].get("phase") != "Failed":
                    fail(api, found, "OutOfcpu")

    with Operator(loaded) as operator:
        operator.wait_until_ready()
        kubelets = threading.Thread(target=refuse, daemon=True)
        kubelets.start()
        try:
            api.create(policy("default", extraCapacity={"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}}))
            found = wait_for_condition(api, "default", "LimitReached", "True", 120)
            print("\n" + found["message"])
            assert found["reason"] == "PlaceholdersFail"
            assert "OutOfcpu" in found["message"]
            wait_until(lambda: not placeholders(api), 60, "all of them to be gone", state=lambda: placeholders(api))
            made = peak.made
            over.wait(10)
            assert peak.made == made, "none is made while they are held"
            wait_until(lambda: not api.items(PODS, labelSelector=OURS), 60, "the failed pods to be deleted")
        finally:
            over.set()
            kubelets.join(10)
