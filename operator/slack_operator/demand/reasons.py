"""Every reason of the demand controller, in conditions of pools and quotas."""

from slack.process.reasons import Level, Reason

REASONS: tuple[Reason, ...] = (
    Reason(
        "FollowsQueue",
        ("Ready=True",),
        Level.GOOD,
        "The pool is in force: its containers follow its queue.",
        about="ActivationPool",
    ),
    Reason(
        "OtherBroker",
        ("Ready=False",),
        Level.TROUBLE,
        "spec.queue.broker is not the controller's broker, so the pool's containers stay as they are.",
        "set the pool to the controller's broker, or omit spec.queue.broker if that is NATS",
        about="ActivationPool",
    ),
    Reason(
        "TopicTaken",
        ("Ready=False",),
        Level.TROUBLE,
        "The pool has the same Kafka topic as another pool, so each would count the other's messages: media/a-b and "
        "media-a/b both have media-a-b-256MB. The pool that had the topic first goes on; this one's containers stay as "
        "they are.",
        "rename the pool, or change the memory that the first container of its template requests",
        about="ActivationPool",
    ),
    Reason(
        "LimitAboveQuota",
        ("Ready=False",),
        Level.TROUBLE,
        "spec.limits.maxContainers is above what the namespace's ActivationQuota allows; the quota applies.",
        "lower spec.limits.maxContainers, or raise the quota's maxContainers",
        about="ActivationPool",
    ),
    Reason(
        "BrokerUnreachable",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The controller cannot read the queues. Containers stay as they are, nothing is decided, and publishers "
        "are not refused. It tries again at each tick.",
        "check that the broker answers, and read the message about address and credentials (demand.broker)",
        about="ActivationPool",
    ),
    Reason(
        "QueueRefused",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The broker refuses to create this pool's queue. Other pools continue. This one gets no containers if its "
        "messages cannot be counted. The controller tries again every half minute.",
        "the message has the broker's answer: a ?prefix= in demand.broker.url that excludes the pool's namespace, "
        "a missing right, or another object with the queue's name",
        about="ActivationPool",
    ),
    Reason(
        "QueueSilent",
        ("Ready=False", "BrokerReachable=False"),
        Level.TROUBLE,
        "The broker answers for other queues, and not for this pool's. Other pools continue. This pool's "
        "containers stay as they are, and its publishers are not refused. The controller tries again after 1 s, "
        "then less and less often.",
        "check at the broker whether the queue's stream has a leader and a quorum: nats stream info",
        about="ActivationPool",
    ),
    Reason(
        "CreationsFail",
        ("Ready=False",),
        Level.TROUBLE,
        "The pool's containers cannot be created, or are not ready in time. The controller tries again, less and "
        "less often.",
        "the message has the API server's answer, such as a ResourceQuota or an admission policy; otherwise look "
        "at the pods: kubectl get pods -l resource-slack.io/pool=NAME",
        about="ActivationPool",
    ),
    Reason("TakesMessages", ("Throttled=False",), Level.GOOD, "The pool accepts new messages.", about="ActivationPool"),
    Reason(
        "NamespaceFull",
        ("Throttled=True",),
        Level.NOTE,
        "The namespace has as many containers as it is allowed, and messages arrive faster than they are processed.",
        "nothing, if the limit is intended; otherwise raise the ActivationQuota's maxContainers",
        about="ActivationPool",
    ),
    Reason(
        "QueueFull",
        ("Throttled=True",),
        Level.TROUBLE,
        "spec.retention.maxMessages messages wait. New messages are accepted again below "
        "spec.retention.throttleFraction of it.",
        "see why they are not processed: kubectl slack demand explain -n NAMESPACE pool/NAME",
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
        "Containers of the pool wait for a node. The message says since when, and how long a node takes. "
        "Publishers get a matching Retry-After.",
        "nothing, while a node is starting; otherwise see what the autoscaler says about the pool's pods",
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
