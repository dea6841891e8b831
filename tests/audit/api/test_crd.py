"""The CRDs of the auditor: what the models say, structural, and every column a field."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.audit.api.crd import policy_crd, report_crd
from slack.audit.api.policy import AuditPolicySpec, parse_audit_policy
from slack.cli.crd import with_annotations

ROOT = Path(__file__).resolve().parents[3]
CRDS = {"cpuauditpolicies": policy_crd, "cpuauditreports": report_crd}


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@pytest.mark.parametrize("plural", sorted(CRDS))
def test_the_chart_has_the_generated_crd(plural: str) -> None:
    file = ROOT / "charts" / "resource-slack" / "crds" / f"{plural}.yaml"
    assert yaml.safe_load(file.read_text()) == with_annotations(CRDS[plural]()), "run: make crds"


@pytest.mark.parametrize("plural", sorted(CRDS))
def test_every_printed_column_is_a_field(plural: str) -> None:
    crd = CRDS[plural]()
    properties = schema_of(crd)["properties"] | {"metadata": {"properties": {"creationTimestamp": {}}}}
    for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]:
        found: dict[str, Any] = {"properties": properties}
        for part in re.sub(r"\[.*\]", "", column["jsonPath"]).strip(".").split("."):
            found = found.get("items", found)["properties"][part]


@pytest.mark.parametrize("plural", sorted(CRDS))
def test_every_text_list_and_map_has_a_bound(plural: str) -> None:
    for path, node in nodes(schema_of(CRDS[plural]())):
        if node.get("type") == "array":
            assert node["maxItems"] <= 200, path
        if isinstance(node.get("additionalProperties"), dict):
            assert node["maxProperties"] <= 64, path
        bounded = {"maxLength", "enum", "format"} & set(node)
        assert node.get("type") != "string" or bounded or path in (".apiVersion", ".kind"), path


def test_what_kubectl_prints_of_a_policy_and_of_reports() -> None:
    def shown(crd: dict[str, Any]) -> list[str]:
        columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
        return [column["name"] for column in columns if not column.get("priority")]

    assert shown(policy_crd()) == ["MODE", "READY", "NODES", "SILENT", "NAMESPACES", "HIGH", "WARN", "AGE"]
    assert shown(report_crd()) == ["PODS", "HIGH", "WARN", "LOST", "WORST", "MEASURED", "AGE"]
    assert (policy_crd()["spec"]["scope"], report_crd()["spec"]["scope"]) == ("Cluster", "Namespaced")


def test_every_field_of_the_spec_is_described_and_none_has_a_default() -> None:
    for path, node in nodes(schema_of(policy_crd())["properties"]["spec"], "spec"):
        assert node.get("description") or path.endswith("[]"), path
        assert "default" not in node, path


def test_the_example_is_a_good_policy_that_changes_nothing() -> None:
    example = yaml.safe_load((ROOT / "examples" / "cpuauditpolicy.yaml").read_text())
    spec = parse_audit_policy(example, source="examples/cpuauditpolicy.yaml").spec
    assert spec == AuditPolicySpec()
