"""Every reason of the demand controller, in conditions of pools and quotas."""

from slack.process.reasons import Level, Reason

REASONS: tuple[Reason, ...] = (
    Reason(
        "FollowsQueue",
        ("Ready=True",),
        Level.GOOD,
        "The pool is acted upon: its containers follow its queue.",
        about="ActivationPool",
    ),
    Reason(
        "OtherBroker",
        ("Ready=False",),
        Level.TROUBLE,
        "spec.queue.broker is not the broker that the controller has, so the pool's containers stay as they are.",
        "give the pool the controller's broker, or leave spec.queue.broker out where that is NATS",
        about="ActivationPool",
    ),
    Reason(
        "LimitAboveQuota",
        ("Ready=False",),
        Level.TROUBLE,
        "spec.limits.maxContainers is above what the namespace's ActivationQuota allows; the quota holds.",
        "lower spec.limits.maxContainers, or raise the quota's maxContainers",
        about="ActivationPool",
    ),
    Reason(
        "BrokerUnreachable",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The controller cannot read the queues. Containers stay as they are, nothing is decided, and publishers are "
        "not refused. It is tried again at each tick.",
        "see whether the broker answers, and what the message says of address and credentials (demand.broker)",
        about="ActivationPool",
    ),
    Reason(
        "QueueRefused",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The broker is there, and refuses to make this pool's queue. Other pools go on; this one gets no containers "
        "where its messages cannot be counted. It is tried again each half minute.",
        "the message has the broker's words: a ?prefix= of demand.broker.url that the pool's namespace is not among, a "
        "right that lacks, or something else that has the queue's name",
        about="ActivationPool",
    ),
    Reason(
        "QueueSilent",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The broker answers for other queues, and not for this pool's. Other pools go on. This pool's containers stay "
        "as they are, and its publishers are not refused. It is tried again after 1 s, and then less and less often.",
        "see at the broker whether the queue's stream has a leader and a quorum: nats stream info",
        about="ActivationPool",
    ),
    Reason(
        "CreationsFail",
        ("Ready=False",),
        Level.TROUBLE,
        "The pool's containers cannot be created, or are not ready in time. They are tried again, less and less often.",
        "the message has the API server's answer, such as a ResourceQuota or an admission policy; else see the pods: "
        "kubectl get pods -l resource-slack.io/pool=NAME",
        about="ActivationPool",
    ),
    Reason(
        "TakesMessages", ("Throttled=False",), Level.GOOD, "New messages of the pool are taken.", about="ActivationPool"
    ),
    Reason(
        "NamespaceFull",
        ("Throttled=True",),
        Level.NOTE,
        "The namespace has as many containers as it may have, and messages come faster than they are run.",
        "nothing, where the limit is meant; else raise the ActivationQuota's maxContainers",
        about="ActivationPool",
    ),
    Reason(
        "QueueFull",
        ("Throttled=True",),
        Level.TROUBLE,
        "spec.retention.maxMessages messages wait. Messages are taken again at spec.retention.throttleFraction of it.",
        "see why they are not run: kubectl slack demand explain -n NAMESPACE pool/NAME",
        about="ActivationPool",
    ),
    Reason(
        "NoContainers",
        ("Throttled=True",),
        Level.TROUBLE,
        "The namespace's ActivationQuota allows no container at all.",
        "raise the quota's maxContainers",
        about="ActivationPool",
    ),
    Reason(
        "NodesHaveRoom",
        ("CapacityShort=False",),
        Level.GOOD,
        "No container of the pool waits for a node.",
        about="ActivationPool",
    ),
    Reason(
        "WaitsForNode",
        ("CapacityShort=True", "Throttled=True"),
        Level.NOTE,
        "Containers of the pool wait for a node; the message says since when, and how long one takes. Publishers are "
        "told how long to wait.",
        "nothing, while a node comes; else see what the autoscaler says about the pool's pods",
        about="ActivationPool",
    ),
    Reason(
        "QueueRead", ("BrokerReachable=True",), Level.GOOD, "The queue is read at each tick.", about="ActivationPool"
    ),
    Reason(
        "WithinQuota",
        ("Ready=True",),
        Level.GOOD,
        "The namespace's pools stay within the quota.",
        about="ActivationQuota",
    ),
)
