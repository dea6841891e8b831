"""What a hang is: a preemptor that the stock scheduler made room for and forgot. Values in, a judgement out.

A nomination alone proves nothing. Since Kubernetes 1.35 the scheduler writes `status.nominatedNodeName` also for pods
that it has assumed and that wait before they are bound, for a volume, a claim or their gang; there autoscalers read it
as a reservation, and nobody may take it away. So a hang is told from what it leaves behind: the scheduler said that the
pod does not fit (`PodScheduled` False, `Unschedulable`), it pushed a pod of lower priority off the node for it, all
such victims are gone, and nothing came of it (docs/details/troubleshooting.md, "Pods hang after a preemption").
Of a pod that was promised a node before it was first seen, as after a restart, nobody knows whom the scheduler pushed
off; it hangs where it would fit there and is not put there. No clock, no I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass

PATIENCE_SECONDS = 15.0
"""Since the last victim left the node. The scheduler's own back-off ends after 10 s, and a burst that is still being
served must not be disturbed: of 400 pods, 353 had waited for 5 s and 203 for 15 s, without being served any later in
the end (docs/details/troubleshooting.md has the figures, `python -m e2e.hangs` measures them)."""
HELD_PATIENCE_SECONDS = 660.0
"""The same of pods that may be waiting for a volume, a claim or a gang: the scheduler gives those up after 600 s."""


@dataclass(slots=True)
class Preemptor:
    """A pod without a node that was promised one, as its last event has it, and what was seen to happen there."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    """Of the state that is judged."""
    node: str
    """Which it was promised."""
    scheduler: str
    priority: int
    unschedulable: bool
    """The scheduler's last word: PodScheduled is False with reason Unschedulable, and no gate is left."""
    held: bool
    """It has claims, volumes that may be unbound, or a scheduling group."""
    since: float
    """Monotonic, when this nomination was seen."""
    unseen: bool = False
    """It had been promised the node when it was first seen: who left for it may have left before."""
    preempted: bool = False
    """A pod of lower priority was pushed off the node after this pod was created, around its nomination."""
    last_left: float = 0.0
    """Monotonic, when any victim left the node last, whoever it was pushed off for; meaningless before one has."""

    @property
    def patience_seconds(self) -> float:
        """How long after the last victim it is left alone."""
        return HELD_PATIENCE_SECONDS if self.held else PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Hang:
    """One pod that hangs, in the state in which it was judged."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    since: float
    """Monotonic, when the nomination was seen; another nomination is another hang."""


def hang_of(
    preemptor: Preemptor, *, scheduler: str | None, victims_remain: bool, fits: Callable[[], bool], now: float
) -> Hang | None:
    """Judge one preemptor.

    Args:
        preemptor: as it was seen last.
        scheduler: of the policy that has the node; None where no policy has it, and then nothing there is ours to mend.
        victims_remain: a pod that the scheduler wants off the node is still on it.
        fits: whether there is room for it on the node that it was promised, and nothing but room decides.
        now: monotonic seconds.
    """
    waited = now - max(preemptor.last_left, preemptor.since)
    hangs = (
        preemptor.scheduler == scheduler
        and preemptor.unschedulable
        and not victims_remain
        and waited >= preemptor.patience_seconds
        and (preemptor.preempted or (preemptor.unseen and fits()))
    )
    if not hangs:
        return None
    return Hang(
        preemptor.namespace,
        preemptor.name,
        preemptor.uid,
        preemptor.resource_version,
        preemptor.node,
        preemptor.since,
    )
