"""Bytes in, columns out: what `kubectl get nodes,pods -A -o json` (or `-o yaml`) prints, read into `ClusterColumns`.

A List, single objects, or a sequence of either; kinds that nobody here reads are passed over. What cannot be read is
refused with the source's name, the place and what would be right: half a cluster would make a wrong plan.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from slack.cluster import wire
from slack.cluster.columns import BadObject, ClusterColumns

_WORKLOADS: dict[str, type[wire.Workload]] = {
    "Deployment": wire.Deployment,
    "ReplicaSet": wire.ReplicaSet,
    "StatefulSet": wire.StatefulSet,
    "Job": wire.Job,
    "CronJob": wire.CronJob,
}
_WHOLE = "write the whole output of `kubectl get nodes,pods -A -o json`"
_NAMESPACE = "resource-slack"


class BadSnapshot(ValueError):
    """A snapshot file that cannot be used; the message names the file, the place and what would be right."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        super().__init__(f"{source}: {problem}")


class _Item(msgspec.Struct, gc=False):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


_item_decoder = msgspec.json.Decoder(_Item)


def read_cluster(data: bytes, *, source: str, now: float, placeholder_namespace: str = _NAMESPACE) -> ClusterColumns:
    """Read a snapshot file.

    Args:
        data: JSON or YAML, as kubectl prints it.
        source: the file's name, for messages.
        now: Unix seconds; arrivals are counted in the window before it.
        placeholder_namespace: where our placeholders are.

    Raises:
        BadSnapshot: when anything of it cannot be read, or it has no nodes.
    """
    columns = ClusterColumns(placeholder_namespace)
    counts: dict[str, int] = {}
    for path, kind, item in objects(data, source=source):
        counts[kind] = counts.get(kind, 0) + 1
        _apply(columns, kind, item, path, source)
    if not counts.get("Node"):
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
        raise BadSnapshot(source, f"it has no nodes (found: {found}); include them: kubectl get nodes,pods -A -o json")
    columns.arrivals.forget_before(now)
    return columns


def objects(data: bytes, *, source: str) -> Iterator[tuple[str, str, bytes | msgspec.Raw]]:
    """Yield every object of a snapshot file: its place in the file, its kind, its JSON.

    Raises:
        BadSnapshot: when anything of it cannot be read.
    """
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise BadSnapshot(source, f"it is empty; {_WHOLE}")
    documents = _json_documents(text, source) if text[:1] in (b"{", b"[") else _yaml_documents(text, source)
    try:
        for path, raw in documents:
            yield from _items(path, raw, source)
    except RecursionError:
        raise BadSnapshot(source, f"it is nested too deeply; {_WHOLE}") from None


def _items(path: str, raw: bytes | msgspec.Raw, source: str) -> Iterator[tuple[str, str, bytes | msgspec.Raw]]:
    try:
        head = _item_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise BadSnapshot(source, f"{_at(path, error)}; expected a Kubernetes object or List") from None
    if head.kind is None:
        raise BadSnapshot(source, f"{path}: it has no `kind`; {_WHOLE}")
    if not head.kind.endswith("List"):
        yield path, head.kind, raw
        return
    for index, item in enumerate(head.items or ()):
        place = f"{path}.items[{index}]"
        try:
            kind = _item_decoder.decode(item).kind
        except msgspec.DecodeError as error:
            raise BadSnapshot(source, f"{_at(place, error)}; expected a Kubernetes object") from None
        # The items of a typed list, as the API serves it (PodList), do not say what they are.
        kind = kind or head.kind.removesuffix("List")
        if not kind:
            raise BadSnapshot(source, f"{place}: it has no `kind`; {_WHOLE}")
        yield place, kind, item


def _apply(columns: ClusterColumns, kind: str, item: bytes | msgspec.Raw, path: str, source: str) -> None:
    try:
        if kind == "Pod":
            columns.apply_pods([("ADDED", msgspec.json.decode(item, type=wire.Pod))])
        elif kind == "Node":
            columns.apply_nodes([("ADDED", msgspec.json.decode(item, type=wire.Node))])
        elif kind == "PriorityClass":
            columns.apply_priority_classes([("ADDED", msgspec.json.decode(item, type=wire.PriorityClass))])
        elif kind in _WORKLOADS:
            columns.apply_workloads(kind, [("ADDED", msgspec.json.decode(item, type=_WORKLOADS[kind]))])
    except msgspec.DecodeError as error:
        raise BadSnapshot(source, f"{_at(path, error)} (a {kind})") from None
    except BadObject as error:
        raise BadSnapshot(source, f"{path}: {error}") from None


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
        raise BadSnapshot(source, f"byte {error.start}: it is not UTF-8; {_WHOLE}") from None
    position = 0
    while position < len(content):
        try:
            _, end = decoder.raw_decode(content, position)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno} (byte {error.pos} of {len(content)})"
            raise BadSnapshot(source, f"{place}: it is cut off or not JSON: {error.msg}; {_WHOLE}") from None
        yield content[position:end].encode()
        position = end
        while position < len(content) and content[position] in " \t\r\n,":
            position += 1


# The C loader where PyYAML was built with it; mypy wants no base class that is found at run time.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML without timestamps: the API's are text, and so they must stay."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _yaml_documents(text: bytes, source: str) -> Iterator[tuple[str, bytes]]:
    try:
        documents: list[Any] = [one for one in yaml.load_all(text, Loader=_Loader) if one is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSnapshot(source, f"it is neither JSON nor YAML: {' '.join(str(error).split())}; {_WHOLE}") from None
    for index, document in enumerate(documents):
        path = "$" if len(documents) == 1 else f"$[{index}]"
        if not isinstance(document, dict):
            raise BadSnapshot(source, f"{path}: expected a Kubernetes object or List, got {document!r:.40}; {_WHOLE}")
        try:
            yield path, msgspec.json.encode(document)
        except (TypeError, ValueError) as error:
            raise BadSnapshot(source, f"{path}: {error}; {_WHOLE}") from None
