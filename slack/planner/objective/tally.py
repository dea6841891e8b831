"""How many pods have started and how many were late: in all, of the last day, and of late as a guide to what is usual.

Sums fade by the hours that were watched, so that an absence forgets nothing. Whether enough is known to go by what was
learnt follows from them, too.
"""

from collections import deque

from slack.planner.objective.correction import Usual
from slack.planner.objective.patterns import HOUR
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

ENOUGH_HOURS, ENOUGH_PODS = 1.0, 2.0
"""Enough is known after an hour and ENOUGH_PODS / (1 - instantStart) pods, 200 for 0.99; or after a week."""
_A_WEEK_HOURS = 168.0
_FADE_HOURS = 72.0
_AGREE_HOURS = 36.0
"""The half-life of the comparison of late pods with those that were to be expected."""
_AGREED_WINDOWS = 2.0
_FEWEST_LATE = 5.0
"""From so many late pods on it is told why they were late."""


class Tally:
    """Counts of pods, hours and windows of one policy."""

    def __init__(self) -> None:
        self.hours = 0.0
        """Watched in all."""
        self.started = 0.0
        self.late = 0.0
        """Pods, in all."""
        self.faded_hours = 0.0
        self.faded_started = 0.0
        self.faded_crowd = 0.0
        """Of each pod that has started, how many came in its window, itself included."""
        self.faded_windows = 0.0
        self.really_late = 0.0
        """Late pods, faded, and those that would have been by the model: free room, shapes and a scheduler's time are
        no part of it."""
        self.expected_late = 0.0
        self.days: deque[tuple[int, int, int]] = deque()
        """(hour, started, late) of the last 24 hours."""
        self._window_from = 0.0
        self._window_started = 0

    def begin_window(self, at_seconds: float) -> None:
        """What has started since the last window's end was not watched as a whole."""
        self._window_from, self._window_started = at_seconds, 0

    def count(self, turn: Turn, seconds: float) -> None:
        """Take a turn that came so long after the one before."""
        hours = seconds / 3600
        self.hours += hours
        self.started += turn.started
        self.late += turn.late
        fade = 0.5 ** (hours / _FADE_HOURS)
        self.faded_hours = self.faded_hours * fade + hours
        self.faded_started = self.faded_started * fade + turn.started
        self.faded_crowd *= fade
        self.faded_windows *= fade
        fade = 0.5 ** (hours / _AGREE_HOURS)
        self.really_late, self.expected_late = self.really_late * fade + turn.late, self.expected_late * fade
        self._window_started += turn.started
        if turn.at_seconds - self._window_from >= turn.window_seconds:
            self.faded_crowd += self._window_started**2
            self.faded_windows += 1
            self.begin_window(turn.at_seconds)
        self._count_day(turn)

    def _count_day(self, turn: Turn) -> None:
        hour = int(turn.at_seconds // HOUR)
        if self.days and self.days[-1][0] == hour:
            _, started, late = self.days.pop()
            self.days.append((hour, started + turn.started, late + turn.late))
        elif turn.started:
            self.days.append((hour, turn.started, turn.late))
        while self.days and self.days[0][0] <= hour - 24:
            self.days.popleft()
        if self.days and self.days[0][0] > hour:  # of a clock that was ahead
            self.days = deque(day for day in self.days if hour - 24 < day[0] <= hour)

    def add_earlier(self, earlier: "Tally") -> None:
        """Take what was counted before as well, at other times."""
        self.hours += earlier.hours
        self.started += earlier.started
        self.late += earlier.late
        self.faded_hours += earlier.faded_hours
        self.faded_started += earlier.faded_started
        self.faded_crowd += earlier.faded_crowd
        self.faded_windows += earlier.faded_windows
        self.really_late += earlier.really_late
        self.expected_late += earlier.expected_late
        newest = max((hour for hour, _, _ in self.days), default=None)
        first = min((hour for hour, _, _ in self.days), default=None)
        for day in reversed(earlier.days):
            if newest is None or first is None or newest - 24 < day[0] < first:
                self.days.appendleft(day)

    def usual(self) -> Usual:
        """Return how pods come.

        The windows' mean would be that of a window: where most have one pod and most pods come in waves, it says that
        one is usual. A pod's window less the mean of all is the variance over the mean.
        """
        crowd = self.faded_crowd / max(self.faded_started, 1.0)
        mean = self.faded_started / max(self.faded_windows, 1.0)
        return Usual(max(crowd, 1.0), self.faded_started / max(self.faded_hours, 1e-9), max(crowd - mean, 0.0))

    def knows(self, objective: Objective) -> bool:
        """Whether enough has been seen for an objective; until then the largest burst so far is kept."""
        enough = ENOUGH_PODS / max(1 - objective.instant_start, 1e-3)
        return self.hours >= ENOUGH_HOURS and (self.started >= enough or self.hours >= _A_WEEK_HOURS)

    def lacking(self, objective: Objective) -> str:
        """Return what is still to be seen."""
        enough = round(ENOUGH_PODS / max(1 - objective.instant_start, 1e-3))
        seen = f"{self.started:.0f} of {enough} pods seen"
        # no hours that go by: a steady cluster's status is not written
        return seen if self.hours >= ENOUGH_HOURS else f"{seen}, in less than {ENOUGH_HOURS:g} h"

    def late_despite(self) -> float:
        """Return the share of the late pods for which the amount was enough; 0 where few were late."""
        if self.really_late < _FEWEST_LATE:
            return 0.0
        return max(1 - self.expected_late / self.really_late, 0.0)

    def agreement(self, allowed_an_hour: float) -> float:
        """Return how many pods are really late for one that would be by the model.

        At first one for one: as if so many had been seen as two windows have pods, or a day may have late.
        """
        before = min(24 * allowed_an_hour, _AGREED_WINDOWS * self.usual().pods)
        real, expected = self.really_late + before, self.expected_late + before
        return real / expected if real > 0 else 1.0
