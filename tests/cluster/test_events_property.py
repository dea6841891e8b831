"""Whatever the order, repetition and loss of events: the columns end as if they had seen the final objects only."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.verify import verify
from slack.cluster.columns import ClusterColumns
from slack.cluster.snapshot import Avoider, AvoiderNodes, Snapshot
from tests.cluster.build import NAMESPACE, NOW, Json, apply, node, placeholder, pod, workload
from tests.examples import examples

LATER = NOW + 30 * 86_400
"""When all arrivals lie behind the window, and all bursts are forgotten: a fresh start cannot know those of pods that
have gone."""
NODES = [f"n{i}" for i in range(4)]
NAMES = [f"p{i}" for i in range(6)]
HASH = {"pod-template-hash": "77"}
AVOIDING = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": HASH}, "topologyKey": "kubernetes.io/hostname"},
            {"labelSelector": {}, "topologyKey": "rack", "namespaces": ["shop"], "matchLabelKeys": ["app"]},
        ]
    }
}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
        }
    }
}

pods = st.builds(
    pod,
    st.sampled_from(NAMES),
    st.sampled_from(["shop", "ops"]),
    st.sampled_from(["100m", "1"]),
    node=st.sampled_from([None, *NODES]),
    owner=st.sampled_from([None, ("ReplicaSet", "api-77"), ("DaemonSet", "agent"), ("StatefulSet", "db")]),
    labels=st.sampled_from([None, HASH, HASH | {"app": "a"}, {"app": "b"}]),
    annotations=st.sampled_from([None, {"resource-slack.io/exclude": "true"}, {"kubernetes.io/config.mirror": "x"}]),
    phase=st.sampled_from(["", "", "", "Succeeded"]),
    deleted=st.sampled_from([None, None, None, "2027-01-15T07:59:00Z"]),
    created=st.sampled_from(["2027-01-15T07:00:00Z", "2027-01-15T07:30:00Z", "2027-01-10T07:00:00Z"]),
    extended=st.sampled_from([None, {"nvidia.com/gpu": "1"}]),
    nodeSelector=st.sampled_from([None, {"pool": "web"}, {"kubernetes.io/hostname": "n1"}]),
    affinity=st.sampled_from([None, AFFINITY, AVOIDING]),
    status=st.sampled_from([None, {"nominatedNodeName": "n1"}]),
    schedulingGates=st.sampled_from([None, None, [{"name": "queue"}]]),
    resourceClaims=st.sampled_from([None, None, [{"name": "gpu"}]]),
    volumes=st.sampled_from([None, None, [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]]),
)
placeholders = st.builds(
    placeholder,
    st.sampled_from(["s0", "s1", "s2"]),
    st.sampled_from(["100m", "1"]),
    node=st.sampled_from([None, *NODES]),
    deleted=st.sampled_from([None, None, "2027-01-15T07:59:00Z"]),
    annotations=st.sampled_from([None, {"controller.kubernetes.io/pod-deletion-cost": "5"}]),
)
nodes = st.builds(
    node,
    st.sampled_from(NODES),
    st.sampled_from(["4", "8"]),
    labels=st.sampled_from([{}, {"pool": "web"}, {"rack": "1", "topology.kubernetes.io/zone": "a"}]),
    taints=st.sampled_from(
        [None, [{"key": "gpu", "effect": "NoSchedule"}], [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]]
    ),
    unschedulable=st.booleans(),
    extended=st.sampled_from([None, {"nvidia.com/gpu": "4"}]),
)
workloads = st.builds(
    workload,
    st.sampled_from(["Deployment", "StatefulSet"]),
    st.sampled_from(["api", "db"]),
    replicas=st.integers(0, 3),
    annotations=st.sampled_from([None, {"resource-slack.io/reserve": "1"}, {"resource-slack.io/exclude": "true"}]),
    nodeSelector=st.sampled_from([None, {"rack": "1"}]),
)
objects = st.one_of(pods, pods, pods, placeholders, nodes, nodes, workloads)
KINDS = ("Deployment", "StatefulSet")


def identity(item: Json) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]]:
    """Events as a watch sends them, some of them twice or late, some lost; and what is there in the end."""
    truth: dict[tuple[str, str, str], Json] = {}
    events: list[tuple[str, Json]] = []
    born: dict[tuple[str, str, str], tuple[int, str]] = {}
    for version, item in enumerate(draw(st.lists(objects, max_size=40)), start=1):
        key = identity(item)
        metadata = item["metadata"]
        metadata["resourceVersion"] = str(version)
        if key in truth and draw(st.integers(0, 3)) == 0:
            gone: Json = truth.pop(key)
            events.append(("DELETED", gone | {"metadata": gone["metadata"] | {"resourceVersion": str(version)}}))
            del born[key]
            continue
        # An object keeps its uid and creation time as long as it lives, and gets new ones when it is made anew.
        number, created = born.setdefault(key, (version, metadata.get("creationTimestamp") or "2027-01-15T07:00:00Z"))
        metadata["uid"], metadata["creationTimestamp"] = f"{'-'.join(key)}-{number}", created
        events.append(("MODIFIED" if key in truth else "ADDED", item))
        truth[key] = item
    return events, truth


def resync(columns: ClusterColumns, truth: dict[tuple[str, str, str], Json]) -> None:
    columns.begin_pods()
    columns.begin_nodes()
    for kind in KINDS:
        columns.begin_workloads(kind)
    apply(columns, "ADDED", *truth.values())
    columns.end_pods()
    columns.end_nodes()
    for kind in KINDS:
        columns.end_workloads(kind)


def fresh(truth: dict[tuple[str, str, str], Json], order: list[Any] | None = None) -> ClusterColumns:
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", *(truth[key] for key in (order or truth)))
    return columns


def plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, AvoiderNodes):
        return "where they stand is asked for of each avoider"
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def same(first: Snapshot, second: Snapshot) -> None:
    assert plain(first) == plain(second)
    for each, other in zip(first.avoiders, second.avoiders, strict=True):
        assert nodes_of(first, each) == nodes_of(second, other)


def nodes_of(snapshot: Snapshot, avoider: Avoider) -> list[int]:
    assert snapshot.standing is not None
    return [int(row) for row in snapshot.standing.nodes_of(avoider.owners)]


@examples(300)
@given(histories(), st.booleans())
def test_a_watch_ends_where_a_fresh_list_begins(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], look: bool
) -> None:
    events, truth = history
    columns = ClusterColumns(NAMESPACE)
    for event, item in events:
        apply(columns, event, item)
        if look:
            columns.snapshot(NOW)
            verify(columns)
    verify(columns)
    same(columns.snapshot(LATER), fresh(truth).snapshot(LATER))
    verify(columns)


@examples(300)
@given(histories(), st.data())
def test_repeated_late_and_lost_events_are_healed_by_a_relist(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], data: st.DataObject
) -> None:
    events, truth = history
    sent = [event for event in events for _ in range(data.draw(st.integers(0, 2)))]
    columns = ClusterColumns(NAMESPACE)
    for event, item in data.draw(st.permutations(sent)):
        apply(columns, event, item)
    verify(columns)
    columns.snapshot(NOW)
    resync(columns, truth)
    verify(columns)
    same(columns.snapshot(LATER), fresh(truth).snapshot(LATER))


@examples(150)
@given(histories(), st.data())
def test_the_order_in_which_objects_are_listed_makes_no_difference(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], data: st.DataObject
) -> None:
    truth = history[1]
    shuffled = data.draw(st.permutations(list(truth)))
    same(fresh(truth).snapshot(NOW), fresh(truth, shuffled).snapshot(NOW))


@examples(150)
@given(histories())
def test_repeating_everything_changes_nothing(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]],
) -> None:
    truth = history[1]
    columns = fresh(truth)
    before, snapshot = columns.changed, columns.snapshot(NOW)
    apply(columns, "MODIFIED", *truth.values())
    resync(columns, truth)
    assert columns.changed == before
    same(columns.snapshot(NOW), snapshot)


def with_pods(snapshot: Snapshot) -> object:
    """Return a snapshot without the examples of kinds whose pods have all gone: these say which was seen last."""
    kinds = snapshot.kinds
    shown = (kinds.running + kinds.pending > 0).tolist()
    example = tuple(name if here else "" for name, here in zip(kinds.example, shown, strict=True))
    return plain(dataclasses.replace(snapshot, kinds=dataclasses.replace(kinds, example=example)))


@examples(300)
@given(histories(), st.data())
def test_a_snapshot_of_a_copy_shows_its_instant_whatever_comes_meanwhile(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], data: st.DataObject
) -> None:
    events, truth = history
    columns, twin = ClusterColumns(NAMESPACE), ClusterColumns(NAMESPACE)
    waiting = list(events)
    while waiting:
        number = data.draw(st.integers(1, 5))
        now, waiting = waiting[:number], waiting[number:]
        for event, item in now:
            apply(columns, event, item)
            apply(twin, event, item)
        columns.arrivals.forget_before(NOW)
        copy, expected = columns.copy(), twin.snapshot(NOW)
        meanwhile, waiting = waiting[:5], waiting[5:]
        for event, item in meanwhile:
            apply(columns, event, item)
        assert with_pods(columns.build(copy, NOW)) == with_pods(expected)
        verify(columns)
        for event, item in meanwhile:
            apply(twin, event, item)
    assert with_pods(columns.snapshot(NOW)) == with_pods(twin.snapshot(NOW))
    same(columns.snapshot(LATER), fresh(truth).snapshot(LATER))


@examples(50)
@given(histories(), st.integers(1, 3))
def test_what_is_forgotten_bit_by_bit_is_what_is_forgotten_at_once(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], most: int
) -> None:
    columns, twin = ClusterColumns(NAMESPACE), ClusterColumns(NAMESPACE)
    for event, item in history[0]:
        apply(columns, event, item)
        apply(twin, event, item)
    while not columns.arrivals.forget_before(LATER, most):
        verify(columns)
    same(columns.snapshot(LATER), twin.snapshot(LATER))
    columns.begin_pods()
    whole = columns.end_pods(most)
    while not whole:
        verify(columns)
        whole = columns.end_pods(most)
    assert not columns.pods.rows
