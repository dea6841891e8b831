"""Patch files: one for each workload, whatever namespaces and workloads are called."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import yaml

from slack.audit.advice import patches
from slack.audit.findings.finding import Severity
from slack.cli.audit.export import write_patches
from tests.audit.build import pod_facts


def raised(namespace: str, owner: str, container: str) -> Any:
    """A finding with the advice to raise a container's limit, as far as it is looked at here."""
    pod = msgspec.structs.replace(pod_facts(owner=("Deployment", owner)), namespace=namespace)
    patch = patches.raise_limit(pod, msgspec.structs.replace(pod.containers[0], name=container), 600)
    return SimpleNamespace(severity=Severity.HIGH, advice=SimpleNamespace(patches=(patch,)))


def written(folder: Path, *findings: Any) -> dict[str, Any]:
    result: Any = SimpleNamespace(advice_for=lambda finding: (finding.advice,))
    write_patches(folder, result, findings)
    return {file.name: yaml.safe_load(file.read_text()) for file in folder.iterdir()}


def test_two_workloads_whose_names_join_alike_have_a_file_each(tmp_path: Path) -> None:
    found = written(tmp_path, raised("shop", "api-web", "a"), raised("shop-api", "web", "b"), raised("pay", "db", "c"))
    assert found.keys() == {"deployment-shop.api-web.yaml", "deployment-shop-api.web.yaml", "deployment-pay-db.yaml"}
    document = found["deployment-shop.api-web.yaml"]
    assert document["metadata"] == {"name": "api-web", "namespace": "shop"}
    assert [item["name"] for item in document["spec"]["template"]["spec"]["containers"]] == ["a"]


def test_containers_of_one_workload_have_one_file(tmp_path: Path) -> None:
    (document,) = written(tmp_path, raised("shop", "api", "a"), raised("shop", "api", "b")).values()
    assert [item["name"] for item in document["spec"]["template"]["spec"]["containers"]] == ["a", "b"]
