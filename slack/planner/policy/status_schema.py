"""The status of a SlackPolicy: its OpenAPI schema and the columns that `kubectl get slackpolicies` prints.

Structural, so that the API server prunes nothing the operator writes: the value is built by
`slack_operator.placeholders.report.status`, and a test holds the two together. Amounts are quantities as text;
`summary` holds the texts of the printed columns.
"""

from typing import Final

from slack.schema.status_fields import COUNT, TIME, column, text
from slack.schema.structural import Schema

_GENERATION: Final[Schema] = {"type": "integer", "format": "int64"}


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
        "type": text(
            "Good when True: Ready (accepted and acted upon), SlackSatisfied (the room is there), Covered, Feasible. "
            "Good when False: PinsNodes, LimitReached, AutoscalerIgnoresPlaceholders, ViewStale, PreemptionStuck, "
            "OwnershipContested, PlaceholdersChanged, HistoryLost; and four that are there only while they are true: "
            "LargeSlack, ReleaseBlocked, ImagesNotPulled, and Stalled, while somebody must mend something.",
            316,
        ),
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether it is so.",
        },
        "reason": text("One CamelCase word that stays the same, to search and to alert by; Events have it too."),
        "message": text("A sentence for people: what is so, and what would help.", 32768),
        "lastTransitionTime": TIME | {"description": "Since when the status is as it is."},
        "lastUpdateTime": TIME | {"description": "Since when the reason is as it is, as in a Deployment's conditions."},
        "observedGeneration": _GENERATION | {"description": "The metadata.generation that it is about."},
    },
}

_SHAPE: Final[Schema] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": text("The shape's hash; the end of its ReplicaSet's name.", 63),
        "role": text(
            "cover: the size of pods that come often. fill: the rest of the rate. mirror: as an annotated workload. "
            "demand: as the pods that pools have announced.",
            63,
        ),
        "requests": _amounts("Requests of one placeholder."),
        "count": COUNT | {"description": "Placeholders that the plan heads for; 0 when the shape is being given up."},
        "replicas": COUNT
        | {"description": "Placeholders that should be there now; another number while slack changes."},
        "bound": COUNT
        | {"description": "Placeholders on a node; unbound ones that fit on a node and that autoscalers were told of."},
        "pending": COUNT
        | {"description": "Placeholders on no node yet; unbound ones that fit on none, or nobody was told of yet."},
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
    # Until the operator has looked, tools that go by kstatus would take a new policy for done.
    "default": {"observedGeneration": -1},
    "properties": {
        "observedGeneration": _GENERATION
        | {"description": "The metadata.generation that this status is about; -1 before anything was planned."},
        "observedTime": TIME
        | {
            "description": "When the operator looked last. It writes this every five minutes even if nothing changes: "
            "if it is older than 15 minutes, no operator keeps the status up."
        },
        "summary": {
            "type": "object",
            "description": "Texts of the columns that kubectl prints.",
            "properties": {
                "state": text("How the slack is: the reason that matters most, then others that need someone.", 256),
                "remedy": text("What to do about it; absent where there is nothing to do.", 1024),
                "rate": text("The rate in force as a percentage; for an objective what it is.", 32),
                "desired": text("cpu/memory wanted.", 128),
                "reserved": text("cpu/memory of the placeholders whose capacity is on a node.", 128),
            },
        },
        "nodes": COUNT | {"description": "Nodes of the policy that can take placeholders."},
        "rate": text("The rate in force, after ladder and schedule, as a number.", 32),
        "base": _amounts("What the rate is taken of: the requests of real pods."),
        "desired": _amounts("Extra capacity wanted, within the ceiling."),
        "limit": text("Which ceiling or floor binds, and what would be wanted without; absent while none does.", 1024),
        "planned": _amounts(
            "Requests of all placeholders that the plan heads for, and what CapacityBuffers keep of it (buffered)."
        ),
        "reserved": _amounts("Requests of the placeholders that are on a node, and of such chunks that fit there."),
        "buffered": _amounts(
            "The part of `planned` that CapacityBuffers keep; absent unless spec.capacityBuffers is Count and there "
            "are some."
        ),
        "surplus": {
            "type": "object",
            "description": "What placeholders hold beyond `planned`, and when it is removed; absent if they hold no "
            "more.",
            "properties": {
                "amounts": _amounts("How much it is."),
                "removalTime": TIME
                | {"description": "From when it is removed; absent if that is under way, or waits for a replacement."},
                "text": text("All of it in words.", 256),
            },
        },
        "pending": COUNT | {"description": "Placeholders on no node yet."},
        "displaced": {
            "type": "object",
            "description": "Placeholders that left without the operator's doing.",
            "properties": {
                "total": COUNT | {"description": "How many, since `since`."},
                "since": TIME | {"description": "Since when they are counted."},
            },
        },
        "replicas": COUNT
        | {
            "description": "The room of all placeholders that there are, on nodes or not, counted in standard "
            "placeholders and rounded down: what /scale calls replicas. Only where spec.extraCapacity.replicas is set."
        },
        "selector": text("The label selector of the policy's placeholder pods, for /scale.", 256),
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
            "description": "Workloads for whose pods no room is kept, and why: the first 16 by name. "
            "`resource-slack plan -o wide` has all.",
            "items": {
                "type": "object",
                "properties": {"pod": text("The workload or pod.", 512), "reason": text("Why.")},
            },
        },
        "cut": {
            "type": "array",
            "maxItems": 32,
            "description": "Workloads that get less than they reserve by annotation, and why; the first ones.",
            "items": {
                "type": "object",
                "properties": {
                    "workload": text("The workload or pod.", 512),
                    "asked": COUNT | {"description": "Placeholders that its annotation asks for."},
                    "granted": COUNT | {"description": "Placeholders that it gets."},
                    "reason": text("Which bound it is."),
                },
            },
        },
        "objective": {
            "type": "object",
            "description": "Why this much is kept, where the policy has an objective.",
            "properties": {
                "instantStart": text("The share of pods that are to start at once.", 32),
                "reached": text("The share of the last 24 hours.", 32),
                "started": COUNT | {"description": "Pods of the last 24 hours that slack could help."},
                "late": COUNT | {"description": "Those of them that did not start at once."},
                "quantile": text("The share of what comes within the window that the amount is enough for.", 32),
                "window": text("From the need for a node until pods run there, measured.", 32),
                "pattern": text("What explains when pods come.", 64),
                "pricePerHour": text("What the amount costs an hour, by the policy's or the operator's prices.", 32),
                "why": text("All of it in a sentence."),
            },
        },
        "cost": {
            "type": "object",
            "description": "What the policy's placeholders cost now, those whose capacity is on a node: their share of "
            "its nodes, in money if the operator knows prices; to three digits. The metrics have the same.",
            "properties": {
                "nodeHoursPerHour": text("How many of its nodes they amount to.", 32),
                "nodeHoursPerMonth": text("The same for a month of 730 hours.", 32),
                "currency": text("Of the prices, where they name one.", 8),
                "perHour": text("In money.", 32),
                "perMonth": text("In money, for a month of 730 hours.", 32),
                "unpricedNodes": COUNT
                | {"description": "Nodes without a price; they count with the average of the others."},
                "text": text("All of it in words, and what the plan costs if that differs."),
            },
        },
        "hold": {
            "type": "object",
            "description": "The form of the placeholders, which spec.hold has come to.",
            "properties": {
                "form": text("Bound: a scheduler binds them. Unbound: the capacity stays free.", 16),
                "since": TIME | {"description": "Since when it is this form."},
                "reason": text(
                    "Configured, AutoscalerRecognised, AutoscalerUnclear (it is looked for), NoAutoscaler, "
                    "BoundNotAllowed; or why unbound ones are of no use: NoAnswer (no autoscaler counts them), "
                    "NotTold, SchedulerNameChanged, SchedulerNameRefused.",
                    64,
                ),
                "message": text("A sentence for people: why.", 2048),
                "retryTime": TIME
                | {"description": "When Auto tries unbound placeholders again; absent where nothing has failed."},
                "releaseNodes": text(
                    "How nodes are released from unbound placeholders (operator.releaseNodes): Label, MarkerPod, Off.",
                    16,
                ),
            },
        },
        "spared": {
            "type": "object",
            "description": "Pods of the day before the last start that took a placeholder's place, and what they would "
            "have waited for a node.",
            "properties": {
                "pods": COUNT | {"description": "How many."},
                "seconds": COUNT | {"description": "What all of them together would have waited."},
                "text": text("All of it in words."),
            },
        },
        "burst": COUNT | {"description": "Placeholders that one burst can displace before pods wait."},
        "sustained": text("Displacements a minute that refilling keeps up with.", 32),
        "instantStart": text("Share of real pods bound within 2 s in the hour before the last start.", 32),
        "timeToReady": {
            "type": "object",
            "description": "From the creation of real pods until they are Ready, of about the last hour in which pods "
            "started. instantStart ends with their node; this has image pulls and start-up too.",
            "properties": {
                "pods": COUNT | {"description": "Pods that became Ready."},
                "p50": text("Half of them took at most this long.", 32),
                "p99": text("99 of 100 took at most this long.", 32),
                "summary": text("Both of them.", 64),
                "text": text("All of it in words, with what was pulled."),
                "workloads": {
                    "type": "array",
                    "maxItems": 16,
                    "description": "The slowest workloads, by p99; times are means since the creation of their pods.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "workload": text("The workload.", 512),
                            "pods": COUNT | {"description": "Its pods that became Ready."},
                            "bound": text("Until they had a node.", 32),
                            "image": text("Until the last image was there, by Events of kubelets.", 32),
                            "started": text("Until all containers had started.", 32),
                            "ready": text("Until they were Ready.", 32),
                            "p99": text("99 of 100 were Ready within this.", 32),
                            "pulled": text("Sizes of the images that were pulled for them.", 32),
                        },
                    },
                },
            },
        },
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


PRINTER_COLUMNS: Final[tuple[Schema, ...]] = (
    column("READY", '.status.conditions[?(@.type=="Ready")].status', "Accepted and acted upon."),
    column(
        "SLACK", ".status.summary.state", "How the slack is: Reserved, Refilling, CeilingReached, or all that is wrong."
    ),
    column("RATE", ".status.summary.rate", "The rate in force, after ladder and schedule; or the objective."),
    column("DESIRED", ".status.summary.desired", "Extra capacity wanted, cpu/memory."),
    column("RESERVED", ".status.summary.reserved", "Extra capacity that is there, cpu/memory."),
    column("PENDING", ".status.pending", "Placeholders that lack capacity: a node is to come.", kind="integer"),
    column("INSTANT", ".status.instantStart", "Share of real pods that had a node within 2 s."),
    column("TO-READY", ".status.timeToReady.summary", "From creation to Ready: p50 and p99."),
    column(
        "OBSERVED",
        ".status.observedTime",
        "How old the status is: more than 15 minutes means that no operator keeps it up.",
        kind="date",
    ),
    column("HOLD", ".status.hold.form", "Bound: placeholders run. Unbound: the capacity stays free.", wide=True),
    column("NODES", ".status.nodes", "Nodes of the policy that can take placeholders.", kind="integer", wide=True),
    column("COVERED", '.status.conditions[?(@.type=="Covered")].status', "Enough pods fit one placeholder.", wide=True),
    column("BURST", ".status.burst", "Placeholders that one burst can take.", kind="integer", wide=True),
    column("DISPLACED", ".status.displaced.total", "Placeholders that pods pushed out.", kind="integer", wide=True),
    column(
        "SATISFIED",
        '.status.conditions[?(@.type=="SlackSatisfied")].status',
        "All wanted room is there; False during a refill too.",
        wide=True,
    ),
    column("LIMIT", ".status.limit", "The ceiling or floor that binds.", wide=True),
    column("REMEDY", ".status.summary.remedy", "What to do about the state.", wide=True),
)
"""AGE, from the metadata, is added by the CRD."""
