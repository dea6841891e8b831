"""The connection to the node's agent: TLS, the pod's token once, then JSON lines both ways.

It is made anew for each try, with the token as it is then. Nothing is read from it that is longer than a line may be.
"""

import errno
import json
import os
import socket
import ssl

CONNECT_SECONDS = 10.0
"""For the whole of TCP and TLS."""
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
    """One connection. It never waits, not even while it is made: `advance` goes on once the socket is ready."""

    def __init__(
        self, host: str, port: int, server_name: str, authority: str, token_file: str, static_pod: str = ""
    ) -> None:
        """Begin to connect.

        Args:
            host: the node's address.
            port: the agent's.
            server_name: what its certificate is for: one certificate serves all nodes, whatever their addresses.
            authority: PEM of who signs it.
            token_file: the pod's own token for the agent's audience.
            static_pod: NAMESPACE/NAME of a static pod, whose token is the node's.

        Raises:
            LinkDown: there is no token, or nobody listens there.
        """
        self._buffer = b""
        self._ended = False
        self._where = f"{host}:{port}"
        self._server_name, self._authority = server_name, authority
        self._tls: ssl.SSLSocket | None = None
        self.established = False
        """Whether the agent has proved who it is, and was told who we are."""
        self.writes = True
        """Whether the socket must be writable before `advance` can go on; else it must be readable."""
        try:
            with open(token_file, encoding="ascii") as file:
                token = file.read().strip()
            self._token = f"static:{static_pod}:{token}" if static_pod else token
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.socket: socket.socket = socket.socket(family, kind, protocol)
        except (OSError, ValueError) as error:
            raise LinkDown(f"{self._where}: {error}") from None
        self.socket.setblocking(False)
        failed = self.socket.connect_ex(address)
        if failed not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise LinkDown(f"{self._where}: {os.strerror(failed)}")

    def advance(self) -> None:
        """Go on with the connection, now that the socket is ready: TLS, then who we are.

        Raises:
            LinkDown: it does not come to a connection.
        """
        try:
            if self._tls is None:
                self._tls = self._begin_tls()
            self._tls.do_handshake()
            _keep_alive(self._tls)
            self.send({"type": "hello", "token": self._token})
            self.established, self.writes = True, False
        except ssl.SSLWantReadError:
            self.writes = False
        except ssl.SSLWantWriteError:
            self.writes = True
        except (OSError, ValueError) as error:
            raise LinkDown(f"{self._where}: {error}") from None

    def _begin_tls(self) -> ssl.SSLSocket:
        failed = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise OSError(failed, os.strerror(failed))
        context = ssl.create_default_context(cadata=self._authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        secured = context.wrap_socket(self.socket, server_hostname=self._server_name, do_handshake_on_connect=False)
        self.socket = secured
        return secured

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
