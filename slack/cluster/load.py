"""Bytes in, columns out: what `kubectl get nodes,pods -A -o json` (or `-o yaml`) prints, read into `ClusterColumns`.

A List, single objects, or a sequence of either; kinds that nobody here reads are passed over. What cannot be read is
refused with the source's name, the place and what would be right: half a cluster would make a wrong plan.
A List of kinds that are all known is gone through once (`slack.cluster.load_list`); any other, and one with a mistake
in it, is cut into objects first, which are then read one by one and told by their place.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator

import msgspec

from slack.cluster import wire
from slack.cluster.classes import KNOWN_TAINTS, TaintKeys
from slack.cluster.columns import ClusterColumns, InvalidObject
from slack.cluster.invalid_snapshot import WHOLE
from slack.cluster.invalid_snapshot import InvalidSnapshot as InvalidSnapshot
from slack.cluster.labels import DEFAULT_NAMESPACE
from slack.cluster.load_list import listed

Seen = wire.Object | msgspec.Raw | bytes
"""An object of a kind that is read here; the JSON of any other."""


class _Item(msgspec.Struct, gc=False):
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


_item_decoder = msgspec.json.Decoder(_Item)
_decoders = {kind: msgspec.json.Decoder(item_type) for kind, item_type in wire.KINDS.items()}
_KIND_FIRST = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([\w./-]*)"\s*,\s*"kind"\s*:\s*"(\w+)"')
"""How kubectl begins an object: its kind is known before the rest is read."""
_PEEKED_BYTES = 200


def read_cluster(
    data: bytes,
    *,
    source: str,
    now: float,
    placeholder_namespace: str = DEFAULT_NAMESPACE,
    taint_keys: TaintKeys = KNOWN_TAINTS,
    also: Callable[[str, str, Seen], None] = lambda path, kind, item: None,
    nodes_needed: Callable[[], bool] = lambda: True,
) -> ClusterColumns:
    """Read a snapshot file.

    Args:
        data: JSON or YAML, as kubectl prints it.
        source: the file's name, for messages.
        now: Unix seconds; arrivals are counted in the window before it.
        placeholder_namespace: where our placeholders are.
        taint_keys: which taints of nodes are transient.
        also: gets every object too: its place, its kind, and itself. A large file is gone through once.
        nodes_needed: asked at the end where there are none: without templates of nodes there is nothing to plan.

    Raises:
        InvalidSnapshot: when anything of it cannot be read, or it has no nodes.
    """
    columns = ClusterColumns(placeholder_namespace, taint_keys=taint_keys)
    counts: dict[str, int] = {}
    data = _utf8(data, source)
    for path, kind, item in listed(data) or _decoded(data, source):
        counts[kind] = counts.get(kind, 0) + 1
        try:
            _apply(columns, kind, item)
        except InvalidObject as error:
            raise InvalidSnapshot(f"{path}: {error}", source) from None
        also(path, kind, item)
    if not counts.get("Node") and nodes_needed():
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
        raise InvalidSnapshot(
            f"it has no nodes (found: {found}); include them: kubectl get nodes,pods -A -o json", source
        )
    columns.arrivals.forget_before(now)
    return columns


def objects(data: bytes, *, source: str) -> Iterator[tuple[str, str, bytes | msgspec.Raw]]:
    """Yield every object of a snapshot file: its place in the file, its kind, its JSON.

    Raises:
        InvalidSnapshot: when anything of it cannot be read.
    """
    text = _utf8(data, source).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise InvalidSnapshot(f"it is empty; {WHOLE}", source)
    try:
        head = _only_object(text)
        if head is not None:
            yield from _items("$", text, head, source)
            return
        if text[:1] in (b"{", b"["):
            documents = _json_documents(text, source)
        else:
            from slack.cluster.load_yaml import yaml_documents  # JSON needs no PyYAML, which takes a while to load

            documents = yaml_documents(text, source)
        for path, raw in documents:
            yield from _items(path, raw, _head(path, raw, source), source)
    except RecursionError:
        raise InvalidSnapshot(f"it is nested too deeply; {WHOLE}", source) from None


def _utf8(data: bytes, source: str) -> bytes:
    """Return a text as UTF-8: a redirection of PowerShell writes UTF-16, which JSON's readers do not know."""
    if data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return data
    try:
        return data.decode("utf-16").encode()
    except UnicodeError as error:
        raise InvalidSnapshot(f"it is not UTF-16, as which it begins: {error}; {WHOLE}", source) from None


def _only_object(text: bytes) -> _Item | None:
    """Return the head of a file that is one JSON object, which is how kubectl writes it; None for any other."""
    try:
        return _item_decoder.decode(text) if text[:1] == b"{" else None
    except msgspec.DecodeError:
        return None  # several values, or one that is no object of the API: the careful way finds out which


def _head(path: str, raw: bytes | msgspec.Raw, source: str) -> _Item:
    try:
        return _item_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidSnapshot(f"{_at(path, error)}; expected a Kubernetes object or List", source) from None


def _items(
    path: str, raw: bytes | msgspec.Raw, head: _Item, source: str
) -> Iterator[tuple[str, str, bytes | msgspec.Raw]]:
    if head.kind is None:
        raise InvalidSnapshot(f"{path}: it has no `kind`; {WHOLE}", source)
    if not head.kind.endswith("List"):
        yield path, wire.full_kind(head.kind, head.api_version), raw
        return
    for index, item in enumerate(head.items or ()):
        place = f"{path}.items[{index}]"
        begins = _KIND_FIRST.match(memoryview(item)[:_PEEKED_BYTES])
        if begins is not None and not begins[2].endswith(b"List"):
            yield place, wire.full_kind(begins[2].decode(), begins[1].decode()), item
            continue
        try:
            found = _item_decoder.decode(item)
        except msgspec.DecodeError as error:
            raise InvalidSnapshot(f"{_at(place, error)}; expected a Kubernetes object", source) from None
        if found.items is not None and (found.kind or "").endswith("List"):
            yield from _items(place, item, found, source)  # tools that join files make Lists of Lists
            continue
        # The items of a typed list, as the API serves it (PodList), do not say what they are.
        kind = found.kind or head.kind.removesuffix("List")
        if not kind:
            raise InvalidSnapshot(f"{place}: it has no `kind`; {WHOLE}", source)
        yield place, wire.full_kind(kind, found.api_version or (None if found.kind else head.api_version)), item


def _decoded(data: bytes, source: str) -> Iterator[tuple[str, str, Seen]]:
    for path, kind, item in objects(data, source=source):
        decoder = _decoders.get(kind)
        if decoder is None:
            yield path, kind, item
            continue
        try:
            yield path, kind, decoder.decode(item)
        except msgspec.DecodeError as error:
            raise InvalidSnapshot(f"{_at(path, error)} (a {kind})", source) from None


def _apply(columns: ClusterColumns, kind: str, item: Seen) -> None:
    match item:
        case wire.Pod():
            columns.apply_pod("ADDED", item)
        case wire.Node():
            columns.apply_nodes([("ADDED", item)])
        case wire.PriorityClass():
            columns.apply_priority_classes([("ADDED", item)])
        case wire.Namespace():
            columns.apply_namespaces([("ADDED", item)])
        case wire.Deployment() | wire.ReplicaSet() | wire.StatefulSet() | wire.Job() | wire.CronJob():
            columns.apply_workloads(kind, [("ADDED", item)])


def _at(path: str, error: msgspec.DecodeError) -> str:
    """Turn msgspec's `Expected `str`, got `int` - at `$.spec.x`` into one path from the file's beginning."""
    match = re.fullmatch(r"(?P<problem>.*) - at `\$(?P<rest>[^`]*)`", str(error), re.DOTALL)
    if match is None:
        return f"{path}: {error}"
    return f"{path}{match['rest']}: {match['problem']}"


def _json_documents(text: bytes, source: str) -> Iterator[tuple[str, bytes | msgspec.Raw]]:
    """Yield the JSON values of the file: one, several one after the other, or those of an array."""
    raws: list[bytes | msgspec.Raw]
    try:
        raws = [msgspec.json.decode(text, type=msgspec.Raw)]
    except msgspec.DecodeError:
        raws = list(_concatenated(text, source))
    if len(raws) == 1 and bytes(raws[0][:1] if isinstance(raws[0], bytes) else memoryview(raws[0])[:1]) == b"[":
        raws = list(msgspec.json.decode(raws[0], type=list[msgspec.Raw]))
    for index, raw in enumerate(raws):
        yield ("$" if len(raws) == 1 else f"$[{index}]"), raw


def _concatenated(text: bytes, source: str) -> Iterator[bytes]:
    # msgspec takes one value only, so several are cut apart by the standard library's scanner; its positions are
    # also the better message for a file that was cut off.
    decoder = json.JSONDecoder()
    try:
        content = text.decode()
    except UnicodeDecodeError as error:
        raise InvalidSnapshot(f"byte {error.start}: it is not UTF-8; {WHOLE}", source) from None
    position = 0
    while position < len(content):
        try:
            _, end = decoder.raw_decode(content, position)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno} (byte {error.pos} of {len(content)})"
            raise InvalidSnapshot(f"{place}: it is cut off or not JSON: {error.msg}; {WHOLE}", source) from None
        yield content[position:end].encode()
        position = end
        while position < len(content) and content[position] in " \t\r\n,":
            position += 1
