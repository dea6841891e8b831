"""ReplicaSets that have fewer placeholders than planned for a moment, because some were evicted for a burst.

A ReplicaSet goes through three states: stopped (its controller creates no pods), lowered, and resumed. The next plan
raises a resumed one like any other. While it is suspended, the planning loop sees it as it was before.
Nothing is stored outside of this process. After a crash in any state, an ordinary plan finds a count too low or a
template that is not as applied, and corrects it. Owned by the evictor's thread.
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
"""The longest suspension: endless bursts must not keep slack from being recreated."""
GIVE_UP_SECONDS = 5.0
"""Of trying; then the ReplicaSet is left to the next plan."""


@dataclass(slots=True)
class Suspension:
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


class Suspensions:
    """By name of the ReplicaSet."""

    def __init__(self) -> None:
        self.by_name: dict[str, Suspension] = {}

    def begin_suspension(self, own: OwnReplicaSet, known: Set[str], now: float) -> None:
        """A ReplicaSet is stopped; `known`: the uids of its placeholders before."""
        suspension = self.by_name.get(own.metadata.name)
        if suspension is None or suspension.before.metadata.uid != own.metadata.uid:
            spec = own.spec
            replicas = spec.replicas if spec is not None and spec.replicas is not None else 1
            suspension = self.by_name[own.metadata.name] = Suspension(own, replicas, now, known)
        suspension.stopped, suspension.touched, suspension.not_before = True, now, now + SETTLE_SECONDS

    def record_eviction(self, name: str, uid: str, now: float) -> None:
        """One of its placeholders made way; where it could not be stopped another is made already."""
        suspension = self.by_name.get(name)
        if suspension is None or not suspension.stopped:
            return
        suspension.gone += uid in suspension.known  # what was made anew was never asked for
        suspension.touched = now
        if now - suspension.since < LONGEST_SECONDS:  # else those that leave one after the other would keep it stopped
            suspension.not_before = now + SETTLE_SECONDS

    def is_stopped(self, name: str) -> bool:
        """Whether nothing is made anew for a ReplicaSet."""
        suspension = self.by_name.get(name)
        return suspension is not None and suspension.stopped

    def to_lower(self, now: float) -> list[Suspension]:
        """Return those that are to be lowered now."""
        return [
            suspension for suspension in self.by_name.values() if suspension.stopped and suspension.not_before <= now
        ]

    def waits_to_be_seen(self, suspension: Suspension, seen: int | None, alive: int, now: float) -> bool:
        """Wait a little more, and return True, where the controller has not seen all deletions yet.

        Lowered before, it would delete as many more of its own choice.

        Args:
            suspension: is to be lowered now.
            seen: pods that the controller knows of, by its last status; None: it has none.
            alive: pods that there are.
            now: monotonic seconds.
        """
        late = now - suspension.touched >= UNSEEN_SECONDS or now - suspension.since >= LONGEST_SECONDS
        if late or (seen is not None and seen <= alive):
            return False
        suspension.not_before = now + SETTLE_SECONDS
        return True

    def next_due(self) -> float | None:
        """Return when the next is to be lowered."""
        return min((suspension.not_before for suspension in self.by_name.values() if suspension.stopped), default=None)
