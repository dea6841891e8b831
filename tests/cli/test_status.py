"""`status`: is my slack there? What is said, what is advised, and the exit code."""

import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.cli.places import Place
from slack.cli.standing import Placeholder, Seen, Standing, duration, judge
from slack.planner.policy import parse_policy
from slack.process.reasons import Level
from tests.cli.conftest import COMMAND, Run
from tests.kube.fake_api import FakeApi, Reply

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POLICIES = "/apis/resource-slack.io/v1alpha1/slackpolicies"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases/resource-slack"
GOOD = {"Ready": "SlackIsThere", "SlackSatisfied": "Reserved", "Covered": "CoverageReached"}


def conditions(**reasons: str) -> list[dict[str, str]]:
    """Conditions that are all well, but for those given as Type=Reason."""
    bad_when_true = ("PinsNodes", "LimitReached", "AutoscalerIgnoresPlaceholders", "ViewStale", "PreemptionStuck")
    return [
        {
            "type": kind,
            "status": "True" if (kind in reasons) == (kind in bad_when_true) else "False",
            "reason": reasons.get(kind, GOOD.get(kind, "NothingRefused")),
            "message": f"message of {kind}" if kind in reasons else "well",
            "lastTransitionTime": "2026-03-01T11:48:00Z",
        }
        for kind in {**GOOD, **reasons}
    ]


def policy(name: str = "web", *, generation: int = 1, observed: int = 1, dry_run: bool = False, **reasons: str) -> Any:
    shape = {"name": "c3cd", "role": "cover", "requests": {"cpu": "800m"}, "count": 3, "replicas": 3, "bound": 3}
    return {
        "metadata": {"name": name, "generation": generation},
        "spec": {"dryRun": dry_run},
        "status": {
            "observedGeneration": observed,
            "nodes": 4,
            "summary": {"rate": "20%", "desired": "1920m/2.4Gi", "reserved": "2400m/3Gi"},
            "pending": 0,
            "instantStart": "98%",
            "displaced": {"total": 7, "since": "2026-03-01T08:00:00Z"},
            "shapes": [{**shape, "for": ["shop/deploy/api"]}],
            "uncovered": [{"pod": "db/sts/postgres", "reason": "excluded by annotation"}],
            "burst": 3,
            "sustained": "1.4/min",
            "conditions": conditions(**reasons),
        },
    }


def lease(age: float = 2.0, holder: str = "pod-a_1", now: datetime = NOW) -> Any:
    renewed = (now - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def standing(*policies: Any, **seen: Any) -> Standing:
    given: dict[str, Any] = {
        "crd": True,
        "placeholders": tuple(Placeholder("web", "c3cd", f"node-{i}") for i in range(3)),
        "lease": lease(),
        "lease_seen": True,
        "operator_pods": 1,
        "unseen": (),
    }
    return judge(
        Seen(policies=policies, **{**given, **seen}),
        now=NOW.timestamp(),
        namespace="resource-slack",
        lease_name="resource-slack",
    )


def test_all_is_there() -> None:
    found = standing(policy())
    assert found.good
    assert found.operator_runs
    assert (found.policies[0].bound, found.policies[0].pending) == (3, 0)
    assert found.policies[0].nodes_of_shape == {"c3cd": {"node-0": 1, "node-1": 1, "node-2": 1}}


def test_what_is_wrong_is_said_once_with_advice_and_its_age() -> None:
    one = policy(Ready="PlaceholdersPending", SlackSatisfied="PlaceholdersPending", LimitReached="AutoscalerLimit")
    for condition in one["status"]["conditions"]:
        if condition["reason"] == "PlaceholdersPending":
            condition["message"] = "reserved so far: cpu 1 of 2"
    found = standing(one)
    assert not found.good
    pending, limit = found.policies[0].findings
    assert pending.text == "Ready=False, SlackSatisfied=False PlaceholdersPending: reserved so far: cpu 1 of 2"
    assert "autoscaler" in pending.advice
    assert limit.since == "2026-03-01T11:48:00Z"
    assert "maximum" in limit.advice


def test_a_note_is_no_trouble() -> None:
    found = standing(policy(PinsNodes="LargeShape", PreemptionStuck="Rescued"))
    assert found.good
    assert {one.level for one in found.policies[0].findings} == {Level.NOTE}


def test_a_reason_of_another_version_is_trouble_without_advice() -> None:
    finding = standing(policy(Ready="NewReason")).policies[0].findings[0]
    assert (finding.level, finding.advice) == (Level.TROUBLE, "")


def test_a_spec_that_nobody_has_looked_at_yet_is_not_ready() -> None:
    found = standing(policy(generation=3, observed=2))
    assert not found.good
    assert not found.policies[0].ready
    assert "generation 3" in found.policies[0].findings[0].text


def test_a_policy_without_a_status_is_said_to_be_one() -> None:
    found = standing({"metadata": {"name": "new", "generation": 1}, "spec": {}})
    assert (found.good, found.policies[0].headline) == (False, "never looked at")


def test_pending_placeholders_of_a_dry_run_are_no_trouble() -> None:
    found = standing(policy(dry_run=True, Ready="PlaceholdersPending", SlackSatisfied="PlaceholdersPending"))
    assert found.good
    assert "dry run" in found.policies[0].headline


@pytest.mark.parametrize(
    ("seen", "runs", "words"),
    [
        ({"lease": lease(age=900)}, False, "last renewed 15m ago"),
        ({"lease": lease(holder="")}, False, "released"),
        ({"lease": None, "operator_pods": 0}, False, "there is no lease resource-slack/resource-slack"),
        ({"lease": None, "operator_pods": None}, False, "there is no lease"),
        ({"lease": None, "operator_pods": 2}, True, ""),
        ({"lease": None, "lease_seen": False}, None, ""),
    ],
)
def test_an_absent_operator_is_said_plainly(seen: Any, runs: bool | None, words: str) -> None:
    found = standing(policy(), **seen)
    assert found.operator_runs is runs
    assert found.good is (runs is not False)
    assert words in "".join(one.text for one in found.operator_findings)


def test_without_a_policy_the_built_in_one_holds() -> None:
    for found in (standing(crd=False), standing()):
        assert (found.built_in, found.good, found.built_in_bound) == (True, True, 3)


@pytest.mark.parametrize(
    ("placeholders", "reason", "words"),
    [
        ((), "NoPlaceholders", "none of its placeholders is there"),
        (None, "NotSeen", "may not be seen"),
        ((Placeholder("default", "a", "node-1"), Placeholder("default", "a", "")), "PlaceholdersPending", "1 of the 2"),
    ],
)
def test_the_built_in_policy_is_good_only_when_its_placeholders_are_on_nodes(
    placeholders: Any, reason: str, words: str
) -> None:
    found = standing(placeholders=placeholders)
    assert (found.built_in, found.good) == (True, False)
    (finding,) = found.built_in_findings
    assert finding.reason == reason
    assert words in finding.text
    assert "slack_policy_condition" in finding.advice


def test_without_an_operator_nothing_more_is_said_of_the_built_in_policy() -> None:
    found = standing(crd=False, placeholders=(), lease=None, operator_pods=0)
    assert (found.good, found.built_in_findings) == (False, ())


def test_the_advice_names_the_namespace() -> None:
    finding = standing(policy(Ready="PlaceholdersPending")).policies[0].findings[0]
    assert finding.advice.endswith("kubectl get events -n resource-slack")


def test_other_places_are_named_where_no_operator_is() -> None:
    found = standing(policy(), lease=None, operator_pods=0, elsewhere=(Place("rs2", "rs-resource-slack", 2, 1),))
    (finding,) = found.operator_findings
    assert "1 operator pod and 2 placeholders in rs2" in finding.advice
    assert finding.advice.endswith("kubectl slack status -n rs2 --lease-name rs-resource-slack")


def test_without_the_right_to_see_pods_the_status_counts() -> None:
    found = standing(policy(), placeholders=None, operator_pods=None)
    assert (found.policies[0].bound, found.policies[0].pending) == (3, 0)
    assert found.policies[0].nodes_of_shape == {}


def test_ages_are_written_as_kubectl_does() -> None:
    assert [duration(s) for s in (-1, 40, 119, 150, 7300, 200_000)] == ["0s", "40s", "119s", "2m", "2h", "2d"]


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
    one = policy(Covered="MaxShapesReached")
    api.put(f"{POLICIES}/web", metadata=one["metadata"], spec={}, status=one["status"])
    api.put(LEASE, metadata={}, **lease(now=datetime.now(UTC)))
    found = run("status", "-o", "wide", "--kubeconfig", tmp_path / "config")
    assert found.code == 3, found.stderr
    assert "98% of real pods had a node within 2 s" in found.stdout
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
    one = policy()
    api.put(f"{POLICIES}/web", metadata=one["metadata"], spec={}, status=one["status"])
    found = run("status", "wbe", "--kubeconfig", tmp_path / "config")
    assert (found.code, found.stderr) == (2, "error: slackpolicy wbe: there is none of this name; there are: web\n")


def test_what_may_not_be_seen_is_said_and_not_held_against_anybody(api: FakeApi, run: Run, tmp_path: Path) -> None:
    one = policy()
    api.put(f"{POLICIES}/web", metadata=one["metadata"], spec={}, status=one["status"])
    # The policies are listed first, then the placeholders, then the lease is read.
    api.script("list", Reply(200, json.dumps({"items": [one]}).encode()), Reply.status(403, "Forbidden"))
    api.script("get", Reply.status(403, "Forbidden"))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 0, found.stdout + found.stderr
    assert "not seen  pods in resource-slack: not allowed to see them" in found.stdout
    assert "operator  not known" in found.stdout


def test_watching_shows_each_change_until_ctrl_c(api: FakeApi, tmp_path: Path) -> None:
    one = policy()
    api.put(f"{POLICIES}/web", metadata=one["metadata"], spec={}, status=one["status"])
    api.put(LEASE, metadata={}, **lease(now=datetime.now(UTC) + timedelta(hours=1)))
    command = [str(COMMAND), "status", "--watch", "-o", "json", "--kubeconfig", str(tmp_path / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["good"]
        changed = policy(Ready="WriteRefused")
        api.put(f"{POLICIES}/web", metadata=changed["metadata"], spec={}, status=changed["status"])
        assert not json.loads(process.stdout.readline())["good"]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def listed(*objects: Any) -> Reply:
    return Reply(200, json.dumps({"items": objects}).encode())


def pod(name: str, namespace: str, node: str = "", **labels: str) -> Any:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


def two_releases(api: FakeApi) -> None:
    """Nothing in resource-slack; the operator of a release with names of its own in rs2."""
    placeholder = pod("slack-1", "rs2", "node-1", **{"resource-slack.io/policy": "default"})
    operator = pod("rs-resource-slack-7d", "rs2")
    held = {"metadata": {"name": "rs-resource-slack"}, **lease(holder="rs-resource-slack-7d_ab", now=datetime.now(UTC))}
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
    api.put(LEASE, metadata={}, **lease(now=datetime.now(UTC)))
    found = run("status", "--kubeconfig", tmp_path / "config")
    assert found.code == 3
    assert "unless it was started with another" in found.stdout
    assert found.stdout.splitlines()[-1] == "verdict   the built-in policy is not seen to do its work"
    (command,) = [line.strip() for line in found.stdout.splitlines() if "kubectl apply -f -" in line]
    written = subprocess.run(["sh", "-c", command.partition("|")[0]], capture_output=True, text=True, check=True).stdout
    assert parse_policy(json.loads(written), source="status").name == "default"


def test_a_reader_that_goes_is_no_error(api: FakeApi, tmp_path: Path) -> None:
    one = policy()
    api.put(f"{POLICIES}/web", metadata=one["metadata"], spec={}, status=one["status"])
    api.put(LEASE, metadata={}, **lease(now=datetime.now(UTC)))
    shell = 'set -o pipefail; "$@" | true'
    command = ["bash", "-c", shell, "bash", str(COMMAND), "status", "--kubeconfig", str(tmp_path / "config")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
