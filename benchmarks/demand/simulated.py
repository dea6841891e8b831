"""`python -m benchmarks.demand.simulated`: the old scheduler's rules and ours in one modelled world, beside each other.

The curve is over actions per slot: the headline (150 times) holds while each active action can have a container, and a
table without that condition would be false. Beside it: a hot action that owns every slot, containers started over those
needed, how soon a burst is decided about, and the first and the last container by KEDA's polling. Same seeds on all
sides; medians of the seeds.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from benchmarks.demand.simulation.load import LoadOutcome, PublishedLoad
from benchmarks.demand.simulation.polled import Polling
from benchmarks.demand.simulation.pools import PoolRules
from benchmarks.demand.simulation.runs import run_old, run_polled, run_pools
from benchmarks.demand.simulation.world import World
from benchmarks.report import Report, Row, parser, say, show
from slack.demand.model import Guards

WORDS = (("as written", "none"), ("+G1", "G1"), ("+G1 G2", "G1,G2"), ("+G1 G2 G3", "G1,G2,G3"))
"""The guards, one after the other on top of the table."""
PLACES = ((9, 16, 100), (9, 12, 100), (9, 8, 60), (9, 8, 72), (3, 8, 20), (3, 8, 24), (9, 8, 100), (3, 8, 48))
"""Nodes, slots of each, actions."""
QUICK = ((3, 8, 20), (3, 8, 24), (3, 8, 48))

Play = Callable[[random.Random], LoadOutcome]
"""One run with a generator."""


def _per_second(outcome: LoadOutcome) -> float:
    return outcome.per_second


def _rules(word: str) -> PoolRules:
    return PoolRules(guards=Guards.parse(word))


def _median(seeds: Sequence[int], play: Play, figure: Callable[[LoadOutcome], float]) -> float:
    return median(figure(play(random.Random(seed))) for seed in seeds)


def headline(seeds: Sequence[int], places: Sequence[tuple[int, int, int]], seconds: float) -> Report:
    """Messages a second of closed-loop clients that take actions at random, by actions per slot."""
    rows: list[Row] = []
    for nodes, slots, actions in places:
        world = World(nodes=nodes, slots=slots)
        load = PublishedLoad(actions=actions, clients=min(actions, 100), seconds=seconds, cut_seconds=seconds / 3)
        say(f"headline: {actions} actions on {nodes} nodes of {slots} slots")
        old = _median(seeds, partial(run_old, world, load), _per_second)
        row: dict[str, str | int | float | None] = {
            "actions/slot ratio": actions / world.all_slots,
            "nodes": nodes,
            "slots": slots,
            "actions": actions,
            "old a second": old,
        }
        for name, word in WORDS:
            rules = _rules(word)
            rate = _median(seeds, partial(run_pools, world, load, rules), _per_second)
            row[f"{name} x"] = rate / old
        rows.append(row)
    rows.sort(key=lambda row: (row["actions/slot ratio"], row["nodes"]))
    return Report(
        "messages a second, times those of the old scheduler (wanted: 150 up to one action a slot, 1.5 above it)",
        rows,
    )


def hot(seeds: Sequence[int]) -> Report:
    """What the others get where one action owned every slot for 20 s."""
    world = World(nodes=3, slots=8)
    load = PublishedLoad(
        actions=12,
        rate_per_second=200.0,
        run_seconds=(0.15, 0.25),
        hot_share=0.9,
        hot_alone_seconds=20.0,
        seconds=60.0,
        cut_seconds=20.0,
    )
    rows: list[Row] = []
    for name, word in WORDS:
        say(f"hot action: {name}")
        found = [run_pools(world, load, _rules(word), random.Random(seed)) for seed in seeds]
        others = [outcome.served(lambda action: action > 0) for outcome in found]
        late = [outcome.percentile(99, lambda action: action > 0) for outcome in found]
        rows.append(
            {
                "rules": name,
                "messages of the others run": median(others),
                "their p99 s": median(late) if all(others) else None,
                "containers started": median(outcome.started for outcome in found),
            }
        )
    return Report(
        "a hot action that owns all 24 slots for 20 s, then 11 others come (wanted: their p99 under 2 s)", rows
    )


def started(seeds: Sequence[int]) -> Report:
    """Containers started over those needed: one for each of 60 actions carries its load. And a burst's decision."""
    world = World(nodes=9, slots=8)
    load = PublishedLoad(actions=60, rate_per_second=200.0, seconds=20.0, cut_seconds=5.0)
    burst = PublishedLoad(
        actions=1, burst=100, burst_at_seconds=5.03, run_seconds=(0.1, 0.1), seconds=30.0, cut_seconds=0.0
    )
    rows: list[Row] = []
    for name, word in WORDS:
        say(f"containers started: {name}")
        rules = _rules(word)
        count = _median(seeds, partial(run_pools, world, load, rules), lambda o: float(o.started))
        decided = _median(
            seeds,
            partial(run_pools, world, burst, rules),
            lambda o: 1000 * ((o.first_decision_seconds or float("inf")) - burst.burst_at_seconds),
        )
        whole = _median(
            seeds,
            partial(run_pools, world, burst, rules),
            lambda o: o.last_finished_seconds - burst.burst_at_seconds,
        )
        rows.append(
            {
                "rules": name,
                "started": count,
                "started/needed ratio": count / load.actions,
                "burst of 100: decided ms": decided,
                "burst of 100: all run s": whole,
            }
        )
    return Report(
        "containers started for 60 actions that need one each (wanted: 1.2), and a burst of 100 messages on an idle "
        "pool (wanted: decided within a tick, 100 ms)",
        rows,
    )


def polling(seeds: Sequence[int]) -> Report:
    """The first container of a burst, and the last one gone, beside KEDA's polling with its defaults."""
    world = World(nodes=9, slots=8)
    load = PublishedLoad(
        actions=1, burst=100, burst_at_seconds=40.0, run_seconds=(0.1, 0.1), seconds=600.0, cut_seconds=0.0
    )
    sides: tuple[tuple[str, Play], ...] = (
        ("ours", partial(run_pools, world, load, _rules("all"))),
        ("KEDA: 30 s polls, 15 s HPA, 300 s cooldown", partial(run_polled, world, load, Polling())),
    )
    rows: list[Row] = []
    for name, play in sides:
        say(f"polling: {name}")
        found = [play(random.Random(seed)) for seed in seeds]
        rows.append(
            {
                "side": name,
                "first container s": median((o.first_start_seconds or 600.0) - load.burst_at_seconds for o in found),
                "all run s": median(o.last_finished_seconds - load.burst_at_seconds for o in found),
                "last container gone s": median((o.gone_seconds or 600.0) - load.burst_at_seconds for o in found),
            }
        )
    return Report("a burst of 100 messages of 100 ms on a pool at zero", rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, and print the tables."""
    options = parser("pools that follow their queues beside the old scheduler, simulated")
    options.add_argument("--seeds", type=int, default=5, help="how many seeds; medians are printed")
    options.add_argument("--seconds", type=float, default=15.0, help="how long a headline's run is, a third of it cut")
    options.add_argument("--quick", action="store_true", help="three places, and one seed")
    asked = options.parse_args(arguments)
    seeds = range(1, 2 if asked.quick else asked.seeds + 1)
    reports = [
        headline(seeds, QUICK if asked.quick else PLACES, asked.seconds),
        hot(seeds),
        started(seeds),
        polling(seeds),
    ]
    show(reports, asked.output)


if __name__ == "__main__":
    main()
