"""A body posted to a process of ours, with a token, and its answer: one connection for each.

A Service then leads to whoever is ready now, and the certificates are read anew, as the token is; both rotate. Neither
appears in a log. Redirects are not followed and proxies not asked: the token goes to the address that was configured,
or nowhere.
"""

import http.client
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from slack.process.reporting.packing import InvalidReportBody, pack, unpack

TIMEOUT_SECONDS = 10.0
"""Of connecting, and of each wait for bytes; the whole exchange may take thrice as long."""
_CHUNK_BYTES = 64 << 10
_TOLD_CHARACTERS = 300
_MAX_TOKEN_BYTES = 64 << 10

SENT, REFUSED, FAILED = "sent", "refused", "failed"
OUTCOMES = (SENT, REFUSED, FAILED)


class NotSent(Exception):
    """A body that did not arrive; the text has neither token nor headers."""

    def __init__(self, cause: str, outcome: str = FAILED, *, status: int = 0) -> None:
        self.outcome = outcome
        self.status = status
        """Of the answer; 0: there was none."""
        super().__init__(cause)


@dataclass(frozen=True)
class Post:
    """Where bodies go, and how the sender says who it is."""

    url: str
    """Whole, with the path."""
    ca_file: Path | None
    token_file: Path
    agent: str
    """Its name in the request."""
    max_answer_bytes: int

    def send(self, data: bytes) -> bytes:
        """Send a JSON body and return the answer's.

        Raises:
            NotSent: with the cause in words.
        """
        token = self._token()
        body, encoding = pack(data)
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": self.agent,
        }
        if encoding:
            headers["Content-Encoding"] = encoding
        deadline = time.monotonic() + 3 * TIMEOUT_SECONDS
        connection = self._connection()
        try:
            connection.request("POST", urlsplit(self.url).path, body, headers)
            with connection.getresponse() as response:
                return self._answer(response, self._read(response, deadline))
        except ssl.SSLCertVerificationError as error:
            raise NotSent(f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last: a host that is no name
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotSent(f"no answer: {reason[:_TOLD_CHARACTERS]}") from None
        finally:
            connection.close()

    def _token(self) -> str:
        try:
            with self.token_file.open("rb") as file:
                data = file.read(_MAX_TOKEN_BYTES)
            token = data.decode("ascii").strip()
        except OSError as error:
            raise NotSent(f"token file {self.token_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise NotSent(f"token file {self.token_file}: is no text") from None
        if not token or not token.isprintable() or " " in token:
            raise NotSent(f"token file {self.token_file}: holds no token")
        return token

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = str(parts.hostname)
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except (OSError, ssl.SSLError) as error:
            why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise NotSent(f"CA file {self.ca_file}: {why}") from None
        return http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=context)

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        data = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            data += chunk
            if len(data) > self.max_answer_bytes:
                raise NotSent(f"its answer is longer than {self.max_answer_bytes} bytes")
            if time.monotonic() > deadline:
                raise NotSent("its answer takes too long")
        return bytes(data)

    def _answer(self, response: http.client.HTTPResponse, data: bytes) -> bytes:
        if response.status != 200:
            words = data[:_TOLD_CHARACTERS].decode(errors="replace")
            said = " ".join("".join(char if char.isprintable() else " " for char in words).split())
            refused = 400 <= response.status < 500 and response.status not in (408, 429)
            text = f"HTTP {response.status} {said}".rstrip()
            raise NotSent(text, REFUSED if refused else FAILED, status=response.status)
        try:
            return unpack(data, response.headers.get("Content-Encoding", ""), self.max_answer_bytes)
        except InvalidReportBody as error:
            raise NotSent(f"its answer cannot be read: {error}") from None
