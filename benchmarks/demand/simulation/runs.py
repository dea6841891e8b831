"""One run: a load, a world, a scheduler, a generator; and what became of the messages.

Usage:
    outcome = run_pools(world, load, Rules(guards=Guards()), random.Random(1))
    outcome.per_second, outcome.percentile(99)
"""

from benchmarks.demand.simulation.events import Events, Generator
from benchmarks.demand.simulation.load import LoadOutcome, PublishedLoad, Traffic
from benchmarks.demand.simulation.old_scheduler import OldScheduler
from benchmarks.demand.simulation.polled import Polled, Polling
from benchmarks.demand.simulation.pools import PoolRules, SimulatedPools
from benchmarks.demand.simulation.world import World


def run_old(world: World, load: PublishedLoad, random: Generator) -> LoadOutcome:
    """Play a load on the old scheduler."""
    events = Events()
    traffic = Traffic(load, events, random)
    traffic.taker = OldScheduler(world, events, random, traffic)
    return _play(traffic, events, load)


def run_pools(world: World, load: PublishedLoad, rules: PoolRules, random: Generator) -> LoadOutcome:
    """Play a load on pools."""
    events = Events()
    traffic = Traffic(load, events, random)
    traffic.taker = SimulatedPools(world, rules, events, random, traffic)
    return _play(traffic, events, load)


def run_polled(world: World, load: PublishedLoad, polling: Polling, random: Generator) -> LoadOutcome:
    """Play a load on containers by polling."""
    events = Events()
    traffic = Traffic(load, events, random)
    traffic.taker = Polled(world, polling, events, random, traffic)
    return _play(traffic, events, load)


def _play(traffic: Traffic, events: Events, load: PublishedLoad) -> LoadOutcome:
    traffic.begin()
    events.run(load.seconds)
    return traffic.outcome
