"""HTTP to a provider: one connection that is kept, a deadline for each answer, and complaints without secrets.

Token and certificates are read anew for each fetch, as they rotate. Redirects are not followed and proxies not asked:
the token goes to the address that was configured, or nowhere.
"""

import base64
import http.client
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from slack_operator.loadwatcher.settings import LoadWatcherSettings

TIMEOUT_SECONDS = 10.0
"""Of connecting, and of each wait for bytes; the whole answer may take thrice as long."""
MOST_BYTES = 64 << 20
_CHUNK_BYTES = 256 << 10
_MOST_SECRET_BYTES = 64 << 10
_TOLD_CHARACTERS = 300


class FetchFailed(Exception):
    """Why a provider gave no figures; the text has neither token nor headers."""


class HttpSource:
    """One provider's address. Owned by one thread."""

    def __init__(
        self,
        address: str,
        *,
        headers: Mapping[str, str] | None = None,
        username: str | None = None,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.address = address
        self._headers = dict(headers or {})
        self._username = username
        self._token_file = token_file
        self._ca_file = ca_file
        self._timeout = timeout_seconds
        self._most_bytes = most_bytes
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_settings(cls, settings: LoadWatcherSettings) -> "HttpSource":
        """Make the source that the settings name."""
        return cls(
            settings.address or "",
            headers=settings.headers,
            username=settings.username,
            token_file=settings.token_file,
            ca_file=settings.ca_file,
        )

    def post(self, path: str, form: Mapping[str, str]) -> bytes:
        """Send a form and return the whole answer.

        Raises:
            FetchFailed: with the cause in words.
        """
        headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded", **self._authorization()}
        headers.setdefault("User-Agent", "resource-slack-load-watcher")
        target, body = urlsplit(self.address).path.rstrip("/") + path, urlencode(form)
        try:
            try:
                return self._exchange(target, body, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()  # a connection that was kept and has ended meanwhile
                return self._exchange(target, body, headers)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise FetchFailed(f"{self.address}: its certificate is not trusted: {error.verify_message}") from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FetchFailed(f"{self.address}: no answer: {reason[:_TOLD_CHARACTERS]}") from None
        except FetchFailed:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, target: str, body: str, headers: Mapping[str, str]) -> bytes:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", target, body, headers)
        with self._connection.getresponse() as response:
            data = self._read(response)
            # Prometheus answers a bad query with 400 and its own words, in the same JSON
            if response.status != 200 and not (response.status in (400, 422, 503) and data[:1] == b"{"):
                words = " ".join(data[:_TOLD_CHARACTERS].decode(errors="replace").split())
                said = "".join(char for char in words if char.isprintable())
                raise FetchFailed(f"{self.address}: HTTP {response.status} {said}".rstrip())
            return data

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        deadline, data = time.monotonic() + 3 * self._timeout, bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            data += chunk
            if len(data) > self._most_bytes:
                raise FetchFailed(f"{self.address}: its answer is longer than {self._most_bytes >> 20} MiB")
            if time.monotonic() > deadline:
                raise FetchFailed(f"{self.address}: its answer takes longer than {3 * self._timeout:g} s")
        return bytes(data)

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        host = str(parts.hostname)
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self._timeout)
        try:
            context = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
        except (OSError, ssl.SSLError) as error:
            why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise FetchFailed(f"CA file {self._ca_file}: {why}") from None
        return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout, context=context)

    def _authorization(self) -> Mapping[str, str]:
        if self._token_file is None:
            return {}
        try:
            with self._token_file.open("rb") as file:
                token = file.read(_MOST_SECRET_BYTES).decode().strip()
        except OSError as error:
            raise FetchFailed(f"token file {self._token_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise FetchFailed(f"token file {self._token_file}: is no text") from None
        if not token or not token.isprintable():
            raise FetchFailed(f"token file {self._token_file}: holds no token")
        if self._username is None:
            return {"Authorization": f"Bearer {token}"}
        both = base64.b64encode(f"{self._username}:{token}".encode()).decode()
        return {"Authorization": f"Basic {both}"}
