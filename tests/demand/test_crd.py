"""The CRDs say what the models say, in the same words."""

from collections.abc import Iterator
from typing import Any

import pytest

from slack.demand import policy, template
from slack.demand.crd import pool_crd, quota_crd
from slack.demand.policy import BOUNDS, out_of_bounds

Json = dict[str, Any]


def version(crd: Json) -> Any:
    return crd["spec"]["versions"][0]


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def messages(crd: Json) -> set[str]:
    whole = version(crd)["schema"]["openAPIV3Schema"]
    return {rule["message"] for _, node in nodes(whole) for rule in node.get("x-kubernetes-validations", ())}


def test_what_the_models_say_of_several_fields_the_rules_say_too() -> None:
    found = [getattr(room, name) for room in (policy, template) for name in dir(room) if name.isupper()]
    texts = {text for text in found if isinstance(text, str) and " " in text}
    told = messages(pool_crd())
    assert texts <= told
    assert {out_of_bounds(field) for field in BOUNDS} <= told


def test_the_scale_is_the_containers_that_are_there_at_the_least() -> None:
    found = version(pool_crd())
    assert found["subresources"]["scale"] == {
        "specReplicasPath": ".spec.limits.minContainers",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    names = [column["name"] for column in found["additionalPrinterColumns"] if not column.get("priority")]
    assert names == ["WANTED", "READY", "CREATING", "LAG", "UNMET", "THROTTLED", "AGE"]


@pytest.mark.parametrize("crd", [pool_crd(), quota_crd()], ids=["pool", "quota"])
def test_every_field_has_a_description_and_every_text_and_list_a_bound(crd: Json) -> None:
    assert crd["spec"]["scope"] == "Namespaced"
    for path, node in nodes(version(crd)["schema"]["openAPIV3Schema"]):
        if path not in ("", ".metadata", ".status.conditions[]"):
            assert node.get("description"), path
        if node.get("type") == "string" and path not in (".apiVersion", ".kind"):
            assert {"maxLength", "enum", "format"} & set(node), path
        if node.get("type") == "array":
            assert "maxItems" in node, path


def test_a_template_keeps_what_is_not_judged() -> None:
    spec = version(pool_crd())["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]
    inner = spec["properties"]["spec"]
    for open_node in (spec["properties"]["metadata"], inner, inner["properties"]["containers"]["items"]):
        assert open_node["x-kubernetes-preserve-unknown-fields"] is True
