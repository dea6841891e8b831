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
        "No agent of any node reports, so the state of CPU limits is unknown.",
        "check that the DaemonSet of the agents runs, and what its log says about the controller",
        about="CpuAuditPolicy",
    ),
    Reason(
        "OlderPolicyWins",
        ("Overlapping=True",),
        Level.TROUBLE,
        "An older CpuAuditPolicy selects some of the namespaces, and applies there.",
        "make the two spec.namespaceSelector exclude each other, or delete one of the policies",
        about="CpuAuditPolicy",
    ),
    Reason(
        "NoOverlap",
        ("Overlapping=False",),
        Level.GOOD,
        "No other policy selects its namespaces.",
        about="CpuAuditPolicy",
    ),
    Reason(
        "AgentsMissing",
        ("NodesSilent=True",),
        Level.TROUBLE,
        "Some nodes have sent no report for three intervals; their containers are not seen.",
        "check that an agent runs on the nodes in the message, and what its log says about the controller",
        about="CpuAuditPolicy",
    ),
    Reason("AllNodesReport", ("NodesSilent=False",), Level.GOOD, "Every node's agent reports.", about="CpuAuditPolicy"),
    Reason(
        "ResizeRefused",
        ("EnforcementBlocked=True",),
        Level.TROUBLE,
        "The API server refused to raise or restore a limit within the last hour.",
        "the message has the refusal: give the controller the right to patch pods/resize, raise the LimitRange or "
        "ResourceQuota, or remove the container's namespace from the policy",
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
        "A CPU limit throttles this pod for much of its time. At most one Event per pod and hour.",
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
        "A raised CPU limit was restored to its former value.",
        about="Pod",
    ),
    Reason(
        CPU_LIMIT_WOULD_RISE,
        (),
        Level.NOTE,
        "The change that the CpuAuditPolicy of the namespace would make; sent as a dry run only.",
        "nothing; with mode Report it is not shown",
        about="Pod",
    ),
)
