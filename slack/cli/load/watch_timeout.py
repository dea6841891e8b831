"""Whether an API server has gone: a watch of it that fails again and again, and brings nothing in between."""

from typing import Protocol

SILENT_SECONDS = 30.0
"""After so long what was seen last is no longer taken for what is."""
_TRIES = 4
"""One that fails seldom may be a proxy's, which cuts what is quiet; what is quiet after it has come back."""


class _Counters(Protocol):
    @property
    def errors(self) -> int: ...


class _Watch(Protocol):
    @property
    def counters(self) -> _Counters: ...
    @property
    def last_error(self) -> str | None: ...
    def last_heard_age(self, now: float) -> float: ...


class WatchTimeout:
    """Of one watch; ask it about once a second."""

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch
        self._age_seconds = 0.0
        self._errors_before = self._errors = watch.counters.errors

    def ends(self, now: float) -> str | None:
        """Return why the watch is given up; None while it may come back.

        Args:
            now: monotonic seconds.
        """
        age, errors = self._watch.last_heard_age(now), self._watch.counters.errors
        if age < self._age_seconds:  # something came since
            self._errors_before = self._errors
        failed_anew = errors > self._errors
        self._age_seconds, self._errors = age, errors
        if failed_anew and age >= SILENT_SECONDS and errors - self._errors_before >= _TRIES:
            return f"nothing is heard for {age:.0f} s: {self._watch.last_error}"
        return None
