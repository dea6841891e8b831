"""`extraCapacity.nodes`: whole spare nodes, each as large as an empty node of the usual size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.planner.model.result import ExistingShape, PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.model.wanted_by import Source
from slack.planner.plan import plan
from tests.cluster.build import NOW, Json, node, pod
from tests.examples import examples
from tests.planner.scenes import GI, MI, as_existing, plan_of, policy_of, replicas, snapshot_of


def _fill(item: PolicyPlan) -> list[tuple[int, int, int]]:
    """Return cpu, memory and count of each standard placeholder."""
    return [
        (*s.shape.vector(item.resources)[:2].tolist(), s.count)
        for s in item.shapes
        if s.role is Role.FILL and not s.retiring and s.count
    ]


def _daemons(names: list[str], cpu: str = "100m", memory: str = "100Mi") -> list[Json]:
    return [
        pod(f"cni-{name}", "kube-system", cpu=cpu, memory=memory, node=name, owner=("DaemonSet", "cni"))
        for name in names
    ]


WINDOW = {"cron": "0 7 * * *", "duration": "1h"}


def _extra(**fields: object) -> Json:
    return {"extraCapacity": fields}


@pytest.mark.parametrize("granularity", [1, 5, 100])
@pytest.mark.parametrize("mode", ["Frequent", "None", "Largest"])
def test_each_is_an_empty_node_less_its_daemon_sets_whatever_granularity_says(granularity: int, mode: str) -> None:
    names = [f"n{i}" for i in range(4)]
    item = plan_of(
        *(node(name, "8", "32Gi") for name in names),
        *_daemons(names),
        *replicas(8, "web", "1", "2Gi", node="n0"),
        granularity=granularity,
        cover={"mode": mode},
        extraCapacity={"nodes": 2},
    )
    assert _fill(item) == [(7900, 32 * GI - 100 * (1 << 20), 2)]
    assert not [c for c in item.conditions if c.type == "PinsNodes" and c.status]


def test_the_usual_size_is_that_of_most_nodes() -> None:
    nodes = [*(node(f"small-{i}", "4", "16Gi") for i in range(3)), node("large", "64", "256Gi")]
    assert _fill(plan_of(*nodes, extraCapacity={"nodes": 1})) == [(4000, 16 * GI, 1)]


def test_with_per_domain_zone_so_many_are_kept_in_each_zone() -> None:
    nodes = [node(f"n{i}", "8", "32Gi", labels={"topology.kubernetes.io/zone": f"z{i % 3}"}) for i in range(6)]
    item = plan_of(*nodes, perDomain="Zone", extraCapacity={"nodes": 2})
    assert _fill(item) == [(8000, 32 * GI, 2)] * 3


def test_a_ceiling_wins() -> None:
    nodes = [node(f"n{i}", "8", "32Gi") for i in range(4)]
    item = plan_of(*nodes, extraCapacity={"nodes": 3, "ceiling": {"cpu": "17", "memory": "200Gi"}})
    assert _fill(item) == [(8000, 32 * GI, 2)]


def test_larger_nodes_of_the_pool_bring_larger_placeholders_and_a_little_more_keeps_those_that_are_there() -> None:
    first = plan_of(*(node(f"n{i}", "8", "32Gi") for i in range(4)), extraCapacity={"nodes": 2})
    little = plan_of(
        *(node(f"n{i}", "8100m", "33Gi") for i in range(4)), extraCapacity={"nodes": 2}, existing=as_existing(first)
    )
    assert _fill(little) == _fill(first)
    larger = plan_of(
        *(node(f"n{i}", "16", "64Gi") for i in range(4)), extraCapacity={"nodes": 2}, existing=as_existing(first)
    )
    assert _fill(larger) == [(16000, 64 * GI, 2)]


def test_a_group_at_zero_counts_by_its_template() -> None:
    template = {"name": "w", "labels": {"pool": "w"}, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    item = plan_of(
        node("other", "64", "256Gi"),
        nodeSelector={"pool": "w"},
        nodeTemplates=[template],
        extraCapacity={"nodes": 1},
    )
    assert _fill(item) == [(4000, 16 * GI, 1)]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (_extra(nodes=1, replicas=1), "nodes and replicas are two fixed numbers"),
        (_extra(schedule=[{**WINDOW, "nodes": 1, "replicas": 1}]), "nodes and replicas are two fixed numbers"),
        (_extra(schedule=[WINDOW]), "give minRate, floor, replicas or nodes"),
        ({**_extra(schedule=[{**WINDOW, "nodes": 1}]), "objective": {"instantStart": 0.9}}, "can raise the floor only"),
        (_extra(nodes=-1), "nodes"),
        (_extra(nodes=1001), "nodes"),
        (_extra(nodes="two"), "nodes"),
        ({**_extra(nodes=1), "objective": {"instantStart": 0.9}}, "minRate, replicas, nodes and ladder"),
    ],
)
def test_wrong_input_is_refused_with_its_field(spec: Json, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        policy_of(**spec)


@examples(100)
@given(
    st.integers(2_000, 64_000),
    st.integers(4_096, 262_144),
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.integers(0, 900),
    st.integers(1, 5),
)
def test_every_one_fits_an_empty_node_and_leaves_less_than_a_pod_of_it(
    cpu_millis: int, memory_mib: int, less_mib: list[int], daemon_millis: int, wanted: int
) -> None:
    """Nodes of one type differ by some MiB; a placeholder takes all that each of them has but for these."""
    names = [f"n{i}" for i in range(len(less_mib))]
    nodes = [node(name, f"{cpu_millis}m", f"{memory_mib - less}Mi") for name, less in zip(names, less_mib, strict=True)]
    item = plan_of(
        *nodes, *_daemons(names, f"{daemon_millis}m", "64Mi"), extraCapacity={"nodes": wanted}, cover={"mode": "None"}
    )
    ((cpu, memory, count),) = _fill(item)
    assert count == wanted
    assert cpu_millis - daemon_millis - 10 < cpu <= cpu_millis - daemon_millis
    least = min(memory_mib - less for less in less_mib)
    assert np.abs(memory - (least - 64) * (1 << 20)) <= (1 << 20)


IN_BOTH_FORMS = pytest.mark.parametrize("unbound", [False, True], ids=["bound", "unbound"])


def _planned(*objects: Json, unbound: bool, existing: tuple[ExistingShape, ...] = (), **spec: Any) -> PolicyPlan:
    policy = policy_of(**spec).model_copy(update={"unbound_scheduler": UNBOUND_SCHEDULER if unbound else ""})
    return plan(snapshot_of(*objects), [policy], now=NOW, existing=existing, state={}).items[0]


@IN_BOTH_FORMS
def test_a_daemon_set_of_one_node_makes_no_placeholder_smaller(unbound: bool) -> None:
    names = [f"n{i}" for i in range(3)]
    nodes = [node(name, "8", "32Gi") for name in names]
    extra = pod("ingress", "kube-system", cpu="2", memory="8Gi", node="n2", owner=("DaemonSet", "ingress"))
    item = _planned(*nodes, *_daemons(names), extra, unbound=unbound, extraCapacity={"nodes": 1})
    assert _fill(item) == [(7900, 32 * GI - 100 * MI, 1)]


@IN_BOTH_FORMS
def test_a_new_node_without_its_daemon_sets_makes_none_larger(unbound: bool) -> None:
    nodes = [node(f"n{i}", "8", "32Gi") for i in range(4)]
    item = _planned(*nodes, *_daemons(["n0", "n1"]), unbound=unbound, extraCapacity={"nodes": 1})
    assert _fill(item) == [(7900, 32 * GI - 100 * MI, 1)]


def _further(item: PolicyPlan, resource: str) -> list[tuple[int, int]]:
    """Return what of a resource each standard placeholder requests, and their number."""
    fill = [s for s in item.shapes if s.role is Role.FILL and not s.retiring and s.count]
    return [(dict(s.shape.requests).get(resource, 0), s.count) for s in fill]


GPU = "nvidia.com/gpu"


@IN_BOTH_FORMS
def test_a_whole_node_with_gpus_is_one_with_free_gpus(unbound: bool) -> None:
    nodes = [node(f"g{i}", "32", "128Gi", extended={GPU: "4", "devices.kubevirt.io/kvm": "1k"}) for i in range(3)]
    busy = pod("train", cpu="8", memory="32Gi", node="g0", extended={GPU: "2"})
    item = _planned(*nodes, busy, unbound=unbound, extraCapacity={"nodes": 2}, cover={"mode": "None"})
    assert _fill(item) == [(32000, 128 * GI, 2)]
    assert _further(item, GPU) == [(4, 2)]
    assert _further(item, "devices.kubevirt.io/kvm") == [(0, 2)]
    again = _planned(
        *nodes, busy, unbound=unbound, existing=as_existing(item), extraCapacity={"nodes": 2}, cover={"mode": "None"}
    )
    assert _further(again, GPU) == [(4, 2)]
    more = _planned(
        *nodes, busy, unbound=unbound, existing=as_existing(item), extraCapacity={"nodes": 3}, cover={"mode": "None"}
    )
    assert _further(more, GPU) == [(4, 3)]


def test_nodes_with_gpus_are_another_size_than_those_without() -> None:
    nodes = [
        *(node(f"m{i}", "4", "16Gi") for i in range(2)),
        *(node(f"g{i}", "4", "16Gi", extended={GPU: "1"}) for i in range(3)),
    ]
    assert _further(plan_of(*nodes, extraCapacity={"nodes": 1}), GPU) == [(1, 1)]
    assert _further(plan_of(*nodes[:-1], extraCapacity={"nodes": 1}), GPU) == [(0, 1)]


def test_a_node_whose_device_plugin_is_down_changes_nothing() -> None:
    nodes = [node(f"g{i}", "4", "16Gi", extended={GPU: "0" if i == 2 else "8"}) for i in range(3)]
    assert _further(plan_of(*nodes, extraCapacity={"nodes": 1}), GPU) == [(8, 1)]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"nodes": 1, "floor": {GPU: "3"}}, [(4, 1)]),
        ({"nodes": 1, "floor": {GPU: "6"}}, [(4, 2)]),
        ({"nodes": 3, "ceiling": {"cpu": "70"}}, [(4, 2)]),
        ({"nodes": 3, "ceiling": {GPU: "5"}}, [(4, 1)]),
    ],
)
def test_floor_and_ceiling_bound_whole_nodes_with_gpus(fields: Json, found: list[tuple[int, int]]) -> None:
    nodes = [node(f"g{i}", "32", "128Gi", extended={GPU: "4"}) for i in range(3)]
    item = plan_of(*nodes, extraCapacity=fields, cover={"mode": "None"})
    assert _further(item, GPU) == found
    assert _fill(item) == [(32000, 128 * GI, found[0][1])]


OPEN = {"start": "2026-01-01T00:00:00Z", "until": "2036-01-01T00:00:00Z"}


@IN_BOTH_FORMS
@pytest.mark.parametrize(
    ("size", "windows", "count"),
    [
        ({"minRate": 0.1}, [{"nodes": 2}], 2),
        ({"nodes": 1}, [{"nodes": 3}], 3),
        ({"nodes": 3}, [{"nodes": 1}], 1),
        ({"nodes": 3}, [{"nodes": 0}], 0),
        ({"replicas": 3}, [{"nodes": 1}], 1),
        ({"nodes": 1}, [{"nodes": 2}, {"nodes": 4}, {"replicas": 9}, {"minRate": 0.5}], 4),
    ],
)
def test_a_window_may_have_whole_nodes_of_its_own(unbound: bool, size: Json, windows: list[Json], count: int) -> None:
    nodes = [node(f"n{i}", "8", "32Gi") for i in range(4)]
    schedule = [{**OPEN, **window} for window in windows]
    item = _planned(
        *nodes,
        *replicas(2, "web", "1", "2Gi", node="n0"),
        unbound=unbound,
        cover={"mode": "None"},
        extraCapacity={**size, "schedule": schedule},
    )
    assert _fill(item) == ([(8000, 32 * GI, count)] if count else [])
    if count:
        (by,) = item.wanted_by
        assert (by.source, by.replicas, by.window) == (Source.NODES, count, "2026-01-01T00:00:00+00:00")


def test_a_rate_or_number_of_a_window_stands_in_place_of_whole_nodes() -> None:
    nodes = [*(node(f"n{i}", "8", "32Gi") for i in range(4)), *replicas(8, "web", "1", "2Gi", node="n0")]
    for window in ({"minRate": 0.5}, {"replicas": 4}):
        item = plan_of(*nodes, extraCapacity={"nodes": 2, "schedule": [{**OPEN, **window}]}, cover={"mode": "None"})
        assert all(cpu < 4000 for cpu, _, _ in _fill(item))


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4096)), min_size=1, max_size=9), st.booleans())
def test_half_of_the_nodes_of_the_size_hold_a_whole_node_in_each_resource(
    daemons: list[tuple[int, int]], unbound: bool
) -> None:
    """Whatever DaemonSets take on each: one node holds the placeholder, and half of them have as much of a resource."""
    names = [f"n{i}" for i in range(len(daemons))]
    pods = [
        pod(f"d-{name}", "kube-system", cpu=f"{cpu}m", memory=f"{mib}Mi", node=name, owner=("DaemonSet", "d"))
        for name, (cpu, mib) in zip(names, daemons, strict=True)
    ]
    nodes = [node(name, "16", "64Gi") for name in names]
    item = _planned(*nodes, *pods, unbound=unbound, extraCapacity={"nodes": 1}, cover={"mode": "None"})
    ((cpu, memory, count),) = _fill(item)
    left = [(16000 - cpu, 64 * GI - mib * MI) for cpu, mib in daemons]
    assert count == 1
    assert any(cpu <= c and memory <= m for c, m in left)
    assert 2 * sum(cpu <= c for c, _ in left) >= len(left)
    assert 2 * sum(memory <= m for _, m in left) >= len(left)
    usual = sorted(left)[(len(left) - 1) // 2][0]
    assert cpu >= usual - 10, "nor does one node with more DaemonSets make it smaller"


@pytest.mark.parametrize(
    ("field", "said"), [("nodes", "no whole node beside the cover"), ("replicas", "no replica beside the cover")]
)
@pytest.mark.parametrize("mode", ["None", "Frequent"])
def test_a_number_of_none_is_said_and_no_rate(field: str, said: str, mode: str) -> None:
    pods = replicas(3, "web", "1", "2Gi", node="n0")
    item = plan_of(node("n0"), *pods, extraCapacity={field: 0}, cover={"mode": mode})
    assert [str(own) for own in item.wanted_by] == [said]
    assert bool(item.shapes) == (mode == "Frequent")
