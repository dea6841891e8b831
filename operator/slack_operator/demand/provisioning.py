"""Queues are made as the pools want them, and made again where they have gone; one that fails holds up no other.

Which are there is known from the last read of all lags: what a broker does not tell of any more was deleted, or the
broker came back empty. A queue that the broker refuses (a prefix that is not the controller's, a key that holds
something else) is asked for again after a while, and so is one for which the broker does not answer. One whose settings
have changed is asked for at once. Whether the whole broker is gone is the caller's to say.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slack.demand.broker import BrokerError, BrokerRefused, LagSource, MessageQueue, QueueSettings
from slack.demand.subjects import Subject

log = logging.getLogger(__name__)

A_TICK: Final = 64
"""Queues that are made at once; others wait for the next tick."""
PATIENCE_SECONDS: Final = 0.25
"""A tick waits no longer for the queues that it makes; those that take longer are made meanwhile."""
AGAIN_SECONDS: Final = 30.0
"""A queue that was refused is asked for again after so long, and at the latest one that was silent."""
FIRST_AGAIN_SECONDS: Final = 1.0
"""A queue that was silent for the first time is asked for again after so long; each time twice as long."""
FORGOTTEN_SECONDS: Final = 600.0
"""A queue that no pool wants is forgotten after so long: containers of a former memory may still take from it."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What the broker said of which settings, or that it said nothing."""

    settings: QueueSettings
    words: str
    due_at: float
    silent: int = 0
    """How often in a row the broker has not answered; 0: it refused."""


class QueueProvisioner:
    """Owned by one event loop."""

    def __init__(
        self,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        installation: Callable[[], str | None] = lambda: None,
        namespaces: Collection[str] = (),
    ) -> None:
        """Begin without a queue.

        Args:
            timeout_seconds: of the making of one queue.
            clock: monotonic seconds.
            installation: what no other installation is called, where it is known.
            namespaces: the only ones whose pools are seen; empty for all.
        """
        self._installation = installation
        self._namespaces = namespaces
        self._adopted: str | None = None
        """The installation whose queues were taken over."""
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._made: dict[str, QueueSettings] = {}
        self._made_before: set[str] = set()
        """Queues that earlier leaders made."""
        self._failed: dict[str, _Failed] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._unwanted_since: dict[str, float] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """The broker's words, by the queue that it refuses."""
        return {name: failed.words for name, failed in self._failed.items() if not failed.silent}

    @property
    def silent(self) -> Mapping[str, str]:
        """What went wrong, by the queue for which the broker does not answer."""
        return {name: failed.words for name, failed in self._failed.items() if failed.silent}

    def clear(self) -> None:
        """Forget all: what another process has done meanwhile is not known."""
        self._made.clear()
        self._made_before.clear()
        self._adopted = None
        self._failed.clear()
        self._unwanted_since.clear()
        for task in self._under_way.values():
            task.cancel()

    def all_silent(self) -> None:
        """Take note that the whole broker does not answer: no queue is to blame, and all are due once it is back."""
        self._failed = {name: failed for name, failed in self._failed.items() if not failed.silent}

    async def make(self, broker: LagSource, queues: Sequence[QueueSettings]) -> None:
        """Make those that are missing or have other settings, a bounded number of them; forget those nobody wants."""
        await self._adopt(broker)
        wanted = {queue.name for queue in queues}
        self._failed = {name: failed for name, failed in self._failed.items() if name in wanted}
        due = [queue for queue in queues if self._made.get(queue.name) != queue and self._is_due(queue)]
        begun = [
            *(self._begin(queue.name, self._ensure(broker, queue)) for queue in due[: self._free]),
            *(self._begin(name, self._forget(broker, name)) for name in self._unwanted(wanted)[: self._free]),
        ]
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_SECONDS)

    async def _adopt(self, broker: LagSource) -> None:
        """Take over the queues that earlier leaders made: those that no pool wants are forgotten in their time."""
        installation = self._installation()
        if not isinstance(broker, MessageQueue) or installation is None or installation == self._adopted:
            return
        made, seen = await asyncio.wait_for(broker.adopt(installation), self._timeout_seconds), self._namespaces
        self._made_before = {name for name in made if not seen or Subject.parse(name).namespace in seen}
        self._adopted = installation

    @property
    def _free(self) -> int:
        return max(A_TICK - len(self._under_way), 0)

    def _begin(self, name: str, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._under_way[name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._under_way.pop(name, None))
        return task

    def _unwanted(self, wanted: Container[str]) -> list[str]:
        now = self._clock()
        unwanted = [name for name in self._made.keys() | self._made_before if name not in wanted]
        self._unwanted_since = {name: self._unwanted_since.get(name, now) for name in unwanted}
        return [
            name
            for name, since in self._unwanted_since.items()
            if now - since >= FORGOTTEN_SECONDS and name not in self._under_way
        ]

    async def _ensure(self, broker: LagSource, queue: QueueSettings) -> None:
        try:
            await asyncio.wait_for(broker.ensure(queue), self._timeout_seconds)
        except BrokerRefused as refusal:
            self._fail(queue, str(refusal), silent=0)
        except (BrokerError, TimeoutError) as error:
            before = self._failed.get(queue.name)
            silent = 1 if before is None else before.silent + 1
            self._fail(queue, str(error) or "the broker does not answer", silent=silent)
        else:
            self._made[queue.name] = queue
            if self._failed.pop(queue.name, None) is not None:
                log.info("queue %s is there now", queue.name)

    async def _forget(self, broker: LagSource, name: str) -> None:
        try:
            await asyncio.wait_for(broker.forget(name), self._timeout_seconds)
        except (BrokerError, TimeoutError):
            self._unwanted_since[name] = self._clock()  # tried again as late as the first time
        else:
            self._made.pop(name, None)
            self._made_before.discard(name)
            self._unwanted_since.pop(name, None)

    def _is_due(self, queue: QueueSettings) -> bool:
        if queue.name in self._under_way:
            return False
        failed = self._failed.get(queue.name)
        return failed is None or failed.settings != queue or self._clock() >= failed.due_at

    def _fail(self, queue: QueueSettings, words: str, *, silent: int) -> None:
        before = self._failed.get(queue.name)
        if before is None or before.words != words:
            what = "the broker does not answer for it" if silent else "the broker refuses it"
            log.warning("queue %s: %s, other queues go on: %s", queue.name, what, words)
        again = AGAIN_SECONDS if not silent else min(FIRST_AGAIN_SECONDS * 2 ** min(silent - 1, 10), AGAIN_SECONDS)
        self._failed[queue.name] = _Failed(queue, words, self._clock() + again, silent)

    def seen(self, queues: Sequence[QueueSettings], there: Container[str]) -> None:
        """Take which queues the broker tells of: those that it does not are made again."""
        for queue in queues:
            if queue.name in self._made and queue.name not in there:
                del self._made[queue.name]
