"""Unbound placeholders are packed into what real pods leave free."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slack.cluster import unbound_packing
from slack.cluster.snapshot import Placeholder, Snapshot
from slack.planner.objects.marker import marker_pod
from tests.cluster.build import NAMESPACE, NOW, Json, apply, as_node, as_pod, columns_of, node, placeholder, pod

HOSTS = "kubernetes.io/hostname"
UNBOUND = {"resource-slack.io/hold": "Unbound"}
TOLD = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def unbound(name: str, cpu: str = "1", memory: str = "1Gi", **rest: Any) -> Json:
    rest.setdefault("status", TOLD)
    return placeholder(name, cpu, memory, labels=UNBOUND, schedulerName="resource-slack.io/unbound", **rest)


def fits(snapshot: Snapshot) -> dict[str, str | None]:
    names = snapshot.nodes.names
    return {p.name: names[p.node] if p.node >= 0 else None for p in snapshot.placeholders}


def seen(*objects: Json, now: float = NOW) -> Snapshot:
    return columns_of(*objects).snapshot(now)


def test_what_is_free_on_nodes_holds_them_and_the_rest_is_pending() -> None:
    snapshot = seen(
        node("a", "4"),
        node("b", "4"),
        pod("real", cpu="3", node="a", owner=("ReplicaSet", "api")),
        *(unbound(f"p{n}", created=f"2027-01-15T07:00:0{n}Z") for n in range(7)),
    )
    found = fits(snapshot)
    assert sorted(name for name, at in found.items() if at is None) == ["p5", "p6"]  # the newest
    assert found["p0"] == "a"  # nodes with pods first, so that an empty one stays empty
    assert [int(value) for value in snapshot.nodes.free[:, 0]] == [0, 0]
    assert [int(value) for value in snapshot.nodes.pod_count] == [2, 4]
    assert all(p.unbound for p in snapshot.placeholders)


@pytest.mark.parametrize("marks", [("label",), ("affinity",), ("label", "affinity"), ()])
def test_an_unbound_one_is_known_by_its_label_or_its_affinity(marks: tuple[str, ...]) -> None:
    released = {"key": "resource-slack.io/release", "operator": "DoesNotExist"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [released]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    item = placeholder(
        "p",
        "1",
        "1Gi",
        labels=UNBOUND if "label" in marks else None,
        affinity=affinity if "affinity" in marks else None,
    )
    (found,) = seen(node("a", "4"), item).placeholders
    assert found.unbound == bool(marks)


def test_a_bound_placeholder_is_where_it_is() -> None:
    snapshot = seen(node("a", "4"), placeholder("bound", "3", node="a"), unbound("p", "2"))
    assert fits(snapshot) == {"bound": "a", "p": None}
    assert [p.unbound for p in snapshot.placeholders] == [False, True]


@pytest.mark.parametrize(
    "other", [{"ready": False}, {"unschedulable": True}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}]
)
def test_a_node_that_takes_no_pods_holds_none(other: Json) -> None:
    assert fits(seen(node("a", "4", **other), unbound("p"))) == {"p": None}


def test_pod_slots_count() -> None:
    assert list(fits(seen(node("a", "64", pods="2"), *(unbound(f"p{n}") for n in range(3)))).values()).count(None) == 1


def test_selectors_and_released_nodes_are_honoured() -> None:
    released: Json = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "resource-slack.io/release", "operator": "DoesNotExist"}]}
                ]
            }
        }
    }
    found = fits(
        seen(
            node("a", "4", labels={"pool": "web", "resource-slack.io/release": "true"}),
            node("b", "1", labels={"pool": "web"}),
            node("c", "64"),
            *(unbound(f"p{n}", nodeSelector={"pool": "web"}, affinity=released) for n in range(2)),
            pod("web", cpu="10m", node="b", nodeSelector={"pool": "web"}),
        )
    )
    assert set(found.values()) == {"a"}  # 10m are taken on b, and a counts until its replacement is there
    assert fits(seen(node("a", "4"), unbound("p", nodeSelector={"pool": "web"}))) == {"p": None}
    replaced = seen(
        node("a", "4", labels={"resource-slack.io/release": "true"}),
        node("b", "1"),
        pod("web", cpu="10m", node="a"),
        *(unbound(f"p{n}", affinity=released) for n in range(2)),
    )
    assert sorted(map(str, fits(replaced).values())) == ["a", "b"]  # first where it may stay, though b is empty


def marker(node: str, **rest: Any) -> Json:
    """Return a marker pod as the API server has it."""
    found = marker_pod(node, "uid", "Drifted.1800000000", namespace=NAMESPACE, priority_class_name="resource-slack")
    return found | rest


@pytest.mark.parametrize("by", ["label", "marker"])
def test_a_released_node_holds_some_only_while_nothing_else_does(by: str) -> None:
    labels = {"resource-slack.io/release": "Drifted.1800000000"} if by == "label" else {}
    there = [node("a", "4", labels=labels), pod("web", cpu="10m", node="a"), *([marker("a")] if by == "marker" else [])]
    unbound_ones = [unbound(f"p{n}") for n in range(2)]
    alone = seen(*there, *unbound_ones)
    assert set(fits(alone).values()) == {"a"}
    assert set(fits(seen(*there, node("b", "4"), *unbound_ones)).values()) == {"b"}
    assert [kind.name for kind in alone.kinds.workloads] == ["web"]  # a marker is no demand


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"deletionTimestamp": "2027-01-15T07:00:00Z"}},
        {"status": {"phase": "Failed", "reason": "OutOfpods"}},
        {"metadata": {"namespace": "shop"}},
        {"metadata": {"labels": {"resource-slack.io/release": "Drifted.1"}}},
    ],
)
def test_what_is_no_marker_releases_no_node(changes: Json) -> None:
    other = marker("a")
    other |= {name: {**other.get(name, {}), **part} for name, part in changes.items()}
    objects = [node("a", "4"), pod("web", cpu="10m", node="a"), node("b", "4"), other, unbound("p")]
    assert fits(seen(*objects)) == {"p": "a"}


def test_a_marker_counts_from_its_event_on_and_no_longer_than_it_is_there() -> None:
    columns = columns_of(node("a", "4"), pod("web", cpu="10m", node="a"), node("b", "4"), unbound("p"))
    assert fits(columns.snapshot(NOW)) == {"p": "a"}
    apply(columns, "ADDED", marker("a"))
    assert fits(columns.snapshot(NOW)) == {"p": "b"}
    apply(columns, "DELETED", marker("a"))
    apply(columns, "ADDED", pod("web2", cpu="10m", node="b"))
    assert not columns.markers.rows
    apply(columns, "ADDED", marker("b"))
    assert fits(columns.snapshot(NOW)) == {"p": "a"}
    columns.begin_pods()
    columns.end_pods()
    assert not columns.markers.rows  # a new list lacks it


def placed_mirrors(*terms: Json) -> list[str]:
    """Return where three mirrors of a workload with one pod, on node a, fit; there are three nodes."""
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    mirrors = [
        unbound(f"m{n}", affinity=apart, annotations={"resource-slack.io/reserved-for": "shop/deploy/db"})
        for n in range(3)
    ]
    owner = ("ReplicaSet", "db-5f6c")
    own = pod("db-5f6c-1", cpu="1", node="a", owner=owner, labels={"pod-template-hash": "5f6c"})
    return sorted(map(str, fits(seen(*(node(name, "8") for name in "abc"), own, *mirrors)).values()))


ITS_LIKE: Json = {
    "topologyKey": HOSTS,
    "labelSelector": {"matchLabels": {"resource-slack.io/reserved-for": "shop.deploy.db"}},
}
OTHERS: Json = {"topologyKey": HOSTS, "labelSelector": {"matchLabels": {"app": "batch"}}, "namespaces": ["shop"]}


def test_mirrors_keep_apart_from_their_workload_and_one_another() -> None:
    assert placed_mirrors(ITS_LIKE) == placed_mirrors(OTHERS, ITS_LIKE) == ["None", "b", "c"]


def test_mirrors_of_a_workload_that_avoids_others_alone_may_stand_together_and_beside_it() -> None:
    assert placed_mirrors(OTHERS) == placed_mirrors({**OTHERS, "labelSelector": {}}) == ["a", "a", "a"]


def test_the_largest_goes_first() -> None:
    found = fits(seen(node("a", "4"), unbound("small", "1"), unbound("large", "4", shape="ffff")))
    assert found == {"large": "a", "small": None}


def test_since_when_one_fits_nowhere_is_remembered_and_forgotten() -> None:
    columns = columns_of(node("a", "1"), unbound("p"), unbound("q", created="2027-01-15T07:00:01Z"))

    def waiting(now: float) -> dict[str, float]:
        found: tuple[Placeholder, ...] = columns.snapshot(now).placeholders
        return {p.name: p.created_seconds for p in found if p.node < 0}

    assert waiting(NOW) == {"q": NOW}
    assert waiting(NOW + 50) == {"q": NOW}
    columns.apply_nodes([("ADDED", as_node(node("b", "1")))])
    assert waiting(NOW + 60) == {}
    columns.apply_nodes([("DELETED", as_node(node("b", "1")))])
    assert waiting(NOW + 70) == {"q": NOW + 70}
    columns.apply_nodes([("ADDED", as_node(node("b", "1")))])
    # Where one fits again, since when it had waited is still said: that is how long its node took.
    placed = {p.name: p.created_seconds for p in columns.snapshot(NOW + 80).placeholders if p.node >= 0}
    assert placed["q"] == NOW + 70
    assert placed["p"] < NOW


@pytest.mark.parametrize("others", [[], [unbound("huge", "64", shape="ffff")]], ids=["all fit", "another shape waits"])
def test_only_those_that_move_are_made_anew(others: list[Json]) -> None:
    nodes = [node("a", "3"), node("b", "1"), node("c", "8")]
    columns = columns_of(*nodes, *(unbound(f"p{n}") for n in range(5)), *others)
    columns.snapshot(NOW)
    before = {p.name: p for p in columns.snapshot(NOW + 1).placeholders}
    columns.apply_pods([("ADDED", as_pod(pod("real", cpu="2", node="a", owner=("ReplicaSet", "api"))))])
    snapshot = columns.snapshot(NOW + 2)
    after = {p.name: p for p in snapshot.placeholders}
    moved = {name for name in after if after[name].node != before[name].node}
    assert len(moved) == 2  # node a holds one of three now; the others stay where they are, also behind it
    assert all((after[name] is before[name]) == (name not in moved) for name in after)
    assert all(replace(after[name], node=before[name].node) == before[name] for name in moved)


@pytest.mark.parametrize("name", ["a", "z"])
def test_an_empty_node_that_comes_takes_no_placeholder_from_another(name: str) -> None:
    columns = columns_of(node("m", "8"), unbound("p"), unbound("q"))
    assert fits(columns.snapshot(NOW)) == {"p": "m", "q": "m"}
    columns.apply_nodes([("ADDED", as_node(node(name, "8")))])
    assert fits(columns.snapshot(NOW + 1)) == {"p": "m", "q": "m"}
    columns.apply_nodes([("DELETED", as_node(node("m", "8")))])
    assert fits(columns.snapshot(NOW + 2)) == {"p": name, "q": name}


def test_a_process_that_starts_takes_the_older_of_two_empty_nodes() -> None:
    """The younger one may have come for others since its predecessor packed."""
    older = node("m", "8", created="2027-01-15T07:00:00Z")
    assert fits(seen(older, node("a", "8", created="2027-01-15T07:00:09Z"), unbound("p"))) == {"p": "m"}


def test_a_resource_that_no_node_has_fits_nowhere() -> None:
    assert fits(seen(node("a", "8"), unbound("p", extended={"example.com/gpu": "1"}))) == {"p": None}


ZONE = "topology.kubernetes.io/zone"
ZONES = ("x", "y", "")


def first_fit(
    nodes: list[tuple[str, int, int, str]], sizes: list[Json], pods: dict[str, list[int]], before: set[str]
) -> dict[str, str]:
    """Return where placeholders go by the plainest loop: each of them asks each node.

    Args:
        nodes: name, millicores, slots and zone.
        sizes: each with its millicores, the key over which its placeholders keep apart, and their number.
        pods: millicores of what is on each node.
        before: names of nodes that held placeholders in the last snapshot.
    """
    free = {name: [cpu - sum(pods[name]), slots - len(pods[name])] for name, cpu, slots, _ in nodes}
    zones = {name: zone for name, _, _, zone in nodes}
    order = sorted(free, key=lambda name: (not pods[name], name not in before))
    found = {}
    for number, size in sorted(enumerate(sizes), key=lambda item: -item[1]["cpu"]):
        taken: list[str] = []
        for count in range(size["count"]):
            for name in order:
                shared = name in taken or (size["apart"] == ZONE and zones[name] in {zones[t] for t in taken} - {""})
                if free[name][0] >= size["cpu"] and free[name][1] > 0 and not (size["apart"] and shared):
                    free[name][0] -= size["cpu"]
                    free[name][1] -= 1
                    taken.append(name)
                    found[f"p{number}-{count}"] = name
                    break
    return found


def by_size(placed: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Return how many of each size each node has: those of one size are alike, and stay where they are."""
    return Counter((name.partition("-")[0], at) for name, at in placed.items())


@pytest.mark.parametrize("seed", range(40))
def test_many_sizes_on_many_nodes_are_packed_as_by_the_plainest_loop(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # a few nodes are looked at first, as of many nodes
        monkeypatch.setattr(unbound_packing, "_FIRST_PLACES", 1)
        monkeypatch.setattr(unbound_packing, "_MORE_PLACES", 2)
    rng = random.Random(seed)
    nodes = [(f"n{i:02}", rng.randrange(1000, 9000, 500), rng.randint(2, 9), rng.choice(ZONES)) for i in range(20)]
    cpus = rng.sample(range(100, 5000, 100), 6)
    sizes: list[Json] = [
        {"cpu": cpu, "count": rng.randint(1, 25), "apart": rng.choice((None, None, None, HOSTS, ZONE))} for cpu in cpus
    ]
    placeholders = []
    for number, size in enumerate(sizes):
        term = {**ITS_LIKE, "topologyKey": size["apart"]}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        rest: Json = {"shape": f"s{number}", "affinity": apart if size["apart"] else None}
        rest["annotations"] = {"resource-slack.io/reserved-for": "shop/deploy/db"}
        placeholders += [
            unbound(f"p{number}-{count}", f"{size['cpu']}m", "0", created=f"2027-01-15T07:00:{count:02}Z", **rest)
            for count in range(size["count"])
        ]
    columns = columns_of(
        *(
            node(name, f"{cpu}m", pods=str(slots), labels={ZONE: zone} if zone else None)
            for name, cpu, slots, zone in nodes
        ),
        *placeholders,
    )
    pods: dict[str, list[int]] = {name: [] for name, *_ in nodes}
    found: dict[str, str] = {}
    for change in range(6):  # one view after the other, of which each keeps what is as it was
        name, cpu, slots, _ = rng.choice(nodes)
        asked = rng.randrange(100, 1000, 100)
        if len(pods[name]) < slots and sum(pods[name]) + asked <= cpu and change:
            pods[name].append(asked)
            apply(columns, "ADDED", pod(f"r{change}", cpu=f"{asked}m", memory="0", node=name, owner=("Job", "j")))
        snapshot = columns.snapshot(NOW)
        found = first_fit(nodes, sizes, pods, set(found.values()))
        placed = {own: at for own, at in fits(snapshot).items() if at}
        assert placed.keys() == found.keys()
        assert by_size(placed) == by_size(found)
        held = [sum(p.node == row for p in snapshot.placeholders) for row in range(len(nodes))]
        there = [len(pods[own]) + number for own, number in zip(snapshot.nodes.names, held, strict=True)]
        assert snapshot.nodes.pod_count.tolist() == there


def test_what_changes_is_packed_as_all_of_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """One view packs again what a change matters to, the other everything; what is the same keeps its value."""
    rng = random.Random(7)
    term = {**ITS_LIKE, "topologyKey": HOSTS}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node(f"n{i:02}", f"{rng.randint(4, 9)}", pods=f"{rng.randint(3, 12)}") for i in range(30)]
    stays = [pod(f"s{i}", cpu="100m", node=f"n{i:02}", owner=("Job", "j")) for i in range(30)]
    placeholders = [
        unbound(f"p{size}-{count}", f"{300 + 500 * size}m", shape=f"s{size}", affinity=apart if size == 2 else None)
        for size in range(6)
        for count in range(6)
    ]
    views = [columns_of(*nodes, *stays, *placeholders) for _ in range(2)]
    there: list[Json] = []
    kept = moved = 0
    before: tuple[Placeholder, ...] = ()
    for change in range(80):
        if there and rng.random() < 0.5:
            event, item = "DELETED", there.pop(rng.randrange(len(there)))
        else:
            cpu, at = f"{rng.randrange(100, 3000, 100)}m", f"n{rng.randrange(30):02}"
            event, item = "ADDED", pod(f"r{change}", cpu=cpu, memory="0", node=at, owner=("Job", "j"))
            there.append(item)
        found = []
        for view, few in zip(views, (64, -1), strict=True):
            monkeypatch.setattr(unbound_packing, "_FEW_CHANGES", few)
            apply(view, event, item)
            found.append(view.snapshot(NOW + change))
        again, anew = found
        assert fits(again) == fits(anew)
        assert again.nodes.free.tolist() == anew.nodes.free.tolist()
        assert again.nodes.pod_count.tolist() == anew.nodes.pod_count.tolist()
        kept, moved = kept + (again.placeholders is before), moved + (again.placeholders != before)
        before = again.placeholders
    assert kept > 10
    assert moved > 10


SELECTORS = (("data", (("team", "data"),)), ("default", ()))


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_nodes_of_another_policy_hold_what_fits_nowhere_else(started: bool, real: bool) -> None:
    """Even where a pod stands on such a node, and after a start, when nothing is known of a snapshot before."""
    data = node("a", "8", labels={"team": "data"}, created="2027-01-15T06:00:00Z")
    columns = columns_of(node("m", "2"), *(unbound(f"p{n}") for n in range(3)))
    columns.require_labels({"team"}, SELECTORS)
    if not started:
        columns.snapshot(NOW)
    columns.apply_nodes([("ADDED", as_node(data))])
    if real:
        apply(columns, "ADDED", pod("web", cpu="1", node="a", owner=("ReplicaSet", "web")))
    assert sorted(fits(columns.snapshot(NOW + 1)).values(), key=str) == ["a", "m", "m"]


def test_equal_chunks_of_an_older_buffer_fit_first() -> None:
    def chunk(name: str, buffer: str, created: str, shape: str = "a") -> Json:
        found = unbound(name, created=created, shape=shape)
        found["metadata"]["annotations"] = {"resource-slack.io/buffer-created": buffer}
        return found

    def fitting(cpu: str, *chunks: Json) -> list[str]:
        return sorted(name for name, at in fits(seen(node("n", cpu), *chunks)).items() if at is not None)

    old, young = "2027-01-15T06:00:00Z", "2027-01-15T06:30:00Z"
    first, second, third = (f"2027-01-15T07:00:0{second}Z" for second in range(3))
    alike = [chunk("a", young, first), chunk("b", old, second), chunk("c", old, third)]
    assert fitting("2", *alike) == ["b", "c"], "though the other one's placeholder is older"
    others = [chunk("a", young, first, "a"), chunk("b", old, second, "b")]
    assert fitting("1", *others) == ["b"], "though its shape has a later name"
