"""`extraCapacity.nodes`: whole spare nodes, each as large as an empty node of the usual size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.model.result import PolicyPlan
from slack.planner.model.shape import Role
from tests.cluster.build import Json, node, pod
from tests.examples import examples
from tests.planner.scenes import GI, as_existing, plan_of, policy_of, replicas


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
