"""HTTP/1.1 answers out of bytes as they come, one after the other: status, the headers that matter, and the body.

Pure: no socket. The reading is llhttp's, as httptools has it; here answers are made whole, and bounded.
"""

from dataclasses import dataclass, field

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from slack.kube.errors import InvalidAnswer

MOST_BYTES = 16 * 1024 * 1024
"""Of one answer."""


@dataclass(slots=True)
class HttpAnswer:
    """One answer."""

    status: int = 0
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """By their names, spelt as `Retry-After` is."""
    body: bytes = b""
    closes: bool = False
    """Whether nothing more comes on this connection."""


class HttpAnswers:
    """The answers on one connection."""

    def __init__(self) -> None:
        self._whole: list[HttpAnswer] = []
        self._bytes = 0
        self._parser = HttpResponseParser(self)
        self.on_message_begin()

    def feed(self, data: bytes) -> list[HttpAnswer]:
        """Return the answers that these bytes complete.

        Raises:
            InvalidAnswer: it is no HTTP, or has no end.
        """
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise InvalidAnswer(f"what came is no answer to a write: {error}") from None
        if self._bytes > MOST_BYTES:
            raise InvalidAnswer(f"an answer of more than {MOST_BYTES >> 20} MiB")
        found, self._whole = self._whole, []
        return found

    def on_message_begin(self) -> None:
        """Of the parser: an answer begins."""
        self._answer = HttpAnswer()
        self._pieces: list[bytes] = []

    def on_status(self, reason: bytes) -> None:
        """Of the parser: words beside the status, or a part of them."""
        self._answer.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the parser: a header."""
        self._answer.headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        """Of the parser: a part of the body."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Of the parser: an answer is whole."""
        self._bytes = 0
        answer = self._answer
        answer.status = self._parser.get_status_code()
        if answer.status < 200:  # more is to come of the same answer
            return
        answer.body = b"".join(self._pieces)
        answer.closes = not self._parser.should_keep_alive()
        self._whole.append(answer)
