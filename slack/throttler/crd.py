"""The ThrottlePolicy CustomResourceDefinition, generated from the pydantic models.

What `slack.throttler.config` refuses, a rule here refuses too, in the same words. A field whose null means "off" is
nullable: the API server keeps null only there, and asks no rule of the field about it.
"""

from typing import Final

from slack.cluster.labels import API_VERSION
from slack.documents.throttle_status import ThrottlePolicyStatus
from slack.schema.status_struct import column, status_schema
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
            "status": status_schema(ThrottlePolicyStatus),
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
