"""A List of `kubectl get -o json` in one pass: each object becomes its struct where it stands in the file.

For the common case only, and only where nothing is wrong: whatever this does not know is None, and `slack.cluster.load`
goes through the file the careful way, which names the place of a mistake. All objects are in memory at once, some
three KiB a pod beside the file.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from slack.cluster import wire

MOST_BYTES = 512 << 20
"""Of a file that is read so: 60,000 pods. Of a larger one only a pod at a time is in memory."""


class _Document(
    msgspec.Struct, tag_field="kind", rename="camel", gc=False, forbid_unknown_fields=True, omit_defaults=True
):
    """An object of which all is wanted: what stands in it, as it came; with a field more it is read the careful way."""

    api_version: msgspec.Raw = wire.ABSENT
    metadata: msgspec.Raw = wire.ABSENT
    spec: msgspec.Raw = wire.ABSENT
    status: msgspec.Raw = wire.ABSENT


_SlackPolicy = msgspec.defstruct("SlackPolicy", [], bases=(_Document,), tag="SlackPolicy")
_TAGGED: dict[type[Any], str] = {
    msgspec.defstruct(
        kind,
        [("api_version", Literal[wire.API_VERSIONS[kind]])],  # other groups have kinds of the same name
        bases=(item_type,),
        tag_field="kind",
        tag=kind,
        gc=False,
        kw_only=True,
    ): kind
    for kind, item_type in wire.KINDS.items()
} | {_SlackPolicy: "SlackPolicy"}
_union: Any = None
for _member in _TAGGED:
    _union = _member if _union is None else _union | _member
_List: Any = msgspec.defstruct("List", [("kind", str), ("items", list[_union])], gc=False)
_decoder = msgspec.json.Decoder(_List)


def listed(data: bytes) -> Iterator[tuple[str, str, wire.Object | bytes]] | None:
    """Return the objects of a file that is one List of known kinds: place, kind, struct; JSON where there is none.

    None for any other file.
    """
    if len(data) > MOST_BYTES or data[:1] != b"{":
        return None
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return _objects(found.items) if found.kind.endswith("List") and found.items else None


def _objects(items: list[Any]) -> Iterator[tuple[str, str, wire.Object | bytes]]:
    for index, item in enumerate(items):
        kind = _TAGGED[type(item)]
        yield f"$.items[{index}]", kind, msgspec.json.encode(item) if isinstance(item, _Document) else item
