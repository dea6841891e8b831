"""How old figures are that somebody reads: what is true and what is shown, each in the order of one clock.

Two measures, for either alone can be deceived. From each change to a figure that has it, or a later one: writes that
are rare make it long. And at each moment, how long ago what is shown was true: figures that come often and are of long
ago make it long, also where counts recur. Values only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from e2e.harness.pod_times import percentile

Counts = tuple[int, int]
"""Placeholders on nodes, and on none."""
STEP_SECONDS = 0.05
"""Between two moments at which somebody looks."""
NEVER = float("inf")


@dataclass(slots=True)
class Seen:
    """What two watches have shown, each with the moment; what was last there stays true, or shown."""

    true: list[tuple[float, Counts]] = field(default_factory=list)
    told: list[tuple[float, Counts]] = field(default_factory=list)

    def now_true(self, at: float, counts: Counts) -> None:
        """Take what is there, where it differs from before."""
        if not self.true or self.true[-1][1] != counts:
            self.true.append((at, counts))

    def change_ages(self, begin: float, end: float) -> list[float]:
        """Seconds from each change between two moments until what is shown has it, or a later one; sorted.

        What was never shown is as old as the record is long from there.
        """
        found = [NEVER] * len(self.true)
        latest: dict[Counts, int] = {}
        shown: Counts | None = None
        settled = known = 0
        last = 0.0
        moments = [(at, 0, counts) for at, counts in self.true] + [(at, 1, counts) for at, counts in self.told]
        for at, is_told, counts in sorted(moments):
            last = at
            if is_told:
                shown = counts
            else:
                latest[counts] = known
                known += 1
            reached = latest.get(shown, -1) + 1 if shown is not None else 0
            for row in range(settled, reached):
                found[row] = at - self.true[row][0]
            settled = max(settled, reached)
        return sorted(
            last - at if age == NEVER else age
            for age, (at, _) in zip(found, self.true, strict=True)
            if begin <= at < end
        )

    def shown_ages(self, begin: float, end: float) -> list[float]:
        """How long ago what is shown was true, at each moment between two; 0 while it is true; sorted."""
        ended: dict[Counts, float] = {}
        ages, moment = list[float](), begin
        true, told = _Reader(self.true), _Reader(self.told)
        while moment < end:
            true.read_until(moment, lambda at, before: ended.__setitem__(before, at))
            told.read_until(moment)
            if true.now is not None and told.now is not None:
                first = self.true[0][0]
                ages.append(0.0 if told.now == true.now else moment - ended.get(told.now, min(first, moment)))
            moment += STEP_SECONDS
        return sorted(ages)


class _Reader:
    """What is the case at moments that go on."""

    def __init__(self, entries: Sequence[tuple[float, Counts]]) -> None:
        self.now: Counts | None = None
        self._entries = entries
        self._next = 0

    def read_until(self, moment: float, over: Callable[[float, Counts], None] = lambda _at, _before: None) -> None:
        while self._next < len(self._entries) and self._entries[self._next][0] <= moment:
            at, counts = self._entries[self._next]
            if self.now is not None:
                over(at, self.now)
            self.now, self._next = counts, self._next + 1


@dataclass(frozen=True, slots=True)
class Promise:
    """Figures are of at most so many seconds ago, beside what the way to the API server and back takes just now."""

    seconds: float
    server_seconds: float
    """p99 from a write to its event in a watch, in the same minutes."""
    hops: int = 3
    """The change to who tells it, what he writes, and that to who reads it."""
    at_most: float = 8.0
    """However slow the machine is: who tells every ten seconds is found out."""

    @property
    def bound_seconds(self) -> float:
        """What 99 of a hundred figures must keep."""
        return min(self.seconds + self.hops * self.server_seconds, self.at_most)

    def kept_by(self, ages: Sequence[float]) -> bool:
        """Whether 99 of a hundred are no older."""
        return percentile(ages, 99) <= self.bound_seconds
