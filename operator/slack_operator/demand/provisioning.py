"""Queues are made as the pools want them, and made again where they have gone; one that is refused holds up no other.

Which are there is known from the last read of all lags: what a broker does not tell of any more was deleted, or the
broker came back empty. A queue that the broker refuses (a prefix that is not the controller's, a key that holds
something else) is asked for again after a while; one whose settings have changed, at once. That the broker cannot be
reached is no refusal of a queue, and is the caller's business.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slack.demand.broker import Broker, BrokerRefused, QueueSettings

log = logging.getLogger(__name__)

A_TICK: Final = 64
"""Queues that are made at one tick; others wait for the next."""
AGAIN_SECONDS: Final = 30.0
"""A queue that was refused is asked for again after so long."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """What the broker said, of which settings."""

    settings: QueueSettings
    words: str
    due_at: float


class Provisioner:
    """Owned by one event loop."""

    def __init__(self, timeout_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is known yet.

        Args:
            timeout_seconds: of the making of one queue.
            clock: monotonic seconds.
        """
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._made: dict[str, QueueSettings] = {}
        self._refused: dict[str, _Refused] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """The broker's words, by the queue that it refuses."""
        return {name: refusal.words for name, refusal in self._refused.items()}

    def clear(self) -> None:
        """Forget all: what another process has done meanwhile is not known."""
        self._made.clear()
        self._refused.clear()

    async def make(self, broker: Broker, queues: Sequence[QueueSettings]) -> None:
        """Make those that are missing or have other settings, a bounded number of them.

        Raises:
            BrokerUnreachable: it does not answer; the rest is made at the next call.
            TimeoutError: so it is.
        """
        if self._refused:
            wanted = {queue.name for queue in queues}
            self._refused = {name: refusal for name, refusal in self._refused.items() if name in wanted}
        due = [queue for queue in queues if self._made.get(queue.name) != queue and self._is_due(queue)]
        for queue in due[:A_TICK]:
            try:
                await asyncio.wait_for(broker.ensure(queue), self._timeout_seconds)
            except BrokerRefused as refusal:
                self._refuse(queue, str(refusal))
            else:
                self._made[queue.name] = queue
                if self._refused.pop(queue.name, None) is not None:
                    log.info("queue %s is there now", queue.name)

    def _is_due(self, queue: QueueSettings) -> bool:
        refusal = self._refused.get(queue.name)
        return refusal is None or refusal.settings != queue or self._clock() >= refusal.due_at

    def _refuse(self, queue: QueueSettings, words: str) -> None:
        before = self._refused.get(queue.name)
        if before is None or before.words != words:
            log.warning("queue %s: the broker refuses it, other queues go on: %s", queue.name, words)
        self._refused[queue.name] = _Refused(queue, words, self._clock() + AGAIN_SECONDS)

    def seen(self, queues: Sequence[QueueSettings], there: Container[str]) -> None:
        """Take which queues the broker tells of: those that it does not are made again."""
        for queue in queues:
            if queue.name in self._made and queue.name not in there:
                del self._made[queue.name]
