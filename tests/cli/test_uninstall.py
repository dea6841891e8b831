"""`uninstall` as a person calls it: short flags, and what it says of things that it keeps."""

from pathlib import Path

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
