"""What a person with kubectl sees: columns, explain, `kubectl slack status`, Events by reason, completion, the log."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Api
from e2e.harness.cluster import access, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.operator import (
    POLICIES,
    Operator,
    environment,
    install,
    placeholders,
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
    with Operator(loaded, "--log-format=json", "--no-make-way", name="operator-kubectl") as operator:
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
        assert header.split()[:4] == ["NAME", "READY", "SLACK", "RATE"]
        assert {"NODES", "COVERED", "BURST", "DISPLACED", "SATISFIED", "LIMIT", "REMEDY"} <= set(header.split())
        assert row.split()[1:3] == ["True", "Reserved"]

        api.create(deployment("burst", 2, cpu="800m", memory="1Gi"))
        wait_for_condition(api, "web", "SlackSatisfied", "False")
        pushed = wait_until(
            lambda: [
                entry
                for entry in api.items(
                    "/api/v1/namespaces/default/events", fieldSelector="reason=PlaceholdersDisplaced"
                )
                if entry["involvedObject"].get("name") == "web"
            ],
            15,
            "an Event about displaced placeholders",
        )
        assert "PreemptionByScheduler" in pushed[0]["message"]
        found = kubectl("slack", "status", "web")
        assert found.returncode == 0, "a refill is nothing that somebody must mend"
        assert "web  refilling: placeholders wait for nodes" in found.stdout
        assert "verdict   nothing is wrong; refilling: web" in found.stdout

        api.create(policy("lost", nodeSelector={"pool": "nowhere"}))
        wait_for_condition(api, "lost", "SlackSatisfied", "False")
    found = kubectl("slack", "status")
    assert found.returncode == 3
    assert "no operator leads" in found.stdout
    assert "NoEligibleNode" in found.stdout
    _check_log(operator)


def test_nobody_waits_for_a_refill_or_a_ceiling_and_a_missing_class_fails(loaded: Backend, kubectl: Kubectl) -> None:
    api = loaded.api
    api.create(policy("web", extraCapacity={"minRate": 0.25}))
    assert status(api, "web") == {"observedGeneration": -1}, "the API server says that nobody has looked"
    with Operator(loaded) as operator:
        operator.wait_until_ready()
        wait_until_placed(api, "web")
        since = wait_for_condition(api, "web", "Ready", "True")["lastTransitionTime"]
        api.create(deployment("burst", 2, cpu="800m", memory="1Gi"))
        wait_until(lambda: placeholders(api, bound=False), 30, "a placeholder to be pending")
        assert _waits(kubectl, "Ready", 15), "no autoscaler runs here: the placeholder stays pending"
        wait_for_condition(api, "web", "SlackSatisfied", "False")
        assert not _waits(kubectl, "SlackSatisfied", 1)
        assert placeholders(api, bound=False)

        capped = {"minRate": 0.25, "ceiling": {"cpu": "800m"}}
        api.patch(f"{POLICIES}/web", {"spec": {"extraCapacity": capped, "stabilization": {"shrinkDelay": "1s"}}})
        assert _waits(kubectl, "Ready", 30), "kubectl counts no condition of an older generation"
        found = wait_for_condition(api, "web", "Ready", "True")
        assert (found["observedGeneration"], found["lastTransitionTime"]) == (2, since)
        wait_until(lambda: _reason(api, "SlackSatisfied") == "CeilingReached", 30, "the ceiling to bind")
        assert _waits(kubectl, "Ready", 15)

        api.patch(f"{POLICIES}/web", {"spec": {"priorityClassName": "nobody-made-it"}})
        wait_for_condition(api, "web", "Stalled", "True", 60)
        assert (_reason(api, "Ready"), _waits(kubectl, "Ready", 1)) == ("BadPriorityClass", False)
        api.patch(f"{POLICIES}/web", {"spec": {"priorityClassName": "resource-slack"}})
        assert _waits(kubectl, "Ready", 30)
        assert "Stalled" not in {condition["type"] for condition in status(api, "web")["conditions"]}


def _waits(kubectl: Kubectl, condition: str, seconds: int) -> bool:
    """Whether `kubectl wait` returns in time."""
    return kubectl("wait", f"--for=condition={condition}", "slp/web", f"--timeout={seconds}s").returncode == 0


def _reason(api: Api, kind: str) -> str:
    return next((str(c["reason"]) for c in status(api, "web").get("conditions", []) if c["type"] == kind), "")


def _check_log(operator: Operator) -> None:
    """Each decision is one line with its policy; no line at any level has what must not be in it."""
    text = operator.program.log_path.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    created = [line for line in lines if line["message"] == "ReplicaSet created"]
    assert {(line["policy"], line["from"], bool(line["shape"]), bool(line["why"])) for line in created} == {
        ("web", 0, True, True)
    }
    assert [line["cause"] for line in lines if line["message"].startswith("placeholders displaced")]
    turned = [line for line in lines if line.get("policy") == "lost" and line.get("condition")]
    assert [line["reason"] for line in turned] == ["NoEligibleNode"], "four conditions that say the same are one line"
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
