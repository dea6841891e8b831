"""From watch events into the view: one sink a reflector, each called from that reflector's thread only.

A sink takes the view's lock for one chunk of events at a time. An object that cannot be read is said so and left out;
the others of its chunk are not its fault.
"""

import logging
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from slack.cluster import wire
from slack.cluster.columns import BadObject
from slack.cluster.identity import PLACEHOLDER, REAL, role_of
from slack.kube.watch import EventType
from slack_operator.decide import owner_name
from slack_operator.displaced import DELETED, cause_of
from slack_operator.view import View

log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
W = TypeVar("W", bound=wire.Workload)
Events = Sequence[tuple[EventType, T]]


class PodSink:
    """Every pod of the cluster that is not finished."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._unseen: set[str] | None = set()
        """While a list is read: which of the pods that we follow (uids) it has not shown yet."""

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._unseen = self._view.followed()
            self._view.columns.begin_pods()

    def apply(self, events: Events[wire.Pod]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            before = view.columns.changed
            now = view.clock()
            view.columns.apply_pods(events, _left_out)
            for event, pod in events:
                try:
                    self._note(event, pod, now)
                except ValueError as error:  # conditions are read only here, and only by those who need them
                    _left_out(BadObject("Pod", pod.metadata, error))
            changed = view.columns.changed != before
        if changed:
            view.changed()

    def end(self) -> None:
        """The list is whole: pods that it does not have went unseen."""
        view = self._view
        with view.lock:
            vanished, self._unseen = self._unseen or set(), None
            view.columns.end_pods()
            view.vanished(vanished, view.clock())
        view.changed()

    def _note(self, event: EventType, pod: wire.Pod, now: float) -> None:
        view, metadata = self._view, pod.metadata
        uid, deleted = metadata.uid or "", event is EventType.DELETED
        if self._unseen and not deleted:
            self._unseen.discard(uid)
        node = pod.spec.node_name if pod.spec else None
        if metadata.deletion_timestamp is not None and node and not deleted:
            view.terminating[uid] = node
        elif deleted and view.terminating:
            view.terminating.pop(uid, None)
        role = role_of(metadata, view.namespace)
        if role == PLACEHOLDER:
            self._note_placeholder(pod, now, deleted=deleted)
        elif role == REAL:
            if deleted:
                view.instant.gone(uid)
                view.nominations.gone(uid)
                return
            view.instant.seen(pod, now, self._waited_before(pod, node))
            view.nominations.seen(pod, now)

    def _note_placeholder(self, pod: wire.Pod, now: float, *, deleted: bool) -> None:
        view, name = self._view, pod.metadata.name
        known = view.placeholders.get(name)
        if not deleted:
            view.placeholders[name] = pod.detach()
        elif known is not None and known.metadata.uid == pod.metadata.uid:
            del view.placeholders[name]
        if (
            owner_name(pod) not in view.sets
            and cause_of(pod) == DELETED
            and (deleted or pod.metadata.deletion_timestamp)
        ):
            view.displaced.retired(pod.metadata.uid or "")
        vacated = view.displaced.gone(pod, now) if deleted else view.displaced.seen(pod, now)
        if vacated:
            view.instant.vacated(vacated, now)

    def _waited_before(self, pod: wire.Pod, node: str | None) -> float:
        """How long a pod in a list has surely been waiting; what a watch brings has only just come."""
        created = pod.metadata.creation_timestamp
        if self._unseen is None or node or created is None:
            return 0.0
        return max(0.0, self._view.wall() - created.timestamp() - 1.0)  # creationTimestamp is cut to whole seconds


class NodeSink:
    """Every node."""

    def __init__(self, view: View) -> None:
        self._view = view

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._view.columns.begin_nodes()

    def apply(self, events: Events[wire.Node]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            before = view.columns.changed
            view.columns.apply_nodes(events, _left_out)
            changed = view.columns.changed != before
        if changed:
            view.changed()

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            self._view.columns.end_nodes()
        self._view.changed()


class WorkloadSink(Generic[W]):
    """Workload objects of one kind; the columns keep only those with our annotations."""

    def __init__(self, view: View, kind: str) -> None:
        self._view = view
        self._kind = kind

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._view.columns.begin_workloads(self._kind)

    def apply(self, events: Events[W]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            before = view.columns.changed
            view.columns.apply_workloads(self._kind, events, _left_out)
            changed = view.columns.changed != before
        if changed:
            view.changed()

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            self._view.columns.end_workloads(self._kind)
        self._view.changed()


class PriorityClassSink:
    """Every priority class."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._listed: set[str] = set()

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._listed = set()
            self._view.columns.begin_priority_classes()

    def apply(self, events: Events[wire.PriorityClass]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            view.columns.apply_priority_classes(events)
            for event, item in events:
                if event is EventType.DELETED:
                    view.priority_classes.pop(item.metadata.name, None)
                else:
                    view.priority_classes[item.metadata.name] = item
                    self._listed.add(item.metadata.name)
        view.changed()

    def end(self) -> None:
        """The list is whole."""
        view = self._view
        with view.lock:
            view.columns.end_priority_classes()
            for name in [name for name in view.priority_classes if name not in self._listed]:
                del view.priority_classes[name]
        view.changed()


class OwnSetSink:
    """Our ReplicaSets, in our namespace."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._listed: set[str] = set()

    def begin(self) -> None:
        """A new list begins."""
        self._listed = set()

    def apply(self, events: Events[wire.ReplicaSet]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            for event, item in events:
                name = item.metadata.name
                if event is EventType.DELETED:
                    view.sets.pop(name, None)
                else:
                    view.sets[name] = item.detach()
                    self._listed.add(name)
        view.changed()

    def end(self) -> None:
        """The list is whole."""
        view = self._view
        with view.lock:
            for name in [name for name in view.sets if name not in self._listed]:
                del view.sets[name]
        view.changed()


class EventSink:
    """Events of our namespace; they need no generations, each is a word of its own."""

    def __init__(self, view: View) -> None:
        self._view = view

    def begin(self) -> None:
        """A new list begins."""

    def apply(self, events: Events[wire.Event]) -> None:
        """Some events, in order."""
        view = self._view
        news = False
        with view.lock:
            now = view.wall()
            for event, item in events:
                if event is not EventType.DELETED:
                    news |= view.words.hear(item, now)
        if news:
            view.changed()

    def end(self) -> None:
        """The list is whole."""


def _left_out(error: BadObject) -> None:
    log.warning("left out: %s", error)
