"""For how long autoscalers have given no answer to unbound placeholders. Owned by the planning loop; `Forms` asks.

An answer is one of these, about a policy with placeholders that fit nowhere and that autoscalers were told of:

1. an Event of an autoscaler about one of its unbound ReplicaSets, also a refusal,
2. a new node,
3. more of its unbound placeholders that fit.

An Event shows that the autoscaler counts such pods, as long as it is kept. The other two only begin the wait anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slack.cluster.snapshot import Placeholder
from slack.planner.model.result import Answer
from slack_operator.placeholders.view.cluster_view import Observation

LEAST_SECONDS = 120.0
"""No autoscaler is taken for silent sooner, however fast nodes are: some scan once a minute."""
NODE_STARTS = 3
_OF_AUTOSCALERS = frozenset({Answer.TRIGGERED, Answer.REFUSED, Answer.LIMIT})


def silence_seconds(node_start_seconds: float) -> float:
    """Return after how long without an answer unbound placeholders count as ignored."""
    return max(NODE_STARTS * node_start_seconds, LEAST_SECONDS)


@dataclass(frozen=True, slots=True)
class _Silence:
    since: float
    """Unix seconds."""
    fitting: int
    """Placeholders that fitted at the last look."""


class Answers:
    """Follows the answers from one observation to the next."""

    def __init__(self) -> None:
        self._silences: dict[str, _Silence] = {}
        """By policy."""
        self._answered: frozenset[str] = frozenset()
        """Policies about whose unbound placeholders an autoscaler has said something."""
        self._nodes: Sequence[str] = ()

    def look(self, seen: Observation, now: float) -> None:
        """Take one observation; `now` is Unix time."""
        heard = {event.replica_set for event in seen.autoscaler_events if event.answer in _OF_AUTOSCALERS}
        names = seen.snapshot.nodes.names
        more_nodes = names is not self._nodes and not set(names) <= set(self._nodes)
        self._nodes = names
        by_policy: dict[str, list[Placeholder]] = {}
        for pod in seen.snapshot.placeholders:
            if pod.unbound:
                by_policy.setdefault(pod.policy, []).append(pod)
        self._answered = frozenset(
            name for name, pods in by_policy.items() if any(pod.replica_set in heard for pod in pods)
        )
        self._silences = {
            name: silence
            for name, pods in by_policy.items()
            if name not in self._answered
            and (silence := self._silence(name, pods, now, more_nodes=more_nodes)) is not None
        }

    def _silence(self, policy: str, pods: Sequence[Placeholder], now: float, *, more_nodes: bool) -> _Silence | None:
        waiting = [pod.created_seconds for pod in pods if pod.node < 0 and pod.unschedulable]
        if not waiting:
            return None
        fitting, before = sum(pod.node >= 0 for pod in pods), self._silences.get(policy)
        if before is None:
            return _Silence(min(waiting), fitting)
        if more_nodes or fitting > before.fitting:
            return _Silence(now, fitting)
        return _Silence(max(before.since, min(waiting)), fitting)

    def shift(self, seconds: float) -> None:
        """Go on from earlier looks when the clock was set by so much."""
        self._silences = {
            name: _Silence(silence.since + seconds, silence.fitting) for name, silence in self._silences.items()
        }

    def silent_seconds(self, now: float) -> Mapping[str, float]:
        """Return by policy for how long its unbound placeholders have waited without an answer."""
        return {name: now - silence.since for name, silence in self._silences.items()}

    def is_answered(self, policy: str) -> bool:
        """Whether an autoscaler has said something about a policy's unbound placeholders."""
        return policy in self._answered
