"""Which slack a scenario keeps: the operator's policies, or one of the baselines that it is compared with."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from slack.planner.policy.fields import Amount, Labels
from slack.planner.policy.spec import Policy, PolicySpec, TolerationSpec
from slack.simulator.scenario.distributions import Model
from slack.simulator.scenario.times import PeriodSeconds

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Count = Annotated[int, Field(ge=0, le=100_000)]
PerReplica = Annotated[float, Field(ge=0.001, le=1e9)]


def _no_pod_slots(amounts: dict[str, int]) -> dict[str, int]:
    if "pods" in amounts:
        raise ValueError("pods: is no request; each pod takes one slot of its node, leave it out")
    return amounts


Requests = Annotated[Amount, AfterValidator(_no_pod_slots)]
"""What a pod requests."""


class NamedPolicy(Model):
    """A SlackPolicy: name and spec."""

    name: Name = "default"
    """metadata.name"""
    spec: PolicySpec = PolicySpec()
    """spec"""


class NoSlack(Model):
    """Nothing is kept."""

    kind: Literal["none"]


class Policies(Model):
    """The operator with these policies."""

    kind: Literal["policies"] = "policies"
    policies: tuple[NamedPolicy, ...] = (NamedPolicy(),)
    """The policies; the built-in one when absent or empty, as of an operator with --built-in-policy."""
    priorities: dict[str, Annotated[int, Field(ge=-10, le=-1)]] = Field(default_factory=dict)
    """Values of PriorityClasses by name; -10 for one that is not named."""

    @field_validator("policies")
    @classmethod
    def _some(cls, given: tuple[NamedPolicy, ...]) -> tuple[NamedPolicy, ...]:
        return given or (NamedPolicy(),)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [p.name for p in self.policies]
        if len(set(names)) < len(names):
            raise ValueError("two policies have the same name")
        return self

    def planned(self) -> tuple[Policy, ...]:
        """Return them as the planner has them."""
        return tuple(Policy(name=p.name, spec=p.spec) for p in self.policies)


class Static(Model):
    """A Deployment of pause pods, as the FAQ of the Cluster Autoscaler has it."""

    kind: Literal["static"]
    count: Count
    """Its replicas."""
    requests: Requests
    """Requests of one of its pods."""
    priority: Annotated[int, Field(ge=-(2**31), le=-1)] = -10
    """Value of its PriorityClass."""
    node_selector: Labels = Field(default_factory=dict)
    """Node selector of its pods."""
    tolerations: tuple[TolerationSpec, ...] = ()
    """Tolerations of its pods."""


class Proportional(Model):
    """A static overprovisioner whose replicas cluster-proportional-autoscaler's linear controller sets."""

    kind: Literal["proportional"]
    requests: Requests
    """Requests of one of its pods."""
    cores_per_replica: PerReplica | None = None
    """linear.coresPerReplica"""
    nodes_per_replica: PerReplica | None = None
    """linear.nodesPerReplica"""
    min: Count = 1
    """linear.min, 1"""
    max: Count = 10_000
    """linear.max"""
    prevent_single_point_failure: bool = False
    """linear.preventSinglePointFailure: at least 2 with more than one node."""
    poll_period_seconds: PeriodSeconds = 10.0
    """--poll-period-seconds, 10."""
    priority: Annotated[int, Field(ge=-(2**31), le=-1)] = -10
    """Value of its PriorityClass."""
    node_selector: Labels = Field(default_factory=dict)
    """Node selector of its pods."""
    tolerations: tuple[TolerationSpec, ...] = ()
    """Tolerations of its pods."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.cores_per_replica is None and self.nodes_per_replica is None:
            raise ValueError("give coresPerReplica or nodesPerReplica")
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is above max ({self.max})")
        return self


Slack = Annotated[NoSlack | Policies | Static | Proportional, Field(discriminator="kind")]
