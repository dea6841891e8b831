"""Kills, restarts and hand-overs: the same plan afterwards, no churn, nothing orphaned."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import create_all, deployment, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    CRDS,
    NAMESPACE,
    Operator,
    held,
    placeholders,
    policy,
    replica_sets,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold

LEASE_SECONDS = 15.0


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)])
    cluster.api.create(deployment("api", 16, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 16, 60)
    return cluster


def _uids(cluster: Backend) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in placeholders(cluster.api)}


@pytest.mark.parametrize("moment", [0.0, 0.05, pytest.param(0.15, marks=pytest.mark.core), 0.4, 0.8, 1.5])
def test_a_kill_at_any_step_ends_in_the_same_state(loaded: Backend, moment: float, hold: Hold) -> None:
    """SIGKILL so long after the policy appeared, start again: as many placeholders, none orphaned."""
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        time.sleep(moment)
        operator.kill()
        operator.start()
        operator.wait_until_ready()
        wait_until_placed(loaded.api, "default", 40)
        first, sets = _uids(loaded), {s["metadata"]["name"]: s["spec"]["replicas"] for s in replica_sets(loaded.api)}
        operator.kill()
        operator.start()
        operator.wait_until_ready()
        operator.wait_for_plans(2)
        wait_until_placed(loaded.api, "default", 40)
        assert _uids(loaded) == first
        assert {s["metadata"]["name"]: s["spec"]["replicas"] for s in replica_sets(loaded.api)} == sets
        owners = [s["metadata"]["ownerReferences"] for s in replica_sets(loaded.api)]
        assert all(refs and refs[0]["kind"] == "SlackPolicy" for refs in owners)


def test_a_kill_while_shrinking_ends_smaller_and_no_smaller(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        size = {"minRate": 0.5}
        loaded.api.create(policy("default", hold=hold, extraCapacity=size, stabilization={"shrinkDelay": "3s"}))
        wait_until_placed(loaded.api, "default", 40)
        many = len(placeholders(loaded.api))
        loaded.api.patch(
            "/apis/resource-slack.io/v1alpha1/slackpolicies/default", {"spec": {"extraCapacity": {"minRate": 0.2}}}
        )
        time.sleep(3.5)
        operator.kill()
        operator.start()
        operator.wait_until_ready()
        wait_until(lambda: len(placeholders(loaded.api)) < many, 40, "fewer placeholders")
        time.sleep(5)
        cpu = sum(
            int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1]) for pod in placeholders(loaded.api)
        )
        assert cpu >= 0.2 * 16 * 800


@pytest.mark.core
def test_the_api_server_is_restarted_under_the_operator(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        before = _uids(loaded)
        loaded.restart_apiserver(crash=True, down_seconds=1)  # and seconds to start: the lease lasts 10 without it
        scale(loaded.api, "api", 18)
        wait_for_running(loaded.api, 18, 60)
        operator.outlive_the_api_server(loaded.api)
        wait_until_placed(loaded.api, "default", 60)
        kept = before.keys() & _uids(loaded).keys()
        displaced = 2 if hold is Hold.BOUND else 0
        assert len(kept) >= len(before) - displaced, "only what the two new pods displaced may be new"
        assert operator.program.running


def test_etcd_stands_still_for_longer_than_the_lease_lasts(loaded: Backend, hold: Hold) -> None:
    """Every write fails meanwhile, and every read that is not from a cache."""
    if not isinstance(loaded, ControlPlane):
        pytest.skip("kind's etcd is in its node's container")
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        before = _uids(loaded)
        with loaded.stands_still("etcd"):
            time.sleep(LEASE_SECONDS + 2)
        operator.outlive_the_api_server(loaded.api)
        wait_until_placed(loaded.api, "default", 60)
        assert _uids(loaded) == before, "an outage moves nothing"


def test_placeholders_go_with_the_crd_and_come_back_with_it(loaded: Backend, hold: Hold) -> None:
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/slackpolicies.resource-slack.io"
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        try:
            loaded.api.delete(definition)
            _wait_for_no_slack(loaded)
        finally:
            wait_until(lambda: loaded.api.find(definition) is None, 60, "the CRD to be gone")
            install_crds(loaded.api, CRDS)
        operator.program.keep_up_until(lambda: operator.get("/readyz")[0] == 200, 120)
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 120)


@pytest.mark.core
def test_of_two_replicas_one_acts_and_the_other_takes_over_within_the_lease_time(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded, name="operator-a") as first:
        first.wait_until_ready()
        wait_until(lambda: first.metric("slack_leader") == 1, 20, "the first to lead")
        with Operator(loaded, name="operator-b") as second:
            second.wait_until_ready()
            loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
            wait_until_placed(loaded.api, "default", 40)
            assert second.metric("slack_leader") == 0
            before = _uids(loaded)
            first.kill()
            killed = time.monotonic()
            wait_until(lambda: second.metric("slack_leader") == 1, 30, "the second to lead")
            took = time.monotonic() - killed
            print(f"\ntaken over after {took:.1f} s")
            assert took < 15 + 2 + time_scale()  # lease time, retry period, and what a busy machine adds
            second.wait_for_plans(2)
            assert _uids(loaded) == before, "a hand-over moves nothing"
            scale(loaded.api, "api", 20)
            wait_until_placed(loaded.api, "default", 40)


def _webhook_that_is_down() -> Json:
    """A validating webhook for our ReplicaSets whose server is gone, as an admission controller's in an outage."""
    name = {"kubernetes.io/metadata.name": NAMESPACE}
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["replicasets"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "down"},
        "webhooks": [
            {
                "name": "down.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
                "namespaceSelector": {"matchLabels": name},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 2,
            }
        ],
    }


def test_while_a_webhook_is_down_the_operator_lives_says_so_and_writes_little(loaded: Backend, hold: Hold) -> None:
    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    loaded.api.create(_webhook_that_is_down())
    try:
        with Operator(loaded) as operator:
            operator.wait_until_ready()
            loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
            ready = wait_for_condition(loaded.api, "default", "Ready", "False", 90)
            assert ready["reason"] == "WriteRefused"
            assert "down.example.com" in ready["message"]
            operator.wait_for_plans(2, 60)
            mark, began = loaded.audit_mark(), time.monotonic()
            operator.wait_for_plans(5, 60)
            writes = loaded.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
            tried = [entry for entry in writes if entry.resource == "apps/replicasets"]
            assert len(tried) <= 1 + (time.monotonic() - began) / 2.5, "one try for each pause, of 2.5 s at least"
            assert operator.get("/healthz")[0] == 200
            loaded.api.delete(f"{webhooks}/down")
            wait_until_placed(loaded.api, "default", 120)
            assert operator.program.running
    finally:
        loaded.api.delete(f"{webhooks}/down")


def test_two_operators_that_both_act_end_their_war_and_say_so(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded, name="operator-a") as first:
        first.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        alone = ("--leader-elect=false", "--image=registry.k8s.io/pause:3.9")
        with Operator(loaded, *alone, name="operator-b") as second:
            second.wait_until_ready()
            told = wait_for_condition(loaded.api, "default", "OwnershipContested", "True", 120)
            assert "another operator" in told["message"]
            for each in (first, second):
                each.wait_for_plans(2, 60)
            before = [found["metadata"]["generation"] for found in replica_sets(loaded.api)]
            for each in (first, second):
                each.wait_for_plans(5, 60)
            assert [found["metadata"]["generation"] for found in replica_sets(loaded.api)] == before


@pytest.mark.core
def test_sigterm_releases_the_lease_at_once(loaded: Backend) -> None:
    with Operator(loaded, name="operator-a") as first:
        first.wait_until_ready()
        wait_until(lambda: first.metric("slack_leader") == 1, 20, "the first to lead")
        with Operator(loaded, name="operator-b") as second:
            second.wait_until_ready()
            first.stop()
            stopped = time.monotonic()
            wait_until(lambda: second.metric("slack_leader") == 1, 10, "the second to lead")
            assert time.monotonic() - stopped < 2 + time_scale(), "the lease lasts 15 s"


@pytest.mark.core
def test_deleting_a_policy_removes_its_placeholders(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        loaded.api.delete("/apis/resource-slack.io/v1alpha1/slackpolicies/default")
        _wait_for_no_slack(loaded)
    mark = loaded.audit_mark()
    with Operator(loaded, name="restarted") as operator:
        operator.wait_until_ready()
        wait_until(lambda: "no slack is kept" in operator.program.log_path.read_text(), 30, "the log to say so")
        operator.wait_for_plans(3)
    written = {e.resource for e in loaded.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)}
    assert written <= {"coordination.k8s.io/leases"}, "a restart must not bring back what somebody wants to pay no more"


def _wait_for_no_slack(cluster: Backend) -> None:
    wait_until(
        lambda: not replica_sets(cluster.api) and not placeholders(cluster.api),
        90,
        "all slack to be gone",
        state=lambda: [s["metadata"]["ownerReferences"] for s in replica_sets(cluster.api)],
    )


def test_the_built_in_policy_holds_only_while_it_is_asked_for(loaded: Backend, hold: Hold) -> None:
    with Operator(loaded, "--built-in-policy", f"--hold={hold}", name="asked") as operator:
        operator.wait_until_ready()
        wait_until(lambda: held(loaded.api, hold), 40, "the built-in policy's placeholders")
        owners = {s["metadata"]["ownerReferences"][0]["kind"] for s in replica_sets(loaded.api)}
        assert owners == {"PriorityClass"}
        assert _status(loaded)["built_in"] is True
    with Operator(loaded, name="not-asked") as operator:  # as an upgrade from a version that kept it unasked
        operator.wait_until_ready()
        _wait_for_no_slack(loaded)
        found = _status(loaded)
        assert (found["built_in"], found["idle"], found["good"]) == (False, True, True)


def _status(cluster: Backend) -> Json:
    command: list[str] = [str(Path(sys.executable).with_name("resource-slack")), "status", "-o", "json"]
    answer = subprocess.run(
        [*command, f"--kubeconfig={cluster.kubeconfig}"], capture_output=True, text=True, check=False, timeout=60
    )
    found: Json = json.loads(answer.stdout)
    return found


@pytest.mark.core
def test_the_operator_writes_no_finalizer_and_nothing_to_real_pods(loaded: Backend, hold: Hold) -> None:
    """kopf's traps: no finalizer, no annotation, no write to pods, nodes or ReplicaSets that are not ours."""
    mark = loaded.audit_mark()
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "default", 40)
        scale(loaded.api, "api", 20)
        wait_until_placed(loaded.api, "default", 40)
        found = loaded.api.get("/apis/resource-slack.io/v1alpha1/slackpolicies/default")
        assert "finalizers" not in found["metadata"]
        assert "annotations" not in found["metadata"]
        writes = loaded.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
        assert writes
        foreign = [e for e in writes if e.namespace not in (NAMESPACE, "", "default")]
        assert foreign == []
        assert {e.resource for e in writes} <= {
            "apps/replicasets",
            "pods" if hold is Hold.BOUND else "pods/status",
            "coordination.k8s.io/leases",
            "resource-slack.io/slackpolicies/status",
            "events",
            "events.k8s.io/events",
            "scheduling.k8s.io/priorityclasses",
        }
        assert all(
            e.namespace == NAMESPACE for e in writes if e.resource in ("pods", "pods/status", "apps/replicasets")
        )
        refused = [e for e in loaded.audit_entries(user=operator.user, since=mark) if e.code == 403]
        assert refused == [], "its own roles must suffice"
