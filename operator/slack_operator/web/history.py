"""The timeline of the page: the last samples of desired, reserved and pending, in rings that do not grow.

A step holds the worst of its seconds, so that slack which was short for a moment only is seen: the least that was
reserved and the most that was pending. Written by the planning loop's thread, read by the web server's.
"""

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

STEP_SECONDS = 5.0
DAY_STEP_SECONDS = 120.0
MAX_STEPS = 720
"""An hour of changes without a pause, longer otherwise; or a day."""
MAX_POLICIES = 20
"""Each has a line of its own; more are not told apart by eye."""


class Figures(NamedTuple):
    """One policy at one time."""

    desired_cpu_millis: int
    reserved_cpu_millis: int
    desired_memory_bytes: int
    reserved_memory_bytes: int
    pending: int

    def worst(self, later: "Figures") -> "Figures":
        """Merge with a later sample of the same step."""
        return Figures(
            later.desired_cpu_millis,
            min(self.reserved_cpu_millis, later.reserved_cpu_millis),
            later.desired_memory_bytes,
            min(self.reserved_memory_bytes, later.reserved_memory_bytes),
            max(self.pending, later.pending),
        )


class Timeline(msgspec.Struct, frozen=True, rename="camel"):
    """The history as columns."""

    at: list[float]
    """Unix time at which each step began."""
    policies: dict[str, list[Figures | None]]
    """One entry a step; None where the policy was not planned."""


class StepHistory:
    """A ring of steps."""

    def __init__(self, step_seconds: float = STEP_SECONDS) -> None:
        self._step_seconds = step_seconds
        self._lock = threading.Lock()
        self._steps: deque[tuple[float, dict[str, Figures]]] = deque(maxlen=MAX_STEPS)

    def add_sample(self, at: float, figures: Mapping[str, Figures]) -> None:
        """Take one sample; `at` is Unix time."""
        kept = {name: figures[name] for name in sorted(figures)[:MAX_POLICIES]}
        with self._lock:
            if self._steps and 0 <= at - self._steps[-1][0] < self._step_seconds:
                last = self._steps[-1][1]
                merged = {name: last[name].worst(step) if name in last else step for name, step in kept.items()}
                self._steps[-1] = (self._steps[-1][0], merged)
            else:
                self._steps.append((at, kept))

    def timeline(self) -> Timeline:
        """Return all steps, the oldest first."""
        with self._lock:
            steps = list(self._steps)
        names = sorted({name for _, figures in steps for name in figures})
        return Timeline([at for at, _ in steps], {name: [figures.get(name) for _, figures in steps] for name in names})
