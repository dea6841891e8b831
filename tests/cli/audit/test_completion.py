"""Shell completion of `audit`: its commands, its flags and what the cluster has."""

from pathlib import Path

import yaml

from tests.cli.test_completion import offered
from tests.kube.fake_api import FakeApi


def test_commands_flags_and_values_are_offered() -> None:
    assert offered("audit", "") == ["explain", "kernel", "agent", "controller"]
    assert {"--watch", "--all-nodes", "--fail-on"} <= set(offered("audit", "--"))
    assert offered("audit", "--level", "p") == ["pod"]
    assert offered("audit", "--fail-on", "") == ["none", "warn", "high"]
    assert {"--picture", "--window"} <= set(offered("audit", "explain", "--"))


def test_namespaces_and_nodes_are_offered(tmp_path: Path) -> None:
    with FakeApi() as api:
        cluster = {"name": "a", "cluster": {"server": api.connection().host}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        config = {"clusters": [cluster], "users": [{"name": "a", "user": {}}], "contexts": [context]}
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **config}))
        for name in ("shop", "db"):
            api.put(f"/api/v1/namespaces/{name}")
        api.put("/api/v1/nodes/n1")
        assert offered("audit", "--kubeconfig", str(path), "-n", "s") == ["shop"]
        assert offered("audit", "explain", "--kubeconfig", str(path), "-n", "") == ["db", "shop"]
        assert offered("audit", "--all-nodes", "--kubeconfig", str(path), "--node", "") == ["n1"]
