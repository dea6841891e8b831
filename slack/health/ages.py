"""How long ago something was, as kubectl writes it."""

from datetime import datetime


def duration(seconds: float) -> str:
    """Write an age as kubectl does: 40s, 12m, 5h, 3d."""
    for size, unit, least in ((86400, "d", 2 * 86400), (3600, "h", 2 * 3600), (60, "m", 120)):
        if seconds >= least:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def age_text(since: str, now: float) -> str | None:
    """Return how long ago a time was; None where it is none, for anybody may have written it.

    Args:
        since: RFC 3339.
        now: Unix seconds.
    """
    try:
        return duration(now - datetime.fromisoformat(since).timestamp())
    except ValueError:
        return None
