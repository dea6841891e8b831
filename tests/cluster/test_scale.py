"""Tens of thousands of events at the size of real clusters: what is kept incrementally is what a fresh list would give.

Each event is looked for in the columns right after it, so none can be lost unnoticed, however few pods there are;
the aggregates are compared with those of the rows now and then, and with those of a fresh list at the end.
`make test-thorough` looks at a 25th of R10's cluster (200 nodes, 6,000 pods of the generator), `make test` at a 100th;
the whole of it with

    SCALE_SHARE=1 make test-thorough PYTEST_ARGS='tests/cluster/test_scale.py -o timeout=900'
"""

import os
import random
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec
import pytest

from benchmarks.fingerprint import differences, fingerprint
from benchmarks.generator import NOW, Churn, node_pages, scaled
from benchmarks.verify import verify
from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.requests import effective_requests
from tests.cluster.build import NAMESPACE, Json, placeholder
from tests.examples import by_profile

SHARE = float(os.environ.get("SCALE_SHARE", by_profile("0.01", "0.04")))
EVENTS = by_profile(800, 12_000)
"""A phase."""
LATER = NOW + 30 * 86_400
"""When all arrivals lie behind the window: a fresh start cannot know those of pods that have gone."""
PLACEHOLDERS = 300
T = TypeVar("T", bound=msgspec.Struct)


class Event(NamedTuple):
    type: str
    object: wire.Pod | wire.Node


class _Line(msgspec.Struct):
    type: str
    object: wire.Pod


class _Pods(msgspec.Struct):
    items: list[wire.Pod]


class _Nodes(msgspec.Struct):
    items: list[Json]


class Truth:
    """The cluster as it really is: generated pods that go on, nodes and placeholders that come and go."""

    def __init__(self, share: float, seed: int) -> None:
        self.size = scaled(share)
        self.churn = Churn(self.size, seed)
        self.rng = random.Random(seed)
        self.nodes: dict[str, Json] = {}
        for page in node_pages(self.size, seed):
            for node in msgspec.json.decode(page, type=_Nodes).items:
                self.nodes[node["metadata"]["name"]] = node
        self.names = list(self.nodes)
        self.placeholders: dict[str, Json] = {}
        self._deleted: dict[str, Json] = {}

    def events(self, count: int) -> Iterator[Event]:
        """Of a hundred, 90 are of generated pods, 7 of placeholders, 3 of nodes."""
        decoder = msgspec.json.Decoder(_Line)
        for _ in range(count):
            chance = self.rng.random()
            if chance < 0.90:
                for line in self.churn.lines(1):
                    read = decoder.decode(line)
                    yield Event(read.type, read.object)
            elif chance < 0.97:
                yield self._placeholder()
            else:
                yield self._node()

    def begin_relist(self, columns: ClusterColumns) -> None:
        columns.begin_nodes()
        columns.apply_nodes([("ADDED", read(node, wire.Node)) for node in self.nodes.values()])
        columns.end_nodes()
        columns.begin_pods()
        for page in self.churn.pages():
            columns.apply_pods([("ADDED", pod) for pod in msgspec.json.decode(page, type=_Pods).items])
        columns.apply_pods([("ADDED", read(raw, wire.Pod)) for raw in self.placeholders.values()])

    def relist(self, columns: ClusterColumns) -> None:
        self.begin_relist(columns)
        columns.end_pods()

    def _version(self) -> int:
        self.churn.version += 1
        return self.churn.version

    def _placeholder(self) -> Event:
        name = f"s{self.rng.randrange(PLACEHOLDERS)}"
        version = self._version()
        if name in self.placeholders and self.rng.random() < 0.5:
            gone = self.placeholders.pop(name)
            gone["metadata"]["resourceVersion"] = str(version)
            return Event("DELETED", read(gone, wire.Pod))
        known = self.placeholders.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{version}"
        made = placeholder(
            name,
            self.rng.choice(("500m", "2")),
            shape=self.rng.choice(("9f3c2a", "0b1c2d")),
            node=self.rng.choice((None, self.rng.choice(self.names))),
            uid=uid,
            rv=version,
        )
        self.placeholders[name] = made
        return Event("MODIFIED" if known else "ADDED", read(made, wire.Pod))

    def _node(self) -> Event:
        """Cordon or label a node, delete it under its pods, or bring a deleted one back as another."""
        name, version = self.rng.choice(self.names), str(self._version())
        node = self.nodes.get(name)
        if node is not None and self.rng.random() < 0.2:
            del self.nodes[name]
            gone = {**node, "metadata": node["metadata"] | {"resourceVersion": version}}
            self._deleted[name] = node
            return Event("DELETED", read(gone, wire.Node))
        changed = {"resourceVersion": version}
        if node is None:
            node, changed = self._deleted[name], changed | {"uid": f"{name}-{version}"}
        labels = node["metadata"]["labels"] | {"pool": self.rng.choice(("general", "memory"))}
        spec = node["spec"] | {"unschedulable": self.rng.random() < 0.3}
        known = name in self.nodes
        self.nodes[name] = {**node, "metadata": node["metadata"] | changed | {"labels": labels}, "spec": spec}
        return Event("MODIFIED" if known else "ADDED", read(self.nodes[name], wire.Node))


def read(item: Json, kind: type[T]) -> T:
    """Decode as from the wire: constraints and resources stay raw JSON."""
    return msgspec.json.decode(msgspec.json.encode(item), type=kind)


def feed(columns: ClusterColumns, events: Iterator[Event] | list[Event], every: int = 4_000) -> None:
    """Apply events; look now and then, so that what is kept between two looks has to follow."""
    newest: dict[str, int] = {}
    for number, (event, item) in enumerate(events, start=1):
        if isinstance(item, wire.Pod):
            columns.apply_pods([(event, item)])
        else:
            columns.apply_nodes([(event, item)])
        metadata = item.metadata
        name, version = f"{metadata.namespace}/{metadata.name}", int(metadata.resource_version or 0)
        if version >= newest.get(name, 0):
            newest[name] = version
            expected = None if event == "DELETED" else said_by(item)
            assert kept_of(columns, item) == expected, f"{event} {name} at {version}"
        if number % every == 0:
            columns.snapshot(NOW)
            verify(columns)


def said_by(item: wire.Pod | wire.Node) -> tuple[object, ...]:
    """What the columns are to keep of an object: its version, and what counts of it."""
    version = int(item.metadata.resource_version or 0)
    if isinstance(item, wire.Node):
        return version, not (item.spec and item.spec.unschedulable), item.metadata.labels
    assert item.spec is not None
    assert item.status is not None
    node = item.spec.node_name
    if item.status.phase in ("Succeeded", "Failed") or (node is None and item.metadata.deletion_timestamp):
        return version, None, None
    return version, node, effective_requests(item.spec, item.status)


def kept_of(columns: ClusterColumns, item: wire.Pod | wire.Node) -> tuple[object, ...] | None:
    """What the columns keep of an object; None when they do not know it, or another one of that name."""
    metadata, nodes, pods = item.metadata, columns.nodes, columns.pods
    uid = hash(metadata.uid)
    if isinstance(item, wire.Node):
        row = nodes.rows.get(metadata.name)
        if row is None or nodes.uid[row] != uid or (facts := nodes.facts[row]) is None:
            return None
        return int(nodes.resource_version[row]), facts.schedulable, facts.labels
    row = pods.rows.get(f"{metadata.namespace}/{metadata.name}")
    if row is None or pods.uid[row] != uid:
        return None
    role, _, requests, node = pods.state(row)
    if not role:
        return pods.cells.version[row], None, None
    return pods.cells.version[row], nodes.names[node] if node >= 0 else None, dict(columns.requests[requests])


def disordered(events: Iterator[Event], rng: random.Random) -> list[Event]:
    """Some events twice, most of them out of turn, a few much too late."""
    placed: list[tuple[float, Event]] = []
    for number, event in enumerate(events):
        placed.append((number + rng.uniform(0, 40), event))
        if rng.random() < 0.1:
            placed.append((number + rng.uniform(0, 400), event))
        if rng.random() < 0.01:
            placed.append((number + rng.uniform(0, 4_000), event))
    return [event for _, event in sorted(placed, key=lambda pair: pair[0])]


def with_gaps(events: Iterator[Event], rng: random.Random) -> Iterator[Event]:
    """Of each few hundred events a stretch is lost, deletions and all."""
    for number, event in enumerate(events):
        if number % 300 == 0:
            lost = rng.randrange(300)
        if number % 300 >= lost:
            yield event


def assert_like_a_fresh_list(columns: ClusterColumns, truth: Truth) -> None:
    fresh = ClusterColumns(NAMESPACE)
    truth.relist(fresh)
    assert differences(fingerprint(columns, LATER), fingerprint(fresh, LATER)) == []


@pytest.fixture
def watched() -> tuple[ClusterColumns, Truth]:
    """Columns that have listed the cluster."""
    truth = Truth(SHARE, seed=7)
    columns = ClusterColumns(NAMESPACE)
    truth.relist(columns)
    return columns, truth


def test_events_out_of_order_and_repeated_leave_no_trace(watched: tuple[ClusterColumns, Truth]) -> None:
    columns, truth = watched
    feed(columns, disordered(truth.events(EVENTS), truth.rng))
    assert_like_a_fresh_list(columns, truth)


def test_what_a_gap_in_the_watch_lost_comes_with_the_next_list(watched: tuple[ClusterColumns, Truth]) -> None:
    columns, truth = watched
    feed(columns, with_gaps(truth.events(EVENTS), truth.rng))
    truth.relist(columns)
    assert_like_a_fresh_list(columns, truth)


@pytest.mark.thorough
def test_a_list_that_was_broken_off_does_no_harm(watched: tuple[ClusterColumns, Truth]) -> None:
    columns, truth = watched
    feed(columns, with_gaps(truth.events(EVENTS // 4), truth.rng))
    truth.begin_relist(columns)
    feed(columns, truth.events(EVENTS // 4))  # as of a server that sends events before the list is whole
    verify(columns)
    truth.relist(columns)
    feed(columns, disordered(truth.events(EVENTS // 4), truth.rng))
    assert_like_a_fresh_list(columns, truth)
