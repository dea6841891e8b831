"""Prints values.schema.json with the policies' own schemas in it, so that a typo deep in `policies` is refused too.

The API server would drop an unknown field of a custom resource without a word to Helm's users. All but `$defs.policy`,
`$defs.placeholders`, `$defs.auditPolicy`, `$defs.throttlePolicy`, `$defs.activationPool`, `$defs.activationQuota` and
`$defs.amount` is written by hand; `make crds` runs this. A pod's template stays open: what it may have is the API
server's to say.

JSON Schema has no messages. Helm prints a constant that a value does not equal as "value must be '...'", so what is to
be said is a constant.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slack.audit.api.crd import policy_crd
from slack.cluster.amounts import (
    IN_BYTES,
    LEAST_BYTES,
    NAMED,
    NO_CORES,
    NO_RESOURCE,
    OF_BYTES,
    OTHER_NAMES,
    TOO_FEW_BYTES,
)
from slack.cluster.rates import BOUNDING, MOST_WITHOUT_CEILING, NEEDS_CEILING
from slack.demand.crd import pool_crd, quota_crd
from slack.planner.policy.crd import crd
from slack.planner.policy.placeholders import (
    ANNOTATION_TAKEN,
    ANNOTATIONS_NOT_TAKEN,
    LABEL_TAKEN,
    LABELS_NOT_TAKEN,
)
from slack.schema.structural import QUANTITY
from slack.throttler.crd import throttle_crd

SCHEMA = Path(__file__).parent / "resource-slack" / "values.schema.json"
_FRACTION = r"^[0-9]+(\.[0-9]+)?$"
_NUMBER = {"const": "a number such as 0.1, which is ten percent"}
_NO_NUMBER = {"if": {"type": "string", "not": {"pattern": _FRACTION}}, "then": _NUMBER}
_ABOVE_ONE = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": MOST_WITHOUT_CEILING},
        {"type": "string", "pattern": r"^0*([2-9]|[1-9][0-9]+)(\.[0-9]+)?$|^0*1\.[0-9]*[1-9][0-9]*$"},
    ]
}
"""What is no number, such as 10%, is told as that and not as a large rate."""
_FEW_BYTES = {
    "anyOf": [
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": LEAST_BYTES},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": LEAST_BYTES},
        {"type": "string", "pattern": r"^\+?0*([1-9][0-9]{0,5}(\.[0-9]*)?|[1-9][0-9]{0,2}(\.[0-9]*)?(k|Ki))$"},
        {"type": "string", "pattern": r"^\+?[0-9.]*[1-9][0-9.]*[num]$"},
    ]
}
"""Nearly all texts below 1Mi; the rest the API server refuses."""
_AMOUNT = {
    "allOf": [
        {
            "if": {"not": {"propertyNames": {"anyOf": [{"enum": list(NAMED)}, {"pattern": OTHER_NAMES}]}}},
            "then": {"const": NO_RESOURCE},
        },
        {
            "if": {"required": ["cpu"], "properties": {"cpu": {"type": "string", "pattern": OF_BYTES}}},
            "then": {"const": NO_CORES},
        },
        {
            "if": {"anyOf": [{"required": [name], "properties": {name: _FEW_BYTES}} for name in IN_BYTES]},
            "then": {"const": TOO_FEW_BYTES},
        },
    ]
}
"""What an amount is not, in the words of the CRD: JSON Schema has no messages, and Helm prints the constant."""
_NOT_JSON_SCHEMA = ("x-kubernetes-", "format", "description")
"""Texts too: `kubectl explain` has them, and a change of words is none of the chart."""


def closed(node: Any) -> Any:
    """Return a schema that takes the same values, and no unknown keys."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            kept[key] = {name: closed(item) for name, item in value.items()}
        elif not key.startswith(_NOT_JSON_SCHEMA):
            kept[key] = closed(value)
    for bound in (
        "Minimum",
        "Maximum",
    ):  # a flag beside the bound in the CRD's dialect, the bound itself in JSON Schema
        if kept.pop(f"exclusive{bound}", False):
            kept[f"exclusive{bound}"] = kept.pop(bound.lower())
    if kept.pop("nullable", False):  # the CRD's dialect; to JSON Schema null is a type of its own
        kept["type"] = [kept["type"], "null"]
    if node.get("additionalProperties") == QUANTITY:
        kept["allOf"] = [{"$ref": "#/$defs/amount"}]
    if kept.get("type") == "number":  # Helm's --set gives fractions as text; the chart writes them as numbers again
        kept["type"] = ["number", "string"]
        kept |= _NO_NUMBER
    if "properties" in kept and not node.get("x-kubernetes-preserve-unknown-fields"):
        kept["additionalProperties"] = False
        kept["patternProperties"] = slips(kept["properties"])
    return kept


def slips(names: Iterable[str]) -> dict[str, Any]:
    """Return patterns of the other spellings of fields, each refused with the field that is meant."""
    found: dict[str, Any] = {}
    for name in names:
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+", name)]
        others = {"".join(words), "_".join(words), "-".join(words), name[:1].upper() + name[1:], name.upper()}
        found[f"^({'|'.join(sorted(others - set(names)))})$"] = {"const": f"under {name}: this field is unknown"}
    return found


def with_ceiling(extra: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of extraCapacity that refuses a rate above 1 without a ceiling, in the words of the CRD."""
    rated = {"required": ["minRate"], "properties": {"minRate": _ABOVE_ONE}}
    large = [
        rated,
        *({"required": [name], "properties": {name: {"contains": rated}}} for name in ("ladder", "schedule")),
    ]
    bounded = {"required": ["ceiling"], "properties": {"ceiling": {"required": list(BOUNDING)}}}
    return {**extra, "if": {"anyOf": large, "not": bounded}, "then": {"const": f"bounded: {NEEDS_CEILING}"}}


def main() -> None:
    """Print the whole file."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["$defs"]["amount"] = _AMOUNT
    kinds = {
        "policy": crd(),
        "auditPolicy": policy_crd(),
        "throttlePolicy": throttle_crd(),
        "activationPool": pool_crd(),
        "activationQuota": quota_crd(),
    }
    for name, definition in kinds.items():
        (version,) = definition["spec"]["versions"]
        schema["$defs"][name] = closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    policy = schema["$defs"]["policy"]["properties"]
    policy["extraCapacity"] = with_ceiling(policy["extraCapacity"])
    extras = policy["placeholders"]["properties"]
    for name, pattern, text in (
        ("labels", LABELS_NOT_TAKEN, LABEL_TAKEN),
        ("annotations", ANNOTATIONS_NOT_TAKEN, ANNOTATION_TAKEN),
    ):
        extras[name] |= {"if": {"not": {"propertyNames": {"not": {"pattern": pattern}}}}, "then": {"const": text}}
    schema["$defs"]["placeholders"] = policy["placeholders"]
    policy["placeholders"] = {"$ref": "#/$defs/placeholders"}
    rate = schema["properties"]["operator"]["properties"]["extraCapacityMinRate"]
    rate["allOf"] = [_NO_NUMBER, {"if": _ABOVE_ONE, "then": {"const": f"at most 1: {NEEDS_CEILING}"}}]
    print(json.dumps(schema, indent=2))


if __name__ == "__main__":
    main()
