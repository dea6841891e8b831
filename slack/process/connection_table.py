"""Which connections a server has, and which one it closes when its table is full. A pure data structure.

A connection is idle while the server waits for bytes of its client: for a handshake, a request or the next request. It
is busy while its request is answered; a busy one is never closed to make place. A full table closes the oldest idle
connection of the address that has the most, so that one address cannot push out the connections of others. One that
has sent something which was not read yet is spared where another can be closed: clients do not repeat every request.
"""

from collections import Counter
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A connection that can be cut off."""

    def abort(self) -> None:
        """Cut it off at once."""

    def has_sent(self) -> bool:
        """Whether bytes of the client wait to be read."""


C = TypeVar("C", bound=Closable)


class ConnectionTable(Generic[C]):
    """At most `most` connections. Owned by one event loop.

    >>> class Connection:
    ...     def __init__(self, name: str) -> None:
    ...         self.name = name
    ...     def abort(self) -> None:
    ...         print(f"{self.name} is closed")
    ...     def has_sent(self) -> bool:
    ...         return False
    >>> table: ConnectionTable[Connection] = ConnectionTable(2)
    >>> [table.add(Connection(name), "10.0.0.1", now) for name, now in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    a is closed
    [True, True, True]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._idle_since: dict[C, float] = {}
        self._busy: set[C] = set()
        self._addresses: dict[C, str] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._addresses)

    def add_connection(self, connection: C, address: str, now: float) -> bool:
        """Take a new connection in as an idle one; False if all places are taken by busy ones.

        Args:
            connection: is closed to make place for others while it is idle.
            address: of its client, without the port.
            now: monotonic seconds.
        """
        if len(self._addresses) >= self.most and not self._close_oldest(address):
            return False
        self._addresses[connection] = address
        self._counts[address] += 1
        self._idle_since[connection] = now
        return True

    def remove(self, connection: C) -> None:
        """Forget a connection that has ended."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
        self._idle_since.pop(connection, None)
        self._busy.discard(connection)

    def busy(self, connection: C) -> None:
        """Note that its request is being answered."""
        if connection in self._addresses:
            self._idle_since.pop(connection, None)
            self._busy.add(connection)

    def idle(self, connection: C, now: float) -> None:
        """Note that the server waits for its client."""
        if connection in self._addresses:
            self._busy.discard(connection)
            self._idle_since[connection] = now

    def _close_oldest(self, newcomer: str) -> bool:
        """Close the oldest idle connection of the address with the most idle ones, the newcomer's own included."""
        idle = Counter(self._addresses[connection] for connection in self._idle_since)
        if not idle:
            return False
        most = max(idle.values())
        crowded = {address for address, count in idle.items() if count == most}
        if newcomer in crowded:
            crowded = {newcomer}
        candidates = sorted(
            (connection for connection in self._idle_since if self._addresses[connection] in crowded),
            key=self._idle_since.__getitem__,
        )
        oldest = next((connection for connection in candidates if not connection.has_sent()), candidates[0])
        self.remove(oldest)
        oldest.abort()
        return True
