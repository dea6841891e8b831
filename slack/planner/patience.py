"""Giving up in time: placeholders that nobody makes room for are held back, with a probe left.

A hold begins when placeholders have been pending for `giveUpAfter` against the autoscaler's refusal, or at once when a
quota refuses them; it lasts twice as long each time, and ends as soon as the probe is bound. Nothing here is lost
with the operator: a probe that has been pending for long says after a restart what it said before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slack.planner.manifests import replica_set_name
from slack.planner.outcome import Answer, AutoscalerWord, ExistingShape, Hold
from slack.planner.policy import Policy

LONGEST_SECONDS = 7200.0
SILENCE_SECONDS = 120.0
"""Pending for so long with no word from any autoscaler: it ignores placeholders, or there is none."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The placeholders of one shape that are there."""

    bound: int
    pending: int
    oldest_pending_seconds: float
    """Age of the oldest pending one that the scheduler has refused; 0 when there is none."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What the waiting has come to."""

    holds: Mapping[str, Hold]
    """By shape: active holds and those that are being tried again."""
    caps: Mapping[str, int]
    """By shape: the most placeholders that may be there now."""
    limits: tuple[str, ...]
    """What keeps placeholders from growing, for the condition LimitReached."""
    reason: str
    """CamelCase: AutoscalerLimit, NoNodeGroupFits, QuotaExceeded; '' when nothing is held."""
    ignored_seconds: float
    """How long the oldest placeholder has waited with no word from any autoscaler; 0 when none has for two minutes."""


_REASONS = {Answer.REFUSED: "NoNodeGroupFits", Answer.LIMIT: "AutoscalerLimit", Answer.QUOTA: "QuotaExceeded"}


def _next_hold(
    hold: Hold | None, pods: Pods, replicas: int, word: AutoscalerWord | None, *, give_up: float, now: float
) -> Hold | None:
    """Return the hold of one shape from now on."""
    if hold is not None:
        if pods.bound > hold.bound or not (pods.pending or replicas > pods.bound):
            return None
        if now < hold.until_seconds + give_up:  # held, or trying again
            return hold
    refused = word is not None and word.answer is not Answer.TRIGGERED
    quota = word is not None and word.answer is Answer.QUOTA and replicas > pods.bound + pods.pending
    overdue = pods.pending > 0 and pods.oldest_pending_seconds >= give_up
    if word is None or not (quota or (refused and overdue)):
        return hold if hold is not None and overdue else None
    tries = (hold.tries if hold else 0) + 1
    until = now + min(give_up * 2**tries, LONGEST_SECONDS)
    return Hold(until, tries, pods.bound, _REASONS[word.answer])


def consider(
    policy: Policy,
    existing: Sequence[ExistingShape],
    pods: Mapping[str, Pods],
    words: Mapping[str, AutoscalerWord],
    holds: Mapping[str, Hold],
    now: float,
) -> Patience:
    """Decide what to hold back.

    Args:
        policy: whose placeholders.
        existing: its ReplicaSets.
        pods: by shape.
        words: the latest by ReplicaSet.
        holds: from the previous plan.
        now: Unix seconds.
    """
    give_up = policy.spec.stabilization.give_up_after.total_seconds()
    kept: dict[str, Hold] = {}
    caps: dict[str, int] = {}
    limits: list[str] = []
    reasons: list[str] = []
    ignored = 0.0
    for there in existing:
        name = there.shape.name
        mine = pods.get(name, Pods(0, 0, 0.0))
        word = words.get(replica_set_name(policy.name, there.shape))
        if word is not None and word.answer is not Answer.QUOTA and not mine.pending:
            word = None
        if word is not None and word.answer is Answer.QUOTA and word.seen_seconds < now - give_up:
            word = None  # the controller tries again sooner than that, and would have been refused again
        if word is not None and mine.pending and word.seen_seconds < now - mine.oldest_pending_seconds - 1:
            word = None  # said of placeholders that are no longer waiting
        hold = _next_hold(holds.get(name), mine, there.replicas, word, give_up=give_up, now=now)
        if hold is not None:
            kept[name] = hold
            if now < hold.until_seconds:
                caps[name] = mine.bound + 1
                said = f": {word.message}" if word is not None and word.message else ""
                limits.append(
                    f"{name} is held at {mine.bound} bound and one probe, next try in "
                    f"{(hold.until_seconds - now) / 60:.0f} min{said}"
                )
                reasons.append(hold.reason)
        if word is None and mine.oldest_pending_seconds >= SILENCE_SECONDS:
            ignored = max(ignored, mine.oldest_pending_seconds)
    return Patience(kept, caps, tuple(limits), min(reasons, default=""), ignored)
