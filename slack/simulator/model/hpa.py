"""HorizontalPodAutoscaler: ceil(current x metric / target), with tolerance, limits and stabilisation.

Rules of pkg/controller/podautoscaler: replica_calculator.go (pods that are not ready count as idle when scaling up) and
horizontal.go (the largest recommendation of the stabilisation window when scaling down; 4 pods or 100 % a period up).
"""

import math
from collections import deque

from slack.simulator.scenario.load import Hpa

_ROUNDING = 1e-9
"""Floats such as 1.1 - 1 must not miss the tolerance."""


def recommended_replicas(*, current: int, ready: int, load: float, target_per_pod: float, tolerance: float) -> int:
    """Return the replicas that the metric asks for; `current` when it says nothing.

    Args:
        current: spec.replicas.
        ready: pods that share the load.
        load: all of it.
        target_per_pod: what one pod should have.
        tolerance: a ratio within 1 -+ tolerance changes nothing.
    """
    if not ready:
        return current  # no metrics
    ratio = load / ready / target_per_pod
    if abs(1 - ratio) <= tolerance + _ROUNDING:
        return current
    unready = max(current - ready, 0)
    if ratio < 1 or not unready:
        return math.ceil(ratio * ready - _ROUNDING)
    ratio = load / (ready + unready) / target_per_pod
    if ratio < 1 or abs(1 - ratio) <= tolerance + _ROUNDING:
        return current
    return max(math.ceil(ratio * (ready + unready) - _ROUNDING), current)


class Scaler:
    """One HPA and its memory."""

    def __init__(self, spec: Hpa) -> None:
        self.spec = spec
        self._seen: deque[tuple[float, int]] = deque()

    def sync(self, now: float, *, current: int, ready: int) -> int:
        """Return spec.replicas from now on."""
        spec = self.spec
        wanted = recommended_replicas(
            current=current,
            ready=ready,
            load=spec.load.at(now),
            target_per_pod=spec.target_per_pod,
            tolerance=spec.tolerance,
        )
        if not self._seen:
            self._seen.append((now, current))
        while self._seen and self._seen[0][0] <= now - spec.downscale_stabilization_seconds:
            self._seen.popleft()
        self._seen.append((now, wanted))
        if wanted < current:
            wanted = min(max(count for _, count in self._seen), current)
        elif wanted > current:
            # the percentage is rounded up, or a few pods could never become more
            more = max(spec.scale_up_pods, -(-current * spec.scale_up_percent // 100))
            wanted = min(wanted, current + more)
        return max(spec.min_replicas, min(spec.max_replicas, wanted))
