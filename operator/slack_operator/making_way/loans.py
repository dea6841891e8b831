"""ReplicaSets that have fewer placeholders than planned for a moment, because some of them made way.

A ReplicaSet goes through three states: stopped (nothing is made anew), lowered, and given back, after which the next
plan raises it as it raises any other. While it is lent the loop is shown it as it was before, and writes nothing to it.
Nothing of this is kept anywhere but here: after a crash in any state an ordinary plan finds a count too low, or a
template that is not as applied, and puts it right. Owned by the thread that makes way.
"""

from dataclasses import dataclass

from slack.cluster.wire import OwnReplicaSet

SETTLE_SECONDS = 0.1
"""After the last deletion was acknowledged: by then the ReplicaSet's controller has seen it, too."""
TRY_SECONDS = 0.5
"""Before a write that was refused is made again."""
LONGEST_SECONDS = 30.0
"""Of a loan: bursts without end do not keep slack from being made for ever."""
GIVE_UP_SECONDS = 5.0
"""Of trying; then the ReplicaSet is left to the next plan."""


@dataclass(slots=True)
class Loan:
    """One ReplicaSet."""

    before: OwnReplicaSet
    """As it was planned."""
    replicas: int
    """What it asked for then."""
    since: float
    gone: int = 0
    """How many of its placeholders made way."""
    touched: float = 0.0
    """When the last of them was deleted."""
    stopped: bool = True
    """Its template is still the one that nothing is made of."""
    not_before: float = 0.0
    """Of the write that lowers it."""


class Loans:
    """By name of the ReplicaSet."""

    def __init__(self) -> None:
        self.lent: dict[str, Loan] = {}

    def begin(self, own: OwnReplicaSet, now: float) -> None:
        """A ReplicaSet is stopped."""
        loan = self.lent.get(own.metadata.name)
        if loan is None or loan.before.metadata.uid != own.metadata.uid:
            spec = own.spec
            replicas = spec.replicas if spec is not None and spec.replicas is not None else 1
            loan = self.lent[own.metadata.name] = Loan(own, replicas, now)
        loan.stopped, loan.touched, loan.not_before = True, now, now + SETTLE_SECONDS

    def went(self, name: str, now: float) -> None:
        """One of its placeholders made way; where it could not be stopped another is made already."""
        loan = self.lent.get(name)
        if loan is None or not loan.stopped:
            return
        loan.gone += 1
        loan.touched = now
        if now - loan.since < LONGEST_SECONDS:  # else those that leave one after the other would keep it stopped
            loan.not_before = now + SETTLE_SECONDS

    def is_stopped(self, name: str) -> bool:
        """Whether nothing is made anew for a ReplicaSet."""
        loan = self.lent.get(name)
        return loan is not None and loan.stopped

    def to_lower(self, now: float) -> list[Loan]:
        """Return those that are to be lowered now."""
        return [loan for loan in self.lent.values() if loan.stopped and loan.not_before <= now]

    def next_due(self) -> float | None:
        """Return when the next is to be lowered."""
        return min((loan.not_before for loan in self.lent.values() if loan.stopped), default=None)
