"""What is done every so many seconds, and may rest while it would find nothing to do.

A rest ends with a change of the cluster (`wake`) or at the time that was given; then it goes on at the very moments,
and in the very order among other things, in which it would be without the rest: idle days cost nothing, and a result is
the same with rests or without.
"""

import math
from collections.abc import Callable

from slack.simulator.model.clock import AFTER, BEFORE, Clock


class PeriodicTimer:
    """Calls `action` with its moment; that calls `follow` or `rest`. `passed` hears of the moments of a rest."""

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        action: Callable[[float], None],
        passed: Callable[[float], None],
        *,
        first: bool,
    ) -> None:
        self._clock = clock
        self.seconds = seconds
        self._action = action
        self._passed = passed
        self._place = BEFORE if first else AFTER
        self.last = -math.inf
        """The last moment, of a rest or not."""
        self._due = math.inf
        self._resting = False

    def begin(self) -> None:
        """Act now."""
        self.last = self._clock.now
        self._action(self.last)

    def follow(self, seconds: float) -> None:
        """Act at a time, unless that will be done before."""
        self.wake()
        if seconds < self._due:
            self._due = seconds
            self._clock.at(seconds, self._act, seconds)

    def rest(self, until: float) -> None:
        """After an action: nothing but a change makes the next moments before a time do anything."""
        self._resting, self._due = True, math.inf
        if until > self._clock.end:
            return
        before, moment = self.last, self.last + self.seconds
        while moment < until:
            before, moment = moment, moment + self.seconds
        self._go_on(before, moment)

    def wake(self) -> None:
        """Something has changed: the next moment of a rest is the next one there is."""
        if self._resting:
            self._resting = False
            self._catch_up(self._clock.now)
            moment = self.last + self.seconds
            if moment < self._due:
                self._go_on(self.last, moment)

    def _go_on(self, before: float, moment: float) -> None:
        self._due = moment
        self._clock.as_asked(moment, before, self._place, self._act, moment)

    def _act(self, moment: float) -> None:
        if moment != self._due:
            return
        if self._resting:
            self._resting = False
            self._catch_up(moment)
        self.last, self._due = moment, math.inf
        self._action(moment)

    def _catch_up(self, now: float) -> None:
        """Pass over the moments that lie before what happens now."""
        moment = self.last + self.seconds
        while moment < now or (moment == now and self._was_before()):
            self.last = moment
            self._passed(moment)
            moment += self.seconds

    def _was_before(self) -> bool:
        """Whether a moment that is now would have come before what happens now."""
        if self._due == self._clock.now:
            return False  # it is what happens now, or is still to come
        asked_at = self._clock.asked_at
        return self.last < asked_at or (self.last == asked_at and self._place == BEFORE)
