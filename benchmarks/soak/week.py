"""A week of churn in accelerated time: what a companion keeps must not grow, and what is gone must be forgotten.

A companion's module gives a `Week`. Objects of it come and go in each turn, as many as before; at the end all go. Two
rules are checked, both of which can fail:

- What is kept on the last day is at most a tenth (and ten) more than on the second day.
- When all objects are gone, each map and each metric family is as small as before the first object came.
"""

import gc
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from benchmarks.soak.sizes import SEQUENCE

DAY_SECONDS: Final = 86_400
HOUR_SECONDS: Final = 3_600
MOST_GROWTH: Final = 1.1
FEW: Final = 10
"""So many more are no growth, and so many may stay: words of a label that were never used before, and the like."""
OBJECTS: Final = "objects of Python, in hundreds"


class Week(Protocol):
    """One companion, with surroundings that change all the time. Its time is what it is told."""

    @property
    def turn_seconds(self) -> float:
        """How much time a turn takes."""
        ...

    def turn(self, now_seconds: float) -> None:
        """Let objects come and go, and let the companion do all that it does in that time."""
        ...

    def clear(self, now_seconds: float) -> None:
        """Let all objects go; turns that follow bring no new ones."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Return how much is kept: maps and sequences (`benchmarks.soak.sizes`), series of metrics, bytes of files."""
        ...

    def close(self) -> None:
        """End what was begun."""
        ...


@dataclass(slots=True)
class Kept:
    """The size of one thing over a week."""

    empty: int = 0
    """Before the first object came."""
    second_day: int = 0
    """The highest."""
    last_day: int = 0
    """The highest."""
    cleared: int = 0
    """When all objects were gone."""

    @property
    def grows(self) -> bool:
        """Whether more is kept on the last day than on the second."""
        return self.last_day > self.second_day * MOST_GROWTH + FEW


@dataclass(slots=True)
class Found:
    """What a week came to."""

    name: str
    days: int
    turns: int = 0
    seconds: float = 0.0
    """That the run took."""
    kept: dict[str, Kept] = field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """Say what grows, and what keeps things that are gone."""
        found = []
        for name, sizes in sorted(self.kept.items()):
            if sizes.grows:
                found.append(f"{self.name}: {name} grows: {sizes.second_day:,} on day 2, {sizes.last_day:,} at the end")
            bounded = name.endswith(SEQUENCE) or name.startswith("file ")
            if not bounded and sizes.cleared > sizes.empty + FEW:
                found.append(
                    f"{self.name}: {name} keeps what is gone: {sizes.cleared:,} when all is gone, "
                    f"{sizes.empty:,} before the first"
                )
        return found

    def __str__(self) -> str:
        head = f"{self.name}: {self.days} days, {self.turns:,} turns in {self.seconds:.0f} s"
        rows = [f"{'kept':<58}{'empty':>9}{'day 2':>9}{'last day':>9}{'cleared':>9}"]
        rows += [
            f"{name[:57]:<58}{size.empty:>9,}{size.second_day:>9,}{size.last_day:>9,}{size.cleared:>9,}"
            for name, size in sorted(self.kept.items())
            if any((size.empty, size.second_day, size.last_day, size.cleared))
        ]
        return "\n".join([head, *rows])


def run(name: str, week: Week, days: int = 7) -> Found:
    """Run one companion's week.

    Args:
        name: the companion's.
        week: not begun yet.
        days: at least three, so that the second and the last are two.
    """
    found, began = Found(name, days), time.monotonic()
    for key, size in _sizes(week).items():
        found.kept.setdefault(key, Kept()).empty = size
    now, end, sampled = 0.0, float(days * DAY_SECONDS), 0.0
    while now < end:
        now += week.turn_seconds
        week.turn(now)
        found.turns += 1
        if now - sampled >= HOUR_SECONDS:
            sampled = now
            _sample(found, week, now, end)
            if now % DAY_SECONDS < HOUR_SECONDS:
                print(f"{name}: day {now / DAY_SECONDS:.0f} of {days}", file=sys.stderr, flush=True)
    week.clear(now)
    while now < end + 2 * HOUR_SECONDS:
        now += week.turn_seconds
        week.turn(now)
        found.turns += 1
    for key, size in _sizes(week).items():
        found.kept.setdefault(key, Kept()).cleared = size
    week.close()
    found.seconds = time.monotonic() - began
    return found


def _sample(found: Found, week: Week, now: float, end: float) -> None:
    second, last = DAY_SECONDS < now <= 2 * DAY_SECONDS, now > end - DAY_SECONDS
    if not second and not last:
        return
    for key, size in _sizes(week).items():
        kept = found.kept.setdefault(key, Kept())
        if second:
            kept.second_day = max(kept.second_day, size)
        if last:
            kept.last_day = max(kept.last_day, size)


def _sizes(week: Week) -> dict[str, int]:
    sizes = dict(week.sizes())
    gc.collect()
    # A part that no root leads to shows here; it is compared by day only, and never against an empty process.
    sizes[OBJECTS + SEQUENCE] = len(gc.get_objects()) // 100
    return sizes
