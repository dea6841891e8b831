"""What `audit` and its subcommands print.

They are the exception to its names: camelCase, as CpuAuditReport and CpuAuditPolicy speak of the same cgroups, and
`schema` in place of `apiVersion` and `kind`, whose version promises that a key is added and never renamed.
Units are in the names here too. The words of a state or a kind are the code's; tests hold them to it.
"""

from typing import Literal

import msgspec

Severity = Literal["none", "info", "warn", "high"]
Level = Literal["node", "kubepods", "qos", "pod", "container", "other"]
Source = Literal["cgroups", "cadvisor", "prometheus"]


class AuditRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """What is not declared is not printed."""


class AuditedCgroup(AuditRecord):
    """Which cgroup; names that nobody told are empty."""

    level: Level
    node: str
    namespace: str
    pod: str
    container: str
    pod_uid: str
    container_id: str
    path: str


class AuditWindow(AuditRecord):
    """The counters behind a finding, each as the difference between two samples."""

    seconds: float
    quota_microseconds: int | None
    period_microseconds: int
    quota_changed: bool
    periods: int
    throttled_periods: int
    throttled_nanoseconds: int
    usage_nanoseconds: int | None
    inherited_throttled_nanoseconds: int | None
    burst_microseconds: int | None
    bursts: int | None
    waiting_nanoseconds: int | None
    stalled_nanoseconds: int | None


class AuditPatch(AuditRecord):
    """One way to follow an advice."""

    kind: Literal[
        "raise-limit", "raise-pod-limit", "remove-limit", "environment", "burst", "quota-off", "shorter-period"
    ]
    about: str
    command: str
    json_patch: str
    merge_yaml: str
    cpu_limit_millicores: int | None
    cpu_request_millicores: int | None
    burst_microseconds: int | None


class AuditAdvice(AuditRecord):
    """What to do, and why."""

    id: Literal[
        "upgrade-kernel",
        "check-kernel",
        "raise-limit",
        "allow-burst",
        "match-threads",
        "requests-only",
        "shorter-period",
        "exclusive-cpus",
        "pod-limit",
    ]
    title: str
    evidence: str
    reason: str
    risk: str
    patches: list[AuditPatch]
    no_patch: str


class AuditFinding(AuditedCgroup):
    """What a CPU limit does to a cgroup; null is what is not known or has no meaning there."""

    state: Literal["measured", "no limit", "too few periods", "counters reset", "appeared", "gone"]
    severity: Severity
    marks: list[
        Literal[
            "boundary",
            "stops the world",
            "at its limit",
            "bursty",
            "throttled below its limit",
            "an ancestor's quota",
            "more busy threads than CPUs of the limit",
        ]
    ]
    throttled_ratio: float | None
    time_lost_ratio: float | None
    pressure_ratio: float | None
    neighbours_ratio: float | None
    stop_seconds: float | None
    busy_cpus: float | None
    use_cores: float | None
    limit_cores: float | None
    lost_cores: float | None
    blamed: AuditedCgroup | None
    window: AuditWindow
    advice: list[AuditAdvice]


class AuditKernel(AuditRecord):
    """What the table says of a kernel."""

    release: str
    state: Literal["affected", "fixed", "never had it", "unknown"]
    bug: Literal["clock drift", "slice expiry", "clock drift or slice expiry"] | None
    why: str
    source: str
    confidence: Literal["high", "medium", "low"] | None
    fixed_in: str
    ask: str


class AuditNode(AuditRecord):
    """A node that was audited."""

    name: str
    cpus: int | None
    hierarchy: str
    kernel_release: str
    kernel_version: str
    kernel: AuditKernel


class AuditSummary(AuditRecord):
    """All cgroups in three figures; `states` counts by severity or, without figures, by state."""

    cgroups: int
    states: dict[str, int]
    worst: Severity


class AuditTrouble(AuditRecord):
    """What could not be read, how often, and one of it."""

    trouble: Literal["empty", "malformed", "forbidden", "gone", "unreadable", "no answer"]
    count: int
    example: str


class Audit(AuditRecord):
    """`audit`, of this machine, of a cluster or of a history."""

    schema: Literal["resource-slack.io/audit/v1"]
    source: Source
    at: str
    window_seconds: float
    nodes: list[AuditNode]
    summary: AuditSummary
    troubles: list[AuditTrouble]
    findings: list[AuditFinding]


class AuditPeriod(AuditRecord):
    """One enforcement period, as the picture shows it."""

    quota_microseconds: int
    period_microseconds: int
    burst_microseconds: int
    busy_cpus: float
    busy_cpus_assumed: bool
    runs_microseconds: float
    stops_microseconds: float
    limit_cores: float
    ending_limit_cores: float


class AuditExplanation(AuditRecord):
    """`audit explain`."""

    schema: Literal["resource-slack.io/audit-explain/v1"]
    source: Source
    at: str
    window_seconds: float
    throttled: bool | None
    pods: int
    threads: int | None
    finding: AuditFinding
    governing: AuditedCgroup | None
    period: AuditPeriod | None
    levels: list[AuditFinding]
    kernel: AuditKernel | None


class AuditKernelFeature(AuditRecord):
    """Something that a kernel can or cannot do about quotas."""

    name: str
    present: bool | None
    since: str
    confidence: Literal["high", "medium", "low"]
    note: str


class AuditKernelOfNodes(AuditKernel):
    """A kernel, and the nodes that run it."""

    nodes: list[str]
    features: list[AuditKernelFeature]


class AuditProbe(AuditRecord):
    """What `--probe` saw."""

    state: Literal["bad", "not shown", "not run"]
    why: str
    periods: int
    throttled_periods: int
    use_of_limit_ratio: float | None


class AuditKernels(AuditRecord):
    """`audit kernel`."""

    schema: Literal["resource-slack.io/audit-kernel/v1"]
    kernels: list[AuditKernelOfNodes]
    probe: AuditProbe | None


AUDIT_DOCUMENTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "audit": (Audit,),
    "audit-explain": (AuditExplanation,),
    "audit-kernel": (AuditKernels,),
}
"""By command, its words joined by dashes, what it prints."""
