"""Every reason that the operator gives, in conditions and Events: what it means and what to do about it.

The words are stable: people search for them, alerts match them. `kubectl slack status` takes its advice from here, the
reference of Events is made from it, and a test holds it equal to what the code emits. Those of the companions stand
beside their processes; `slack_operator.web.reasons` gathers all.
"""

from slack.process.reasons import Level, Reason

_NO_CAPACITY = ("SlackSatisfied=False", "Covered=False", "Feasible=False")
_NEEDS_A_FIX = ("Ready=False", "Stalled=True")
_BLOCKED = (*_NEEDS_A_FIX, *_NO_CAPACITY)

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
    Reason("Accepted", ("Ready=True",), Level.GOOD, "The policy is valid and in force."),
    Reason(
        "Followed",
        ("Ready=True",),
        Level.GOOD,
        "The policy with the SlackScale's name has its replicas.",
        about="SlackScale",
    ),
    Reason(
        "NoSuchPolicy",
        ("Ready=False",),
        Level.TROUBLE,
        "There is no SlackPolicy with the SlackScale's name, so nothing follows it.",
        "give the SlackScale the name of its policy",
        about="SlackScale",
    ),
    Reason("HistoryKept", ("HistoryLost=False",), Level.GOOD, "What the policy learns for its objective is saved."),
    Reason(
        "HistoryUnusable",
        ("HistoryLost=True",),
        Level.TROUBLE,
        "The SlackHistory of the policy is not usable. A running operator continues from memory. A newly started "
        "one has to learn again, and until it knows enough, it keeps the largest burst so far. The condition ends "
        "after an hour.",
        "the message says what is wrong with the SlackHistory; see who has written it (--show-managed-fields)",
    ),
    Reason(
        "HistoryNotKept",
        ("HistoryLost=True",),
        Level.TROUBLE,
        "The API server refuses to let the operator read or write the SlackHistory of the policy. What it learns "
        "for the objective is in its memory only. Nothing is overwritten, and the operator tries again "
        "automatically.",
        "give the operator the right that the message names, with the chart's Role; upgrade the CRDs first",
    ),
    Reason(
        "DryRun",
        ("SlackSatisfied=False",),
        Level.NOTE,
        "spec.dryRun: the policy is valid and planned for, and nothing is written.",
        "read the plan in status; remove spec.dryRun to put it in force",
    ),
    Reason(
        "Reserved",
        ("SlackSatisfied=True",),
        Level.GOOD,
        "All wanted capacity is reserved: every placeholder has its capacity on a node.",
    ),
    Reason(
        REFILLING,
        ("SlackSatisfied=False",),
        Level.NOTE,
        "Placeholders wait for capacity: pods have used theirs, or a node is starting.",
        "nothing; it becomes a warning automatically if no node arrives in time",
    ),
    Reason(
        REFILL_LASTS,
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "Some of the wanted capacity has been missing for a quarter of an hour, although no placeholder waits long "
        "for its node.",
        "check that pods of placeholders are created: kubectl get events -n NAMESPACE; if they are, pods use slack "
        "faster than it is refilled: raise the rate or the floor",
    ),
    Reason(
        "PlaceholdersPending",
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "A placeholder has waited three times as long as a node takes to start here, and no autoscaler has refused it.",
        "see what the autoscaler says: kubectl get events -n NAMESPACE; check whether its cloud can add nodes",
    ),
    Reason(
        "NotPlanned",
        ("SlackSatisfied=False",),
        Level.TROUBLE,
        "The plan has less than the policy asks for, because no shape for the rest fits any node.",
        "see which shapes do not fit: kubectl slack plan; use larger nodes or spec.nodeTemplates",
    ),
    Reason(
        "CeilingReached",
        ("SlackSatisfied=False", "SlackSatisfied=True", "Covered=False"),
        Level.NOTE,
        "spec.extraCapacity.ceiling limits the policy, as configured; the message names the ceiling that binds. "
        "SlackSatisfied is True if everything that the ceilings allow is reserved.",
        "nothing; for more capacity raise spec.extraCapacity.ceiling, or lower minRate, floor or cover.coverage to "
        "what it allows",
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
        "The PriorityClass of the placeholders is missing or not usable. Nothing is done for this policy.",
        "name one in spec.priorityClassName with a value from -10 to -1, preemptionPolicy Never and no globalDefault",
    ),
    Reason(
        "HostnameRefused",
        _BLOCKED,
        Level.TROUBLE,
        "The policy's placeholders are unbound and would name hosts: spec.nodeSelector of this policy, or of a "
        "more specific one, has kubernetes.io/hostname. Karpenter keeps no node for such pods.",
        "select nodes by another label than kubernetes.io/hostname, or set spec.hold: Bound",
    ),
    Reason(
        "NoEligibleNode",
        _NO_CAPACITY,
        Level.TROUBLE,
        "No node is selected, or no selected node can take a placeholder; with perDomain Zone, none in one zone. "
        "The wanted amount stays if nodes are selected. Ready stays True, because nodes come and go.",
        "compare spec.nodeSelector and spec.tolerations with: kubectl get nodes --show-labels; a node group at "
        "zero needs spec.nodeTemplates",
    ),
    Reason(
        "NoNodesYet",
        _NO_CAPACITY,
        Level.NOTE,
        "The cluster has no nodes at all. Placeholders are created with the first one.",
        "nothing, while nodes are starting; a cluster that grows from zero needs spec.nodeTemplates",
    ),
    Reason(
        "InvalidSpec",
        _NEEDS_A_FIX,
        Level.TROUBLE,
        "The spec has a value that only the operator can check, such as a cron expression or a time zone.",
        "fix the field that the message names; kubectl slack plan -f FILE checks before you apply",
    ),
    Reason(
        "BoundNotAllowed",
        _NEEDS_A_FIX,
        Level.TROUBLE,
        "The policy asks for bound placeholders, and the operator is not allowed to create any.",
        "set hold: Auto or Unbound, or turn on operator.bound.enabled",
    ),
    Reason(
        "NoPrices",
        _NEEDS_A_FIX,
        Level.TROUBLE,
        "spec.objective.maxCostPerHour has no effect because no prices are configured, neither in "
        "spec.objective.prices nor in the operator's --prices. The objective is not in force, and the rate applies.",
        "configure prices that fit the policy's nodes: the chart's prices (--prices), or spec.objective.prices; or "
        "remove maxCostPerHour",
    ),
    Reason(
        "NotPermitted",
        _NEEDS_A_FIX,
        Level.TROUBLE,
        "The API server does not let the operator read what it needs, so nothing is planned. Existing placeholders "
        "stay.",
        "give the operator the right that the message names; the chart's ClusterRole has all of them",
    ),
    Reason(
        "WriteRefused",
        _NEEDS_A_FIX,
        Level.TROUBLE,
        "The API server or an admission webhook refused a write of the operator.",
        "the message has the refusal: give the operator the right, exempt its namespace from the webhook, or "
        "return the object",
    ),
    Reason(
        "CoverageReached",
        ("Covered=True",),
        Level.GOOD,
        "Enough of the arriving pods fit into the space of one placeholder.",
    ),
    Reason(
        "ObjectiveDecides",
        ("Covered=True",),
        Level.GOOD,
        "The objective now needs less than one placeholder for each kind of pod that arrives often.",
    ),
    Reason(
        "CoverageMissed",
        ("Covered=False",),
        Level.TROUBLE,
        "Some arriving pods fit into no placeholder's space; status.uncovered names the first of them.",
        "kubectl slack explain KIND/NAME says why for each; exclude rare ones with spec.cover.exclude",
    ),
    Reason(
        "MaxShapesReached",
        ("Covered=False",),
        Level.TROUBLE,
        "The pods need more shapes of placeholders than spec.cover.maxShapes allows.",
        "raise spec.cover.maxShapes, or exclude workloads with spec.cover.exclude",
    ),
    Reason("EveryShapeFits", ("Feasible=True",), Level.GOOD, "Every wanted shape fits an eligible node."),
    Reason(
        "ShapeFitsNowhere",
        ("Feasible=False",),
        Level.TROUBLE,
        "A wanted shape fits no node of the policy, not even an empty one.",
        "add larger nodes, describe them in spec.nodeTemplates, or exclude the workload with spec.cover.exclude",
    ),
    Reason("ChunksAreSmall", ("PinsNodes=False",), Level.GOOD, "No placeholder keeps its node from being scaled down."),
    Reason(
        "LargeShape",
        ("PinsNodes=True",),
        Level.NOTE,
        "A placeholder takes so much of its node that the autoscaler never considers the node underused.",
        "use larger nodes, or exclude the largest pods with spec.cover.exclude",
    ),
    Reason("NothingRefused", ("LimitReached=False",), Level.GOOD, "Nothing limits the placeholders."),
    Reason(
        "AutoscalerLimit",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "The autoscaler has reached one of its limits. After spec.stabilization.giveUpAfter the operator keeps "
        "only one placeholder that asks for a node.",
        "raise the node group's or NodePool's maximum, or set spec.extraCapacity.ceiling below it",
    ),
    Reason(
        "NoNodeGroupFits",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "The autoscaler says that no node group fits the placeholder. After spec.stabilization.giveUpAfter the "
        "operator keeps only one placeholder that asks for a node.",
        "compare the shape's requests, spec.nodeSelector and spec.tolerations with the node groups",
    ),
    Reason(
        "QuotaExceeded",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "A ResourceQuota refuses placeholders. The operator keeps only one that asks for a node.",
        "raise the quota of the placeholders' namespace, or set spec.extraCapacity.ceiling below it",
    ),
    Reason(
        "PlaceholdersFail",
        ("LimitReached=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "A kubelet refuses or ends placeholders as fast as they are created. The operator creates no more of them "
        "for two minutes, and twice as long each time.",
        "the message has the node and its reason. OutOf...: the scheduler expects capacity that the node does not "
        "have, for example after a change of its reservations; cordon the node, or restart its kubelet",
    ),
    Reason(
        "Answered",
        ("AutoscalerIgnoresPlaceholders=False",),
        Level.GOOD,
        "No placeholder waits without a reaction of the autoscaler.",
    ),
    Reason(
        "NoWord",
        ("AutoscalerIgnoresPlaceholders=True", "SlackSatisfied=False"),
        Level.TROUBLE,
        "Placeholders have waited as long as a node takes to start here, at least two minutes, and no autoscaler "
        "has reacted to them.",
        "check that an autoscaler runs, and that its --expendable-pods-priority-cutoff is -10 or lower; for "
        "unbound placeholders check also that --allowed-scheduler-names, if it is set, has their schedulerName",
    ),
    Reason(
        "NotTold",
        ("Ready=False", "AutoscalerIgnoresPlaceholders=True"),
        Level.TROUBLE,
        "The condition PodScheduled of unbound placeholders cannot be written, or something removes it, so no "
        "autoscaler counts these pods. Ready is False if none of the policy's pods count.",
        "the message has the API server's answer, or a pod: grant the operator `patch` on pods/status in "
        "NAMESPACE, or find what removes the condition",
    ),
    Reason(
        "RateAboveHalf",
        ("LargeSlack=True",),
        Level.NOTE,
        "The rate in force reserves more than half of what runs, in addition. It is in force.",
        "nothing, if it is intended; 0.1 is ten percent, and resource-slack tune finds the right rate",
    ),
    Reason(
        "MoreThanDoubles",
        ("LargeSlack=True",),
        Level.TROUBLE,
        "The placeholders need so many nodes that the cluster more than doubles. The plan is in force; the "
        "condition ends when the nodes are there.",
        "if this is not intended, lower minRate, floor or replicas (0.1 is ten percent), and set "
        "spec.extraCapacity.ceiling; spec.dryRun shows a plan without putting it in force",
    ),
    Reason(
        OPERATOR_ABSENT,
        (),
        Level.TROUBLE,
        "No operator leads, so no status is updated, and the state of slack is unknown since then. `kubectl get "
        "slackpolicies` still shows the last state that was written.",
        "start it (kubectl get deployments -A -l app.kubernetes.io/name=resource-slack); if its pods run, their "
        "log says why none of them leads",
        about="Lease",
    ),
    Reason("Fresh", ("ViewStale=False",), Level.GOOD, "The operator sees the whole cluster again."),
    Reason(
        "NotWhole",
        ("ViewStale=True",),
        Level.TROUBLE,
        "The operator does not see the whole cluster, so it plans nothing. Existing placeholders stay.",
        "the message names what is missing: the operator's rights, or the connection to the API server",
    ),
    Reason("AsPlanned", ("PlaceholdersChanged=False",), Level.GOOD, "No placeholder differs from its plan any more."),
    Reason(
        "DifferFromPlan",
        ("PlaceholdersChanged=True",),
        Level.NOTE,
        "Admission, or a later writer, has changed placeholders, for example by a sidecar. Their requests count "
        "towards reserved and the ceiling. A sidecar also makes them larger than your pods.",
        "exempt the placeholders' namespace, or pods with the label resource-slack.io/placeholder, from what the "
        "message names: an injector, a policy, a LimitRange",
    ),
    Reason("NothingHangs", ("PreemptionStuck=False",), Level.GOOD, "No preempting pod hangs any more."),
    Reason(
        "Rescued",
        ("PreemptionStuck=True",),
        Level.NOTE,
        "The scheduler left one of your pods hanging after a preemption, and the operator freed it. The condition "
        "stays for ten minutes.",
        "nothing now; if it happens often, update the scheduler or turn off its feature SchedulerAsyncPreemption",
    ),
    Reason(
        "RescueFailed",
        ("PreemptionStuck=True",),
        Level.TROUBLE,
        "The scheduler left one of your pods hanging after a preemption, and the API server did not let the "
        "operator free it. The operator tries again, less and less often.",
        "the message has the API server's answer; the operator needs patch on pods/status",
    ),
    Reason(
        "RescueDisabled",
        ("PreemptionStuck=True",),
        Level.TROUBLE,
        "The scheduler left one of your pods hanging after a preemption, and --rescue-stuck-preemptors is off.",
        "delete the pod that the message names, or start the operator with --rescue-stuck-preemptors",
    ),
    Reason(
        "NodeStays",
        ("ReleaseBlocked=True",),
        Level.NOTE,
        "A drifted, expiring or spare node was released from unbound placeholders and is still in use, so they "
        "have it back. The wait before the next attempt doubles each time.",
        "see what keeps the node that the message names: kubectl describe node NODE, and the limits of its "
        "NodePool or the minimum size of its node group",
    ),
    Reason(
        "ReleaseNotPermitted",
        ("ReleaseBlocked=True",),
        Level.TROUBLE,
        "A node has drifted or expires, and unbound placeholders hold it. The operator is not allowed to release "
        "it, or cannot see which nodes have drifted.",
        "do what the message asks for. Set operator.releaseNodes to Label, or to MarkerPod if the operator must "
        "not label nodes. Or label the node yourself: kubectl label node NODE resource-slack.io/release=by-hand",
    ),
    Reason(
        "TaintNotPermitted",
        ("SoftTaintBlocked=True",),
        Level.TROUBLE,
        "The API server refuses the taint of nodes that hold unbound placeholders, or refuses to remove one of an "
        "earlier setting. Slack works without it.",
        "grant get and patch on nodes (the chart does, with operator.softTaint.enabled), or switch it off. Remove a "
        "taint that is left: kubectl taint nodes NODE resource-slack.io/slack-",
    ),
    Reason(
        "WarmNotEnabled",
        ("ImagesNotPulled=True",),
        Level.TROUBLE,
        "The policy has spec.warm, and pulling images is switched off in this operator.",
        "set operator.warm.enabled in the chart (--warm), or remove spec.warm",
    ),
    Reason(
        "WarmRefused",
        ("ImagesNotPulled=True",),
        Level.TROUBLE,
        "The API server refuses a request that pulling images needs. The message says which request and why.",
        "give the operator the right that the message names, with the chart's Role; or change the quota or admission "
        "policy that refuses its pods",
    ),
    Reason(
        "ImagePullFailed",
        ("ImagesNotPulled=True",),
        Level.TROUBLE,
        "A node could not pull an image of spec.warm. The message has the image, a node and the kubelet's reason. The "
        "wait before the next attempt doubles each time, up to six hours.",
        "check the image's name and the registry; for a private registry name a Secret in spec.warm.imagePullSecrets",
    ),
    Reason(
        "DiskShort",
        ("ImagesNotPulled=True",),
        Level.NOTE,
        "A node has too little disk for an image of spec.warm, or its kubelet has collected the image.",
        "give nodes a larger disk, raise spec.warm.maxBytesPerNode, or ask for fewer images",
    ),
    Reason(
        PREEMPTION_RESCUED,
        (),
        Level.GOOD,
        "This pod had been promised a node and hung. Its status.nominatedNodeName was cleared, so the scheduler "
        "tries it again.",
        about="Pod",
    ),
    Reason(
        MADE_WAY,
        (),
        Level.GOOD,
        "Placeholders were deleted for a burst of your pods, before the scheduler had to preempt them. One Event "
        "per burst.",
    ),
    Reason(
        PENDING_ON_PURPOSE,
        (),
        Level.GOOD,
        "Pods of this ReplicaSet are unbound placeholders: they stay Pending and never run. The autoscaler keeps "
        "capacity free for them, and your pods start there. One Event per ReplicaSet, when its first pod is "
        "reported to the autoscaler.",
        about="ReplicaSet",
    ),
    Reason(
        FORM_CHANGED,
        (),
        Level.NOTE,
        "The placeholders of this policy become unbound, or bound, a few at a time. The Event says from which form "
        "to which, and why. It is a Warning if unbound ones were not usable. status.hold says since when.",
        "Nothing for a Normal Event. For a Warning, fix what it names; Auto tries unbound placeholders again "
        "automatically.",
    ),
    Reason(
        PLACEHOLDERS_DISPLACED,
        (),
        Level.GOOD,
        "Placeholders were removed from their nodes, but not by the operator: pods preempted them, or something "
        "deleted them. At most one Event every two minutes; the policy's status has the count.",
    ),
    Reason(
        RESERVATION_CUT,
        (),
        Level.NOTE,
        "A workload gets fewer placeholders than its annotation resource-slack.io/reserve asks for, because a "
        "policy bounds it. The Event is on the workload, once per number; status.cut of the policy has the same.",
        "ask for less, or have spec.reserve (or spec.extraCapacity.ceiling) of the SlackPolicy raised",
        about="Deployment",
    ),
    Reason(
        OWNERSHIP_TAKEN_BACK,
        (),
        Level.NOTE,
        "Something has written, adopted or deleted an object of the operator, and the operator restored it. One "
        "Event per writer and field, until it has been quiet for ten minutes.",
        "do not change the operator's ReplicaSets: change the SlackPolicy instead; remove autoscalers and "
        "downscalers from its namespace",
    ),
    Reason(
        "WrittenBack",
        ("OwnershipContested=True", "ReleaseBlocked=True", "SoftTaintBlocked=True", *_NEEDS_A_FIX),
        Level.TROUBLE,
        "A writer has restored its own value in an object, label or status of the operator five times within ten "
        "minutes. The value stays for now. The operator tries again after ten minutes, and the wait doubles each "
        "time.",
        "the message names the field, and the writer if it is known: an HPA, a downscaler, a GitOps tool. Exempt "
        "the operator's ReplicaSets, or the label or taint of the node, from it",
    ),
    Reason(
        "DeletionHeldUp",
        ("OwnershipContested=True", *_NEEDS_A_FIX),
        Level.TROUBLE,
        "A ReplicaSet of placeholders was deleted, and foreign finalizers keep it. It is not refilled, and cannot "
        "be created again.",
        "let the owner of the finalizer finish, or remove the finalizer: kubectl edit replicaset NAME",
    ),
    Reason(
        "Uncontested",
        ("OwnershipContested=False",),
        Level.GOOD,
        "Nothing else writes the operator's objects any more.",
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
