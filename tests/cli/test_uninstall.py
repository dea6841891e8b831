"""`uninstall` as a person calls it: short flags, and what it says of things that it keeps."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from slack.cli import uninstall
from tests.cli.conftest import Run
from tests.kube.fake_api import FakeApi, Reply

BRAKE = "/api/v1/namespaces/rs2/resourcequotas/resource-slack-brake"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"


OURS = {"labels": {"app.kubernetes.io/managed-by": "resource-slack"}}
PLACEHOLDER = {"labels": {**OURS["labels"], "resource-slack.io/placeholder": "true"}}


def config(api: FakeApi, folder: Path) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": api.connection().host}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (folder / "config").write_text(yaml.safe_dump(document))
    return folder / "config"


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"app.kubernetes.io/managed-by": "Helm"}, "its label app.kubernetes.io/managed-by is Helm"),
        ({}, "it has no label app.kubernetes.io/managed-by"),
    ],
)
def test_a_priority_class_that_is_not_ours_is_kept_and_named(
    run: Run, tmp_path: Path, labels: dict[str, str], why: str
) -> None:
    with FakeApi() as api:
        api.put(CLASS, metadata={"labels": labels})
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        assert api.count("delete") == 0
    assert found.code == 0
    said = f"priorityclass resource-slack is kept: {why}, so the operator did not make it"
    assert said in found.stderr.splitlines()
    assert "nothing of resource-slack is left in namespace rs2" in found.stderr


def test_a_server_that_falls_ill_midway_leaves_a_list_of_what_is_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uninstall, "_RETRY_SECONDS", 0.3)
    with FakeApi() as api:
        for name in ("slack-a", "slack-b", "slack-c"):
            api.put(f"/apis/apps/v1/namespaces/rs2/replicasets/{name}", metadata=PLACEHOLDER)
        api.put(BRAKE, metadata=OURS)
        api.put(CLASS, metadata=OURS)
        words = ("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        api.script("delete", Reply.status(200, "Success"), *[Reply.status(500)] * 99)
        found = run(*words)
        assert (found.code, found.stdout) == (2, "replicaset rs2/slack-a deleted\n")
        left = "resourcequota rs2/resource-slack-brake, priorityclass resource-slack"
        said = f"left: replicaset rs2/slack-b, replicaset rs2/slack-c, {left}; run this again"
        assert said in found.stderr.splitlines()
        assert f"{api.connection().host}: DELETE " in found.stderr
        api.scripted.clear()
        found = run(*words)
        assert (found.code, found.stdout.count(" deleted\n")) == (0, 5), found.stderr  # the first was only said to be


def test_placeholders_that_are_slow_to_go_are_counted(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        api.put("/apis/apps/v1/namespaces/rs2/replicasets/slack-a", metadata=PLACEHOLDER)
        for name in ("slack-a-1", "slack-a-2"):
            owned = {**PLACEHOLDER, "ownerReferences": [{"kind": "ReplicaSet", "name": "slack-a", "uid": "u"}]}
            api.put(f"/api/v1/namespaces/rs2/pods/{name}", metadata=owned)
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout) == (0, "replicaset rs2/slack-a deleted\n"), found.stderr
    assert "2 placeholder pods are still on their way out" in found.stderr.splitlines()


def test_marker_pods_are_deleted_though_they_belong_to_their_nodes(run: Run, tmp_path: Path) -> None:
    release = {"resource-slack.io/release": "Drifted.1800000000"}
    owner = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}]
    with FakeApi() as api:
        for name, labels in (("slack-release-n1", OURS["labels"] | release), ("somebody-s", release)):
            pod = {"labels": labels, "ownerReferences": owner}
            api.put(f"/api/v1/namespaces/rs2/pods/{name}", metadata=pod)
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout) == (0, "pod rs2/slack-release-n1 deleted\n"), found.stderr


def left_load(api: FakeApi, namespace: str, name: str = "load") -> None:
    """A load whose deadline has passed."""
    metadata = {
        "labels": {"app.kubernetes.io/managed-by": "resource-slack-load"},
        "annotations": {"resource-slack.io/load-until": "2020-01-01T00:00:00+00:00"},
    }
    api.put(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", metadata=metadata)


def test_a_load_that_may_not_be_deleted_is_named_and_holds_up_nothing(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        left_load(api, "shop")
        api.put("/apis/coordination.k8s.io/v1/namespaces/rs2/leases/resource-slack", spec={})
        api.script("delete", Reply.status(403, "Forbidden"))
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout) == (0, "lease rs2/resource-slack deleted\n"), found.stderr
    assert any(line.startswith("deployment shop/load is left: ") for line in found.stderr.splitlines())


@pytest.mark.parametrize("refused", [1, 2])
def test_who_may_not_see_all_loads_deletes_those_of_the_namespace_and_says_so(
    run: Run, tmp_path: Path, refused: int
) -> None:
    with FakeApi() as api:
        left_load(api, "rs2")
        left_load(api, "shop")
        api.script("list", *[Reply.status(403, "Forbidden")] * refused)
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
    assert found.code == 0, found.stderr
    assert found.stdout == ("deployment rs2/load deleted\n" if refused == 1 else "")
    where = "other namespaces than rs2" if refused == 1 else "any namespace"
    assert f"Deployments of loads in {where} are not looked for" in found.stderr


def test_a_lease_of_a_hundred_years_that_nobody_renews_is_not_waited_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        assert now[0] < 120.0

    monkeypatch.setattr(uninstall, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, time=time.time))
    with FakeApi() as api:
        spec = {"holderIdentity": "resource-slack-5d8f7c9b4-x2x7k_1", "leaseDurationSeconds": 2**31 - 1}
        api.put("/apis/coordination.k8s.io/v1/namespaces/rs2/leases/resource-slack", spec=spec)
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout) == (0, "lease rs2/resource-slack deleted\n"), found.stderr


def test_released_nodes_lose_the_operator_s_label_and_keep_a_person_s(run: Run, tmp_path: Path) -> None:
    label = "resource-slack.io/release"
    with FakeApi() as api:
        api.put("/api/v1/nodes/ours", metadata={"labels": {label: "Drifted.1800000000", "pool": "web"}})
        api.put("/api/v1/nodes/theirs", metadata={"labels": {label: "by-hand"}})
        words = ("uninstall", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        dry = run(*words)
        assert dry.stdout == f"node ours would lose its label {label}\n"
        assert api.count("patch") == 0
        api.script("patch", Reply(200, {"kind": "Node", "metadata": {"name": "ours"}}))
        found = run(*words, "--yes")
        assert found.code == 0, found.stderr
        assert found.stdout == f"node ours is released no longer: its label {label} is removed\n"
        assert api.last("patch").path == "/api/v1/nodes/ours"
        pointer = "/metadata/labels/resource-slack.io~1release"
        test = {"op": "test", "path": pointer, "value": "Drifted.1800000000"}
        assert json.loads(api.last("patch").body) == [test, {"op": "remove", "path": pointer}]
        assert api.count("patch") == 1


def test_without_the_right_to_list_nodes_it_says_how_labels_go(run: Run, tmp_path: Path) -> None:
    none = Reply(200, {"kind": "List", "metadata": {"resourceVersion": "5"}, "items": []})
    with FakeApi() as api:
        api.put(CLASS, metadata=OURS)
        api.script("list", none, none, none, Reply.status(403, "Forbidden"))
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        lists = [seen.path for seen in api.seen if seen.verb == "list"]
    assert found.code == 0, found.stderr
    assert lists[3] == "/api/v1/nodes"
    assert "kubectl label nodes -l resource-slack.io/release resource-slack.io/release-" in found.stderr


def test_nodes_lose_the_operator_s_taint_and_keep_those_of_others(run: Run, tmp_path: Path) -> None:
    ours = {"key": "resource-slack.io/slack", "effect": "PreferNoSchedule"}
    others = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    with FakeApi() as api:
        api.put("/api/v1/nodes/a", spec={"taints": [others, ours]})
        api.put("/api/v1/nodes/b", spec={"taints": [others]})
        words = ("uninstall", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        dry = run(*words)
        assert dry.stdout == "node a would lose its taint resource-slack.io/slack\n"
        assert api.count("patch") == 0
        api.script("patch", Reply.status(409, "Conflict"), Reply(200, {"kind": "Node", "metadata": {"name": "a"}}))
        found = run(*words, "--yes")
        assert found.code == 0, found.stderr
        assert found.stdout == "node a has lost its taint resource-slack.io/slack\n"
        assert api.count("patch") == 2, "somebody wrote the node in between"
        patch = json.loads(api.last("patch").body)
        assert patch["spec"] == {"taints": [others]}
        assert patch["metadata"]["resourceVersion"]
