"""What is played: how many pods come, who makes them, and what stands where they go; and what was seen of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from e2e.harness.pod_times import percentile

AT_ONCE_SECONDS = 2.0
"""As the simulator's `instantSeconds`: a pod that is bound so soon after its creation has started at once."""
SPARE = 1.25
"""Room that there is, over what the burst takes: who makes way has a choice, and can free too much."""


class Kind(StrEnum):
    """What stands where the burst goes."""

    FREE = "free room"
    ALONE = "placeholders"
    WAY = "making way"
    FLOOR = "floor"
    """Bare pods that a client deletes when the Deployment is told to grow: the least that deleting can take."""


class Owner(StrEnum):
    """Who makes the pods."""

    DEPLOYMENT = "Deployment"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Case:
    """One burst to play."""

    pods: int
    owner: Owner
    kind: Kind
    chunk: int = 1
    """Pods that fit where one placeholder stands."""

    @property
    def room(self) -> int:
        """For how many pods there is room."""
        return math.ceil(self.pods * SPARE)

    def __str__(self) -> str:
        room = "" if self.kind in (Kind.FREE, Kind.FLOOR) else f", each as large as {self.chunk}"
        return f"{self.pods} pods, owner: {self.owner}, into {self.kind}{room}"


@dataclass(frozen=True, slots=True)
class Burst:
    """What was seen of one."""

    waits: tuple[float, ...]
    """Seconds from a pod's creation to its binding, sorted; of those that were bound."""
    unbound: int
    preempted: int
    """Placeholders that the scheduler deleted, as the two below of those that held room when the burst came: what is
    made anew meanwhile and taken away again is no room that went."""
    made_way: int
    """Placeholders that the operator deleted."""
    lowered: int
    """Placeholders that the ReplicaSet controller deleted: its own choice of victims."""
    in_vain: int
    """Of all that went, those without which the burst would have fitted, too."""
    made_anew: int
    """Placeholders that came back before the last pod was bound."""
    short: int
    """Placeholders that the ReplicaSets ask for less than before, when all is over."""
    cpu_seconds: float
    """The operator's, from the burst to when the room was asked for again."""

    @property
    def gone(self) -> int:
        """Placeholders that went, whoever deleted them."""
        return self.preempted + self.made_way + self.lowered

    @property
    def at_once(self) -> float:
        """The share of pods that started at once."""
        return sum(wait <= AT_ONCE_SECONDS for wait in self.waits) / (len(self.waits) + self.unbound)

    def seconds(self, percent: int) -> float:
        """Return a percentile of the waits; infinite where pods that would decide it were never bound."""
        if self.unbound * 100 > (100 - percent) * (len(self.waits) + self.unbound) or not self.waits:
            return math.inf
        return percentile(self.waits, percent)

    def __str__(self) -> str:
        return (
            f"p50 {self.seconds(50):.2f} s, p99 {self.seconds(99):.2f} s, at once {self.at_once:.0%}, "
            f"{self.gone} gone: {self.preempted} preempted, {self.made_way} made way, {self.lowered} by ReplicaSets, "
            f"{self.in_vain} in vain; {self.made_anew} made anew; CPU {self.cpu_seconds:.2f} s"
        )


def in_vain(gone: int, pods: int, chunk: int) -> int:
    """Return how many placeholders went beyond what these pods need, where nothing else is free."""
    return max(gone - math.ceil(pods / chunk), 0)


def cases(sizes: Sequence[int], chunks: Sequence[int], kinds: Sequence[Kind]) -> Iterator[Case]:
    """Yield what is to be played: what is compared comes one after the other.

    Pods without an owner are played into free room, as the measure, and where slack makes way.
    """
    for pods in sizes:
        for owner in Owner:
            if Kind.FREE in kinds:
                yield Case(pods, owner, Kind.FREE)
            if Kind.FLOOR in kinds and owner is Owner.DEPLOYMENT and pods > 1:
                yield Case(pods, owner, Kind.FLOOR)
            for chunk in chunks:
                for kind in (Kind.ALONE, Kind.WAY):
                    if kind in kinds and (owner is Owner.DEPLOYMENT or kind is Kind.WAY):
                        yield Case(pods, owner, kind, chunk)
