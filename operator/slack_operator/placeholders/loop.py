"""The loop: observe, plan, act, report; every interval, and soon after something relevant has changed.

One thread owns all four; everything they hand on are values. A standby turns too, so that its columns stay warm, and
writes nothing.
"""

from slack_operator.placeholders.act.executor import Executor
from slack_operator.placeholders.observer import Observer
from slack_operator.placeholders.policy_planner import PolicyPlanner
from slack_operator.placeholders.report.publisher import Publisher


class Loop:
    """`reconcile` is one plan; `rescue` and `publish_held` are what is done in between."""

    def __init__(self, observe: Observer, plan: PolicyPlanner, act: Executor, report: Publisher) -> None:
        self._observe = observe
        self._plan = plan
        self._act = act
        self._report = report
        self.rescue = act.rescue
        self.publish_held = report.publish_held
        self.publish_due_in = report.due_in

    def reconcile(self) -> None:
        """Observe, plan, act, report, once."""
        # 1. Observe: what is there.
        seen = self._observe.observe()
        self._report.publish_observed(seen)
        if seen.observation is None:
            return
        if not seen.leading:
            self._plan.keep_only(set())
            return
        # 2. Plan: what should be there.
        plans = self._plan.plan(seen, seen.observation, self._act.refused)
        starts = self._report.measure_starts(plans)
        # 3. Act: write the difference.
        self._act.announce(plans)
        self._act.carry_out(plans)
        self._plan.learn(plans, starts)
        # 4. Report: say what was seen, planned and written.
        self._report.publish(plans)
        for step in (self._observe, self._plan, self._act):
            step.keep_only(plans.names)
