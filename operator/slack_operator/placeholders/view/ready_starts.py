"""From its node to Ready: pods that have just got a node are followed until they are Ready, then handed to the loop.

A pod is kept only while it is on its way, so that a cluster of 150,000 pods costs no more than one of few. Times are of
our monotonic clock, as those of `instant_starts`; how long pulls took is what the kubelet says. Owned by the view,
under its lock.
"""

from dataclasses import dataclass, field

from slack.cluster import wire
from slack.cluster.image_pulls import ImagePull
from slack.cluster.start_stages import has_started, ready_condition
from slack_operator.placeholders.view.instant_starts import Start

MAX_ON_THE_WAY = 20_000
"""Pods; the oldest is forgotten for one more."""
LONGEST_SECONDS = 7200.0
"""A pod that is not Ready after so long counts nowhere: it waits for something that no start takes."""
SETTLE_SECONDS = 2.0
"""A pod's Events come by another watch than the pod, and may be later than its being Ready."""
MOST_BYTES = 1 << 50
MAX_EVENTS = 100
"""Of one pod: its containers, and tries after failures."""


@dataclass(frozen=True, slots=True)
class ReadyStart:
    """One real pod that has become Ready; seconds are since it was made."""

    start: Start
    started_seconds: float
    """When all of its containers had started."""
    ready_seconds: float
    image_seconds: float | None
    """When its last image was there; None where no Event said so."""
    pull_seconds: float
    """What the kubelet says that its pulls took, added up and at most the time from its node to Ready."""
    pulled_bytes: int


@dataclass(slots=True)
class _OnTheWay:
    start: Start
    made_at: float
    started_at: float | None = None
    ready_at: float | None = None
    image_at: float | None = None
    pull_seconds: float = 0.0
    pulled_bytes: int = 0
    events: set[str] = field(default_factory=set)
    """uids of the Events that were taken."""


class ReadyStarts:
    """Pods with a node that are not Ready yet, by uid, and those that have become Ready since the last look."""

    def __init__(self) -> None:
        self.pods: dict[str, _OnTheWay] = {}

    def follow(self, uid: str, start: Start) -> None:
        """A pod that was seen without a node has got one."""
        self.pods[uid] = _OnTheWay(start, start.at - start.waited_seconds)
        if len(self.pods) > MAX_ON_THE_WAY:
            del self.pods[next(iter(self.pods))]

    def take_status(self, uid: str, status: wire.PodStatus | None, now: float) -> None:
        """Take the status of a pod that is on its way.

        Raises:
            ValueError: for conditions that cannot be read.
        """
        pod = self.pods[uid]
        if pod.started_at is None and has_started(status):
            pod.started_at = now
        if pod.ready_at is None and ready_condition(status) is not None:
            pod.ready_at = now

    def take_pull(self, event: wire.Event, pull: ImagePull, now: float) -> None:
        """Take what a kubelet says of an image of a pod.

        Whoever may write Events in one namespace can name a pod of another one: only those of its own count.
        """
        about = event.involved_object or wire.ObjectReference()
        pod = self.pods.get(about.uid or "")
        if pod is None or not about.namespace == event.metadata.namespace == pod.start.workload.namespace:
            return
        if event.metadata.uid in pod.events or len(pod.events) >= MAX_EVENTS:
            return  # a list repeats what a watch has shown
        pod.events.add(event.metadata.uid or "")
        pod.image_at = now if pod.ready_at is None else min(now, pod.ready_at)
        pod.pull_seconds += pull.seconds
        pod.pulled_bytes = min(pod.pulled_bytes + pull.size_bytes, MOST_BYTES)

    def forget(self, uid: str) -> None:
        """A pod that was deleted; one that never was Ready counts nowhere."""
        pod = self.pods.get(uid)
        if pod is not None and pod.ready_at is None:
            del self.pods[uid]

    def drain_starts(self, now: float) -> list[ReadyStart]:
        """Hand over the pods that are Ready and whose Events are surely there, and forget those that never will be."""
        settled = now - SETTLE_SECONDS
        ready = ((pod.ready_at, uid) for uid, pod in self.pods.items() if pod.ready_at is not None)
        found = [_ready_start(self.pods.pop(uid)) for _, uid in sorted(pair for pair in ready if pair[0] <= settled)]
        while self.pods and (first := next(iter(self.pods))) and self.pods[first].start.at < now - LONGEST_SECONDS:
            del self.pods[first]
        return found


def _ready_start(pod: _OnTheWay) -> ReadyStart:
    ready_at = pod.ready_at if pod.ready_at is not None else pod.start.at
    started_at = ready_at if pod.started_at is None else min(pod.started_at, ready_at)
    return ReadyStart(
        start=pod.start,
        started_seconds=max(0.0, started_at - pod.made_at),
        ready_seconds=max(0.0, ready_at - pod.made_at),
        image_seconds=None if pod.image_at is None else max(0.0, pod.image_at - pod.made_at),
        pull_seconds=min(pod.pull_seconds, max(0.0, ready_at - pod.start.at)),
        pulled_bytes=pod.pulled_bytes,
    )
