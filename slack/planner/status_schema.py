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
        "type": _text(
            "Good when True: Ready, SlackSatisfied, Covered, Feasible. Good when False: PinsNodes, LimitReached, "
            "AutoscalerIgnoresPlaceholders, ViewStale, PreemptionStuck.",
            316,
        ),
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether it is so.",
        },
        "reason": _text("One CamelCase word that stays the same, to search and to alert by; Events have it too."),
        "message": _text("A sentence for people: what is so, and what would help.", 32768),
        "lastTransitionTime": _TIME | {"description": "Since when the status is as it is."},
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The metadata.generation that it is about.",
        },
    },
}

_SHAPE: Final[Schema] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _text("The shape's hash; the end of its ReplicaSet's name.", 63),
        "role": _text(
            "cover: the size of pods that come often. fill: the rest of the rate. mirror: as an annotated workload.",
            63,
        ),
        "requests": _amounts("Requests of one placeholder."),
        "count": _COUNT | {"description": "Placeholders that the plan heads for; 0 when the shape is being given up."},
        "replicas": _COUNT
        | {"description": "Placeholders that should be there now; another number while slack changes."},
        "bound": _COUNT | {"description": "Placeholders on a node."},
        "pending": _COUNT | {"description": "Placeholders on no node yet."},
        "for": {
            "type": "array",
            "maxItems": 20,
            "items": {"type": "string", "maxLength": 512},
            "description": "Workloads that it makes room for, the most frequent first.",
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
        "nodes": _COUNT | {"description": "Nodes of the policy that can take placeholders."},
        "rate": _text("The rate in force, after ladder and schedule, as a number.", 32),
        "base": _amounts("What the rate is taken of: the requests of real pods."),
        "desired": _amounts("Extra capacity wanted."),
        "planned": _amounts("Requests of all placeholders that the plan heads for."),
        "reserved": _amounts("Requests of the placeholders that are on a node."),
        "pending": _COUNT | {"description": "Placeholders on no node yet."},
        "displaced": {
            "type": "object",
            "description": "Placeholders that left without the operator's doing.",
            "properties": {
                "total": _COUNT | {"description": "How many, since `since`."},
                "since": _TIME | {"description": "Since when they are counted."},
            },
        },
        "shapes": {
            "type": "array",
            "maxItems": 256,
            "items": _SHAPE,
            "description": "Placeholders by shape: what each requests, how many there are, and what for.",
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
            "description": "Whether slack is there, and if not, why; docs/reference/events.md has every reason.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}


def _column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> Schema:
    """Return a printed column; a wide one shows with `-o wide` only."""
    column: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": 1} if wide else {})


PRINTER_COLUMNS: Final[tuple[Schema, ...]] = (
    _column("READY", '.status.conditions[?(@.type=="Ready")].status', "Every placeholder of the plan is on a node."),
    _column("RATE", ".status.summary.rate", "The rate in force, after ladder and schedule."),
    _column("DESIRED", ".status.summary.desired", "Extra capacity wanted, cpu/memory."),
    _column("RESERVED", ".status.summary.reserved", "Extra capacity that is there, cpu/memory: placeholders on nodes."),
    _column("PENDING", ".status.pending", "Placeholders that wait for a node.", kind="integer"),
    _column("INSTANT", ".status.instantStart", "Share of real pods that had a node within 2 s."),
    _column("NODES", ".status.nodes", "Nodes of the policy that can take placeholders.", kind="integer", wide=True),
    _column(
        "COVERED", '.status.conditions[?(@.type=="Covered")].status', "Enough pods fit one placeholder.", wide=True
    ),
    _column("BURST", ".status.burst", "Placeholders that one burst can take.", kind="integer", wide=True),
    _column("DISPLACED", ".status.displaced.total", "Placeholders that pods pushed out.", kind="integer", wide=True),
    _column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why it is ready, or why not.", wide=True),
)
"""AGE, from the metadata, is added by the CRD."""
