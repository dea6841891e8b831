"""Every reason of the auditor, in conditions of its policies and in Events about pods."""

from slack.process.reasons import Level, Reason

CPU_THROTTLING_HIGH = "CPUThrottlingHigh"
CPU_LIMIT_RAISED = "CPULimitRaised"
CPU_LIMIT_RESTORED = "CPULimitRestored"
CPU_LIMIT_WOULD_RISE = "CPULimitWouldRise"

REASONS: tuple[Reason, ...] = (
    Reason("ReportsArrive", ("Ready=True",), Level.GOOD, "Agents report, and the audit works.", about="CpuAuditPolicy"),
    Reason(
        "NoReports",
        ("Ready=False",),
        Level.TROUBLE,
        "No agent of any node reports, so nothing is known of CPU limits.",
        "see that the DaemonSet of the agents runs, and what its log says of the controller",
        about="CpuAuditPolicy",
    ),
    Reason(
        "OlderPolicyWins",
        ("Overlapping=True",),
        Level.TROUBLE,
        "An older CpuAuditPolicy has some of the namespaces; this one is not used for them.",
        "make the two spec.namespaceSelector exclude each other, or delete one of the policies",
        about="CpuAuditPolicy",
    ),
    Reason(
        "NoOverlap", ("Overlapping=False",), Level.GOOD, "No other policy has its namespaces.", about="CpuAuditPolicy"
    ),
    Reason(
        "AgentsMissing",
        ("NodesSilent=True",),
        Level.TROUBLE,
        "Of some nodes no report has come for three intervals; containers there are not seen.",
        "see that an agent runs on the nodes that the message names, and what its log says of the controller",
        about="CpuAuditPolicy",
    ),
    Reason("AllNodesReport", ("NodesSilent=False",), Level.GOOD, "Every node's agent reports.", about="CpuAuditPolicy"),
    Reason(
        "ResizeRefused",
        ("EnforcementBlocked=True",),
        Level.TROUBLE,
        "The API server refused to raise or put back a limit within the last hour.",
        "the message has the refusal: give the controller the right to patch pods/resize, raise the LimitRange or "
        "ResourceQuota, or take the container's namespace out of the policy",
        about="CpuAuditPolicy",
    ),
    Reason(
        "NothingRefusedLately",
        ("EnforcementBlocked=False",),
        Level.GOOD,
        "No change of a limit was refused within the last hour.",
        about="CpuAuditPolicy",
    ),
    Reason(
        CPU_THROTTLING_HIGH,
        (),
        Level.TROUBLE,
        "A CPU limit stops this pod for much of its time. At most one Event a pod an hour.",
        "the message names the advice; the CpuAuditReport of the namespace has the patch: "
        "kubectl get cpuauditreport cpu-audit -n NAMESPACE -o yaml",
        about="Pod",
    ),
    Reason(
        CPU_LIMIT_RAISED,
        (),
        Level.GOOD,
        "The CpuAuditPolicy of the namespace raised this pod's CPU limit; the controller records the former one.",
        about="Pod",
    ),
    Reason(
        CPU_LIMIT_RESTORED,
        (),
        Level.GOOD,
        "A CPU limit that had been raised was put back to what it was.",
        about="Pod",
    ),
    Reason(
        CPU_LIMIT_WOULD_RISE,
        (),
        Level.NOTE,
        "What the CpuAuditPolicy of the namespace would do, or will do when it has lasted; sent as a dry run only.",
        "nothing; with mode Report it is not even shown",
        about="Pod",
    ),
)
