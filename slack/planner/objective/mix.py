"""The shapes that come: pods by their requests, by hour of the day, faded, and never more than so many shapes."""

from collections.abc import Mapping

import numpy as np

from slack.planner.objective.amount import Requests
from slack.planner.objective.patterns import DAY, HOUR

MOST_SHAPES = 200
_SPARE = 56
"""So many more are kept between two clearings: to drop one at a time would cost a sort an event."""
_ROWS = MOST_SHAPES + _SPARE
_FADE_A_DAY = 0.87
_ALL_DAY = 0.2
"""The share of the whole day beside the hour's own: an hour is seen once a day."""
Hours = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Mix:
    """Pods that came, by requests and hour of the day."""

    def __init__(self) -> None:
        self.day = 0
        self._rows: dict[Requests, int] = {}
        self._sizes = np.zeros((_ROWS, 2))
        self._pods = np.zeros((_ROWS, 24), dtype=np.float32)

    @property
    def pods(self) -> dict[Requests, Hours]:
        """[24] pods by requests."""
        return {requests: self._pods[row] for requests, row in self._rows.items()}

    def put(self, requests: Requests, hours: Hours) -> None:
        """Set what came of one shape."""
        self._pods[self._row(requests)] = hours

    def came(self, arrived: Mapping[Requests, int], at_seconds: float) -> None:
        """Pods have come."""
        if not arrived:
            return
        day, hour = int(at_seconds // DAY), int(at_seconds % DAY // HOUR)
        if day != self.day:
            passed = max(day - self.day, 0) if self.day else 0  # a clock that was ahead has faded more already
            self._pods *= np.float32(_FADE_A_DAY ** min(passed, 100))
            self.day = day
        for requests, count in arrived.items():
            self._pods[self._row(requests), hour] += count

    def add_earlier(self, earlier: "Mix") -> None:
        """Take what came before as well."""
        if not self._rows:
            self.day = earlier.day
        passed = max(self.day - earlier.day, 0) if earlier.day else 0
        for requests, hours in earlier.pods.items():
            self._pods[self._row(requests)] += hours * np.float32(_FADE_A_DAY ** min(passed, 100))

    def clear_rarest(self) -> None:
        """Keep the most frequent shapes."""
        if len(self._rows) > MOST_SHAPES:
            found = self.pods
            kept = sorted(found, key=lambda requests: (-float(found[requests].sum()), requests))[:MOST_SHAPES]
            hours = np.array([found[requests] for requests in kept])
            self._rows, self._pods[:] = {}, 0
            for requests, row in zip(kept, hours, strict=True):
                self.put(requests, row)

    def _row(self, requests: Requests) -> int:
        row = self._rows.get(requests)
        if row is None:
            if len(self._rows) == _ROWS:
                self.clear_rarest()
            row = self._rows[requests] = len(self._rows)
            self._sizes[row] = requests
        return row

    def at(self, at_seconds: float) -> tuple[tuple[Requests, float], ...]:
        """Return how much of what comes at this hour is of each shape, to a power of two: plans need not move often."""
        if not self._rows:
            return ()
        hour = int(at_seconds % DAY // HOUR)
        table = self._pods[: len(self._rows)].astype(np.float64)
        weight = (1 - _ALL_DAY) * table[:, hour] + _ALL_DAY * table.mean(axis=1)
        total = float(weight.sum())
        if total <= 0:
            return ()
        shares = 2.0 ** np.round(np.log2(np.maximum(weight / total, 2.0**-12)))
        return tuple(sorted(zip(self._rows, shares.tolist(), strict=True)))

    def pod(self) -> tuple[float, float]:
        """Return what a pod requests on average; (0, 0) where none came."""
        counts = self._pods[: len(self._rows)].sum(axis=1, dtype=np.float64)
        total = float(counts.sum())
        if total <= 0:
            return (0.0, 0.0)
        mean = counts @ self._sizes[: len(counts)] / total
        return float(mean[0]), float(mean[1])
