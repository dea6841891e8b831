"""The forms of placeholders in a model: a scheduler binds them, or none does and autoscalers are told of them.

What differs between the two is the planner's to say (`slack.planner.forms`). Where unbound ones fit is worked out by
the operator's own packing (`snapshot_view`); autoscalers do their own.
"""

from slack.cluster.hold import UNBOUND_SCHEDULER, Hold
from slack.planner.forms.unbound import CONDITIONS_PER_SECOND
from slack.planner.policy.spec import Policy
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.state import ModelledCluster
from slack.simulator.scenario.autoscaler_settings import NoAutoscaler
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

TELL_SECONDS = 1 / CONDITIONS_PER_SECOND
"""One status write of the operator."""


class ModelledForms:
    """Creates and removes pods as their form has it; all but unbound placeholders are scheduled."""

    def __init__(self, cluster: ModelledCluster, scheduler: ModelledScheduler, clock: Clock) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._free_at = 0.0
        """When the operator's status writes that are under way are done."""

    def create(self, row: int, kind: PodKind) -> None:
        """Hand a pod to the scheduler, or report it as unschedulable when the writes before are done."""
        if not kind.stays_pending:
            self._scheduler.add_pod(row)
            return
        self._free_at = max(self._free_at, self._clock.now) + TELL_SECONDS
        self._clock.at(self._free_at, self._tell, (row, self._cluster.number[row]))

    def remove(self, row: int) -> None:
        """Let scheduler and autoscalers forget a pod that has no node; it is in the cluster still."""
        if self._cluster.node_of[row] < 0:
            self._scheduler.forget(row)

    def _tell(self, pod: tuple[int, int]) -> None:
        row, number = pod
        if self._cluster.number[row] == number:
            self._scheduler.refuse(row)


def planned(scenario: Scenario) -> tuple[Policy, ...]:
    """Return the scenario's policies with the form of their placeholders, as the operator would decide it."""
    assert isinstance(scenario.slack, Policies)
    return tuple(_with_form(policy, scenario) for policy in scenario.slack.planned())


def _with_form(policy: Policy, scenario: Scenario) -> Policy:
    wanted = policy.spec.hold or scenario.operator.hold
    if wanted is Hold.AUTO:
        wanted = Hold.BOUND if isinstance(scenario.autoscaler, NoAutoscaler) else Hold.UNBOUND
    if wanted is not Hold.UNBOUND:
        return policy
    form = {"unbound_scheduler": UNBOUND_SCHEDULER, "tolerates_soft_taint": scenario.operator.soft_taint}
    return policy.model_copy(update=form)
