"""The documents that the page reads as JSON, field by field: values that the operator's own code fills."""

import msgspec

from slack.process.reasons import Level
from slack_operator.web.load import LoadView


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    """Part of what the page reads as JSON."""


class ConditionView(_Document, frozen=True):
    """One condition, as status has it."""

    type: str
    status: str
    said: str
    """In words: as one would like it, or what is wrong."""
    level: Level
    reason: str
    message: str
    since: str
    remedy: str | None = None
    """What to do, where it is not as one would like it."""


class SlackView(_Document, frozen=True):
    """How a policy's slack is, in the words of `status` and of `kubectl get`."""

    name: str
    """The reason that matters most: status.summary.state."""
    words: str
    remedy: str
    """What to do, '' where there is nothing to do."""
    calm: bool


class AmountView(_Document, frozen=True):
    """One resource: cpu in millicores, everything else in base units."""

    resource: str
    desired: int
    planned: int
    reserved: int


class ShapeView(_Document, frozen=True):
    """Placeholders of one shape."""

    name: str
    role: str
    requests: dict[str, str]
    """As Kubernetes writes them."""
    count: int
    bound: int
    pending: int
    workloads: list[str]
    retiring: bool
    unbound: bool
    """No scheduler binds them: their pods are Pending on purpose, and `bound` says how many fit on nodes."""


class CostView(_Document, frozen=True):
    """What a policy's placeholders cost now, as in its status: nodes always, money where nodes have prices."""

    text: str
    nodes: float
    per_hour: float | None
    currency: str
    node_per_hour: float | None
    """What one of its nodes costs, on average."""


class WorkloadStartsView(_Document, frozen=True):
    """How far the pods of one workload were when: seconds since their creation, means but for the percentile."""

    workload: str
    pods: int
    bound: float
    image: float | None
    started: float
    ready: float
    p99: float
    pulled: str


class TimeToReadyView(_Document, frozen=True):
    """From the creation of real pods until they are Ready."""

    pods: int
    p50: float
    p99: float
    text: str
    workloads: list[WorkloadStartsView]
    """The slowest."""


class UncoveredView(_Document, frozen=True):
    """Pods without room, and why."""

    pod: str
    reason: str


class PolicyView(_Document, frozen=True, kw_only=True):
    """One policy; the defaults are of one whose spec cannot be used."""

    name: str
    built_in: bool = False
    unbound: bool = False
    """Its placeholders are Pending on purpose, and their capacity is free."""
    dry_run: bool = False
    planned: bool = False
    """Whether there are figures."""
    ready: bool = False
    satisfied: bool = False
    """Whether all wanted room is there."""
    idle: str = ""
    """Why there is nothing to keep room for yet, '' when there is something."""
    rate: float = 0.0
    nodes: int = 0
    amounts: list[AmountView] = []
    bound: int = 0
    pending: int = 0
    burst: int = 0
    instant: float | None = None
    objective: float | None = None
    """The share that is to start at once, once that is what the amount follows from."""
    why: str | None = None
    """Why this much is kept; None where nothing could be planned."""
    spared: str = ""
    """What the pods of the last day that took a placeholder's place would have waited, in words."""
    time_to_ready: TimeToReadyView | None = None
    """None before the first pod became Ready."""
    cost: CostView | None = None
    """Of what is held now; None if no node says."""
    surplus: str = ""
    """What is held beyond the plan and when it is removed, '' if nothing is."""
    buffered: str = ""
    """How much of the wanted cpu/memory CapacityBuffers keep, '' if the policy counts none."""
    displaced: dict[str, int] = {}
    """By cause, since this process began."""
    limit: str = ""
    """Which ceiling or floor binds, and what would be wanted without it."""
    slack: SlackView
    conditions: list[ConditionView]
    shapes: list[ShapeView] = []
    more_shapes: int = 0
    uncovered: list[UncoveredView] = []
    more_uncovered: int = 0


class DisplacedView(_Document, frozen=True):
    """One placeholder that left its node without our doing."""

    number: int
    at: float
    policy: str
    cause: str
    pod: str
    node: str


class PoolView(_Document, frozen=True):
    """One ActivationPool, as far as slack follows from it; its queue is shown by `resource-slack demand top`."""

    name: str
    """namespace/name"""
    wanted: int
    most: int
    """spec.limits.maxContainers"""
    announced: int
    """Pods beyond these that it may need soon: status.demand.slackPods."""
    observed: float | None
    """Unix time of what it announces; None where it does not say."""
    lacking: str
    """Why not all that it announces is kept room for, '' where it is."""


class BufferView(_Document, frozen=True):
    """One CapacityBuffer that is served here."""

    name: str
    """namespace/name"""
    asked: int
    """Chunks that its size is."""
    replicas: int
    """How many of them the bounds leave."""
    fitting: int
    """How many of these fit now."""
    reason: str
    """Of the condition Provisioning."""
    message: str
    limits: list[str]
    """Which bounds have cut the size."""


class PageDocument(_Document, frozen=True):
    """All that the page shows but nodes and timeline."""

    version: int
    """Grows with every reconciliation."""
    now: float
    """Unix time here when this was made: the reader's clock may be another."""
    at: float | None
    """Unix time of the figures; None before the first."""
    seen: float | None
    """Unix time of the last reconciliation, with or without figures."""
    leading: bool
    leader: str
    """The pod or host that leads; '' when nobody is known to."""
    vacant_since: float | None
    """Unix time since which nobody is seen to lead, so that nothing is known of slack; None while somebody does."""
    vacant_remedy: str
    """What to do about that."""
    identity: str
    stale: str
    stale_remedy: str
    """What to do about it."""
    namespace: str
    port: int
    """Where a process of the same settings serves its page."""
    operator_version: str
    interval_seconds: float
    nodes: int
    nodes_version: int
    load: LoadView | None
    """How nodes' real use stands; None where no load watcher is named: then the page shows nothing of it."""
    policies: list[PolicyView]
    pools: list[PoolView]
    """Those that announce most, the first; empty where there are none: then the page shows nothing of them."""
    more_pools: int
    buffers: list[BufferView]
    """CapacityBuffers that are served here, those that lack most chunks first; empty where there are none."""
    more_buffers: int
    buffer_server: str
    """Who serves CapacityBuffers on this cluster, and how that is known; '' while none are served here."""
    displaced: list[DisplacedView]
    """The latest ones, the newest first; none where another process leads, which alone knows what it took away."""
