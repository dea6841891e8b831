"""Plain HTTP for addresses that users name, a Prometheus or a kubelet: with an end, a bound, and no way to elsewhere.

A redirect to another host is refused: what stands behind it is a login page, and the password was meant for another.
"""

import functools
import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPMessage
from typing import IO, TYPE_CHECKING, NamedTuple

from slack.cli.terminal.problems import UserError
from slack.process.values import HTTP_SCHEMES, split_url

if TYPE_CHECKING:
    from slack.kube.deadline import Deadline

_CHUNK_BYTES = 64 * 1024
_MOST_REFUSAL_BYTES = 1024 * 1024
_LONGEST_SHOWN = 80


class FetchedAnswer(NamedTuple):
    """What came: a status of any kind, and its body."""

    status: int
    reason: str
    body: bytes


class TooLong(Exception):
    """An answer beyond its bound; the rest of it was not read."""


class _Elsewhere(Exception):
    """A redirect to another host."""


def parsed_address(flag: str, url: str, example: str) -> urllib.parse.SplitResult:
    """Read an http or https address.

    Raises:
        UserError: it is none; the flag is named, and what stands before an @ is not shown.
    """
    parts = split_url(url, HTTP_SCHEMES)
    if parts is not None:
        return parts
    start, separator, rest = url.partition("://")
    shown = f"{start}{separator}{rest.rpartition('@')[2]}"
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
    raise UserError(f"{flag}: {shown!r} is no address such as {example}")


def fetch(
    source: str,
    request: urllib.request.Request,
    deadline: "Deadline",
    *,
    most_bytes: int,
    timeout_seconds: float,
    trust: ssl.SSLContext | None = None,
) -> FetchedAnswer:
    """Return a server's whole answer, an error's too.

    Args:
        source: flag and address, for complaints.
        request: of an address that `parsed_address` has taken.
        deadline: how long this may take.
        most_bytes: of the body.
        timeout_seconds: between two signs of life.
        trust: whose certificates are good; None: what the machine trusts.

    Raises:
        TooLong: the body is longer.
        UserError: no whole answer.
    """
    from slack.kube.errors import Unreachable
    from slack.kube.unreachable import why

    try:
        return deadline.wait(source, lambda: _read(request, deadline, most_bytes, timeout_seconds, trust))
    except Unreachable as error:
        raise UserError(str(error)) from None
    except _Elsewhere as error:
        raise UserError(f"{source}: it redirects to {error}; is this a login page?") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)  # an SSLError has one too, which says less than it does
        cause = reason if isinstance(error, urllib.error.URLError) and isinstance(reason, Exception) else error
        raise UserError(f"{source}: no answer: {why(cause)}") from None


def _read(
    request: urllib.request.Request,
    deadline: "Deadline",
    most_bytes: int,
    timeout_seconds: float,
    trust: ssl.SSLContext | None,
) -> FetchedAnswer:
    opener = urllib.request.build_opener(_SameHost, urllib.request.HTTPSHandler(context=trust or _trust_context()))
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            return FetchedAnswer(answer.status, answer.reason, _body(answer, deadline, most_bytes))
    except urllib.error.HTTPError as error:
        with error:
            return FetchedAnswer(error.code, str(error.reason), error.read(_MOST_REFUSAL_BYTES))


@functools.cache
def _trust_context() -> ssl.SSLContext:
    """Return what the machine trusts, read once: its file of authorities takes longer than most answers."""
    return ssl.create_default_context()


def _body(answer: IO[bytes], deadline: "Deadline", most_bytes: int) -> bytes:
    pieces, size = [], 0
    while chunk := answer.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # what has come, however little
        size += len(chunk)
        if size > most_bytes:
            raise TooLong
        deadline.progress(len(chunk))
        pieces.append(chunk)
    length = getattr(answer, "length", None)
    if length:
        raise http.client.IncompleteRead(b"".join(pieces), length)
    return b"".join(pieces)


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect on the same host, as from http to https; never away from it, never out of TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.hostname != old.hostname or (old.scheme == "https" and new.scheme != "https"):
            fp.close()
            raise _Elsewhere(f"{new.scheme}://{new.netloc.rpartition('@')[2]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
