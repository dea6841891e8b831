"""Unix time that goes on evenly, however the machine's clock is set meanwhile."""

import time
from collections.abc import Callable

from slack.kube.lease import steady_seconds


def steady(wall: Callable[[], float] = time.time, clock: Callable[[], float] = steady_seconds) -> Callable[[], float]:
    """Return a clock of Unix seconds that begins at the machine's time and never jumps."""
    ahead = wall() - clock()
    return lambda: ahead + clock()
