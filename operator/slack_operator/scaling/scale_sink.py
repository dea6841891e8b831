"""The SlackScales of our namespace as the watch shows them, and the watch."""

import threading
from collections.abc import Callable, Sequence

from slack.cluster import wire
from slack.cluster.labels import API_VERSION
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.planner.policy.scale import SCALE_PLURAL


class ScaleSink:
    """Kept by the reflector's thread, read by the loop's."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._scales: dict[str, wire.SlackScale] = {}
        self._unseen: set[str] = set()

    def begin(self) -> None:
        """A new list begins."""
        self._unseen = set(self._scales)

    def apply(self, events: Sequence[tuple[EventType, wire.SlackScale]]) -> None:
        """Some events, in order."""
        with self._lock:
            for event, scale in events:
                name = scale.metadata.name
                self._unseen.discard(name)
                if event is EventType.DELETED or scale.metadata.deletion_timestamp is not None:
                    self._scales.pop(name, None)
                else:
                    self._scales[name] = scale
        self._on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has a SlackScale that cannot be read."""
        self._unseen.discard(who.name)

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            for name in self._unseen:
                self._scales.pop(name, None)
        self._unseen = set()

    def scales(self) -> tuple[wire.SlackScale, ...]:
        """Return what is there, sorted by name."""
        with self._lock:
            return tuple(self._scales[name] for name in sorted(self._scales))


def watch_of(connection: Connection, namespace: str, sink: ScaleSink) -> Reflector[wire.SlackScale]:
    """Return the watch that feeds the sink; Helm leaves CRDs alone at upgrades, so the kind may not be there yet."""
    path = resource_path(API_VERSION, SCALE_PLURAL, namespace=namespace)
    return Reflector(connection, path, wire.SlackScale, sink, may_be_absent=True)
