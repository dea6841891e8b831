"""Reports to the controller: one at a time, each made when it is sent, so nothing piles up while nobody answers.

A connection is made for each report: a Service then leads to whoever is ready now, and the certificates are read anew,
as the token is; both rotate. Neither appears in a log. Redirects are not followed and proxies not asked: the token goes
to the address that was configured, or nowhere.
"""

import http.client
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from slack.audit.api.encoding import BadMessage, decode_answer, encode, packed, unpacked
from slack.audit.api.messages import MAX_ANSWER_BYTES, REPORTS_PATH, Answer, NodeReport
from slack.process.logs import fields
from slack.process.outages import Outages

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""Of connecting, and of each wait for bytes; the whole exchange may take thrice as long."""
LONGEST_BACK_OFF_SECONDS = 300.0
JITTER = 0.1
_CHUNK_BYTES = 64 << 10
_TOLD_CHARACTERS = 300
_MAX_TOKEN_BYTES = 64 << 10

SENT, REFUSED, FAILED = "sent", "refused", "failed"
OUTCOMES = (SENT, REFUSED, FAILED)


class NotSent(Exception):
    """A report that did not arrive; the text has neither token nor headers."""

    def __init__(self, cause: str, outcome: str = FAILED) -> None:
        self.outcome = outcome
        super().__init__(cause)


@dataclass(frozen=True)
class Controller:
    """Where reports go and how the agent says who it is."""

    url: str
    ca_file: Path | None
    token_file: Path

    def send(self, report: NodeReport) -> Answer:
        """Send a report and return the answer.

        Raises:
            NotSent: with the cause in words.
        """
        token = self._token()
        body, encoding = packed(encode(report))
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "resource-slack-audit-agent",
        }
        if encoding:
            headers["Content-Encoding"] = encoding
        deadline = time.monotonic() + 3 * TIMEOUT_SECONDS
        connection = self._connection()
        try:
            connection.request("POST", urlsplit(self.url).path.rstrip("/") + REPORTS_PATH, body, headers)
            with connection.getresponse() as response:
                return _answer(response, _read(response, deadline))
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


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise NotSent(f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise NotSent("its answer takes too long")
    return bytes(data)


def _answer(response: http.client.HTTPResponse, data: bytes) -> Answer:
    if response.status != 200:
        words = data[:_TOLD_CHARACTERS].decode(errors="replace")
        said = " ".join("".join(char if char.isprintable() else " " for char in words).split())
        refused = 400 <= response.status < 500 and response.status not in (408, 429)
        raise NotSent(f"HTTP {response.status} {said}".rstrip(), REFUSED if refused else FAILED)
    try:
        return decode_answer(unpacked(data, response.headers.get("Content-Encoding", ""), MAX_ANSWER_BYTES))
    except BadMessage as error:
        raise NotSent(f"its answer cannot be read: {error}") from None


class Pusher:
    """Sends a report every interval, in a thread of its own, until `stop`."""

    def __init__(
        self,
        send: Callable[[NodeReport], Answer],
        make: Callable[[], NodeReport | None],
        take: Callable[[Answer], None],
        *,
        interval_seconds: float,
        count: Callable[[str], None],
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._send = send
        self._make = make
        self._take = take
        self._interval = interval_seconds
        self._count = count
        self._spread = spread
        self._failures = 0
        self._outages = Outages()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="push", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs, or has not begun."""
        return self._thread.ident is None or self._thread.is_alive()

    def start(self) -> None:
        """Begin; the first report goes after a random part of the interval, so that not all nodes send at once."""
        self._thread.start()

    def stop(self, timeout: float = 0.3) -> None:
        """End; a report that is under way is left to the process's end."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        wait = self._spread(0.0, min(self._interval, 30.0))
        while not self._stop.wait(wait):
            wait = self.push()

    def push(self) -> float:
        """Send the newest report, if there is one; returns the seconds until the next."""
        report = self._make()
        if report is None:
            return 1.0
        try:
            answer = self._send(report)
        except NotSent as problem:
            self._count(problem.outcome)
            self._failures += 1
            if self._outages.is_new(str(problem)):
                log.warning("the controller has not taken the report: %s", problem)
            return self._back_off()
        self._count(SENT)
        self._failures = 0
        if self._outages.end():
            log.info("the controller takes reports again")
        else:
            log.debug("reported", extra=fields(names=len(answer.names), bursts=len(answer.bursts)))
        self._take(answer)
        return self._spread(self._interval * (1 - JITTER), self._interval * (1 + JITTER))

    def _back_off(self) -> float:
        """Return the wait after failures in a row: a quarter of the interval, doubled each time, up to minutes."""
        longest = max(LONGEST_BACK_OFF_SECONDS, self._interval)
        wait = min(longest, self._interval / 4 * 2 ** min(self._failures - 1, 16))
        return self._spread(wait / 2, wait)
