"""Every reason of the throttler, in conditions of its policies and in Events about pods."""

from slack.process.reasons import Level, Reason

START_PERMIT_SKIPPED = "StartPermitSkipped"
START_TIMED_OUT = "StartTimedOut"
START_FORCED = "StartForced"
DEPENDS_ON_REFUSED = "DependsOnRefused"
PERMIT_NOT_WRITTEN = "PermitNotWritten"

REASONS: tuple[Reason, ...] = (
    Reason(
        "StartsReported",
        ("Ready=True",),
        Level.GOOD,
        "Agents of the throttler go by the policy, and report.",
        about="ThrottlePolicy",
    ),
    Reason("NoNodeSelected", ("Ready=True",), Level.GOOD, "No node has the policy now.", about="ThrottlePolicy"),
    Reason(
        "NoAgentReports",
        ("Ready=False",),
        Level.TROUBLE,
        "No agent of the policy's nodes reports: starts there may be paced by nobody, and nothing is known of them.",
        "see that the DaemonSet of the throttler's agents runs on them, and what its log says of the controller",
        about="ThrottlePolicy",
    ),
    Reason(
        "OlderPolicyChosen",
        ("Overlapping=True",),
        Level.TROUBLE,
        "An older ThrottlePolicy with as many keys in its nodeSelector has some of the nodes; they do not go by this.",
        "make one of the two spec.nodeSelector more specific, or delete one of the policies",
        about="ThrottlePolicy",
    ),
    Reason(
        "NodesOfItsOwn",
        ("Overlapping=False",),
        Level.GOOD,
        "No older policy has nodes that it selects.",
        about="ThrottlePolicy",
    ),
    Reason(
        "AgentsSilent",
        ("NodesSilent=True",),
        Level.TROUBLE,
        "Agents that have reported do not any more, or do not see the pods of their nodes. Containers there start "
        "without a permit after failOpenAfter.",
        "see whether the agents of the nodes that the message names run: kubectl -n NAMESPACE get pods -o wide",
        about="ThrottlePolicy",
    ),
    Reason(
        "AgentsHeard",
        ("NodesSilent=False",),
        Level.GOOD,
        "Every agent that has reported still does.",
        about="ThrottlePolicy",
    ),
    Reason(
        START_PERMIT_SKIPPED,
        (),
        Level.TROUBLE,
        "A gated container started without a permit: for failOpenAfter its gate, or with throttler.backend=configmap "
        "the controller, had no answer of an agent that sees the node's pods.",
        "see whether the agent of that node runs and is ready: kubectl -n NAMESPACE get pods -o wide, and its log",
        about="Pod",
    ),
    Reason(
        START_TIMED_OUT,
        (),
        Level.TROUBLE,
        "A container was not ready within startTimeout of its permit. Its slot is free; with `then: Delete` its pod is "
        "evicted, so far as PodDisruptionBudgets allow.",
        "see why it is slow (kubectl logs), or raise spec.startTimeout.after of the ThrottlePolicy",
        about="Pod",
    ),
    Reason(
        START_FORCED,
        (),
        Level.NOTE,
        "Nothing had started for 1/minRate while containers waited, so one was let in whatever the node's load and "
        "slots.",
        "nothing, if it is rare; else the limits of the ThrottlePolicy are too low for what runs on the node",
        about="Pod",
    ),
    Reason(
        DEPENDS_ON_REFUSED,
        (),
        Level.TROUBLE,
        "The annotation throttler.resource-slack.io/depends-on of a pod cannot be kept, so none of its containers is "
        "started.",
        "mend the annotation: kubectl slack throttler check -f pod.yaml tells what is wrong",
        about="Pod",
    ),
    Reason(
        PERMIT_NOT_WRITTEN,
        (),
        Level.TROUBLE,
        "A pod's containers wait for keys of a ConfigMap, and the throttler's controller cannot write them.",
        "the message says why: a right that lacks in that namespace (throttler.namespaces), or a ConfigMap of that "
        "name that is not the throttler's, or was changed; delete that, it is made anew",
        about="Pod",
    ),
)
