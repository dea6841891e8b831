"""Who is pending, in order: by the time of becoming pending, then by arrival of the pod and by declaration.

Taking out and putting in is O(log n) of those that wait, whatever else runs on the node. A namespace that has its share
is parked: it is passed over without a look at those of it that wait. With `by_priority` pods of a higher priority are
first. Places are counted when asked for, once after a change.
"""

from collections import Counter
from heapq import heapify, heappop, heappush
from typing import NamedTuple

_SPARE = 64
"""Dead entries that a heap may hold beside as many as are alive."""


class Key(NamedTuple):
    """A container of a pod."""

    pod: str
    """Its pod's uid."""
    container: str


class Place(NamedTuple):
    """What the queue is ordered by."""

    rank: int
    since: float
    arrival: int
    declared: int
    key: Key


class PendingQueue:
    """The pending containers of one node. Owned by `NodeThrottle`."""

    def __init__(self, *, by_priority: bool = False) -> None:
        self._by_priority = by_priority
        self._places: dict[Key, Place] = {}
        self._namespaces: dict[Key, str] = {}
        self._priorities: dict[Key, int] = {}
        self._all: list[Place] = []
        self._of: dict[str, list[Place]] = {}
        self._waiting: Counter[str] = Counter()
        """How many of each namespace, for its heap holds the dead too."""
        self._heads: list[tuple[Place, str]] = []
        self._parked: set[str] = set()
        self._positions: dict[Key, int] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def add_container(
        self, key: Key, namespace: str, since: float, *, arrival: int, declared: int, priority: int = 0
    ) -> None:
        """Put a container in; it is not there yet."""
        place = Place(-priority if self._by_priority else 0, since, arrival, declared, key)
        self._priorities[key] = priority
        self._put(place, namespace)

    def order(self, *, by_priority: bool) -> None:
        """Order those that wait by their priority first, or no longer."""
        if by_priority == self._by_priority:
            return
        self._by_priority = by_priority
        for place in tuple(self._places.values()):
            key, namespace, priority = place.key, self._namespaces[place.key], self._priorities[place.key]
            self.remove(key)
            self.add_container(
                key, namespace, place.since, arrival=place.arrival, declared=place.declared, priority=priority
            )

    def _put(self, place: Place, namespace: str) -> None:
        key = place.key
        self._places[key] = place
        self._namespaces[key] = namespace
        self._positions = None
        heappush(self._all, place)
        own = self._of.setdefault(namespace, [])
        heappush(own, place)
        self._waiting[namespace] += 1
        if len(own) > 2 * self._waiting[namespace] + _SPARE:
            own[:] = [each for each in own if self._alive(each)]
            heapify(own)
        if own[0] is place:
            self._offer(namespace)
        if len(self._all) > 2 * len(self._places) + _SPARE:
            self._all = list(self._places.values())
            heapify(self._all)

    def remove(self, key: Key) -> None:
        """Take a container out; it is there."""
        place = self._places.pop(key)
        namespace = self._namespaces.pop(key)
        del self._priorities[key]
        self._positions = None
        own = self._of[namespace]
        self._waiting[namespace] -= 1
        was_first = own[0] is place
        while own and not self._alive(own[0]):
            heappop(own)
        if not own:
            del self._of[namespace], self._waiting[namespace]
        elif was_first:
            self._offer(namespace)

    def first(self) -> Key | None:
        """Return who is first, whatever its namespace has."""
        while self._all and not self._alive(self._all[0]):
            heappop(self._all)
        return self._all[0].key if self._all else None

    def head(self) -> Key | None:
        """Return who is first of the namespaces that are not parked."""
        while self._heads:
            place, namespace = self._heads[0]
            own = self._of.get(namespace)
            if own and own[0] is place and namespace not in self._parked:
                return place.key
            heappop(self._heads)
        return None

    def park(self, namespace: str) -> None:
        """Pass over a namespace from now on."""
        self._parked.add(namespace)

    def unpark(self, namespace: str) -> None:
        """Look at a namespace again."""
        if namespace in self._parked:
            self._parked.remove(namespace)
            if namespace in self._of:
                self._offer(namespace)

    def is_parked(self, namespace: str) -> bool:
        """Whether a namespace is passed over."""
        return namespace in self._parked

    def position(self, key: Key) -> int:
        """Return a container's place, 1 is next; 0 where it is not pending."""
        if self._positions is None:
            ordered = sorted(self._places.values())
            self._positions = {place.key: index for index, place in enumerate(ordered, 1)}
        return self._positions.get(key, 0)

    def _alive(self, place: Place) -> bool:
        return self._places.get(place.key) is place

    def _offer(self, namespace: str) -> None:
        heappush(self._heads, (self._of[namespace][0], namespace))
        if len(self._heads) > 2 * len(self._of) + _SPARE:
            self._heads = [(own[0], name) for name, own in self._of.items() if name not in self._parked]
            heapify(self._heads)
