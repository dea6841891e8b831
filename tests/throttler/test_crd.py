"""The CRD says what the models say, in the same words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from slack.throttler.config import ThrottlePolicySpec, parse_throttle_policy
from slack.throttler.crd import throttle_crd
from slack.throttler.fields import NOT_A_NUMBER, NOT_A_SHARE, NOT_PER_CORE

ROOT = Path(__file__).resolve().parents[2]
NULLABLE = {
    "maxStartingContainersPerCore",
    "maxLoadAverageMultiplier",
    "maxLoadAverageMulitplier",
    "minRate",
    "maxRate",
    "maxCPU",
    "maxCPUPressure",
    "maxIOPressure",
}


def version() -> Any:
    return throttle_crd()["spec"]["versions"][0]


def spec() -> Any:
    return version()["schema"]["openAPIV3Schema"]["properties"]["spec"]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_null_is_kept_exactly_where_it_turns_a_limit_off() -> None:
    fields = spec()["properties"]
    assert {name for name, field in fields.items() if field.get("nullable")} == NULLABLE
    for name in NULLABLE:
        alone = ThrottlePolicySpec.model_validate({name: None}, by_alias=True)
        assert alone.model_fields_set


def test_the_rules_of_a_field_speak_as_the_models_do() -> None:
    said = {name: field["x-kubernetes-validations"][0]["message"] for name, field in spec()["properties"].items()
            if name in NULLABLE}  # fmt: skip
    assert set(said.values()) == {NOT_A_NUMBER, NOT_A_SHARE, NOT_PER_CORE}
    assert said["maxCPU"] == NOT_A_SHARE
    assert spec()["properties"]["maxShare"]["exclusiveMinimum"] is True


def test_every_text_has_a_bound_and_every_field_a_description() -> None:
    for path, node in nodes(version()["schema"]["openAPIV3Schema"]):
        bounded = {"maxLength", "enum", "format"} & set(node)
        assert node.get("type") != "string" or bounded or path in (".apiVersion", ".kind"), path
    for path, node in nodes(spec(), "spec"):
        assert node.get("description") or path.endswith("[]"), path
        assert "default" not in node, path


def test_what_kubectl_prints() -> None:
    shown = [column["name"] for column in version()["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["READY", "NODES", "STARTING", "PENDING", "BLOCKED", "FAILED", "FORCED", "AGE"]
    assert throttle_crd()["spec"]["scope"] == "Cluster"


def test_the_example_has_every_field_and_is_the_default() -> None:
    document = yaml.safe_load((ROOT / "examples" / "throttlepolicy.yaml").read_text())
    fields = set(spec()["properties"]) - {"maxLoadAverageMulitplier"}
    assert set(document["spec"]) == fields
    example = parse_throttle_policy(document, source="examples/throttlepolicy.yaml").spec
    assert example.limits(8) == ThrottlePolicySpec().limits(8)
