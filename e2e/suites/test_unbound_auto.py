"""`spec.hold: Auto` on real components: unbound beside the stock autoscalers, bound where unbound is of no use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, pod, wait_for_running, wait_until
from e2e.harness.product.operator import NAMESPACE, Operator, placeholders, policy, status, wait_until_placed
from slack.cluster.hold import UNBOUND_SCHEDULER

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OTHER = "yunikorn"
RENAME = f'Object{{spec: Object.spec{{schedulerName: "{OTHER}"}}}}'
GROUP = NodeGroup("general", max_count=8, boot_seconds=2)
SILENCE_SECONDS = 120.0
"""The least time without an answer; nodes of the suites start in seconds."""


def with_load(api: Api, rate: float = 0.5) -> None:
    api.create(policy("default", hold="Auto", extraCapacity={"minRate": rate}, stabilization={"shrinkDelay": "5s"}))
    api.create(deployment("api", 9, cpu="800m", memory="1Gi"))


def wait_for_form(api: Api, form: str, reason: str, seconds: float = 60.0) -> Json:
    """Wait until the status names a form with its reason, and return what it says."""

    def said() -> Json | None:
        hold: Json = status(api, "default").get("hold", {})
        return hold if (hold.get("form"), hold.get("reason")) == (form, reason) else None

    found = wait_until(said, seconds, f"hold {form}, {reason}", state=lambda: status(api, "default"))
    assert found
    print("\nhold:", found)
    return found


def schedulers(api: Api) -> set[str]:
    return {item["spec"]["schedulerName"] for item in placeholders(api)}


@pytest.mark.autoscaler
def test_auto_is_unbound_beside_the_stock_cluster_autoscaler(cluster: Backend, cluster_autoscaler_binary: Path) -> None:
    api = cluster.api
    with ClusterAutoscaler(cluster, [GROUP]), Operator(cluster) as operator:
        operator.wait_until_ready()
        with_load(api)
        hold = wait_for_form(api, "Unbound", "AutoscalerRecognised")
        assert "ConfigMap kube-system/cluster-autoscaler-status is fresh" in hold["message"]
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        assert schedulers(api) == {UNBOUND_SCHEDULER}
        uids = {item["metadata"]["uid"] for item in placeholders(api)}
        operator.kill()
        with Operator(cluster, name="second") as second:
            second.wait_until_ready()
            second.wait_for_plans(2)
            assert {item["metadata"]["uid"] for item in placeholders(api)} == uids
            assert status(api, "default")["hold"]["since"] == hold["since"]


def test_auto_is_unbound_beside_karpenter(cluster: Backend) -> None:
    api = cluster.api
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("default", boot_seconds=2)
        operator.wait_until_ready()
        with_load(api)
        hold = wait_for_form(api, "Unbound", "AutoscalerRecognised")
        assert hold["message"] == "Karpenter is there: NodePool default"
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        assert schedulers(api) == {UNBOUND_SCHEDULER}


def test_auto_is_bound_without_an_autoscaler_and_says_so(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(6)])
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        with_load(api)
        hold = wait_for_form(api, "Bound", "NoAutoscaler")
        assert "there is no ConfigMap kube-system/cluster-autoscaler-status" in hold["message"]
        wait_until_placed(api, "default", 60)
        assert schedulers(api) == {"default-scheduler"}
        ready = next(c for c in status(api, "default")["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"


@pytest.mark.autoscaler
def test_a_cluster_autoscaler_that_allows_other_schedulers_only_leads_to_bound_placeholders(
    cluster: Backend, cluster_autoscaler_binary: Path
) -> None:
    api = cluster.api
    flags = ["--allowed-scheduler-names=default-scheduler"]
    with ClusterAutoscaler(cluster, [GROUP], flags), Operator(cluster) as operator:
        operator.wait_until_ready()
        with_load(api, 0.9)  # more than is free on the nodes that come for the pods
        wait_for_form(api, "Unbound", "AutoscalerRecognised")
        hold = wait_for_form(api, "Bound", "NoAnswer", SILENCE_SECONDS + 90)
        assert f"--allowed-scheduler-names lacks {UNBOUND_SCHEDULER}" in hold["message"]
        assert hold["retryTime"]
        wait_until_placed(api, "default", 90)
        assert schedulers(api) == {"default-scheduler"}


@contextmanager
def renamed_schedulers(api: Api) -> Iterator[None]:
    """A MutatingAdmissionPolicy that writes another schedulerName into each placeholder, as YuniKorn's webhook does."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"resource-slack.io/hold": "Unbound"}}
    spec: Json = {
        "matchConstraints": {"resourceRules": [rule], "objectSelector": selector},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": RENAME}}],
    }
    kinds = (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", spec),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", {"policyName": "rename"}),
    )
    group = "admissionregistration.k8s.io/v1"
    if api.find(f"{ADMISSION}/mutatingadmissionpolicies") is None:
        pytest.skip("this API server has no MutatingAdmissionPolicy of v1 (1.36)")
    try:
        for _, kind, content in kinds:
            api.create({"apiVersion": group, "kind": kind, "metadata": {"name": "rename"}, "spec": content})
        wait_until(lambda: renames(api), 60, "the API server to write the schedulerName")
        yield
    finally:
        for plural, _, _ in kinds:
            api.delete(f"{ADMISSION}/{plural}/rename")


def renames(api: Api) -> bool:
    trial = pod("trial", namespace=NAMESPACE, labels={"resource-slack.io/hold": "Unbound"})
    try:
        made = api.request("POST", f"{PODS}?dryRun=All", trial)
    except ApiError as error:
        if "invalid ApplyConfiguration" in str(error):
            pytest.fail(str(error))
        raise
    return bool(made["spec"]["schedulerName"] == OTHER)


def test_a_scheduler_name_that_admission_writes_leads_to_bound_placeholders_without_a_loop(cluster: Backend) -> None:
    api = cluster.api
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("default", boot_seconds=2)
        operator.wait_until_ready()
        with renamed_schedulers(api):
            with_load(api)
            hold = wait_for_form(api, "Bound", "SchedulerNameChanged")
            assert f"has the schedulerName {OTHER}" in hold["message"]
            wait_for_running(api, 9, 90)
            wait_until_placed(api, "default", 90)
            assert schedulers(api) == {"default-scheduler"}
            uids = {item["metadata"]["uid"] for item in placeholders(api)}
            operator.wait_for_plans(5)
            assert {item["metadata"]["uid"] for item in placeholders(api)} == uids
