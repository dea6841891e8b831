"""The last tick as others see it: rates, the last decision worth a word, and what the endpoint answers.

The loop's thread writes once a tick, by replacing whole values; any thread reads. A verdict that is older than three
ticks lets everything in.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slack.demand.broker import QueueLag
from slack.demand.model import OPEN, AdmissionVerdict, QueueDecision, QueueFigures, QueueKey
from slack.demand.verdict import STALE_TICKS
from slack_operator.demand.loop import TickReport

RATE_SECONDS: Final = 2.0
"""Rates are over so long."""


@dataclass(frozen=True, slots=True)
class LastDecision:
    """A decision that changed something, or was kept from it."""

    at_unix_seconds: float
    decision: QueueDecision
    figures: QueueFigures


@dataclass(frozen=True, slots=True)
class MessageRates:
    """Messages a second."""

    arrivals: float = 0.0
    completions: float = 0.0


@dataclass(slots=True)
class _Counted:
    at: float
    published: int
    completed: int


@dataclass(slots=True)
class TickState:
    """What is known of the last tick."""

    clock: Callable[[], float] = time.monotonic
    turn: TickReport | None = None
    told: dict[QueueKey, LastDecision] = field(default_factory=dict)
    _counts: dict[str, deque[_Counted]] = field(default_factory=dict)

    def record_tick(self, turn: TickReport, pools: frozenset[QueueKey]) -> None:
        """Take a tick. Called by the loop's thread only.

        Args:
            turn: the tick.
            pools: those that there are.
        """
        for key, decision in turn.result.decisions.items():
            figures = turn.result.figures.get(key)
            matters = decision.add or decision.clipped_by or decision.guard or decision.throttle is not None
            if figures is not None and (matters or key not in self.told):
                self.told[key] = LastDecision(turn.unix_seconds, decision, figures)
        if not self.told.keys() <= pools:
            self.told = {key: told for key, told in self.told.items() if key in pools}
        for subject, lag in (turn.lags or {}).items():
            self._count(subject, lag, turn.at_seconds)
        if turn.lags is not None and not self._counts.keys() <= turn.lags.keys() | turn.unread.keys():
            there = turn.lags.keys() | turn.unread.keys()
            self._counts = {name: kept for name, kept in self._counts.items() if name in there}
        self.turn = turn

    def forget(self) -> None:
        """Another leads."""
        self.turn, self.told, self._counts = None, {}, {}

    def rates(self, subject: str) -> MessageRates:
        """Return how fast messages come and are finished."""
        kept = self._counts.get(subject)
        if not kept or len(kept) < 2:
            return MessageRates()
        first, last = kept[0], kept[-1]
        seconds = last.at - first.at
        if seconds <= 0:
            return MessageRates()
        arrivals, completions = last.published - first.published, last.completed - first.completed
        return MessageRates(max(0.0, arrivals / seconds), max(0.0, completions / seconds))

    def verdict(self, key: QueueKey) -> AdmissionVerdict:
        """Return what was decided about new messages of an action; open where that is too long ago."""
        turn = self.turn
        if turn is None or self.clock() - turn.at_seconds > STALE_TICKS * turn.tick_seconds:
            return OPEN
        return turn.result.verdicts.get(key, OPEN)

    def _count(self, subject: str, lag: QueueLag, at: float) -> None:
        if lag.published_total is None and lag.delivered_total is None:
            return
        delivered = lag.delivered_total or 0
        completed = delivered - lag.in_flight
        published = lag.published_total if lag.published_total is not None else delivered + lag.backlog
        kept = self._counts.setdefault(subject, deque())
        if kept and published < kept[-1].published:
            kept.clear()  # the queue is another one
        kept.append(_Counted(at, published, completed))
        while len(kept) > 2 and kept[1].at <= at - RATE_SECONDS:
            kept.popleft()
