"""What the operator sees: one state under one lock, fed by the sinks, and `look` copies it for the loop.

The columns are the cluster; beside them stand the few objects that are ours, the words of autoscalers, and what is
measured on pods as they pass. Reflector threads write, each through its own sink (`sinks`); the planning loop reads.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.snapshot import Snapshot
from slack.planner.outcome import AutoscalerWord
from slack_operator.decide import Present
from slack_operator.displaced import Displaced, Displacement
from slack_operator.instant import InstantStarts, Start
from slack_operator.rescue import Nomination, Nominations
from slack_operator.words import Words


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The state at one instant, for one turn of the loop."""

    snapshot: Snapshot
    present: Present
    words: tuple[AutoscalerWord, ...]
    priority_classes: Mapping[str, wire.PriorityClass]
    starts: list[Start]
    displaced: Mapping[tuple[str, str], int]
    displacements: tuple[Displacement, ...] = ()
    """The latest of them, the oldest first."""


class View:
    """All state that comes from watches."""

    def __init__(
        self,
        namespace: str,
        on_change: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.namespace = namespace
        self.lock = threading.RLock()
        self.columns = ClusterColumns(namespace)
        self.sets: dict[str, wire.ReplicaSet] = {}
        self.placeholders: dict[str, wire.Pod] = {}
        self.priority_classes: dict[str, wire.PriorityClass] = {}
        self.words = Words()
        self.displaced = Displaced()
        self.instant = InstantStarts()
        self.nominations = Nominations()
        self.terminating: dict[str, str] = {}
        """Node by uid, of every pod that is on its way out."""
        self.clock = clock
        self.wall = wall
        self._on_change = on_change

    def changed(self) -> None:
        """Something that a plan depends on is new."""
        self._on_change()

    def look(self, now: float) -> Look:
        """Copy the state; `now` is Unix time."""
        with self.lock:
            return Look(
                snapshot=self.columns.snapshot(now),
                present=Present(dict(self.sets), dict(self.placeholders)),
                words=self.words.about(self.sets, now),
                priority_classes=dict(self.priority_classes),
                starts=self.instant.take(),
                displaced=self.displaced.counts,
                displacements=self.displaced.recent,
            )

    def followed(self) -> set[str]:
        """Return the uids of all pods that are kept one by one."""
        placeholders = {pod.metadata.uid or "" for pod in self.placeholders.values()}
        return placeholders.union(
            self.terminating, self.displaced.bound, self.instant.waiting, self.nominations.waiting
        )

    def vanished(self, uids: set[str], now: float) -> None:
        """Pods that a new list does not have went unseen; `now` is monotonic."""
        for uid in uids:
            self.displaced.vanished(uid, now)
            self.instant.gone(uid)
            self.nominations.gone(uid)
            self.terminating.pop(uid, None)
        for name in [name for name, pod in self.placeholders.items() if (pod.metadata.uid or "") in uids]:
            del self.placeholders[name]

    def stuck(self, now: float) -> list[Nomination]:
        """Return nominated pods that hang; `now` is monotonic."""
        with self.lock:
            if not len(self.nominations):
                return []
            leaving = set(self.terminating.values())
            return self.nominations.stuck(now, leaving.__contains__)

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """See `Displaced.expect`; for the actuator."""
        with self.lock:
            self.displaced.expect(replica_set, count, now)

    def push_out(self, uid: str) -> None:
        """See `Displaced.push_out`; for the actuator."""
        with self.lock:
            self.displaced.push_out(uid)
