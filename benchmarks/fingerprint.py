"""Columns as digests, part by part: two that saw the same cluster in different ways must agree in all of them."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
import numpy as np

from benchmarks.verify import verify
from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.kube import paging
from slack.kube.connection import Connection
from slack.kube.paths import UNFINISHED_PODS, resource_path
from slack.kube.watch import EventType

T = TypeVar("T", bound=msgspec.Struct)


def fingerprint(columns: ClusterColumns, later: float) -> dict[str, str]:
    """Return a digest by part of the snapshot, and of which pods and nodes are known at which version.

    Args:
        columns: are checked against themselves first; their arrivals before `later` are forgotten.
        later: Unix time when all arrivals lie behind the window: a fresh list cannot know those of pods that have gone.

    Raises:
        RuntimeError: when an aggregate differs from one made from the rows.
    """
    verify(columns)
    pods, nodes = columns.pods, columns.nodes
    found = dict(_digests("", columns.snapshot(later)))
    found["pod versions"] = _digest(repr(sorted((key, pods.cells.version[row]) for key, row in pods.rows.items())))
    known = ((name, int(nodes.resource_version[row])) for name, row in nodes.rows.items() if nodes.known[row])
    found["node versions"] = _digest(repr(sorted(known)))
    return found


def differences(first: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the parts in which two fingerprints differ."""
    return sorted(part for part in first.keys() | other.keys() if first.get(part) != other.get(part))


def listed(connection: Connection, namespace: str, required_labels: Iterable[str]) -> ClusterColumns:
    """Return columns of a fresh, paged list and nothing else."""
    columns = ClusterColumns(namespace)
    columns.require_labels(required_labels)
    columns.apply_nodes(_pages(connection, resource_path("v1", "nodes"), wire.Node))
    columns.apply_pods(_pages(connection, resource_path("v1", "pods"), wire.Pod, UNFINISHED_PODS))
    classes = resource_path("scheduling.k8s.io/v1", "priorityclasses")
    columns.apply_priority_classes(_pages(connection, classes, wire.PriorityClass))
    columns.apply_namespaces(_pages(connection, resource_path("v1", "namespaces"), wire.Namespace))
    return columns


def _pages(connection: Connection, path: str, kind: type[T], field_selector: str = "") -> Iterator[tuple[EventType, T]]:
    items = paging.list_all(connection, path, kind, field_selector=field_selector)
    yield from ((EventType.ADDED, item) for item in items)


def _digests(path: str, value: object) -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _digests(f"{path}.{field.name}".lstrip("."), getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        yield path, _digest(f"{value.dtype} {value.shape} ", value.tobytes())
    else:
        yield path, _digest(_text(value))


def _text(value: object) -> str:
    """Return a text that is the same in every process; arrays inside of tuples are written whole."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, tuple | list):
        return f"({','.join(map(_text, value))})"
    if isinstance(value, Mapping):  # in the order in which its keys came, which a list does not know
        return f"{{{','.join(sorted(f'{key!r}:{_text(part)}' for key, part in value.items()))}}}"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_text, value)))}}}"
    if dataclasses.is_dataclass(value):
        return _text(tuple(getattr(value, field.name) for field in dataclasses.fields(value)))
    return repr(value)


def _digest(text: str, data: bytes = b"") -> str:
    return hashlib.sha256(text.encode() + data).hexdigest()[:16]
