"""Bad input on a live cluster: a message that names the field, a status condition, and no change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.api import ApiError
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running
from e2e.harness.product.operator import (
    NAMESPACE,
    Operator,
    environment,
    install,
    placeholders,
    policy,
    replica_sets,
    wait_for_condition,
    wait_until_placed,
)

HERE = Path(sys.executable).parent


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    create_all(cluster.api, [kwok.node(f"node-{i}", labels={"pool": "web"}) for i in range(4)])
    cluster.api.create(deployment("api", 8, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 8, 60)
    install(cluster)
    return cluster


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"extraCapacity": {"minRate": -1}}, "spec.extraCapacity.minRate"),
        ({"extraCapacity": {"minRate": "10%"}}, "spec.extraCapacity.minRate"),
        ({"cover": {"mode": "All"}}, "spec.cover.mode"),
        ({"granularity": 0}, "spec.granularity"),
        ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations"),
        ({"extraCapacity": {"schedule": [{"cron": "0 7 * * 1-5", "minRate": 0.3}]}}, "spec.extraCapacity.schedule"),
    ],
)
def test_the_api_server_refuses_what_the_crd_can_judge(loaded: Backend, spec: dict[str, object], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        loaded.api.create(policy("bad", **spec))
    assert refused.value.status == 422
    assert field in str(refused.value)


def test_kubectl_apply_refuses_an_unknown_field(loaded: Backend, tmp_path: Path) -> None:
    kubectl = build.ensure(["kubectl"])["kubectl"]
    manifest = tmp_path / "policy.json"
    manifest.write_text(json.dumps(policy("bad", minRate=0.1)))
    answer = subprocess.run(
        [kubectl, f"--kubeconfig={loaded.kubeconfig}", "apply", "--validate=strict", "-f", manifest],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert "minRate" in answer.stderr


def test_a_selector_without_nodes_changes_nothing_and_says_so(loaded: Backend) -> None:
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("lost", nodeSelector={"pool": "nowhere"}))
        found = wait_for_condition(loaded.api, "lost", "SlackSatisfied", "False")
        assert found["reason"] == "NoEligibleNode"
        assert "spec.nodeSelector" in found["message"]
        wait_for_condition(loaded.api, "lost", "Ready", "True")
        assert replica_sets(loaded.api) == []


def test_two_policies_that_claim_a_node_are_told_and_the_later_does_nothing(loaded: Backend) -> None:
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("first", nodeSelector={"pool": "web"}))
        wait_until_placed(loaded.api, "first")
        loaded.api.create(policy("second", nodeSelector={"pool": "web"}))
        found = wait_for_condition(loaded.api, "second", "Ready", "False")
        assert found["reason"] == "DomainConflict"
        assert "'first'" in found["message"]
        assert {s["metadata"]["labels"]["resource-slack.io/policy"] for s in replica_sets(loaded.api)} == {"first"}


def test_a_shape_that_fits_nowhere_is_not_made(loaded: Backend) -> None:
    loaded.api.create(deployment("giant", 1, cpu="16", memory="1Gi"))
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", cover={"mode": "Everything"}))
        found = wait_for_condition(loaded.api, "default", "Feasible", "False")
        assert "cpu" in found["message"]
        assert "giant" in found["message"]
        largest = [p["spec"]["containers"][0]["resources"]["requests"]["cpu"] for p in placeholders(loaded.api)]
        assert "16" not in largest


def test_dry_run_writes_status_and_nothing_else(loaded: Backend) -> None:
    mark = loaded.audit_mark()
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("default", dryRun=True))
        wait_for_condition(loaded.api, "default", "SlackSatisfied", "False")
        writes = loaded.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
        assert replica_sets(loaded.api) == []
        kinds = {entry.resource for entry in writes if entry.namespace != NAMESPACE or "lease" not in entry.resource}
        assert kinds <= {"resource-slack.io/slackpolicies/status", "events", "events.k8s.io/events"}


def test_plan_and_explain_read_a_live_cluster_and_write_nothing(loaded: Backend, tmp_path: Path) -> None:
    loaded.api.create(policy("default"))
    mark = loaded.audit_mark()
    answer = subprocess.run(
        [HERE / "resource-slack", "plan", f"--kubeconfig={loaded.kubeconfig}", "-o", "json"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["kind"] == "PlanList"
    assert document["items"][0]["policy"] == "default"
    assert document["items"][0]["base"]["cpu_millis"] == 6400
    told = subprocess.run(
        [HERE / "kubectl-slack", "explain", f"--kubeconfig={loaded.kubeconfig}", "-n", "default", "deploy/api"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "default/deploy/api" in told.stdout
    ours = [e for e in loaded.audit_entries(verbs=audit_log.WRITES, since=mark) if "resource-slack" in e.user_agent]
    assert ours == []


def test_kubectl_shows_a_policy_in_one_line(loaded: Backend) -> None:
    kubectl = build.ensure(["kubectl"])["kubectl"]
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("web", extraCapacity={"minRate": 0.2}))
        wait_until_placed(loaded.api, "web")
        answer = subprocess.run(
            [kubectl, f"--kubeconfig={loaded.kubeconfig}", "get", "slackpolicies"],
            capture_output=True,
            text=True,
            check=True,
        )
        head, line = answer.stdout.splitlines()
        print("\n" + answer.stdout)
        columns = ["NAME", "READY", "SLACK", "RATE", "DESIRED", "RESERVED", "PENDING", "INSTANT", "AGE"]
        assert head.split() == columns
        assert line.split()[:3] == ["web", "True", "Reserved"]
