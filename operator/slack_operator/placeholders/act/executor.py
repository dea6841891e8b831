"""The third step of the loop, act: carries plans out, and frees hanging preemptors in between.

It writes only while `may_write` says so. It decides nothing: `slack.planner.objects.decide` compares the plan with what
is there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slack.cluster.labels import PRIORITY_CLASS
from slack.kube.apply import Json
from slack.planner.model.result import PolicyPlan, ShapePlan
from slack.planner.objects.actions import Action, DeletePod, Present, SetCost, Stop
from slack.planner.objects.decide import Held, decide, decided_by, deletions_of_ended, orphans
from slack.planner.objects.drift import OwnedField
from slack.planner.objects.manifests import NO_EXTRAS, PLACEHOLDER_USER, replica_set
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import Policy
from slack.planner.removal.reasons import RemovalReason
from slack.process.contests import Contest
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.act.actuator import Actuator, TakenBack
from slack_operator.placeholders.act.creation_block import CreationBlock
from slack_operator.placeholders.act.own_priority_class import OwnPriorityClass
from slack_operator.placeholders.act.releasing import Releasing
from slack_operator.placeholders.act.rescue import Rescuer
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.node_owners import NodeOwners
from slack_operator.placeholders.planned_policies import PlannedPolicy, owners_of
from slack_operator.placeholders.reconciliation import PolicyPlans
from slack_operator.placeholders.view.cluster_view import ClusterView, Observation
from slack_operator.runtime.debounce import Debouncer

OnPlanned = Callable[[Observation, Sequence[PlannedPolicy], Sequence[PolicyPlan]], None]
"""Is told of each plan: what it was made from, for whom, and what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderManifests:
    """What all placeholders of this operator have in common."""

    namespace: str
    image: str
    user: int | None = PLACEHOLDER_USER
    extras: Placeholders = NO_EXTRAS

    def maker(self, policy: Policy, owner: Json) -> Callable[[ShapePlan], Json]:
        """Return what makes the ReplicaSet of a shape of a policy."""
        extras = policy.spec.placeholders.added_to(self.extras)

        def manifest(shape: ShapePlan) -> Json:
            return replica_set(
                policy.name,
                shape.shape,
                shape.role,
                shape.replicas,
                namespace=self.namespace,
                owner=owner,
                image=self.image,
                user=self.user,
                extras=extras,
                retiring=shape.retiring,
            )

        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """Who writes what of a plan."""

    actuator: Actuator
    """ReplicaSets, placeholders and deletion costs."""
    priority_class: OwnPriorityClass
    creation_block: CreationBlock
    releasing: Releasing
    """Which nodes are released."""
    rescuer: Rescuer
    """Frees hanging preemptors."""
    on_planned: Sequence[OnPlanned] = ()
    """Others that act by the plan, in threads of their own."""


class Executor:
    """Owned by the planning loop."""

    def __init__(
        self,
        view: ClusterView,
        writers: Writers,
        manifests: PlaceholderManifests,
        forms: Forms,
        owners: NodeOwners,
        *,
        may_write: Callable[[], bool],
        stale: Callable[[], str | None],
        wake: Debouncer,
        keeps_buffers: Callable[[], bool] = lambda: False,
        clock: Callable[[], float],
    ) -> None:
        """An executor that has written nothing yet.

        Args:
            view: tells which pods hang after a preemption.
            writers: who writes what.
            manifests: what all placeholders have in common.
            forms: whether any placeholders are bound.
            owners: whose each node is.
            may_write: whether this process leads; asked before each write.
            stale: what is missing of the view.
            wake: brings the next plan about, where not all was written.
            keeps_buffers: whether CapacityBuffers need the PriorityClass.
            clock: monotonic seconds.
        """
        self._view = view
        self._writers = writers
        self._actuator, self._rescuer = writers.actuator, writers.rescuer
        self._manifests = manifests
        self._forms = forms
        self.owners = owners
        self._may_write = may_write
        self._stale = stale
        self._wake = wake
        self._keeps_buffers = keeps_buffers
        self._clock = clock
        self._idle: dict[str, _Idle] = {}
        """By policy: what its last decision was made from, if there was nothing to write."""
        self._any_bound = False
        """Whether there are bound placeholders, or a policy wants some: only these are preempted."""
        self.refused: Mapping[str, tuple[str, ...]] = MappingProxyType({})
        """By policy: writes of the last turn that were refused, in words."""

    def rescue(self) -> None:
        """Free hanging preemptors; cheap when nobody waits for a node that was promised."""
        if not self._any_bound or not self._may_write() or self._stale():
            return
        hangs = self._view.hangs(self._clock(), self.owners.scheduler_of_node)
        if self._rescuer.free(hangs, self.owners.policy_of_node.get):
            self._wake.touch()

    def announce(self, plans: PolicyPlans) -> None:
        """Hand the plan to those who act by it themselves."""
        seen = plans.observation
        self._any_bound = self._forms.any_bound or any(not pod.unbound for pod in seen.snapshot.placeholders)
        for look in (self._writers.releasing.look, *self._writers.on_planned):
            look(seen, plans.policies, plans.items)

    def carry_out(self, plans: PolicyPlans) -> None:
        """Write what the plan asks for; afterwards `refused` says what was refused."""
        observation, entries = plans.observation, plans.entries
        unserved = self._actuator.unserved
        self._actuator.begin_turn()
        self._ensure_priority_class(plans)
        decided = self._decide(plans)
        self._prepare(decided)
        owners = {entry.name: entry.uid for entry in entries}
        if not entries:
            owners = owners_of(plans.policies)
        if owners or not plans.policies:  # of no policy at all, everything is left over
            self._actuator.carry_out("", orphans(observation.present, owners), observation.present.sets)
        by_policy = {s.policy.name: actions for s, actions in zip(plans.policies, decided, strict=True)}
        self.refused = {
            name: self._actuator.carry_out(name, by_policy[name], observation.present.sets)
            for name in _beginning_with(unserved, list(by_policy))
        }
        dry = {item.policy for item in plans.items if item.dry_run}
        self._actuator.carry_out("", deletions_of_ended(observation.corpses, dry), observation.present.sets)
        if self._actuator.unserved is not None:
            self._wake.touch()

    def taken_back(self) -> Iterator[TakenBack]:
        """Yield what somebody else had written and was taken back in this turn."""
        yield from self._actuator.taken_back()
        yield from self._writers.priority_class.taken_back()

    def contests_of(self, policy: str, sets: Mapping[str, object]) -> list[Contest[OwnedField]]:
        """Return which fields of a policy's objects are left to others.

        Args:
            policy: its name.
            sets: the policy's ReplicaSets, by name.
        """
        return [
            contest
            for contest in self._actuator.contests.standing(self._clock())
            if contest.subject in sets
            or (contest.subject.startswith(f"slack-{policy}-") and contest.part is not OwnedField.PODS)
            or contest.subject == PRIORITY_CLASS
        ]

    def rescue_condition(self, policy: str) -> StatusCondition | None:
        """Say that preemptors of a policy hang."""
        return self._rescuer.condition(policy)

    def release_condition(self, policy: str) -> StatusCondition | None:
        """Say that a node of a policy cannot be released, or was and has not gone."""
        return self._writers.releasing.condition(policy)

    def keep_only(self, policies: set[str]) -> None:
        """Forget policies that are no more."""
        self._writers.releasing.keep_only(policies)
        self._rescuer.keep_only(policies)
        self._idle = {name: idle for name, idle in self._idle.items() if name in policies}

    def _ensure_priority_class(self, plans: PolicyPlans) -> None:
        ours = [
            item
            for planned, item in plans.pairs
            if planned.policy.spec.priority_class_name == PRIORITY_CLASS and not item.dry_run
        ]
        buffers = self._keeps_buffers()
        if ours or buffers:
            create = buffers or any(item.act for item in ours)
            self._writers.priority_class.ensure(plans.observation.priority_classes, create=create)

    def _prepare(self, decided: Sequence[Sequence[Action]]) -> None:
        """Stop ReplicaSet controllers before anything is lowered: one that makes hundreds does not look again."""
        writes = [action for actions in decided for action in actions]
        stopped = {action.priority_class for action in writes if isinstance(action, Stop)}
        surplus = any(
            isinstance(action, DeletePod) and action.reason is RemovalReason.BEYOND_THE_PLAN for action in writes
        )
        if self._any_bound and self._writers.creation_block.switch_block(stopped, surplus=surplus):
            self._wake.touch()
        self._actuator.forget_marks_but(
            {action.replica_set for action in writes if isinstance(action, SetCost) and action.cost is not None}
        )

    def _decide(self, plans: PolicyPlans) -> list[tuple[Action, ...]]:
        """Work out the writes of each policy; none for a policy whose owner is not known."""
        present = plans.observation.present
        held = self._actuator.held(present.sets)
        return [self._decide_for(planned, item, present, held) for planned, item in plans.pairs]

    def _decide_for(self, planned: PlannedPolicy, item: PolicyPlan, present: Present, held: Held) -> tuple[Action, ...]:
        """Work out the writes of one policy; where nothing has changed since there were none, there are none now."""
        if planned.owner is None:
            return ()
        idle = _Idle(present, planned.policy, planned.owner, decided_by(item), dict(held))
        name, last = planned.policy.name, self._idle.get(planned.policy.name)
        if last is not None and last.is_like(idle):
            return ()
        actions = decide(
            item,
            present,
            owner_uid=planned.owner["uid"],
            manifest=self._manifests.maker(planned.policy, planned.owner),
            marked_since=self._actuator.marked_since,
            now=self._clock(),
            held=held,
        )
        if actions:
            self._idle.pop(name, None)
        else:
            self._idle[name] = idle
        return actions


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """What a decision is made from. Time is no part of it: without anything to write nothing waits for its time."""

    present: Present
    policy: Policy
    owner: Json
    plan: tuple[object, ...]
    held: Held

    def is_like(self, other: "_Idle") -> bool:
        """Tell whether another decision is made from the same."""
        return (
            self.present is other.present
            and self.policy == other.policy
            and self.owner == other.owner
            and self.plan == other.plan
            and self.held == other.held
        )


def _beginning_with(first: str | None, names: list[str]) -> list[str]:
    """Return the names in their order, rotated, so that a slow API server starves no policy."""
    at = names.index(first) if first in names else 0
    return names[at:] + names[:at]
