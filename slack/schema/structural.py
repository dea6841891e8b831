"""A CustomResourceDefinition out of a pydantic model: its JSON schema made structural, with CEL rules beside it.

Invariants: no references, no null, no titles; every text, array and map has a bound, because CEL's cost is estimated
from the bounds; defaults are not materialised, so that a flag or a later version can still change them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from slack.cluster.amounts import IN_BYTES, NAMED, NO_CORES, NO_RESOURCE, OF_BYTES, OTHER_NAMES, TOO_FEW_BYTES

Schema = dict[str, Any]
Rules = Mapping[str, tuple[tuple[str, str], ...]]
"""By model: CEL rules and what is said when one does not hold (the model validators' own words)."""

AGE: Schema = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "minimum": 0,  # of an integer; the pattern keeps the sign out of a text
    "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
    "maxLength": 64,
}
_BYTES: Schema = {name: QUANTITY[name] for name in ("x-kubernetes-int-or-string", "anyOf", "maxLength")}
"""A single number of bytes: a rule of its model says what is right in the model's words."""
_DURATION: Schema = {"type": "string", "minLength": 2, "maxLength": 32, "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}
_FINE_DURATION: Schema = _DURATION | {"pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"}
_LABEL_VALUE: Schema = {
    "type": "string",
    "maxLength": 63,
    "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
}
_KEEP = frozenset({"type", "description", "enum", "minimum", "maximum", "format", "required", "minLength", "maxLength"})
_BOUNDS = {"ge": "minimum", "le": "maximum"}  # pydantic leaves them so behind a BeforeValidator
_MOST_ITEMS = 64
_MOST_NAMES = 32
_LABEL_KEYS = {
    "rule": "self.all(key, key.size() <= 317 && key.matches("
    r"'^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    "message": "every key must be a label key",
}

_NO_SLIPS = (
    {
        "rule": f"self.all(name, name in {list(NAMED)} || (name.size() <= 317 && name.matches(r'{OTHER_NAMES}')))",
        "message": NO_RESOURCE,
    },
    {
        "rule": f"!('cpu' in self) || !string(self['cpu']).matches('{OF_BYTES}')",
        "message": NO_CORES,
    },
    {
        "rule": f"{list(IN_BYTES)}.all(name, !(name in self) || !isQuantity(string(self[name])) || "
        "quantity(string(self[name])).compareTo(quantity('0')) == 0 || "
        "quantity(string(self[name])).compareTo(quantity('1Mi')) >= 0)",
        "message": TOO_FEW_BYTES,
    },
)


def custom_resource(
    group: str,
    version: str,
    *,
    kind: str,
    plural: str,
    short_names: Sequence[str],
    columns: Sequence[Schema],
    schema: Schema,
    scope: str = "Cluster",
    status: bool = True,
    scale: Schema | None = None,
) -> Schema:
    """Return a CustomResourceDefinition of one version as it is applied.

    Args:
        group: of the API.
        version: the one that there is.
        kind: of the objects.
        plural: in paths.
        short_names: for kubectl.
        columns: that kubectl prints.
        schema: of the whole object.
        scope: Cluster or Namespaced.
        status: whether it has a status subresource.
        scale: the paths of its scale subresource, where it has one.
    """
    subresources: Schema = ({"status": {}} if status else {}) | ({} if scale is None else {"scale": dict(scale)})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {"app.kubernetes.io/name": "resource-slack"}},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short_names),
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    **({"subresources": subresources} if subresources else {}),
                    "additionalPrinterColumns": list(columns),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def structural(source: Schema, model: str, rules: Rules) -> Schema:
    """Return the structural schema of a pydantic model.

    Args:
        source: its `model_json_schema(by_alias=True)`.
        model: its name.
        rules: of it and the models in it.

    Raises:
        ValueError: it has a union of more than a type and None, which no structural schema can say.
    """
    return _node(source, source.get("$defs", {}), rules, model)


def _node(node: Schema, definitions: Mapping[str, Schema], rules: Rules, model: str = "") -> Schema:
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        resolved = _node(definitions[name], definitions, rules, name)
        return resolved | ({"description": node["description"]} if "description" in node else {})
    if "anyOf" in node:  # `X | None`: a field that is absent; the API server prunes null itself
        only = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
        if len(only) != 1:
            raise ValueError(f"{model}: a union has no structural schema: {node}")
        return _node(only[0] | {k: v for k, v in node.items() if k == "description"}, definitions, rules)
    if node.get("format") in _FORMATS:
        described = {"description": node["description"]} if "description" in node else {}
        return dict(_FORMATS[node["format"]]) | described
    result = {key: value for key, value in node.items() if key in _KEEP}
    result |= {bound: node[key] for key, bound in _BOUNDS.items() if key in node}
    above = node.get("exclusiveMinimum", node.get("gt"))
    if above is not None:  # JSON schema's number is OpenAPI v3.0's flag
        result |= {"minimum": above, "exclusiveMinimum": True}
    if node.get("type") == "array":
        result |= {"maxItems": _MOST_ITEMS, "items": _node(node["items"], definitions, rules)}
    elif "properties" in node:
        properties = cast("Mapping[str, Schema]", node["properties"])
        result["properties"] = {name: _node(field, definitions, rules) for name, field in properties.items()}
    elif node.get("type") == "object":
        result |= _map(node)
    elif node.get("type") == "string" and not {"enum", "format"} & set(node):
        result.setdefault("maxLength", 253)
    if of_model := (*_fraction(result), *rules.get(model, ())):
        result["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in of_model]
    return result


def _fraction(node: Schema) -> tuple[tuple[str, str], ...]:
    """Return the rule that holds a least number which is no whole one.

    The API server cuts it where it compares a whole number with it: 0 would pass for 0.5.
    """
    least = node.get("minimum", 0)
    if node.get("type") != "number" or least == int(least):
        return ()
    return ((f"self >= {least}", f"should be greater than or equal to {least}"),)


_FORMATS: Mapping[str, Schema] = {
    "duration": _DURATION,
    "fine-duration": _FINE_DURATION,
    "quantity": QUANTITY,
    "bytes": _BYTES,
}


def _map(node: Schema) -> Schema:
    values = node.get("additionalProperties", {})
    if values.get("type") == "integer":  # an Amount, parsed; what a user writes is a quantity
        return {
            "additionalProperties": dict(QUANTITY),
            "maxProperties": _MOST_NAMES,
            "x-kubernetes-validations": [dict(rule) for rule in _NO_SLIPS],
        }
    kept = {name: value for name, value in values.items() if name in _KEEP}
    if names := node.get("propertyNames", {}).get("enum"):
        text = "every key should be " + " or ".join(repr(name) for name in names)
        rule = {"rule": f"self.all(key, key in {names})", "message": text}
        return {"additionalProperties": kept, "maxProperties": len(names), "x-kubernetes-validations": [rule]}
    return {
        "additionalProperties": kept if values.get("type") == "number" or "maxLength" in values else dict(_LABEL_VALUE),
        "maxProperties": _MOST_NAMES,
        "x-kubernetes-validations": [dict(_LABEL_KEYS)],
    }
