"""The load: many small pods whose number moves, and bursts of large pods; seeded, so that both forms get the same."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.harness.api import Api, Json
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.objects import deployment, nodes, scale
from e2e.harness.pod_times import percentile
from e2e.harness.product import burst_log

SMALL, LARGE = "small", "large"
SMALL_PODS, SMALL_MILLIS = 120, 250
MOVES = 0.2
"""Between the fewest and the most small pods, of their mean."""
STEP_PODS, STEP_SECONDS = 6, 4.0
LARGE_PODS, LARGE_MILLIS = 6, 1500
BURST_EVERY_SECONDS, BURST_SECONDS = 60.0, 25.0
AT_ONCE_SECONDS = 2.0


def deployments() -> list[Json]:
    """Return the Deployments of both kinds of pods; the large ones without pods."""
    return [
        deployment(SMALL, SMALL_PODS, cpu=f"{SMALL_MILLIS}m", memory="256Mi"),
        deployment(LARGE, 0, cpu=f"{LARGE_MILLIS}m", memory="2Gi"),
    ]


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the pods of one kind waited for their node, in seconds, sorted."""

    seconds: tuple[float, ...]

    @property
    def at_once(self) -> float:
        """The share that was bound within two seconds."""
        return sum(wait <= AT_ONCE_SECONDS for wait in self.seconds) / len(self.seconds) if self.seconds else 0.0

    def percentile(self, percent: int) -> float:
        """Return a percentile."""
        return percentile(self.seconds, percent) if self.seconds else 0.0


def waits_of(entries: Sequence[AuditEntry], kind: str) -> Waits:
    """Return the waits of the pods of one Deployment that were created since the entries begin."""
    seen = burst_log.read(entries)
    return Waits(
        tuple(
            sorted(
                at - seen.created[name]
                for name, at in seen.bound.items()
                if name in seen.created and name.startswith(f"{kind}-")
            )
        )
    )


def play(api: Api, seconds: float, seed: int) -> float:
    """Move the load for so long; return the mean number of nodes."""
    chance, counted = random.Random(seed), _NodeCount(api)
    fewest, most = round(SMALL_PODS * (1 - MOVES / 2)), round(SMALL_PODS * (1 + MOVES / 2))
    small, began = SMALL_PODS, time.monotonic()
    step, burst, end = began, began + BURST_EVERY_SECONDS / 2, float("inf")
    with counted:
        while (now := time.monotonic()) - began < seconds:
            if now >= step:
                small = min(max(small + chance.randint(-STEP_PODS, STEP_PODS), fewest), most)
                scale(api, SMALL, small)
                step += STEP_SECONDS
            if now >= burst:
                scale(api, LARGE, LARGE_PODS)
                burst, end = burst + BURST_EVERY_SECONDS, now + BURST_SECONDS
            if now >= end:
                scale(api, LARGE, 0)
                end = float("inf")
            time.sleep(max(min(step, burst, end) - time.monotonic(), 0.05))
    scale(api, LARGE, 0)
    scale(api, SMALL, SMALL_PODS)
    return counted.mean


class _NodeCount:
    """Counts nodes once a second while it is open."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._counts: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="node-count", daemon=True)

    def __enter__(self) -> "_NodeCount":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def mean(self) -> float:
        """The mean of what was counted."""
        return sum(self._counts) / len(self._counts)

    def _follow(self) -> None:
        while True:
            self._counts.append(len(nodes(self._api)))
            if self._over.wait(1.0):
                return
