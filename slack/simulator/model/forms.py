"""The two forms of placeholders in a model: a scheduler binds them, or none does and autoscalers are told of them.

The engine creates and removes placeholders through a form, and takes no other notice of which one it is. Where unbound
ones fit is worked out by the operator's own packing (`snapshot_view`); autoscalers do their own.
"""

from typing import Protocol

from slack.cluster.hold import UNBOUND_SCHEDULER, Hold
from slack.planner.policy.spec import Policy
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import Kind
from slack.simulator.model.scheduler import Scheduler
from slack.simulator.model.state import Cluster
from slack.simulator.scenario.autoscaler_settings import NoAutoscaler
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

TELL_SECONDS = 0.005
"""One status write of the operator: 176 to 217 a second were measured with four connections."""


class Form(Protocol):
    """How placeholders of one form come and go."""

    def create(self, row: int) -> None:
        """A placeholder has been created."""

    def remove(self, row: int) -> None:
        """A placeholder goes; it is in the cluster still."""


class Bound:
    """A scheduler binds them, and real pods preempt them."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler) -> None:
        self._cluster = cluster
        self._scheduler = scheduler

    def create(self, row: int) -> None:
        """Hand it to the scheduler."""
        self._scheduler.add(row)

    def remove(self, row: int) -> None:
        """Take it back from the scheduler, if it has no node yet."""
        if self._cluster.node_of[row] < 0:
            self._scheduler.forget(row)


class Unbound:
    """No scheduler knows them. The operator writes once that they are unschedulable, one after the other."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler, clock: Clock) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._free_at = 0.0
        """When the writes that are under way are done."""

    def create(self, row: int) -> None:
        """Write its condition when the writes before are done."""
        self._free_at = max(self._free_at, self._clock.now) + TELL_SECONDS
        self._clock.at(self._free_at, self._tell, (row, self._cluster.number[row]))

    def remove(self, row: int) -> None:
        """Autoscalers count it no longer."""
        self._scheduler.forget(row)

    def _tell(self, pod: tuple[int, int]) -> None:
        row, number = pod
        if self._cluster.number[row] == number:
            self._scheduler.refuse(row)


class Forms:
    """Hands each placeholder to its form."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler, clock: Clock) -> None:
        self._bound: Form = Bound(cluster, scheduler)
        self._unbound: Form = Unbound(cluster, scheduler, clock)

    def of(self, kind: Kind) -> Form:
        """Return the form of a kind's pods; all but unbound placeholders are bound."""
        return self._unbound if kind.unbound else self._bound


def planned(scenario: Scenario) -> tuple[Policy, ...]:
    """Return the scenario's policies with the form of their placeholders, as the operator would decide it."""
    assert isinstance(scenario.slack, Policies)
    return tuple(_with_form(policy, scenario) for policy in scenario.slack.planned())


def _with_form(policy: Policy, scenario: Scenario) -> Policy:
    wanted = policy.spec.hold or scenario.operator.hold
    if wanted is Hold.AUTO:
        wanted = Hold.BOUND if isinstance(scenario.autoscaler, NoAutoscaler) else Hold.UNBOUND
    return policy.model_copy(update={"unbound_scheduler": UNBOUND_SCHEDULER}) if wanted is Hold.UNBOUND else policy
