"""The status of a SlackPolicy: its OpenAPI schema and the columns that `kubectl get slackpolicies` prints.

Structural, so that the API server prunes nothing the operator writes (`slack_operator.status` builds the value and a
test holds the two together). Amounts are quantities as text; `summary` holds the texts of the printed columns.
"""

from typing import Any, Final

Schema = dict[str, Any]

_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}


def _text(description: str, longest: int = 1024) -> Schema:
    return {"type": "string", "maxLength": longest, "description": description}


def _amounts(description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 64},
    }


_CONDITION: Final[Schema] = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _text("What is said something about.", 316),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": _text("One CamelCase word for machines."),
        "message": _text("A sentence for people.", 32768),
        "lastTransitionTime": _TIME,
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}

_SHAPE: Final[Schema] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _text("The shape's hash; the end of its ReplicaSet's name.", 63),
        "role": _text("cover, fill or mirror.", 63),
        "requests": _amounts("Requests of one placeholder."),
        "count": _COUNT | {"description": "Placeholders that the plan heads for."},
        "replicas": _COUNT | {"description": "Placeholders that should be there now."},
        "bound": _COUNT | {"description": "Placeholders on a node."},
        "pending": _COUNT | {"description": "Placeholders on no node yet."},
        "for": {
            "type": "array",
            "maxItems": 20,
            "items": {"type": "string", "maxLength": 512},
            "description": "Workloads that it makes room for.",
        },
    },
}

STATUS_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "What the operator found and did. Written by the operator only.",
    "properties": {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The metadata.generation that this status is about.",
        },
        "summary": {
            "type": "object",
            "description": "Texts of the columns that kubectl prints.",
            "properties": {
                "rate": _text("The rate in force as a percentage.", 32),
                "desired": _text("cpu/memory wanted.", 128),
                "reserved": _text("cpu/memory of the placeholders that are on a node.", 128),
            },
        },
        "nodes": _COUNT | {"description": "Eligible nodes of the domain."},
        "rate": _text("The rate in force, after ladder and schedule, as a number.", 32),
        "base": _amounts("What the rate is taken of."),
        "desired": _amounts("Extra capacity wanted."),
        "planned": _amounts("Requests of all placeholders that the plan heads for."),
        "reserved": _amounts("Requests of the placeholders that are on a node."),
        "pending": _COUNT | {"description": "Placeholders on no node yet."},
        "displaced": {
            "type": "object",
            "description": "Placeholders that left without the operator's doing.",
            "properties": {
                "total": _COUNT | {"description": "How many, since `since`."},
                "since": _TIME,
            },
        },
        "shapes": {
            "type": "array",
            "maxItems": 256,
            "items": _SHAPE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "uncovered": {
            "type": "array",
            "maxItems": 32,
            "description": "Pods for which no room is kept, and why; the first ones.",
            "items": {
                "type": "object",
                "properties": {"pod": _text("The workload or pod.", 512), "reason": _text("Why.")},
            },
        },
        "burst": _COUNT | {"description": "Placeholders that one burst can displace before pods wait."},
        "sustained": _text("Displacements a minute that refilling keeps up with.", 32),
        "instantStart": _text("Share of real pods bound within 2 s in the hour before the last start.", 32),
        "conditions": {
            "type": "array",
            "maxItems": 32,
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}

PRINTER_COLUMNS: Final[tuple[Schema, ...]] = (
    {"name": "READY", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "RATE", "type": "string", "jsonPath": ".status.summary.rate"},
    {"name": "DESIRED", "type": "string", "jsonPath": ".status.summary.desired"},
    {"name": "RESERVED", "type": "string", "jsonPath": ".status.summary.reserved"},
    {"name": "PENDING", "type": "integer", "jsonPath": ".status.pending"},
    {"name": "INSTANT", "type": "string", "jsonPath": ".status.instantStart"},
)
"""AGE, from the metadata, is added by the CRD."""
