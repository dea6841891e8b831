"""The second step of the loop, plan: which policies are planned for, in which form, and what the planner says.

Keeps what the planner remembers from plan to plan, and lets policies with an objective learn. Writes nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType

from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import PlannerState
from slack.planner.objects.manifests import PRIORITY
from slack_operator.learning.lead_feed import NodeStarts
from slack_operator.learning.objectives import Learning, Objectives
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.node_owners import NodeOwners
from slack_operator.placeholders.planned_policies import plan_for, planned_policies_of
from slack_operator.placeholders.reconciliation import ObservedState, PolicyPlans, PolicyStarts
from slack_operator.placeholders.view.cluster_view import Observation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSettings:
    """What the operator was told about plans."""

    default_rate: float
    """Of policies that name no rate."""
    built_in_policy: bool = False
    """Plan for the built-in policy while there is no SlackPolicy."""
    prices: Callable[[], NodePrices] = lambda: NO_PRICES


class PolicyPlanner:
    """Plans for all policies at once."""

    def __init__(
        self,
        forms: Forms,
        objectives: Objectives,
        owners: NodeOwners,
        settings: PlannerSettings,
        *,
        node_starts: Callable[[], NodeStarts],
        timed: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A planner that remembers nothing yet.

        Args:
            forms: which form each policy's placeholders have.
            objectives: what policies with an objective ask for.
            owners: whose each node is; divided anew with each plan.
            settings: of all plans.
            node_starts: how long each ready node took to start.
            timed: measures one plan.
            clock: monotonic seconds.
        """
        self._forms = forms
        self._objectives = objectives
        self._owners = owners
        self._settings = settings
        self._node_starts = node_starts
        self._timed = timed
        self._clock = clock
        self._state: PlannerState = MappingProxyType({})
        self._cache = PlanCache()
        self._idle = False

    def plan(
        self, seen: ObservedState, observation: Observation, refused: Mapping[str, tuple[str, ...]]
    ) -> PolicyPlans:
        """Plan for all policies.

        Args:
            seen: what is there.
            observation: its cluster.
            refused: by policy, writes that were refused after the last plan, in words.
        """
        settings = self._settings
        policies = self._forms.resolved(
            planned_policies_of(seen.entries, observation.priority_classes, built_in=settings.built_in_policy),
            observation,
            refused,
        )
        self._log_idle(idle=not seen.entries and not policies)
        with self._timed():
            made = plan_for(
                policies,
                observation,
                now=seen.at,
                state=self._state,
                default_rate=settings.default_rate,
                cache=self._cache,
                objectives=self._objectives.amounts([(s.policy, s.owner) for s in policies], seen.at),
                prices=settings.prices(),
            )
        self._state = made.state
        items = tuple(
            item if planned.blocked_condition is None else replace(item, act=False)
            for planned, item in zip(policies, made.items, strict=True)
        )
        self._owners.divide_nodes(observation.snapshot, [planned.policy for planned in policies])
        return PolicyPlans(seen.at, observation, seen.entries, policies, items)

    def learn(self, plans: PolicyPlans, starts: PolicyStarts) -> None:
        """Let policies with an objective learn from this turn."""
        if not self._objectives.wanted:
            return
        observation = plans.observation
        snapshot, nodes = observation.snapshot, observation.snapshot.nodes.names
        bound = ((pod, nodes[pod.node]) for pod in snapshot.placeholders if pod.node >= 0)
        whose = self._owners.policy_of_node
        self._objectives.lead.feed_starts(self._node_starts(), bound, starts, whose, now=plans.at, clock=self._clock())
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
                for planned, item in plans.pairs
            ],
            (self._owners.moved_count, [(s.policy.name, s.entry.policy_generation) for s in plans.policies]),
            plans.at,
        )

    def keep_only(self, policies: set[str]) -> None:
        """Forget policies that are no more."""
        self._forms.keep_only(policies)

    def _log_idle(self, *, idle: bool) -> None:
        """Say once that nothing asks for slack: for somebody who has installed the operator and wonders."""
        if idle and not self._idle:
            log.info("there is no SlackPolicy and --built-in-policy is off: no slack is kept")
        self._idle = idle
