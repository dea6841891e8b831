"""What ActivationPools announce, as their watch shows it: read once a change, kept as values.

Fed by its reflector, read by the loop, both under the view's lock. A pool's status is written every few seconds, mostly
to say that nothing is new; only what a plan follows from wakes the loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock

from slack.cluster import wire
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType
from slack.planner.model.pool import Pool, read_pool

MOST = 20_000
"""Pools that are kept; any tenant that may make one can make thousands."""


class Pools:
    """Every pool that announces something."""

    def __init__(self, lock: RLock, on_change: Callable[[], None]) -> None:
        self._lock = lock
        self._on_change = on_change
        self._known: dict[tuple[str, str], Pool] = {}
        """By namespace and name."""
        self._listed: set[tuple[str, str]] = set()

    def all(self) -> tuple[Pool, ...]:
        """Return what is known; under the lock."""
        return tuple(self._known.values())

    def namespaces(self) -> set[str]:
        """Return where there are pools; under the lock."""
        return {namespace for namespace, _ in self._known}

    def begin(self) -> None:
        """A new list begins."""
        self._listed = set()

    def apply(self, events: Sequence[tuple[EventType, wire.ActivationPoolObject]]) -> None:
        """Some events, in order."""
        news = False
        with self._lock:
            for event, item in events:
                key = item.metadata.namespace or "", item.metadata.name
                pool = None if event is EventType.DELETED else read_pool(item)
                before = self._known.get(key)
                if pool is None:
                    news |= self._known.pop(key, None) is not None
                    continue
                self._listed.add(key)
                if before is None and len(self._known) >= MOST:
                    continue
                self._known[key] = pool
                news |= before is None or _lasting(before) != _lasting(pool)
        if news:
            self._on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has a pool that cannot be read."""
        self._listed.add((who.namespace, who.name))

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            gone = self._known.keys() - self._listed
            for key in gone:
                del self._known[key]
        if gone:
            self._on_change()


def _lasting(pool: Pool) -> Pool:
    """Return a pool without the time at which its demand was observed."""
    return replace(pool, observed_at_seconds=None)
