"""What stays the same from one plan of buffers to the next, so that a plan's work follows what has changed.

Everything is compared by identity first: watches replace an object when it changes, and leave it alone otherwise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slack.capacity_buffers.api import CapacityBuffer
from slack.capacity_buffers.quotas import QuotaMemory
from slack.capacity_buffers.zones import ZoneMemory
from slack.cluster import wire
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.snapshot import BoolArray, IntArray, PodKinds, Snapshot, Workload

if TYPE_CHECKING:
    from slack.capacity_buffers.plan import BufferPlan

NO_ROW = -1


def target_workload(buffer: CapacityBuffer) -> Workload | None:
    """Name the workload that a buffer's scalableRef means, as its pods are told apart; None where it has none."""
    reference = buffer.spec.scalable_ref
    if reference is None:
        return None
    kind = SHORT_KINDS.get(reference.kind) or reference.kind.lower()
    return Workload(buffer.namespace, kind, reference.name)


@dataclass(slots=True, eq=False)
class KnownBuffer:
    """One buffer, and what was last made of it."""

    buffer: CapacityBuffer
    namespace: str
    workload: Workload | None
    source: tuple[Any, ...] = ()
    """From what `asked` was made: what the reference has come to, and the namespace's LimitRanges."""
    row: int = NO_ROW
    """Of the kind with the newest live pod."""
    live: tuple[object, ...] = ()
    """What that pod said."""
    facts_version: int = -1
    """For which version of the kinds' facts `live` is known to hold."""
    asked: "BufferPlan | None" = None
    """Without bounds; None where it has to be made."""
    bounded: "BufferPlan | None" = None
    bounded_of: "BufferPlan | None" = None
    """From which `asked` `bounded` was made."""

    @property
    def plan(self) -> "BufferPlan":
        """Return the plan with bounds."""
        assert self.bounded is not None
        return self.bounded

    def remember(self, plan: "BufferPlan") -> "BufferPlan":
        """Take what it asks for; return the one before if that says the same of a buffer without a chunk."""
        before = self.asked
        if before is None or before.chunk is not None or plan.chunk is not None or not _say_same(before, plan):
            self.asked = before = plan
        return before


def _say_same(one: "BufferPlan", other: "BufferPlan") -> bool:
    def message_of(plan: "BufferPlan") -> tuple[object, ...]:
        return plan.problem, plan.is_waiting, plan.template, plan.template_generation

    return one.buffer is other.buffer and message_of(one) == message_of(other)


class LiveRows:
    """The row of the kind with the newest live pod, for each of some workloads."""

    def __init__(self) -> None:
        """Begin with no memory."""
        self._kinds: tuple[Workload, ...] | None = None
        self._wanted: Sequence[Workload | None] = ()
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        self._owners: IntArray = np.zeros(0, dtype=np.int64)

    def newest(self, kinds: PodKinds, wanted: Sequence[Workload | None]) -> list[int]:
        """Return a row for each, `NO_ROW` for those without a live pod, in the order of `newest_kind`.

        Args:
            kinds: of the cluster.
            wanted: workloads; None has no pods.
        """
        if kinds.workloads is not self._kinds or wanted is not self._wanted:
            self._find(kinds.workloads, wanted)
        rows, owners = self._rows, self._owners
        live = kinds.running[rows] + kinds.pending[rows]
        amount = np.where(live > 0, live, kinds.gated[rows])
        order = np.lexsort((-rows, amount, kinds.newest_seconds[rows], live > 0, owners))
        order = order[amount[order] > 0]
        best = order[_lasts(owners[order])]
        found = np.full(len(wanted), NO_ROW, dtype=np.int64)
        found[owners[best]] = rows[best]
        return found.tolist()

    def rows_of(self, place: int) -> IntArray:
        """Return all rows of the workload at a place of those that were wanted last."""
        found: IntArray = self._rows[self._owners == place]
        return found

    def _find(self, workloads: tuple[Workload, ...], wanted: Sequence[Workload | None]) -> None:
        """Find all rows of each; names are looked up before workloads, whose hash costs more."""
        owners: dict[Workload, list[int]] = {}
        for place, own in enumerate(wanted):
            if own is not None:
                owners.setdefault(own, []).append(place)
        names = {own.name for own in owners}
        found = [
            (place, row) for row, own in enumerate(workloads) if own.name in names for place in owners.get(own, ())
        ]
        self._kinds, self._wanted = workloads, wanted
        self._owners = np.array([place for place, _ in found], dtype=np.int64)
        self._rows = np.array([row for _, row in found], dtype=np.int64)


def _lasts(groups: IntArray) -> BoolArray:
    """[N] whether the next is of another group."""
    found = np.ones(groups.size, dtype=np.bool_)
    found[:-1] = groups[1:] != groups[:-1]
    return found


@dataclass(slots=True)
class PlanMemory:
    """See the module's docstring. Whoever plans again and again hands the same one over."""

    quotas: QuotaMemory = field(default_factory=QuotaMemory)
    zones: ZoneMemory = field(default_factory=ZoneMemory)
    live: LiveRows = field(default_factory=LiveRows)
    facts_version: int = 0
    """Rises when requests, constraints or labels of kinds may have changed."""
    asked: "Sequence[BufferPlan]" = ()
    """Of the last plan, without bounds."""
    quotas_seen: Sequence[wire.ResourceQuota] = ()
    ceiling: tuple[object, ...] = ()
    """The last plan's ceiling, and its prices."""
    _buffers: list[CapacityBuffer] | None = None
    _ordered: list[KnownBuffer] = field(default_factory=list)
    _workloads: list[Workload | None] = field(default_factory=list)
    _facts: tuple[object, ...] = ()
    _namespaces: object = None
    _setting: tuple[object, ...] = ()

    def in_order(
        self, buffers: Iterable[CapacityBuffer], namespaces: object, setting: tuple[object, ...]
    ) -> list[KnownBuffer]:
        """Return what is known of buffers, the earliest first; others are forgotten.

        Args:
            buffers: all of them.
            namespaces: labels of the namespaces.
            setting: what else each chunk depends on; where one of these changes, all are made anew.
        """
        if namespaces is not self._namespaces or setting != self._setting:
            self._namespaces, self._setting, self._buffers, self._ordered = namespaces, setting, None, []
        found = list(buffers)
        if found != self._buffers:
            known = {each.buffer.uid: each for each in self._ordered}
            self._ordered = [_recognise(own, known.get(own.uid)) for own in sorted(found, key=lambda own: own.order)]
            self._buffers = found
            self.zones.keep_only({each.buffer.uid for each in self._ordered})
            workloads = [each.workload for each in self._ordered]
            if workloads != self._workloads:
                self._workloads = workloads
        return self._ordered

    def newest_rows(self, snapshot: Snapshot) -> list[int]:
        """Return for each buffer in order the kind with the newest live pod of its workload, or `NO_ROW`."""
        kinds = snapshot.kinds
        facts = (kinds.requests, kinds.unoffered, kinds.labels, kinds.constraint_id, snapshot.constraints)
        if not _are_same(facts, self._facts):
            self._facts = facts
            self.facts_version += 1
        return self.live.newest(kinds, self._workloads)


def _recognise(buffer: CapacityBuffer, before: KnownBuffer | None) -> KnownBuffer:
    """Return what is known of a buffer that may have changed; its status is not asked."""
    if before is None or before.buffer.spec != buffer.spec or before.buffer.name != buffer.name:
        return KnownBuffer(buffer, buffer.namespace, target_workload(buffer))
    if before.buffer is not buffer:
        before.buffer, before.bounded = buffer, None
        before.asked = None if before.asked is None else replace(before.asked, buffer=buffer)
    return before


def _are_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(mine is yours for mine, yours in zip(one, other, strict=True))
