"""The connection to the node's agent: TLS, the pod's token once, then JSON lines both ways.

It is made anew for each try, with the token as it is then. Nothing is read from it that is longer than a line may be.
"""

import json
import socket
import ssl

CONNECT_SECONDS = 5.0
MAX_LINE_BYTES = 16 << 10
_READ_BYTES = 16_384
_SILENT_SECONDS, _BETWEEN_SECONDS, _TRIES = 10, 5, 3
"""The kernel asks for a peer that says nothing, so that no process has to."""


def is_authority(pem: str) -> bool:
    """Whether certificates can be read of this: one that cannot would end each try to connect."""
    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


class LinkDown(Exception):
    """There is no connection; the text says why and has no secret."""


class AgentLink:
    """One connection. Blocking while it is made, never afterwards."""

    def __init__(
        self, host: str, port: int, server_name: str, authority: str, token_file: str, static_pod: str = ""
    ) -> None:
        """Connect, prove that it is the agent, and say who we are.

        Args:
            host: the node's address.
            port: the agent's.
            server_name: what its certificate is for: one certificate serves all nodes, whatever their addresses.
            authority: PEM of who signs it.
            token_file: the pod's own token for the agent's audience.
            static_pod: NAMESPACE/NAME of a static pod, whose token is the node's.

        Raises:
            LinkDown: it did not come to that.
        """
        self._buffer = b""
        self._ended = False
        try:
            context = ssl.create_default_context(cadata=authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            with open(token_file, encoding="ascii") as file:
                token = file.read().strip()
            if static_pod:
                token = f"static:{static_pod}:{token}"
            plain = socket.create_connection((host, port), CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise LinkDown(f"{host}:{port}: {error}") from None
        self.socket: socket.socket = plain
        try:
            self.socket = context.wrap_socket(plain, server_hostname=server_name)
            _keep_alive(self.socket)
            self.send({"type": "hello", "token": token})
            self.socket.setblocking(False)
        except (OSError, ValueError) as error:
            self.socket.close()
            raise LinkDown(f"{host}:{port}: {error}") from None

    def send(self, message: dict[str, object]) -> None:
        """Send one message.

        Raises:
            LinkDown: the agent takes none.
        """
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LinkDown(str(error)) from None

    def receive(self) -> list[dict[str, object]]:
        """Return the messages that are there, none when a line is not whole yet.

        Raises:
            LinkDown: the agent is gone, or says what is no message.
        """
        while not self._ended:
            try:
                piece = self.socket.recv(_READ_BYTES)
            except (ssl.SSLWantReadError, BlockingIOError):
                break
            except OSError as error:
                raise LinkDown(str(error)) from None
            self._ended = not piece  # what it said before is told first
            self._buffer += piece
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > MAX_LINE_BYTES:
            raise LinkDown(f"a line of more than {MAX_LINE_BYTES} bytes")
        try:
            messages = [json.loads(line) for line in lines if line]
        except ValueError:
            raise LinkDown("a line that is no JSON") from None
        if not all(isinstance(message, dict) for message in messages):
            raise LinkDown("a line that is no object")
        if self._ended and not messages:
            raise LinkDown("the agent has closed the connection")
        return messages

    def close(self) -> None:
        """End the connection."""
        self.socket.close()


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _SILENT_SECONDS),
        (socket.TCP_KEEPINTVL, _BETWEEN_SECONDS),
        (socket.TCP_KEEPCNT, _TRIES),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
