"""The harness's pure parts: manifests, texts of failures, what it reads."""

import json
import socket
from pathlib import Path

import pytest
import yaml

from e2e.harness.api import Api
from e2e.harness.autoscalers import cluster_autoscaler
from e2e.harness.autoscalers.cluster_autoscaler import NodeGroup
from e2e.harness.cluster import access, audit_log, backend, kwok
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.objects import deployment, describe, wait_until
from e2e.harness.pod_times import percentile
from e2e.harness.ports import free_port, is_listening


def test_ports_are_given_once_and_are_not_the_kernels() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    assert not any(is_listening(port) for port in ports)
    with socket.create_server(("127.0.0.1", ports[0])):
        assert is_listening(ports[0])


def test_the_autoscalers_templates_are_a_list_of_nodes_that_are_not_ready() -> None:
    config, templates = cluster_autoscaler.config_maps([NodeGroup("general", min_count=1, max_count=7)])
    settings = yaml.safe_load(config["data"]["config"])
    assert settings["nodegroups"] == {"fromNodeLabelKey": cluster_autoscaler.GROUP_LABEL}
    assert settings["configmap"]["name"] == templates["metadata"]["name"]
    nodes = yaml.safe_load(templates["data"]["templates"])
    assert nodes["kind"] == "List"
    (node,) = nodes["items"]
    assert node["metadata"]["labels"][cluster_autoscaler.GROUP_LABEL] == "general"
    assert "kubernetes.io/hostname" not in node["metadata"]["labels"]
    assert node["metadata"]["annotations"]["cluster-autoscaler.kwok.nodegroup/max-count"] == "7"
    assert node["metadata"]["annotations"][kwok.BOOT_SECONDS] == "0"
    assert [(entry["type"], entry["status"]) for entry in node["status"]["conditions"]] == [("Ready", "False")]


def test_the_autoscaler_is_asked_for_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(cluster_autoscaler.VARIABLE, raising=False)
    with pytest.raises(UnavailableError, match="set CLUSTER_AUTOSCALER to the path"):
        cluster_autoscaler.binary()
    monkeypatch.setenv(cluster_autoscaler.VARIABLE, str(tmp_path))
    with pytest.raises(UnavailableError, match="is not a program"):
        cluster_autoscaler.binary()


def test_the_autoscaler_listens_on_loopback() -> None:
    assert "--address=127.0.0.1:1234" in cluster_autoscaler.flags(1234)


def test_kwoks_configuration_is_its_options_and_the_stages() -> None:
    documents = list(yaml.safe_load_all(kwok.configuration()))
    assert documents[0]["kind"] == "KwokConfiguration"
    assert [document["metadata"]["name"] for document in documents[1:]] == [
        "node-register",
        "node-ready",
        "pod-run",
        "pod-complete",
        "pod-stop",
    ]


@pytest.mark.parametrize(("boot_seconds", "ready"), [(0, "True"), (20, "False")])
def test_a_node_that_boots_is_not_ready_at_first(boot_seconds: int, ready: str) -> None:
    node = kwok.node("n", boot_seconds=boot_seconds, extended={"example.com/gpu": "2"})
    assert node["status"]["conditions"][0]["status"] == ready
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert node["status"]["allocatable"]["example.com/gpu"] == "2"


def test_kind_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BACKEND", "kind")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no Docker runs here"):
        backend.choose(tmp_path / "run").start()
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'no daemon' >&2\nexit 1\n")
    docker.chmod(0o755)
    with pytest.raises(UnavailableError, match="no Docker runs here"):
        backend.choose(tmp_path / "run").start()


def test_an_unknown_backend_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BACKEND", "minikube")
    with pytest.raises(HarnessError, match="BACKEND=minikube is neither local nor kind"):
        backend.choose(tmp_path)


def test_waiting_in_vain_tells_what_was_there_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.harness.objects.time_scale", lambda: 3.0)
    with pytest.raises(HarnessError, match=r"waited 0\.3 s for three nodes; last seen: \['a', 'b'\]"):
        wait_until(lambda: False, 0.1, "three nodes", state=lambda: ["a", "b"], every=0.02)
    answers = iter([[], [1]])
    assert wait_until(lambda: next(answers), 1, "a second answer", every=0.01) == [1]


def test_a_pending_pod_is_described_with_its_reason() -> None:
    manifest = {
        "metadata": {"name": "web-1"},
        "spec": {},
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "node-2",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}],
        },
    }
    assert describe(manifest) == "web-1 Pending on no node, nominated to node-2: 0/3 nodes are available"


def test_a_deployments_pods_have_its_label_and_more() -> None:
    template = deployment("web", 2, labels={"tier": "front"}, nodeSelector={"zone": "a"})["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert template["spec"]["nodeSelector"] == {"zone": "a"}


def test_the_audit_log_is_read_from_a_mark_and_without_a_half_line(tmp_path: Path) -> None:
    def line(user: str, verb: str) -> bytes:
        target = {"apiGroup": "apps", "resource": "replicasets", "subresource": "scale", "name": "r", "namespace": "n"}
        event = {
            "user": {"username": user},
            "verb": verb,
            "objectRef": target,
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        }
        return json.dumps(event).encode() + b"\n"

    path = tmp_path / "audit.jsonl"
    first = line("old", "get")
    path.write_bytes(first + line("a", "patch") + line("b", "patch") + line("a", "list") + line("a", "delete")[:-20])
    (entry,) = audit_log.entries(path, user="a", verbs=audit_log.WRITES, offset=len(first))
    assert (entry.resource, entry.namespace, entry.name, entry.code) == ("apps/replicasets/scale", "n", "r", 200)


def test_a_role_can_only_be_bound_in_a_namespace(tmp_path: Path) -> None:
    cluster_admin = access.Access("admin", tmp_path, Api.__new__(Api))
    with pytest.raises(HarnessError, match="Role leases can only be bound in a namespace"):
        access.grant(cluster_admin.api, cluster_admin, "leases", kind="Role")
    with pytest.raises(HarnessError, match="no ClusterRole or Role"):
        access.grant_manifests(cluster_admin.api, cluster_admin, [{"kind": "ServiceAccount"}])


def test_percentiles_lie_between_the_values() -> None:
    assert percentile([3.0], 99) == 3.0
    assert percentile(range(101), 50) == 50
    assert 98 < percentile(range(101), 99) <= 100
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
