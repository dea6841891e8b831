"""What the CPU audit's controller writes: the status of a CpuAuditPolicy, and the CpuAuditReport of a namespace.

The controller builds them, and the CRDs are made of them. Shares are percent, rounded; amounts of CPU are quantities as
text.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from slack.schema.status_struct import (
    Number,
    StatusPart,
    at_most,
    choice_field,
    count_field,
    description_field,
    generation_field,
    list_field,
    map_field,
    percent_field,
    text_field,
    time_field,
)

MOST_FINDINGS: Final = 200
MOST_ACTIONS: Final = 32
MOST_KERNELS: Final = 32
PATCH_CHARACTERS: Final = 2048
Counts = dict[str, Annotated[int, Meta(extra_json_schema={"minimum": 0})]]
"""By name."""


class AuditedNodes(StatusPart):
    """Nodes of the cluster by whether their agents report."""

    reporting: Annotated[int | None, count_field("Nodes with a report of the last three intervals.")] = None
    silent: Annotated[int | None, count_field("Nodes without.")] = None


class AuditSummaryTexts(StatusPart):
    """Texts of the columns that kubectl prints."""

    nodes: Annotated[str | None, text_field("Reporting nodes/all nodes.", 32)] = None
    lost: Annotated[str | None, text_field("Cores that containers wanted.", 32)] = None


class AuditAction(StatusPart):
    """One entry of `enforcement.actions`."""

    container: Annotated[str | None, text_field("namespace/pod/container.", 512)] = None
    what: Annotated[str | None, text_field("raise, burst or revert.", 32)] = None
    from_: Annotated[str | None, text_field("The limit before, or the burst.", 32)] = msgspec.field(
        default=None, name="from"
    )
    to: Annotated[str | None, text_field("The limit after, or the burst.", 32)] = None
    outcome: Annotated[
        str | None,
        text_field(
            "planned (shown as a dry run), sent, done, deferred, infeasible, refused, conflict, timeout or reverted.",
            32,
        ),
    ] = None
    message: Annotated[str | None, text_field("What the API server or the kubelet said.")] = None
    at: Annotated[str | None, time_field("When.")] = None


class AuditLeftAlone(StatusPart):
    """One entry of `enforcement.leftAlone`."""

    container: Annotated[str | None, text_field("namespace/pod/container.", 512)] = None
    reason: Annotated[str | None, text_field("Why it is left alone.")] = None


class AuditEnforcement(StatusPart):
    """What was changed, and what was not."""

    raised: Annotated[int | None, count_field("Containers whose limit stands raised.")] = None
    added_cores: Annotated[str | None, text_field("What these raises add up to.", 32)] = None
    bursts: Annotated[int | None, count_field("Containers that may burst by order of the policy.")] = None
    planned: Annotated[int | None, count_field("Containers that were shown a change which has not been made.")] = None
    last_hour: Annotated[int | None, count_field("Raises in the last hour.")] = None
    actions: Annotated[
        list[Annotated[AuditAction, description_field("One change, or what would be one.")]] | None,
        list_field("The last changes, the newest first.", MOST_ACTIONS),
    ] = None
    left_alone: Annotated[
        list[Annotated[AuditLeftAlone, description_field("A finding that enforcement does nothing about.")]] | None,
        list_field("Findings that nothing is done about, the worst first.", MOST_ACTIONS),
    ] = None
    left_alone_count: Annotated[int | None, count_field("How many there are.")] = None


class AuditCondition(StatusPart):
    """One entry of `conditions`."""

    type: Annotated[
        str,
        text_field(
            "Good when True: Ready. Good when False: Overlapping, NodesSilent, EnforcementBlocked, OwnershipContested.",
            316,
        ),
    ]
    status: Annotated[str, choice_field("Whether it is so.", "True", "False", "Unknown")]
    reason: Annotated[str, text_field("One CamelCase word that stays the same, to search and to alert by.")]
    message: Annotated[str, text_field("A sentence for people: what is so, and what would help.", 32768)]
    last_transition_time: Annotated[str, time_field("Since when the status is as it is.")]


class CpuAuditPolicyStatus(StatusPart):
    """What the controller found and did. Written by the controller only."""

    observed_generation: Annotated[
        int | None, generation_field("The metadata.generation that this status is about.")
    ] = None
    mode: Annotated[str | None, text_field("The mode in force.", 32)] = None
    nodes: AuditedNodes | None = None
    summary: AuditSummaryTexts | None = None
    namespaces: Annotated[int | None, count_field("Namespaces that the policy has.")] = None
    containers: Annotated[int | None, count_field("Containers of theirs that agents report on.")] = None
    high: Annotated[int | None, count_field("Findings with severity high.")] = None
    warn: Annotated[int | None, count_field("Findings with severity warn.")] = None
    info: Annotated[int | None, count_field("Findings that are worth knowing and harmless.")] = None
    lost_cores: Annotated[
        str | None, text_field("CPU that was wanted and not given, a second, all namespaces together.", 32)
    ] = None
    troubles: Annotated[Counts | None, map_field("What agents could not read, by kind, since they began.", 32)] = None
    enforcement: AuditEnforcement | None = None
    conditions: Annotated[
        list[Annotated[AuditCondition, description_field("One thing that is so or is not.")]] | None,
        list_field("Whether the audit works, and if not, why.", 16, key="type"),
    ] = None


class ReportSummary(StatusPart):
    """The namespace in figures."""

    pods: Annotated[int | None, count_field("Pods that agents report on.")] = None
    containers: Annotated[int | None, count_field("Their containers.")] = None
    no_limit: Annotated[int | None, count_field("Containers without a CPU limit: nothing can throttle them.")] = None
    too_few: Annotated[int | None, count_field("Containers that ran in too few periods for a verdict.")] = None
    other: Annotated[int | None, count_field("Containers that began or ended within the window.")] = None
    high: Annotated[int | None, count_field("Findings with severity high.")] = None
    warn: Annotated[int | None, count_field("Findings with severity warn.")] = None
    info: Annotated[int | None, count_field("Findings that are worth knowing and harmless.")] = None
    levels: Annotated[Counts | None, map_field("Findings of severity warn and high, by level.", 32)] = None
    lost_cores: Annotated[str | None, text_field("CPU that was wanted and not given, a second.", 32)] = None
    worst: Annotated[str | None, text_field("The worst finding in a few words.", 512)] = None
    nodes: AuditedNodes | None = None
    troubles: Annotated[
        Counts | None, map_field("What the agents of these nodes could not read, by kind, since they began.", 32)
    ] = None


class ReportKernel(StatusPart):
    """One entry of `kernels`."""

    release: Annotated[str | None, text_field("uname -r", 256)] = None
    verdict: Annotated[str | None, text_field("Whether it has a bug of CPU quotas.", 64)] = None
    why: Annotated[str | None, text_field("Where that is from.")] = None
    nodes: Annotated[int | None, count_field("How many of the nodes have it.")] = None


class ReportFinding(StatusPart, kw_only=True):
    """One entry of `findings`."""

    pod: Annotated[str, text_field("Name of the pod.", 253)]
    container: Annotated[str | None, text_field("Name of the container; empty for the pod's own cgroup.", 253)] = None
    level: Annotated[str, text_field("Where the figures are from: pod or container.", 32)]
    workload: Annotated[str | None, text_field("The pod's owner, as Kind/name.", 512)] = None
    node: Annotated[str | None, text_field("Where it runs.", 253)] = None
    severity: Annotated[str, choice_field("How bad it is.", "high", "warn", "info")]
    marks: Annotated[list[Annotated[str, at_most(64)]] | None, list_field("What kind of throttling it is.", 16)] = None
    throttled_percent: Annotated[
        Number | None, percent_field("Share of enforcement periods in which it was throttled.")
    ] = None
    lost_percent: Annotated[Number | None, percent_field("Share of its time in which it stood still.")] = None
    neighbours_percent: Annotated[
        Number | None,
        percent_field(
            "Share of its time in which it stood still because others had the CPU, not for a quota; "
            "absent where the kernel does not tell (cgroup v1, no PSI)."
        ),
    ] = None
    stop_millis: Annotated[int | None, count_field("Mean stop of a throttled period.")] = None
    use: Annotated[str | None, text_field("CPU used.", 32)] = None
    limit: Annotated[str | None, text_field("The limit of its own cgroup.", 32)] = None
    lost_cores: Annotated[str | None, text_field("CPU that it wanted and did not get, a second.", 32)] = None
    blamed: Annotated[
        str | None, text_field("The level whose quota it is, where that is not its own, with the cgroup's path.", 1100)
    ] = None
    advice: Annotated[
        list[Annotated[str, at_most(64)]] | None, list_field("Ids of the advice, the first to take first.", 16)
    ] = None
    patch: Annotated[
        str | None, text_field("What to change, of the first advice that has a patch.", PATCH_CHARACTERS)
    ] = None


class CpuAuditReportContent(StatusPart):
    """Which containers of the namespace a CPU limit stops, and what to do. Written by resource-slack audit controller;
    the CpuAuditPolicy of the namespace says when and how."""

    policy: Annotated[str | None, text_field("The CpuAuditPolicy of the namespace.", 253)] = None
    window: Annotated[str | None, text_field("Over which time was judged.", 16)] = None
    measured_at: Annotated[str | None, time_field("When the figures were taken.")] = None
    summary: ReportSummary | None = None
    kernels: Annotated[
        list[Annotated[ReportKernel, description_field("One kernel.")]] | None,
        list_field("Kernels of the nodes that the pods are on.", MOST_KERNELS),
    ] = None
    findings: Annotated[
        list[Annotated[ReportFinding, description_field("One container or pod that was throttled.")]] | None,
        list_field("The worst first.", MOST_FINDINGS),
    ] = None
    truncated: Annotated[int | None, count_field("Findings that are counted and not listed.")] = None
