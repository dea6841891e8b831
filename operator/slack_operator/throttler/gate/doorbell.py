"""The doorbell: the gate's readiness probe, by which the kubelet is told to look at the pod now.

A start that failed is tried again after ten seconds or more, but at once when a probe's result changes. The kubelet
asks each second; where there is something new to see, the answer is the other one than before. Nothing is ever pending
for long: when nothing is new, the answer goes back to `ready` and stays there.
"""

import select
import socket

PROBE_SECONDS = 1
_MAX_REQUEST = 2048
_WAIT_SECONDS = 0.2
_READY = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_UNREADY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Doorbell:
    """Answers probes; `ring` has the next one answered otherwise."""

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

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self.socket.getsockname()[1])

    def ring(self) -> None:
        """Have the kubelet look."""
        self._rung = True

    def answer(self) -> None:
        """Answer one probe, if one is there. Who connects and says nothing is left within a fifth of a second."""
        try:
            connection, _ = self.socket.accept()
        except OSError:
            return
        with connection:
            connection.setblocking(False)
            if not select.select([connection], [], [], _WAIT_SECONDS)[0]:
                return
            try:
                if not connection.recv(_MAX_REQUEST).startswith(b"GET "):
                    return
                told = not self.ready if self._rung else True
                connection.send(_READY if told else _UNREADY)
            except OSError:
                return
        self.ready, self._rung = told, False

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()
