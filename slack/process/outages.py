"""What goes on being wrong is told once, not with every try."""

import time
from collections.abc import Callable

REPEAT_SECONDS = 3600.0
"""A cause that goes on is told again after so long."""


class Outages:
    """Lets each cause be told when it begins, and once an hour while it goes on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}

    def is_new(self, cause: str) -> bool:
        """Whether to say it now."""
        now = self._clock()
        self._told = {known: at for known, at in self._told.items() if now - at < REPEAT_SECONDS}
        if cause in self._told:
            return False
        if len(self._told) >= 100:  # causes with ever new words in them
            return False
        self._told[cause] = now
        return True

    def end(self) -> bool:
        """Forget all; returns whether there was any."""
        had, self._told = bool(self._told), {}
        return had
