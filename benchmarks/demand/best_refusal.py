"""What the best possible rule of refusals does: a bound on every rule, from statistics alone.

The rule knows the capacity, the rate of a calm namespace, the rate of an overload, and the moment at which the overload
begins; it refuses at random where that helps. Arrivals are Poisson, and completions follow from them, so the number of
arrivals since that moment tells all (Neyman and Pearson: no other test of the same power has fewer false alarms). Ticks
come at fixed times and what arrives after one is independent of what came before it. So the share of messages that such
a rule refuses in a calm namespace is the share of its false alarms, and no real rule refuses less.
"""

from dataclasses import dataclass
from itertools import count
from math import exp, lgamma, log
from typing import Final

CALM: Final = 0.8
NEARLY_FULL: Final = 0.95
"""A namespace at this utilisation keeps up, too."""
OVERLOAD: Final = 1.2
MOST_REFUSED: Final = 0.001
POWER: Final = 0.5
"""Share of the overloads that are refused within the ticks: the median does."""
MOST_TICKS: Final = 10_000


def probability(mean: float, messages: int) -> float:
    """Return the probability that exactly so many messages come."""
    return exp(messages * log(mean) - mean - lgamma(messages + 1))


def tail(mean: float, least: int) -> float:
    """Return the probability that at least so many messages come."""
    return max(0.0, 1.0 - sum(probability(mean, messages) for messages in range(least)))


def least_refused(calm: float, overload: float) -> float:
    """Return the smallest share refused of any rule that refuses `POWER` of the overloads.

    Args:
        calm: messages that come on average, within the time that the rule has, in a namespace that keeps up.
        overload: the same under overload; more.
    """
    above, messages = 1.0, 0
    while above - (exactly := probability(overload, messages)) >= POWER:
        above -= exactly
        messages += 1
    # at least so many messages come with a probability of `above`, which is enough; one more, and it is too little
    share = (POWER - (above - exactly)) / exactly
    return tail(calm, messages + 1) + share * probability(calm, messages)


@dataclass(frozen=True, slots=True)
class Best:
    """What is possible at so many messages a second that the containers can run."""

    capacity_per_second: float
    tick_seconds: float

    def refused(self, utilisation: float, ticks: int) -> float:
        """Return the smallest share refused at that utilisation of any rule that refuses half of the overloads."""
        could = self.capacity_per_second * ticks * self.tick_seconds
        return least_refused(utilisation * could, OVERLOAD * could)

    def ticks(self, utilisation: float) -> int:
        """Return the fewest ticks within which a rule refuses half of the overloads, and `MOST_REFUSED` otherwise."""
        return next(
            ticks for ticks in count(1) if ticks == MOST_TICKS or self.refused(utilisation, ticks) <= MOST_REFUSED
        )
