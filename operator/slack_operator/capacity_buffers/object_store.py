"""Objects of one kind by namespace and name, as a watch shows them: CapacityBuffers, and PodTemplates."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from slack.capacity_buffers.api import CapacityBuffer, PodTemplateObject
from slack.cluster.wire import ABSENT
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType

StoredObject = TypeVar("StoredObject", CapacityBuffer, PodTemplateObject)
Key = tuple[str, str]
"""Namespace and name."""


class ObjectStore(Generic[StoredObject]):
    """Kept by the reflector's thread, read by any."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._known: dict[Key, StoredObject] = {}
        self._unseen: set[Key] = set()

    def begin(self) -> None:
        """A new list begins."""
        self._unseen = set(self._known)

    def apply(self, events: Sequence[tuple[EventType, StoredObject]]) -> None:
        """Some events, in order."""
        with self._lock:
            for event, item in events:
                key = (item.metadata.namespace or "", item.metadata.name)
                self._unseen.discard(key)
                if event is EventType.DELETED:
                    self._known.pop(key, None)
                else:
                    self._known[key] = _without_message(item)
        self._on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has an object that cannot be read."""
        self._unseen.discard((who.namespace, who.name))

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            for key in self._unseen:
                self._known.pop(key, None)
        self._unseen = set()
        self._on_change()

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """Return one of them."""
        with self._lock:
            return self._known.get((namespace, name))

    def all(self) -> list[StoredObject]:
        """Return all, in no order."""
        with self._lock:
            return list(self._known.values())

    def forget(self) -> None:
        """Forget all: the kind is gone."""
        with self._lock:
            self._known.clear()


def _without_message(item: StoredObject) -> StoredObject:
    """Let go of the message that an object came in."""
    if isinstance(item, PodTemplateObject):
        item.metadata.annotations = None
        if item.template is not None:
            item.template.detach()
        return item
    for entry in item.metadata.managed_fields or ():
        entry.fields_json = ABSENT
    item.metadata.annotations = None
    return item
