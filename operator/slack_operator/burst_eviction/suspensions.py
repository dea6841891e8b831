"""ReplicaSets that have fewer placeholders than planned for a moment, because some of them made way.

A ReplicaSet goes through three states: stopped (nothing is made anew), lowered, and given back, after which the next
plan raises it as it raises any other. While it is lent the loop is shown it as it was before, and writes nothing to it.
Nothing of this is kept anywhere but here: after a crash in any state an ordinary plan finds a count too low, or a
template that is not as applied, and puts it right. Owned by the thread that makes way.
"""

from collections.abc import Set
from dataclasses import dataclass

from slack.cluster.wire import OwnReplicaSet

SETTLE_SECONDS = 0.1
"""After the last deletion was acknowledged: by then the ReplicaSet's controller has mostly seen it, too."""
UNSEEN_SECONDS = 4.0
"""Where its status does not say that it has seen them: as long is waited for that, and no longer. On a server whose
watches lag the controller was a second and a half late; status writes queue behind a burst's own pods."""
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
    known: Set[str]
    """The uids of its placeholders then, and not of what is made anew until its controller has seen the stop."""
    gone: int = 0
    """How many of these made way."""
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

    def begin(self, own: OwnReplicaSet, known: Set[str], now: float) -> None:
        """A ReplicaSet is stopped; `known`: the uids of its placeholders before."""
        loan = self.lent.get(own.metadata.name)
        if loan is None or loan.before.metadata.uid != own.metadata.uid:
            spec = own.spec
            replicas = spec.replicas if spec is not None and spec.replicas is not None else 1
            loan = self.lent[own.metadata.name] = Loan(own, replicas, now, known)
        loan.stopped, loan.touched, loan.not_before = True, now, now + SETTLE_SECONDS

    def went(self, name: str, uid: str, now: float) -> None:
        """One of its placeholders made way; where it could not be stopped another is made already."""
        loan = self.lent.get(name)
        if loan is None or not loan.stopped:
            return
        loan.gone += uid in loan.known  # what was made anew was never asked for
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

    def waits_to_be_seen(self, loan: Loan, seen: int | None, alive: int, now: float) -> bool:
        """Wait a little more, and return True, where the controller has not seen all deletions yet.

        Lowered before, it would delete as many more of its own choice.

        Args:
            loan: is to be lowered now.
            seen: pods that the controller knows of, by its last status; None: it has none.
            alive: pods that there are.
            now: monotonic seconds.
        """
        late = now - loan.touched >= UNSEEN_SECONDS or now - loan.since >= LONGEST_SECONDS
        if late or (seen is not None and seen <= alive):
            return False
        loan.not_before = now + SETTLE_SECONDS
        return True

    def next_due(self) -> float | None:
        """Return when the next is to be lowered."""
        return min((loan.not_before for loan in self.lent.values() if loan.stopped), default=None)
