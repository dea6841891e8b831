"""What the controller writes, as OpenAPI: the status of a CpuAuditPolicy, the CpuAuditReport, and kubectl's columns.

Structural, so that the API server prunes nothing that is written. Shares are percent, rounded; amounts of CPU are
quantities as text.
"""

from typing import Final

from slack.cluster.labels import API_VERSION
from slack.schema.status_fields import COUNT, TIME, column, text
from slack.schema.structural import AGE, Schema

_PERCENT: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 100}
MOST_FINDINGS = 200
MOST_ACTIONS = 32
MOST_KERNELS = 32
PATCH_CHARACTERS = 2048


def _object(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    result: Schema = {"type": "object", "description": description, "properties": properties}
    return result | ({"required": list(required)} if required else {})


def _list(description: str, items: Schema, most: int) -> Schema:
    return {"type": "array", "maxItems": most, "items": items, "description": description}


def _counts(description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "maxProperties": 32,
        "additionalProperties": {"type": "integer", "minimum": 0},
    }


_CONDITION: Final[Schema] = _object(
    "One thing that is so or is not.",
    {
        "type": text(
            "Good when True: Ready. Good when False: Overlapping, NodesSilent, EnforcementBlocked, OwnershipContested.",
            316,
        ),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it is so."},
        "reason": text("One CamelCase word that stays the same, to search and to alert by."),
        "message": text("A sentence for people: what is so, and what would help.", 32768),
        "lastTransitionTime": TIME | {"description": "Since when the status is as it is."},
    },
    ("type", "status", "reason", "message", "lastTransitionTime"),
)
_NODES: Final[Schema] = _object(
    "Nodes of the cluster by whether their agents report.",
    {
        "reporting": COUNT | {"description": "Nodes with a report of the last three intervals."},
        "silent": COUNT | {"description": "Nodes without."},
    },
)
_LEFT_ALONE: Final[Schema] = _object(
    "A finding that enforcement does nothing about.",
    {
        "container": text("namespace/pod/container.", 512),
        "reason": text("Why it is left alone."),
    },
)
_ACTION: Final[Schema] = _object(
    "One change, or what would be one.",
    {
        "container": text("namespace/pod/container.", 512),
        "what": text("raise, burst or revert.", 32),
        "from": text("The limit before, or the burst.", 32),
        "to": text("The limit after, or the burst.", 32),
        "outcome": text(
            "planned (shown as a dry run), sent, done, deferred, infeasible, refused, conflict, timeout or reverted.",
            32,
        ),
        "message": text("What the API server or the kubelet said."),
        "at": TIME | {"description": "When."},
    },
)
POLICY_STATUS: Final[Schema] = _object(
    "What the controller found and did. Written by the controller only.",
    {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The metadata.generation that this status is about.",
        },
        "mode": text("The mode in force.", 32),
        "nodes": _NODES,
        "summary": _object(
            "Texts of the columns that kubectl prints.",
            {"nodes": text("Reporting nodes/all nodes.", 32), "lost": text("Cores that containers wanted.", 32)},
        ),
        "namespaces": COUNT | {"description": "Namespaces that the policy has."},
        "containers": COUNT | {"description": "Containers of theirs that agents report on."},
        "high": COUNT | {"description": "Findings with severity high."},
        "warn": COUNT | {"description": "Findings with severity warn."},
        "info": COUNT | {"description": "Findings that are worth knowing and harmless."},
        "lostCores": text("CPU that was wanted and not given, a second, all namespaces together.", 32),
        "troubles": _counts("What agents could not read, by kind, since they began."),
        "enforcement": _object(
            "What was changed, and what was not.",
            {
                "raised": COUNT | {"description": "Containers whose limit stands raised."},
                "addedCores": text("What these raises add up to.", 32),
                "bursts": COUNT | {"description": "Containers that may burst by order of the policy."},
                "planned": COUNT | {"description": "Containers that were shown a change which has not been made."},
                "lastHour": COUNT | {"description": "Raises in the last hour."},
                "actions": _list("The last changes, the newest first.", _ACTION, MOST_ACTIONS),
                "leftAlone": _list("Findings that nothing is done about, the worst first.", _LEFT_ALONE, MOST_ACTIONS),
                "leftAloneCount": COUNT | {"description": "How many there are."},
            },
        ),
        "conditions": _list("Whether the audit works, and if not, why.", _CONDITION, 16)
        | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    },
)
_FINDING: Final[Schema] = _object(
    "One container or pod that was throttled.",
    {
        "pod": text("Name of the pod.", 253),
        "container": text("Name of the container; empty for the pod's own cgroup.", 253),
        "level": text("Where the figures are from: pod or container.", 32),
        "workload": text("The pod's owner, as Kind/name.", 512),
        "node": text("Where it runs.", 253),
        "severity": {"type": "string", "enum": ["high", "warn", "info"], "description": "How bad it is."},
        "marks": _list("What kind of throttling it is.", {"type": "string", "maxLength": 64}, 16),
        "throttledPercent": _PERCENT | {"description": "Share of enforcement periods in which it was throttled."},
        "lostPercent": _PERCENT | {"description": "Share of its time in which it stood still."},
        "neighboursPercent": _PERCENT
        | {
            "description": "Share of its time in which it stood still because others had the CPU, not for a quota; "
            "absent where the kernel does not tell (cgroup v1, no PSI)."
        },
        "stopMillis": COUNT | {"description": "Mean stop of a throttled period."},
        "use": text("CPU used.", 32),
        "limit": text("The limit of its own cgroup.", 32),
        "lostCores": text("CPU that it wanted and did not get, a second.", 32),
        "blamed": text("The level whose quota it is, where that is not its own, with the cgroup's path.", 1100),
        "advice": _list("Ids of the advice, the first to take first.", {"type": "string", "maxLength": 64}, 16),
        "patch": text("What to change, of the first advice that has a patch.", PATCH_CHARACTERS),
    },
    ("pod", "level", "severity"),
)
REPORT_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "Which containers of the namespace a CPU limit stops, and what to do. Written by resource-slack "
    "audit controller; the CpuAuditPolicy of the namespace says when and how.",
    "properties": {
        "apiVersion": {"type": "string", "description": API_VERSION},
        "kind": {"type": "string", "description": "CpuAuditReport"},
        "metadata": {"type": "object"},
        "policy": text("The CpuAuditPolicy of the namespace.", 253),
        "window": text("Over which time was judged.", 16),
        "measuredAt": TIME | {"description": "When the figures were taken."},
        "summary": _object(
            "The namespace in figures.",
            {
                "pods": COUNT | {"description": "Pods that agents report on."},
                "containers": COUNT | {"description": "Their containers."},
                "noLimit": COUNT | {"description": "Containers without a CPU limit: nothing can throttle them."},
                "tooFew": COUNT | {"description": "Containers that ran in too few periods for a verdict."},
                "other": COUNT | {"description": "Containers that began or ended within the window."},
                "high": COUNT | {"description": "Findings with severity high."},
                "warn": COUNT | {"description": "Findings with severity warn."},
                "info": COUNT | {"description": "Findings that are worth knowing and harmless."},
                "levels": _counts("Findings of severity warn and high, by level."),
                "lostCores": text("CPU that was wanted and not given, a second.", 32),
                "worst": text("The worst finding in a few words.", 512),
                "nodes": _NODES,
                "troubles": _counts("What the agents of these nodes could not read, by kind, since they began."),
            },
        ),
        "kernels": _list(
            "Kernels of the nodes that the pods are on.",
            _object(
                "One kernel.",
                {
                    "release": text("uname -r", 256),
                    "verdict": text("Whether it has a bug of CPU quotas.", 64),
                    "why": text("Where that is from."),
                    "nodes": COUNT | {"description": "How many of the nodes have it."},
                },
            ),
            MOST_KERNELS,
        ),
        "findings": _list("The worst first.", _FINDING, MOST_FINDINGS),
        "truncated": COUNT | {"description": "Findings that are counted and not listed."},
    },
}


POLICY_COLUMNS: Final[tuple[Schema, ...]] = (
    column("MODE", ".status.mode", "What the controller may do."),
    column("READY", '.status.conditions[?(@.type=="Ready")].status', "The audit works."),
    column("NODES", ".status.nodes.reporting", "Nodes whose agents report.", kind="integer"),
    column("SILENT", ".status.nodes.silent", "Nodes whose agents do not.", kind="integer"),
    column("NAMESPACES", ".status.namespaces", "Namespaces that the policy has.", kind="integer"),
    column("HIGH", ".status.high", "Findings with severity high.", kind="integer"),
    column("WARN", ".status.warn", "Findings with severity warn.", kind="integer"),
    column("LOST", ".status.lostCores", "CPU that was wanted and not given.", wide=True),
    column("RAISED", ".status.enforcement.raised", "Limits that stand raised.", kind="integer", wide=True),
    column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why it works, or why not.", wide=True),
    AGE,
)
REPORT_COLUMNS: Final[tuple[Schema, ...]] = (
    column("PODS", ".summary.pods", "Pods that agents report on.", kind="integer"),
    column("HIGH", ".summary.high", "Findings with severity high.", kind="integer"),
    column("WARN", ".summary.warn", "Findings with severity warn.", kind="integer"),
    column("LOST", ".summary.lostCores", "CPU that was wanted and not given."),
    column("WORST", ".summary.worst", "The worst finding."),
    column("MEASURED", ".measuredAt", "When the figures were taken.", kind="date"),
    column("CONTAINERS", ".summary.containers", "Containers that agents report on.", kind="integer", wide=True),
    column("NO LIMIT", ".summary.noLimit", "Containers without a CPU limit.", kind="integer", wide=True),
    column("POLICY", ".policy", "The CpuAuditPolicy of the namespace.", wide=True),
    AGE,
)
