"""`uninstall` as a person calls it: short flags, and what it says of things that it keeps."""

from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from tests.kube.fake_api import FakeApi

CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"


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
        config = {
            "clusters": [{"name": "c", "cluster": {"server": api.connection().host}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        found = run("uninstall", "--yes", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", tmp_path / "config")
        assert api.count("delete") == 0
    assert found.code == 0
    said = f"priorityclass resource-slack is kept: {why}, so the operator did not make it"
    assert said in found.stderr.splitlines()
    assert "nothing of resource-slack is left in namespace rs2" in found.stderr
