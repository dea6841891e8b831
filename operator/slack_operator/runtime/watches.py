"""The reflectors of one process: started and stopped together, and whether what they show is whole and fresh.

Acting on half a view does the wrong thing, so one required watch that is not synced, or has heard nothing for 200 s, is
enough to do nothing. Owned by the main thread; `stale` and `restarts` may be asked from any.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slack.kube.reflector import Reflector
from slack.supervision.supervisor import first_problem

log = logging.getLogger(__name__)

STALE_SECONDS = 200.0
"""A quiet watch gets a bookmark every two minutes at the latest."""


class Watches:
    """All reflectors of one process."""

    def __init__(
        self,
        required: Sequence[Reflector[Any]],
        helpful: Sequence[Reflector[Any]] = (),
        *,
        unless_forbidden: Sequence[Reflector[Any]] = (),
        clock: Callable[[], float] = time.monotonic,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        """Reflectors that are not started yet.

        Args:
            required: without which nothing may be done.
            helpful: which are missed by nobody while they fail.
            unless_forbidden: which are required too, unless the API server refuses them for lack of rights, or does not
                know a kind that may be absent.
            clock: monotonic seconds.
            stale_seconds: after how long a silence a required watch counts as dead.
        """
        self._required = tuple(required)
        self._unless_forbidden = tuple(unless_forbidden)
        self._all = (*required, *unless_forbidden, *helpful)
        self._done_without: frozenset[str] = frozenset()
        self._clock = clock
        self._stale_seconds = stale_seconds

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self._all:
            reflector.start()

    def stop(self) -> None:
        """End all streams, then all threads."""
        for reflector in self._all:
            reflector.stop(timeout=0.0)
        for reflector in self._all:
            reflector.stop(timeout=2.0)

    def unhealthy(self) -> str | None:
        """Return which reflector's thread is dead or stuck; None if all work, or none was started."""
        return first_problem(*self._all)

    def stale(self) -> str | None:
        """Say which required watch is not whole or not fresh; None when all are."""
        now = self._clock()
        refused = {reflector.path: reflector.last_error for reflector in self._unless_forbidden if reflector.forbidden}
        told, self._done_without = self._done_without, frozenset(refused)
        for path in sorted(refused.keys() - told):
            log.warning("%s may not be watched, and is done without: %s", path, refused[path])
        for reflector in (*self._required, *self._unless_forbidden):
            if reflector.path in refused or reflector.absent:
                continue
            why = f": {reflector.last_error}" if reflector.last_error else ""
            if not reflector.synced:
                return f"{reflector.path} is not listed yet{why}"
            if reflector.last_heard_age(now) > self._stale_seconds:
                return f"{reflector.path} has been silent for more than {self._stale_seconds:.0f} s{why}"
        return None

    def forbidden(self) -> bool:
        """Whether the API server has refused a required watch for lack of rights, which no waiting mends."""
        return any(reflector.forbidden for reflector in self._required)

    def unreadable(self) -> Mapping[str, Iterable[str]]:
        """Return the names of objects that are there and cannot be read, by path."""
        return {reflector.path: reflector.unreadable.names for reflector in self._all}

    def restarts(self) -> Mapping[str, int]:
        """How often each watch was opened anew, by its path."""
        counts: dict[str, int] = {}
        for reflector in self._all:
            streams = reflector.counters.watches + reflector.counters.watchlists + reflector.counters.lists
            counts[reflector.path] = counts.get(reflector.path, 0) + max(0, streams - 1)
        return counts
