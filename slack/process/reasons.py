"""Every reason that the operator gives, in conditions and Events: what it means and what to do about it.

The words are stable: people search for them, alerts match them. `kubectl slack status` takes its advice from here, the
reference of Events is made from it, and a test holds it equal to what the code emits.
"""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a reason matters."""

    GOOD = "good"
    NOTE = "note"
    """Worth knowing; nobody has to get up for it."""
    TROUBLE = "trouble"
    """Slack is missing, or soon will be."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One word and its story."""

    name: str
    on: tuple[str, ...]
    """The conditions that have it, as `Type=Status`; none when only an Event has it."""
    level: Level
    meaning: str
    advice: str = ""
    about: str = "SlackPolicy"
    """Kind of the object that the Event is about."""


_BLOCKED = ("Ready=False", "SlackSatisfied=False", "Covered=False", "Feasible=False")

PREEMPTION_RESCUED = "PreemptionRescued"
PLACEHOLDERS_DISPLACED = "PlaceholdersDisplaced"
CPU_THROTTLING_HIGH = "CPUThrottlingHigh"
CPU_LIMIT_RAISED = "CPULimitRaised"
CPU_LIMIT_RESTORED = "CPULimitRestored"
CPU_LIMIT_WOULD_RISE = "CPULimitWouldRise"

REASONS: tuple[Reason, ...] = (
    Reason("SlackIsThere", ("Ready=True",), Level.GOOD, "Every placeholder of the plan is on a node."),
    Reason(
        "PlaceholdersPending",
        ("Ready=False", "SlackSatisfied=False"),
        Level.TROUBLE,
        "Placeholders are wanted that are on no node yet; usual for the minutes in which a node comes.",
        "wait for the autoscaler; if it lasts, see what it says: kubectl get events -n NAMESPACE",
    ),
    Reason("Reserved", ("SlackSatisfied=True",), Level.GOOD, "The desired extra capacity is reserved on nodes."),
    Reason(
        "NotPlanned",
        ("Ready=False", "SlackSatisfied=False"),
        Level.TROUBLE,
        "The plan holds less than what is desired, because no shape for the rest fits any node.",
        "see which shapes do not fit: kubectl slack plan; larger nodes or spec.nodeTemplates help",
    ),
    Reason(
        "CeilingReached",
        ("Ready=False", "SlackSatisfied=False", "Covered=False"),
        Level.TROUBLE,
        "spec.extraCapacity.ceiling cuts placeholders off.",
        "raise spec.extraCapacity.ceiling, or lower minRate, floor or cover.coverage to what it allows",
    ),
    Reason(
        "DomainConflict",
        _BLOCKED,
        Level.TROUBLE,
        "An older policy has the same nodes. Nothing is done for this one.",
        "make the two spec.nodeSelector exclude each other, or delete one of the policies",
    ),
    Reason(
        "BadPriorityClass",
        _BLOCKED,
        Level.TROUBLE,
        "The PriorityClass of the placeholders is absent or unfit. Nothing is done for this policy.",
        "name one in spec.priorityClassName with a value from -10 to -1, preemptionPolicy Never and no globalDefault",
    ),
    Reason(
        "NoEligibleNode",
        _BLOCKED,
        Level.TROUBLE,
        "No node is selected, or none of the selected ones can take a placeholder. Nothing is done for this policy.",
        "compare spec.nodeSelector and spec.tolerations with: kubectl get nodes --show-labels; "
        "a group that stands at zero needs spec.nodeTemplates",
    ),
    Reason(
        "InvalidSpec",
        ("Ready=False",),
        Level.TROUBLE,
        "The spec has something that only the operator can judge, such as a cron expression or a time zone.",
        "mend the field that the message names; kubectl slack plan -f FILE checks before you apply",
    ),
    Reason(
        "WriteRefused",
        ("Ready=False",),
        Level.TROUBLE,
        "The API server or an admission webhook refused a write of the operator's.",
        "the message has the refusal: give the operator the right, take the webhook off its namespace, "
        "or give the object back",
    ),
    Reason(
        "CoverageReached", ("Covered=True",), Level.GOOD, "Enough of what arrives fits the room of one placeholder."
    ),
    Reason(
        "CoverageMissed",
        ("Covered=False",),
        Level.TROUBLE,
        "Pods come that fit no placeholder's room; status.uncovered names them.",
        "kubectl slack explain KIND/NAME says why for each; leave rare ones out with spec.cover.exclude",
    ),
    Reason(
        "MaxShapesReached",
        ("Covered=False",),
        Level.TROUBLE,
        "More shapes of placeholders would be needed than spec.cover.maxShapes allows.",
        "raise spec.cover.maxShapes, or leave workloads out with spec.cover.exclude",
    ),
    Reason("EveryShapeFits", ("Feasible=True",), Level.GOOD, "Every wanted shape fits an eligible node."),
    Reason(
        "ShapeFitsNowhere",
        ("Feasible=False",),
        Level.TROUBLE,
        "A wanted shape fits no node of the policy, not even an empty one.",
        "add larger nodes, describe them in spec.nodeTemplates, or leave the workload out with spec.cover.exclude",
    ),
    Reason("ChunksAreSmall", ("PinsNodes=False",), Level.GOOD, "No placeholder keeps its node from being scaled down."),
    Reason(
        "LargeShape",
        ("PinsNodes=True",),
        Level.NOTE,
        "A placeholder takes so much of its node that the autoscaler never finds it underused.",
        "larger nodes; or leave the largest pods out with spec.cover.exclude",
    ),
    Reason("NothingRefused", ("LimitReached=False",), Level.GOOD, "Nothing keeps placeholders from growing."),
    Reason(
        "AutoscalerLimit",
        ("LimitReached=True",),
        Level.TROUBLE,
        "The autoscaler has reached a maximum of its own. Placeholders are held back, with one probe left.",
        "raise the node group's or NodePool's maximum, or set spec.extraCapacity.ceiling below it",
    ),
    Reason(
        "NoNodeGroupFits",
        ("LimitReached=True",),
        Level.TROUBLE,
        "The autoscaler says that no node group would help. Placeholders are held back, with one probe left.",
        "compare the shape's requests, spec.nodeSelector and spec.tolerations with the node groups",
    ),
    Reason(
        "QuotaExceeded",
        ("LimitReached=True",),
        Level.TROUBLE,
        "A ResourceQuota refuses placeholders. They are held back, with one probe left.",
        "raise the quota of the placeholders' namespace, or set spec.extraCapacity.ceiling below it",
    ),
    Reason("Answered", ("AutoscalerIgnoresPlaceholders=False",), Level.GOOD, "No placeholder waits unanswered."),
    Reason(
        "NoWord",
        ("AutoscalerIgnoresPlaceholders=True",),
        Level.TROUBLE,
        "Placeholders have been pending for minutes, and no autoscaler has said a word about them.",
        "see that an autoscaler runs, and that its --expendable-pods-priority-cutoff is -10 or lower",
    ),
    Reason("Fresh", ("ViewStale=False",), Level.GOOD, "The operator's view of the cluster is whole again."),
    Reason(
        "NotWhole",
        ("ViewStale=True",),
        Level.TROUBLE,
        "The operator does not see the whole cluster, so it plans nothing; what is there stays.",
        "the message names what is missing: the operator's rights, or the way to the API server",
    ),
    Reason("NothingHangs", ("PreemptionStuck=False",), Level.GOOD, "No preempting pod hangs any more."),
    Reason(
        "Rescued",
        ("PreemptionStuck=True",),
        Level.NOTE,
        "The scheduler left a real pod hanging after preemption; the operator freed it. Stays for ten minutes.",
        "nothing now; if it comes often, update the scheduler or turn off its feature SchedulerAsyncPreemption",
    ),
    Reason(
        "RescueDisabled",
        ("PreemptionStuck=True",),
        Level.TROUBLE,
        "The scheduler left a real pod hanging after preemption, and --rescue-stuck-preemptors is off.",
        "delete the pod that the message names, or start the operator with --rescue-stuck-preemptors",
    ),
    Reason(
        PREEMPTION_RESCUED,
        (),
        Level.GOOD,
        "This pod had been promised a node and hung; its status.nominatedNodeName was cleared, so it is tried anew.",
        about="Pod",
    ),
    Reason(
        PLACEHOLDERS_DISPLACED,
        (),
        Level.GOOD,
        "Placeholders left their nodes without the operator's doing: real pods took their room, or somebody deleted "
        "them. At most one Event in two minutes; status.displaced counts.",
    ),
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
        "The CpuAuditPolicy of the namespace raised this pod's CPU limit; an annotation keeps the former one.",
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

_BY_NAME = {one.name: one for one in REASONS}


def reason(name: str) -> Reason | None:
    """Return what is known of a reason; None for one of another version."""
    return _BY_NAME.get(name)
