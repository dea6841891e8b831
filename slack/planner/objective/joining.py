"""Two pasts of one policy as one: what was learnt while an earlier past could not be read, and that past.

Counts and the hours in which they were counted add up, row by row, so that rates are those of both times together, as
if one learner had watched: the earlier ones have faded by what the later ones were watched. So do debts, and what the
patterns have cost.
"""

import math

import numpy as np

from slack.planner.objective.learner import Learner
from slack.planner.objective.patterns import HALF_LIVES
from slack.planner.objective.prices import Prices


def join(later: Learner, earlier: Learner) -> None:
    """Add an earlier past to a learner; the two have watched at different times."""
    # hours fade as they come, so that a sum of them tells by how much what was there before has faded
    left = np.clip(1 - later.needs.hours * math.log(2) / HALF_LIVES, 0.0, 1.0)
    later.needs.pods += earlier.needs.pods * left[:, None, None].astype(np.float32)
    later.needs.hours += earlier.needs.hours * left
    np.maximum(later.needs.largest, earlier.needs.largest, out=later.needs.largest)
    later.most_seen = np.maximum(later.most_seen, earlier.most_seen)
    later.tally.add_earlier(earlier.tally)
    debts = zip([later.correction, *later.modelled], [earlier.correction, *earlier.modelled], strict=True)
    for debt, before in debts:
        debt.add_debt(before.value)
    if earlier.contest.weight.sum() > later.contest.weight.sum():
        later.contest.best = earlier.contest.best
    later.contest.weight += earlier.contest.weight
    later.contest.first += earlier.contest.first
    later.contest.second += earlier.contest.second
    later.mix.add_earlier(earlier.mix)
    later.prices = Prices()  # worked out anew, of all of it
