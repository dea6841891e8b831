"""What the analyser made of the last fetch, as whoever asks is told: the watcher serves it, `show` prints it."""

import msgspec

from slack.errors import InvalidInput
from slack.loadwatcher.payload import MetricType

MOST_NAMED = 1000
"""Of each list: enough to see what is wrong."""


class DroppedSeries(msgspec.Struct, frozen=True):
    """A series that is not told."""

    series: str
    """The provider's name for the node."""
    node: str | None
    type: MetricType
    reason: str
    """A `Fault`; a watcher of another version may have others."""
    detail: str


class Verdicts(msgspec.Struct, frozen=True):
    """Of one fetch."""

    source: str
    fetched_at: int
    """When the newest good fetch was made, in Unix seconds."""
    error: str | None
    """Why the last fetch failed; None when it did not."""
    dropped: tuple[DroppedSeries, ...]
    unmatched: tuple[str, ...]
    """Names of series that no node goes by, or more than one does."""
    unknown: tuple[str, ...]
    """Nodes of the cluster of which nothing is told."""


_DECODER = msgspec.json.Decoder(Verdicts)


class InvalidVerdicts(InvalidInput):
    """An answer that no load watcher of ours gives."""


def encode(verdicts: Verdicts) -> bytes:
    """Return them as JSON."""
    return msgspec.json.encode(verdicts)


def decode(data: bytes) -> Verdicts:
    """Read what a watcher serves.

    Raises:
        InvalidVerdicts: it is something else.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidVerdicts(f"no analysis of a load watcher: {str(error)[:200]}") from None
