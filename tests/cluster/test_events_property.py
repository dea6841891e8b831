"""Whatever the order, repetition and loss of events: the columns end as if they had seen the final objects only."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slack.cluster.columns import ClusterColumns
from slack.cluster.snapshot import Snapshot
from tests.cluster.build import NAMESPACE, NOW, Json, apply, node, placeholder, pod, workload

LATER = NOW + 6 * 3600
"""When all arrivals lie behind the window: a fresh start cannot know those of pods that have gone."""
NODES = [f"n{i}" for i in range(4)]
NAMES = [f"p{i}" for i in range(6)]
HASH = {"pod-template-hash": "77"}
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
    labels=st.sampled_from([None, HASH]),
    annotations=st.sampled_from([None, {"resource-slack.io/exclude": "true"}, {"kubernetes.io/config.mirror": "x"}]),
    phase=st.sampled_from(["", "", "", "Succeeded"]),
    deleted=st.sampled_from([None, None, None, "2027-01-15T07:59:00Z"]),
    created=st.sampled_from(["2027-01-15T07:00:00Z", "2027-01-15T07:30:00Z", "2027-01-10T07:00:00Z"]),
    extended=st.sampled_from([None, {"nvidia.com/gpu": "1"}]),
    nodeSelector=st.sampled_from([None, {"pool": "web"}, {"kubernetes.io/hostname": "n1"}]),
    affinity=st.sampled_from([None, AFFINITY]),
    status=st.sampled_from([None, {"nominatedNodeName": "n1"}]),
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
        return tuple(plain(one) for one in value)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def same(one: Snapshot, other: Snapshot) -> None:
    assert plain(one) == plain(other)


@settings(max_examples=300, deadline=None)
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
            columns.check()
    columns.check()
    same(columns.snapshot(LATER), fresh(truth).snapshot(LATER))
    columns.check()


@settings(max_examples=300, deadline=None)
@given(histories(), st.data())
def test_repeated_late_and_lost_events_are_healed_by_a_relist(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], data: st.DataObject
) -> None:
    events, truth = history
    sent = [event for event in events for _ in range(data.draw(st.integers(0, 2)))]
    columns = ClusterColumns(NAMESPACE)
    for event, item in data.draw(st.permutations(sent)):
        apply(columns, event, item)
    columns.check()
    columns.snapshot(NOW)
    resync(columns, truth)
    columns.check()
    same(columns.snapshot(LATER), fresh(truth).snapshot(LATER))


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_the_order_in_which_objects_are_listed_makes_no_difference(
    history: tuple[list[tuple[str, Json]], dict[tuple[str, str, str], Json]], data: st.DataObject
) -> None:
    truth = history[1]
    shuffled = data.draw(st.permutations(list(truth)))
    same(fresh(truth).snapshot(NOW), fresh(truth, shuffled).snapshot(NOW))


@settings(max_examples=150, deadline=None)
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
