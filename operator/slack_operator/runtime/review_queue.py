"""Tokens that wait to be judged by the API server: which one is next, and how many may wait.

A token costs one TokenReview, however often it is sent meanwhile. Order of reviews:

1. Tokens whose claims are those of a caller that would be accepted come before all others. Claims are not verified
   here: they only decide about the order.
2. Tokens of a client that has shown too many others lately (`ReviewPace`) come after the rest of their class, and take
   three quarters of the reviewers at most. None is refused: valid ones are among them where clients share an address.
3. Addresses take turns, so that one client delays only itself.
4. The newest and the oldest request of an address come in turn: the newest, because most of a flood is older; the
   oldest, so that nobody waits for ever.

If the queue is full, the oldest request of the address with the most of them is refused.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, Generic, TypeVar

from slack_operator.runtime.tokens import identity_of, token_hash

IDENTITY_BURST: Final = 10
IDENTITY_PER_SECOND: Final = 0.1
ADDRESS_BURST: Final = 512
"""All gates of a node may come by one address after a restart of the agent, if the network translates addresses."""
ADDRESS_PER_SECOND: Final = 10.0
MOST_CLIENTS: Final = 4096
"""Clients in memory, of each sort; those that came longest ago are forgotten first."""


class _Buckets:
    """Token buckets by key."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key: what was left, and when."""

    def has_one(self, key: str, now: float) -> bool:
        return self._now_left(key, now) >= 1.0

    def take_token(self, key: str, now: float) -> None:
        self._left[key] = self._now_left(key, now) - 1.0, now
        self._left.move_to_end(key)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)

    def _now_left(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (self._burst, now))
        return min(self._burst, left + (now - at) * self._per_second)


class ReviewPace:
    """How many different tokens of one client are reviewed first: a burst, then a rate, by identity and by address.

    The identity is what a token claims, unverified; together with the address, so that nobody can use up another's. An
    agent shows a new token once an hour. A client that can make tokens at will goes beyond the pace of its identity.
    One that invents identities goes beyond that of its address. Owned by one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._identities = _Buckets(IDENTITY_BURST, IDENTITY_PER_SECOND)
        self._addresses = _Buckets(ADDRESS_BURST, ADDRESS_PER_SECOND)

    def allow_review(self, address: str, identity: str) -> bool:
        """Take one review; return whether one was left.

        Args:
            address: of the client.
            identity: what its token claims to be; '' if it claims nothing.
        """
        now, client = self._clock(), f"{address} {identity}"
        if not self._addresses.has_one(address, now) or (identity and not self._identities.has_one(client, now)):
            return False
        if identity:
            self._identities.take_token(client, now)
        self._addresses.take_token(address, now)
        return True


MOST_WAITING: Final = 512
T = TypeVar("T")


class QueueFull(Exception):
    """A token that is not judged now: too many wait."""


class _Waiting:
    __slots__ = ("address", "done", "judge", "key", "line", "waiters")

    def __init__(self, key: bytes, address: str, judge: Callable[[], Any], line: "_Line") -> None:
        self.key = key
        self.address = address
        self.judge = judge
        self.line = line
        self.waiters = 0
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class _Line:
    """Requests of one class, by address."""

    def __init__(self, *, beyond_pace: bool) -> None:
        self.beyond_pace = beyond_pace
        self.by_address: OrderedDict[str, list[_Waiting]] = OrderedDict()
        self._newest = False

    def add_waiting(self, waiting: _Waiting) -> None:
        self.by_address.setdefault(waiting.address, []).append(waiting)

    def remove(self, waiting: _Waiting) -> None:
        line = self.by_address.get(waiting.address, [])
        if waiting in line:
            line.remove(waiting)
            if not line:
                del self.by_address[waiting.address]

    def next(self) -> _Waiting | None:
        if not self.by_address:
            return None
        self._newest = not self._newest
        address, line = self.by_address.popitem(last=False)
        waiting = line.pop(-1 if self._newest else 0)
        if line:
            self.by_address[address] = line  # behind the others
        return waiting

    def oldest_of_the_most(self) -> _Waiting | None:
        return max(self.by_address.values(), key=len)[0] if self.by_address else None


class ReviewQueue(Generic[T]):
    """Has tokens judged in an executor, as many at once as `at_once`. Owned by one event loop."""

    def __init__(self, executor: Executor, at_once: int, most_waiting: int = MOST_WAITING) -> None:
        self._executor = executor
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._pace = ReviewPace()
        self._running = 0
        self._running_beyond_pace = 0
        self._known: dict[bytes, _Waiting] = {}
        self._lines = {
            (likely, beyond_pace): _Line(beyond_pace=beyond_pace)
            for likely in (True, False)
            for beyond_pace in (False, True)
        }
        """By whether tokens are likely, and beyond their client's pace; the first is served first."""

    def __len__(self) -> int:
        return len(self._known) - self._running

    async def judge(self, token: str, address: str, judge: Callable[[], T], *, likely: bool = False) -> T:
        """Return what `judge` returns for a token, or raise what it raises.

        Args:
            token: requests with the same one share one call.
            address: of the client.
            judge: asks the API server; called in the executor.
            likely: whether the token's claims are those of a caller that would be accepted.

        Raises:
            QueueFull: too many wait.
        """
        key = token_hash(token)
        waiting = self._known.get(key)
        if waiting is None:
            line = self._lines[likely, not self._pace.allow_review(address, identity_of(token))]
            waiting = self._known[key] = _Waiting(key, address, judge, line)
            line.add_waiting(waiting)
            self._start()
            if len(self) > self._most_waiting:
                self._refuse_one()
        waiting.waiters += 1
        try:
            found: T = await asyncio.shield(waiting.done)
            return found
        finally:
            waiting.waiters -= 1
            if not waiting.waiters:
                self._give_up(waiting)

    def _start(self) -> None:
        while self._running < self._at_once:
            waiting = self._next()
            if waiting is None:
                return
            self._running += 1
            self._running_beyond_pace += waiting.line.beyond_pace
            try:
                running = asyncio.get_running_loop().run_in_executor(self._executor, waiting.judge)
            except RuntimeError as error:  # the server ends
                self._ended(waiting)
                waiting.done.set_exception(QueueFull(str(error)))
                waiting.done.exception()
                return
            running.add_done_callback(partial(self._judged, waiting))

    def _next(self) -> _Waiting | None:
        most_beyond_pace = max(1, self._at_once * 3 // 4)
        for line in self._lines.values():
            if line.beyond_pace and self._running_beyond_pace >= most_beyond_pace:
                continue
            if (waiting := line.next()) is not None:
                return waiting
        return None

    def _judged(self, waiting: _Waiting, future: "asyncio.Future[T]") -> None:
        self._ended(waiting)
        if not waiting.done.done():
            if future.cancelled():
                waiting.done.cancel()
            elif (error := future.exception()) is not None:
                waiting.done.set_exception(error)
                waiting.done.exception()  # nobody may be waiting any more
            else:
                waiting.done.set_result(future.result())
        self._start()

    def _ended(self, waiting: _Waiting) -> None:
        self._running -= 1
        self._running_beyond_pace -= waiting.line.beyond_pace
        self._known.pop(waiting.key, None)

    def _give_up(self, waiting: _Waiting) -> None:
        """Forget a request that nobody waits for any more, if it was not begun."""
        if waiting in waiting.line.by_address.get(waiting.address, ()):
            waiting.line.remove(waiting)
            self._known.pop(waiting.key, None)

    def _refuse_one(self) -> None:
        for line in reversed(self._lines.values()):
            if (oldest := line.oldest_of_the_most()) is not None:
                line.remove(oldest)
                self._known.pop(oldest.key, None)
                oldest.done.set_exception(QueueFull("too many tokens are being reviewed"))
                oldest.done.exception()
                return
