"""`status`: is my slack there? What is said, what is advised, and the exit code."""

import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.cli.standing import Placeholder, Seen, Standing, duration, judge
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
    assert standing(crd=False).built_in
    assert standing().built_in


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
