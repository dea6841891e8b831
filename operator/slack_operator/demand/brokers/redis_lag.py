"""What the figures of `redis_scripts.LAG` say of a queue, and what is remembered of it from one read to the next.

Only some queues are looked at closely in each read. Used by `RedisBroker`, for the queues that it has made; of others
nothing is remembered, for whoever may write the set of names may fill it.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from slack.demand.broker import QueueLag

FIGURES: Final = 5


class RedisFigures(NamedTuple):
    """One queue's part of what the script returns; -1 for what is not known."""

    length: int
    pending: int
    read: int
    oldest_millis: int
    lost: int
    """Entries in the stream that nobody will get; -1: it was not looked at."""


@dataclass(slots=True)
class _Known:
    """Of a queue."""

    lost: int = 0
    read: int = -1
    published: int = 0
    dropped: int = 0
    """Messages that were published, and dropped before anybody read them."""


class RedisLags:
    """The memory of one broker. Owned by one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def forget(self, queue: str) -> None:
        """Remember nothing of it."""
        self._known.pop(queue, None)

    def lag_of(self, queue: str, figures: RedisFigures, *, remembers: bool) -> QueueLag:
        """Return a queue's counters.

        Args:
            queue: its name.
            figures: what the script says of it.
            remembers: whether this process has made the queue.
        """
        known = self._known.setdefault(queue, _Known()) if remembers else _Known()
        in_flight = min(figures.pending, figures.length)
        backlog = figures.length - in_flight
        if figures.lost >= 0:
            known.lost = figures.lost
        known.lost = min(known.lost, backlog)
        backlog -= known.lost
        return QueueLag(
            backlog=backlog,
            in_flight=in_flight,
            delivered_total=figures.read if figures.read >= 0 else None,
            published_total=self._published(known, figures.read, backlog),
            oldest_age_seconds=figures.oldest_millis / 1000 if figures.oldest_millis >= 0 else None,
        )

    def _published(self, known: _Known, read: int, backlog: int) -> int | None:
        """Return what was published, which only ever grows while the stream lives: not what was read and what waits
        alone, for a trim takes away what nobody has read."""
        if read < 0:
            return None
        if read < known.read:
            known.published = known.dropped = 0  # another stream under the name
        known.read = read
        known.dropped = max(known.dropped, known.published - read - backlog)
        known.published = read + backlog + known.dropped
        return known.published
