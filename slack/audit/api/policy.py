"""CpuAuditPolicy as a typed value: what a user writes, checked, with the field's path in every complaint.

The CRD is generated from these models (`slack.audit.api.crd`), so the API server refuses what they refuse; the
controller and the command line check again, because a file is not the API server. `spec: {}` is a good policy: it
reports on every namespace and changes nothing.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slack.audit.findings.finding import Thresholds
from slack.schema.documents import InvalidDocument
from slack.schema.policy_object import PolicyObject, SpecModel
from slack.schema.values import CpuAmount, Duration, Labels, label_key, label_value

KIND = "CpuAuditPolicy"

_DEFAULTS = Thresholds()
_SHORTEST = timedelta(minutes=1)
_LONGEST = timedelta(hours=24)
SPECIAL_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""Reported on, but nothing is ever changed there."""


class InvalidAuditPolicy(InvalidDocument):
    """A CpuAuditPolicy that cannot be used; each problem names the field's path and what would be right."""


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is no number; write one such as 0.05")
    return value


def _within_a_day(value: timedelta) -> timedelta:
    if not _SHORTEST <= value <= _LONGEST:
        raise ValueError("must be from 1m to 24h")
    return value


Ratio = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]
Minutes = Annotated[Duration, AfterValidator(_within_a_day)]


class Mode(StrEnum):
    """What the controller may do beside telling."""

    REPORT = "Report"
    DRY_RUN = "DryRun"
    ENFORCE = "Enforce"
    REVERT = "Revert"


class SelectorOperator(StrEnum):
    """How a label is compared; the API server's own words."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Expression(SpecModel):
    """One requirement on a label."""

    key: Annotated[str, AfterValidator(label_key), Field(max_length=317)]
    """Label key."""
    operator: SelectorOperator
    """In and NotIn compare with values; Exists and DoesNotExist look at the key only."""
    values: tuple[Annotated[str, AfterValidator(label_value)], ...] = ()
    """Label values, for In and NotIn."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)) != bool(self.values):
            raise ValueError("operators In and NotIn need values, Exists and DoesNotExist take none")
        return self

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; as in Kubernetes, NotIn holds where the key is absent."""
        found = labels.get(self.key)
        match self.operator:
            case SelectorOperator.IN:
                return found in self.values
            case SelectorOperator.NOT_IN:
                return found is None or found not in self.values
            case SelectorOperator.EXISTS:
                return found is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return found is None


class AuditedNamespaces(SpecModel):
    """Namespaces by their labels; every requirement must hold, and without any, every namespace is selected."""

    match_labels: Labels = Field(default_factory=dict)
    """Labels that a namespace must have; kubernetes.io/metadata.name is its name."""
    match_expressions: tuple[Expression, ...] = ()
    """Further requirements on labels."""


class ThresholdsSpec(SpecModel):
    """When throttling is worth a word. Both figures must reach theirs: many throttled periods in which hardly any time
    is lost harm nobody."""

    warn_ratio: Ratio = _DEFAULTS.warn_ratio
    """Share of throttled periods from which on a finding is a warning; 0.05 is five percent."""
    warn_lost: Ratio = _DEFAULTS.warn_lost
    """Share of time lost from which on a finding is a warning."""
    high_ratio: Ratio = _DEFAULTS.high_ratio
    """Share of throttled periods from which on a finding is high."""
    high_lost: Ratio = _DEFAULTS.high_lost
    """Share of time lost from which on a finding is high."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.warn_ratio > self.high_ratio:
            raise ValueError("warnRatio is above highRatio")
        if self.warn_lost > self.high_lost:
            raise ValueError("warnLost is above highLost")
        return self

    def thresholds(self) -> Thresholds:
        """Return the value that `judge` takes."""
        return Thresholds(self.warn_ratio, self.warn_lost, self.high_ratio, self.high_lost)


class ReportSpec(SpecModel):
    """How the CpuAuditReport of each namespace is written."""

    every: Minutes = timedelta(minutes=5)
    """A report is written at most this often, and only when something that matters has changed; from 1m to 24h."""
    max_findings: Annotated[int, Field(ge=1, le=200)] = 100
    """The worst findings are listed, at most so many; all are counted."""


class ResizeSpec(SpecModel):
    """How limits are raised, by the pods' resize subresource. The pod's owner keeps its own limit, so that a new pod
    starts with that one: the lasting cure is the patch in the report."""

    factor: Annotated[float, BeforeValidator(_number), Field(ge=1.05, le=4, allow_inf_nan=False)] = 1.2
    """The new limit is what the container needs times this; never more than twice the limit in one step."""
    max_limit_per_container: CpuAmount = 4000
    """No container's limit is raised above this."""
    max_added_per_namespace: CpuAmount = 8000
    """All raises that are in force in one namespace add up to at most this."""
    max_per_hour: Annotated[int, Field(ge=1, le=1000)] = 10
    """At most so many raises in an hour in one namespace."""
    after: Minutes = timedelta(minutes=15)
    """A finding must have lasted so long, after it was shown what would be done; from 1m to 24h."""


class EnforceSpec(SpecModel):
    """What may be done in the modes DryRun and Enforce. A limit is never removed; pods of the class Guaranteed, static
    pods, containers that a resize would restart, and the namespaces kube-* of Kubernetes are left alone."""

    resize: ResizeSpec | None = None
    """Raise the limits of containers that use theirs up; {} takes the defaults. Without it no limit is raised."""
    burst: bool = False
    """Let containers with short bursts save up as much as one quota (cpu.max.burst), through agents that run with
    --write-burst."""


class AuditPolicySpec(SpecModel):
    """Which namespaces are audited, what is worth a word, and what may be done. Every field has a default."""

    namespace_selector: AuditedNamespaces = AuditedNamespaces()
    """Namespaces of the policy; without it all of them. Of two policies with the same namespace the older has it."""
    exclude_namespaces: tuple[str, ...] = ()
    """Names of namespaces that are left out."""
    window: Literal["1m", "5m", "1h"] = "5m"
    """Over which time containers are judged: 1m, 5m or 1h."""
    thresholds: ThresholdsSpec = ThresholdsSpec()
    """When throttling is worth a word."""
    report: ReportSpec = ReportSpec()
    """How the CpuAuditReport of each namespace is written."""
    events: bool = True
    """Write an Event CPUThrottlingHigh on pods with a high finding, at most one a pod an hour."""
    mode: Mode = Mode.REPORT
    """Report: tell. DryRun: also show what enforcement would do, each request sent as a dry run. Enforce: do it, after
    it was shown for as long as enforce.resize.after. Revert: put back what was done."""
    enforce: EnforceSpec = EnforceSpec()
    """What may be done in the modes DryRun and Enforce."""

    @model_validator(mode="after")
    def _something_to_enforce(self) -> Self:
        if self.mode in (Mode.DRY_RUN, Mode.ENFORCE) and self.enforce.resize is None and not self.enforce.burst:
            raise ValueError("mode DryRun and Enforce need enforce.resize (such as {}) or enforce.burst: true")
        return self

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the policy is about a namespace."""
        chosen = self.namespace_selector
        return (
            namespace not in self.exclude_namespaces
            and all(labels.get(key) == value for key, value in chosen.match_labels.items())
            and all(expression.holds(labels) for expression in chosen.match_expressions)
        )

    @property
    def enforces(self) -> bool:
        """Whether anything may be sent to change a container, be it a dry run."""
        return self.mode in (Mode.DRY_RUN, Mode.ENFORCE)


class AuditPolicy(PolicyObject):
    """A CpuAuditPolicy with its identity."""

    spec: AuditPolicySpec = AuditPolicySpec()
    """The spec."""


def parse_audit_policy(document: object, *, source: str) -> AuditPolicy:
    """Check one CpuAuditPolicy document (as decoded from YAML or JSON).

    Raises:
        InvalidAuditPolicy: with every problem found, each naming the field's path.
    """
    return AuditPolicy.parse(document, kind=KIND, source=source, such_as="thresholds", bad=InvalidAuditPolicy)


def assign(
    policies: Mapping[str, AuditPolicy], namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Give each namespace its policy: the oldest that selects it, by name where they are as old.

    Args:
        policies: by name.
        namespaces: labels by namespace.

    Returns:
        The policy's name by namespace; and by policy, the namespaces that it selects and an older one has, with the
        older one's name.
    """
    oldest_first = sorted(policies.values(), key=lambda policy: (policy.created_seconds, policy.name))
    chosen: dict[str, str] = {}
    lost: dict[str, dict[str, str]] = {}
    for policy in oldest_first:
        for namespace, labels in namespaces.items():
            if policy.spec.selects(namespace, labels):
                if namespace in chosen:
                    lost.setdefault(policy.name, {})[namespace] = chosen[namespace]
                else:
                    chosen[namespace] = policy.name
    return chosen, lost
