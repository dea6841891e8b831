"""The loop: observe, plan, act, report; every interval, and soon after something relevant has changed.

One thread owns the planner's memory, the actuator, the reporter and the rescuer; everything it reads comes as values.
It writes only while `may_write` says so: a standby turns too, so that its columns stay warm, and writes nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from slack.cluster.labels import LABEL_POLICY, PRIORITY_CLASS
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import Placeholder
from slack.kube.apply import Json
from slack.planner.domain.membership import divide, node_labels, node_selectors
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ConditionType, PlannerState, PolicyPlan, ShapePlan
from slack.planner.objects.actions import Action, DeletePod, SetCost, Stop
from slack.planner.objects.adoption import held_up
from slack.planner.objects.decide import decide, deletions_of_ended, orphans
from slack.planner.objects.drift import OwnedField
from slack.planner.objects.manifests import NO_EXTRAS, PLACEHOLDER_USER, PRIORITY, replica_set
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import Policy
from slack.planner.removal.reasons import RemovalReason
from slack.schema.conditions import StatusCondition
from slack_operator.learning.objectives import Learning, Objectives
from slack_operator.placeholders.act.actuator import Actuator
from slack_operator.placeholders.act.creation_block import CreationBlock
from slack_operator.placeholders.act.own_priority_class import OwnPriorityClass
from slack_operator.placeholders.act.releasing import Releasing
from slack_operator.placeholders.act.rescue import Rescuer
from slack_operator.placeholders.conditions import VIEW_STALE, invalid, not_ready
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.planned_policies import PlannedPolicy, owners_of, plan_for, planned_policies_of
from slack_operator.placeholders.policies import DesiredPolicies, PolicyEntry
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.report.metrics import Metrics
from slack_operator.placeholders.report.ownership import contested
from slack_operator.placeholders.report.reporter import Reporter, not_told, placeholders_changed
from slack_operator.placeholders.report.saved_waits import SavedWaits
from slack_operator.placeholders.report.times_to_ready import TimesToReady
from slack_operator.placeholders.view.cluster_view import ClusterView, Observation
from slack_operator.placeholders.view.instant_starts import InstantRatio, Start, in_free_capacity
from slack_operator.runtime.debounce import Debouncer

log = logging.getLogger(__name__)

PLAN_SOON_SECONDS = 1.0
"""What a plan that is due so soon says is not written before it: the next write has to wait two seconds."""
STALE_TOLD_SECONDS = 30.0
"""A list after a 410 takes seconds and is nobody's business; nothing is planned meanwhile all the same."""


OnPlanned = Callable[[Observation, Sequence[PlannedPolicy], Sequence[PolicyPlan]], None]
"""Is told of each plan: what it was made from, for whom, and what it says."""


class ViewFreshness(Protocol):
    """Whoever knows whether the view is whole."""

    def stale(self) -> str | None:
        """Say what is missing; None when nothing is."""

    def forbidden(self) -> bool:
        """Whether it is missing for lack of rights."""


class Loop:
    """See the module's docstring; `reconcile` is one plan, `rescue` what is done in between."""

    def __init__(
        self,
        *,
        view: ClusterView,
        watches: ViewFreshness,
        desired: DesiredPolicies,
        actuator: Actuator,
        reporter: Reporter,
        rescuer: Rescuer,
        objectives: Objectives,
        priority_class: OwnPriorityClass,
        brake: CreationBlock,
        forms: Forms,
        releasing: Releasing,
        metrics: Metrics,
        may_write: Callable[[], bool],
        wake: Debouncer,
        namespace: str,
        image: str,
        placeholder_user: int | None = PLACEHOLDER_USER,
        extras: Placeholders = NO_EXTRAS,
        default_rate: float,
        built_in_policy: bool = False,
        prices: NodePrices = NO_PRICES,
        on_reconciled: Callable[[Reconciliation], None] | None = None,
        on_planned: Sequence[OnPlanned] = (),
        keeps_buffers: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._view = view
        self._watches = watches
        self._desired = desired
        self._actuator = actuator
        self._reporter = reporter
        self._rescuer = rescuer
        self._objectives = objectives
        self._priority_class = priority_class
        self._brake = brake
        self._forms = forms
        self._releasing = releasing
        self._metrics = metrics
        self._may_write = may_write
        self._wake = wake
        self._namespace = namespace
        self._image = image
        self._placeholder_user = placeholder_user
        self._extras = extras
        self._default_rate = default_rate
        self._prices = prices
        self._built_in_policy = built_in_policy
        self._on_reconciled = on_reconciled
        self._on_planned = on_planned
        self._keeps_buffers = keeps_buffers
        self._clock = clock
        self._wall = wall
        self._reset_state()

    def _reset_state(self) -> None:
        """Begin with no memory of earlier turns."""
        self._state: PlannerState = MappingProxyType({})
        self._cache = PlanCache()
        self._ratio = InstantRatio()
        self._spared = SavedWaits()
        self._times_to_ready = TimesToReady()
        self._spared_texts: Mapping[str, str] = MappingProxyType({})
        """By policy, of the last turn."""
        self._policy_of_node: Mapping[str, str] = {}
        self._any_bound = False
        """Whether there are bound placeholders, or a policy wants some: only these are preempted."""
        self._reserved: Mapping[str, Mapping[str, int]] = {}
        """Of policies with unbound placeholders, by resource: what these held at the last plan."""
        self._nodes_moved = 0
        """How often a node has gone from one policy to another."""
        self._scheduler_of: Mapping[str, str] = {}
        """schedulerName by policy."""
        self._stale_since: float | None = None
        self._stale_text: str | None = None
        self._idle = False
        self._left_out: tuple[str, ...] = ()
        self._refused: Mapping[str, tuple[str, ...]] = MappingProxyType({})
        """By policy: writes of the last turn that were refused, in words."""

    def rescue(self) -> None:
        """Free hanging preemptors; cheap when nobody waits for a node that was promised."""
        if not self._any_bound or not self._may_write() or self._watches.stale():
            return
        hangs = self._view.hangs(self._clock(), self._scheduler_of_node)
        if self._rescuer.free(hangs, self._policy_of_node.get):
            self._wake.touch()

    def tell(self) -> None:
        """Write what the last plans have said and what was too soon after the write before."""
        if self._wake.due_in() > PLAN_SOON_SECONDS:
            self._reporter.turn()

    def tell_due_in(self) -> float:
        """Return the seconds until `tell` has something to write; a plan that comes soon has newer figures."""
        due, plan = self._reporter.due_in(), self._wake.due_in()
        return due if due >= plan or plan > PLAN_SOON_SECONDS else plan

    def reconcile(self) -> None:
        """Observe, plan, act, report, once."""
        leading = self._may_write()
        stale = self._watches.stale()
        if leading and not stale and not self._desired.synced:
            stale = "slackpolicies are not listed yet"
        if leading and not stale:
            stale = self._forms.unready()
        self._metrics.leader.set(leading)
        entries = self._desired.entries()
        if stale:
            self._show(Reconciliation(self._wall(), self._clock(), leading, stale))
            self._tell_stale(entries if leading else (), stale)
            return
        if self._stale_text:
            log.info("the view of the cluster is whole again")
        self._stale_since = self._stale_text = None
        self._require_labels(entries)
        now = self._wall()
        observation = self._view.observe(now)
        self._tell_left_out(observation.snapshot.left_out)
        if not leading:
            self._metrics.keep_only(())
            self._forms.keep_only(())
            self._show(Reconciliation(now, self._clock(), leading, observation=observation))
            return
        self._metrics.loop_lag.observe(self._wake.lag_seconds)
        planned_policies = self._forms.resolved(
            planned_policies_of(entries, observation.priority_classes, built_in=self._built_in_policy),
            observation,
            self._refused,
        )
        self._tell_idle(idle=not entries and not planned_policies)
        self._any_bound = self._forms.any_bound or any(not pod.unbound for pod in observation.snapshot.placeholders)
        items = self._plan(planned_policies, observation, now)
        starts = self._measure(observation, planned_policies, items)
        self._releasing.look(observation, planned_policies, items)
        for look in self._on_planned:
            look(observation, planned_policies, items)
        self._refused = problems = self._act(planned_policies, items, observation, entries)
        self._learn(planned_policies, items, observation, starts, now)
        extra = self._report(planned_policies, items, observation, problems)
        for entry in entries:
            if entry.policy is None:
                self._reporter.only(entry, [invalid(entry)])
                self._metrics.show_conditions(entry.name, [invalid(entry)])
        self._reporter.keep_only([*(s.entry for s in planned_policies), *entries])
        self._keep_only({*(s.policy.name for s in planned_policies), *(e.name for e in entries)})
        self._metrics.show(items)
        self._metrics.show_displaced(observation.displaced)
        self._metrics.show_failed(observation.failed)
        self._metrics.plan_timestamp.set(now)
        self._show_planned(
            Reconciliation(now, self._clock(), leading, None, observation, planned_policies, items, extra), entries
        )

    def _keep_only(self, policies: set[str]) -> None:
        """Forget policies that are no more."""
        self._metrics.keep_only(policies)
        self._ratio.keep_only(policies)
        self._spared.keep_only(policies)
        self._times_to_ready.keep_only(policies)
        self._forms.keep_only(policies)
        self._releasing.keep_only(policies)
        self._rescuer.keep_only(policies)
        self._view.keep_only(policies)

    def _tell_idle(self, *, idle: bool) -> None:
        """Say once that nothing asks for slack: for somebody who has installed the operator and wonders."""
        if idle and not self._idle:
            log.info("there is no SlackPolicy and --built-in-policy is off: no slack is kept")
        self._idle = idle

    def _show_planned(self, reconciliation: Reconciliation, entries: Sequence[PolicyEntry]) -> None:
        if self._on_reconciled is None:
            return
        bad = tuple(entry for entry in entries if entry.policy is None)
        ratios = {
            planned.policy.name: self._ratio.of(planned.policy.name) for planned in reconciliation.planned_policies
        }
        self._show(
            replace(
                reconciliation,
                extra={**reconciliation.extra, **{entry.name: (invalid(entry),) for entry in bad}},
                invalid=bad,
                policy_of_node=self._policy_of_node,
                instant={name: ratio for name, ratio in ratios.items() if ratio is not None},
                spared=self._spared_texts,
                times_to_ready={
                    planned.policy.name: (figures, tuple(self._times_to_ready.slowest(planned.policy.name)))
                    for planned in reconciliation.planned_policies
                    if (figures := self._times_to_ready.of(planned.policy.name)) is not None
                },
            )
        )

    def _show(self, reconciliation: Reconciliation) -> None:
        if self._on_reconciled is not None:
            self._on_reconciled(reconciliation)

    def _tell_stale(self, entries: Sequence[PolicyEntry], stale: str) -> None:
        self._reporter.begin_turn()
        now = self._clock()
        if self._stale_since is None:
            self._stale_since = now
        if now - self._stale_since < STALE_TOLD_SECONDS:
            return
        if stale != self._stale_text:
            log.warning("nothing is planned: %s", stale)
            self._stale_text = stale
        self._metrics.show_stale()
        text = f"nothing is planned: {stale}"
        conditions = [StatusCondition(VIEW_STALE, True, "NotWhole", text)]
        if self._watches.forbidden():
            conditions.insert(0, not_ready("NotPermitted", text))
        for entry in entries:
            self._reporter.only(entry, conditions)
            if len(conditions) > 1:
                self._metrics.show_conditions(entry.name, conditions)

    def _tell_left_out(self, left_out: tuple[str, ...]) -> None:
        if left_out and not self._left_out:
            log.warning(
                "nodes have %d resources beyond those that are counted, such as %s: who requests them gets no slack",
                len(left_out),
                left_out[0],
            )
        self._left_out = left_out

    def _require_labels(self, entries: Sequence[PolicyEntry]) -> None:
        policies = [entry.policy for entry in entries if entry.policy is not None]
        keys, selectors = node_labels(policies, self._prices), node_selectors(policies)
        self._view.require_labels(keys, selectors)

    def _plan(
        self, planned_policies: Sequence[PlannedPolicy], observation: Observation, now: float
    ) -> tuple[PolicyPlan, ...]:
        with self._metrics.plan_duration.time():
            made = plan_for(
                planned_policies,
                observation,
                now=now,
                state=self._state,
                default_rate=self._default_rate,
                cache=self._cache,
                objectives=self._objectives.amounts([(s.policy, s.owner) for s in planned_policies], now),
                prices=self._prices,
            )
        self._state = made.state
        return tuple(
            item if planned.blocked_condition is None else replace(item, act=False)
            for planned, item in zip(planned_policies, made.items, strict=True)
        )

    def _measure(
        self, observation: Observation, planned_policies: Sequence[PlannedPolicy], items: Sequence[PolicyPlan]
    ) -> list[tuple[str, Start]]:
        """Find whose each node is, and with that whose the starts since the last reconciliation are."""
        nodes = observation.snapshot.nodes.names
        before, self._policy_of_node = (
            self._policy_of_node,
            {
                nodes[row]: domain.policy.name
                for domain in divide(observation.snapshot, [s.policy for s in planned_policies])
                for row in domain.members.nonzero()[0]
            },
        )
        self._nodes_moved += any(before.get(node, name) != name for node, name in self._policy_of_node.items())
        self._scheduler_of = {s.policy.name: s.policy.spec.scheduler_name for s in planned_policies}
        starts = self._in_free_capacity(
            self._ratio.add(observation.starts, self._policy_of_node), planned_policies, items
        )
        self._spared.add(starts, observation.snapshot.node_start_seconds)
        for policy, start in starts:
            self._metrics.started(policy, start.waited_seconds, in_slack=start.in_slack)
        for policy, found in self._times_to_ready.add(observation.ready_starts, self._policy_of_node):
            self._metrics.became_ready(policy, found)
        return starts

    def _in_free_capacity(
        self,
        starts: Sequence[tuple[str, Start]],
        planned_policies: Sequence[PlannedPolicy],
        items: Sequence[PolicyPlan],
    ) -> list[tuple[str, Start]]:
        """Say of each start on nodes of policies with unbound placeholders whether it took what these hold free."""
        by_policy: dict[str, list[Start]] = {}
        for name, start in starts:
            by_policy.setdefault(name, []).append(start)
        reserved = {
            item.policy: dict(zip(item.resources, item.reserved.tolist(), strict=True))
            for planned, item in zip(planned_policies, items, strict=True)
            if not planned.policy.form.occupies_nodes
        }
        for name in reserved.keys() & by_policy.keys():
            before = self._reserved.get(name, {})
            taken = {resource: amount - reserved[name].get(resource, 0) for resource, amount in before.items()}
            by_policy[name] = in_free_capacity(by_policy[name], taken)
        self._reserved = reserved
        return [(name, start) for name, found in by_policy.items() for start in found]

    def _learn(
        self,
        planned_policies: Sequence[PlannedPolicy],
        items: Sequence[PolicyPlan],
        observation: Observation,
        starts: Sequence[tuple[str, Start]],
        now: float,
    ) -> None:
        """Let policies with an objective learn from this turn."""
        if not self._objectives.wanted:
            return
        snapshot, nodes = observation.snapshot, observation.snapshot.nodes.names
        bound = ((pod, nodes[pod.node]) for pod in snapshot.placeholders if pod.node >= 0)
        whose = self._policy_of_node
        self._objectives.lead.turn(self._view.node_starts(), bound, starts, whose, now=now, clock=self._clock())
        excluded = frozenset(str(snapshot.kinds.workloads[k]) for k in snapshot.kinds.excluded.nonzero()[0])
        classes = observation.priority_classes
        self._objectives.learn(
            [
                Learning(
                    policy=planned.policy,
                    item=item,
                    priority=found.value
                    if (found := classes.get(planned.policy.spec.priority_class_name))
                    else PRIORITY,
                    excluded=excluded,
                    starts=[start for name, start in starts if name == planned.policy.name],
                )
                for planned, item in zip(planned_policies, items, strict=True)
            ],
            (self._nodes_moved, [(s.policy.name, s.entry.policy_generation) for s in planned_policies]),
            now,
        )

    def _scheduler_of_node(self, node: str) -> str | None:
        policy = self._policy_of_node.get(node)
        return None if policy is None else self._scheduler_of.get(policy)

    def _act(
        self,
        planned_policies: Sequence[PlannedPolicy],
        items: Sequence[PolicyPlan],
        observation: Observation,
        entries: Sequence[PolicyEntry],
    ) -> dict[str, tuple[str, ...]]:
        unserved = self._actuator.unserved
        self._actuator.begin_turn()
        ours = [
            item
            for planned, item in zip(planned_policies, items, strict=True)
            if planned.policy.spec.priority_class_name == PRIORITY_CLASS and not item.dry_run
        ]
        buffers = self._keeps_buffers()
        if ours or buffers:
            create = buffers or any(item.act for item in ours)
            self._priority_class.ensure(observation.priority_classes, create=create)
        decided = self._decide(planned_policies, items, observation)
        writes = [action for actions in decided for action in actions]
        # Before anything is lowered, for a controller that makes hundreds does not look at their count again.
        stopped = {action.priority_class for action in writes if isinstance(action, Stop)}
        surplus = any(
            isinstance(action, DeletePod) and action.reason is RemovalReason.BEYOND_THE_PLAN for action in writes
        )
        if self._any_bound and self._brake.turn(stopped, surplus=surplus):
            self._wake.touch()
        marking = {
            a.replica_set for actions in decided for a in actions if isinstance(a, SetCost) and a.cost is not None
        }
        self._actuator.forget_marks_but(marking)
        owners = {entry.name: entry.uid for entry in entries}
        if not entries:
            owners = owners_of(planned_policies)
        if owners or not planned_policies:  # of no policy at all, everything is left over
            self._actuator.carry_out("", orphans(observation.present, owners), observation.present.sets)
        by_policy = {s.policy.name: actions for s, actions in zip(planned_policies, decided, strict=True)}
        problems = {
            name: self._actuator.carry_out(name, by_policy[name], observation.present.sets)
            for name in _beginning_with(unserved, list(by_policy))
        }
        dry = {item.policy for item in items if item.dry_run}
        self._actuator.carry_out("", deletions_of_ended(observation.corpses, dry), observation.present.sets)
        if self._actuator.unserved is not None:
            self._wake.touch()
        self._tell_taken_back(planned_policies)
        return problems

    def _decide(
        self, planned_policies: Sequence[PlannedPolicy], items: Sequence[PolicyPlan], observation: Observation
    ) -> list[tuple[Action, ...]]:
        """Work out the writes of each policy; none for a policy whose owner is not known."""
        held = self._actuator.held(observation.present.sets)
        return [
            decide(
                item,
                observation.present,
                owner_uid=planned.owner["uid"],
                manifest=self._maker(planned.policy, planned.owner),
                marked_since=self._actuator.marked_since,
                now=self._clock(),
                held=held,
            )
            if planned.owner is not None
            else ()
            for planned, item in zip(planned_policies, items, strict=True)
        ]

    def _tell_taken_back(self, planned_policies: Sequence[PlannedPolicy]) -> None:
        for taken in (*self._actuator.taken_back(), *self._priority_class.taken_back()):
            self._metrics.took_back(taken.policy, taken.part)
            self._reporter.taken_back(
                [s.entry for s in planned_policies if s.policy.name == taken.policy or not taken.policy], taken
            )

    def _contested(self, planned: PlannedPolicy, observation: Observation) -> StatusCondition | None:
        """Say which objects of a policy are left to others, or stay although they are deleted."""
        mine = planned.policy.name
        sets = {
            name: found
            for name, found in observation.present.sets.items()
            if found.metadata.label(LABEL_POLICY) == mine
        }
        standing = [
            contest
            for contest in self._actuator.contests.standing(self._clock())
            if contest.subject in sets
            or (contest.subject.startswith(f"slack-{mine}-") and contest.part is not OwnedField.PODS)
            or contest.subject == PRIORITY_CLASS
        ]
        return contested(standing, [(name, names) for name, found in sorted(sets.items()) if (names := held_up(found))])

    def _maker(self, policy: Policy, owner: Json) -> Callable[[ShapePlan], Json]:
        extras = policy.spec.placeholders.added_to(self._extras)

        def manifest(shape: ShapePlan) -> Json:
            return replica_set(
                policy.name,
                shape.shape,
                shape.role,
                shape.replicas,
                namespace=self._namespace,
                owner=owner,
                image=self._image,
                user=self._placeholder_user,
                extras=extras,
                retiring=shape.retiring,
            )

        return manifest

    def _report(
        self,
        planned_policies: Sequence[PlannedPolicy],
        items: Sequence[PolicyPlan],
        observation: Observation,
        problems: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, tuple[StatusCondition, ...]]:
        """Write what is worth it; returns each policy's conditions beside the plan's."""
        self._reporter.begin_turn()
        extras: dict[str, tuple[StatusCondition, ...]] = {}
        spared_texts: dict[str, str] = {}
        placeholders: dict[str, list[Placeholder]] = {}
        for pod in observation.snapshot.placeholders:
            placeholders.setdefault(pod.policy, []).append(pod)
        for planned, item in zip(planned_policies, items, strict=True):
            name, form = planned.policy.name, self._forms.of(planned.policy.name)
            extra = self._extra(planned, item, observation, placeholders.get(name, ()), problems.get(name, ()))
            causes = {cause: count for (policy, cause), count in observation.displaced.items() if policy == name}
            self._reporter.displaced(planned.entry, causes)
            spared = self._spared.of(name, observation.snapshot.node_start_seconds)
            self._reporter.plan(
                planned.entry,
                item,
                extra=extra,
                displaced=sum(causes.values()),
                instant_start=self._ratio.text(name),
                spared=spared,
                hold=None if form is None else form.document(),
                time_to_ready=self._times_to_ready.document(name),
            )
            if form is not None:
                self._metrics.show_hold(name, str(form.hold), form.reason)
            if spared is not None:
                self._metrics.show_spared(name, spared.total_seconds)
                spared_texts[name] = str(spared)
            self._metrics.show_conditions(name, (*item.conditions, *extra))
            extras[name] = extra
        self._spared_texts = spared_texts
        return extras

    def _extra(
        self,
        planned: PlannedPolicy,
        item: PolicyPlan,
        observation: Observation,
        placeholders: Sequence[Placeholder],
        refused: Sequence[str],
    ) -> tuple[StatusCondition, ...]:
        """Return a policy's conditions beside the plan's."""
        name, fit = planned.policy.name, planned.blocked_condition is None
        changed = placeholders_changed(item, placeholders, observation.present)
        contest = self._contested(planned, observation)
        lost = self._objectives.condition(name)
        stays = self._releasing.condition(name)
        untold = not_told(placeholders, self._forms.untold if fit else None)
        extra = [
            condition
            for condition in (
                planned.blocked_condition,
                self._rescuer.condition(name),
                contest,
                changed,
                lost,
                stays,
                *untold,
            )
            if condition is not None
        ]
        if not fit or any(condition.type == ConditionType.READY for condition in extra):
            return tuple(extra)
        if refused:
            extra.append(not_ready("WriteRefused", "; ".join(refused)))
        elif contest is not None:
            extra.append(not_ready(contest.reason, contest.message))
        return tuple(extra)


def _beginning_with(first: str | None, names: list[str]) -> list[str]:
    """Return the names in their order, rotated, so that a slow API server starves no policy."""
    at = names.index(first) if first in names else 0
    return names[at:] + names[:at]
