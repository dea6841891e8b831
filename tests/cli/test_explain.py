"""`explain`: which placeholder makes room for a workload, or why none does."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from slack.cli.inputs import cluster
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from tests.cli.build import Json, listed, node, pod, small_cluster
from tests.cli.conftest import Policy, Run
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi


def explained(run: Run, snapshot: Path, *args: str | Path) -> Any:
    found = run("explain", "-n", "shop", "--snapshot", snapshot, "-o", "json", *args)
    assert found.code == 0, found.stderr
    return json.loads(found.stdout)


def written(tmp_path: Path, *items: Json) -> Path:
    path = tmp_path / "explained.json"
    path.write_text(listed(*items))
    return path


def placeholder(policy: str, shape: str, on: str | None, requests: dict[str, str]) -> Json:
    labels = {
        "app.kubernetes.io/managed-by": "resource-slack",
        "resource-slack.io/placeholder": "true",
        "resource-slack.io/policy": policy,
        "resource-slack.io/shape": shape,
    }
    made = pod(f"slack-{policy}-{shape}-a", on)
    made["metadata"] |= {"namespace": "resource-slack", "labels": labels}
    made["spec"] |= {"priority": -10, "preemptionPolicy": "Never"}
    made["spec"]["containers"][0]["resources"]["requests"] = requests
    return made


def test_it_names_the_policy_and_the_shape(run: Run, cluster: Path) -> None:
    found = explained(run, cluster, "deploy/api")
    assert found["workload"] == "shop/deploy/api"
    assert found["pods"] == 6
    assert found["requests"] == {"cpu_millis": 500, "memory_bytes": 1 << 30}
    assert found["rooms"]
    assert {room["policy"] for room in found["rooms"]} == {"default"}
    assert found["reasons"] == []
    assert not found["ready"], "none of the placeholders stands yet"


def test_it_names_the_nodes_on_which_placeholders_stand(run: Run, cluster: Path, tmp_path: Path) -> None:
    (room, *_) = explained(run, cluster, "deploy/api")["rooms"]
    requests = {"cpu": f"{room['requests']['cpu_millis']}m", "memory": str(room["requests"]["memory_bytes"])}
    standing = written(tmp_path, *small_cluster(), placeholder("default", room["shape"], "web-1", requests))
    found = explained(run, standing, "deploy/api")
    there = next(other for other in found["rooms"] if other["shape"] == room["shape"])
    assert there["nodes"] == {"web-1": 1}


def test_unbound_placeholders_of_the_cluster_are_planned_for_as_unbound_ones(
    run: Run, cluster: Path, policy: Policy, tmp_path: Path
) -> None:
    """A dry run recognises no autoscaler: what is there says which form the operator has chosen."""
    (room, *_) = explained(run, cluster, "deploy/api", "-f", policy({"hold": "Unbound"}, "default"))["rooms"]
    requests = {"cpu": f"{room['requests']['cpu_millis']}m", "memory": str(room["requests"]["memory_bytes"])}
    held = placeholder("default", room["shape"], None, requests)
    held["metadata"]["labels"]["resource-slack.io/hold"] = "Unbound"
    held["spec"]["schedulerName"] = "resource-slack.io/unbound"
    held["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    standing = written(tmp_path, *small_cluster(), held)
    found = run(
        "explain", "-n", "shop", "--snapshot", standing, "-f", policy({"hold": "Auto"}, "default"), "deploy/api"
    )
    assert found.code == 0, found.stderr
    assert f"{room['shape']} (cover)" in found.stdout
    assert "; capacity is kept free for 1 on " in found.stdout
    assert "a node that must go is released" not in found.stdout  # only a status says how
    bound = run(
        "explain", "-n", "shop", "--snapshot", standing, "-f", policy({"hold": "Bound"}, "default"), "deploy/api"
    )
    assert "capacity is kept free" not in bound.stdout


def test_the_way_to_release_nodes_is_that_of_the_policys_status(run: Run, tmp_path: Path) -> None:
    status: Json = {"hold": {"form": "Unbound", "releaseNodes": "MarkerPod"}}
    mine: Json = {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": "default"},
        "spec": {"hold": "Unbound"},
        "status": status,
    }
    for way in ("Label", "Off", "MarkerPod", 7):
        status["hold"]["releaseNodes"] = way
        rooms = explained(run, written(tmp_path, *small_cluster(), mine), "deploy/api")["rooms"]
        # A dry run keeps the template of placeholders that are there, and none of these avoids marker pods.
        assert {room["release_nodes"] for room in rooms} == {way if way in ("Label", "Off") else None}


@pytest.mark.parametrize("name", ["deploy/api", "deployments/api", "deployment.apps/api", "pod/api-1a-3", "rs/api-1a"])
def test_kinds_are_taken_as_kubectl_takes_them_and_a_pod_stands_for_its_workload(
    run: Run, cluster: Path, name: str
) -> None:
    assert explained(run, cluster, name)["workload"] == "shop/deploy/api"


def test_without_a_policy_the_answer_is_said_to_be_the_built_in_ones(run: Run, cluster: Path, policy: Policy) -> None:
    said = "note: there is no SlackPolicy: the answer is for the built-in one, which needs --built-in-policy"
    asked = ("explain", "-n", "shop", "deploy/api", "--snapshot", cluster)
    assert said in run(*asked).stderr
    assert said not in run(*asked, "-f", policy({})).stderr


def test_kind_and_name_may_be_two_words(run: Run, cluster: Path) -> None:
    assert explained(run, cluster, "deploy", "api")["workload"] == "shop/deploy/api"


def test_an_excluded_workload_is_said_to_be_excluded(run: Run, tmp_path: Path) -> None:
    lone = pod("pg-1a-0", "web-0", cpu="2", app="pg")
    lone["metadata"]["annotations"] = {"resource-slack.io/exclude": "true"}
    found = explained(run, written(tmp_path, *small_cluster(), lone), "deploy/pg")
    assert found["rooms"] == []
    assert "excluded" in found["reasons"][0]


def test_a_workload_outside_every_policy_is_said_to_be_outside(run: Run, policy: Policy, tmp_path: Path) -> None:
    batch = pod("job-1a-0", "batch-0", app="job", nodeSelector={"pool": "batch"})
    snapshot = written(tmp_path, *small_cluster(), node("batch-0", pool="batch"), batch)
    found = explained(run, snapshot, "deploy/job", "-f", policy({"nodeSelector": {"pool": "web"}}))
    assert found["rooms"] == []
    assert found["reasons"] == ["outside every policy: it goes to batch-0, where no policy keeps slack"]


def test_a_workload_that_fits_no_node_is_said_to_fit_none(run: Run, tmp_path: Path) -> None:
    lost = pod("lost-1a-0", None, app="lost", nodeSelector={"pool": "moon"})
    found = explained(run, written(tmp_path, *small_cluster(), lost), "deploy/lost")
    assert found["rooms"] == []
    assert "node selector pool=moon is not met" in found["reasons"][0]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"preemptionPolicy": "Never"}, "preemptionPolicy Never"),
        ({"priority": -20}, "priority -20 is not above"),
        ({"schedulerName": "other"}, "scheduler"),
    ],
)
def test_what_keeps_pods_from_using_the_slack_is_said(run: Run, tmp_path: Path, spec: Json, said: str) -> None:
    odd = pod("odd-1a-0", "web-0", app="odd", **spec)
    found = explained(run, written(tmp_path, *small_cluster(), odd), "deploy/odd")
    assert any(said in text for text in [*found["reasons"], *found["warnings"]])
    assert not found["ready"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-n", "shop", "deploy/apj"], "did you mean deploy/api?"),
        (["-n", "shop", "sts/api"], "did you mean deploy/api?"),
        (["-n", "shpo", "deploy/api"], "did you mean shop/deploy/api?"),
        (["-n", "other", "deploy/x"], "namespace 'other' has no pods (there are: shop)"),
        (["-n", "shop", "foo/api"], "unknown kind 'foo'"),
        (["-n", "shop", "ds/agent"], "pods of a DaemonSet start with their node"),
        (["-n", "shop", "deploy/"], "write KIND/NAME"),
    ],
)
def test_what_is_not_found_gets_near_misses(run: Run, cluster: Path, args: list[str], said: str) -> None:
    found = run("explain", "--snapshot", cluster, *args)
    assert found.code == 2
    assert said in found.stderr


def quota(used: int) -> Json:
    return {"status": {"hard": {"pods": "7"}, "used": {"pods": str(used)}}}


@pytest.mark.parametrize("live", [True, False], ids=["of a cluster", "of a file"])
@pytest.mark.parametrize("used", [6, 7])
def test_a_quota_of_its_namespace_is_read_and_checked(run: Run, tmp_path: Path, live: bool, used: int) -> None:
    objects = small_cluster()
    if live:
        with FakeApi() as api:
            for item in objects:
                space = item["metadata"].get("namespace")
                folder = f"namespaces/{space}/pods" if space else "nodes"
                rest = {key: value for key, value in item.items() if key != "metadata"}
                api.put(f"/api/v1/{folder}/{item['metadata']['name']}", metadata=item["metadata"], **rest)
            api.put("/api/v1/namespaces/shop/resourcequotas/q", **quota(used))
            api.put("/api/v1/namespaces/lab/resourcequotas/full", **quota(7))
            found = run("explain", "-n", "shop", "deploy/api", "-o", "json", "--kubeconfig", config(api, tmp_path))
    else:
        own = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
        path = written(tmp_path, *objects, own | quota(used))
        found = run("explain", "-n", "shop", "deploy/api", "-o", "json", "--snapshot", path)
    assert found.code == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["rooms"]
    said = ["ResourceQuota shop/q admits no further pod: it has 0 pods left"] if used == 7 else []
    assert (answer["warnings"], answer["unknown"]) == (said, [])


def test_quotas_that_one_may_not_list_are_unknown_and_other_errors_are_told() -> None:
    for status, answer in ((403, None), (500, "raises")):

        class Refusing:
            def request(self, *_args: object, status: int = status, **_rest: object) -> object:
                raise ApiError(status, "Refused", "no")

        if answer is None:
            assert cluster._quotas_of(cast("Connection", Refusing()), "shop") is None
        else:
            with pytest.raises(ApiError):
                cluster._quotas_of(cast("Connection", Refusing()), "shop")
