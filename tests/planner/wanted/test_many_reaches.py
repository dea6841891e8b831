"""Thousands of node selectors of one tenant: what a plan does does not grow with them times the nodes."""

from collections import Counter

import pytest

from slack.cluster import classes
from slack.cluster.labels import HOSTNAME
from slack.planner.model.shape import Role
from slack.planner.wanted.demand import MOST_REACHES
from tests.cluster.build import Json, node, pod
from tests.planner.scenes import plan_of, replicas, sizes

NODES = [node(f"n{i}", "16", "64Gi") for i in range(60)]


def pairs(number: int) -> list[Json]:
    """Return pods that may each go to two or three nodes by their host names; no two of them to the same."""
    chosen = [(a, b, c) for a in range(60) for b in range(a + 1, 60) for c in (b, 59)][:number]
    return [
        pod(
            f"odd{i}",
            "tenant",
            cpu="1",
            memory="2Gi",
            node=f"n{rows[0]}",
            owner=("StatefulSet", f"odd{i}"),
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": "kubernetes.io/hostname",
                                        "operator": "In",
                                        "values": sorted({f"n{row}" for row in rows}),
                                    }
                                ]
                            }
                        ]
                    }
                }
            },
        )
        for i, rows in enumerate(chosen)
    ]


def test_the_rarer_of_too_many_choices_of_nodes_are_left_out_of_the_cover_and_named() -> None:
    api = replicas(20, "api", "2", "4Gi", node="n0")
    item = plan_of(*NODES, *api, *pairs(MOST_REACHES + 300))
    assert (2000, 4 << 30) in {(cpu, memory) for _, cpu, memory in sizes(item, Role.COVER)}
    left_out = [u for u in item.uncovered if "choose among nodes in more than 500 ways" in u.reason]
    assert len(left_out) > 200
    assert all(u.pod.startswith("tenant/") for u in left_out)


def test_no_pair_of_a_selector_and_a_node_is_judged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 of them on 300 nodes took 30 s a plan, and a thousand calls for each of the 1,500."""
    calls: Counter[str] = Counter()
    real = classes._affinity_met

    def counted(*args: object) -> bool:
        calls["pairs"] += 1
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(classes, "_affinity_met", counted)
    plan_of(*NODES, *pairs(200))
    assert calls["pairs"] < 200


def test_a_few_tiny_pods_of_their_own_nodes_do_not_take_all_shapes_from_a_workload_of_many() -> None:
    """Ten pods of 10m, each bound to a host name, once took all eight shapes: 60 of 70 arrivals were not covered."""
    api = replicas(60, "api", "1", "2Gi", node="n0")
    tiny = [
        pod(f"t{i}", "t", "10m", "16Mi", node=f"n{i}", owner=("StatefulSet", f"t{i}"), nodeSelector={HOSTNAME: f"n{i}"})
        for i in range(10)
    ]
    item = plan_of(*NODES, *api, *tiny)
    assert (1000, 2 << 30) in {(cpu, memory) for _, cpu, memory in sizes(item, Role.COVER)}
    assert not [u for u in item.uncovered if u.pod.startswith("shop/")]
