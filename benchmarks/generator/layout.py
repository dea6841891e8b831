"""A whole cluster in numbers: workloads, and for every pod its node and stage. A few MB at full size, no text."""

import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.generator.placement import NO_NODE, place
from benchmarks.generator.pools import NodeColumns
from benchmarks.generator.size import NOW, Size
from benchmarks.generator.states import PodState, Stage, digest, pod_name
from benchmarks.generator.workloads import Kind, Workload, draw_workloads

_FIRST_VERSION = 10_000_000
_PENDING, _TERMINATING, _UNREADY = 0.005, 0.0015, 0.003
"""Shares of all pods."""
_OLDEST_SECONDS, _YOUNGEST_SECONDS = 60 * 86_400, 900
_JOB_SECONDS = 3_600


class Layout:
    """The generated cluster as of `NOW`; nothing changes it.

    Usage:
        layout = Layout(scaled(1 / 25), seed=1)
        for state in layout.states(): ...
    """

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.nodes = NodeColumns(size.nodes)
        self.workloads = draw_workloads(size, seed, self.nodes)
        self.free = self.nodes.free.copy()
        """[N, 4] what the pods leave."""
        self._first = dict(
            zip(
                (workload.number for workload in self.workloads),
                np.cumsum([0, *(workload.replicas for workload in self.workloads)]).tolist(),
                strict=False,
            )
        )
        self._versions = 1 << (8 * size.pods).bit_length()  # even, so that odd steps meet each number once
        self.list_version = _FIRST_VERSION + self._versions + size.nodes + 1
        """Greater than every object's."""
        self._node: npt.NDArray[np.int32] = np.full(size.pods, NO_NODE, dtype=np.int32)
        self._stage: npt.NDArray[np.uint8] = np.full(size.pods, Stage.RUNNING, dtype=np.uint8)
        self._place()

    def node_version(self, node: int) -> int:
        """Return a node's resourceVersion."""
        return _FIRST_VERSION + self._versions + node

    def state(self, workload: Workload, ordinal: int) -> PodState:
        """Return one pod."""
        place = self._first[workload.number] + ordinal
        data = digest(self.seed, workload.number, ordinal)
        age = self._age_seconds(workload, data)
        return PodState(
            workload,
            ordinal,
            int(self._node[place]),
            Stage(int(self._stage[place])),
            _FIRST_VERSION + place * 7919 % self._versions,
            int(NOW) - age,
            int(NOW) - age + 1,
        )

    def ordered(self, workload: Workload, ordinals: Iterator[int] | range) -> list[int]:
        """Return pods of a workload in the order of their names."""
        return sorted(ordinals, key=lambda ordinal: pod_name(workload, ordinal))

    def states(self) -> Iterator[PodState]:
        """Yield all pods in the server's order: by namespace and name."""
        for workload in self.workloads:
            for ordinal in self.ordered(workload, range(workload.replicas)):
                yield self.state(workload, ordinal)

    def nodes_of(self, workload: Workload) -> npt.NDArray[np.int32]:
        """Return where a workload's pods stand, by ordinal; `NO_NODE` for those that are pending."""
        first = self._first[workload.number]
        return self._node[first : first + workload.replicas]

    def _place(self) -> None:
        rng = np.random.default_rng(self.seed)
        waiting = self._waiting()
        # The large first, as room for the small is found everywhere; those who may not share a node before others.
        for workload in sorted(
            self.workloads, key=lambda workload: (workload.kind is not Kind.DAEMON_SET, -workload.pod_cpu_millis)
        ):
            wanted = workload.replicas - waiting.get(workload.number, 0)
            found = place(workload, self.nodes, self.free, rng, wanted)
            if workload.kind is not Kind.DAEMON_SET:
                rng.shuffle(found)
            first = self._first[workload.number]
            self._node[first : first + wanted] = found
            self._mark(workload, rng)

    def _mark(self, workload: Workload, rng: np.random.Generator) -> None:
        first = self._first[workload.number]
        stages = self._stage[first : first + workload.replicas]
        chance = rng.random(workload.replicas)
        if workload.kind in (Kind.DEPLOYMENT, Kind.STATEFUL_SET):
            stages[chance < _UNREADY] = Stage.UNREADY
        if workload.kind is Kind.DEPLOYMENT:
            stages[chance > 1 - _TERMINATING] = Stage.TERMINATING
        stages[self.nodes_of(workload) == NO_NODE] = Stage.UNSCHEDULABLE

    def _waiting(self) -> dict[int, int]:
        """Return how many pods of which workloads the scheduler has found no node for."""
        rng = random.Random(f"waiting in {self.seed}")
        left, waiting = round(self.size.pods * _PENDING), dict[int, int]()
        movable = [workload for workload in self.workloads if workload.kind in (Kind.DEPLOYMENT, Kind.JOB)]
        for workload in rng.sample(movable, len(movable)):
            share = min(left, -(-workload.replicas // 4), max(left // 5, 1))
            if not share:
                break
            waiting[workload.number] = share
            left -= share
        return waiting

    def _age_seconds(self, workload: Workload, data: bytes) -> int:
        """Return a pod's age: most came with their workload's last rollout, some were moved since."""
        if workload.kind in (Kind.JOB, Kind.CRON_JOB):
            return 60 + int.from_bytes(data[:4]) % _JOB_SECONDS
        share = digest("rollout", self.seed, workload.number)[0] / 256
        rollout = int(_YOUNGEST_SECONDS * (_OLDEST_SECONDS / _YOUNGEST_SECONDS) ** share)
        chance = int.from_bytes(data[:4]) / 2**32
        if chance < 0.15:  # moved since then, the latest a minute ago
            return 60 + int((rollout - 60) * chance / 0.15)
        return rollout - int(600 * (chance - 0.15) / 0.85)
