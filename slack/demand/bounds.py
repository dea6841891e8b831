"""What figures of others may be: those of a line of `demand decide`, of a recording, and of what stands in them.

The dataclasses of the rules bear these types too. They cost nothing where a value is made by our own code, for only
msgspec looks at them, and where one is read from a file it is refused with its field. The bounds are far beyond what is
ever so; they keep the rules' arithmetic away from what is no number, and from a division by nothing.
"""

from typing import Annotated, Final

from msgspec import Meta

MOST_MESSAGES: Final = 1 << 40
MOST_CONTAINERS: Final = 1 << 24
MOST_SECONDS: Final = 1e9
MOST_CONCURRENCY: Final = 100_000
LEAST_WINDOW_MS: Final = 1.0
"""A shorter stale window is a slip of the unit: no container runs anything within it."""

Messages = Annotated[int, Meta(ge=0, le=MOST_MESSAGES)]
Total = Annotated[int, Meta(ge=0)]
"""Of messages, ever; some brokers count with 64 bits."""
Amount = Annotated[int, Meta(ge=0)]
"""Of CPU or memory."""
Containers = Annotated[int, Meta(ge=0, le=MOST_CONTAINERS)]
Concurrency = Annotated[int, Meta(ge=1, le=MOST_CONCURRENCY)]
Milliseconds = Annotated[float, Meta(ge=0, le=MOST_SECONDS * 1000)]
WindowMilliseconds = Annotated[float, Meta(ge=LEAST_WINDOW_MS, le=MOST_SECONDS * 1000)]
Seconds = Annotated[float, Meta(ge=0, le=MOST_SECONDS)]
WindowSeconds = Annotated[float, Meta(ge=LEAST_WINDOW_MS / 1000, le=MOST_SECONDS)]
Instant = Annotated[float, Meta(ge=-1e12, le=1e12)]
"""On any clock."""
Ratio = Annotated[float, Meta(ge=1, le=1000)]
"""How many times a limit may be exceeded."""
Weight = Annotated[float, Meta(ge=1e-6, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Percentile = Annotated[float, Meta(ge=0, le=100)]


def by_field(text: str) -> str:
    """Return a complaint of msgspec's with the field's path before it, as all of ours are."""
    what, found, path = text.partition(" - at `$.")
    return f"{path.rstrip('`')}: {what}" if found else text
