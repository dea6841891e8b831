"""Lists as the API server pages them: in the order of its keys, with continue tokens, one page at a time."""

import base64
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import msgspec

from benchmarks.generator.layout import Layout
from benchmarks.generator.node_template import NodeWriter
from benchmarks.generator.pools import node_name
from benchmarks.generator.rendering import PodWriter
from benchmarks.generator.size import Json, Size
from benchmarks.generator.states import PodState, pod_name

SEED = 1
LIMIT = 500


@lru_cache(maxsize=4)
def layout_of(size: Size, seed: int = SEED) -> Layout:
    """Return the cluster's layout; worked out once, as lists, watches and seeding all start from it."""
    return Layout(size, seed)


def pods(size: Size, seed: int = SEED) -> Iterator[Json]:
    """Yield Pod objects, one at a time, in the server's order."""
    layout = layout_of(size, seed)
    writer = PodWriter(layout)
    for state in layout.states():
        yield _decoded(writer.item(state))


def nodes(size: Size, seed: int = SEED) -> Iterator[Json]:
    """Yield Node objects, one at a time, in the server's order."""
    writer = NodeWriter(layout_of(size, seed))
    for node in range(size.nodes):
        yield _decoded(writer.item(node))


def pod_pages(size: Size, seed: int = SEED, limit: int = LIMIT) -> Iterator[bytes]:
    """Yield the bodies of the answers to a paged list of pods."""
    layout = layout_of(size, seed)
    return pages_of(layout, layout.states(), size.pods, layout.list_version, limit)


def pages_of(
    layout: Layout, states: Iterable[PodState], count: int, version: int, limit: int = LIMIT
) -> Iterator[bytes]:
    """Yield pages of `count` pods in order, as of a resourceVersion."""
    writer = PodWriter(layout)
    items = ((f"{state.workload.namespace}/{pod_name(state.workload, state.ordinal)}", state) for state in states)
    return _pages("PodList", ((key, writer.item(state)) for key, state in items), count, version, limit)


def node_pages(size: Size, seed: int = SEED, limit: int = LIMIT) -> Iterator[bytes]:
    """Yield the bodies of the answers to a paged list of nodes."""
    layout = layout_of(size, seed)
    writer = NodeWriter(layout)
    items = ((node_name(node), writer.item(node)) for node in range(size.nodes))
    return _pages("NodeList", items, size.nodes, layout.list_version, limit)


def _pages(kind: str, items: Iterator[tuple[str, str]], count: int, version: int, limit: int) -> Iterator[bytes]:
    sent = 0
    while page := list(islice(items, limit)):
        sent += len(page)
        metadata: Json = {"resourceVersion": str(version)}
        if sent < count:
            metadata |= {"continue": _token(version, page[-1][0]), "remainingItemCount": count - sent}
        head = json.dumps({"kind": kind, "apiVersion": "v1", "metadata": metadata}, separators=(",", ":"))
        yield f'{head[:-1]},"items":[{",".join(text for _, text in page)}]}}\n'.encode("ascii")
    if not count:
        head = f'{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[]}}\n'
        yield head.encode("ascii")


def _token(version: int, last: str) -> str:
    """Return the continue token: where in the store the next page begins."""
    start = f"/{last}\0" if "/" in last else f"{last}\0"
    place = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decoded(text: str) -> Json:
    found: Json = msgspec.json.decode(text)
    return found
