"""Connections of an asyncio server: counted when they are accepted, and bounded in number and in time.

asyncio's own servers count a connection only after its TLS handshake, wait for a request without an end, and accept
without a bound. Here a socket has a place in the table from `accept` on, before any memory is spent on TLS. Every
handshake and every request has one deadline for its whole. The protocol behind it may be anybody's: aiohttp's,
uvicorn's or that of asyncio's streams.
"""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from slack.process.connection_table import ConnectionTable
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.tasks import SupervisedTask

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPTS_PER_TURN: Final = 4
"""Of the event loop: who was accepted has had some turns to send its request before newcomers can push it out."""
TLS_BUFFER_BYTES: Final = 32 << 10
"""What asyncio allocates for each TLS connection, from its handshake to its end; its own 256 KiB are for bulk data."""
CROWDED_SHARE: Final = 0.75
"""Of all places: from there on no connection is kept for a next request."""
SWEEP_SECONDS: Final = 0.5
"""How often deadlines are looked at."""
REFUSED_SECONDS: Final = 0.05
"""After an accept that failed, as without a free descriptor."""
STUCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounds:
    """What one server allows its clients."""

    connections: int
    """At once, from accept on."""
    strangers: int
    """At once, of those: connections without a whole request so far. With TLS each one costs some 100 KiB."""
    request_seconds: float
    """From accept, or from the first byte of a later request, until the request is whole."""
    idle_seconds: float
    """Between two requests."""


sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class _Accepted:
    """An accepted socket, before and after its protocol is connected."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire: socket.socket | None = wire
        self.transport: asyncio.Transport | None = None
        self.deadline = 0.0
        self.begun = True
        """Whether the time of a request runs: from accept on, and from the first byte of each later one."""
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        if self.transport is not None:
            self.transport.abort()
        elif self.wire is not None:
            with contextlib.suppress(OSError):
                self.wire.shutdown(socket.SHUT_RDWR)  # whoever shakes hands on it sees its end

    def has_sent(self) -> bool:
        if self.wire is None or self.wire.fileno() < 0:
            return False
        try:
            return bool(self.wire.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False


class _Watched(asyncio.Protocol):
    """Passes everything on to the real protocol, and notes when a request begins."""

    def __init__(self, inner: asyncio.Protocol, acceptor: "Acceptor", connection: _Accepted) -> None:
        self._inner = inner
        self._acceptor = acceptor
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.transport = cast("asyncio.Transport", transport)
        self._acceptor.connected(self._connection)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._acceptor.received(self._connection)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._acceptor.lost(self._connection)
        self._inner.connection_lost(exc)


class Acceptor:
    """Accepts for one protocol until `stop`. Everything but `unhealthy` belongs to its event loop."""

    def __init__(
        self, make: Callable[[], asyncio.Protocol], bounds: ClientBounds, *, tls: ssl.SSLContext | None, name: str
    ) -> None:
        """Nothing is accepted yet.

        Args:
            make: makes the protocol of one connection.
            bounds: of connections and time.
            tls: None serves in the clear.
            name: of the server, in /healthz.
        """
        self._make = make
        self._bounds = bounds
        self._tls = tls
        self._name = name
        self._table: ConnectionTable[_Accepted] = ConnectionTable(bounds.connections)
        self._strangers: ConnectionTable[_Accepted] = ConnectionTable(min(bounds.strangers, bounds.connections))
        self._by_transport: dict[asyncio.BaseTransport, _Accepted] = {}
        self._open: dict[_Accepted, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeping: SupervisedTask | None = None
        self._socket: socket.socket | None = None

    def __len__(self) -> int:
        return len(self._table)

    def start(self, bound: socket.socket) -> None:
        """Accept from a socket that is bound and listens."""
        bound.setblocking(False)
        self._socket = bound
        asyncio.get_running_loop().add_reader(bound, self._accept, bound)
        heart = Heartbeat(f"the task of the {self._name} server that sweeps", STUCK_SECONDS)
        self._sweeping = SupervisedTask(self._sweep(heart), heart=heart)

    async def stop(self) -> None:
        """Accept no more. Connections that stand are left to their protocols, handshakes end."""
        if self._sweeping is not None:
            await self._sweeping.end()
        for handshake in tuple(self._tasks):
            handshake.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    @property
    def crowded(self) -> bool:
        """Whether few places are left, so that answers should end their connections.

        A connection that is idle may have to be closed soon, just when its client sends the next request.
        """
        return len(self._table) > CROWDED_SHARE * self._bounds.connections

    def unhealthy(self) -> str | None:
        """Return why connections are not looked after any more; None if they are."""
        return None if self._sweeping is None else self._sweeping.unhealthy()

    def busy(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a request is whole and is being answered: it has no deadline of ours now."""
        connection = self._of(transport)
        if connection is not None:
            connection.deadline = math.inf
            self._strangers.remove(connection)
            self._table.busy(connection)

    def wait_for_client(self, transport: asyncio.BaseTransport | None, seconds: float) -> None:
        """Note that more of a request is awaited: the connection may be closed for another, or after some seconds."""
        connection = self._of(transport)
        if connection is not None:
            now = self._now()
            connection.deadline, connection.begun = now + seconds, True
            self._table.idle(connection, now)

    def idle(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a request was answered: the connection may be idle for a while."""
        connection = self._of(transport)
        if connection is not None:
            now = self._now()
            connection.deadline, connection.begun = now + self._bounds.idle_seconds, False
            self._table.idle(connection, now)

    def connected(self, connection: _Accepted) -> None:
        """Note the end of a handshake; called by the protocol."""
        assert connection.transport is not None, "just set"
        self._by_transport[connection.transport] = connection
        if connection.aborted:
            connection.transport.abort()

    def received(self, connection: _Accepted) -> None:
        """Note bytes of a client; called by the protocol. The first of a request begin its time."""
        if not connection.begun:
            connection.deadline, connection.begun = self._now() + self._bounds.request_seconds, True

    def lost(self, connection: _Accepted) -> None:
        """Forget a connection; called by the protocol."""
        self._table.remove(connection)
        self._strangers.remove(connection)
        self._open.pop(connection, None)
        if connection.transport is not None:
            self._by_transport.pop(connection.transport, None)

    def _of(self, transport: asyncio.BaseTransport | None) -> _Accepted | None:
        return None if transport is None else self._by_transport.get(transport)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _accept(self, bound: socket.socket) -> None:
        """Take what waits. It is no task with a time-out: cancelling `sock_accept` may lose a connection."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                wire, peer = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # the client has gone, or no descriptor is free
                log.debug("%s: cannot accept: %s", self._name, error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(bound)
                loop.call_later(REFUSED_SECONDS, self._accept_again, bound)
                return
            self._take(wire, str(peer[0]))

    def _accept_again(self, bound: socket.socket) -> None:
        if self._socket is bound:
            asyncio.get_running_loop().add_reader(bound, self._accept, bound)

    def _take(self, wire: socket.socket, address: str) -> None:
        connection, now = _Accepted(wire), self._now()
        if not self._table.add_connection(connection, address, now):
            wire.close()
            return
        connection.deadline = now + self._bounds.request_seconds
        self._open[connection] = None
        self._strangers.add_connection(connection, address, now)
        task = asyncio.get_running_loop().create_task(self._connect(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: _Accepted) -> None:
        wire = connection.wire
        assert wire is not None, "it is new"
        try:
            if connection.aborted:  # closed for a newcomer before it cost anything
                return
            wire.setblocking(False)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Watched(self._make(), self, connection),
                wire,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else self._bounds.request_seconds,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            log.debug("%s: a connection has ended before its first request: %s", self._name, error)
        finally:
            if connection.transport is None:
                wire.close()
                self.lost(connection)

    async def _sweep(self, heart: Heartbeat) -> None:
        """Cut off whoever is late."""
        while True:
            heart.beat()
            await asyncio.sleep(SWEEP_SECONDS)
            now = self._now()
            for connection in [found for found in self._open if found.deadline < now]:
                connection.abort()


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind and listen.

    Raises:
        OSError: the address cannot be bound.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
