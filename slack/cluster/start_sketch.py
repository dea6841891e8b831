"""How long pods took to become Ready, folded into few numbers: percentiles and means of about the last hour.

A sketch counts in buckets that grow by a seventh, so that a percentile is right within 7 %, and keeps two halves of an
hour: the older one is forgotten when the younger is full. A workload of many pods takes as much memory as one of few:
at most 110 buckets. Pure; owned by whoever feeds it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

HALF_SECONDS = 1800.0
_LEAST_SECONDS = 0.01
_GROWTH = 8 / 7
_MOST_BUCKETS = 110


@dataclass(frozen=True, slots=True)
class ReadyFigures:
    """What a sketch says; seconds are since a pod was made, and means but for the percentiles."""

    pods: int
    bound_seconds: float
    image_seconds: float | None
    """Of pods of which the kubelet said when their images were there."""
    started_seconds: float
    ready_seconds: float
    ready_p50_seconds: float
    ready_p99_seconds: float
    pulling_pods: int
    """How many had to wait for a pull."""
    pull_seconds: float
    """Of those."""
    pulled_bytes: int
    """Of all of them together."""

    def __str__(self) -> str:
        """As it is shown: `p50 3.1 s, p99 41 s; 12 of 40 pods pulled images: 6.1 GB in all, 38 s each`."""
        text = f"p50 {seconds_text(self.ready_p50_seconds)}, p99 {seconds_text(self.ready_p99_seconds)}"
        if not self.pulling_pods:
            return text
        size = f"{bytes_text(self.pulled_bytes)} in all, " if self.pulled_bytes else ""
        count = f"{self.pulling_pods} of {self.pods} pods pulled images"
        return f"{text}; {count}: {size}{seconds_text(self.pull_seconds)} each"


@dataclass(slots=True)
class _Half:
    began_at: float
    pods: int = 0
    bound: float = 0.0
    image: float = 0.0
    images: int = 0
    started: float = 0.0
    ready: float = 0.0
    pull: float = 0.0
    pulls: int = 0
    pulled_bytes: int = 0
    buckets: dict[int, int] = field(default_factory=dict)


class ReadySketch:
    """The starts of one policy or workload."""

    __slots__ = ("_halves",)

    def __init__(self) -> None:
        self._halves: list[_Half] = []

    def add_start(
        self,
        at: float,
        *,
        bound_seconds: float,
        image_seconds: float | None,
        started_seconds: float,
        ready_seconds: float,
        pull_seconds: float,
        pulled_bytes: int,
    ) -> None:
        """Count a pod that became Ready at `at`, monotonic seconds."""
        if not self._halves or at - self._halves[-1].began_at >= HALF_SECONDS:
            fresh = [half for half in self._halves if at - half.began_at < 2 * HALF_SECONDS]
            self._halves = [*fresh[-1:], _Half(at)]
        half = self._halves[-1]
        half.pods += 1
        half.bound += bound_seconds
        half.started += started_seconds
        half.ready += ready_seconds
        if image_seconds is not None:
            half.image += image_seconds
            half.images += 1
        if pull_seconds > 0:
            half.pull += pull_seconds
            half.pulls += 1
            half.pulled_bytes += pulled_bytes
        bucket = _bucket_of(ready_seconds)
        half.buckets[bucket] = half.buckets.get(bucket, 0) + 1

    def figures(self) -> ReadyFigures | None:
        """Return what is known; None before the first pod."""
        halves = self._halves
        pods = sum(half.pods for half in halves)
        if not pods:
            return None
        images, pulls = sum(half.images for half in halves), sum(half.pulls for half in halves)
        return ReadyFigures(
            pods=pods,
            bound_seconds=sum(half.bound for half in halves) / pods,
            image_seconds=sum(half.image for half in halves) / images if images else None,
            started_seconds=sum(half.started for half in halves) / pods,
            ready_seconds=sum(half.ready for half in halves) / pods,
            ready_p50_seconds=self._percentile_seconds(0.5, pods),
            ready_p99_seconds=self._percentile_seconds(0.99, pods),
            pulling_pods=pulls,
            pull_seconds=sum(half.pull for half in halves) / pulls if pulls else 0.0,
            pulled_bytes=sum(half.pulled_bytes for half in halves),
        )

    def _percentile_seconds(self, share: float, pods: int) -> float:
        rank = max(1, math.ceil(share * pods))
        for bucket, count in self._counts():
            rank -= count
            if rank <= 0:
                return _seconds_of(bucket)
        raise AssertionError("a bucket for each pod")

    def _counts(self) -> Iterator[tuple[int, int]]:
        for bucket in sorted({bucket for half in self._halves for bucket in half.buckets}):
            yield bucket, sum(half.buckets.get(bucket, 0) for half in self._halves)


def _bucket_of(seconds: float) -> int:
    if seconds <= _LEAST_SECONDS:
        return 0
    return min(_MOST_BUCKETS, 1 + int(math.log(seconds / _LEAST_SECONDS) / math.log(_GROWTH)))


def _seconds_of(bucket: int) -> float:
    """Return the middle of a bucket, on the scale that buckets grow by."""
    return _LEAST_SECONDS * _GROWTH ** (bucket - 0.5) if bucket else 0.0


def seconds_text(seconds: float) -> str:
    """Return seconds for people: `0.1 s`, `41 s`."""
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def bytes_text(size: int) -> str:
    """Return a size as registries show it: `52 MB`, `6.1 GB`."""
    megabytes = size / 1e6
    if megabytes < 999.5:
        return f"{megabytes:.1f} MB" if megabytes < 9.95 else f"{megabytes:.0f} MB"
    return f"{megabytes / 1e3:.1f} GB" if megabytes < 9950 else f"{megabytes / 1e3:.0f} GB"
