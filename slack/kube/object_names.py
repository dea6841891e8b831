"""Read whose JSON it is, and where a list's items are, from bytes that no decoder takes.

Used by the watch and list decoders for objects that are cut off, nested too deeply, or of another shape than expected.
Python's and msgspec's decoders stop at about 1,000 levels; API servers accept 10,000. The scan here keeps no stack, so
that depth costs nothing. Text that is cut off is never taken for structure: it belongs to whoever wrote the object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

import msgspec

_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)(?P<closed>"?)(?:[ \t\r\n]*+(?P<key>:))?'
    rb"|(?P<flat>(?:[{\[][^\"{}\[\]]*+[}\]][,\s]*+)++)|(?P<opens>[{\[]++)|(?P<closes>[}\]]++)",
    re.DOTALL,
)
_FIELDS = (b"name", b"namespace", b"uid", b"resourceVersion")
_GENERATION = re.compile(rb"\s*(\d{1,18})")
_MOST_TOKENS = 200_000
"""Of one object's head: a tenth of a second. An honest object's name comes after some hundred."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Whose an object is, as far as that can be read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    event: str = ""
    """Of a watch's line: ADDED, MODIFIED or DELETED."""

    @property
    def known(self) -> bool:
        """Whether it has a name at all."""
        return bool(self.name)

    @property
    def metadata(self) -> dict[str, str]:
        """What it is called, as an object's metadata."""
        found = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        return {key: text for key, text in (found | {"resourceVersion": self.resource_version}).items() if text}

    def __str__(self) -> str:
        return (f"{self.namespace}/{self.name}" if self.namespace else self.name) or "?"


def name_in_line(line: bytes) -> ObjectName:
    """Return whose a watch's line is; the line may be cut off anywhere."""
    return _name(line, (b"object", b"metadata"))


def name_in_object(data: bytes) -> ObjectName:
    """Return whose an object is; it may be cut off anywhere."""
    return _name(data, (b"metadata",))


def _name(data: bytes, path: tuple[bytes, ...]) -> ObjectName:
    inside = len(path) + 1
    keys = [b""] * (inside + 1)
    found: dict[bytes, bytes] = {}
    depth, entered = 0, False
    for token in islice(_TOKEN.finditer(data), _MOST_TOKENS):
        kind = token.lastgroup
        if kind == "opens":
            depth += token.end() - token.start()
        elif kind == "closes":
            depth -= token.end() - token.start()
            if entered and depth < inside:
                break
        elif kind == "flat":
            continue
        elif not token["closed"]:
            break  # cut off within a text
        elif depth <= inside:
            if kind == "key":
                keys[depth] = token["text"]
                entered = entered or (depth == inside and tuple(keys[1:inside]) == path)
                if entered and depth == inside and keys[depth] == b"generation":
                    number = _GENERATION.match(data, token.end())
                    found[b"generation"] = number[1] if number else b"0"
            elif entered and depth == inside:
                found.setdefault(keys[depth], token["text"])
            elif depth == 1 and keys[1] == b"type" and len(path) > 1:
                found[b"type"] = token["text"]
    name, namespace, uid, version = (_text(found.get(key, b"")) for key in _FIELDS)
    generation = int(found.get(b"generation", b"0"))
    return ObjectName(name, namespace, uid, version, generation, _text(found.get(b"type", b"")))


def _text(raw: bytes) -> str:
    try:
        return msgspec.json.decode(b'"' + raw + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def split_list(body: bytes) -> tuple[bytes, list[bytes]]:
    """Return a list's metadata and its items, each as it came.

    Raises:
        msgspec.DecodeError: it is no list, or it is cut off.
    """
    key, depth, begins = b"", 0, 0
    metadata, items = b"", list[bytes]()
    for token in _TOKEN.finditer(body):
        kind = token.lastgroup
        if kind in ("opens", "closes"):
            start, end = token.span()
            step = 1 if kind == "opens" else -1
            if depth > 2 and depth + step * (end - start) > 2:
                depth += step * (end - start)
                continue
            for place in range(start, end):
                depth += step
                level = 3 if key == b"items" else 2
                if step > 0 and depth == level:
                    begins = place
                elif step < 0 and depth == level - 1:
                    if key == b"items":
                        items.append(body[begins : place + 1])
                    elif key == b"metadata":
                        metadata = body[begins : place + 1]
        elif kind == "flat":
            if depth == 1 and key == b"metadata":
                metadata = b"{}"
        elif not token["closed"]:
            break
        elif depth == 1 and kind == "key":
            key = token["text"]
    if depth or not metadata:
        raise msgspec.DecodeError("the list is cut off, or it has no metadata")
    return metadata, items
