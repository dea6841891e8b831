"""From watch events into the view: one sink a reflector, each called from that reflector's thread only.

A sink takes the view's lock for a few events at a time, so that none waits long for another. An object that cannot be
read is said so and left out; the others of its chunk are not its fault.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from slack.cluster import wire
from slack.cluster.columns import InvalidObject
from slack.cluster.identity import PLACEHOLDER, REAL, owner_name
from slack.cluster.image_pulls import image_pull
from slack.cluster.labels import LABEL_BUFFER
from slack.cluster.tables.placeholder_table import is_unschedulable
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType
from slack.planner.objects.adoption import is_ours
from slack_operator.placeholders.view.cluster_view import BREATH_SECONDS, ClusterView
from slack_operator.placeholders.view.displaced import DELETED, cause_of

log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
W = TypeVar("W", bound=wire.Workload)
Events = Sequence[tuple[EventType, T]]
_AT_ONCE = 100
"""Events, or pods that a list no longer has; one takes some 20 us."""


def _few(items: Sequence[V]) -> list[Sequence[V]]:
    """Return events, or whatever else is applied under the lock, in order and a few at a time."""
    return [items[begin : begin + _AT_ONCE] for begin in range(0, len(items), _AT_ONCE)]


class PodSink:
    """Every pod of the cluster that is not finished."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._unseen: set[str] | None = set()
        """While a list is read: which of the pods that we follow (uids) it has not shown yet."""

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            followed = self._view.followed()
            self._view.columns.begin_pods()
        self._unseen = set[str]().union(*followed)

    def apply(self, events: Events[wire.Pod]) -> None:
        """Some events, in order."""
        changed = [self._apply(some) for some in _few(events)]
        if any(changed):
            self._view.on_change()
        if self._view.unplaced.news:
            self._view.unplaced.news = False
            self._view.on_unplaced()

    def _apply(self, events: Events[wire.Pod]) -> bool:
        """Apply a few events; return whether a plan would see that."""
        view, columns = self._view, self._view.columns
        waiting, preemptions, on_the_way = view.instant.waiting, view.preemptions, view.ready_starts.pods
        with view.lock:
            before, now = columns.changed, view.clock()
            for event, pod in events:
                role, metadata = columns.apply_pod(event, pod, _left_out), pod.metadata
                uid = metadata.uid or ""
                if uid in on_the_way:
                    self._follow_to_ready(event, pod, uid, now)
                if role != PLACEHOLDER and uid not in waiting and not preemptions.matters(pod, uid):
                    continue  # nearly every pod there is: nothing to follow
                try:
                    self._follow(event, pod, role, now)
                except ValueError as error:  # conditions are read only here, and only by those who need them
                    _left_out(InvalidObject("Pod", metadata, error))
            return columns.changed != before

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        with self._view.lock:
            self._view.columns.keep_pod(who.namespace, who.name, who.uid)
            if self._unseen is not None:
                self._unseen.discard(who.uid)

    def end(self) -> None:
        """The list is whole: pods that it does not have went unseen."""
        view = self._view
        with view.lock:
            vanished, self._unseen = self._unseen or set(), None
            whole = view.columns.end_pods(_AT_ONCE)
            view.forget_placeholders(vanished)
        for some in _few(tuple(vanished)):
            with view.lock:
                view.vanished(some, view.clock())
        while not whole:
            time.sleep(BREATH_SECONDS)
            with view.lock:
                whole = view.columns.end_pods(_AT_ONCE)
        view.on_change()

    def _follow_to_ready(self, event: EventType, pod: wire.Pod, uid: str, now: float) -> None:
        if event is EventType.DELETED:
            self._view.ready_starts.forget(uid)
            return
        if self._unseen:
            self._unseen.discard(uid)
        try:
            self._view.ready_starts.take_status(uid, pod.status, now)
        except ValueError as error:
            _left_out(InvalidObject("Pod", pod.metadata, error))

    def _follow(self, event: EventType, pod: wire.Pod, role: int, now: float) -> None:
        view, metadata = self._view, pod.metadata
        uid, deleted = metadata.uid or "", event is EventType.DELETED
        if self._unseen and not deleted:
            self._unseen.discard(uid)
        node = pod.spec.node_name if pod.spec else None
        if role == PLACEHOLDER:
            self._follow_placeholder(pod, now, deleted=deleted)
        elif role == REAL and deleted:
            view.instant.gone(uid)
            view.unplaced.gone(uid, now)
        elif role == REAL:
            if not node and view.template_images.asked:
                view.template_images.see_pod(pod)
            known = view.unplaced.pods.get(uid)
            waited = self._waited_before(pod) if self._unseen is not None and not node else 0.0
            start = view.instant.seen(pod, now, waited, known.asked.requests if known is not None else ())
            if start is not None:
                view.ready_starts.follow(uid, start)
                view.ready_starts.take_status(uid, pod.status, now)
            owner = view.unplaced.seen(pod, view.columns, now)
            if owner and view.owners is not None and self._unseen is None:
                view.owners.appeared(metadata.namespace or "", owner, now)
        if deleted:
            view.preemptions.gone(pod, now)
        elif node or role != PLACEHOLDER:  # one without a node preempts nobody, and nobody preempts it
            view.preemptions.seen(pod, now)

    def _follow_placeholder(self, pod: wire.Pod, now: float, *, deleted: bool) -> None:
        view, name = self._view, pod.metadata.name
        if pod.metadata.label(LABEL_BUFFER):  # no policy's, and nothing displaces it
            if not deleted and not is_unschedulable(pod.status):
                view.on_untold()
            return
        known = view.placeholders.get(name)
        if not deleted:
            view.placeholders[name] = pod.detach()
        elif known is not None and known.metadata.uid == pod.metadata.uid:
            del view.placeholders[name]
        if deleted or not ((pod.spec and pod.spec.node_name) or is_unschedulable(pod.status)):
            view.on_untold()  # where a bound one leaves, an unbound one takes over
        if (
            owner_name(pod) not in view.sets
            and cause_of(pod) == DELETED
            and (deleted or pod.metadata.deletion_timestamp)
        ):
            view.displaced.let_go(pod.metadata.uid or "")
        resizing = view.preemptions.resizing_at((pod.spec.node_name if pod.spec else None) or "")
        made_way = view.displaced.makes_way(pod.metadata.uid or "")
        if deleted and owner_name(pod) in view.suspended:
            view.preemptions.made_way(pod, now)
        follow = view.displaced.gone if deleted else view.displaced.seen
        vacated = follow(pod, now, resizing=resizing)
        if vacated:
            view.instant.vacated(vacated, now, made_way=made_way)

    def _waited_before(self, pod: wire.Pod) -> float:
        """How long a pod in a list has surely been waiting; what a watch brings has only just come."""
        created = pod.metadata.creation_timestamp
        if created is None:
            return 0.0
        return max(0.0, self._view.wall() - created.timestamp() - 1.0)  # creationTimestamp is cut to whole seconds


class _ColumnSink(Generic[T]):
    """A collection of which only the columns keep anything."""

    def __init__(
        self,
        view: ClusterView,
        begin: Callable[[], None],
        apply: Callable[[Events[T], Callable[[InvalidObject], None]], None],
        keep: Callable[[ObjectName], None],
        end: Callable[[], None],
    ) -> None:
        self._view, self._begin, self._apply, self._keep, self._end = view, begin, apply, keep, end

    def _report_change(self) -> None:
        """A plan would see what was applied."""
        self._view.on_change()

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._begin()

    def apply(self, events: Events[T]) -> None:
        """Some events, in order."""
        changed = [self._apply_few(some) for some in _few(events)]
        if any(changed):
            self._report_change()

    def _apply_few(self, events: Events[T]) -> bool:
        columns = self._view.columns
        with self._view.lock:
            before = columns.changed
            self._apply(events, _left_out)
            return columns.changed != before

    def keep(self, who: ObjectName) -> None:
        """The list has an object that cannot be read."""
        with self._view.lock:
            self._keep(who)

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            self._end()
        self._report_change()


class NodeSink(_ColumnSink[wire.Node]):
    """Every node."""

    def __init__(self, view: ClusterView) -> None:
        columns = view.columns
        super().__init__(view, columns.begin_nodes, columns.apply_nodes, self._keep_node, columns.end_nodes)

    def _report_change(self) -> None:
        self._view.on_node_change()

    def _keep_node(self, who: ObjectName) -> None:
        self._view.columns.keep_node(who.name, who.uid)


class NamespaceSink(_ColumnSink[wire.Namespace]):
    """Every namespace: its labels."""

    def __init__(self, view: ClusterView) -> None:
        columns = view.columns
        keep = self._keep_namespace
        super().__init__(view, columns.begin_namespaces, columns.apply_namespaces, keep, columns.end_namespaces)

    def _keep_namespace(self, who: ObjectName) -> None:
        self._view.columns.keep_namespace(who.name)


class WorkloadSink(_ColumnSink[W]):
    """Workload objects of one kind; the columns keep only those with our annotations."""

    def __init__(self, view: ClusterView, kind: str) -> None:
        columns = view.columns
        begin, end = partial(columns.begin_workloads, kind), partial(columns.end_workloads, kind)
        super().__init__(view, begin, partial(columns.apply_workloads, kind), self._keep_workload, end)
        self._listing = False
        self._kind = kind
        self._has_sets = kind == "ReplicaSet"

    def _keep_workload(self, who: ObjectName) -> None:
        self._view.columns.keep_workload(self._kind, who.namespace, who.name)
        if self._has_sets and self._view.owners is not None:
            self._view.owners.keep_set(who.namespace, who.uid)

    def begin(self) -> None:
        """A new list begins."""
        self._listing = True
        with self._view.lock:
            self._view.template_images.begin(self._kind)
        super().begin()
        if self._has_sets and self._view.owners is not None:
            with self._view.lock:
                known = self._view.owners.known_sets()
            self._view.owners.begin_sets(known)

    def apply(self, events: Events[W]) -> None:
        """Some events, in order."""
        super().apply(events)
        view = self._view
        for some in _few(events):
            with view.lock:
                for event, owner in some:
                    view.template_images.apply(event, self._kind, owner)
        for _, owner in events:
            view.on_workload(self._kind, owner.metadata.namespace or "", owner.metadata.name)
        if view.owners is None:
            return
        for some in _few(events):
            with view.lock:
                now = view.clock()
                for event, owner in some:
                    if owner.metadata.namespace != view.namespace:  # ours make placeholders
                        view.owners.applied(event, owner, now, listing=self._listing)
        if view.owners.take_news():
            view.on_unplaced()

    def end(self) -> None:
        """The list is whole."""
        self._listing = False
        with self._view.lock:
            self._view.template_images.end(self._kind)
        super().end()
        if self._has_sets and self._view.owners is not None:
            for some in _few(self._view.owners.end_sets()):
                with self._view.lock:
                    self._view.owners.drop_sets(some)


class PriorityClassSink:
    """Every priority class."""

    def __init__(self, view: ClusterView) -> None:
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
        view.on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has a priority class that cannot be read."""
        with self._view.lock:
            self._view.columns.keep_priority_class(who.name)
            self._listed.add(who.name)

    def end(self) -> None:
        """The list is whole."""
        view = self._view
        with view.lock:
            view.columns.end_priority_classes()
            for name in [name for name in view.priority_classes if name not in self._listed]:
                del view.priority_classes[name]
        view.on_change()


class OwnSetSink:
    """Our ReplicaSets, in our namespace; those that have lost a label are ours all the same."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._listed: set[str] = set()

    def begin(self) -> None:
        """A new list begins."""
        self._listed = set()

    def apply(self, events: Events[wire.OwnReplicaSet]) -> None:
        """Some events, in order."""
        view = self._view
        news = False
        with view.lock:
            for event, item in events:
                name = item.metadata.name
                ours, others = view.sets, view.buffer_sets
                if item.metadata.label(LABEL_BUFFER):
                    ours, others = others, ours
                others.pop(name, None)
                if event is EventType.DELETED or not is_ours(item):
                    news |= ours.pop(name, None) is not None
                else:
                    news = True
                    ours[name] = item.detach()
                    self._listed.add(name)
        if news:
            view.on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has a ReplicaSet that cannot be read."""
        self._listed.add(who.name)

    def end(self) -> None:
        """The list is whole."""
        view = self._view
        with view.lock:
            for sets in (view.sets, view.buffer_sets):
                for name in [name for name in sets if name not in self._listed]:
                    del sets[name]
        view.on_change()


class FinishedSink:
    """Placeholders that have failed or completed: the watch of all pods leaves them out."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._unseen: set[str] = set()

    def begin(self) -> None:
        """A new list begins."""
        with self._view.lock:
            self._unseen = self._view.failures.uids

    def apply(self, events: Events[wire.Pod]) -> None:
        """Some events, in order."""
        view = self._view
        with view.lock:
            now = view.wall()
            for event, pod in events:
                uid = pod.metadata.uid or ""
                self._unseen.discard(uid)
                if event is EventType.DELETED:
                    view.failures.gone(uid)
                elif (cause := view.failures.seen(pod, now)) is not None:
                    view.displaced.failed(pod, cause, view.clock())
        view.on_change()

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        self._unseen.discard(who.uid)

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            for uid in self._unseen:
                self._view.failures.gone(uid)
            self._unseen = set()


class EventSink:
    """Events of our namespace; they need no generations, each is a word of its own."""

    def __init__(self, view: ClusterView) -> None:
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
                    news |= view.autoscaler_events.observe(item, now)
        if news:
            view.on_change()

    def end(self) -> None:
        """The list is whole."""


class PulledSink:
    """Events of kubelets that an image was pulled or was there, of all namespaces."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def begin(self) -> None:
        """A new list begins."""

    def apply(self, events: Events[wire.Event]) -> None:
        """Some events, in order; nearly all are of pods that nobody follows."""
        view = self._view
        with view.lock:
            followed = view.ready_starts.pods
            now = view.clock()
            for event, item in events:
                about = item.involved_object
                if event is EventType.DELETED or about is None or about.uid not in followed:
                    continue
                pull = image_pull(item)
                if pull is not None:
                    view.ready_starts.take_pull(item, pull, now)

    def end(self) -> None:
        """The list is whole."""


def _left_out(error: InvalidObject) -> None:
    log.warning("left out: %s", error)
