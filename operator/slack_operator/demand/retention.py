"""Drops messages that are older than their pool's `retention.maxAge`, where the rules found that no container can come.

The broker compares ages by itself, so no count of messages is needed. A queue is asked for at most every five seconds,
and a bounded number of queues at one tick. A queue that does not answer is that queue's failure alone.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from slack.demand.broker import BrokerError, Duration, LagSource, message_queue_of
from slack.demand.model import PoolSettings
from slack.process.outages import Outages

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 5.0
A_TICK: Final = 64
"""Queues that are asked for at one tick; others wait for the next."""


class RetentionEnforcer:
    """Owned by one event loop."""

    def __init__(self, timeout_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing dropped.

        Args:
            timeout_seconds: of one queue.
            clock: monotonic seconds.
        """
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._asked_at: dict[str, float] = {}
        self._outages = Outages()

    async def drop(self, broker: LagSource, pools: Iterable[PoolSettings]) -> None:
        """Drop what is too old of these pools' queues; queues that are not among them are forgotten."""
        found = [(pool.subject, pool.max_age_seconds) for pool in pools if pool.max_age_seconds is not None]
        now, subjects = self._clock(), {subject for subject, _ in found}
        self._asked_at = {subject: at for subject, at in self._asked_at.items() if subject in subjects}
        due = [item for item in found if now - self._asked_at.get(item[0], float("-inf")) >= AGAIN_SECONDS][:A_TICK]
        self._asked_at |= dict.fromkeys((subject for subject, _ in due), now)
        await asyncio.gather(*(self._drop(broker, subject, Duration(seconds)) for subject, seconds in due))

    async def _drop(self, broker: LagSource, subject: str, max_age: Duration) -> None:
        try:
            messages = message_queue_of(broker, "drop")
            dropped = await asyncio.wait_for(messages.drop(subject, max_age), self._timeout_seconds)
        except (BrokerError, TimeoutError) as error:
            words = str(error) or "the broker does not answer"
            if self._outages.is_new(words):
                log.warning("old messages of %s are not dropped: %s", subject, words)
            return
        if dropped:
            log.warning("%d messages of %s were older than %g s, and are dropped", dropped, subject, max_age)
