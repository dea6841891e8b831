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
        "Agents of the throttler apply the policy, and report.",
        about="ThrottlePolicy",
    ),
    Reason("NoNodeSelected", ("Ready=True",), Level.GOOD, "The policy selects no node now.", about="ThrottlePolicy"),
    Reason(
        "NoAgentReports",
        ("Ready=False",),
        Level.TROUBLE,
        "No agent of the policy's nodes reports. Starts there may be unlimited, and their state is unknown.",
        "check that the DaemonSet of the throttler's agents runs there, and what its log says about the controller",
        about="ThrottlePolicy",
    ),
    Reason(
        "OlderPolicyChosen",
        ("Overlapping=True",),
        Level.TROUBLE,
        "An older ThrottlePolicy with as many keys in its nodeSelector selects some of the nodes, and applies there.",
        "make one of the two spec.nodeSelector more specific, or delete one of the policies",
        about="ThrottlePolicy",
    ),
    Reason(
        "NodesOfItsOwn",
        ("Overlapping=False",),
        Level.GOOD,
        "No older policy applies to its nodes.",
        about="ThrottlePolicy",
    ),
    Reason(
        "AgentsSilent",
        ("NodesSilent=True",),
        Level.TROUBLE,
        "Some agents have stopped reporting, or do not see the pods of their nodes. Containers there start without "
        "a permit after failOpenAfter.",
        "check that the agents of the nodes in the message run: kubectl -n NAMESPACE get pods -o wide",
        about="ThrottlePolicy",
    ),
    Reason(
        "AgentsHeard",
        ("NodesSilent=False",),
        Level.GOOD,
        "Every agent that has reported before still reports.",
        about="ThrottlePolicy",
    ),
    Reason(
        START_PERMIT_SKIPPED,
        (),
        Level.TROUBLE,
        "A throttled container started without a permit. For failOpenAfter, its gate had no answer from an agent "
        "that sees the node's pods. With throttler.backend=configmap the controller had none.",
        "check that the agent of that node runs and is ready: kubectl -n NAMESPACE get pods -o wide, and read its log",
        about="Pod",
    ),
    Reason(
        START_TIMED_OUT,
        (),
        Level.TROUBLE,
        "A container was not ready within startTimeout of its permit. Its slot is free again. With `then: Delete` "
        "its pod is evicted, as far as PodDisruptionBudgets allow.",
        "see why it is slow (kubectl logs), or raise spec.startTimeout.after of the ThrottlePolicy",
        about="Pod",
    ),
    Reason(
        START_FORCED,
        (),
        Level.NOTE,
        "Nothing had started for 1/minRate while containers waited, so one was started regardless of load and slots.",
        "nothing, if it is rare; otherwise the limits of the ThrottlePolicy are too low for the node's containers",
        about="Pod",
    ),
    Reason(
        DEPENDS_ON_REFUSED,
        (),
        Level.TROUBLE,
        "The annotation throttler.resource-slack.io/depends-on of a pod is not usable, so none of its containers "
        "starts.",
        "fix the annotation: kubectl slack throttler check -f pod.yaml shows what is wrong",
        about="Pod",
    ),
    Reason(
        PERMIT_NOT_WRITTEN,
        (),
        Level.TROUBLE,
        "A pod's containers wait for keys of a ConfigMap, and the throttler's controller cannot write them.",
        "the message says why: a missing right in that namespace (throttler.namespaces), or a foreign or changed "
        "ConfigMap of that name. Delete that ConfigMap, and the controller creates it again",
        about="Pod",
    ),
)
