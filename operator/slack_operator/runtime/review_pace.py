"""How fast one client may have different tokens reviewed: a burst, then so many a second, by identity and by address.

The identity is what a token claims, unverified; together with the address, so that nobody can use up another's. An
agent shows a new token once an hour. Whoever can make tokens at will is slowed down to the pace of his identity, and
whoever invents identities to that of his address.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

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

    def wait_seconds(self, key: str, now: float) -> float:
        """Return the seconds until one may be taken; 0 if one may be taken now."""
        return max(0.0, (1.0 - self._now_left(key, now)) / self._per_second)

    def take(self, key: str, now: float) -> None:
        self._left[key] = self._now_left(key, now) - 1.0, now
        self._left.move_to_end(key)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)

    def _now_left(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (self._burst, now))
        return min(self._burst, left + (now - at) * self._per_second)


class ReviewPace:
    """Owned by one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._identities = _Buckets(IDENTITY_BURST, IDENTITY_PER_SECOND)
        self._addresses = _Buckets(ADDRESS_BURST, ADDRESS_PER_SECOND)

    def take(self, address: str, identity: str) -> float:
        """Take one review; returns 0, or the seconds after which to come again if none is left.

        Args:
            address: of the client.
            identity: what its token claims to be; '' if it claims nothing.
        """
        now, client = self._clock(), f"{address} {identity}"
        wait = self._identities.wait_seconds(client, now) if identity else 0.0
        wait = max(wait, self._addresses.wait_seconds(address, now))
        if wait > 0.0:
            return wait
        if identity:
            self._identities.take(client, now)
        self._addresses.take(address, now)
        return 0.0
