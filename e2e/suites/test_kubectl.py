"""What a person with kubectl sees: columns, explain, `kubectl slack status`, Events by reason, completion, the log."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.harness import access, build, kwok
from e2e.harness.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.operator import (
    POLICIES,
    Operator,
    environment,
    install,
    policy,
    status,
    wait_for_condition,
    wait_until_placed,
)

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(cluster: Backend, tmp_path: Path) -> Kubectl:
    """Run the real kubectl with our plugin beside it, as the admin or with another kubeconfig."""
    program = build.ensure(["kubectl"])["kubectl"]
    folder = tmp_path / "bin"
    folder.mkdir()
    around = environment()
    completer = subprocess.run(
        ["resource-slack", "completion", "kubectl"], env=around, capture_output=True, text=True, check=True
    )
    (folder / "kubectl_complete-slack").write_text(completer.stdout)
    (folder / "kubectl_complete-slack").chmod(0o755)

    def run(*args: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        paths = {"PATH": f"{folder}{os.pathsep}{around['PATH']}", "KUBECONFIG": str(kubeconfig or cluster.kubeconfig)}
        return subprocess.run(
            [program, *args], env={**around, **paths}, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    """Three full nodes, but for the room of one pod each."""
    create_all(cluster.api, [kwok.node(f"node-{i}") for i in range(3)])
    cluster.api.create(deployment("api", 12, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 12, 60)
    install(cluster)
    return cluster


EXPLAINED = {
    "slackpolicy": "kubectl slack status",
    "slackpolicy.spec.cover": "pushing one out is enough",
    "slackpolicy.spec.extraCapacity.minRate": "0.1 is ten percent",
    "slackpolicy.spec.extraCapacity.schedule.timeZone": "daylight saving",
    "slackpolicy.spec.nodeTemplates.taints.effect": "do not tolerate it",
    "slackpolicy.status.shapes.role": "annotated workload",
    "slackpolicy.status.conditions.reason": "CamelCase",
}


def test_kubectl_explains_every_level(cluster: Backend, kubectl: Kubectl) -> None:
    install(cluster)
    wait_until(lambda: kubectl("explain", "slackpolicy.spec").returncode == 0, 20, "the CRD to be published", every=0.5)
    for field, said in EXPLAINED.items():
        found = kubectl("explain", field)
        assert found.returncode == 0, found.stderr
        assert said in " ".join(found.stdout.split())
    assert "shrinkDelay" in kubectl("explain", "slackpolicy.spec", "--recursive").stdout


def test_a_person_follows_a_burst_with_kubectl(loaded: Backend, kubectl: Kubectl) -> None:
    api = loaded.api
    with Operator(loaded, "--log-format=json", name="operator-kubectl") as operator:
        operator.wait_until_ready()
        api.create(policy("web", extraCapacity={"minRate": 0.25}))
        wait_until_placed(api, "web")

        found = kubectl("slack", "status", "-o", "wide")
        assert (found.returncode, found.stderr) == (0, "")
        assert "verdict   your slack is there" in found.stdout
        assert "default/deploy/api" in found.stdout
        assert " NODES" in found.stdout
        assert "node-" in found.stdout
        header, row = kubectl("get", "slp", "-o", "wide").stdout.splitlines()
        assert header.split()[:3] == ["NAME", "READY", "RATE"]
        assert {"NODES", "COVERED", "BURST", "DISPLACED", "REASON"} <= set(header.split())
        assert "SlackIsThere" in row.split()

        api.create(deployment("burst", 2, cpu="800m", memory="1Gi"))
        wait_for_condition(api, "web", "Ready", "False")
        pushed = wait_until(
            lambda: [
                one
                for one in api.items("/api/v1/namespaces/default/events", fieldSelector="reason=PlaceholdersDisplaced")
                if one["involvedObject"]["name"] == "web"
            ],
            15,
            "an Event about displaced placeholders",
        )
        assert "PreemptionByScheduler" in pushed[0]["message"]
        found = kubectl("slack", "status", "web")
        assert found.returncode == 3
        assert "PlaceholdersPending" in found.stdout
        assert "-> wait for the autoscaler" in found.stdout
        events = kubectl("get", "events", "-A", "--field-selector", "reason=PlaceholdersPending", "-o", "name").stdout
        assert events.strip()

        api.create(policy("lost", nodeSelector={"pool": "nowhere"}))
        wait_for_condition(api, "lost", "Ready", "False")
    found = kubectl("slack", "status")
    assert found.returncode == 3
    assert "no operator leads" in found.stdout
    assert "NoEligibleNode" in found.stdout
    _check_log(operator)


def _check_log(operator: Operator) -> None:
    """Each decision is one line with its policy; no line at any level has what must not be in it."""
    text = operator.program.log_path.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    created = [one for one in lines if one["message"] == "ReplicaSet created"]
    assert {(one["policy"], one["from"], bool(one["shape"]), bool(one["why"])) for one in created} == {
        ("web", 0, True, True)
    }
    assert [one["cause"] for one in lines if one["message"].startswith("placeholders displaced")]
    turned = [one for one in lines if one.get("policy") == "lost" and one.get("condition")]
    assert [one["reason"] for one in turned] == ["NoEligibleNode"], "four conditions that say the same are one line"
    kubeconfig = next(word for word in operator.program.command if word.startswith("--kubeconfig="))
    user = yaml.safe_load(Path(kubeconfig.partition("=")[2]).read_text())["users"][0]["user"]
    for secret in (user["token"], "Bearer ", '"containers"'):
        assert secret not in text
    assert not re.search(r"authorization\W", text, re.IGNORECASE)


def test_the_right_to_list_policies_is_enough_for_status(loaded: Backend, kubectl: Kubectl) -> None:
    rules = [{"apiGroups": ["resource-slack.io"], "resources": ["slackpolicies"], "verbs": ["get", "list"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "slack-viewer"},
        "rules": rules,
    }
    loaded.api.apply(role)
    viewer = loaded.user("viewer")
    access.grant(loaded.api, viewer, "slack-viewer")
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        loaded.api.create(policy("web", extraCapacity={"minRate": 0.1}))
        wait_until_placed(loaded.api, "web")
        found = kubectl("slack", "status", kubeconfig=viewer.kubeconfig)
        assert found.returncode == 0, found.stdout + found.stderr
        assert "not seen  pods in resource-slack" in found.stdout
        assert "not seen  leases in resource-slack" in found.stdout
        stranger = kubectl("slack", "status", kubeconfig=loaded.user("stranger").kubeconfig)
        assert stranger.returncode == 2
        assert "slackpolicies" in stranger.stderr
    assert status(loaded.api, "web")["conditions"]


def test_kubectl_completes_our_commands_and_names(loaded: Backend, kubectl: Kubectl) -> None:
    loaded.api.create(policy("web"))
    assert loaded.api.get(f"{POLICIES}/web")
    assert kubectl("__complete", "slack", "stat").stdout.splitlines()[0].startswith("status")
    assert kubectl("__complete", "slack", "status", "w").stdout.splitlines()[0] == "web"


def test_migrate_takes_a_release_from_the_cluster_to_a_policy_that_the_api_server_takes(
    loaded: Backend, kubectl: Kubectl, tmp_path: Path
) -> None:
    loaded.api.create(deployment("overprovisioner", 2, cpu="500m", memory="512Mi"))
    found = kubectl("slack", "migrate", "deploy/overprovisioner")
    assert (found.returncode, found.stderr) == (0, "")
    (tmp_path / "policy.yaml").write_text(found.stdout)
    applied = kubectl("apply", "--validate=strict", "--dry-run=server", "-f", str(tmp_path / "policy.yaml"))
    assert applied.returncode == 0, applied.stderr
    assert yaml.safe_load(found.stdout)["spec"]["extraCapacity"]["floor"] == {"cpu": "1", "memory": "1Gi"}
