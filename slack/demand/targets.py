"""What slack should hold for a pool: what it is short of keeping warm, what it grows by, what it once grew by.

The lag itself gives no lead over pods that wait for nodes already, and those are never held for: they drive the
autoscaler. What helps is history: the growth of what is wanted, carried on for as long as a node takes to start, and
the percentile of what was wanted more within one such time. The target rises at once and falls after ten minutes.
"""

from collections import deque
from math import ceil

from slack.demand.model import DemandSettings, PoolTarget

BUCKET_SECONDS = 10.0
LOWER_AFTER_SECONDS = 600.0
_MOST_BUCKETS = 61_000
"""A window of a week."""


class DemandHistory:
    """How many containers a pool wanted, in steps of ten seconds."""

    __slots__ = ("_bucket", "_highest", "_increments", "_peak", "_targets", "_wanted")

    def __init__(self) -> None:
        """Nothing was wanted yet."""
        self._bucket: int | None = None
        self._highest = 0
        self._peak = 0
        self._wanted: deque[int] = deque()
        """The highest of each of the last buckets, one horizon of them and one more."""
        self._increments: deque[int] = deque()
        """By how much it was exceeded within the horizon after it, for each bucket of the window."""
        self._targets: deque[tuple[int, int]] = deque()
        """(bucket, target), falling: the highest of the last ten minutes is the first."""

    def observe(
        self,
        now_seconds: float,
        wanted: int,
        horizon_seconds: float,
        settings: DemandSettings,
        *,
        before: int | None = None,
    ) -> bool:
        """Take what is wanted now; return whether a step of ten seconds was ended by it.

        `before`: what was wanted before now, which counts at the first look alone: a new pool's first burst is a rise
        from nothing, and what a new leader finds is none.
        """
        bucket = int(now_seconds // BUCKET_SECONDS)
        if self._bucket is None and before is not None:
            self._wanted.append(before)
        if self._bucket is None or bucket < self._bucket:
            self._bucket, self._highest = bucket, wanted
            self._targets = deque((min(at, bucket), target) for at, target in self._targets)
            return False
        steps = bucket - self._bucket
        if not steps:
            self._highest = max(self._highest, wanted)
            return False
        for missed in range(min(steps, _MOST_BUCKETS)):
            self._close(self._highest if not missed else wanted, horizon_seconds, settings)
        self._bucket, self._highest = bucket, wanted
        # Sorted once a step, not at each tick: a window of two hours has 720 steps.
        rises = sorted(self._increments)
        self._peak = rises[max(ceil(settings.percentile / 100 * len(rises)) - 1, 0)] if rises else 0
        return True

    def _close(self, highest: int, horizon_seconds: float, settings: DemandSettings) -> None:
        within = _buckets(horizon_seconds)
        self._wanted.append(highest)
        while len(self._wanted) > within + 1:
            self._wanted.popleft()
        if len(self._wanted) == within + 1:
            self._increments.append(max(self._wanted) - self._wanted[0])
        while len(self._increments) > _buckets(settings.window_seconds):
            self._increments.popleft()

    def growth(self, wanted: int) -> int:
        """Return what is wanted more than one horizon ago: as much again if it goes on as it does."""
        return max(wanted - self._wanted[0], 0) if self._wanted else 0

    @property
    def peak_increment(self) -> int:
        """The percentile of what was wanted more within one horizon, over the window."""
        return self._peak

    def held(self, target: int) -> int:
        """Return the target as it is told: the highest of the last ten minutes."""
        bucket = self._bucket or 0
        while self._targets and self._targets[-1][1] <= target:
            self._targets.pop()
        self._targets.append((bucket, target))
        while self._targets[0][0] < bucket - LOWER_AFTER_SECONDS / BUCKET_SECONDS:
            self._targets.popleft()
        return self._targets[0][1]

    @property
    def quiet(self) -> bool:
        """Whether nothing was wanted in the whole window, and nothing is held."""
        return not any(self._wanted) and not any(self._increments) and not any(item[1] for item in self._targets)


def _buckets(seconds: float) -> int:
    return max(ceil(seconds / BUCKET_SECONDS), 1)


def target_of(
    history: DemandHistory,
    settings: DemandSettings,
    *,
    wanted: int,
    unmet: int,
    keep_warm_shortfall: int,
    room: int,
) -> PoolTarget:
    """Return what a pool needs; `room`: containers that its limits still leave beyond what is wanted.

    The larger of the three, never their sum, and never more than there is room for: a placeholder for a container that
    no limit would let come is of no use.
    """
    growth, peak = history.growth(wanted), history.peak_increment
    slack = history.held(max(keep_warm_shortfall, growth, peak)) if settings.publish else 0
    return PoolTarget(
        wanted=wanted,
        unmet=unmet,
        growth=growth,
        peak_increment=peak,
        slack_pods=min(slack, max(room, 0)),
    )
