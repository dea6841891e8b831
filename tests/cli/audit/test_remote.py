"""`audit --all-nodes` and `audit --prometheus` as commands, against fakes on loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Invoked

from slack.cli.audit import pod_names as audit_names
from slack.cli.audit import sampling as audit_taking
from slack.cli.commands import app
from tests.cli.audit.test_sources import Metrics, Reply, cluster, faked, healthy, status


def audit(*args: str | Path) -> Invoked:
    return CliRunner().invoke(app, ["audit", *map(str, args)])


@contextmanager
def served(folder: Path, pods: Reply, *nodes: str) -> Iterator[Path]:
    """A cluster of such nodes that answers so when it is asked for pods; its kubeconfig."""
    scrapes = cluster({name: healthy() for name in nodes})

    def answer(path: str) -> Reply:
        if path.startswith("/version"):
            return 200, b'{"gitVersion": "v1.99.0"}'
        return pods if path.startswith("/api/v1/pods") else scrapes(path)

    with faked(answer) as fake:
        config = folder / "kubeconfig"
        contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        clusters = [{"name": "c", "cluster": {"server": fake.url}}]
        users = [{"name": "u", "user": {"token": "t"}}]
        config.write_text(
            json.dumps({"current-context": "c", "contexts": contexts, "clusters": clusters, "users": users})
        )
        yield config


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_taking, "_waited", lambda *_: True)


def test_every_node_of_a_cluster_is_audited(tmp_path: Path) -> None:
    with served(tmp_path, (200, b'{"metadata": {}, "items": []}'), "a", "b") as config:
        found = audit("--all-nodes", "--kubeconfig", config, "-o", "json", "--all")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["source"] == "cadvisor"
    assert [node["name"] for node in document["nodes"]] == ["a", "b"]
    assert document["windowSeconds"] == 60
    assert {finding["node"] for finding in document["findings"]} == {"a", "b"}


def test_chosen_nodes_only(tmp_path: Path) -> None:
    with served(tmp_path, (200, b'{"metadata": {}, "items": []}'), "a", "b") as config:
        found = audit("--all-nodes", "--node", "b", "--kubeconfig", config, "-o", "json")
    assert [node["name"] for node in json.loads(found.stdout)["nodes"]] == ["b"]


def test_a_cluster_whose_pods_may_not_be_listed_is_audited_all_the_same(tmp_path: Path) -> None:
    with served(tmp_path, status(403, "Forbidden", "pods is forbidden"), "a") as config:
        found = audit("--all-nodes", "--kubeconfig", config)
    assert found.exit_code == 0
    assert "names: " in found.stderr
    assert "pods is forbidden" in found.stderr
    assert "cgroups in 60.0 s" in found.stdout


def test_names_that_do_not_come_in_time_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    hold = threading.Event()

    def late(*_: object) -> object:
        hold.wait(20)
        raise ValueError("too late")

    monkeypatch.setattr(audit_names, "_listed", late)
    monkeypatch.setattr(audit_names, "_PATIENCE_SECONDS", dict.fromkeys(audit_names._PATIENCE_SECONDS, 0.05))
    with served(tmp_path, (200, b""), "a") as config:
        found = audit("--all-nodes", "--kubeconfig", config)
    hold.set()
    assert found.exit_code == 0
    assert "has not named the pods in time" in found.stderr


def test_no_cluster_is_bad_input(tmp_path: Path) -> None:
    found = audit("--all-nodes", "--kubeconfig", tmp_path / "none")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "no such file" in found.stderr


def test_a_history_is_audited_without_waiting(tmp_path: Path) -> None:
    with faked(Metrics("shop")) as fake:
        found = audit("--prometheus", fake.url, "--window", "5m", "--no-names", "-o", "json", "--all")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["source"] == "prometheus"
    assert document["findings"]


def test_what_explains_a_history_has_no_threads(tmp_path: Path) -> None:
    with faked(Metrics("shop")) as fake:
        listed = audit("--prometheus", fake.url, "--window", "5m", "--no-names", "-o", "json", "--all")
        pod = next(finding for finding in json.loads(listed.stdout)["findings"] if finding["level"] == "container")
        name = f"pod/{pod['pod']}/{pod['container']}"
        found = audit("explain", "--prometheus", fake.url, "--window", "5m", "--no-names", "-n", pod["namespace"], name)
    assert found.exit_code == 0, found.output
    assert "threads      unknown" in found.stdout or "No level has a CPU limit" in found.stdout


def test_a_namespace_that_nobody_has_is_bad_input(tmp_path: Path) -> None:
    with served(tmp_path, (200, b'{"metadata": {}, "items": []}'), "a") as config:
        found = audit("--all-nodes", "--kubeconfig", config, "-n", "no-such", "--fail-on", "high")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "-n no-such: none of the" in found.stderr
    assert "namespaces here are " in found.stderr


def test_a_kubelet_that_never_ends_its_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_names, "_MIB", 1)
    with faked(lambda _: (200, b" " * 65)) as fake:
        found = audit("--kubelet-pods", f"{fake.url}/pods")
    assert found.exit_code == 2
    assert "/pods: is longer than 64 MiB; expected one node's /pods" in found.stderr
