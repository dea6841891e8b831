"""The cluster of a scenario: node groups that autoscalers add to, and the workloads that run there."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from slack.cluster.classes import Constraints, NodeClass, Taint
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.labels import ZONE
from slack.planner.policy.fields import Amount, Labels
from slack.planner.policy.spec import TolerationSpec
from slack.simulator.scenario.demand import SimulatedPool
from slack.simulator.scenario.distributions import Constant, Forever, Life, Model, StartUp
from slack.simulator.scenario.load import Arrivals
from slack.simulator.scenario.slack_kinds import Count, Name, Requests

HIGHEST_PRICE = 1e9
"""Of a node for an hour, in the smallest currency there is."""
OWNER_KINDS = (*SHORT_KINDS.values(), "pod")
_LONG_KINDS = {kind.lower(): short for kind, short in SHORT_KINDS.items() if kind.lower() != short}


def _owner_kind(kind: str) -> str:
    if kind in _LONG_KINDS:
        raise ValueError(f"{kind!r} is written {_LONG_KINDS[kind]} here")
    return kind


class TaintSpec(Model):
    """A lasting taint of a node group."""

    key: Annotated[str, Field(min_length=1)]
    """Taint key."""
    value: str = ""
    """Taint value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """Taint effect."""


class NodeGroup(Model):
    """Equal nodes that the autoscaler adds and removes (an ASG, a MIG, one instance type of a NodePool)."""

    name: Name
    """Its name; nodes are called after it."""
    allocatable: Amount
    """Allocatable of a node: cpu, memory, optionally pods (110 when absent) and further resources."""
    labels: Labels = Field(default_factory=dict)
    """Labels of its nodes; the zone need not be repeated here."""
    taints: tuple[TaintSpec, ...] = ()
    """Taints of its nodes."""
    zone: str = ""
    """topology.kubernetes.io/zone of its nodes."""
    min: Count = 0
    """The autoscaler leaves at least so many."""
    max: Count = 1000
    """The autoscaler adds none beyond; Karpenter: a limit on this instance type."""
    initial: Count | None = None
    """Nodes that are there, and ready, at the start; `min` when absent."""
    price_per_hour: Annotated[float, Field(ge=0, le=HIGHEST_PRICE, allow_inf_nan=False)] = 0.0
    """What a node costs, in any currency."""
    start_up: StartUp = Constant(seconds=90.0)
    """Time from the request for a node until it is ready."""
    daemon_requests: Amount = Field(default_factory=dict)
    """What DaemonSet pods request on every node, together."""
    daemon_pods: Count = 0
    """How many pod slots they take."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        missing = [name for name in ("cpu", "memory") if self.allocatable.get(name, 0) <= 0]
        if missing:
            raise ValueError(f"allocatable needs {' and '.join(missing)}, more than 0")
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is above max ({self.max})")
        if not self.min <= self.first <= self.max:
            raise ValueError(f"initial ({self.first}) is not from min ({self.min}) to max ({self.max})")
        if "pods" in self.daemon_requests:
            raise ValueError("daemonRequests.pods is no request; write daemonPods")
        for name, amount in self.daemon_requests.items():
            if amount > self.allocatable.get(name, 0):
                raise ValueError(f"daemonRequests.{name} is more than allocatable.{name}")
        if self.labels.get(ZONE, self.zone or None) != (self.zone or self.labels.get(ZONE)):
            raise ValueError(f"labels.{ZONE} is not the zone {self.zone!r}")
        return self

    @property
    def first(self) -> int:
        """Nodes at the start."""
        return self.min if self.initial is None else self.initial

    @property
    def node_class(self) -> NodeClass:
        """What the scheduler sees of its nodes."""
        labels = dict(self.labels) | ({ZONE: self.zone} if self.zone else {})
        taints = sorted(Taint(t.key, t.value, t.effect) for t in self.taints if t.effect != "PreferNoSchedule")
        return NodeClass(tuple(sorted(labels.items())), tuple(taints))


class ScenarioWorkload(Model):
    """Equal pods, and how they come."""

    name: Name
    """Its name."""
    namespace: Name = "default"
    """Its namespace."""
    owner_kind: Annotated[str, Field(pattern=r"^[a-z0-9-]*$"), AfterValidator(_owner_kind)] = ""
    """What its pods belong to, as in deploy/api: deploy, sts, job, cronjob, pod, or the
    lower-case kind of a custom resource; when empty, what the arrivals are."""
    requests: Requests
    """Effective requests of one pod."""
    node_selector: Labels = Field(default_factory=dict)
    """Node selector of its pods."""
    tolerations: tuple[TolerationSpec, ...] = ()
    """Tolerations of its pods."""
    anti_affinity: Literal["none", "hostname"] = "none"
    """hostname: required anti-affinity against its own pods, one a node."""
    priority: Annotated[int, Field(ge=-(2**31), le=1_000_000_000)] = 0
    """Value of its PriorityClass."""
    preempts: bool = True
    """False: preemptionPolicy Never; such pods cannot take a bound placeholder's place."""
    exclude: bool = False
    """Annotated resource-slack.io/exclude: no capacity is kept for it (R6)."""
    reserve: Annotated[str, Field(pattern=r"^$|^\d+%?$")] = ""
    """Annotated resource-slack.io/reserve (S7): '2' or '25%'; for a deployment."""
    activation_pool: SimulatedPool | None = None
    """Its pods are the containers of such a pool; none when absent."""
    life: Life = Forever()
    """How long a pod runs, from binding."""
    arrivals: Arrivals
    """How its pods come."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.reserve and self.arrivals.kind != "deployment":
            raise ValueError("reserve needs arrivals of kind deployment: it counts replicas")
        return self

    @property
    def constraints(self) -> Constraints:
        """Where its pods may go."""
        label = f'{{"matchLabels":{{"app":"{self.name}"}}}}'
        anti = f'[{{"labelSelector":{label},"topologyKey":"kubernetes.io/hostname"}}]'
        return Constraints(
            node_selector=tuple(sorted(self.node_selector.items())),
            tolerations=tuple(sorted(t.toleration() for t in self.tolerations)),
            anti_affinity=anti if self.anti_affinity == "hostname" else "",
        )
