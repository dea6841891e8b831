"""Ways to divide time: none, by hour of the day or week, by minute of the hour or day, and the latest hours.

All are of UTC. A load that follows another zone's clock moves by an hour twice a year: the decay unlearns the old hour
within days, and what is late meanwhile raises the correction; a zone is one more field that somebody would get wrong.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MINUTE, HOUR, DAY, WEEK = 60.0, 3600.0, 86400.0, 604800.0
_MONDAY = 4 * DAY
"""1 January 1970 was a Thursday."""
_FINEST_SECONDS = MINUTE / 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """One division of time into rows that come again and again."""

    name: str
    period_seconds: float
    row_seconds: float
    half_life_hours: float
    """Of one row, in hours that were watched within it: old weeks fade, an absence fades nothing."""
    prior_hours: float
    """So many hours of the whole stand beside what a row has seen itself: little was seen there at first."""
    coarser: str | None = None
    """The pattern whose rows stand there in place of the whole: a minute of the day is first as of each hour."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return round(self.period_seconds / self.row_seconds)

    def row(self, at_seconds: float) -> int:
        """Return the row that a time is in."""
        within: float = (at_seconds + WEEK - _MONDAY) % self.period_seconds
        return min(int(within // self.row_seconds), self.rows - 1)


PATTERNS = (
    Pattern("none", WEEK, WEEK, half_life_hours=72.0, prior_hours=0.0),
    Pattern("latest hours", WEEK, WEEK, half_life_hours=1.5, prior_hours=0.25),
    Pattern("hour of day", DAY, HOUR, half_life_hours=7.0, prior_hours=0.25),
    Pattern("hour of week", WEEK, HOUR, half_life_hours=3.0, prior_hours=0.25, coarser="hour of day"),
    Pattern("minute of hour", HOUR, MINUTE, half_life_hours=0.8, prior_hours=0.05),
    Pattern("minute of day", DAY, 5 * MINUTE, half_life_hours=0.6, prior_hours=0.05, coarser="minute of hour"),
)
"""The plainest first; another is used only where it is better by more than chance."""
FIRST_ROW = np.cumsum([0, *(pattern.rows for pattern in PATTERNS)])
"""[patterns + 1] where each pattern's rows begin in the table of all."""
ROWS = int(FIRST_ROW[-1])
HALF_LIVES = np.repeat([p.half_life_hours for p in PATTERNS], [p.rows for p in PATTERNS])
PRIORS = np.repeat([p.prior_hours for p in PATTERNS], [p.rows for p in PATTERNS])
SEEN_HOURS = np.repeat(
    [p.row_seconds / HOUR / 2 if p.period_seconds > p.row_seconds else 0.0 for p in PATTERNS],
    [p.rows for p in PATTERNS],
)
"""[rows] a row was seen once it was watched for so many hours, half of what it lasts."""


def _coarser_rows() -> npt.NDArray[np.int64]:
    """[rows, N] the rows that stand beside each, as often as it takes to be equally many."""
    most = max(round(p.row_seconds / MINUTE) for p in PATTERNS if p.coarser == "minute of hour")
    found = np.zeros((ROWS, most), dtype=np.int64)
    names = [p.name for p in PATTERNS]
    for i, pattern in enumerate(PATTERNS):
        if pattern.coarser is not None:
            j = names.index(pattern.coarser)
            of = PATTERNS[j]
            times = (np.arange(pattern.rows)[:, None] + (np.arange(most) + 0.5) / most) * pattern.row_seconds
            rows = FIRST_ROW[j] + (times % of.period_seconds // of.row_seconds).astype(np.int64)
            found[FIRST_ROW[i] : FIRST_ROW[i + 1]] = rows
    return found


COARSER = _coarser_rows()


def rows_at(at_seconds: float) -> npt.NDArray[np.int64]:
    """[patterns] the row of each pattern that a time is in, in the table of all."""
    return np.array([int(FIRST_ROW[i]) + p.row(at_seconds) for i, p in enumerate(PATTERNS)], dtype=np.int64)


def rows_between(first_seconds: float, last_seconds: float) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each pattern in which a stretch of time lies, at most 16 of each; none that it just touches.

    What comes at the full minute is not of that minute: room for it is of use before, and bought again after.
    """
    steps = max(min(math.ceil((last_seconds - first_seconds) / _FINEST_SECONDS), 16), 1)
    cell = (last_seconds - first_seconds) / steps
    times = [first_seconds + (i + 0.5) * cell for i in range(steps)]
    return [np.array(sorted({int(FIRST_ROW[i]) + p.row(t) for t in times})) for i, p in enumerate(PATTERNS)]
