"""`python -m benchmarks.demand.refusing`: who is refused, and how soon: messages that come at random (Poisson).

An event model with the real rules (`slack.demand.tick`) beside the rule as it was before: refuse in a full namespace if
more came than was finished within the last second, or the queue grew at two ticks running. Run times are exponential.
What is refused does not come again. Promised are (`docs/demand.md`):

- at most 0.1 % refused at 80 % utilisation;
- at 120 %, a refusal within two ticks if the containers run 500 messages a second or more. Below that, a refusal once
  75 messages more than the containers can run have come, and two ticks to see them;
- no refusal beside an idle container.

Printed beside it is what no rule can do better (`benchmarks.demand.best_refusal`); `--bounds` prints that alone, at
once.
The exit code is 1 if any row misses a promise.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from statistics import median
from typing import Final

from benchmarks.demand.best_refusal import CALM, MOST_REFUSED, NEARLY_FULL, OVERLOAD, Best
from benchmarks.demand.simulation.events import Events
from benchmarks.demand.simulation.load import PublishedLoad, SimulatedMessage, Traffic
from benchmarks.demand.simulation.pools import PoolRules, SimulatedPools
from benchmarks.demand.simulation.world import World
from benchmarks.report import Report, Row, parser, say, show
from slack.demand.broker import QueueLag
from slack.demand.model import DEFAULT_STALE_MS, Guards, QueueKey
from slack.demand.tick import TickInput, TickResult

TICK_SECONDS: Final = 0.3
STALE_SECONDS: Final = DEFAULT_STALE_MS / 1000
WARM_SECONDS: Final = 30.0
"""Containers are made, and their first backlog is run."""
MOST_MESSAGES: Final = 60_000
"""Of one run."""
RUN_SECONDS: Final = (0.0025, 0.01, 0.1, 1.0)
"""The first is that of the proposal, and the headline."""
FEW_TICKS: Final = 2
FAST_PER_SECOND: Final = 500.0
"""Containers that run so many messages a second refuse within `FEW_TICKS`."""
EXCESS_MESSAGES: Final = 75
"""So many messages more than are run tell an overload from chance."""


class Formerly:
    """The rule as it was."""

    def __init__(self) -> None:
        self._readings: dict[QueueKey, deque[tuple[float, QueueLag]]] = {}
        self._growing: dict[QueueKey, int] = {}
        self._set_at: dict[QueueKey, int] = {}

    def take(self, now: float, lags: dict[QueueKey, QueueLag], *, full: bool) -> set[QueueKey]:
        """Return the actions that are refused."""
        for key, lag in lags.items():
            readings = self._readings.setdefault(key, deque(maxlen=6))
            grew = bool(readings) and lag.backlog > readings[-1][1].backlog
            self._growing[key] = self._growing.get(key, 0) + 1 if grew else 0
            readings.append((now, lag))
            then = next((found for at, found in reversed(readings) if at <= now - 1.0 + 1e-9), readings[0][1])
            came = (lag.published_total or 0) - (then.published_total or 0)
            done = (lag.delivered_total or 0) - lag.in_flight - (then.delivered_total or 0) + then.in_flight
            slower = lag.backlog > 0 and (came > done or self._growing[key] >= 2)
            before = self._set_at.get(key)
            if full and before is not None and lag.backlog > 0.9 * before:
                continue
            self._set_at.pop(key, None)
            if full and slower:
                self._set_at[key] = lag.backlog
        return set(self._set_at)


@dataclass(slots=True)
class Counted:
    """What came of one run."""

    published: int = 0
    refused: int = 0
    ticks: int = 0
    refusing_ticks: int = 0
    refusing_beside_idle: int = 0
    """Ticks at which an action was refused that had an idle container."""
    ticks_until_refused: int | None = None
    """From the beginning of the overload."""


class Run:
    """One namespace whose limit is all slots."""

    def __init__(
        self, world: World, actions: int, run_seconds: float, rate: Callable[[float], float], seed: int
    ) -> None:
        self._events, self._random = Events(), random.Random(seed)
        self._traffic = Traffic(PublishedLoad(actions=actions, seconds=0.0), self._events, self._random)
        rules = PoolRules(guards=Guards(), tick_seconds=TICK_SECONDS, idle_timeout_seconds=60.0)
        self._pools = SimulatedPools(world, rules, self._events, self._random, self._traffic)
        self._traffic.taker = self._pools
        # A single action has all its containers from the beginning: what is measured is the refusal alone.
        least = world.all_slots if actions == 1 else 0
        scheduler = self._pools.scheduler
        scheduler.configure(
            [replace(pool, min_containers=least, stale_seconds=STALE_SECONDS) for pool in scheduler._pools.values()],
            scheduler._quotas.values(),
        )
        self._rate, self._run_seconds, self._actions = rate, run_seconds, actions
        self._slots = world.all_slots
        self._refused: set[QueueKey] = set()
        self.counted = Counted()

    def play(self, seconds: float, *, formerly: bool, overload_at: float | None = None) -> Counted:
        """Let messages come for so long after the warm-up."""
        rule, scheduler = Formerly() if formerly else None, self._pools.scheduler
        tick = scheduler.tick

        def watched(observation: TickInput) -> TickResult:
            result = tick(observation)
            now = observation.now_seconds
            if rule is None:
                self._refused = {key for key in self._pools.keys if scheduler.verdict(key).reject}
            else:
                lags = {key: self._pools.runtime.lag(number) for key, number in self._pools.numbers.items()}
                self._refused = rule.take(now, lags, full=len(observation.containers) >= self._slots)
            self._count(now, observation, overload_at)
            return result

        scheduler.tick = watched  # type: ignore[method-assign]  # what it answers is looked at
        self._events.after(0.0, self._arrive)
        self._events.run(WARM_SECONDS + seconds)
        return self.counted

    def _count(self, now: float, observation: TickInput, overload_at: float | None) -> None:
        if (
            overload_at is not None
            and now >= overload_at
            and self.counted.ticks_until_refused is None
            and self._refused
        ):
            self.counted.ticks_until_refused = max(round((now - overload_at) / TICK_SECONDS), 1)
        if now < WARM_SECONDS:
            return
        self.counted.ticks += 1
        self.counted.refusing_ticks += bool(self._refused)
        idle = {item.key for item in observation.containers if item.idle_since_seconds is not None}
        self.counted.refusing_beside_idle += bool(idle & self._refused)

    def _arrive(self) -> None:
        now = self._events.now
        action = self._random.randrange(self._actions)
        counts = now >= WARM_SECONDS
        self.counted.published += counts
        if self._pools.keys[action] in self._refused:
            self.counted.refused += counts
        else:
            self._pools.publish(SimulatedMessage(action, now, self._random.expovariate(1 / self._run_seconds)))
        self._events.after(self._random.expovariate(self._rate(now)), self._arrive)


def keeps_up(containers: int, run_seconds: float, seed: int, *, formerly: bool, utilisation: float = CALM) -> Counted:
    """Play a utilisation of so many containers, 80 % if none is given."""
    rate = utilisation * containers / run_seconds
    run = Run(World(nodes=1, slots=containers), 1, run_seconds, lambda _: rate, seed)
    return run.play(min(MOST_MESSAGES / rate, 3600.0), formerly=formerly)


def overloaded(containers: int, run_seconds: float, seed: int, *, formerly: bool) -> Counted:
    """Play 80 %, then 120 %."""
    full = containers / run_seconds
    at = WARM_SECONDS + 10.0
    run = Run(
        World(nodes=1, slots=containers), 1, run_seconds, lambda now: (OVERLOAD if now >= at else CALM) * full, seed
    )
    return run.play(10.0 + max(3000 / full, 10.0), formerly=formerly, overload_at=at)


def many(seed: int, *, formerly: bool) -> Counted:
    """Play 200 actions over 30 slots at a tenth of what these can do."""
    run = Run(World(nodes=3, slots=10), 200, 0.1, lambda _: 0.1 * 30 / 0.1, seed)
    return run.play(500 * TICK_SECONDS, formerly=formerly)


@dataclass(frozen=True, slots=True)
class Found:
    """What one rule did in one case."""

    refused: float
    """Share of the messages that came at 80 % utilisation."""
    ticks: float
    """Until a refusal at 120 %, the median of all seeds."""
    most_ticks: float


@dataclass(frozen=True, slots=True)
class Case:
    """Containers of one action, and how long they run a message."""

    containers: int
    run_seconds: float
    before: Found
    after: Found

    @property
    def promised_ticks(self) -> int:
        """Within so many ticks an overload of 120 % is refused."""
        per_second = self.containers / self.run_seconds
        if per_second >= FAST_PER_SECOND:
            return FEW_TICKS
        idle = (1 - CALM) * self.containers  # these take messages first
        return ceil((EXCESS_MESSAGES + idle) / ((OVERLOAD - 1) * per_second) / TICK_SECONDS) + FEW_TICKS

    def __str__(self) -> str:
        return f"{self.containers} containers, runs of {self.run_seconds * 1000:g} ms"

    def row(self) -> Row:
        """Return it as a row of the table."""
        return {
            "case": str(self),
            "refused at 80 %, before": f"{self.before.refused:.3%}",
            "ticks at 120 %, before": f"{self.before.ticks:g}",
            "most ticks, before": f"{self.before.most_ticks:g}",
            "refused at 80 %, after": f"{self.after.refused:.3%}",
            "ticks at 120 %, after": f"{self.after.ticks:g}",
            "most ticks, after": f"{self.after.most_ticks:g}",
            "promised": f"{self.promised_ticks}",
        }

    def misses(self) -> list[str]:
        """Return the promises that the rule of now does not keep."""
        found = []
        if self.after.refused > MOST_REFUSED:
            found.append(f"{self}: {self.after.refused:.3%} refused at 80 %, promised {MOST_REFUSED:.1%} at most")
        if self.after.ticks > self.promised_ticks:
            found.append(f"{self}: {self.after.ticks:g} ticks at 120 %, promised {self.promised_ticks} at most")
        return found


@dataclass(frozen=True, slots=True)
class Crowd:
    """What one rule did to 200 actions over 30 slots."""

    rule: str
    refused: float
    refusing_ticks: float
    beside_idle: float

    def row(self) -> Row:
        """Return it as a row of the table."""
        return {
            "rule": self.rule,
            "refused": f"{self.refused:.3%}",
            "refusing ticks of 500": self.refusing_ticks,
            "beside an idle container": self.beside_idle,
        }

    def misses(self) -> list[str]:
        """Return the promises that it does not keep."""
        found = []
        if self.refused > MOST_REFUSED:
            found.append(f"200 actions: {self.refused:.3%} refused, promised {MOST_REFUSED:.1%} at most")
        if self.beside_idle:
            found.append(f"200 actions: {self.beside_idle:g} ticks refuse beside an idle container, promised none")
        return found


CASES: Final = (*((10, each) for each in RUN_SECONDS), (50, 0.1), (1, 0.1))


def bounds() -> Report:
    """Return what the best possible rule does in each case."""
    rows: list[Row] = []
    for containers, run_seconds in CASES:
        best = Best(containers / run_seconds, TICK_SECONDS)
        rows.append(
            {
                "case": f"{containers} containers, runs of {run_seconds * 1000:g} ms",
                "messages a second": f"{best.capacity_per_second:,.0f}",
                f"refused at {CALM:.0%} for {FEW_TICKS} ticks": f"{best.refused(CALM, FEW_TICKS):.3%}",
                f"refused at {NEARLY_FULL:.0%} for {FEW_TICKS} ticks": f"{best.refused(NEARLY_FULL, FEW_TICKS):.3%}",
                f"ticks for {MOST_REFUSED:.1%} at {CALM:.0%}": f"{best.ticks(CALM)}",
                f"ticks for {MOST_REFUSED:.1%} at {NEARLY_FULL:.0%}": f"{best.ticks(NEARLY_FULL)}",
            }
        )
    return Report(
        f"the best possible rule, which refuses half of the overloads of {OVERLOAD:.0%} in so many ticks", rows
    )


def measure(containers: int, run_seconds: float, seeds: Sequence[int], *, formerly: bool) -> Found:
    """Play both loads with each seed."""
    calm = [keeps_up(containers, run_seconds, seed, formerly=formerly) for seed in seeds]
    busy = [overloaded(containers, run_seconds, seed, formerly=formerly) for seed in seeds]
    ticks = [inf if run.ticks_until_refused is None else float(run.ticks_until_refused) for run in busy]
    return Found(_share(calm), median(ticks), max(ticks))


def _share(runs: Sequence[Counted]) -> float:
    return sum(run.refused for run in runs) / sum(run.published for run in runs)


def nearly_full(seeds: Sequence[int]) -> Report:
    """Play 95 % utilisation in each case with the rule of now; nothing is promised for it."""
    rows: list[Row] = []
    for containers, run_seconds in CASES:
        runs = [keeps_up(containers, run_seconds, seed, formerly=False, utilisation=NEARLY_FULL) for seed in seeds]
        name = f"{containers} containers, runs of {run_seconds * 1000:g} ms"
        rows.append({"case": name, f"refused at {NEARLY_FULL:.0%}": f"{_share(runs):.3%}"})
        say(", ".join(f"{name}: {value}" for name, value in rows[-1].items()))
    return Report(f"messages refused at {NEARLY_FULL:.0%} utilisation, which is kept up with too", rows)


def cases(seeds: Sequence[int]) -> Iterator[Case]:
    """Yield each case, before and after."""
    for containers, run_seconds in CASES:
        before = measure(containers, run_seconds, seeds, formerly=True)
        case = Case(containers, run_seconds, before, measure(containers, run_seconds, seeds, formerly=False))
        say(", ".join(f"{name}: {value}" for name, value in case.row().items()))
        yield case


def crowd(rule: str, seeds: Sequence[int], *, formerly: bool) -> Crowd:
    """Play 200 actions with each seed."""
    found = [many(seed, formerly=formerly) for seed in seeds]
    return Crowd(
        rule,
        sum(each.refused for each in found) / sum(each.published for each in found),
        median(each.refusing_ticks for each in found),
        max(each.refusing_beside_idle for each in found),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if any row misses a promise."""
    options = parser("who is refused, and how soon, before and after")
    options.add_argument("--seeds", type=int, default=5, help="runs of each case")
    options.add_argument("--bounds", action="store_true", help="print what no rule can do better, and play nothing")
    asked = options.parse_args(arguments)
    if asked.bounds:
        show([bounds()], asked.output)
        return 0
    seeds = range(1, asked.seeds + 1)
    played = list(cases(seeds))
    say("200 actions over 30 slots")
    former, present = crowd("before", seeds, formerly=True), crowd("after", seeds, formerly=False)
    misses = [*(miss for case in played for miss in case.misses()), *present.misses()]
    show(
        [
            Report(
                f"messages refused at 80 % utilisation, ticks until a refusal at 120 % ({asked.seeds} seeds)",
                [case.row() for case in played],
            ),
            Report(
                "200 actions over 30 slots at a tenth of what these can do",
                [former.row(), present.row()],
                [f"MISSED: {miss}" for miss in misses],
            ),
            nearly_full(seeds),
            bounds(),
        ],
        asked.output,
    )
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
