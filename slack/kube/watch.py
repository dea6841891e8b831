"""Bytes of a watch to events: lines split over chunks, decoded straight into one struct type.

Pure: no socket, no clock, no thread. Order is kept; nothing is lost or doubled whatever the borders of the chunks.
A line that cannot be decoded becomes an `Undecodable` in its place; the rest of the stream is not touched by it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from slack.kube.errors import BAD_JSON, ApiError, KubeError, Status

T = TypeVar("T", bound=msgspec.Struct)

MAX_LINE_BYTES = 8 * 1024 * 1024  # etcd holds 1.5 MiB an object; more is a broken proxy, and would eat our memory
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class EventType(StrEnum):
    """What happened to an object. Items of a list come as ADDED."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The server has sent everything up to this version; `initial_events_end` closes a WatchList's first part."""

    resource_version: str
    initial_events_end: bool


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A line we could not read: whose it was (`?` when even that is unreadable) and why, never what it held."""

    name: str
    why: str


class LineTooLong(KubeError):
    """A line exceeded the cap; the stream cannot be trusted any more."""


class WatchEvent(msgspec.Struct, Generic[T]):
    """A line about an object, decoded in one step."""

    type: EventType
    object: T


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _AnyObject(msgspec.Struct):
    metadata: _Meta


class _AnyEvent(msgspec.Struct):
    object: _AnyObject


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_OBJECT = msgspec.json.Decoder(_AnyObject)
_EVENT = msgspec.json.Decoder(_AnyEvent)
_STATUS = msgspec.json.Decoder(Status)
_SPECIAL = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')  # the API server writes the type first, without spaces


"""What decoding raises for bytes that are not what they should be."""


class LineSplitter:
    """Whole lines out of chunks; the unfinished rest waits for the next chunk."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newline.

        Raises:
            LineTooLong: A line, finished or not, is longer than the cap.
        """
        lines, start = list[bytes](), 0
        while (end := chunk.find(b"\n", start)) >= 0:  # `split` looks at each byte by itself: 3 us a pod
            lines.append(chunk[start:end])
            start = end + 1
        if lines and self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest.clear()
        self._rest += chunk[start:]
        longest = max(len(self._rest), max(map(len, lines), default=0))
        if longest > self._max_bytes:
            raise LineTooLong(f"a watch line of more than {self._max_bytes} bytes")
        return [line for line in lines if line]


class WatchDecoder(Generic[T]):
    """Decodes one watch stream after another for one struct type. Owned by one thread."""

    def __init__(self, item_type: type[T], max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._events: msgspec.json.Decoder[WatchEvent[T]] = msgspec.json.Decoder(WatchEvent[item_type])  # type: ignore[valid-type]
        self._items: msgspec.json.Decoder[T] = msgspec.json.Decoder(item_type)
        self.reset("")

    def reset(self, resource_version: str) -> None:
        """Start a new stream that was asked for from `resource_version` on; an unfinished line is forgotten."""
        self._lines = LineSplitter(self._max_line_bytes)
        self._version = resource_version
        self._last_event = b""

    @property
    def resource_version(self) -> str:
        """Where a new watch would have to go on. No resume point before the initial events of a WatchList ended."""
        if self._last_event:  # read once a stream instead of once an event
            with contextlib.suppress(*BAD_JSON):  # an object without metadata: the version before it will do
                self._version = _EVENT.decode(self._last_event).object.metadata.resource_version or self._version
            self._last_event = b""
        return self._version

    def feed(self, chunk: bytes) -> list[tuple[EventType, T] | Bookmark | Undecodable | ApiError]:
        """What the lines completed by `chunk` say, in order. After an `ApiError` the stream is over.

        Raises:
            LineTooLong: See `LineSplitter.feed`.
        """
        out: list[tuple[EventType, T] | Bookmark | Undecodable | ApiError] = []
        for line in self._lines.feed(chunk):
            if not line.startswith(_SPECIAL):
                try:
                    event = self._events.decode(line)
                except BAD_JSON:
                    pass  # the careful way below finds out what it is
                else:
                    self._last_event = line
                    out.append((event.type, event.object))
                    continue
            item = self._carefully(line)
            out.append(item)
            if isinstance(item, ApiError):
                break  # what follows is not delivered, so it must not move the version
        return out

    def _carefully(self, line: bytes) -> tuple[EventType, T] | Bookmark | Undecodable | ApiError:
        try:
            envelope = _ENVELOPE.decode(line)
            if envelope.type == "BOOKMARK":
                meta = _OBJECT.decode(envelope.object).metadata
                if meta.resource_version:
                    self._version, self._last_event = meta.resource_version, b""
                return Bookmark(meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true")
            if envelope.type == "ERROR":
                return _STATUS.decode(envelope.object).error("watch")
            event_type = EventType(envelope.type)
            item = self._items.decode(envelope.object)
        except (*BAD_JSON, ValueError) as error:
            return Undecodable(object_name(line), str(error))
        self._last_event = line
        return event_type, item


def object_name(line: bytes) -> str:
    """Whose a line is that cannot be read, `?` when even that cannot."""
    try:
        meta = _EVENT.decode(line).object.metadata
    except BAD_JSON:
        return "?"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or "?"
