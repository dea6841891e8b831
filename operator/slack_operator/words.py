"""What autoscalers and admission have said about placeholders, read from the Events of our own namespace.

The Cluster Autoscaler and Karpenter speak through Events on pods, the ReplicaSet controller through Events on
ReplicaSets. kube-scheduler's FailedScheduling is no word about nodes to come and is left out. Owned by the view, under
its lock.
"""

from collections.abc import Iterable

from slack.cluster.wire import Event
from slack.planner.outcome import Answer, AutoscalerWord

KEEP_SECONDS = 3600.0
"""As long as the API server keeps Events; a word that nobody repeats for so long is no longer true."""
MAX_MESSAGE = 300

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


def word_of(event: Event, now: float) -> AutoscalerWord | None:
    """Read one Event; None when it is no word about placeholders."""
    about = event.involved_object
    if about is None or not about.name:
        return None
    reason, message = event.reason or "", event.message or ""
    source = event.reporting_component or (event.source.component if event.source else None) or ""
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
        if reason == "FailedCreate" and "exceeded quota" in message:
            answer = Answer.QUOTA
    if answer is None or not name:
        return None
    moment = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return AutoscalerWord(name, answer, message[:MAX_MESSAGE], moment.timestamp() if moment else now)


class Words:
    """The latest word about each ReplicaSet."""

    def __init__(self) -> None:
        self._latest: dict[str, AutoscalerWord] = {}

    def hear(self, event: Event, now: float) -> bool:
        """Take one Event; True when it is news."""
        word = word_of(event, now)
        if word is None:
            return False
        known = self._latest.get(word.replica_set)
        if known is not None and known.seen_seconds > word.seen_seconds:
            return False  # a list comes in no order of time
        self._latest[word.replica_set] = word
        return word != known

    def about(self, replica_sets: Iterable[str], now: float) -> tuple[AutoscalerWord, ...]:
        """Return the words that still count, and forget those about ReplicaSets that are gone."""
        alive = set(replica_sets)
        self._latest = {
            name: word
            for name, word in self._latest.items()
            if name in alive and now - word.seen_seconds < KEEP_SECONDS
        }
        return tuple(self._latest[name] for name in sorted(self._latest))
