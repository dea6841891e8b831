"""The last step of the loop, report: statuses, Events, metrics and the page say what was seen, planned and written.

Decides nothing. `Reporter` writes statuses and Events; here is put together what it is told.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from slack.cluster.labels import LABEL_POLICY
from slack.cluster.snapshot import Placeholder
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.model.shape import Shape
from slack.planner.objects.actions import Present
from slack.planner.objects.adoption import held_up
from slack.planner.policy.spec import Policy
from slack.schema.conditions import StatusCondition
from slack_operator.learning.objectives import Objectives
from slack_operator.placeholders.act.executor import Executor
from slack_operator.placeholders.conditions import VIEW_STALE, invalid, not_ready
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.policies import PolicyEntry
from slack_operator.placeholders.reconciliation import ObservedState, PolicyPlans, PolicyStarts, Reconciliation
from slack_operator.placeholders.report.metrics import Metrics
from slack_operator.placeholders.report.ownership import contested
from slack_operator.placeholders.report.reporter import Reporter, not_told, placeholders_changed
from slack_operator.placeholders.report.saved_waits import SavedWaits
from slack_operator.placeholders.report.times_to_ready import TimesToReady
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.placeholders.view.instant_starts import InstantRatio, Start, in_free_capacity
from slack_operator.runtime.debounce import Debouncer

log = logging.getLogger(__name__)

PLAN_SOON_SECONDS = 1.0
"""What a plan that is due so soon says is not written before it: the next write has to wait two seconds."""
STALE_TOLD_SECONDS = 30.0
"""A list after a 410 takes seconds and is nobody's business; nothing is planned meanwhile all the same."""
OfPolicy = Callable[[Policy], StatusCondition | None]
"""Says a condition of a policy; None while all is well."""


class Publisher:
    """Owned by the planning loop."""

    def __init__(
        self,
        reporter: Reporter,
        metrics: Metrics,
        act: Executor,
        forms: Forms,
        objectives: Objectives,
        *,
        wake: Debouncer,
        on_reconciled: Callable[[Reconciliation], None] | None = None,
        conditions: Sequence[OfPolicy] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A publisher that has said nothing yet.

        Args:
            reporter: writes statuses and Events.
            metrics: of the operator.
            act: says what others have taken, and which conditions follow from writes.
            forms: which form each policy's placeholders have.
            objectives: which histories were lost.
            wake: when the next plan is due.
            on_reconciled: is shown each reconciliation, for the page.
            conditions: further ones of a policy, each None while all is well.
            clock: monotonic seconds.
        """
        self._reporter = reporter
        self._metrics = metrics
        self._act = act
        self._forms = forms
        self._objectives = objectives
        self._wake = wake
        self._on_reconciled = on_reconciled
        self._conditions = conditions
        self._clock = clock
        self._ratio = InstantRatio()
        self._saved_waits = SavedWaits()
        self._times_to_ready = TimesToReady()
        self._saved_texts: Mapping[str, str] = MappingProxyType({})
        """By policy, of the last turn."""
        self._reserved: Mapping[str, Mapping[str, int]] = {}
        """Of policies with unbound placeholders, by resource: what these held at the last plan."""
        self._changed: dict[str, tuple[Present, Mapping[str, Shape], StatusCondition | None]] = {}
        """By policy: our objects and its shapes of the last turn, and how its placeholders differ from these."""
        self._stale_since: float | None = None
        self._stale_text: str | None = None

    def publish_held(self) -> None:
        """Write what the last plans have said and what was too soon after the write before."""
        if self._wake.due_in() > PLAN_SOON_SECONDS:
            self._reporter.write_due()

    def due_in(self) -> float:
        """Return the seconds until `publish_held` has something to write; a plan that comes soon has newer figures."""
        due, plan = self._reporter.due_in(), self._wake.due_in()
        return due if due >= plan or plan > PLAN_SOON_SECONDS else plan

    def publish_observed(self, seen: ObservedState) -> None:
        """Say who leads, and that nothing is planned if the view is not whole."""
        self._metrics.leader.set(seen.leading)
        self._wake.lacks_something = seen.stale is not None
        if seen.stale is not None:
            self._show(Reconciliation(seen.at, self._clock(), seen.leading, seen.stale))
            self._publish_stale(seen.entries if seen.leading else (), seen.stale, forbidden=seen.forbidden)
            return
        if self._stale_text:
            log.info("the view of the cluster is whole again")
        self._stale_since = self._stale_text = None
        if seen.leading:
            self._metrics.loop_lag.observe(self._wake.lag_seconds)
        else:
            self._metrics.keep_only(())
            self._show(Reconciliation(seen.at, self._clock(), seen.leading, observation=seen.observation))

    def measure_starts(self, plans: PolicyPlans) -> PolicyStarts:
        """Find whose the starts of real pods since the last reconciliation are, and count them."""
        observation = plans.observation
        starts = self._in_free_capacity(
            self._ratio.add_starts(observation.starts, self._act.owners.policy_of_node), plans
        )
        self._saved_waits.add_starts(starts, observation.snapshot.node_start_seconds)
        for policy, start in starts:
            self._metrics.started(policy, start.waited_seconds, in_slack=start.in_slack)
        for policy, found in self._times_to_ready.add_starts(observation.ready_starts, self._act.owners.policy_of_node):
            self._metrics.became_ready(policy, found)
        return starts

    def publish(self, plans: PolicyPlans) -> None:
        """Write what is worth it of a plan that was carried out."""
        for taken in self._act.taken_back():
            self._metrics.took_back(taken.policy, taken.part)
            self._reporter.taken_back(
                [s.entry for s in plans.policies if s.policy.name == taken.policy or not taken.policy], taken
            )
        extra = self._publish_policies(plans)
        for entry in plans.entries:
            if entry.policy is None:
                extra[entry.name] = (invalid(entry),)
                self._reporter.only(entry, extra[entry.name])
                self._metrics.show_conditions(entry.name, extra[entry.name])
        self._reporter.keep_only([*(s.entry for s in plans.policies), *plans.entries])
        self._keep_only(plans.names)
        self._metrics.show(plans.items)
        self._metrics.show_displaced(plans.observation.displaced)
        self._metrics.show_failed(plans.observation.failed)
        self._metrics.plan_timestamp.set(plans.at)
        ratios = {planned.policy.name: self._ratio.ratio_of(planned.policy.name) for planned in plans.policies}
        self._show(
            Reconciliation(
                plans.at,
                self._clock(),
                True,
                None,
                plans.observation,
                plans.policies,
                plans.items,
                extra,
                invalid=tuple(entry for entry in plans.entries if entry.policy is None),
                policy_of_node=self._act.owners.policy_of_node,
                instant={name: ratio for name, ratio in ratios.items() if ratio is not None},
                spared=self._saved_texts,
                times_to_ready={
                    planned.policy.name: (figures, tuple(self._times_to_ready.slowest(planned.policy.name)))
                    for planned in plans.policies
                    if (figures := self._times_to_ready.figures_of(planned.policy.name)) is not None
                },
            )
        )

    def _keep_only(self, policies: set[str]) -> None:
        """Forget policies that are no more."""
        self._metrics.keep_only(policies)
        self._changed = {name: found for name, found in self._changed.items() if name in policies}
        self._ratio.keep_only(policies)
        self._saved_waits.keep_only(policies)
        self._times_to_ready.keep_only(policies)

    def _show(self, reconciliation: Reconciliation) -> None:
        if self._on_reconciled is not None:
            self._on_reconciled(reconciliation)

    def _publish_stale(self, entries: Sequence[PolicyEntry], stale: str, *, forbidden: bool) -> None:
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
        if forbidden:
            conditions.insert(0, not_ready("NotPermitted", text))
        for entry in entries:
            self._reporter.only(entry, conditions)
            if len(conditions) > 1:
                self._metrics.show_conditions(entry.name, conditions)

    def _in_free_capacity(self, starts: PolicyStarts, plans: PolicyPlans) -> list[tuple[str, Start]]:
        """Say of each start on nodes of policies with unbound placeholders whether it took what these hold free."""
        by_policy: dict[str, list[Start]] = {}
        for name, start in starts:
            by_policy.setdefault(name, []).append(start)
        reserved = {
            item.policy: dict(zip(item.resources, item.reserved.tolist(), strict=True))
            for planned, item in plans.pairs
            if not planned.policy.form.occupies_nodes
        }
        for name in reserved.keys() & by_policy.keys():
            before = self._reserved.get(name, {})
            taken = {resource: amount - reserved[name].get(resource, 0) for resource, amount in before.items()}
            by_policy[name] = in_free_capacity(by_policy[name], taken)
        self._reserved = reserved
        return [(name, start) for name, found in by_policy.items() for start in found]

    def _publish_policies(self, plans: PolicyPlans) -> dict[str, tuple[StatusCondition, ...]]:
        """Write what is worth it; returns each policy's conditions beside the plan's."""
        self._reporter.begin_turn()
        observation = plans.observation
        extras: dict[str, tuple[StatusCondition, ...]] = {}
        saved_texts: dict[str, str] = {}
        placeholders: dict[str, list[Placeholder]] = {}
        for pod in observation.snapshot.placeholders:
            placeholders.setdefault(pod.policy, []).append(pod)
        for planned, item in plans.pairs:
            name, form = planned.policy.name, self._forms.form_of(planned.policy.name)
            extra = self._extra(planned, item, observation, placeholders.get(name, ()))
            causes = {cause: count for (policy, cause), count in observation.displaced.items() if policy == name}
            self._reporter.displaced(planned.entry, causes)
            saved = self._saved_waits.saved_wait(name, observation.snapshot.node_start_seconds)
            self._reporter.plan(
                planned.entry,
                item,
                extra=extra,
                displaced=sum(causes.values()),
                instant_start=self._ratio.text(name),
                spared=saved,
                hold=None if form is None else form.status(),
                time_to_ready=self._times_to_ready.status(name),
            )
            if form is not None:
                self._metrics.show_hold(name, str(form.hold), form.reason)
            if saved is not None:
                self._metrics.show_spared(name, saved.total_seconds)
                saved_texts[name] = str(saved)
            self._metrics.show_conditions(name, (*item.conditions, *extra))
            extras[name] = extra
        self._saved_texts = saved_texts
        return extras

    def _extra(
        self, planned: PlannedPolicy, item: PolicyPlan, observation: Observation, placeholders: Sequence[Placeholder]
    ) -> tuple[StatusCondition, ...]:
        """Return a policy's conditions beside the plan's."""
        name, fit = planned.policy.name, planned.blocked_condition is None
        contest = self._contested(name, observation)
        extra = [
            condition
            for condition in (
                planned.blocked_condition,
                self._act.rescue_condition(name),
                contest,
                self._change_condition(item, placeholders, observation.present),
                self._objectives.condition(name),
                self._act.release_condition(name),
                *(of(planned.policy) for of in self._conditions),
                *not_told(placeholders, self._forms.untold if fit else None),
            )
            if condition is not None
        ]
        refused = self._act.refused.get(name, ())
        if not fit or any(condition.type == ConditionType.READY for condition in extra):
            return tuple(extra)
        if refused:
            extra.append(not_ready("WriteRefused", "; ".join(refused)))
        elif contest is not None:
            extra.append(not_ready(contest.reason, contest.message))
        return tuple(extra)

    def _change_condition(
        self, item: PolicyPlan, placeholders: Sequence[Placeholder], present: Present
    ) -> StatusCondition | None:
        """Say how a policy's placeholders differ from its plan; each is looked at again when one or a shape changes."""
        shapes = {shape.shape.name: shape.shape for shape in item.shapes}
        known = self._changed.get(item.policy)
        if known is not None and known[0] is present and known[1] == shapes:
            return known[2]
        found = placeholders_changed(shapes, placeholders, present)
        self._changed[item.policy] = present, shapes, found
        return found

    def _contested(self, policy: str, observation: Observation) -> StatusCondition | None:
        """Say which objects of a policy are left to others, or stay although they are deleted."""
        sets = {
            name: found
            for name, found in observation.present.sets.items()
            if found.metadata.label(LABEL_POLICY) == policy
        }
        deleted = [(name, names) for name, found in sorted(sets.items()) if (names := held_up(found))]
        return contested(self._act.contests_of(policy, sets), deleted)
