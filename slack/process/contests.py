"""Fights over fields of ours: who writes them, how often we took them back, and when to give in for a while.

What is ours is taken back at once, each time, and the first time it is told whose write it was. Only when the same
writer has written it back five times within ten minutes it is left to him: for ten minutes, and twice as long each time
that he answers the next try as well, up to two hours. A writer who is quiet for ten minutes is forgotten. The memory is
bounded: the writers that were seen longest ago go first. Owned by the loop's thread; the time comes in. A part is a
word of the caller's for what can be taken from its objects.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

P = TypeVar("P", bound=str)

WRITES_BACK = 5
WINDOW_SECONDS = 600.0
LONGEST_SECONDS = 7200.0
MOST = 256
"""Contests in memory."""


class Verdict(Enum):
    """What to do about a write of somebody else's."""

    TAKE_AND_TELL = "take and tell"
    TAKE = "take"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Contest(Generic[P]):
    """What somebody keeps on writing, and is left alone now."""

    subject: str
    part: P
    writer: str
    pause_seconds: float
    """From one try to the next."""


@dataclass(slots=True)
class _Fight:
    taken: list[float] = field(default_factory=list)
    """When it was taken back, within the window."""
    until: float = 0.0
    """Until when it is left alone; 0 while it is not."""
    pause_seconds: float = 0.0
    """How long it is left alone this time."""
    held: int = 0
    """How many times it was left alone so far."""
    last: float = 0.0


class Contests(Generic[P]):
    """See the module's docstring.

    >>> contests = Contests[str]()
    >>> contests.written("slack-web-1a2b3c4d", "replicas", "kubectl (scale)", now=0.0)
    <Verdict.TAKE_AND_TELL: 'take and tell'>
    """

    def __init__(self) -> None:
        self._fights: OrderedDict[tuple[str, P, str], _Fight] = OrderedDict()

    def written(self, subject: str, part: P, writer: str, now: float, *, most: int = WRITES_BACK) -> Verdict:
        """Somebody has written what is ours, and it is about to be taken back; say whether to.

        Args:
            subject: name of the object.
            part: of it.
            writer: as managedFields name him.
            now: monotonic seconds.
            most: how often it is taken back within the window before it is left alone.
        """
        key = (subject, part, writer)
        known = self._fights.get(key)
        fight = _Fight() if known is None or self._over(known, now) else known
        self._fights[key] = fight
        self._fights.move_to_end(key)
        if len(self._fights) > MOST:
            self._fights.popitem(last=False)
        if now < fight.until:
            return Verdict.LEAVE
        fight.last = now
        fight.taken = [at for at in fight.taken if now - at < WINDOW_SECONDS]
        if len(fight.taken) >= (1 if fight.held else most):
            fight.held += 1
            fight.pause_seconds = min(WINDOW_SECONDS * 2 ** (fight.held - 1), LONGEST_SECONDS)
            fight.until = now + fight.pause_seconds
            fight.taken = []
            return Verdict.LEAVE
        fight.taken.append(now)
        return Verdict.TAKE if known is fight else Verdict.TAKE_AND_TELL

    def standing(self, now: float) -> tuple[Contest[P], ...]:
        """Return what is left alone now, by object and part."""
        found = [
            Contest(subject, part, writer, fight.pause_seconds)
            for (subject, part, writer), fight in self._fights.items()
            if now < fight.until
        ]
        return tuple(sorted(found, key=lambda contest: (contest.subject, contest.part, contest.writer)))

    def held(self, now: float) -> Mapping[str, frozenset[P]]:
        """Return by object which parts are left alone now."""
        parts: dict[str, frozenset[P]] = {}
        for contest in self.standing(now):
            parts[contest.subject] = parts.get(contest.subject, frozenset()) | {contest.part}
        return parts

    @staticmethod
    def _over(fight: _Fight, now: float) -> bool:
        """Whether the last try, or the last write taken back, was left standing for a whole window."""
        return now - max(fight.last, fight.until) >= WINDOW_SECONDS
