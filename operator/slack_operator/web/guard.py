"""Who may read the page, and what browsers may do with it.

Without a token only this machine reaches the page (`settings` sees to that), so the Host header must name this machine:
a foreign name that resolves to it is how other sites' scripts would read it (DNS rebinding). With a token every answer
but the login form and the static files needs it, as a bearer or as a session that the form gave. A session is a random
number, so that the token itself is in no cookie; neither is ever logged.
"""

import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import hdrs, web

from slack.errors import InvalidInput
from slack.process.values import is_loopback

COOKIE = "resource-slack"
SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 256
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 4096

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class InvalidTokenFile(InvalidInput):
    """The token cannot be used; the text names the file, never what is in it."""


def read_token(file: Path) -> str:
    """Read the token, without the white space around it.

    Raises:
        InvalidTokenFile: when there is none, or one that could be guessed.
    """
    try:
        with file.open("rb") as opened:
            token = opened.read(LONGEST_TOKEN + 2).decode("ascii").strip()
    except OSError as error:
        raise InvalidTokenFile(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidTokenFile(f"{file} holds other signs than ASCII") from None
    if len(token) < SHORTEST_TOKEN:
        raise InvalidTokenFile(f"{file} holds {len(token)} characters; at least {SHORTEST_TOKEN} are needed")
    if len(token) > LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise InvalidTokenFile(f"{file} holds no single token of at most {LONGEST_TOKEN} characters")
    return token


class RequestGuard:
    """Answers for each request whether it may pass. Owned by the server's event loop."""

    def __init__(self, host: str, token: str | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._token = token.encode() if token is not None else None
        self._clock = clock
        self._sessions: dict[str, float] = {}

    @property
    def asks(self) -> bool:
        """Whether there is a token to know."""
        return self._token is not None

    def right_host(self, header: str | None) -> bool:
        """Whether the Host header names the place where we listen.

        An address such as 0.0.0.0 has many names, which only its owner knows; there the token guards alone.
        """
        name = _host_name(header or "")
        if is_loopback(name) or name == self._host.lower():
            return True
        return self.asks and self._host in ("0.0.0.0", "::")

    def right_site(self, request: web.BaseRequest) -> bool:
        """Whether the request comes from our own page, or from the address bar; old browsers do not say."""
        site = request.headers.get("Sec-Fetch-Site", "none")
        linked = request.method == "GET" and request.path in ("/", "/login")  # a link from elsewhere is fine
        return linked or site in ("same-origin", "none")

    def knows(self, request: web.BaseRequest) -> bool:
        """Whether the caller has shown the token."""
        if self._token is None or self._is_token(_bearer(request)):
            return True
        session = request.cookies.get(COOKIE, "")
        return self._sessions.get(session, 0.0) > self._clock()

    def guesses(self, request: web.BaseRequest) -> bool:
        """Whether a caller who is not known gives a token; one whose session has ended does not."""
        return bool(_bearer(request))

    def open_session(self, given: str) -> str | None:
        """Return the name of a new session for the right token, None for a wrong one."""
        if not self._is_token(given.strip()):
            return None
        now = self._clock()
        self._sessions = {name: until for name, until in self._sessions.items() if until > now}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = now + SESSION_SECONDS
        return name

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)


def _bearer(request: web.BaseRequest) -> str:
    """Return the token that a request carries, '' for none."""
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _host_name(header: str) -> str:
    """Return the name of a Host header without its port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdecimal() else text
