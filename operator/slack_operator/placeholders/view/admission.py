"""ResourceQuotas and LimitRanges as their watches show them: what admission will make of pods that are promised.

No plan depends on them, and they change with every pod of their namespace: nobody is woken. Of an object only its name
and what it admits are kept, and so many objects at most. Sink of its own watch; the lock is the view's.
"""

from collections.abc import Iterable, Sequence
from threading import RLock
from typing import Generic, TypeVar

from slack.cluster import wire
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType

MOST = 20_000
"""Objects of one kind; whoever administers a namespace can make thousands. What the others admit is not known."""
A = TypeVar("A", wire.ResourceQuota, wire.LimitRange)


class Admission(Generic[A]):
    """All objects of one kind."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._known: dict[str, dict[str, A]] = {}
        """By namespace, then by name."""
        self._count = 0
        self._listed: set[tuple[str, str]] = set()
        self._is_whole = False
        """They have been listed: it is not so where they may not be."""

    def known_of(self, namespace: str) -> list[A] | None:
        """Return those of a namespace, None where nobody could list them; any thread may ask."""
        with self._lock:
            return self.in_namespaces([namespace]) if self._is_whole else None

    def in_namespaces(self, namespaces: Iterable[str]) -> list[A]:
        """Return those of some namespaces; under the lock."""
        return [item for namespace in namespaces for item in self._known.get(namespace, {}).values()]

    def begin(self) -> None:
        """A new list begins."""
        self._listed = set()

    def apply(self, events: Sequence[tuple[EventType, A]]) -> None:
        """Some events, in order."""
        with self._lock:
            for event, item in events:
                namespace, name = item.metadata.namespace or "", item.metadata.name
                if event is EventType.DELETED:
                    self._forget(namespace, name)
                else:
                    self._keep(namespace, name, item)
                    self._listed.add((namespace, name))

    def keep(self, who: ObjectName) -> None:
        """The list has an object that cannot be read."""
        self._listed.add((who.namespace, who.name))

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            known = [(namespace, name) for namespace, items in self._known.items() for name in items]
            for namespace, name in known:
                if (namespace, name) not in self._listed:
                    self._forget(namespace, name)
            self._is_whole = True
        self._listed = set()

    def _keep(self, namespace: str, name: str, item: A) -> None:
        if name not in self._known.get(namespace, {}):
            if self._count >= MOST:
                return
            self._count += 1
        item.metadata = wire.Metadata(name=name, namespace=namespace)
        self._known.setdefault(namespace, {})[name] = item

    def _forget(self, namespace: str, name: str) -> None:
        items = self._known.get(namespace, {})
        self._count -= items.pop(name, None) is not None
        if not items:
            self._known.pop(namespace, None)
