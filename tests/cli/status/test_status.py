"""`status`: what is read, what is said, and the exit code."""

import json
import signal
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.cli.status import observe
from slack.cluster.labels import LABEL_HOLD, LABEL_PLACEHOLDER, LABEL_POLICY, LABEL_SHAPE
from slack.planner.model.cost import PlanCost
from slack.planner.policy.spec import parse_policy
from tests.cli.conftest import COMMAND, Run
from tests.docs.pages import ROOT, blocks
from tests.health.build import lease, policy
from tests.kube.fake_api import FakeApi, Reply

POLICIES = "/apis/resource-slack.io/v1alpha1/slackpolicies"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases/resource-slack"


@pytest.fixture
def api(run: Run, tmp_path: Path) -> Any:
    with FakeApi() as fake:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": fake.connection().host}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        yield fake


def test_the_command_tells_people_and_ends_with_the_verdict(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy(Covered="MaxShapesReached")
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC), built_in=True))
    found = run("status", "-o", "wide", "--kubeconfig", tmp_path / "config")
    assert found.code == 3, found.stderr
    assert "98% of real pods were bound within 2 s" in found.stdout
    assert "-> raise spec.cover.maxShapes" in found.stdout
    assert "db/sts/postgres: excluded by annotation" in found.stdout
    assert "operator  runs; pod-a_1 leads" in found.stdout
    assert found.stdout.splitlines()[-1] == "verdict   something is wrong with web"
    assert "\x1b" not in found.stdout
    machine = run("status", "web", "-o", "json", "--kubeconfig", tmp_path / "config")
    document = json.loads(machine.stdout)
    assert (machine.code, document["good"], document["operator"]["runs"]) == (3, False, True)
    assert document["policies"][0]["findings"][0]["reason"] == "MaxShapesReached"


def test_a_policy_that_is_not_there_is_bad_input_and_the_others_are_named(
    api: FakeApi, run: Run, tmp_path: Path
) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    found = run("status", "wbe", "--kubeconfig", tmp_path / "config")
    assert (found.code, found.stderr) == (2, "error: slackpolicy wbe: there is none of this name; there are: web\n")


def test_without_a_leader_nothing_is_said_in_the_present_but_what_the_pods_say(
    api: FakeApi, run: Run, tmp_path: Path
) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(age=900, now=datetime.now(UTC)))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 3, found.stderr
    heading, *rows = found.stdout[found.stdout.index("web  ") :].splitlines()
    assert heading.startswith("web  not known since 20")
    assert heading.endswith("Z (15m)")
    assert rows[0] == "  now       0 placeholders on nodes, as the pods say"
    assert rows[1].startswith("  said last all wanted capacity is reserved; 2400m/3Gi there of 1920m/2.4Gi wanted")
    assert rows[2] == ""
    assert rows[3] == "verdict   the operator does not run"
    machine = json.loads(run("status", "-o", "json", "--kubeconfig", tmp_path / "config").stdout)
    (told,) = machine["policies"]
    assert (machine["good"], machine["satisfied"]) == (False, None)
    assert (told["good"], told["ready"], told["satisfied"], told["state"]["calm"]) == (False, None, None, False)
    assert told["not_known_since"].endswith("Z")


def test_chunks_of_buffers_are_nothing_that_a_policy_has_left(api: FakeApi, run: Run, tmp_path: Path) -> None:
    labels = {"resource-slack.io/placeholder": "true", "resource-slack.io/buffer": "uid"}
    api.put(LEASE, **lease(age=1, now=datetime.now(UTC)))
    for more, left in (({}, False), ({"resource-slack.io/buffer": None}, True)):
        own = {key: value for key, value in {**labels, **more}.items() if value}
        api.script("list", listed(), listed(pod("slack-cb-1", "resource-slack", **own)), listed())
        found = run("status", "--kubeconfig", tmp_path / "config")
        assert ("1 placeholders are there, and no policy asks for them" in found.stdout) == left
        assert (found.code == 3) == left, found.stdout


def test_unbound_placeholders_are_called_so_and_wait_for_nothing(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    shown["status"]["hold"] = {
        "form": "Unbound",
        "since": "2026-03-01T08:00:00Z",
        "reason": "AutoscalerRecognised",
        "message": "Karpenter is there: NodePool general",
    }
    labels = {"resource-slack.io/policy": "web", "resource-slack.io/shape": "c3cd", "resource-slack.io/hold": "Unbound"}
    held = pod("slack-web-c3cd-1", "resource-slack", **{"resource-slack.io/placeholder": "true", **labels})
    outputs = []
    for age in (1, 900):
        api.put(LEASE, **lease(age=age, now=datetime.now(UTC)))
        api.script("list", listed(shown), listed(held), listed())
        outputs.append(run("status", "--kubeconfig", tmp_path / "config").stdout)
    current, left = outputs
    assert "  pods      3 placeholders with capacity; unbound ones are Pending on purpose" in current.splitlines()
    assert "HELD" in current
    why = "Karpenter is there: NodePool general"
    assert f"  hold      Unbound since 2026-03-01T08:00:00Z: {why}" in current.splitlines()
    assert "  now       1 unbound placeholder, Pending on purpose, as the pods say" in left.splitlines()
    assert not [output for output in outputs if "on nodes" in output.lower()]


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("alive", [True, False])
def test_a_leader_whose_clock_is_another_is_judged_by_what_it_does(
    api: FakeApi, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool, hours: int
) -> None:
    monkeypatch.setattr(observe, "RENEWAL_SECONDS", 2.0)
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(0.2):
            api.put(LEASE, **lease(now=datetime.now(UTC) + timedelta(hours=hours)))

    api.put(LEASE, **lease(age=3.0, now=datetime.now(UTC) + timedelta(hours=hours)))
    leader = threading.Thread(target=renew)
    if alive:
        leader.start()
    found = run("status", "--kubeconfig", tmp_path / "config")
    ended.set()
    if alive:
        leader.join()
    assert ("operator  runs; pod-a_1 leads" in found.stdout) == alive
    assert ("the operator does not run" in found.stdout) != alive


def test_a_status_that_nobody_can_read_is_told_and_the_others_are_shown(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    api.put(f"{POLICIES}/broken", metadata={"name": "broken", "generation": 1}, spec={}, status={"conditions": "x"})
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC)))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert (found.code, found.stderr) == (3, "")
    assert "broken  its status cannot be read" in found.stdout
    assert "web  all wanted capacity is reserved" in found.stdout
    assert found.stdout.splitlines()[-1] == "verdict   something is wrong with broken"


def test_what_may_not_be_seen_is_said_and_not_held_against_anybody(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    # The policies are listed first, then the placeholders, then the lease is read.
    api.script(
        "list", Reply(200, json.dumps({"metadata": {}, "items": [shown]}).encode()), Reply.status(403, "Forbidden")
    )
    api.script("get", Reply.status(403, "Forbidden"))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 0, found.stdout + found.stderr
    assert "not seen  pods in resource-slack: not allowed to see them" in found.stdout
    assert "operator  not known" in found.stdout


def test_watching_shows_each_change_until_ctrl_c(api: FakeApi, tmp_path: Path) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    held = lease(now=datetime.now(UTC))
    held["spec"]["leaseDurationSeconds"] = 3600
    api.put(LEASE, **held)
    command = [str(COMMAND), "status", "--watch", "-o", "json", "--kubeconfig", str(tmp_path / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["good"]
        changed = policy(Ready="WriteRefused")
        api.put(f"{POLICIES}/web", metadata=changed["metadata"], spec={}, status=changed["status"])
        assert not json.loads(process.stdout.readline())["good"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def listed(*objects: Any) -> Reply:
    return Reply(200, json.dumps({"metadata": {}, "items": objects}).encode())


def pod(name: str, namespace: str, node: str = "", **labels: str) -> Any:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


def two_releases(api: FakeApi) -> None:
    """Nothing in resource-slack; the operator of a release with names of its own in rs2."""
    placeholder = pod("slack-1", "rs2", "node-1", **{"resource-slack.io/policy": "default"})
    operator = pod("rs-resource-slack-7d", "rs2")
    held = {**lease(holder="rs-resource-slack-7d_ab", now=datetime.now(UTC)), "metadata": {"name": "rs-resource-slack"}}
    api.put("/apis/coordination.k8s.io/v1/namespaces/rs2/leases/rs-resource-slack", **held)
    # SlackPolicies, placeholders and operators of the namespace; then placeholders, operators and leases anywhere
    api.script("list", listed(), listed(), listed(), listed(placeholder), listed(operator), listed(held))
    # and the place itself
    api.script("list", listed(), listed(placeholder), listed(operator))


def test_a_release_of_another_name_is_found(api: FakeApi, run: Run, tmp_path: Path) -> None:
    two_releases(api)
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 0, found.stdout + found.stderr
    assert "operator  runs; rs-resource-slack-7d_ab leads in rs2 (lease rs-resource-slack)" in found.stdout
    assert "1 placeholder on nodes" in found.stdout.splitlines()[-1]
    assert [seen.path for seen in api.seen if seen.verb == "list"][3] == "/api/v1/pods"


def test_where_a_namespace_is_named_no_other_is_taken_but_it_is_named(api: FakeApi, run: Run, tmp_path: Path) -> None:
    two_releases(api)
    found = run("status", "-n", "resource-slack", "--kubeconfig", tmp_path / "config")
    assert found.code == 3
    assert "-> another release? 1 operator pod and 1 placeholder in rs2: kubectl slack status -n rs2" in found.stdout


def test_the_built_in_policy_is_told_with_what_is_known_of_it(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.put(LEASE, **lease(now=datetime.now(UTC), built_in=True))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 3
    assert "unless it was started with another" in found.stdout
    assert found.stdout.splitlines()[-1] == "verdict   the built-in policy is not seen to do its work"
    (command,) = [line.strip() for line in found.stdout.splitlines() if "kubectl apply -f -" in line]
    written = subprocess.run(["sh", "-c", command.partition("|")[0]], capture_output=True, text=True, check=True).stdout
    assert parse_policy(json.loads(written), source="status").name == "default"


def test_where_nothing_asks_for_slack_it_says_so_and_how_to_ask(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.put(LEASE, **lease(now=datetime.now(UTC), built_in=False))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert (found.code, found.stdout.splitlines()[-1]) == (0, "verdict   nothing asks for slack, and none is kept")
    assert "the operator is not asked to keep its built-in one (--built-in-policy" in found.stdout
    assert "kubectl apply -f -" in found.stdout
    shown = json.loads(run("status", "--kubeconfig", tmp_path / "config", "-o", "json").stdout)
    assert (shown["good"], shown["idle"], shown["built_in"]) == (True, True, False)


@pytest.mark.thorough
def test_a_reader_that_goes_is_no_error(api: FakeApi, tmp_path: Path) -> None:
    shown = policy()
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC), built_in=True))
    shell = 'set -o pipefail; "$@" | true'
    command = ["bash", "-c", shell, "bash", str(COMMAND), "status", "--kubeconfig", str(tmp_path / "config")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_policy_with_an_objective_says_why_it_keeps_this_much(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    shown["status"]["objective"] = {"why": "1920m/2.4Gi is enough for 99% of the pods that come within 95 s"}
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC)))
    found = run("status", "--kubeconfig", str(tmp_path / "config"))
    assert "  why       1920m/2.4Gi is enough for 99% of the pods" in found.stdout


def test_what_buffers_keep_of_a_policys_slack_is_said(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    shown["status"]["buffered"] = {"cpu": "5", "memory": "5Gi"}
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC)))
    found = run("status", "--kubeconfig", str(tmp_path / "config"))
    assert "  buffered  CapacityBuffers keep 5/5Gi of the wanted\n" in found.stdout


def test_the_form_of_placeholders_is_said_with_its_reason(api: FakeApi, run: Run, tmp_path: Path) -> None:
    shown = policy()
    shown["status"]["hold"] = {
        "form": "Bound",
        "since": "2026-11-27T02:30:00Z",
        "reason": "NoAnswer",
        "message": "no autoscaler answered; Unbound is tried again at 2026-11-27 03:30 UTC",
        "retryTime": "2026-11-27T03:30:00Z",
    }
    api.put(f"{POLICIES}/web", metadata=shown["metadata"], spec={}, status=shown["status"])
    api.put(LEASE, **lease(now=datetime.now(UTC)))
    lines = run("status", "--kubeconfig", tmp_path / "config").stdout.splitlines()
    assert (
        "  hold      Bound since 2026-11-27T02:30:00Z: no autoscaler answered; Unbound is tried again at 2026-11-27 "
        "03:30 UTC"
    ) in lines
    machine = json.loads(run("status", "--kubeconfig", tmp_path / "config", "-o", "json").stdout)
    assert machine["policies"][0]["status"]["hold"] == shown["status"]["hold"]


def test_the_readmes_example_is_what_the_command_prints(api: FakeApi, run: Run, tmp_path: Path) -> None:
    status = policy("default")["status"]
    status["hold"] = {
        "form": "Unbound",
        "message": "Karpenter is there: NodePool default",
        "since": "2026-11-27T09:12:44Z",
    }
    status["cost"] = {"text": str(PlanCost(nodes=0.4, per_hour=0.115, currency="EUR"))}
    status["summary"]["rate"] = "10%"
    del status["displaced"]
    api.put(f"{POLICIES}/default", metadata={"name": "default", "generation": 1}, spec={}, status=status)
    api.put(LEASE, **lease(holder="resource-slack-7d9f8b6c5-x2x4z_1", now=datetime.now(UTC)))
    labels = {LABEL_PLACEHOLDER: "true", LABEL_HOLD: "Unbound", LABEL_POLICY: "default", LABEL_SHAPE: "c3cd"}
    for number in range(3):
        name = f"slack-default-c3cd-{number}"
        spec = {"schedulerName": "resource-slack.io/unbound"}
        metadata = {"name": name, "namespace": "resource-slack", "labels": labels}
        api.put(f"/api/v1/namespaces/resource-slack/pods/{name}", metadata=metadata, spec=spec, status={})
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 0, found.stderr
    (example,) = [body for body in blocks(ROOT / "README.md", "") if body.startswith("$ kubectl slack status\n")]
    assert (
        example.partition("\n")[2].rstrip() == "\n".join(line.rstrip() for line in found.stdout.splitlines()).rstrip()
    )
