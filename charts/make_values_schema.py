"""Prints values.schema.json with the policies' own schemas in it, so that a typo deep in `policies` is refused too.

The API server would drop an unknown field of a custom resource without a word to Helm's users. All but `$defs.policy`
and `$defs.auditPolicy` is written by hand; `make crds` runs this.
"""

import json
from pathlib import Path
from typing import Any

from slack.cfs.crd import policy_crd
from slack.planner.crd import crd

SCHEMA = Path(__file__).parent / "resource-slack" / "values.schema.json"
_FRACTION = r"^[0-9]+(\.[0-9]+)?$"
_NOT_JSON_SCHEMA = ("x-kubernetes-", "format", "description")
"""Texts too: `kubectl explain` has them, and a change of words is none of the chart."""


def closed(node: Any) -> Any:
    """Return a schema that takes the same values, and no unknown keys."""
    if isinstance(node, list):
        return [closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            kept[key] = {name: closed(one) for name, one in value.items()}
        elif not key.startswith(_NOT_JSON_SCHEMA):
            kept[key] = closed(value)
    for bound in (
        "Minimum",
        "Maximum",
    ):  # a flag beside the bound in the CRD's dialect, the bound itself in JSON Schema
        if kept.pop(f"exclusive{bound}", False):
            kept[f"exclusive{bound}"] = kept.pop(bound.lower())
    if kept.get("type") == "number":  # Helm's --set gives fractions as text; the chart writes them as numbers again
        kept |= {"type": ["number", "string"], "pattern": _FRACTION}
    if "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def main() -> None:
    """Print the whole file."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for name, definition in (("policy", crd()), ("auditPolicy", policy_crd())):
        (version,) = definition["spec"]["versions"]
        schema["$defs"][name] = closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    print(json.dumps(schema, indent=2))


if __name__ == "__main__":
    main()
