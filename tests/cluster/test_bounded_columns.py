"""What columns keep of pods is bounded, whatever is written into them and however many come and go."""

import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.verify import verify
from slack.cluster.columns import ClusterColumns
from slack.cluster.tables import interning, kind_table
from tests.cluster.build import NAMESPACE, NOW, apply, node, pod

BUCKET_SECONDS = 300
MANY = {f"k{number}": "v" for number in range(6000)}
EXPRESSION = {"key": "k", "operator": "In", "values": [f"v{number}" for number in range(5000)]}
TERM = {"labelSelector": {"matchExpressions": [EXPRESSION]}, "topologyKey": "kubernetes.io/hostname"}
LONG: dict[str, dict[str, Any]] = {
    "node selector": {"nodeSelector": MANY},
    "node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]
                }
            }
        }
    },
    "anti-affinity": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    "tolerations": {"tolerations": [{"key": key, "operator": "Exists"} for key in MANY]},
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": [*MANY]}
        ]
    },
}
ANNOTATIONS = ("resource-slack.io/exclude", "resource-slack.io/reserve", "kubernetes.io/config.source")


def columns_of(*names: str) -> ClusterColumns:
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", *(node(name) for name in names))
    return columns


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unique(value: Any, number: int) -> Any:
    """Return rules that no other pod has."""
    return json.loads(json.dumps(value).replace('"k', f'"k{number}-').replace('"v', f'"v{number}-'))


def test_a_pod_whose_terms_look_at_many_labels_is_not_read_either() -> None:
    columns = columns_of("n0")
    keys = [f"k{number}" for number in range(interning.MOST_LABEL_KEYS + 1)]
    it = pod("p0", "shop", "100m", created=at(0), labels=dict.fromkeys(keys, "v"))
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": keys}
    it["spec"]["topologySpreadConstraints"] = [{**spread, "labelSelector": {}}]
    apply(columns, "ADDED", it)
    assert all(not key.labels for key in columns.kinds.holders())
    snapshot = columns.snapshot(NOW)
    assert not snapshot.reach[snapshot.kinds.constraint_id].any()


def test_the_rules_are_longer_than_those_that_are_read() -> None:
    assert all(len(json.dumps(rules)) > interning.LONGEST_RULES for rules in LONG.values())


@pytest.mark.parametrize("rules", LONG.values(), ids=LONG)
def test_a_pod_with_long_rules_counts_where_it_is_and_keeps_little_in_memory(rules: dict[str, Any]) -> None:
    columns = columns_of("n0")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(10):
        it = pod(f"p{number}", "shop", "100m", node="n0", created=at(0), labels=unique(MANY, number))
        it["spec"] |= unique(rules, number)
        apply(columns, "ADDED", it)
    del it
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 10 * 20_000
    snapshot = columns.snapshot(NOW)
    assert snapshot.nodes.free[0, 0] == columns.nodes.allocatable[0, 0] - 1000
    assert not snapshot.reach[snapshot.kinds.constraint_id].any(), "no node is taken for one where they may go"
    verify(columns)


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_of_an_annotation_nothing_is_kept_that_is_not_read(key: str) -> None:
    columns = columns_of("n0")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        it = pod(f"p{number}", "shop", "100m", created=at(0), annotations={key: f"{number}" + "x" * 100_000})
        apply(columns, "ADDED", it)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 20 * 10_000


def test_rules_are_read_up_to_a_length_while_there_is_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "MOST_RULES", 200_000)
    columns = columns_of("n0")
    for number in range(40):
        it = pod(f"p{number}", "shop", "100m", node="n0", created=at(0))
        it["spec"]["nodeSelector"] = {f"k{number}-{each}": "v" for each in range(400)}
        apply(columns, "ADDED", it)
    assert columns.constraints.is_crowded
    assert columns.constraints._length < 300_000
    short = pod("short", "shop", "100m", created=at(0))
    short["spec"]["nodeSelector"] = {"pool": "web"}
    apply(columns, "ADDED", short)
    assert any("pool" in columns.constraints.sort_key(index) for index in columns.constraints.ids())
    for number in range(40):
        apply(columns, "DELETED", pod(f"p{number}", "shop", "100m", node="n0", created=at(0)))
    for number in range(40, 80):
        apply(columns, "ADDED", pod(f"p{number}", "shop", "100m", node="n0", created=at(BUCKET_SECONDS * 2)))
    assert not columns.constraints.is_crowded, "rules of pods that are gone make room"
    verify(columns)


def test_pods_that_come_and_go_without_end_keep_no_more_kinds_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kind_table, "MOST_KINDS", 100)
    columns = columns_of("n0")
    apply(columns, "ADDED", pod("stays", "shop", "100m", node="n0", created=at(0)))
    for number in range(2000):
        it = pod(f"p{number}", "shop", "100m", created=at(number))
        apply(columns, "ADDED", it)
        apply(columns, "DELETED", it)
        assert len(columns.kinds) <= 500
    verify(columns)
    assert columns.snapshot(NOW + 2000).kinds.running.sum() == 1


def test_pods_that_request_what_no_node_has_leave_no_more_names_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interning, "MOST_LACKED", 500)
    columns = columns_of("n0")
    for number in range(300):
        names = {f"example.com/r{number}-{each}": "1" for each in range(10)}
        it = pod(f"p{number}", "shop", "100m", created=at(10 * number), extended=names)
        apply(columns, "ADDED", it)
        apply(columns, "DELETED", it)
    assert columns.requests._lacked < 1500
    assert columns.requests._lacked == sum(map(len, columns.requests.unoffered.values()))
    verify(columns)
    columns.arrivals.forget_before(NOW + 30 * 86_400)
    assert columns.requests._lacked == 0
    assert not columns.requests.is_crowded


def test_a_kind_whose_last_arrival_is_forgotten_with_the_next_is_made_anew() -> None:
    columns = columns_of("n0")
    own = ("StatefulSet", "db")
    apply(columns, "ADDED", pod("db-0", "shop", "100m", owner=own, created=at(0)))
    apply(columns, "DELETED", pod("db-0", "shop", "100m", owner=own, created=at(0)))
    later = 73 * BUCKET_SECONDS
    apply(columns, "ADDED", pod("db-0", "shop", "100m", owner=own, created=at(later)))
    verify(columns)
    kinds = columns.snapshot(NOW + later).kinds
    assert (kinds.pending.tolist(), kinds.arrivals.tolist()) == ([1], [1])
