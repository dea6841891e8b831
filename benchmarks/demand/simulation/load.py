"""Who publishes messages: clients that wait for their answers, or arrivals that do not; and what became of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.demand.simulation.events import Events, Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLoad:
    """What is published. Either `clients` or `rate_per_second` is given."""

    actions: int
    clients: int = 0
    """Each publishes, waits until its message was run, and publishes again, to any action."""
    rate_per_second: float = 0.0
    """Messages that come whoever waits, at random."""
    run_seconds: tuple[float, float] = (0.002, 0.003)
    hot_share: float = 0.0
    """Of all messages, those to action 0; the rest goes to the others alike. 0: all alike."""
    hot_alone_seconds: float = 0.0
    """So long only action 0 gets messages."""
    burst: int = 0
    """Messages to action 0 at `burst_at_seconds`, and no others."""
    burst_at_seconds: float = 0.0
    seconds: float = 30.0
    cut_seconds: float = 10.0
    """What was published before that does not count."""


@dataclass(slots=True, eq=False)
class SimulatedMessage:
    """One message."""

    action: int
    published_seconds: float
    run_seconds: float


@dataclass(slots=True)
class LoadOutcome:
    """What became of a load."""

    load: PublishedLoad
    waits: list[tuple[int, float]] = field(default_factory=list)
    """Action, and seconds from publish to the end of the run, of messages that count."""
    published: int = 0
    finished: int = 0
    last_finished_seconds: float = 0.0
    started: int = 0
    """Containers that were created, from the beginning."""
    first_start_seconds: float | None = None
    """When the first container was ready."""
    first_decision_seconds: float | None = None
    """When the first container was asked for."""
    highest: int = 0
    """The most containers at once, those in creation and those that end included."""
    gone_seconds: float | None = None
    """When the last container was gone."""

    @property
    def per_second(self) -> float:
        """Messages run a second, of those that count."""
        return len(self.waits) / (self.load.seconds - self.load.cut_seconds)

    def percentile(self, percent: float, counts: Callable[[int], bool] = lambda action: True) -> float:
        """Return the seconds that such a share of the messages of these actions took at most; NaN without any."""
        values = sorted(wait for action, wait in self.waits if counts(action))
        if not values:
            return float("nan")
        return values[min(int(percent / 100 * len(values)), len(values) - 1)]

    def served(self, counts: Callable[[int], bool]) -> int:
        """Return how many messages of these actions were run."""
        return sum(counts(action) for action, _ in self.waits)


class Taker(Protocol):
    """A scheduler with its containers, to which messages are published."""

    def publish(self, message: SimulatedMessage) -> None:
        """Take a message."""


class Traffic:
    """A load that is played."""

    def __init__(self, load: PublishedLoad, events: Events, random: Generator) -> None:
        """`taker` is set before it begins."""
        self.outcome = LoadOutcome(load)
        self.taker: Taker | None = None
        self._load, self._events, self._random = load, events, random

    def begin(self) -> None:
        """Let the first messages come."""
        load = self._load
        for _ in range(load.clients):
            # Not all in the same instant: clients connect one after the other.
            self._events.after(self._random.uniform(0.0, 0.1), self._publish, None)
        if load.rate_per_second > 0:
            self._events.after(self._random.expovariate(load.rate_per_second), self._arrive)
        if load.burst:
            self._events.after(load.burst_at_seconds, self._burst)

    def done(self, message: SimulatedMessage) -> None:
        """A message was run: whoever waited for it goes on."""
        outcome, now = self.outcome, self._events.now
        outcome.finished += 1
        outcome.last_finished_seconds = now
        if message.published_seconds >= self._load.cut_seconds:
            outcome.waits.append((message.action, now - message.published_seconds))
        if self._load.clients:
            self._publish(None)

    def _arrive(self) -> None:
        self._publish(None)
        self._events.after(self._random.expovariate(self._load.rate_per_second), self._arrive)

    def _burst(self) -> None:
        for _ in range(self._load.burst):
            self._publish(0)

    def _publish(self, action: int | None) -> None:
        assert self.taker is not None
        if action is None:
            action = self._action()
        self.outcome.published += 1
        self.taker.publish(SimulatedMessage(action, self._events.now, self._random.uniform(*self._load.run_seconds)))

    def _action(self) -> int:
        load = self._load
        if self._events.now < load.hot_alone_seconds:
            return 0
        if load.hot_share > 0:
            return 0 if self._random.random() < load.hot_share else 1 + self._random.randrange(load.actions - 1)
        return self._random.randrange(load.actions)
