"""What is played: how many pods arrive, who creates them, what holds the capacity; and what was seen of each burst."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from e2e.harness.pod_times import percentile

AT_ONCE_SECONDS = 2.0
"""As the simulator's `instantSeconds`: a pod that is bound so soon after its creation has started without waiting."""
SPARE = 1.25
"""Capacity that there is, over what the burst takes: who makes way has a choice, and can free too much."""


class Kind(StrEnum):
    """What holds the capacity that the burst takes."""

    FREE = "free capacity"
    BOUND = "bound placeholders"
    """The scheduler preempts them; the operator does not make way."""
    WAY = "making way"
    """Bound placeholders that the operator deletes for the burst."""
    UNBOUND = "unbound placeholders"
    BUFFER = "a served CapacityBuffer"
    """With one chunk for each pod, of a PodTemplate; no policy is there."""
    FLOOR = "floor"
    """Bare pods that a client deletes when the Deployment is told to grow: the least that deleting can take."""

    @property
    def lasting(self) -> bool:
        """Whether a burst deletes nothing that held the capacity: several bursts can follow each other."""
        return self in (Kind.FREE, Kind.UNBOUND, Kind.BUFFER)

    @property
    def operated(self) -> bool:
        """Whether an operator runs."""
        return self in (Kind.BOUND, Kind.WAY, Kind.UNBOUND, Kind.BUFFER)


class Owner(StrEnum):
    """Who creates the pods."""

    DEPLOYMENT = "Deployment"
    JOB = "Job"
    STATEFUL_SET = "StatefulSet"
    """With podManagementPolicy Parallel."""
    NONE = "none"
    TEN = "ten owners"
    """Four Deployments, three Jobs and three StatefulSets together."""


@dataclass(frozen=True, slots=True)
class Case:
    """One burst to play."""

    pods: int
    owner: Owner
    kind: Kind
    chunk: int = 1
    """Pods that fit in the space of one placeholder."""

    @property
    def room(self) -> int:
        """For how many pods there is capacity."""
        return math.ceil(self.pods * SPARE)

    def __str__(self) -> str:
        size = f", each as large as {self.chunk}" if self.kind.operated else ""
        return f"{self.pods} pods, owner: {self.owner}, into {self.kind}{size}"


@dataclass(frozen=True, slots=True)
class Burst:
    """What was seen of one."""

    waits: tuple[float, ...]
    """Seconds from a pod's creation to its binding, sorted; of those that were bound."""
    unbound: int
    """Pods of the burst that were never bound."""
    preempted: int
    """Placeholders that the scheduler deleted. This and the two below count placeholders that were there before."""
    made_way: int
    """Placeholders that the operator deleted."""
    lowered: int
    """Placeholders that the ReplicaSet controller deleted: its own choice of victims."""
    in_vain: int
    """Of all that were deleted, those without which the burst would have fitted, too."""
    made_anew: int
    """Placeholders that were created before the last pod was bound."""
    short: int
    """Placeholders that the ReplicaSets ask for less than before, when all is over."""
    cpu_seconds: float
    """The operator's, from the burst to when the capacity was asked for again."""
    steady_seconds: float = 0.0
    """What of it the idle operator of the same run would have used in that time."""
    recreated: int = 0
    """Placeholders that were created until the capacity was asked for again."""
    writes: Mapping[str, int] = field(default_factory=dict)
    """The operator's in that time, by verb and resource, but for its lease."""

    @property
    def burst_cpu_seconds(self) -> float:
        """The operator's CPU that the burst has cost, beyond what it uses anyway."""
        return max(self.cpu_seconds - self.steady_seconds, 0.0)

    @property
    def gone(self) -> int:
        """Placeholders that were deleted, by anybody."""
        return self.preempted + self.made_way + self.lowered

    @property
    def at_once(self) -> float:
        """The share of pods that started without waiting."""
        return sum(wait <= AT_ONCE_SECONDS for wait in self.waits) / (len(self.waits) + self.unbound)

    def seconds(self, percent: int) -> float:
        """Return a percentile of the waits; infinite if pods that would decide it were never bound."""
        if self.unbound * 100 > (100 - percent) * (len(self.waits) + self.unbound) or not self.waits:
            return math.inf
        return percentile(self.waits, percent)

    def __str__(self) -> str:
        return (
            f"p50 {self.seconds(50):.3f} s, p99 {self.seconds(99):.3f} s, instant {self.at_once:.0%}, "
            f"{self.gone} gone: {self.preempted} preempted, {self.made_way} made way, {self.lowered} by ReplicaSets, "
            f"{self.in_vain} in vain; {self.recreated} recreated; "
            f"CPU {self.cpu_seconds:.2f} s, of it {self.steady_seconds:.2f} s anyway; writes {self.writes}"
        )


def in_vain(gone: int, pods: int, chunk: int) -> int:
    """Return how many placeholders went beyond what these pods need, if nothing else is free."""
    return max(gone - math.ceil(pods / chunk), 0)


def scenes(pods: int, chunks: Sequence[int], kinds: Sequence[Kind], free_last: bool = False) -> Iterator[list[Case]]:
    """Yield the cases of one size, those that share a set-up together; what is compared comes one after the other.

    Every owner is played into free capacity, which is the measure, into unbound placeholders and into a buffer. Of
    placeholders the smallest size is played, which is the most of them. Bound placeholders are played with a
    Deployment, making way also with pods without an owner.
    """
    owners = [owner for owner in Owner if pods > 1 or owner is not Owner.TEN]
    lasting = {Kind.FREE: 1, Kind.UNBOUND: min(chunks), Kind.BUFFER: 1}
    for kind in reversed(lasting) if free_last else lasting:
        if kind in kinds:
            yield [Case(pods, owner, kind, lasting[kind]) for owner in owners]
    if Kind.FLOOR in kinds and pods > 1:
        yield [Case(pods, Owner.DEPLOYMENT, Kind.FLOOR)]
    for owner in (Owner.DEPLOYMENT, Owner.NONE):
        for chunk in chunks:
            for kind in (Kind.BOUND, Kind.WAY):
                if kind in kinds and (owner is Owner.DEPLOYMENT or kind is Kind.WAY):
                    yield [Case(pods, owner, kind, chunk)]
