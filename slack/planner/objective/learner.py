"""One policy's objective: what comes within the lead time is learnt, and corrected by what was late.

    learner = Learner()
    amount = learner.amount(now, objective)     # before a plan
    learner.observe(Turn(...))                  # after it

Mutable, owned by who turns the loop; every time is an argument. What it holds is bounded whatever comes: tables of one
size, and at most 200 shapes. Gaps (the operator was away, a clock jumped) are not learnt from: quiet that nobody has
watched is none.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.objective.amount import RESOURCES, Amount, Requests, SizingReason
from slack.planner.objective.contest import PatternSelector
from slack.planner.objective.correction import FARTHEST, Correction
from slack.planner.objective.mix import Mix
from slack.planner.objective.needs import FloatArray, Needs
from slack.planner.objective.past import Past
from slack.planner.objective.patterns import PATTERNS, SEEN_HOURS, rows_at, rows_between
from slack.planner.objective.prices import Prices, price
from slack.planner.objective.tally import Tally
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

LONGEST_TURN_SECONDS = 120.0
"""Turns that are farther apart have a gap between them."""
HOLD_SECONDS = 600.0
"""So long a node stays that is no longer needed: the Cluster Autoscaler's --scale-down-unneeded-time."""
_CHOSEN_SECONDS = 30.0
"""The amounts are worked out anew so often."""
_EARLY_SECONDS = 30.0
"""So much before the window room is asked for: a loop's interval, and a node that is later than most."""
_PEAK_HALF_LIFE_HOURS = 168.0
_BEYOND = FARTHEST - 0.5
"""From this debt on more room is kept than was ever needed, as much again for each 1."""
_TIMES_SEEN, _LEAST_BOUND = 100.0, np.array([1e6, 4.0 * 2**40])
"""[R] Of what was read no more counts than so many times what real pods have requested since then, or so much: whoever
may write a SlackHistory may write anything. A cluster that has shrunk to a hundredth has its past still."""
_HOLD_SHARE = 0.85
"""Another amount is asked for only once it is smaller or larger by so much: sizes that tremble move placeholders."""
_HIGH = 0.98
"""From this objective on the rate holds as well until enough is known: bursts that are larger than all before, of which
there are many at first, are more than so few pods as may be late."""
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """What each pattern would keep at a time."""

    at_seconds: float
    objective: Objective
    pod: FloatArray
    """[R] what a pod that comes requests on average."""
    prices: FloatArray
    """[patterns] of a late pod, in hours for which the room of one pod is kept."""
    rooms: FloatArray
    """[patterns + 1, R] the last is kept: with the pattern that is used, and by what was really late."""
    way: FloatArray
    """[3] the two prices between which the last was chosen, and how far to go from the first to the second."""
    late: float
    """Pods an hour that will need more than that."""
    coming: float
    """Pods an hour that need any room."""
    mix: tuple[tuple[Requests, float], ...]


class Learner:
    """What was learnt of one policy."""

    def __init__(self) -> None:
        self.needs = Needs()
        self.mix = Mix()
        self.contest = PatternSelector()
        self.correction = Correction()
        self.modelled = [Correction() for _ in PATTERNS]
        """What each pattern would owe by now, had it been used: each is judged while it reaches the objective."""
        self.tally = Tally()
        self.most_seen = np.zeros(len(RESOURCES))
        """[R] the most that real pods have requested, faded."""
        self._seen_here = np.zeros(len(RESOURCES))
        """[R] the same as this learner itself has watched it; not kept, and not faded."""
        self.prices = Prices()
        self._past = Past()
        self._last: Turn | None = None
        self._rows = np.full(len(PATTERNS), -1)
        self._knew = np.ones(len(PATTERNS), dtype=bool)
        """[patterns] whether the row that it is in was seen before."""
        self._held = np.zeros(len(RESOURCES))
        self._kept: _Chosen | None = None

    def interrupted(self) -> None:
        """What is there at the next turn has not come since the last: nodes have changed hands, say."""
        self._last = None

    # -- what happens ------------------------------------------------------------------------------------------------

    def observe(self, turn: Turn, objective: Objective) -> None:
        """Take one turn of the loop."""
        last, self._last = self._last, turn
        self._seen_here = np.maximum(self._seen_here, np.array(turn.requested, dtype=np.float64))
        seconds = turn.at_seconds - last.at_seconds if last is not None else -1.0
        if last is None or not 0 <= seconds <= LONGEST_TURN_SECONDS:
            self._past.clear()
            self.tally.begin_window(turn.at_seconds)
            return
        self.tally.count(turn, seconds)
        self.mix.came(turn.arrived, turn.at_seconds)
        if turn.started:
            self.correction.happened(turn.started, turn.late, objective.instant_start, self.tally.usual())
        rows = rows_at(turn.at_seconds)
        self._enter(rows)
        self.needs.watched(rows, seconds)
        before, after = np.array(last.requested, dtype=np.float64), np.array(turn.requested, dtype=np.float64)
        self.most_seen = np.maximum(self.most_seen * 0.5 ** (seconds / 3600 / _PEAK_HALF_LIFE_HOURS), after)
        chosen = self._chosen(turn.at_seconds, objective)
        known = self._past.most(turn.at_seconds - turn.window_seconds)
        if known is not None:
            late = self._served(turn, last, before, after, known)
            self._judge(seconds, chosen, late[:-1])
            self.tally.expected_late += float(late[-1])
            if (after > before).any():
                pods = max(turn.pods - last.pods, 1)
                for modelled, missed, knew in zip(self.modelled, late[:-1].tolist(), self._knew, strict=True):
                    if knew:
                        modelled.happened(pods, missed, objective.instant_start, self.tally.usual())
        self._past.add_amounts(turn.at_seconds, after, chosen.rooms, turn.window_seconds + HOLD_SECONDS)
        self.prices.solve(turn.at_seconds, self.needs, chosen.pod)

    def _enter(self, rows: IntArray) -> None:
        """Note of the rows that begin now whether they were seen before; what never ends is known by itself."""
        self._knew = np.where(rows == self._rows, self._knew, (self.needs.hours[rows] >= SEEN_HOURS[rows]))
        self._rows = rows

    def _chosen(self, at_seconds: float, objective: Objective) -> "_Chosen":
        """Return what each pattern would keep; worked out anew every half minute, and when the objective changes."""
        kept = self._kept
        turn = at_seconds // _CHOSEN_SECONDS  # with the minute, or the row of a minute would come late
        if kept is None or kept.objective != objective or turn != kept.at_seconds // _CHOSEN_SECONDS:
            pod, rows, best = self._pod(), rows_at(at_seconds), self.contest.best
            owed = [*self.modelled, self.correction]
            patterns = np.append(np.arange(len(PATTERNS)), best)
            if self.tally.knows(objective):
                self.prices.solve_all(self.needs, pod)  # of what was loaded nothing has been worked out as yet
            allowed = (1 - objective.instant_start) * self.tally.usual().pods_an_hour
            may = allowed * np.array([each.allowed for each in owed])
            may[-1] /= self.tally.agreement(allowed)
            places = self.prices.places(patterns, may, np.array([each.applied for each in owed]))
            low, rows = np.floor(places), rows[patterns]
            rooms, lates = self.needs.room(rows, np.array([price(low), price(low + 1), places - low]), pod)
            if not self.tally.knows(objective):
                rooms[-1], lates[-1] = self.needs.largest_so_far(), 0.0
            coming = float(self.needs.rates(rows[-1:]).sum(axis=2).max())
            mix = self.mix.at(at_seconds)
            late = float(lates[-1].max())
            way = np.array([*price(low[-1:]), *price(low[-1:] + 1), places[-1] - low[-1]])
            kept = _Chosen(at_seconds, objective, pod, price(places[:-1]), rooms, way, late, coming, mix)
            self._kept = kept
        return kept

    def _served(
        self, turn: Turn, last: Turn, before: FloatArray, after: FloatArray, known: tuple[FloatArray, FloatArray]
    ) -> FloatArray:
        """Learn what came, and return how many pods would have been late with each pattern, and with what was kept."""
        requested, asked = known
        grown = after - before
        if not (grown > 0).any():
            return np.zeros(len(PATTERNS) + 1)
        pods = max(turn.pods - last.pods, 1)
        came = (last.at_seconds + turn.at_seconds) / 2
        touched = rows_between(came - turn.window_seconds - _EARLY_SECONDS, came)
        self.needs.came(touched, before - requested, after - requested, pods)
        beyond = np.clip((after - np.maximum(asked, before)) / np.maximum(grown, 1e-9), 0.0, 1.0)
        late: FloatArray = pods * np.where(grown > 0, beyond, 0.0).max(axis=1)
        return late

    def _judge(self, seconds: float, chosen: "_Chosen", late: FloatArray) -> None:
        assert self._last is not None
        kept = self._past.most(self._last.at_seconds)
        if kept is None or not chosen.pod.any():
            return
        requested, asked = kept
        room = ((asked[:-1] - requested) / np.maximum(chosen.pod, 1e-9)).mean(axis=1) * seconds / 3600
        self.contest.judged(room + chosen.prices[self.contest.best] * late, seconds, self._knew)

    # -- what follows ------------------------------------------------------------------------------------------------

    def amount(self, at_seconds: float, objective: Objective, keep_seconds: float = 0.0) -> Amount:
        """Return the extra capacity that is wanted now: until enough is known, room for the largest burst so far.

        Args:
            at_seconds: Unix time.
            objective: of the policy.
            keep_seconds: what is wanted again within this time is kept, where it is there (`Amount.soon`).
        """
        known, best, chosen = self.tally.knows(objective), self.contest.best, self._chosen(at_seconds, objective)
        room, bounded = self._bounded(chosen.rooms[-1], objective)
        trembles = (room > _HOLD_SHARE * self._held) & (room < self._held / _HOLD_SHARE)
        held = np.where(trembles, self._held, room)
        cost = _cost(held, objective)
        self._held = held
        soon = held
        if keep_seconds > 0:
            later = self._most_until(at_seconds, keep_seconds, chosen) if known else chosen.rooms[-1]
            soon = np.maximum(held, self._bounded(later, objective)[0])
        coming, late = chosen.coming, chosen.late
        why = SizingReason(
            objective=objective.instant_start,
            known=True,
            lacking=None if known else self.tally.lacking(objective),
            quantile=max(1 - late / coming, 0.0) if coming > 0 else 1.0,
            window_seconds=self._last.window_seconds if self._last is not None else 0.0,
            pattern=PATTERNS[best].name,
            late_today=sum(late for _, _, late in self.tally.days),
            started_today=sum(started for _, started, _ in self.tally.days),
            late_despite=self.tally.late_despite(),
            correction=self.correction.value,
            hours_seen=self.tally.hours,
            price_per_hour=cost,
            bounded_by=bounded,
        )
        later = (int(np.ceil(soon[0])), int(np.ceil(soon[1])))
        both = not known and objective.instant_start >= _HIGH
        return Amount(int(np.ceil(held[0])), int(np.ceil(held[1])), why, chosen.mix, later, at_least_rate=both)

    def _bounded(self, room: FloatArray, objective: Objective) -> tuple[FloatArray, str | None]:
        """Return what is kept of a room that was chosen, and what has cut it."""
        bounded = None
        room = room * (1 + max(self.correction.applied - _BEYOND, 0.0))
        most_seen = np.minimum(self.most_seen, np.maximum(_TIMES_SEEN * self._seen_here, _LEAST_BOUND))
        if (room > most_seen).any():
            room, bounded = np.minimum(room, most_seen), "most seen"
        cost, most = _cost(room, objective), objective.max_cost_per_hour
        if most is not None and cost is not None and cost > most:
            room, bounded = room * (most / cost), "maxCostPerHour"
        return room, bounded

    def _most_until(self, at_seconds: float, keep_seconds: float, chosen: "_Chosen") -> FloatArray:
        """[R] the most that the pattern that is used asks for within this time, at the price of now."""
        rows = rows_between(at_seconds, at_seconds + keep_seconds)[self.contest.best]
        rooms, _ = self.needs.room(rows, np.repeat(chosen.way[:, None], len(rows), axis=1), chosen.pod)
        most: FloatArray = rooms.max(axis=0)
        return most

    def _pod(self) -> FloatArray:
        return np.array(self.mix.pod(), dtype=np.float64)


def _cost(room: FloatArray, objective: Objective) -> float | None:
    """Return what an amount costs an hour, None without prices."""
    prices = objective.prices
    if not prices:
        return None
    return float(room[0] / 1000 * prices.get("cpu", 0.0) + room[1] / _GIB * prices.get("memory", 0.0))
