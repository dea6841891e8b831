"""When the next plan is due: every interval, and soon after something relevant has changed, but not without pause."""

import threading
from collections.abc import Callable

DEBOUNCE_SECONDS = 0.2
CALM_SECONDS = 1.0
"""The same while changes come many times a second and hardly ask a plan to act: while way is made for a burst, and as
long as all placeholders are unbound, for a burst displaces none of these."""
CALM_BETWEEN_SECONDS = 2.0
"""From one plan to the next meanwhile. A status is not written more often either, so that no figure is shown later."""
EAGER_SECONDS = 0.02
"""The same while the last turn could not plan for want of something: what comes then is probably that."""
REST = 4.0
"""Between two plans that changes ask for, so many times what the last one computed: at most a fifth of a core."""


class Debouncer:
    """When the next plan is due. Any thread may `touch`."""

    def __init__(self, interval_seconds: float, clock: Callable[[], float]) -> None:
        self.interval_seconds = interval_seconds
        self.lag_seconds = 0.0
        """How long the plan that began last was due by then."""
        self.is_throttled: Callable[[], bool] = lambda: False
        """Whether changes can wait for `CALM_SECONDS`, and plans for `CALM_BETWEEN_SECONDS`."""
        self.lacks_something = False
        """Whether the last turn could not plan, because not everything was seen yet."""
        self._clock = clock
        self._event = threading.Event()
        self._touched: float | None = None
        self._soon = False
        self._not_before = float("-inf")
        self._started = float("-inf")
        self._next = float("-inf")

    def touch(self) -> None:
        """Something relevant changed."""
        if self._touched is None:
            self._touched = self._clock()
            self._event.set()

    def touch_soon(self) -> None:
        """Something changed that does not come many times a second: `is_throttled` does not hold for it."""
        self._soon = True
        self.touch()
        self._event.set()

    def flush(self) -> None:
        """Something relevant changed, and those that were to wait have waited long enough."""
        self.touch()
        self._event.set()

    def due_in(self) -> float:
        """Seconds until the next plan."""
        due = self._next
        if self._touched is not None:
            due = min(due, max(self._due_for(self._touched), self._not_before))
        return max(0.0, due - self._clock())

    def _due_for(self, touched: float) -> float:
        """Return when a change is planned for, whatever the last plan has cost."""
        if self.lacks_something:
            return touched + EAGER_SECONDS
        if self.is_throttled() and not self._soon:
            return max(touched + CALM_SECONDS, self._started + CALM_BETWEEN_SECONDS)
        return touched + DEBOUNCE_SECONDS

    def plan_started(self) -> None:
        """A plan begins; what is touched from here on is for the next one."""
        now = self._clock()
        since = [now if self._next == float("-inf") else self._next]
        if self._touched is not None:
            since.append(self._touched)
        self._touched, self._soon = None, False
        self._event.clear()
        self._started, self._next = now, now + self.interval_seconds
        self.lag_seconds = max(0.0, now - min(since))

    def ended(self, busy_seconds: float, duration: float) -> None:
        """A plan has ended; the next one is put off by as much as this one cost.

        Args:
            busy_seconds: of a core; the rest was waiting for the API server.
            duration: from its beginning to its end.
        """
        self._not_before = self._clock() + max(REST * busy_seconds, duration)

    def wait(self, seconds: float) -> None:
        """Sleep, or until somebody touches."""
        if self._event.wait(seconds):
            self._event.clear()
