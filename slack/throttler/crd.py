"""The ThrottlePolicy CustomResourceDefinition, generated from the pydantic models.

What `slack.throttler.config` refuses, a rule here refuses too, in the same words. A field whose null means "off" is
nullable: the API server keeps null only there, and asks no rule of the field about it.
"""

from typing import Final

from slack.cluster.labels import API_VERSION
from slack.schema.status_fields import COUNT, TIME, column, text
from slack.schema.structural import AGE, Rules, Schema, custom_resource, structural
from slack.throttler.config import KIND, RATES_CROSSED, SPELT_TWICE, ThrottlePolicySpec
from slack.throttler.fields import (
    BOUNDS,
    FRACTION,
    NOT_A_NUMBER,
    NOT_A_SHARE,
    NOT_PER_CORE,
    NUMBER,
    PERCENT,
    out_of_bounds,
)

GROUP, _, VERSION = API_VERSION.partition("/")
PLURAL: Final = "throttlepolicies"
_PER_CORE: Final = ("maxStartingContainersPerCore",)
_NUMBERS: Final = (
    "maxLoadAverageMultiplier",
    "maxLoadAverageMulitplier",
    "minRate",
    "maxRate",
)
_SHARES: Final = ("maxCPU", "maxCPUPressure", "maxIOPressure")


def _bounded(field: str) -> tuple[str, str]:
    shortest, longest = BOUNDS[field]
    return (
        f"!has(self.{field}) || (duration(self.{field}) >= duration('{shortest}') && duration(self.{field}) <= "
        f"duration('{longest}'))",
        out_of_bounds(field),
    )


_RULES: Rules = {
    "StartTimeout": (_bounded("after"),),
    "ThrottlePolicySpec": (
        (
            f"!has(self.minRate) || !has(self.maxRate) || !self.minRate.matches('{NUMBER}') || "
            f"!self.maxRate.matches('{NUMBER}') || double(self.minRate) <= double(self.maxRate)",
            RATES_CROSSED,
        ),
        ("!has(self.maxLoadAverageMulitplier) || !has(self.maxLoadAverageMultiplier)", SPELT_TWICE),
        _bounded("averageOver"),
        _bounded("noProbeHold"),
        _bounded("failOpenAfter"),
    ),
}
_NUMBER_RULE: Final = {"rule": f"self.matches('{NUMBER}') && double(self) > 0.0", "message": NOT_A_NUMBER}
_PER_CORE_RULE: Final = {
    "rule": f"(self.matches('{NUMBER}') && double(self) > 0.0) || self.matches('{FRACTION}')",
    "message": NOT_PER_CORE,
}
_SHARE_RULE: Final = {
    "rule": f"self.matches('{PERCENT}') && double(self.replace('%', '')) > 0.0 && "
    "double(self.replace('%', '')) <= 100.0",
    "message": NOT_A_SHARE,
}


def _count(description: str) -> Schema:
    return COUNT | {"description": description}


_CONDITION: Final[Schema] = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": text("Ready.", 64),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "True, False or Unknown."},
        "reason": text("One word.", 64),
        "message": text("For people."),
        "observedGeneration": {"type": "integer", "format": "int64", "description": "The spec that was seen."},
        "lastTransitionTime": TIME | {"description": "When the status last changed."},
    },
}
STATUS: Final[Schema] = {
    "type": "object",
    "description": "What the agents of the policy's nodes report. Written by the controller only.",
    "properties": {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The metadata.generation that this status is about.",
        },
        "nodes": {
            "type": "object",
            "description": "The policy's nodes.",
            "properties": {
                "selected": _count("Nodes that have this policy."),
                "reporting": _count("Of these, nodes whose agent reports."),
                "silent": _count("Of these, nodes whose agent does not."),
            },
        },
        "downloading": _count("Containers whose images are pulled."),
        "blocked": _count("Containers that wait for another container."),
        "pending": _count("Containers that wait for the policy."),
        "starting": _count("Containers that start."),
        "ready": _count("Containers that are ready."),
        "failed": _count("Containers that were starting for too long."),
        "forced": _count("Starts forced by minRate, since the agents began."),
        "opened": _count("Starts without a grant, for a gate heard of no agent, since the agents began."),
        "longestWaitSeconds": _count("How long the one has waited that waits longest."),
        "conditions": {
            "type": "array",
            "maxItems": 16,
            "items": _CONDITION,
            "description": "Whether it works, and if not, why.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}
COLUMNS: Final[tuple[Schema, ...]] = (
    column("READY", '.status.conditions[?(@.type=="Ready")].status', "It works."),
    column("NODES", ".status.nodes.selected", "Nodes that have this policy.", kind="integer"),
    column("STARTING", ".status.starting", "Containers that start.", kind="integer"),
    column("PENDING", ".status.pending", "Containers that wait for the policy.", kind="integer"),
    column("BLOCKED", ".status.blocked", "Containers that wait for another container.", kind="integer"),
    column("FAILED", ".status.failed", "Containers that were starting for too long.", kind="integer"),
    column("FORCED", ".status.forced", "Starts forced by minRate.", kind="integer"),
    column("SILENT", ".status.nodes.silent", "Nodes whose agents do not report.", kind="integer", wide=True),
    column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why it works, or why not.", wide=True),
    AGE,
)


def throttle_crd() -> Schema:
    """Return the CustomResourceDefinition of ThrottlePolicy as it is applied."""
    spec = structural(ThrottlePolicySpec.model_json_schema(by_alias=True), "ThrottlePolicySpec", _RULES)
    for fields, rule in ((_PER_CORE, _PER_CORE_RULE), (_NUMBERS, _NUMBER_RULE), (_SHARES, _SHARE_RULE)):
        for field in fields:
            spec["properties"][field] |= {
                "maxLength": 16,
                "nullable": True,
                "x-kubernetes-validations": [dict(rule)],
            }
    schema: Schema = {
        "type": "object",
        "description": "How many containers start at once on the nodes that it selects, how fast, and at what load.",
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": STATUS,
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.metadata.name.size() <= 63",
                "message": "metadata.name: is the value of a label and must have at most 63 characters",
            }
        ],
    }
    return custom_resource(
        GROUP,
        VERSION,
        kind=KIND,
        plural=PLURAL,
        short_names=("thp",),
        columns=COLUMNS,
        schema=schema,
    )
