"""The CpuAuditPolicy and CpuAuditReport CustomResourceDefinitions: the one generated from the pydantic models.

What a validator of `slack.audit.api.policy` refuses, a bound, a pattern or a CEL rule here refuses too, in the same
words.
"""

from typing import Final

from slack.audit.api.policy import KIND, AuditPolicySpec
from slack.cluster.labels import API_VERSION
from slack.documents.audit_status import CpuAuditPolicyStatus, CpuAuditReportContent
from slack.schema.status_struct import column, status_schema
from slack.schema.structural import AGE, Rules, Schema, custom_resource, structural

GROUP, _, VERSION = API_VERSION.partition("/")
POLICY_PLURAL = "cpuauditpolicies"
REPORT_KIND = "CpuAuditReport"
REPORT_PLURAL = "cpuauditreports"


def _bounded(field: str) -> tuple[str, str]:
    return (
        f"!has(self.{field}) || (duration(self.{field}) >= duration('1m') && duration(self.{field}) <= "
        "duration('24h'))",
        f"{field} must be from 1m to 24h",
    )


def _positive(field: str) -> tuple[str, str]:
    return (
        f"!has(self.{field}) || quantity(string(self.{field})).isGreaterThan(quantity('0'))",
        f"{field} is not above 0; write an amount of CPU such as 500m or 2",
    )


def _ordered(low: str, high: str, low_default: float, high_default: float) -> tuple[str, str]:
    return (
        f"(has(self.{low}) ? self.{low} : {low_default}) <= (has(self.{high}) ? self.{high} : {high_default})",
        f"{low} is above {high}",
    )


_RULES: Rules = {
    "Expression": (
        (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "operators In and NotIn need values, Exists and DoesNotExist take none",
        ),
        (
            r"self.key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",
            "key is not a label key",
        ),
        (
            "!has(self.values) || self.values.all(value, "
            r"value.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))",
            "values must be label values",
        ),
    ),
    "ThresholdsSpec": (
        _ordered("warnRatio", "highRatio", 0.05, 0.25),
        _ordered("warnLost", "highLost", 0.02, 0.05),
    ),
    "ReportSpec": (_bounded("every"),),
    "ResizeSpec": (_bounded("after"), _positive("maxLimitPerContainer"), _positive("maxAddedPerNamespace")),
    "AuditPolicySpec": (
        (
            "!has(self.mode) || !(self.mode in ['DryRun', 'Enforce']) || (has(self.enforce) && "
            "(has(self.enforce.resize) || (has(self.enforce.burst) && self.enforce.burst)))",
            "mode DryRun and Enforce need enforce.resize (such as {}) or enforce.burst: true",
        ),
    ),
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


def policy_crd() -> Schema:
    """Return the CustomResourceDefinition of CpuAuditPolicy as it is applied."""
    schema: Schema = {
        "type": "object",
        "description": "Which namespaces the auditor of CPU limits looks after, what it says, and what it may do. "
        "What it found: kubectl get cpuauditreports -A.",
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": structural(AuditPolicySpec.model_json_schema(by_alias=True), "AuditPolicySpec", _RULES),
            "status": status_schema(CpuAuditPolicyStatus),
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
        plural=POLICY_PLURAL,
        short_names=("cap",),
        columns=POLICY_COLUMNS,
        schema=schema,
    )


def report_crd() -> Schema:
    """Return the CustomResourceDefinition of CpuAuditReport as it is applied."""
    return custom_resource(
        GROUP,
        VERSION,
        kind=REPORT_KIND,
        plural=REPORT_PLURAL,
        short_names=("car",),
        columns=REPORT_COLUMNS,
        schema=_report_schema(),
        scope="Namespaced",
        status=False,
    )


def _report_schema() -> Schema:
    content = status_schema(CpuAuditReportContent)
    head: Schema = {
        "apiVersion": {"type": "string", "description": API_VERSION},
        "kind": {"type": "string", "description": REPORT_KIND},
        "metadata": {"type": "object"},
    }
    return content | {"properties": head | content["properties"]}
