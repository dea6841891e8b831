"""Giving up in time: placeholders that nobody makes room for are held back, with a probe left.

A backoff begins when placeholders have been pending for `giveUpAfter` against the autoscaler's refusal, or at once when
a quota refuses them; it lasts twice as long each time, and ends as soon as the probe is bound. Nothing here is lost
with the operator: a probe that has been pending for long says after a restart what it said before.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slack.planner.model.placeholder_counts import Alike
from slack.planner.model.result import Answer, AutoscalerEvent, Backoff, ExistingShape
from slack.planner.model.shape import Shape
from slack.planner.objects.manifests import replica_set_name
from slack.planner.policy.spec import Policy

LONGEST_SECONDS = 7200.0
SCAN_SECONDS = 12.0
"""From a displacement to the request for a node: the autoscaler's scan interval and its wait for young pods."""
_LEAST_SECONDS = 120.0
"""No autoscaler is taken for silent or stuck sooner: some scan once a minute."""
_LONGEST_SILENCE_SECONDS, _LONGEST_REFILL_SECONDS = 600.0, 1800.0


def _clock(at_seconds: float) -> str:
    """Say when, and not in how long: that would change with every minute, and each change is a write of the status."""
    return datetime.fromtimestamp(at_seconds, UTC).strftime("%H:%M UTC")


def silence_seconds(node_start_seconds: float) -> float:
    """How long no autoscaler may say a word of placeholders that wait: as long as a node takes to come here."""
    return min(max(SCAN_SECONDS + node_start_seconds, _LEAST_SECONDS), _LONGEST_SILENCE_SECONDS)


def refill_seconds(node_start_seconds: float) -> float:
    """How long a placeholder may wait for its node and be on its way: three times as long as a node takes here."""
    return min(max(3 * (SCAN_SECONDS + node_start_seconds), _LEAST_SECONDS), _LONGEST_REFILL_SECONDS)


def latest_events(
    events: Iterable[AutoscalerEvent], answered_once: Container[str], now: float, node_start_seconds: float
) -> dict[str, AutoscalerEvent]:
    """Return by ReplicaSet what counts of all that was said about it: that kubelets refuse, else the latest.

    Unbound placeholders are never made anew, so one scale-up is said once, and refusals of others in the same moment.
    A scale-up of theirs counts until its node should have come; then a refusal counts that came before it.

    Args:
        events: in any order.
        answered_once: names of ReplicaSets whose form `is_answered_once`.
        now: Unix seconds.
        node_start_seconds: how long a node takes here.
    """
    over = now - refill_seconds(node_start_seconds)

    def weight(event: AutoscalerEvent) -> tuple[bool, bool, float, bool]:
        scale_up = event.answer is Answer.TRIGGERED
        counts = event.replica_set not in answered_once or not scale_up or event.seen_seconds > over
        return event.answer is Answer.FAILING, counts, event.seen_seconds, not scale_up

    return {event.replica_set: event for event in sorted(events, key=weight)}


@dataclass(frozen=True, slots=True)
class ShapePods:
    """The placeholders of one shape that are there."""

    bound: int
    pending: int
    oldest_pending_seconds: float
    """Age of the oldest pending one that the scheduler has refused; 0 when there is none."""
    untold: int = 0
    """Of `bound` those unbound ones that fit and that no autoscaler was told of: it keeps no node for them yet."""

    told: int = 0
    """Unbound ones that autoscalers were told of, whether they fit or not."""

    @property
    def held(self) -> int:
        """Those whose capacity is held."""
        return self.bound - self.untold

    @property
    def waiting(self) -> int:
        """The others."""
        return self.pending + self.untold


def pods_by_shape(alike: Iterable[Alike], now: float) -> dict[str, ShapePods]:
    """Return the placeholders of each shape, sorted by its name."""
    sorts: dict[str, list[Alike]] = {}
    for each in alike:
        sorts.setdefault(each.shape, []).append(each)
    return {
        name: ShapePods(
            bound=sum(each.count for each in own if each.on_node),
            pending=sum(each.count for each in own if not each.on_node),
            oldest_pending_seconds=max(
                (0.0, *(now - each.oldest_seconds for each in own if each.unschedulable and not each.on_node))
            ),
            untold=sum(each.count for each in own if each.on_node and not each.held),
            told=sum(each.count for each in own if each.unbound and each.unschedulable),
        )
        for name, own in sorted(sorts.items())
    }


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What the waiting has come to."""

    backoffs: Mapping[str, Backoff]
    """By shape: active backoffs and those that are being tried again."""
    caps: Mapping[str, int]
    """By shape: the most placeholders that may be there now."""
    limits: tuple[str, ...]
    """What keeps placeholders from growing, for the condition LimitReached."""
    reason: str | None
    """CamelCase: AutoscalerLimit, NoNodeGroupFits, QuotaExceeded; None when nothing is held, or refused for long."""
    ignored_seconds: float
    """For how long at least placeholders have waited with no word from any autoscaler; 0 when none has for long.

    It does not run with the clock: what only waits on makes no write of the status.
    """
    refusals: tuple[str, ...] = ()
    """What an autoscaler has just said against placeholders that may still get a node: shown, and no alarm yet."""


FAILING_SECONDS = 60.0
"""The first hold of placeholders that fail as fast as they come lasts twice as long."""
FAIL = "PlaceholdersFail"
REASONS = {
    Answer.REFUSED: "NoNodeGroupFits",
    Answer.LIMIT: "AutoscalerLimit",
    Answer.QUOTA: "QuotaExceeded",
    Answer.FAILING: FAIL,
}


def _failing(backoff: Backoff | None, pods: ShapePods, event: AutoscalerEvent | None, *, now: float) -> Backoff | None:
    """Return the backoff of a shape whose placeholders fail as fast as they come.

    It ends by time alone: each one that fails was on a node for a moment. A probe would be the loop itself.
    """
    began = backoff.until_seconds if backoff is not None else float("-inf")
    if now < began or event is None or event.seen_seconds <= began:
        tried = backoff is not None and now < backoff.until_seconds + FAILING_SECONDS * 2**backoff.tries
        return backoff if tried else None
    tries = (backoff.tries if backoff else 0) + 1
    return Backoff(now + min(FAILING_SECONDS * 2**tries, LONGEST_SECONDS), tries, pods.bound, FAIL)


def _next_backoff(
    backoff: Backoff | None,
    pods: ShapePods,
    replicas: int,
    event: AutoscalerEvent | None,
    *,
    give_up: float,
    now: float,
) -> Backoff | None:
    """Return the backoff of one shape from now on."""
    failing = event if event is not None and event.answer is Answer.FAILING else None
    if failing is not None or (backoff is not None and backoff.reason == FAIL):
        return _failing(backoff if backoff is not None and backoff.reason == FAIL else None, pods, failing, now=now)
    if backoff is not None:
        if pods.bound > backoff.bound or not (pods.pending or replicas > pods.bound):
            return None
        if now < backoff.until_seconds + give_up:  # held, or trying again
            return backoff
    refused = event is not None and event.answer is not Answer.TRIGGERED
    quota = event is not None and event.answer is Answer.QUOTA and replicas > pods.bound + pods.pending
    overdue = pods.pending > 0 and pods.oldest_pending_seconds >= give_up
    if event is None or not (quota or (refused and overdue)):
        return backoff if backoff is not None and overdue else None
    tries = (backoff.tries if backoff else 0) + 1
    until = now + min(give_up * 2**tries, LONGEST_SECONDS)
    return Backoff(until, tries, pods.bound, REASONS[event.answer])


def _is_of_others(event: AutoscalerEvent, pods: ShapePods, shape: Shape, now: float) -> bool:
    """Whether it was said of placeholders that no longer wait.

    An unbound one that has fitted for a moment waits anew, and its refusal is not said again at once.
    """
    refused = event.answer in (Answer.REFUSED, Answer.LIMIT)
    before = shape.form.refusal_seconds if refused else 1.0
    return event.seen_seconds < now - pods.oldest_pending_seconds - before


def _event_in_force(
    event: AutoscalerEvent | None, mine: ShapePods, shape: Shape, now: float, give_up_seconds: float
) -> AutoscalerEvent | None:
    """Return an event that still says something about a shape's placeholders; None for any other."""
    if event is None:
        return None
    if event.answer not in (Answer.QUOTA, Answer.FAILING) and not mine.pending:
        return None
    if event.answer is Answer.QUOTA and event.seen_seconds < now - give_up_seconds:
        return None  # the controller tries again sooner than that, and would have been refused again
    if event.answer is not Answer.FAILING and mine.pending and _is_of_others(event, mine, shape, now):
        return None
    return event


def hold_back(
    policy: Policy,
    existing: Sequence[ExistingShape],
    pods: Mapping[str, ShapePods],
    events: Mapping[str, AutoscalerEvent],
    backoffs: Mapping[str, Backoff],
    now: float,
    node_start_seconds: float,
) -> HeldBack:
    """Decide what to hold back.

    Args:
        policy: whose placeholders.
        existing: its ReplicaSets.
        pods: by shape.
        events: the latest by ReplicaSet.
        backoffs: from the previous plan.
        now: Unix seconds.
        node_start_seconds: how long a node takes here.
    """
    silence = silence_seconds(node_start_seconds)
    give_up = policy.spec.stabilization.give_up_after.total_seconds()
    ongoing: dict[str, Backoff] = {}
    caps: dict[str, int] = {}
    limits: list[str] = []
    reasons: list[str] = []
    refusals: list[str] = []
    ignored = 0.0
    for there in existing:
        name = there.shape.name
        mine = pods.get(name, ShapePods(0, 0, 0.0))
        event = _event_in_force(events.get(replica_set_name(policy.name, there.shape)), mine, there.shape, now, give_up)
        backoff = _next_backoff(backoffs.get(name), mine, there.replicas, event, give_up=give_up, now=now)
        if backoff is not None:
            ongoing[name] = backoff
            if now < backoff.until_seconds:
                probe = 0 if backoff.reason == FAIL else 1
                caps[name] = mine.bound + probe
                said = f": {event.message}" if event is not None and event.message else ""
                limits.append(
                    f"{name} is held at {mine.bound} bound and {'one' if probe else 'no'} probe until "
                    f"{_clock(backoff.until_seconds)}{said}"
                )
                reasons.append(backoff.reason)
        late = mine.oldest_pending_seconds >= refill_seconds(node_start_seconds)
        if name not in caps and event is not None and event.answer in (Answer.REFUSED, Answer.LIMIT):
            said = f"{name} is refused, {mine.pending} wait: {event.message}".removesuffix(": ")
            if late:
                limits.append(said)
                reasons.append(REASONS[event.answer])
            else:
                refusals.append(said)
        if event is None and mine.oldest_pending_seconds >= silence:
            ignored = silence
    return HeldBack(ongoing, caps, tuple(limits), min(reasons, default=None), ignored, tuple(refusals))
