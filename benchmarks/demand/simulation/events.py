"""A clock that jumps from one event to the next, and the randomness that comes in as an argument."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Generator(Protocol):
    """What a `random.Random` of some seed does."""

    def random(self) -> float:
        """Return a number from 0 to 1."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number from a to b."""

    def expovariate(self, lambd: float) -> float:
        """Return the time to the next of events that come `lambd` times a second."""

    def randrange(self, stop: int, /) -> int:
        """Return a whole number below `stop`."""

    def choice(self, seq: Sequence[_T]) -> _T:
        """Return one of them."""


class Events:
    """Events in the order of their times; those of one time in the order in which they were told of."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self) -> None:
        """It is the second 0, and nothing is to happen."""
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def after(self, seconds: float, happens: Callable[..., None], *arguments: Any) -> None:
        """Let something happen in so many seconds."""
        self._sequence += 1
        heappush(self._heap, (self.now + seconds, self._sequence, happens, arguments))

    def run(self, until_seconds: float) -> None:
        """Let everything happen up to then."""
        heap = self._heap
        while heap and heap[0][0] <= until_seconds:
            self.now, _, happens, arguments = heappop(heap)
            happens(*arguments)
        self.now = until_seconds
