"""What autoscalers and admission have said about placeholders, read from the Events of our own namespace.

The Cluster Autoscaler and Karpenter speak through Events on pods, the ReplicaSet controller through Events on
ReplicaSets. kube-scheduler's FailedScheduling is no word about nodes to come and is left out. Owned by the view, under
its lock.
"""

from collections.abc import Iterable

from slack.cluster.labels import CREATION_BLOCK, SUSPENDED_PRIORITY_CLASS
from slack.cluster.wire import Event
from slack.planner.model.result import Answer, AutoscalerEvent

KEEP_SECONDS = 3600.0
"""As long as the API server keeps Events; a word that nobody repeats for so long is no longer true."""
MAX_MESSAGE = 300
MOST = 5000
"""ReplicaSets that something was said of; while nobody asks, the first of them are forgotten."""

CLUSTER_AUTOSCALER_SOURCE = "cluster-autoscaler"
_LIMITS = (
    "max node group size reached",
    "max total nodes in cluster reached",
    "max cluster",
    "exceed limits for nodepool",
    "exceeded limits for nodepool",
    "limits exceeded",
)
"""Parts of refusals that name a ceiling: cluster-autoscaler NotTriggerScaleUp, Karpenter FailedScheduling."""
_AUTOSCALER = {
    "TriggeredScaleUp": Answer.TRIGGERED,
    "NotTriggerScaleUp": Answer.REFUSED,
    "MaxNodesTotalReached": Answer.LIMIT,
    "ScaleUpFailed": Answer.REFUSED,
    "FailedToScaleUpGroup": Answer.REFUSED,
    "ScaleUpTimedOut": Answer.REFUSED,
}


def autoscaler_event(event: Event, now: float) -> AutoscalerEvent | None:
    """Read one Event; None when it is no word about placeholders."""
    about = event.involved_object
    if about is None or not about.name:
        return None
    reason, message, source = event.reason or "", event.message or "", source_of(event)
    answer: Answer | None = None
    if about.kind == "Pod":
        name = about.name.rpartition("-")[0]  # the ReplicaSet controller adds -xxxxx
        if source == "karpenter":
            answer = {"Nominated": Answer.TRIGGERED, "FailedScheduling": Answer.REFUSED}.get(reason)
        else:
            answer = _AUTOSCALER.get(reason)
        if answer is Answer.REFUSED and any(part in message.lower() for part in _LIMITS):
            answer = Answer.LIMIT
    elif about.kind == "ReplicaSet":
        name = about.name
        if reason == "FailedCreate" and "exceeded quota" in message and not _is_own_refusal(message):
            answer = Answer.QUOTA
    if answer is None or not name:
        return None
    return AutoscalerEvent(name, answer, message[:MAX_MESSAGE], _moment(event, now))


def _is_own_refusal(message: str) -> bool:
    """Whether the operator stopped the ReplicaSet: while it frees capacity, or by its own quota."""
    return CREATION_BLOCK in message or SUSPENDED_PRIORITY_CLASS in message


def source_of(event: Event) -> str:
    """Name the component that wrote an Event, '' where it does not say."""
    return event.reporting_component or (event.source.component if event.source else None) or ""


def _moment(event: Event, now: float) -> float:
    moment = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return moment.timestamp() if moment else now


class AutoscalerEvents:
    """The latest scale-up, and the latest other event, about each ReplicaSet."""

    def __init__(self) -> None:
        self.heard_seconds: float | None = None
        """When Cluster Autoscaler last wrote an Event about a pod here (Unix time); None where it has written none."""
        self._latest: dict[tuple[str, bool], AutoscalerEvent] = {}
        """By ReplicaSet and whether it is a scale-up: of its pods some may bring a node and others be refused."""
        self._refusals: dict[str, tuple[str, float]] = {}
        """By ReplicaSet: why its last pod was refused, apart from quotas, and when (Unix time)."""

    def observe(self, event: Event, now: float) -> bool:
        """Take one Event; True when it is news."""
        about = event.involved_object
        text, is_refusal = event.message or "", event.reason == "FailedCreate"
        if about is not None and about.kind == "ReplicaSet" and is_refusal and not _is_own_refusal(text):
            self._refuse(about.name or "", text, _moment(event, now))
        if about is not None and about.kind == "Pod" and source_of(event) == CLUSTER_AUTOSCALER_SOURCE:
            self.heard_seconds = max(self.heard_seconds or 0.0, _moment(event, now))
        found = autoscaler_event(event, now)
        return found is not None and self.add_event(found)

    def add_event(self, found: AutoscalerEvent) -> bool:
        """Take what was said; True when it is news."""
        key = found.replica_set, found.answer is Answer.TRIGGERED
        known = self._latest.get(key)
        if known is not None and known.seen_seconds > found.seen_seconds:
            return False  # a list comes in no order of time
        self._latest[key] = found
        if len(self._latest) > MOST:
            del self._latest[next(iter(self._latest))]
        return found != known

    def refusals(self, replica_sets: Iterable[str], now: float) -> dict[str, str]:
        """Return by ReplicaSet why its last pod was refused, and forget those that are gone and what is old."""
        alive = set(replica_sets)
        self._refusals = {
            name: (message, at)
            for name, (message, at) in self._refusals.items()
            if name in alive and now - at < KEEP_SECONDS
        }
        return {name: message for name, (message, _) in self._refusals.items()}

    def _refuse(self, replica_set: str, message: str, at: float) -> None:
        known = self._refusals.get(replica_set)
        if known is not None and known[1] > at:
            return
        self._refusals[replica_set] = message[:MAX_MESSAGE], at
        if len(self._refusals) > MOST:
            del self._refusals[next(iter(self._refusals))]

    def about(self, replica_sets: Iterable[str], now: float) -> tuple[AutoscalerEvent, ...]:
        """Return the events that still count, and forget those about ReplicaSets that are gone."""
        alive = set(replica_sets)
        self._latest = {
            key: event
            for key, event in self._latest.items()
            if event.replica_set in alive and now - event.seen_seconds < KEEP_SECONDS
        }
        return tuple(self._latest[key] for key in sorted(self._latest))
