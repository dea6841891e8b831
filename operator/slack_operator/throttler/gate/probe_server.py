"""The doorbell: the gate's readiness probe, by which the kubelet is told to look at the pod now.

A start that failed is tried again after ten seconds or more, but at once when a probe's result changes. The kubelet
asks each second; where there is something new to see, the answer is the other one than before. Nothing is ever pending
for long: when nothing is new, the answer goes back to `ready` and stays there.
"""

import socket
import time

_MAX_REQUEST = 2048
_MOST_SILENT = 32
_REQUEST_SECONDS = 5.0
"""As long as the probe itself waits."""
_READY = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_UNREADY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class ProbeServer:
    """Answers probes; `flip` has the next one answered otherwise."""

    def __init__(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        self.socket = socket.create_server((host, port), backlog=16)
        self.socket.setblocking(False)
        self.ready = False
        """What the last probe was told: none is like a failure."""
        self._rung = False
        self._silent: dict[socket.socket, float] = {}
        """Connections without a request so far, and until when each is waited for; the oldest first."""

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self.socket.getsockname()[1])

    def flip(self) -> None:
        """Have the kubelet look."""
        self._rung = True

    @property
    def sockets(self) -> list[socket.socket]:
        """What to wait for in `select`: new connections, and those that have said nothing yet."""
        return [self.socket, *self._silent]

    def answer(self) -> None:
        """Answer the probes that are there. Nobody is waited for: a client that is silent delays no other."""
        self._accept()
        now = time.monotonic()
        for connection, until in list(self._silent.items()):
            try:
                request = connection.recv(_MAX_REQUEST)
            except BlockingIOError:
                if now >= until:
                    self._leave(connection)
                continue
            except OSError:
                request = b""
            self._tell(connection, request)
            self._leave(connection)

    def _accept(self) -> None:
        for _ in range(_MOST_SILENT):
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            if len(self._silent) >= _MOST_SILENT:
                self._leave(next(iter(self._silent)))  # the oldest
            connection.setblocking(False)
            self._silent[connection] = time.monotonic() + _REQUEST_SECONDS

    def _tell(self, connection: socket.socket, request: bytes) -> None:
        if not request.startswith(b"GET "):
            return
        told = not self.ready if self._rung else True
        try:
            connection.send(_READY if told else _UNREADY)
        except OSError:
            return
        self.ready, self._rung = told, False

    def _leave(self, connection: socket.socket) -> None:
        del self._silent[connection]
        connection.close()

    def close(self) -> None:
        """Stop listening."""
        for connection in list(self._silent):
            self._leave(connection)
        self.socket.close()
