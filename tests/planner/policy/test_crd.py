"""The CRD says what the models say, and the file in the chart is what the models generate."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack.cli.crd import with_annotations
from slack.cluster.labels import API_VERSION
from slack.planner.policy.crd import crd
from slack.planner.policy.spec import KIND, InvalidPolicy, PolicySpec, parse_policy
from slack.schema.policy_object import bound_problems
from tests.cases import run_for_each

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "resource-slack" / "crds" / "slackpolicies.yaml"


def version() -> dict[str, Any]:
    found: dict[str, Any] = crd()["spec"]["versions"][0]
    return found


def spec_schema() -> dict[str, Any]:
    found: dict[str, Any] = version()["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from nodes(one, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


def test_the_chart_has_the_generated_crd() -> None:
    assert yaml.safe_load(CHART.read_text()) == with_annotations(crd()), "run: make crds"


def test_it_is_cluster_scoped_with_a_status_subresource_and_the_promised_columns() -> None:
    assert crd()["spec"]["scope"] == "Cluster"
    assert crd()["spec"]["names"]["shortNames"] == ["slp"]
    assert set(version()["subresources"]) == {"status", "scale"}
    columns = {column["name"]: column.get("priority", 0) for column in version()["additionalPrinterColumns"]}
    shown = [name for name, priority in columns.items() if priority == 0]
    assert shown == [
        "READY",
        "SLACK",
        "RATE",
        "DESIRED",
        "RESERVED",
        "PENDING",
        "INSTANT",
        "TO-READY",
        "OBSERVED",
        "AGE",
    ]
    hidden = {"NODES", "COVERED", "BURST", "DISPLACED", "REMEDY", "LIMIT", "SATISFIED", "HOLD"}
    assert set(columns) - set(shown) == hidden


def test_every_printed_column_is_a_field_of_the_status_schema() -> None:
    status = version()["schema"]["openAPIV3Schema"]["properties"]["status"]
    for column in version()["additionalPrinterColumns"]:
        found = {"properties": {"status": status, "metadata": {"properties": {"creationTimestamp": {}}}}}
        for part in re.sub(r"\[.*\]", "", column["jsonPath"]).strip(".").split("."):
            found = found.get("items", found)["properties"][part]


def test_the_schema_is_structural() -> None:
    allowed = {
        "type",
        "default",
        "description",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "enum",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "minLength",
        "maxLength",
        "maxItems",
        "maxProperties",
        "anyOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    }
    for path, node in nodes(version()["schema"]["openAPIV3Schema"], ""):
        assert set(node) <= allowed, path
        assert node.get("x-kubernetes-int-or-string") or "type" in node, path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_every_field_can_be_explained() -> None:
    silent = [
        path
        for path, node in nodes(spec_schema(), "spec")
        if "description" not in node and not path.endswith("[]") and path != "spec"
    ]
    assert silent == []


def test_no_default_is_materialised_so_that_flags_and_later_versions_can_change_it() -> None:
    assert [path for path, node in nodes(spec_schema(), "spec") if "default" in node] == []


def test_the_fields_are_those_of_the_model() -> None:
    fields = {field.alias for field in PolicySpec.model_fields.values()}
    assert set(spec_schema()["properties"]) == fields


def test_prices_are_numbers_so_that_rules_can_compare_them() -> None:
    prices = spec_schema()["properties"]["objective"]["properties"]["prices"]
    assert prices["additionalProperties"] == {"type": "number", "minimum": 0, "maximum": 1e6}


def test_a_least_number_that_is_no_whole_one_is_a_rule_too_as_the_api_server_cuts_it_for_whole_numbers() -> None:
    share = spec_schema()["properties"]["objective"]["properties"]["instantStart"]
    assert [rule["rule"] for rule in share["x-kubernetes-validations"]] == ["self >= 0.5"]


def test_there_is_no_price_of_what_nobody_sells_by_the_hour() -> None:
    prices = spec_schema()["properties"]["objective"]["properties"]["prices"]
    assert [rule["rule"] for rule in prices["x-kubernetes-validations"]] == ["self.all(key, key in ['cpu', 'memory'])"]


def test_rates_are_numbers_and_bounded() -> None:
    rate = spec_schema()["properties"]["extraCapacity"]["properties"]["minRate"]
    assert (rate["type"], rate["minimum"], rate["maximum"]) == ("number", 0, 10)


@pytest.mark.parametrize("text", ["2", "500m", "1.5Gi", ".5", "1e3", "4G", "+1"])
def test_the_quantity_pattern_takes_what_the_model_takes(text: str) -> None:
    floor = spec_schema()["properties"]["extraCapacity"]["properties"]["floor"]["additionalProperties"]
    assert re.search(floor["pattern"], text)
    document = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": "x"}}
    parse_policy(document | {"spec": {"extraCapacity": {"floor": {"nvidia.com/gpu": text}}}}, source="test")


@pytest.mark.parametrize("text", ["-1", "1 Gi", "10%", "Gi", ""])
def test_the_quantity_pattern_refuses_what_the_model_refuses(text: str) -> None:
    floor = spec_schema()["properties"]["extraCapacity"]["properties"]["floor"]["additionalProperties"]
    assert not re.search(floor["pattern"], text)


@pytest.mark.parametrize(
    ("file", "names"), [("slackpolicy.yaml", ["web", "batch"]), ("spare-nodes.yaml", ["web", "gpu"])]
)
def test_the_examples_are_valid(file: str, names: list[str]) -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples" / file).read_text()))
    assert [parse_policy(document, source="example").name for document in documents] == names


def test_every_field_has_a_text_for_kubectl_explain() -> None:
    schema = version()["schema"]["openAPIV3Schema"]
    silent = [
        path
        for path, node in nodes(schema, "slackpolicy")
        if "description" not in node and not path.endswith("[]") and path != "slackpolicy.metadata"
    ]
    assert silent == []
    assert not any(
        re.search(r"\b[SR][0-9]+\b", node.get("description", "")) for _, node in nodes(schema, "slackpolicy")
    )


def _beyond(
    schema: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], Any]]:
    """Yield where a schema has a bound, with a value that is one beyond it."""
    if "maxItems" in schema:
        yield path, schema, [{}] * (schema["maxItems"] + 1)
    if "maxProperties" in schema:
        yield path, schema, {f"k{i}": "1" for i in range(schema["maxProperties"] + 1)}
    if "maxLength" in schema:
        yield path, schema, "1" * (schema["maxLength"] + 1)
    for name, one in schema.get("properties", {}).items():
        yield from _beyond(one, (*path, name))
    for key, step in (("items", "[0]"), ("additionalProperties", "k")):
        if isinstance(schema.get(key), dict):
            yield from _beyond(schema[key], (*path, step))


def _at(path: tuple[str, ...], value: Any) -> Any:
    for step in reversed(path):
        value = [value] if step == "[0]" else {step: value}
    return value


BOUNDS = list(_beyond(spec_schema()))


@run_for_each(("path", "schema", "value"), BOUNDS, ids=["".join(f".{p}" for p in own[0]) for own in BOUNDS])
def test_each_bound_of_the_crd_holds_for_files_too_in_the_same_words(
    path: tuple[str, ...], schema: dict[str, Any], value: Any
) -> None:
    (problem,) = bound_problems(PolicySpec, _at(path, value), "spec")
    where = "spec" + "".join(step if step.startswith("[") else f".{step}" for step in path)
    if isinstance(value, str):
        assert problem == f"{where}: Too long: may not be more than {schema['maxLength']} bytes"
    else:
        most = len(value) - 1
        assert problem == f"{where}: Too many: {most + 1}: must have at most {most} items"


def test_a_policy_with_one_step_more_than_the_crd_takes_is_refused() -> None:
    steps = [{"fromNodes": i, "minRate": 0.1} for i in range(65)]
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "web"}}
    with pytest.raises(InvalidPolicy, match=r"spec\.extraCapacity\.ladder: Too many: 65: must have at most 64 items"):
        parse_policy({**document, "spec": {"extraCapacity": {"ladder": steps}}}, source="web.yaml")
    assert parse_policy({**document, "spec": {"extraCapacity": {"ladder": steps[:64]}}}, source="web.yaml")
