"""The SlackPolicy CustomResourceDefinition, generated from the pydantic models: one source for both checks.

Invariants: the schema is structural; what a validator of `slack.planner.policy` refuses and the API server can
decide, a bound, a pattern or a CEL rule here refuses too, in the same words; defaults are not materialised, so
that an operator's flag or a later version can still change them. What neither can decide (a cron expression, a time
zone) the operator says in status.
"""

from collections.abc import Mapping
from typing import Any, cast

from slack.planner.policy import API_VERSION, KIND, PolicySpec
from slack.planner.status_schema import PRINTER_COLUMNS, STATUS_SCHEMA

Schema = dict[str, Any]

PLURAL = "slackpolicies"
GROUP, _, VERSION = API_VERSION.partition("/")

_QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "minimum": 0,  # of an integer; the pattern keeps the sign out of a text
    "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
    "maxLength": 64,
}
_DURATION: Schema = {"type": "string", "minLength": 2, "maxLength": 32, "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}
_LABEL_VALUE: Schema = {
    "type": "string",
    "maxLength": 63,
    "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
}
_TAINT: Schema = {
    "type": "object",
    "required": ["key", "effect"],
    "properties": {
        "key": {"type": "string", "maxLength": 317, "description": "Taint key."},
        "value": {"type": "string", "maxLength": 63, "description": "Taint value."},
        "effect": {
            "type": "string",
            "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
            "description": "What the taint does to pods that do not tolerate it.",
        },
    },
}
_KEEP = frozenset({"type", "description", "enum", "minimum", "maximum", "format", "required", "minLength", "maxLength"})
_BOUNDS = {"ge": "minimum", "le": "maximum"}  # pydantic leaves them so behind a BeforeValidator
_MOST_ITEMS = 64
_MOST_NAMES = 32
"""CEL's cost is estimated from the bounds; an array or a map without one would be refused."""

_LABEL_KEYS = {
    "rule": "self.all(key, key.size() <= 317 && key.matches("
    r"'^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    "message": "every key must be a label key",
}
_RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "TolerationSpec": (
        (
            "has(self.key) && self.key != ''",
            "a toleration without a key tolerates every taint, that of a dying node too; name the key",
        ),
        (
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "operator Exists takes no value; leave it out or use Equal",
        ),
    ),
    "LadderStep": (
        ("has(self.fromNodes) != has(self.fromRequested)", "give exactly one of fromNodes and fromRequested"),
    ),
    "ScheduleWindow": (
        ("has(self.cron) != has(self.start)", "give either cron with duration, or start with until"),
        (
            "!has(self.cron) || (has(self.duration) && duration(self.duration) > duration('0s'))",
            "a cron window needs a duration such as 12h",
        ),
        (
            "!has(self.start) || has(self.until)",
            "start and until are both needed, with an offset, such as 2026-11-27T06:00:00Z",
        ),
        ("!has(self.start) || !has(self.until) || self.until > self.start", "until is not after start"),
        (
            "has(self.minRate) || has(self.floor) || has(self.replicas)",
            "the window changes nothing; give minRate, floor or replicas",
        ),
    ),
    "ExtraCapacity": (
        (
            "!has(self.floor) || !has(self.ceiling) || self.floor.all(name, !(name in self.ceiling) || "
            "quantity(string(self.floor[name])).compareTo(quantity(string(self.ceiling[name]))) <= 0)",
            "floor is above ceiling",
        ),
    ),
    "PodSelector": (
        (
            "(has(self.namespace) && self.namespace != '') || (has(self.ownerKind) && self.ownerKind != '') || "
            "(has(self.name) && self.name != '')",
            "an empty selector would exclude every pod; give namespace, ownerKind or name",
        ),
    ),
    "NodeTemplate": (
        ("'cpu' in self.allocatable && 'memory' in self.allocatable", "allocatable needs cpu and memory"),
    ),
}
"""By model: the rule and what is said when it does not hold (the model validators' own words)."""


def crd() -> Schema:
    """Return the whole CustomResourceDefinition as it is applied."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "resource-slack"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["slp"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [*PRINTER_COLUMNS, _AGE],
                    "schema": {"openAPIV3Schema": _object()},
                }
            ],
        },
    }


_AGE: Schema = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _object() -> Schema:
    source = PolicySpec.model_json_schema(by_alias=True)
    return {
        "type": "object",
        "description": "Room kept for pods that are yet to come, by placeholder pods of low priority that they push "
        "out. Is it there? kubectl get slackpolicies, or kubectl slack status.",
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": _structural(source, source.get("$defs", {}), "PolicySpec"),
            "status": STATUS_SCHEMA,
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.metadata.name.size() <= 63",
                "message": "metadata.name: is the value of a label and must have at most 63 characters",
            }
        ],
    }


def _structural(node: Schema, definitions: Mapping[str, Schema], model: str = "") -> Schema:
    """Turn one JSON schema node of pydantic's into a structural one: no references, no null, no titles."""
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        resolved = _structural(definitions[name], definitions, name)
        return resolved | ({"description": node["description"]} if "description" in node else {})
    if "anyOf" in node:  # `X | None`: a field that is absent; the API server prunes null itself
        only = [one for one in node["anyOf"] if one.get("type") != "null"]
        if len(only) != 1:
            raise ValueError(f"{model}: a union has no structural schema: {node}")
        return _structural(only[0] | {k: v for k, v in node.items() if k == "description"}, definitions)
    if node.get("format") == "duration":
        return _described(_DURATION, node)
    result = {key: value for key, value in node.items() if key in _KEEP}
    result |= {bound: node[key] for key, bound in _BOUNDS.items() if key in node}
    if "exclusiveMinimum" in node:  # JSON schema's number is OpenAPI v3.0's flag
        result |= {"minimum": node["exclusiveMinimum"], "exclusiveMinimum": True}
    if node.get("type") == "array":
        result |= {"maxItems": _MOST_ITEMS, "items": _structural(node["items"], definitions)}
    elif "properties" in node:
        properties = cast("Mapping[str, Schema]", node["properties"])
        result["properties"] = {name: _structural(one, definitions) for name, one in properties.items()}
        if model == "NodeTemplate":  # plain mappings there: the planner reads them as a node's own taints
            result["properties"]["taints"]["items"] = dict(_TAINT)
    elif node.get("type") == "object":
        result |= _map(node)
    elif node.get("type") == "string" and not {"enum", "format"} & set(node):
        result.setdefault("maxLength", 253)
    if rules := _RULES.get(model):
        result["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in rules]
    return result


def _map(node: Schema) -> Schema:
    values = node.get("additionalProperties", {})
    if values.get("type") == "integer":  # an Amount, parsed; what a user writes is a quantity
        return {"additionalProperties": dict(_QUANTITY), "maxProperties": _MOST_NAMES}
    return {
        "additionalProperties": dict(_LABEL_VALUE),
        "maxProperties": _MOST_NAMES,
        "x-kubernetes-validations": [dict(_LABEL_KEYS)],
    }


def _described(schema: Schema, node: Schema) -> Schema:
    return dict(schema) | ({"description": node["description"]} if "description" in node else {})
