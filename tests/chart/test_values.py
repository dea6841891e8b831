"""The chart's own files: versions, values beside their schema, examples."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from slack.planner.policy.spec import parse_policy
from tests.cases import run_for_each

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "resource-slack"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
PODS = (
    "operator",
    "audit.agent",
    "audit.controller",
    "throttler.agent",
    "throttler.controller",
    "scorer",
    "loadWatcher",
    "demand.controller",
)
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))


def test_the_chart_has_the_packages_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert f"ARG VERSION={version}\n" in (ROOT / "Dockerfile").read_text()


def test_the_policys_part_of_the_schema_is_what_the_models_say() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "charts" / "make_values_schema.py"], capture_output=True, text=True, check=True
    )
    assert json.loads(made.stdout) == SCHEMA, "run: make crds"


def test_null_turns_a_limit_off_in_the_charts_policies_too() -> None:
    """`nullable` is of the CRD's dialect: a schema that has it as it is refuses what the CRD takes."""
    limits = SCHEMA["$defs"]["throttlePolicy"]["properties"]
    assert limits["maxCPU"]["type"] == limits["minRate"]["type"] == ["string", "null"]
    assert '"nullable"' not in json.dumps(SCHEMA)


def test_another_spelling_of_a_field_is_refused_with_the_one_that_is_meant_and_no_field_is() -> None:
    extra = SCHEMA["$defs"]["policy"]["properties"]["extraCapacity"]
    for path in (SCHEMA["$defs"]["policy"], extra, SCHEMA["$defs"]["auditPolicy"]):
        for pattern in path["patternProperties"]:
            assert not [name for name in path["properties"] if re.search(pattern, name)], pattern
    said = {pattern: refused["const"] for pattern, refused in extra["patternProperties"].items()}
    for slip in ("minrate", "min_rate", "min-rate", "MinRate", "MINRATE"):
        assert [text for pattern, text in said.items() if re.search(pattern, slip)] == [
            "under minRate: this field is unknown"
        ]


@run_for_each(
    ("key", "value", "good"),
    [
        ("team", "shop", True),
        ("example.com/team", "shop_1.a-B", True),
        ("team", "", True),
        ("a" * 63, "b" * 63, True),
        ("a" * 64, "b", False),
        ("team", "b" * 64, False),
        ("bad key!", "x", False),
        ("Example.com/team", "x", False),
        ("/team", "x", False),
        ("team", "-x", False),
    ],
)
def test_labels_are_those_that_an_api_server_takes(key: str, value: str, good: bool) -> None:
    ((keys, values),) = SCHEMA["$defs"]["labelMap"]["patternProperties"].items()
    assert bool(re.search(keys, key) and re.search(values["pattern"], value)) == good
    assert SCHEMA["$defs"]["labelMap"]["additionalProperties"] is False


def test_annotations_take_any_text_and_capitals_in_the_prefix_of_a_key() -> None:
    ((keys, values),) = SCHEMA["$defs"]["annotationMap"]["patternProperties"].items()
    assert values == {"type": "string"}
    assert re.search(keys, "Example.com/team")
    assert not re.search(keys, "bad key")


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(schema.get("$ref", ""))
    return SCHEMA["$defs"][reference.rpartition("/")[2]] if reference else schema


def differences(values: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    properties = resolved(schema).get("properties")
    if properties is None:
        return
    assert resolved(schema)["additionalProperties"] is False, path
    yield from (f"{path}{name}" for name in values.keys() ^ properties.keys())
    for name, value in values.items():
        if isinstance(value, dict) and name in properties:
            yield from differences(value, properties[name], f"{path}{name}.")


def test_values_and_schema_name_the_same_keys_and_take_no_others() -> None:
    # Helm's own key; a list's items, which have no default; the two halves of Kubernetes' own types; a policy's fields.
    known = {f"operator.placeholders.{field}" for field in SCHEMA["$defs"]["placeholders"]["properties"]}
    known |= {f"capacityBuffers.ceiling.{field}" for field in ("cpu", "memory", "perHour", "namespaceShare")}
    known |= {"global", "scorer.scheduler.resources.claims", "scorer.scheduler.resources.limits"}
    for part in PODS:
        known |= {f"{part}.resources.claims"}
        known |= {f"{part}.affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")}
    assert set(differences(VALUES, SCHEMA, "")) == known


MAY_BE_NULL = {
    *(f"{part}.resources.{kind}" for part in PODS for kind in ("requests", "limits")),
    *(f"{part}.{kind}" for part in PODS for kind in ("podSecurityContext", "securityContext")),
    "operator.metrics.dashboard.labels",
    "audit.agent.tolerations",
    "throttler.agent.tolerations",
    "scorer.scheduler.resources.requests",
}


def unguarded(values: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the keys that a template reads and that `--set KEY=null` may take away without a word."""
    for name, value in values.items():
        here = f"{path}{name}"
        if value not in ("", [], {}) and name not in resolved(schema).get("required", ()) and here not in MAY_BE_NULL:
            yield here
        part = resolved(schema)["properties"][name]
        if isinstance(value, dict) and "properties" in resolved(part) and here not in MAY_BE_NULL:
            yield from unguarded(value, part, f"{here}.")


def test_a_value_that_is_set_to_null_is_refused_by_its_name() -> None:
    assert list(unguarded(VALUES, SCHEMA, "")) == []


@run_for_each("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_says_what_it_is_for_and_changes_something(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# ")
    assert yaml.safe_load(text)
    assert f"`examples/{file.name}`" in (CHART / "README.md").read_text()


@run_for_each("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_policies_of_an_example_are_good(file: Path) -> None:
    for name, spec in (yaml.safe_load(file.read_text()).get("policies") or {}).items():
        document = {
            "apiVersion": "resource-slack.io/v1alpha1",
            "kind": "SlackPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
        assert parse_policy(document, source=file.name).name == name
