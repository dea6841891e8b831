"""Bytes of a watch to events: lines split over chunks, decoded straight into one struct type.

Pure: no socket, no clock, no thread. Order is kept; nothing is lost or doubled whatever the borders of the chunks.
A line that cannot be decoded, or that is too long to be kept, becomes an `Undecodable` in its place; the rest of the
stream is not touched by it. The deletion of such an object is delivered as a deletion, of its metadata alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from slack.kube.errors import BAD_JSON, ApiError, KubeStatus
from slack.kube.object_names import ObjectName, name_in_line

T = TypeVar("T", bound=msgspec.Struct)

MAX_LINE_BYTES = 10 * 1024 * 1024
"""etcd holds 1.5 MiB an object. Go's JSON writes six bytes for each `<`, `>`, `&` and control character of it."""
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
    """An object we could not read: whose it was, as far as that is readable, and why, never what it held."""

    who: ObjectName
    why: str

    @property
    def name(self) -> str:
        """Namespace and name, `?` when even that is unreadable."""
        return str(self.who)


class LongLine(bytes):
    """The head of a line that is longer than the cap; its rest was dropped."""


class WatchEvent(msgspec.Struct, Generic[T]):
    """A line about an object, decoded in one step."""

    type: EventType
    object: T


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _AnyObject(msgspec.Struct):
    metadata: _Meta


class _AnyEvent(msgspec.Struct):
    object: _AnyObject


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_OBJECT = msgspec.json.Decoder(_AnyObject)
_EVENT = msgspec.json.Decoder(_AnyEvent)
_STATUS = msgspec.json.Decoder(KubeStatus)
_SPECIAL = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')  # the API server writes the type first, without spaces


class LineSplitter:
    """Whole lines out of chunks; the unfinished rest waits for the next chunk."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._draining = False
        """The rest of a line that is too long is dropped until its newline comes."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newline; a `LongLine` as soon as one exceeds the cap."""
        lines, start = list[bytes](), 0
        if self._draining:
            start = chunk.find(b"\n") + 1
            if not start:
                return []
            self._draining = False
        while (end := chunk.find(b"\n", start)) >= 0:  # `split` looks at each byte by itself: 3 us a pod
            lines.append(chunk[start:end])
            start = end + 1
        if lines and self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest.clear()
        self._rest += chunk[start:]
        if max(map(len, lines), default=0) > self._max_bytes:
            lines = [line if len(line) <= self._max_bytes else LongLine(line) for line in lines]
        if len(self._rest) > self._max_bytes:
            lines.append(LongLine(self._rest))
            self._rest = bytearray()
            self._draining = True
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
        """What the lines completed by `chunk` say, in order. After an `ApiError` the stream is over."""
        out: list[tuple[EventType, T] | Bookmark | Undecodable | ApiError] = []
        for line in self._lines.feed(chunk):
            if not line.startswith(_SPECIAL) and line.__class__ is bytes:
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
        if isinstance(line, LongLine):
            return self._unreadable(line, f"its watch line is longer than {self._max_line_bytes} bytes")
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
            return self._unreadable(line, reason_of(error))
        self._last_event = line
        return event_type, item

    def _unreadable(self, line: bytes, why: str) -> tuple[EventType, T] | Undecodable:
        who = name_in_line(line)
        if who.event == EventType.DELETED and who.known:
            with contextlib.suppress(*BAD_JSON):  # a type that needs more than metadata: then it is not told
                document = {"metadata": who.metadata, "spec": {}, "status": {}}
                return EventType.DELETED, self._items.decode(msgspec.json.encode(document))
        return Undecodable(who, why)


def reason_of(error: Exception) -> str:
    """Return why an object cannot be decoded, in words for people."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
