"""What can go wrong between us and an API server, as few exceptions as callers can act upon.

`ConnectionFailed` is the user's to fix (a file, a context), `Unreachable` passes by itself, `ApiError` is an answer,
`InvalidAnswer` one that something else than an API server has given.
No message ever holds a header, a token or an object's content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from slack.errors import UserFacingError

T = TypeVar("T")


class KubeError(UserFacingError):
    """Anything this package raises on purpose."""

    server: str | None = None
    """Whose answer it was or should have been, where one command may speak to several; a part of the text then."""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.server}: {text}" if self.server else text


class ConnectionFailed(KubeError):
    """There is no usable configuration; the text names the file or context and what would be right."""


class Unreachable(KubeError):
    """No (whole) answer came: refused, reset, timed out, credentials not refreshed. Worth another try."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class QuietStream(Unreachable):
    """An open watch has brought nothing for too long, not even a bookmark. It is opened again.

    A kind that the API server does not cache, such as Events, has no bookmarks, so this is usual in a quiet cluster.
    """


class InvalidAnswer(KubeError):
    """A 2xx answer that no API server gives: a login page, half a document, another object than was asked for.

    The text has how it begins where it is no JSON, and never what an object holds.
    """


class AnswerTooLong(InvalidAnswer):
    """A 2xx answer that is longer than its reader bears; what is left of it was not read."""


class Stopped(KubeError):
    """The process is stopping; the call was given up while it waited for its next try."""


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One line of `status.details.causes`: which field, and why."""

    field: str
    reason: str
    message: str


class ApiError(KubeError):
    """The API server answered with something other than 2xx, or with an ERROR event inside a watch."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: tuple[FieldCause, ...] = (),
        retry_after_seconds: float | None = None,
        *,
        request: str = "",
    ) -> None:
        super().__init__(f"{request + ': ' if request else ''}{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds

    @property
    def not_found(self) -> bool:
        """The object (or its whole API) is not there."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """Somebody else changed, made or owns it."""
        return self.status == 409

    @property
    def expired(self) -> bool:
        """A resourceVersion or continue token is too old: only a new list helps."""
        return self.status == 410

    @property
    def too_large_version(self) -> bool:
        """This API server has not caught up with our resourceVersion (another one of the same cluster gave it)."""
        return self.status == 504 and (
            any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes)
            or "too large resource version" in self.message.lower()
        )

    @property
    def without_cache(self) -> bool:
        """The API server has no cache of the collection yet, as after a start or a new CRD; etcd is read all the same.

        Watches are refused then, and lists with selectors or without a limit (apiserver cacher/delegator.go, KEP 4568).
        """
        return self.status == 429 and "(re)initializing" in self.message

    @property
    def wrong_schema(self) -> bool:
        """An applied field the schema does not know. API servers (seen on 1.36.3) call it a 500, yet it stays wrong."""
        return self.status == 500 and self.message.startswith("failed to create typed patch object")


class _WireCause(msgspec.Struct):
    field: str = ""
    reason: str = ""
    message: str = ""


class _WireDetails(msgspec.Struct, rename="camel"):
    causes: list[_WireCause] | None = None
    retry_after_seconds: int | None = None


class KubeStatus(msgspec.Struct):
    """`v1.Status`: the body of a failed request and the object of an ERROR event."""

    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _WireDetails | None = None

    def error(self, request: str = "", status: int = 0, retry_after_seconds: float | None = None) -> ApiError:
        """This Status as an exception.

        Args:
            request: What was asked, for the message.
            status: The HTTP status, which wins over the body's code; 0 inside a watch.
            retry_after_seconds: The Retry-After header, which wins over the body's.
        """
        details = self.details or _WireDetails()
        if retry_after_seconds is None and details.retry_after_seconds:
            retry_after_seconds = float(details.retry_after_seconds)
        return ApiError(
            status or self.code,
            self.reason or "Unknown",
            self.message or "",
            tuple(FieldCause(cause.field, cause.reason, cause.message) for cause in details.causes or ()),
            retry_after_seconds,
            request=request,
        )


BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what they should be."""
_SHOWN = 40
_LONGEST_WAIT_DIGITS = 6


def decode_answer(request: str, body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a 2xx answer.

    Raises:
        InvalidAnswer: it is not what the decoder takes.
    """
    try:
        return decoder.decode(body)
    except BAD_JSON as error:
        raise InvalidAnswer(f"{request}: {_not_an_answer(body, error)}") from None


def _not_an_answer(body: bytes, error: BaseException) -> str:
    text = body[:4096].decode(errors="replace").strip()
    if not text:
        return "the answer is empty; is this the address of an API server?"
    if text[0] not in "{[" and text != "null":
        return f"the answer is no JSON but {text[:_SHOWN]!r}; is this a login page or a proxy?"
    if isinstance(error, RecursionError):
        return "the answer is nested too deeply; is this the address of an API server?"
    why = str(error)
    if "truncated" in why:
        return "the answer is cut off: half a JSON document"
    return f"the answer is not an API server's: {why[0].lower()}{why[1:]}"


_STATUS = msgspec.json.Decoder(KubeStatus)


def api_error(status: int, http_reason: str, headers: Mapping[str, str], body: bytes, request: str) -> ApiError:
    """The exception for a non-2xx answer, also when a proxy answered with something that is no Status."""
    retry_after = headers.get("Retry-After", "")
    # API servers send seconds, never a date
    seconds = float(retry_after) if retry_after.isdecimal() and len(retry_after) <= _LONGEST_WAIT_DIGITS else None
    try:
        said = _STATUS.decode(body)
    except BAD_JSON:
        said = KubeStatus()
    if not said.reason:
        said.reason = http_reason or None
    if not said.message:
        said.message = body[:200].decode(errors="replace").strip() or "no message"
    return said.error(request, status, seconds)


WRITE_FAILURES = (ApiError, Unreachable, InvalidAnswer)
"""What one write may come to while the next one may do better; after `Stopped` there is no next one."""


def is_another_object(error: KubeError) -> bool:
    """Whether a write failed because its object was deleted, or another one has its name by now."""
    return isinstance(error, ApiError) and (error.not_found or error.conflict)
