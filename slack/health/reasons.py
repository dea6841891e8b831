"""Every reason that the operator gives, in conditions and Events: what it means and what to do about it.

The words are stable: people search for them, alerts match them. `kubectl slack status` takes its advice from here, the
reference of Events is made from it, and a test holds it equal to what the code emits. Those of the companions stand
beside their processes; `slack_operator.web.reasons` gathers all.
"""

from slack.process.reasons import Level, Reason

_NO_ROOM = ("SlackSatisfied=False", "Covered=False", "Feasible=False")
_MUST_BE_MENDED = ("Ready=False", "Stalled=True")
_BLOCKED = (*_MUST_BE_MENDED, *_NO_ROOM)

OPERATOR_ABSENT = "OperatorAbsent"
REFILLING = "Refilling"
REFILL_LASTS = "RefillLasts"
PREEMPTION_RESCUED = "PreemptionRescued"
PLACEHOLDERS_DISPLACED = "PlaceholdersDisplaced"
MADE_WAY = "MadeWay"
PENDING_ON_PURPOSE = "PendingOnPurpose"
FORM_CHANGED = "FormChanged"
OWNERSHIP_TAKEN_BACK = "OwnershipTakenBack"
RESERVATION_CUT = "ReservationCut"

REASONS: tuple[Reason, ...] = (
    Reason("Accepted", ("Ready=True",), Level.GOOD, "The policy is accepted and acted upon."),
    Reason(
        "Followed",
        ("Ready=True",),
        Level.GOOD,
        "The policy of the SlackScale's name has its replicas.",
        about="SlackScale",
    ),
    Reason(
        "NoSuchPolicy",
        ("Ready=False",),
        Level.TROUBLE,
        "There is no SlackPolicy of the SlackScale's name, so nothing follows it.",
        "name the SlackScale like its policy",
        about="SlackScale",
    ),
    Reason("HistoryKept", ("HistoryLost=False",), Level.GOOD, "What the policy learns for its objective is kept."),
    Reason(
        "HistoryUnusable",
        ("HistoryLost=True",),
        Level.TROUBLE,
        "The SlackHistory of the policy cannot be used. What the operator has in memory goes on; one that has just "
        "begun learns anew, and until it knows enough, --extra-capacity-min-rate holds. It turns after an hour.",
        "the message says what is wrong with the SlackHistory: see who has written there (--show-managed-fields)",
    ),
    Reason(
        "HistoryNotKept",
        ("HistoryLost=True",),
        Level.TROUBLE,
        "The API server refuses to have the SlackHistory of the policy read or written: what is learnt for its "
        "objective is in the operator's memory only. Nothing is written over it; it is tried again by itself.",
        "give the operator the right that the message names, with the chart's Role, and the CRDs first",
    ),
    Reason(
        "DryRun",
        ("SlackSatisfied=False",),
        Level.NOTE,
        "spec.dryRun: the policy is accepted and planned for, and nothing is written.",
        "read the plan in status; take spec.dryRun away to have it carried out",
    ),
    Reason(
        "Reserved",
        ("SlackSatisfied=True",),
        Level.GOOD,
        "All wanted room is there: every placeholder has its capacity on a node.",
    ),
    Reason(
        REFILLING,
        ("SlackSatisfied=False",),
        Level.NOTE,
        "Placeholders are on their way to nodes: after pods took their room, and while a node comes.",
        "nothing; it turns into an alarm by itself when no node comes in its time",
    ),
    Reason(
        REFILL_LASTS,
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "Not all wanted room has been there for a quarter of an hour, although no placeholder waits long for its node.",
        "see whether pods of placeholders are made: kubectl get events -n NAMESPACE; where they come and go, more is "
        "taken than comes back: raise the rate or the floor",
    ),
    Reason(
        "PlaceholdersPending",
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "A placeholder has waited for a node three times as long as one takes to come here, although no autoscaler has "
        "refused it.",
        "see what the autoscaler says: kubectl get events -n NAMESPACE; does its cloud give no node?",
    ),
    Reason(
        "NotPlanned",
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "The plan holds less than what is desired, because no shape for the rest fits any node.",
        "see which shapes do not fit: kubectl slack plan; larger nodes or spec.nodeTemplates help",
    ),
    Reason(
        "CeilingReached",
        ("SlackSatisfied=False", "SlackSatisfied=True", "Covered=False"),
        Level.NOTE,
        "spec.extraCapacity.ceiling keeps the policy below what it would have otherwise, as it is meant to; the "
        "message names the ceiling that binds. SlackSatisfied is True where all is there that the ceilings ask for.",
        "nothing; for more room raise spec.extraCapacity.ceiling, for a calm status lower minRate, floor or "
        "cover.coverage to what it allows",
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
        "HostnameRefused",
        _BLOCKED,
        Level.TROUBLE,
        "The policy's placeholders are unbound and would name hosts, because spec.nodeSelector of this policy, or of a "
        "more specific one, has kubernetes.io/hostname. Karpenter keeps no node for such pods.",
        "select nodes by another label than kubernetes.io/hostname, or set spec.hold: Bound",
    ),
    Reason(
        "NoEligibleNode",
        _NO_ROOM,
        Level.TROUBLE,
        "No node is selected, or none of the selected ones can take a placeholder; with perDomain Zone, none of one "
        "zone. If nodes are selected, what is wanted stays. As nodes come and go, Ready stays True.",
        "compare spec.nodeSelector and spec.tolerations with: kubectl get nodes --show-labels; "
        "a group that stands at zero needs spec.nodeTemplates",
    ),
    Reason(
        "NoNodesYet",
        _NO_ROOM,
        Level.NOTE,
        "The cluster has no nodes at all. Placeholders come with the first.",
        "nothing, while nodes are on their way; a cluster that grows from none needs spec.nodeTemplates",
    ),
    Reason(
        "InvalidSpec",
        _MUST_BE_MENDED,
        Level.TROUBLE,
        "The spec has something that only the operator can judge, such as a cron expression or a time zone.",
        "mend the field that the message names; kubectl slack plan -f FILE checks before you apply",
    ),
    Reason(
        "BoundNotAllowed",
        _MUST_BE_MENDED,
        Level.TROUBLE,
        "The policy asks for bound placeholders, and the operator may not keep any.",
        "write hold: Auto or Unbound, or set operator.bound.enabled",
    ),
    Reason(
        "NoPrices",
        _MUST_BE_MENDED,
        Level.TROUBLE,
        "spec.objective.maxCostPerHour bounds what the policy may cost, and nobody says what its nodes cost: neither "
        "spec.objective.prices nor the operator's --prices. The objective does not decide: the rate holds.",
        "give the operator prices (the chart's prices, --prices) that fit the policy's nodes, or the policy "
        "spec.objective.prices; or take maxCostPerHour away",
    ),
    Reason(
        "NotPermitted",
        _MUST_BE_MENDED,
        Level.TROUBLE,
        "The API server does not let the operator see what it must see, so nothing is planned; what is there stays.",
        "give the operator back the right that the message names: the chart's ClusterRole has all that it needs",
    ),
    Reason(
        "WriteRefused",
        _MUST_BE_MENDED,
        Level.TROUBLE,
        "The API server or an admission webhook refused a write of the operator's.",
        "the message has the refusal: give the operator the right, take the webhook off its namespace, "
        "or give the object back",
    ),
    Reason(
        "CoverageReached", ("Covered=True",), Level.GOOD, "Enough of what arrives fits the room of one placeholder."
    ),
    Reason(
        "ObjectiveDecides",
        ("Covered=True",),
        Level.GOOD,
        "The objective asks for less room now than a placeholder for each of the pods that come often would take.",
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
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "The autoscaler has reached a maximum of its own. After spec.stabilization.giveUpAfter placeholders are held "
        "back, with one probe left.",
        "raise the node group's or NodePool's maximum, or set spec.extraCapacity.ceiling below it",
    ),
    Reason(
        "NoNodeGroupFits",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "The autoscaler says that no node group would help. After spec.stabilization.giveUpAfter placeholders are held "
        "back, with one probe left.",
        "compare the shape's requests, spec.nodeSelector and spec.tolerations with the node groups",
    ),
    Reason(
        "QuotaExceeded",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "A ResourceQuota refuses placeholders. They are held back, with one probe left.",
        "raise the quota of the placeholders' namespace, or set spec.extraCapacity.ceiling below it",
    ),
    Reason(
        "PlaceholdersFail",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "A kubelet refuses placeholders, or ends them, as fast as they are made. They are held at those that run, "
        "without a probe, for two minutes at first, and twice as long each time.",
        "the message has the node and its word: OutOf... where the scheduler believes in room that the node has not, "
        "such as after a change of its reservations; cordon the node, or restart its kubelet",
    ),
    Reason("Answered", ("AutoscalerIgnoresPlaceholders=False",), Level.GOOD, "No placeholder waits unanswered."),
    Reason(
        "NoWord",
        ("AutoscalerIgnoresPlaceholders=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "Placeholders have waited as long as a node takes to come here, two minutes at least, and no autoscaler has "
        "said a word about them.",
        "see that an autoscaler runs, and that its --expendable-pods-priority-cutoff is -10 or lower; for unbound "
        "placeholders also that its --allowed-scheduler-names, if it is set, has their schedulerName",
    ),
    Reason(
        "NotTold",
        ("Ready=False", "AutoscalerIgnoresPlaceholders=True"),
        Level.TROUBLE,
        "The condition PodScheduled of unbound placeholders cannot be written, or somebody removes it, so that no "
        "autoscaler counts these pods. Ready is False if it counts none of the policy's.",
        "the message has the API server's answer, or a pod: grant the operator `patch` on pods/status in NAMESPACE, or "
        "find who removes the condition",
    ),
    Reason(
        "RateAboveHalf",
        ("LargeSlack=True",),
        Level.NOTE,
        "The rate in force keeps more than half of what runs again. It is carried out.",
        "nothing, where it is meant; 0.1 is ten percent, and resource-slack tune says which rate is right",
    ),
    Reason(
        "MoreThanDoubles",
        ("LargeSlack=True",),
        Level.TROUBLE,
        "So many nodes must come for the placeholders that the cluster more than doubles. It is carried out; it ends "
        "when the nodes are there.",
        "lower minRate, floor or replicas if this is not meant (0.1 is ten percent), and set "
        "spec.extraCapacity.ceiling; spec.dryRun shows a plan without carrying it out",
    ),
    Reason(
        OPERATOR_ABSENT,
        (),
        Level.TROUBLE,
        "No operator leads, so nobody keeps a status up, and nothing is known of slack since then. Nobody is there to "
        "write it into a status: `kubectl get slackpolicies` goes on showing what was said last.",
        "start it (kubectl get deployments -A -l app.kubernetes.io/name=resource-slack); where its pods run, their log "
        "says why none of them leads",
        about="Lease",
    ),
    Reason("Fresh", ("ViewStale=False",), Level.GOOD, "The operator's view of the cluster is whole again."),
    Reason(
        "NotWhole",
        ("ViewStale=True",),
        Level.TROUBLE,
        "The operator does not see the whole cluster, so it plans nothing; what is there stays.",
        "the message names what is missing: the operator's rights, or the way to the API server",
    ),
    Reason("AsPlanned", ("PlaceholdersChanged=False",), Level.GOOD, "No placeholder differs from its plan any more."),
    Reason(
        "DifferFromPlan",
        ("PlaceholdersChanged=True",),
        Level.NOTE,
        "Admission, or somebody later, has made placeholders other than planned, such as by a sidecar. What they "
        "request counts towards reserved and the ceiling; a sidecar also makes them larger than the pods they are for.",
        "leave the placeholders' namespace, or pods with the label resource-slack.io/placeholder, out of what the "
        "message names: an injector, a policy, a LimitRange",
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
        "RescueFailed",
        ("PreemptionStuck=True",),
        Level.TROUBLE,
        "The scheduler left a real pod hanging after preemption, and the API server did not let the operator free it. "
        "It is tried again, at longer and longer intervals.",
        "the message has the server's answer; the operator needs patch on pods/status",
    ),
    Reason(
        "RescueDisabled",
        ("PreemptionStuck=True",),
        Level.TROUBLE,
        "The scheduler left a real pod hanging after preemption, and --rescue-stuck-preemptors is off.",
        "delete the pod that the message names, or start the operator with --rescue-stuck-preemptors",
    ),
    Reason(
        "NodeStays",
        ("ReleaseBlocked=True",),
        Level.NOTE,
        "A drifted, expiring or spare node was released from unbound placeholders and is still in use, so they have it "
        "back. The next attempt is later, after twice as long each time.",
        "see what keeps the node that the message names: kubectl describe node NODE, and the limits of its NodePool or "
        "the least size of its node group",
    ),
    Reason(
        "ReleaseNotPermitted",
        ("ReleaseBlocked=True",),
        Level.TROUBLE,
        "A node has drifted or expires, unbound placeholders hold it, and the operator may not release it, or may not "
        "see which nodes have drifted.",
        "do what the message asks for; if it names operator.releaseNodes, set this to Label, or to MarkerPod where the "
        "operator must not label nodes; or label the node yourself: kubectl label node NODE "
        "resource-slack.io/release=by-hand",
    ),
    Reason(
        PREEMPTION_RESCUED,
        (),
        Level.GOOD,
        "This pod had been promised a node and hung; its status.nominatedNodeName was cleared, so it is tried anew.",
        about="Pod",
    ),
    Reason(
        MADE_WAY,
        (),
        Level.GOOD,
        "Placeholders were deleted for a burst of real pods, before the scheduler had to preempt them; once a burst.",
    ),
    Reason(
        PENDING_ON_PURPOSE,
        (),
        Level.GOOD,
        "Pods of this ReplicaSet are unbound placeholders: they stay Pending and never run. For them the autoscaler "
        "keeps capacity free, and real pods start there. Once for each ReplicaSet, when its first pod is reported to "
        "the autoscaler.",
        about="ReplicaSet",
    ),
    Reason(
        FORM_CHANGED,
        (),
        Level.NOTE,
        "The placeholders of this policy become unbound, or bound, a few at a time. The Event says from which form to "
        "which and why; it is a Warning if unbound ones were of no use. status.hold says since when.",
        "Nothing for a Normal one. For a Warning, mend what it names; Auto tries unbound placeholders again by itself.",
    ),
    Reason(
        PLACEHOLDERS_DISPLACED,
        (),
        Level.GOOD,
        "Placeholders left their nodes without the operator's doing: real pods took their room, or somebody deleted "
        "them. At most one Event in two minutes; status.displaced counts.",
    ),
    Reason(
        RESERVATION_CUT,
        (),
        Level.NOTE,
        "A workload gets fewer placeholders than its annotation resource-slack.io/reserve asks for, because a policy "
        "bounds it. On the workload, once for each number; status.cut of the policy has the same.",
        "ask for less, or have spec.reserve (or spec.extraCapacity.ceiling) of the SlackPolicy raised",
        about="Deployment",
    ),
    Reason(
        OWNERSHIP_TAKEN_BACK,
        (),
        Level.NOTE,
        "Somebody has written, adopted or deleted an object of the operator's own; it was taken back at once. Once a "
        "writer and field, until it has been quiet for ten minutes.",
        "leave the operator's ReplicaSets alone: change the SlackPolicy instead; take autoscalers and downscalers off "
        "its namespace",
    ),
    Reason(
        "WrittenBack",
        ("OwnershipContested=True", "ReleaseBlocked=True", *_MUST_BE_MENDED),
        Level.TROUBLE,
        "A writer has put his value back on an object, a label or a status of the operator's five times within ten "
        "minutes. It stands for now; the operator tries again after ten minutes, then after twice as long each time.",
        "the message names the writer, where it is known, and the field: take that controller (an HPA, a downscaler, "
        "a GitOps tool) off the operator's ReplicaSets, or off the label of the node",
    ),
    Reason(
        "DeletionHeldUp",
        ("OwnershipContested=True", *_MUST_BE_MENDED),
        Level.TROUBLE,
        "A ReplicaSet of placeholders was deleted, and finalizers of others keep it; it is not refilled, and cannot be "
        "made again.",
        "let the owner of the finalizer do its work, or take the finalizer away: kubectl edit replicaset NAME",
    ),
    Reason(
        "Uncontested",
        ("OwnershipContested=False",),
        Level.GOOD,
        "Nobody else writes the operator's objects any more.",
    ),
)

_BY_NAME = {known.name: known for known in REASONS}


def reason(name: str) -> Reason | None:
    """Return what is known of a reason; None for one of another version."""
    return _BY_NAME.get(name)


def is_calm(name: str) -> bool:
    """Whether nobody has to do anything about a condition with this reason, whatever its status says."""
    known = reason(name)
    return known is not None and known.level is not Level.TROUBLE


def advice_on(name: str, namespace: str) -> str:
    """Return what to do about a condition with this reason; '' where nobody knows.

    Args:
        name: of the reason.
        namespace: of the placeholders, for commands.
    """
    known = reason(name)
    return "" if known is None else known.advice_in(namespace)
