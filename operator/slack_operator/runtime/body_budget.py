"""How many bytes of request bodies one server holds at once, whoever sends them.

A body counts from its first byte until it was handled. If a new piece does not fit, the largest body that is not whole
yet is cut off: a small one is never pushed out by large ones that do not end. Owned by one event loop.
"""

from collections.abc import Callable


class BudgetSpent(Exception):
    """A body that has no place now."""


class Share:
    """What one body holds."""

    def __init__(self, cut_off: Callable[[], None]) -> None:
        self.cut_off = cut_off
        self.held_bytes = 0
        self.whole = False


class BodyBudget:
    """At most `most_bytes` of bodies.

    >>> budget = BodyBudget(100)
    >>> large, small = budget.open(lambda: print("cut off")), budget.open(lambda: None)
    >>> budget.grow(large, 90)
    >>> budget.grow(small, 20)
    cut off
    >>> budget.held_bytes
    20
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._shares: dict[Share, None] = {}

    def open(self, cut_off: Callable[[], None]) -> Share:
        """Begin a body.

        Args:
            cut_off: ends its connection.
        """
        share = Share(cut_off)
        self._shares[share] = None
        return share

    def grow(self, share: Share, more_bytes: int) -> None:
        """Take in a piece of a body.

        Raises:
            BudgetSpent: it does not fit, or the body was cut off before.
        """
        while share in self._shares and self.held_bytes + more_bytes > self.most_bytes:
            unfinished = [found for found in self._shares if not found.whole]
            largest = max(unfinished, key=lambda found: found.held_bytes + (more_bytes if found is share else 0))
            self.close(largest)
            if largest is not share:
                largest.cut_off()
        if share not in self._shares:
            raise BudgetSpent("too many bodies are being sent")
        share.held_bytes += more_bytes
        self.held_bytes += more_bytes

    def close(self, share: Share) -> None:
        """Give back what a body held; nothing if that was done before."""
        if share in self._shares:
            del self._shares[share]
            self.held_bytes -= share.held_bytes
