"""What a message broker is asked for: `LagSource` tells how long queues are, `MessageQueue` has their messages too.

The controller needs a `LagSource`, the proxy in a pool's containers a `MessageQueue`. A queue is
named by its subject (`act.{namespace}.{action}.{memory_mib}`). Delivery is at least once: a message that was pulled is
another's after the ack wait unless it is acked, or extended while its run goes on. Nothing here does I/O. The brokers
themselves are modules of `slack_operator.demand.brokers`, and no library of theirs is known in this package.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol, runtime_checkable

from slack.demand.bounds import Messages, Seconds, Total
from slack.demand.broker_kind import MESSAGE_KINDS

PREFIX: Final = "act."
"""Of all queues of ours."""
DEAD_LETTERS: Final = "act.dead"
"""Where a message goes that was delivered as often as its queue allows, and never acked."""
Duration = NewType("Duration", float)
"""Seconds that something lasts. It is a type of its own, so that mypy refuses a count of messages in its place."""
MessageCount = NewType("MessageCount", int)
"""Messages, counted. It is a type of its own, so that mypy refuses it where a duration is wanted."""
NO_TIME: Final = Duration(0.0)
DEFAULT_ACK_WAIT: Final = Duration(60.0)
MAX_REPORT_BYTES: Final = 4 << 10
"""A longer report is not handed on: whoever may publish may send anything."""


class BrokerError(Exception):
    """What a broker could not do. The text names broker and queue, and never holds credentials."""


class BrokerUnreachable(BrokerError):
    """No answer in time, or no connection. The broker connects anew by itself: ask again at the next tick."""


class BrokerRefused(BrokerError):
    """It answered no, or cannot do what was asked; the text tells what would be right. Asking again is no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What `ensure` makes of a queue. `ack_wait_seconds` must exceed the longest run that is not extended."""

    name: str
    ack_wait_seconds: Duration = DEFAULT_ACK_WAIT
    max_deliver: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLag:
    """A queue's counters at one read. What a broker cannot tell cheaply is None.

    `backlog` waits, `in_flight` is pulled and not acked yet. The totals only ever grow while the queue lives, and a
    message that is delivered again counts again in both, or in neither: completions are what `delivered_total -
    in_flight` grows by, arrivals what `published_total` grows by. `oldest_age_seconds` is that of the one that waits
    longest. A message whose container is gone is in flight until its ack wait is over and somebody pulls, one that was
    given back too: what is in flight beyond all containers' slots waits, whatever it is called.
    """

    backlog: Messages
    in_flight: Messages
    delivered_total: Total | None = None
    published_total: Total | None = None
    oldest_age_seconds: Seconds | None = None
    problem: str | None = None
    """Why the broker could not tell this queue's counters, while it told those of others; all of them are 0 then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PulledMessage:
    """One message that was pulled. `attempt` is 1 at first; `age_seconds` is from publish to pull, by two clocks.

    `handle` is the broker's own: what it needs to ack, nak or extend.
    """

    queue: str
    id: str
    body: bytes
    attempt: int = 1
    age_seconds: float | None = None
    handle: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReport:
    """What a container said of itself, as it came: `slack.demand.reports` reads it. It may be anything."""

    queue: str
    body: bytes


class LagSource(Protocol):
    """A broker with its connection, as what tells the length and age of queues.

    Each call may raise `BrokerUnreachable` or `BrokerRefused`. Owned by one event loop.
    """

    @property
    def address(self) -> str:
        """Where the broker is, for people; without credentials."""
        ...

    async def ensure(self, queue: QueueSettings) -> None:
        """Measure the queue from now on. A `MessageQueue` also makes it, or gives it these settings; messages stay."""
        ...

    async def lag(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with that prefix that `ensure` made, also by another process.

        A queue that is not there is left out; `ensure` is called again for it.

        The cost must not grow by a round trip a queue.
        """
        ...

    async def forget(self, queue: str) -> None:
        """Keep nothing about a queue whose pool is gone. Its messages stay; the broker may take away an empty queue."""
        ...

    async def close(self) -> None:
        """End the connection; what was pulled and handed to nobody goes back. Never raises; twice is once."""
        ...


@runtime_checkable
class MessageQueue(LagSource, Protocol):
    """A broker whose messages are published, taken and acknowledged here too.

    A call may be cancelled: a message that a cancelled `pull` would have had goes to the next one, or back to the queue
    at `close`.
    """

    @property
    def most_body_bytes(self) -> int | None:
        """What `publish` takes in one message, its id's room left; None: as much as anybody sends."""
        ...

    async def adopt(self, installation: str) -> Sequence[str]:
        """Return the queues that this installation made, and that the broker does not take away by itself.

        Args:
            installation: who makes queues from now on; no other installation has the same name, in any cluster.
        """
        ...

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        """Return when the broker has stored the message. One with an id of the last two minutes is stored once.

        An id is a queue's: another queue may have the same, and loses nothing.
        """
        ...

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        """Return one to `count` messages as soon as there is one; none after `wait_seconds`.

        A message that was delivered `max_deliver` times already is moved to `DEAD_LETTERS` instead.
        """
        ...

    async def ack(self, message: PulledMessage) -> None:
        """Tell that the run is done: the message is gone for good."""
        ...

    async def nak(self, message: PulledMessage, delay_seconds: Duration = NO_TIME) -> None:
        """Give the message back: another may pull it after the delay. The last attempt's goes to `DEAD_LETTERS`."""
        ...

    async def extend(self, message: PulledMessage) -> None:
        """Tell that the run goes on: the ack wait begins anew."""
        ...

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        """Drop messages that were published longer ago; return how many went. 0 drops all, also those in flight."""
        ...

    async def delete(self, queue: str) -> None:
        """Delete the queue with all its messages; one that is not there is no error."""
        ...

    async def report(self, queue: str, body: bytes) -> None:
        """Send a container's report, at most once; `BrokerRefused` where the broker has no such thing."""
        ...

    def reports(self) -> AsyncIterator[RawReport]:
        """Iterate over the reports that come from now on. Where they are read too slowly the oldest are dropped."""
        ...


def message_queue_of(broker: LagSource, what: str) -> MessageQueue:
    """Return the broker as one that messages are taken from.

    Args:
        broker: the broker.
        what: is wanted of it, for the error.

    Raises:
        BrokerRefused: only its lag can be read.
    """
    if isinstance(broker, MessageQueue):
        return broker
    others = ", ".join(MESSAGE_KINDS)
    raise BrokerRefused(
        f"{broker.address}: {what}: it is a source of lag only: use proxy mode none, or one of {others}"
    )
