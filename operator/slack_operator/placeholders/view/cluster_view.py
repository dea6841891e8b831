"""What the operator sees: one state under one lock, fed by the sinks, and `observe` copies it for the loop.

The columns are the cluster; beside them stand the few objects that are ours, the events of autoscalers, and what is
measured on pods as they pass. Reflector threads write, each through its own sink (`sinks`); the planning loop reads.
"""

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from types import MappingProxyType
from typing import NamedTuple

from slack.cluster import wire
from slack.cluster.classes import KNOWN_TAINTS, NodeSelectors, TaintKeys
from slack.cluster.columns import ClusterColumns
from slack.cluster.identity import owner_name
from slack.cluster.labels import HOSTNAME, KARPENTER_NODE_POOL, LABEL_RELEASE
from slack.cluster.room_copy import RoomCopy, fits_on, nodes_of
from slack.cluster.snapshot import Snapshot
from slack.cluster.tables.marker_table import Marker
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.planner.burst_eviction.burst import LeftAlone
from slack.planner.burst_eviction.growth import GrowingPod
from slack.planner.model.pool import Pool
from slack.planner.model.result import AutoscalerEvent
from slack.planner.objects.actions import Present
from slack.planner.objects.autoscaler_events import AutoscalerEvents
from slack.planner.removal.reasons import FailedPlaceholder
from slack_operator.placeholders.view.admission import Admission
from slack_operator.placeholders.view.displaced import Displaced, Displacement
from slack_operator.placeholders.view.failures import Failures
from slack_operator.placeholders.view.hangs import Hang
from slack_operator.placeholders.view.instant_starts import InstantStarts, Start
from slack_operator.placeholders.view.owners import Outstanding, Owners
from slack_operator.placeholders.view.pools import Pools
from slack_operator.placeholders.view.preemptions import Preemptions
from slack_operator.placeholders.view.ready_starts import ReadyStart, ReadyStarts
from slack_operator.placeholders.view.template_images import TemplateImages
from slack_operator.placeholders.view.unplaced import Placed, Unplaced, UnplacedPods

_FORGOTTEN_AT_ONCE = 100
"""Kinds of pods; each may take its request vector and constraints with it, which is some 5 us."""
BREATH_SECONDS = 0.0005
"""A lock that is taken again at once would leave who waits for it out."""


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The state at one instant, for one reconciliation."""

    snapshot: Snapshot
    present: Present
    autoscaler_events: tuple[AutoscalerEvent, ...]
    priority_classes: Mapping[str, wire.PriorityClass]
    starts: list[Start]
    displaced: Mapping[tuple[str, str], int]
    displacements: tuple[Displacement, ...] = ()
    """The latest of them, the oldest first."""
    corpses: tuple[FailedPlaceholder, ...] = ()
    """Placeholders that have failed or completed and are still there."""
    failed: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    """How many of them so far, by (policy, cause)."""
    pools: tuple[Pool, ...] = ()
    """What ActivationPools announce."""
    quotas: tuple[wire.ResourceQuota, ...] = ()
    """Of their namespaces, where these may be watched."""
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By ReplicaSet why its last pod was refused, apart from quotas."""
    buffer_events: tuple[AutoscalerEvent, ...] = ()
    """What was said of placeholders of CapacityBuffers."""
    ready_starts: Sequence[ReadyStart] = ()
    """Real pods that have become Ready."""


class NodeMarks(NamedTuple):
    """What of a node decides about its release, and about its taint."""

    created: float
    """Unix seconds; nan where it does not say."""
    pool: str
    """Its NodePool; '' where Karpenter did not make it."""
    release: str
    """Value of its label `resource-slack.io/release`, else of its marker pod; '' where it has neither."""
    kind: int
    """The same for nodes whose labels are the same, those aside that tell single nodes apart."""
    uid: str = ""
    labelled: bool = False
    """Whether `release` is that of a label."""
    tainted: bool = False
    """Whether it has the taint of nodes that hold unbound placeholders."""


def _marks_of(labels: Mapping[str, str], created: float, uid: str, *, tainted: bool) -> NodeMarks:
    kind = hash(frozenset(item for item in labels.items() if item[0] not in (HOSTNAME, LABEL_RELEASE)))
    label = labels.get(LABEL_RELEASE, "")
    return NodeMarks(created, labels.get(KARPENTER_NODE_POOL, ""), label, kind, uid, bool(label), tainted)


@dataclass(frozen=True, slots=True)
class BurstProgress:
    """What has come of the bursts that placeholders were evicted for."""

    placed: Collection[Placed]
    """Pods that have got a node since the last look."""
    growing: frozenset[str]
    """uids of pods whose resize waits for capacity."""
    waiting: Mapping[str, float]
    """By burst since when its oldest pod waits; empty where nobody asked."""
    promised: frozenset[str]
    """Bursts of which owners are about to create more pods; empty where nobody asked."""


@dataclass(frozen=True, slots=True)
class UnplacedDemand:
    """Pods without a node, and what owners are about to create."""

    pods: Collection[Unplaced]
    growing: Collection[GrowingPod]
    promised: Collection[Outstanding]
    quotas: tuple[wire.ResourceQuota, ...]
    """Of the namespaces of promised pods, as the next."""
    limit_ranges: tuple[wire.LimitRange, ...]
    nodes_of: Mapping[str, frozenset[str]]
    """Names of nodes where workloads have pods, by key; of those that were asked for."""


class ClusterView:
    """All state that comes from watches.

    Sinks write, under the lock. Each consumer has methods of its own, in this order: the planning loop, the actuator,
    the release of nodes, what tells autoscalers, and burst eviction.
    """

    def __init__(
        self,
        namespace: str,
        on_change: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        taint_keys: TaintKeys = KNOWN_TAINTS,
    ) -> None:
        self.namespace = namespace
        self.lock = threading.RLock()
        self.columns = ClusterColumns(namespace, taint_keys=taint_keys)
        self.sets: dict[str, wire.OwnReplicaSet] = {}
        self.buffer_sets: dict[str, wire.OwnReplicaSet] = {}
        """ReplicaSets of CapacityBuffers, which no policy's plan knows."""
        self.buffer_labels: frozenset[str] = frozenset()
        """Labels of nodes that CapacityBuffers ask for, beside those of their pods."""
        self.placeholders: dict[str, wire.Pod] = {}
        self.priority_classes: dict[str, wire.PriorityClass] = {}
        self.autoscaler_events = AutoscalerEvents()
        self.displaced = Displaced()
        self.failures = Failures()
        self.instant = InstantStarts()
        self.ready_starts = ReadyStarts()
        self.template_images = TemplateImages()
        self.preemptions = Preemptions()
        self.unplaced = UnplacedPods()
        self.owners: Owners | None = None
        """What owners are about to make; None while nobody asks."""
        self.quotas: Admission[wire.ResourceQuota] = Admission(self.lock)
        self.limit_ranges: Admission[wire.LimitRange] = Admission(self.lock)
        self.pools = Pools(self.lock, on_change)
        self.suspended: dict[str, wire.OwnReplicaSet] = {}
        """ReplicaSets that have fewer placeholders for a moment, by our doing: as they were before."""
        self._node_starts: tuple[int, Mapping[str, tuple[float, float, str]]] = (-1, {})
        """Version of the nodes, and what `node_starts` says of them."""
        self._node_marks: tuple[int, Mapping[str, NodeMarks]] = (-1, {})
        self._present = Present({}, {})
        """What the last observation has of our objects."""
        self.clock = clock
        self.wall = wall
        self.on_change = on_change
        """To be called when something that a plan depends on is new."""
        self.on_node_change = on_change
        """To be called in its place when it is a node: fewer of them change, and pending capacity waits for them."""
        self.on_untold: Callable[[], None] = lambda: None
        """To be called when an unbound placeholder is new, or has lost what tells autoscalers of it."""
        self.on_workload: Callable[[str, str, str], None] = lambda *_: None
        """To be called with kind, namespace and name of a workload object that has changed."""
        self.on_unplaced: Callable[[], None] = lambda: None
        """To be called when a real pod without a node is new."""

    # --- for the planning loop ---------------------------------------------------------------------------------------

    def require_labels(self, keys: Iterable[str], selectors: NodeSelectors) -> None:
        """Keep the labels of nodes that policies select by."""
        with self.lock:
            self.columns.require_labels({*keys, *self.buffer_labels}, selectors)

    def node_count(self) -> int:
        """Return how many nodes there are."""
        return len(self.columns.nodes.rows)

    def observe(self, now: float) -> Observation:
        """Copy the state; `now` is Unix time. For one thread.

        Sinks wait for copies only: a snapshot is made of them afterwards, and old arrivals are forgotten bit by bit.
        """
        while not self._forget_arrivals(now):
            time.sleep(BREATH_SECONDS)
        with self.lock:
            self.displaced.decide(self.clock(), self.preemptions.promised_since)
            self.preemptions.forget_promises(self.clock())
            self.instant.forget_vacated(self.clock())
            copy = self.columns.copy()
            said = self.autoscaler_events.about({**self.sets, **self.buffer_sets}, now)
            observation = partial(
                Observation,
                present=self._present_objects(),
                autoscaler_events=(
                    *(event for event in said if event.replica_set in self.sets),
                    *self.failures.loops(self.sets, now),
                ),
                priority_classes=dict(self.priority_classes),
                starts=self.instant.drain_starts(),
                ready_starts=self.ready_starts.drain_starts(self.clock()),
                displaced=self.displaced.counts,
                displacements=self.displaced.recent,
                corpses=self.failures.corpses,
                failed=self.failures.counts,
                pools=self.pools.all(),
                refusals=self.autoscaler_events.refusals(self.sets, now),
                quotas=tuple(self.quotas.in_namespaces(sorted(self.pools.namespaces()))),
                buffer_events=tuple(event for event in said if event.replica_set in self.buffer_sets),
            )
        return observation(snapshot=self.columns.build(copy, now, self.lock))

    def _present_objects(self) -> Present:
        """Return our objects; the same value while they are the same, which a burst of others' pods does not change."""
        sets, last = {**self.sets, **self._suspended_as_planned()}, self._present
        if _are_same(last.sets, sets) and _are_same(last.pods, self.placeholders):
            return last
        self._present = Present(sets, dict(self.placeholders))
        return self._present

    def _suspended_as_planned(self) -> dict[str, wire.OwnReplicaSet]:
        """Return what is suspended and still there, as it was before."""
        there = {name: self.sets.get(name) for name in self.suspended}
        return {
            name: self.suspended[name]
            for name, found in there.items()
            if found is not None and found.metadata.uid == self.suspended[name].metadata.uid
        }

    def _forget_arrivals(self, now: float) -> bool:
        """Forget some arrivals that the window has passed; return whether that is all."""
        with self.lock:
            return self.columns.arrivals.forget_before(now, _FORGOTTEN_AT_ONCE)

    def followed(self) -> tuple[list[str], ...]:
        """Return the uids of all pods that are kept one by one, some twice; to copy them keeps the lock for little."""
        return (
            [pod.metadata.uid or "" for pod in self.placeholders.values()],
            list(self.displaced.bound),
            list(self.instant.waiting),
            list(self.ready_starts.pods),
            list(self.unplaced.pods),
            list(self.unplaced.growing),
            list(self.preemptions.followed()),
        )

    def vanished(self, uids: Iterable[str], now: float) -> None:
        """Pods that a new list does not have went unseen; `now` is monotonic."""
        for uid in uids:
            self.displaced.vanished(uid, now)
            self.instant.gone(uid)
            self.ready_starts.forget(uid)
            self.unplaced.gone(uid, now)
            self.preemptions.vanished(uid, now)

    def forget_placeholders(self, uids: Container[str]) -> None:
        """Forget placeholders that a new list does not have."""
        for name in [name for name, pod in self.placeholders.items() if (pod.metadata.uid or "") in uids]:
            del self.placeholders[name]

    def hangs(self, now: float, scheduler_of: Callable[[str], str | None]) -> list[Hang]:
        """Return pods that hang after a preemption, see `Preemptions.hangs`; `now` is monotonic."""
        with self.lock:
            found = self.preemptions.hangs(now, scheduler_of, self._fits)
            for hang in found:
                self.instant.held_up(hang.uid)
            return found

    def _fits(self, uid: str, node: str) -> bool:
        """Whether the scheduler would put a pod that it has promised a node there; False where more than room decides.

        Room that others are promised is not taken off: the scheduler looks at that itself.
        """
        waiting = self.unplaced.pods.get(uid)
        if waiting is None or waiting.asked.left_alone is not LeftAlone.NOMINATED:
            return False
        return fits_on(self.columns, node, waiting.asked.requests, waiting.asked.constraints)

    def images_by_workload(self) -> Mapping[str, tuple[str, ...]]:
        """Return the images of workloads by their templates; for who pulls images."""
        with self.lock:
            return self.template_images.by_workload()

    def keep_only(self, policies: Container[str]) -> None:
        """Forget what was counted of policies that are no more."""
        with self.lock:
            self.displaced.keep_only(policies)
            self.failures.keep_only(policies)

    # --- for the actuator --------------------------------------------------------------------------------------------

    def is_suspended(self, replica_set: str) -> bool:
        """Whether a ReplicaSet is not to be written by anybody but burst eviction; any thread may ask."""
        return replica_set in self.suspended

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """See `Displaced.expect`; for the actuator."""
        with self.lock:
            self.displaced.expect(replica_set, count, now)

    def push_out(self, uid: str, now: float) -> bool:
        """See `Displaced.push_out`; for the actuator."""
        with self.lock:
            return self.displaced.push_out(uid, now)

    def let_go(self, uid: str) -> None:
        """See `Displaced.let_go`; for the actuator."""
        with self.lock:
            self.displaced.let_go(uid)

    # --- for the release of nodes ------------------------------------------------------------------------------------

    def node_starts(self) -> Mapping[str, tuple[float, float, str]]:
        """Return of each ready node when it was made (Unix time), the seconds from there to ready, and its group."""
        with self.lock:
            nodes = self.columns.nodes
            if self._node_starts[0] != nodes.version:
                facts = ((name, nodes.facts[row]) for name, row in nodes.rows.items())
                self._node_starts = (
                    nodes.version,
                    {
                        name: (fact.created, fact.start_seconds, fact.group)
                        for name, fact in facts
                        if fact and fact.ready
                    },
                )
            return self._node_starts[1]

    def node_marks(self) -> Mapping[str, NodeMarks]:
        """Return of each node what deciding about its release takes beside a snapshot."""
        facts = None
        with self.lock:
            nodes, version = self.columns.nodes, self.columns.nodes.version
            if self._node_marks[0] != version:
                facts = [(name, nodes.facts[row]) for name, row in nodes.rows.items()]
        if facts is not None:  # facts never change, so nobody has to wait meanwhile
            marks = {
                name: _marks_of(fact.labels, fact.created, fact.uid, tainted=fact.softly_tainted)
                for name, fact in facts
                if fact
            }
            self._node_marks = (version, marks)
        marks = dict(self._node_marks[1])
        for marker in self.markers():
            if marker.releases and (mark := marks.get(marker.node)) is not None and not mark.release:
                marks[marker.node] = mark._replace(release=marker.value)
        return marks

    def markers(self) -> tuple[Marker, ...]:
        """Return the marker pods that are there."""
        with self.lock:
            return tuple(self.columns.markers.rows.values())

    # --- for what tells autoscalers of unbound placeholders ----------------------------------------------------------

    def call_when_untold(self, on_untold: Callable[[], None]) -> None:
        """Call this when an unbound placeholder is new, or has lost what tells autoscalers of it."""
        self.on_untold = on_untold

    def placeholder_facts(self) -> tuple[list[PlaceholderFacts], dict[str, str]]:
        """Return all placeholders, and the uids of their ReplicaSets by name."""
        with self.lock:
            facts = list(self.columns.placeholders.rows.values())
            return facts, {name: found.metadata.uid or "" for name, found in self.sets.items()}

    # --- for burst eviction ------------------------------------------------------------------------------------------

    def follow_owners(self, on_unplaced: Callable[[], None]) -> None:
        """Begin to follow what owners are about to create, and call this when a pod without a node is new."""
        self.owners, self.on_unplaced = Owners(), on_unplaced

    @property
    def nodes_version(self) -> int:
        """Return what changes when nodes come, go or change."""
        return self.columns.nodes.version

    def bound_placeholder_count(self) -> int:
        """Return how many placeholders have a node."""
        with self.lock:
            pods = list(self.placeholders.values())
        return sum(bool(pod.spec and pod.spec.node_name) for pod in pods)

    def take_burst_progress(self, now: float, *, with_waiting: bool) -> BurstProgress:
        """Return what has come of bursts since the last call; `now` is monotonic.

        Args:
            now: for what owners have promised.
            with_waiting: whether pods that wait and pods that are promised are asked for, which takes a look at each.
        """
        with self.lock:
            placed, growing = self.unplaced.take_placed(), frozenset(self.unplaced.growing)
            if not with_waiting:
                return BurstProgress(placed, growing, {}, frozenset())
            waiting = {own.asked.key: own.since for own in reversed(self.unplaced.pods.values())}
            return BurstProgress(
                placed, growing, waiting, frozenset(p.promise.key for p in self._outstanding_promises(now))
            )

    def unplaced_demand(
        self, now: float, avoid_each_other: Callable[[Collection[Outstanding]], frozenset[str]]
    ) -> UnplacedDemand:
        """Return what bursts are made of; `now` is monotonic.

        Args:
            now: for what owners have promised.
            avoid_each_other: says of which workloads the nodes are to be known.
        """
        with self.lock:
            promised = self._outstanding_promises(now)
            namespaces = {known.promise.namespace for known in promised}
            return UnplacedDemand(
                pods=list(self.unplaced.pods.values()),
                growing=list(self.unplaced.growing.values()),
                promised=promised,
                quotas=tuple(self.quotas.in_namespaces(namespaces)),
                limit_ranges=tuple(self.limit_ranges.in_namespaces(namespaces)),
                nodes_of=nodes_of(self.columns, avoid_each_other(promised)),
            )

    def _outstanding_promises(self, now: float) -> Collection[Outstanding]:
        return () if self.owners is None else self.owners.outstanding(now)

    def capacity_copy(self) -> tuple[RoomCopy, int]:
        """Return a copy of what capacity is computed from, and the `nodes_version` that it has."""
        with self.lock:
            return self.columns.room_copy(), self.columns.nodes.version

    def await_bursts(self, keys: Iterable[str]) -> None:
        """Note whose pods wake burst eviction when they get a node."""
        self.unplaced.awaited = frozenset(keys)

    def followed_as_bound(self, uids: Iterable[str]) -> set[str]:
        """Return which of these placeholders are on a node, as far as the watch has shown."""
        with self.lock:
            return {uid for uid in uids if self.displaced.is_bound(uid)}

    def claim_placeholders(self, uids: Iterable[str], now: float, *, growth: bool) -> set[str]:
        """Note that these leave for a burst; return those that nobody else has claimed. See `Displaced.make_way`."""
        with self.lock:
            return {uid for uid in uids if self.displaced.make_way(uid, now, growth=growth)}

    def unclaim_placeholders(self, uids: Iterable[str]) -> None:
        """Note that these stay after all."""
        with self.lock:
            for uid in uids:
                self.displaced.stays(uid)

    def placeholders_of(self, replica_sets: Collection[str]) -> dict[str, list[wire.Pod]]:
        """Return the placeholders of these ReplicaSets that are not being deleted."""
        found: dict[str, list[wire.Pod]] = {name: [] for name in replica_sets}
        with self.lock:
            pods = list(self.placeholders.values())
        for pod in pods:
            if pod.metadata.deletion_timestamp is None and (own := found.get(owner_name(pod))) is not None:
                own.append(pod)
        return found

    def suspend(
        self, names: Iterable[str], may_suspend: Callable[[wire.OwnReplicaSet], bool]
    ) -> list[wire.OwnReplicaSet]:
        """Have the loop see these ReplicaSets as they are now; return those that may be suspended, by name."""
        with self.lock:
            new = [self.sets[name] for name in sorted(names) if name in self.sets and may_suspend(self.sets[name])]
            for own in new:
                self.suspended.setdefault(own.metadata.name, own)
            return new

    def resume(self, replica_set: str) -> None:
        """Have the loop see a ReplicaSet as it is again."""
        with self.lock:
            self.suspended.pop(replica_set, None)


def _are_same(last: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Tell whether objects are the same values, in the same order; each is replaced when an event changes it."""
    return len(last) == len(now) and all(map(is_, last.values(), now.values()))
