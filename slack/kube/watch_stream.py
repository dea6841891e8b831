"""The answer to a watch on a connection of its own, handed out as it comes: all that is there at a time.

The server sends each event by itself. Taken one by one through the client's layers, a burst's thousands of them cost
ten times what they cost to decode: reads, wake-ups, and the lock of Python's interpreter. So what comes soon after the
last piece is waited for a little, and taken together. The first event after a pause is handed out at once.

A stream belongs to the thread that reads it, only `abort` may come from elsewhere.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Self

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from slack.kube.errors import AnswerTooLong, InvalidAnswer, QuietStream, Unreachable
from slack.kube.unreachable import TRANSPORT_ERRORS, unreachable

GATHER_SECONDS, MOST_GATHER_SECONDS = 0.005, 0.04
"""What comes so soon after a piece waits as long, for more; twice as long each time, as long as that brings little."""
_LITTLE_BYTES, _MUCH_BYTES = 64 * 1024, 112 * 1024
"""The system holds 128 KiB for a connection at first. If nearly as much has come, waiting may hold up the server."""
_MOST_BYTES = 1024 * 1024
"""Handed out at a time."""
_READ_BYTES = 64 * 1024
_MOST_HEADER_BYTES = 1024 * 1024
_WAITS = (ssl.SSLWantReadError, BlockingIOError)


class WatchStream:
    """See the module's docstring. Use as a context manager, after `send` and `begin`."""

    def __init__(
        self,
        wire: socket.socket,
        request: str,
        idle_seconds: float,
        *,
        on_bytes: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """A stream of nothing yet.

        Args:
            wire: a connection; the stream's from here on.
            request: what was asked for, for messages.
            idle_seconds: without any byte for so long it counts as dead.
            on_bytes: is told how much came.
            clock: monotonic seconds.
            sleep: waits.
        """
        self.status = 0
        """0 before the head of the answer has come."""
        self.reason = ""
        self.headers: dict[str, str] = {}
        """By their names, spelt as `Retry-After` is."""
        self._wire = wire
        self._request = request
        self._idle_seconds = idle_seconds
        self._on_bytes = on_bytes
        self._clock = clock
        self._sleep = sleep
        self.most_gather_seconds = MOST_GATHER_SECONDS
        """Nobody waits for longer. `GATHER_SECONDS` while a list is read, which nothing is to hold up."""
        self._parser = HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._read_at = float("-inf")
        self._gather_seconds = GATHER_SECONDS
        self._over = False
        self._left_some = False
        """More was there than was taken: TLS may hold it, where the system does not see it."""
        self._poll = select.poll()
        self._poll.register(wire.fileno(), select.POLLIN)

    def send(self, message: bytes, seconds: float) -> None:
        """Send the request; raises `Unreachable`."""
        try:
            self._wire.settimeout(seconds)
            self._wire.sendall(message)
            self._wire.settimeout(0.0)
        except TRANSPORT_ERRORS as error:
            raise unreachable(self._request, error) from error

    def begin(self) -> None:
        """Read until the head of the answer is there.

        Raises:
            Unreachable: none came.
            InvalidAnswer: it has no end.
        """
        size = 0
        while not self.status:
            size += self._read()
            if size > _MOST_HEADER_BYTES and not self.status:
                raise InvalidAnswer(f"{self._request}: the head of the answer has no end")

    def chunks(self) -> Iterator[bytes]:
        """Pieces of the body.

        Raises:
            Unreachable: the connection broke, what came is no HTTP, or nothing came for too long.
        """
        while True:
            if self._pieces:
                pieces, self._pieces = self._pieces, []
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if self._over:
                return
            self._read()

    def read(self, most_bytes: int) -> bytes:
        """Return the whole body, as `Stream.read` does."""
        pieces, size = [], 0
        for piece in self.chunks():
            size += len(piece)
            if size > most_bytes:
                raise AnswerTooLong(f"{self._request}: the answer is longer than {most_bytes >> 20} MiB")
            pieces.append(piece)
        return b"".join(pieces)

    def abort(self) -> None:
        """End the body at once, from any thread: a reader blocked in `chunks` returns or raises `Unreachable`."""
        with contextlib.suppress(OSError):  # already gone
            # through a copy of the descriptor: Python's TLS forgets its keys when it is shut down itself
            copy = socket.fromfd(self._wire.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            with copy:
                copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> int:
        """Wait until something comes, and take all that has; return how many bytes that are."""
        try:
            if not self._left_some and not self._poll.poll(self._idle_seconds * 1000):
                silent = QuietStream if self.status else Unreachable  # without a head the server gave no answer at all
                raise silent(f"{self._request}: no answer for {self._idle_seconds:g} s", timed_out=True)
            is_busy = self._clock() - self._read_at < self._gather_seconds
            if is_busy:
                self._sleep(self._gather_seconds)
            data, ended = self._drained()
        except TRANSPORT_ERRORS as error:
            raise unreachable(self._request, error) from error
        if not is_busy or len(data) >= _MUCH_BYTES:
            self._gather_seconds = GATHER_SECONDS
        elif len(data) < _LITTLE_BYTES:
            self._gather_seconds = min(2 * self._gather_seconds, self.most_gather_seconds)
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise Unreachable(f"{self._request}: what came is no answer: {error}") from None
        self._read_at = self._clock()
        if ended and not self._over:
            self._end()
        return len(data)

    def _drained(self) -> tuple[bytes, bool]:
        """Return what is there, and whether the server has closed its side."""
        pieces, size = list[bytes](), 0
        self._left_some = False
        while size < _MOST_BYTES:
            try:
                piece = self._wire.recv(_READ_BYTES)
            except _WAITS:
                return b"".join(pieces), False
            except ssl.SSLEOFError:  # gone without TLS's goodbye, as after `abort`
                piece = b""
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
            size += len(piece)
        self._left_some = True
        return b"".join(pieces), False

    def _end(self) -> None:
        """The server closes: the end of a body that has no other, else the answer broke off."""
        counted = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if not self.status or counted:
            raise Unreachable(f"{self._request}: it closed the connection before the answer was whole")
        self._over = True

    def on_status(self, reason: bytes) -> None:
        """Of the parser: words beside the status, or a part of them."""
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the parser: a header."""
        self.headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Of the parser: the head is whole; one below 200 announces another."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
        else:
            self.reason, self.headers = "", {}

    def on_body(self, piece: bytes) -> None:
        """Of the parser: a part of the body."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Of the parser: the answer is whole."""
        self._over = bool(self.status)
