"""What the loop acts through: pods of a cluster or, in benchmarks, processes of a node. It decides nothing."""

from collections.abc import Callable, Sequence
from typing import Protocol

from slack.demand.model import Creation, Ending, PoolContainer

OnFailure = Callable[[str, str], None]
"""Called with a creation's id and why it failed, from any thread."""


class Containers(Protocol):
    """Containers of all pools. The loop's thread calls; what takes long goes on behind it."""

    def seen(self) -> Sequence[PoolContainer]:
        """Return all containers of ours that are there: also those whose pool is gone, and those that are ending.

        An id that was created is seen as soon as it is known to be there; what is gone is not seen any more.
        """

    def create(self, creations: Sequence[Creation]) -> None:
        """Begin to create; returns at once. One that fails is told to `OnFailure`, and is not tried again here.

        A creation that is there already is not made a second time.
        """

    def end(self, endings: Sequence[Ending]) -> None:
        """Begin to end; returns at once. A container that is gone, or is ending, is no error."""
