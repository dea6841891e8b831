"""The status of ActivationPool and ActivationQuota as OpenAPI, and the columns that kubectl prints."""

from typing import Any, Final

from slack.schema.status_fields import COUNT, TIME, column, text
from slack.schema.structural import AGE, Schema

_NUMBER: Final[Schema] = {"type": "number"}
_GENERATION: Final[Schema] = {
    "type": "integer",
    "format": "int64",
    "description": "The metadata.generation that this is about.",
}
_BOOLEAN: Final[Schema] = {"type": "boolean"}


def _about(schema: Schema, description: str) -> Schema:
    return schema | {"description": description}


def _object(description: str, **properties: Schema) -> Schema:
    return {"type": "object", "description": description, "properties": properties}


_CONDITION: Final[Schema] = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": text("Ready, Throttled, CapacityShort or BrokerReachable.", 64),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "True, False or Unknown."},
        "reason": text("One word.", 64),
        "message": text("For people.", 2048),
        "observedGeneration": _GENERATION,
        "lastTransitionTime": _about(TIME, "When the status last changed."),
    },
}
_CONDITIONS: Final[Schema] = {
    "type": "array",
    "maxItems": 16,
    "items": _CONDITION,
    "description": "Whether it works, and if not, why.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
_DECISION: Final[Schema] = _object(
    "The last decision that changed something, or was kept from it.",
    at=_about(TIME, "When it was taken."),
    row=_about(COUNT, "Of the table of decisions; 0: a guard decided before."),
    add=_about(COUNT, "Containers that were created."),
    clippedBy=text("What kept it from more.", 64),
    guard=text("The guard that changed what the table says.", 64),
    reason=text("In words."),
    state=text("Where the queue was in its life.", 64),
    queued=_about(COUNT, "Messages that waited."),
    stale=_about(COUNT, "Of these, those that had waited too long."),
    inFlight=_about(COUNT, "Messages that were run."),
    containers=_about(COUNT, "Containers that were ready."),
    creating=_about(COUNT, "Containers that were being created."),
    actionLimit=_about(COUNT, "Containers that the pool may have."),
    namespaceLimit=_about(COUNT, "Containers that the namespace may have."),
    namespaceContainers=_about(COUNT, "Containers of the namespace that were ready or being ended."),
    namespaceCreating=_about(COUNT, "Containers of the namespace that were being created."),
    meanDurationMs=_about(_NUMBER, "Mean of the last runs."),
)
_THROTTLE: Final[Schema] = _object(
    "What the throttle endpoint answers.",
    reject=_about(_BOOLEAN, "Whether new messages are refused."),
    reason=text("Why.", 64),
    containers=_about(COUNT, "Containers of the namespace, creations included."),
    limit=_about(COUNT, "What the namespace may have."),
    lag=_about(COUNT, "Messages that wait."),
    ratePerSecond=_about(_NUMBER, "Messages that come."),
    speedPerSecond=_about(_NUMBER, "Messages that are finished."),
    retryAfterMs=_about(COUNT, "When it is worth another try."),
    observedAt=_about(TIME, "When it was so; an answer that is too old lets everything in."),
)
POOL_STATUS: Final[Schema] = _object(
    "What the controller knows of the pool. Written by the controller only.",
    observedGeneration=_GENERATION,
    replicas=_about(COUNT, "Containers that are there, those that are being created included."),
    selector=text("Selects the pool's pods."),
    revision=text("Of the template; pods have it as a label.", 64),
    queue=text("The queue to which new messages go.", 160),
    containers=_object(
        "The pool's containers.",
        ready=_about(COUNT, "Ready."),
        creating=_about(COUNT, "Being created."),
        unschedulable=_about(COUNT, "Of these, those that no node has room for."),
        idle=_about(COUNT, "Ready, and without a message."),
        draining=_about(COUNT, "Being ended."),
    ),
    lag=_object(
        "The pool's queue.",
        queued=_about(COUNT, "Messages that wait."),
        inFlight=_about(COUNT, "Messages that are run."),
        stale=_about(COUNT, "Messages that have waited longer than timing.stale."),
        oldestMs=_about(COUNT, "How long the oldest has waited."),
    ),
    rate=_object(
        "Messages a second.",
        arrivals=_about(_NUMBER, "That come."),
        completions=_about(_NUMBER, "That are finished."),
        meanDurationMs=_about(_NUMBER, "Mean of the last runs."),
    ),
    demand=_object(
        "What slack goes by.",
        wanted=_about(COUNT, "Containers that the pool needs, what it cannot have included."),
        unmet=_about(COUNT, "Of these, those that no node has room for."),
        growth=_about(COUNT, "What it will need more when a node has started, as it grows now."),
        peakIncrement=_about(COUNT, "What it needed more within a node's start in the window, at the percentile."),
        slackPods=_about(COUNT, "What slack is to hold for it."),
        observedAt=_about(TIME, "When it was so."),
    ),
    throttled=_about(_BOOLEAN, "Whether new messages are refused."),
    throttle=_THROTTLE,
    decision=_DECISION,
    conditions=_CONDITIONS,
)
QUOTA_STATUS: Final[Schema] = _object(
    "What is used of it. Written by the controller only.",
    observedGeneration=_GENERATION,
    used=_object(
        "What all pools of the namespace have.",
        containers=_about(COUNT, "Containers, creations and those that are being ended included."),
        cpu=text("What they request.", 64),
        memory=text("What they request.", 64),
    ),
    pools=_about(COUNT, "Pools of the namespace."),
    throttled=_about(COUNT, "Of these, those that refuse messages."),
    conditions=_CONDITIONS,
)


def _integer(name: str, path: str, description: str, **more: Any) -> Schema:
    return column(name, path, description, kind="integer", **more)


POOL_COLUMNS: Final[tuple[Schema, ...]] = (
    _integer("WANTED", ".status.demand.wanted", "Containers that it needs."),
    _integer("READY", ".status.containers.ready", "Containers that are ready."),
    _integer("CREATING", ".status.containers.creating", "Containers that are being created."),
    _integer("LAG", ".status.lag.queued", "Messages that wait."),
    _integer("UNMET", ".status.demand.unmet", "Containers that no node has room for."),
    column("THROTTLED", ".status.throttled", "Whether new messages are refused.", kind="boolean"),
    column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why it works, or why not.", wide=True),
    column("QUEUE", ".status.queue", "Where its messages go.", wide=True),
    AGE,
)
QUOTA_COLUMNS: Final[tuple[Schema, ...]] = (
    _integer("CONTAINERS", ".spec.maxContainers", "Containers that the namespace may have."),
    _integer("USED", ".status.used.containers", "Containers that it has."),
    _integer("POOLS", ".status.pools", "Pools of the namespace."),
    _integer("THROTTLED", ".status.throttled", "Pools that refuse messages."),
    AGE,
)
