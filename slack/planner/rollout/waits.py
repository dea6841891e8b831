"""Until when time alone changes nothing: what a plan waits for, and what it remembers when it is made again.

For who plans a cluster that stands still (the simulator): the same snapshot gives the same plan until `waits_until`,
and the state that a later plan of the same would leave is `later`.
"""

import math
from dataclasses import replace

from slack.planner.model.result import RememberedPolicy
from slack.planner.policy.spec import Policy


def waits_until(policy: Policy, before: RememberedPolicy, state: RememberedPolicy) -> float:
    """Return the Unix time at which a plan of the same could be another one: -inf where that is not known.

    Args:
        policy: the policy.
        before: its state before the latest plan.
        state: its state since.
    """
    known = state.cheaper_since == before.cheaper_since and state.ladder == before.ladder
    if not known or state.backoffs or before.backoffs or policy.spec.extra_capacity.schedule or policy.spec.objective:
        return -math.inf  # an objective learns from quiet times, too
    delay = policy.spec.stabilization.shrink_delay.total_seconds()
    # the last count is the one that holds; those before it are larger, and end one after the other
    ends = [counts[0][0] + delay for counts in state.counts.values() if len(counts) > 1]
    latest = max((counts[-1][0] for counts in state.counts.values()), default=-math.inf)
    ends += [since + delay for since in state.cheaper_since.values() if since + delay > latest]
    return min(ends, default=math.inf)


def later(state: RememberedPolicy, now: float) -> RememberedPolicy:
    """Return the state that another plan of the same at a later time would leave."""
    counts = {name: (*found[:-1], (now, found[-1][1])) for name, found in state.counts.items()}
    return replace(state, counts=counts)
