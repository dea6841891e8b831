"""Who may spend: annotations are bounded by the policy, whoever writes them and however often."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.snapshot import IntArray
from slack.planner.model.result import PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.plan import plan
from slack.planner.wanted.mirror_template import parse_reserve
from slack.planner.wanted.reserve_limits import SMALL_PODS, Ask, Budget, default_part, first_of_each, leveled, shared
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, namespace, node, pod, workload
from tests.examples import examples
from tests.planner.scenes import GI, as_existing, plan_of, policy_of, replicas, snapshot_of

TENTH = "slack.planner.wanted.reserve_limits.SMALL_PODS"
"""At 0 a tenth is the bound on every cluster."""
NODES = [node(f"n{i}", "16", "64Gi") for i in range(3)]
LARGE_NODES = [node(f"n{i}", "64", "256Gi") for i in range(3)]


def reserve(text: str) -> dict[str, str]:
    return {"resource-slack.io/reserve": text}


def of(space: str, name: str, count: int, cpu: str, text: str, memory: str = "64Mi") -> list[Json]:
    """Return running pods of a workload that reserves."""
    return [
        pod(
            f"{name}-{i}",
            space,
            cpu=cpu,
            memory=memory,
            node="n0",
            owner=("ReplicaSet", name),
            annotations=reserve(text),
        )
        for i in range(count)
    ]


def mirrors(item: PolicyPlan) -> dict[str, int]:
    """Return the placeholders of each workload."""
    return {s.shape.reserved_for: s.count for s in item.shapes if s.role is Role.MIRROR and not s.retiring}


def spent(item: PolicyPlan) -> IntArray:
    """Return what all mirrors request."""
    rows = [s.count * s.shape.vector(item.resources) for s in item.shapes if s.role is Role.MIRROR and not s.retiring]
    return sum(rows, np.zeros(len(item.resources), dtype=np.int64))


def test_tiny_bare_pods_cannot_buy_thousands_of_cores() -> None:
    """Twenty pods of 100m once made a policy without a ceiling ask for 20,000 placeholders, 2,000 cores."""
    pods = [pod(f"t{i}", cpu="100m", memory="64Mi", node="n0", annotations=reserve("1000")) for i in range(20)]
    item = plan_of(*NODES, *pods)
    assert mirrors(item) == {f"shop/pod/t{i}": 1 for i in range(20)}, "one for each that runs"
    assert spent(item).tolist() == [2000, 20 * (64 << 20)]
    assert len(item.cut) == 20
    assert (item.cut[0].name, item.cut[0].asked, item.cut[0].granted) == ("t0", 1000, 1)


def test_tiny_pods_of_a_large_cluster_get_a_tenth_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TENTH, 0)
    item = plan_of(
        *NODES, *(pod(f"t{i}", cpu="100m", memory="64Mi", node="n0", annotations=reserve("9")) for i in range(20))
    )
    assert mirrors(item) == {"shop/pod/t0": 1, "shop/pod/t1": 1}
    assert spent(item).tolist() == [200, 128 << 20]


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(1, 20), st.integers(1, 2000), st.integers(1, 2000)),
        min_size=1,
        max_size=8,
    )
)
def test_on_a_small_cluster_each_workload_gets_what_it_reserves_for_its_running_pods(
    workloads: list[tuple[int, int, int, int]],
) -> None:
    """By default nothing is cut that its own pods allow, whatever their size and number."""
    room = [node(f"n{i}", "512", "4096Gi") for i in range(1)]
    pods = [
        p
        for i, (count, asked, cpu, memory) in enumerate(workloads)
        for p in of(f"space-{i % 3}", f"w{i}", count, f"{cpu}m", str(asked), f"{memory}Mi")
    ]
    item = plan_of(*room, *pods)
    found = mirrors(item)
    assert found == {f"space-{i % 3}/rs/w{i}": min(count, asked) for i, (count, asked, _, _) in enumerate(workloads)}


@given(st.integers(0, 100_000))
def test_what_reservations_may_take_by_default_never_shrinks_as_a_cluster_grows(pods: int) -> None:
    assert Fraction(1, 10) <= default_part(pods) <= 1
    assert default_part(pods) == 1 or pods > SMALL_PODS
    assert math.ceil(pods * default_part(pods)) <= math.ceil((pods + 1) * default_part(pods + 1))


def test_a_workload_gets_as_many_again_as_it_has_running_pods_and_no_more() -> None:
    pods = [*replicas(100, "other", "500m", "1Gi", node="n1"), *of("shop", "api", 3, "500m", "9")]
    item = plan_of(*NODES, *pods)
    assert mirrors(item) == {"shop/rs/api": 3}
    (cut,) = item.cut
    assert (str(cut), cut.asked, cut.granted) == ("shop/rs/api", 9, 3)
    assert cut.reason == "spec.reserve.maxShare (100% of its running pods) allows 3 of the 9 that it reserves"
    assert [u.reason for u in item.uncovered if u.pod == "shop/rs/api"] == [cut.reason]
    assert mirrors(plan_of(*NODES, *pods, reserve={"maxShare": 2})) == {"shop/rs/api": 6}
    assert mirrors(plan_of(*NODES, *pods, reserve={"maxShare": 0})) == {}


def test_a_workload_object_that_only_asks_for_pods_reserves_nothing() -> None:
    """Its owner could write replicas: 1000 where a quota lets none of them run."""
    idle = workload("Deployment", "idle", replicas=1000, annotations=reserve("100%"))
    item = plan_of(*NODES, idle, *replicas(40, "api", "1", "1Gi", node="n0"))
    assert mirrors(item) == {}
    assert "allows 0 of the 1000" in item.cut[0].reason


def test_all_reservations_together_take_a_tenth_of_what_real_pods_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TENTH, 0)
    others = replicas(90, "other", "500m", "1Gi", node="n1")
    asks = [p for i in range(10) for p in of("shop", f"w{i}", 1, "500m", "1", "1Gi")]
    item = plan_of(*LARGE_NODES, *others, *asks)
    assert spent(item).tolist() == [5000, 10 * GI]
    more = [p for i in range(20) for p in of("shop", f"w{i}", 1, "500m", "1", "1Gi")]
    item = plan_of(*LARGE_NODES, *others, *more)
    assert spent(item).tolist() == [5500, 11 * GI]
    assert "spec.reserve.ceiling" in item.cut[0].reason
    assert "10 % of what the policy's real pods have" in item.cut[0].reason
    wide = {"ceiling": {"cpu": "8", "memory": "64Gi", "pods": "100"}}
    assert spent(plan_of(*LARGE_NODES, *others, *more, reserve=wide)).tolist() == [8000, 16 * GI]


def test_neither_nodes_nor_placeholders_raise_what_reservations_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TENTH, 0)
    pods = [*replicas(40, "other", "1", "1Gi", node="n1"), *of("shop", "api", 9, "1", "9", "1Gi")]
    first = plan_of(*LARGE_NODES, *pods)
    more = plan_of(*LARGE_NODES, *(node(f"m{i}", "64", "256Gi") for i in range(9)), *pods, existing=as_existing(first))
    assert mirrors(more) == mirrors(first) == {"shop/rs/api": 4}


def test_one_placeholder_is_made_where_a_tenth_is_less_than_one_and_never_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TENTH, 0)
    pods = [*of("a", "pg", 2, "8", "2", "16Gi"), *of("b", "db", 1, "8", "1", "16Gi")]
    item = plan_of(*NODES, *pods)
    assert mirrors(item) == {"a/rs/pg": 1}
    there = plan_of(*NODES, *of("b", "db", 1, "8", "1", "16Gi"))
    assert mirrors(plan_of(*NODES, *pods, existing=as_existing(there))) == {"b/rs/db": 1}  # it is there already
    assert mirrors(plan_of(*NODES, *pods, reserve={"ceiling": {"cpu": "2"}})) == {}


def test_a_tenant_with_many_workloads_takes_no_share_from_one_with_few() -> None:
    others = replicas(97, "other", "1", "1Gi", node="n1")
    many = [p for i in range(300) for p in of("aaa", f"w{i:03}", 1, "100m", "1")]
    few = of("zzz", "api", 4, "1", "4", "1Gi")
    snapshot = snapshot_of(*NODES, *others, *many, *few)
    item = plan(snapshot, [policy_of()], now=NOW).items[0]
    found = mirrors(item)
    assert found["zzz/rs/api"] == 4
    assert sum(count for name, count in found.items() if name.startswith("aaa/")) > 30
    assert len(found) <= 200


@run_for_each("text", ["1e9", "-1", "10000%", "\u0661\u0662", "99999", "1_000", "0x10", "+1", "1\n2", "NaN%"])
def test_a_text_that_is_no_number_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"annotation resource-slack\.io/reserve"):
        parse_reserve(text, 500)
    item = plan_of(*NODES, *of("shop", "api", 500, "10m", text))
    assert mirrors(item) == {}
    assert "resource-slack.io/reserve" in next(u.reason for u in item.uncovered if u.pod == "shop/rs/api")


def test_namespaces_that_are_not_selected_reserve_nothing_and_are_told() -> None:
    pods = [
        *replicas(90, "other", "500m", "1Gi", node="n1"),
        *(p for space in ("gold", "tin") for p in of(space, "api", 2, "500m", "2", "1Gi")),
    ]
    spaces = [namespace("gold", tier="gold"), namespace("tin", tier="tin")]
    by_label: Json = {"namespaces": {"matchLabels": {"tier": "gold"}}}
    item = plan_of(*NODES, *pods, *spaces, reserve=by_label)
    assert mirrors(item) == {"gold/rs/api": 2}
    assert item.cut[0].reason == "spec.reserve.namespaces of policy default does not select namespace tin"
    # A snapshot without namespaces still knows their names.
    assert mirrors(plan_of(*NODES, *pods, reserve=by_label)) == {}
    by_name: Json = {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "tin"}}}
    assert mirrors(plan_of(*NODES, *pods, reserve=by_name)) == {"tin/rs/api": 2}


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_labels_that_are_not_known_select_nobody_not_by_what_they_lack_either(operator: str) -> None:
    """Without the right to list namespaces a tenant that is shut out by a label would have been let in."""
    pods = [*replicas(90, "other", "500m", "1Gi", node="n1"), *of("lent", "api", 2, "500m", "2", "1Gi")]
    values = ["outside"] if operator == "NotIn" else []
    shut: Json = {"namespaces": {"matchExpressions": [{"key": "tenant", "operator": operator, "values": values}]}}
    item = plan_of(*NODES, *pods, reserve=shut)
    assert mirrors(item) == {}
    assert item.cut[0].reason.endswith("does not select namespace lent, whose labels are not known")
    assert mirrors(plan_of(*NODES, *pods, namespace("lent"), reserve=shut)) == {"lent/rs/api": 2}
    by_name: Json = {"namespaces": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}}
    assert mirrors(plan_of(*NODES, *pods, reserve=by_name)) == {"lent/rs/api": 2}


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [("In", ["gold"], {"gold"}), ("NotIn", ["gold"], {"tin", "bare"}), ("Exists", [], {"gold", "tin"})],
)
def test_namespaces_are_selected_by_expressions_as_everywhere(
    operator: str, values: list[str], selected: set[str]
) -> None:
    pods = [p for space in ("gold", "tin", "bare") for p in of(space, "api", 2, "500m", "2", "1Gi")]
    spaces = [namespace("gold", tier="gold"), namespace("tin", tier="tin"), namespace("bare")]
    expression = {"key": "tier", "operator": operator, "values": values}
    spec: Json = {"namespaces": {"matchExpressions": [expression]}, "ceiling": {"cpu": "9", "memory": "9Gi", "pods": 9}}
    found = mirrors(plan_of(*NODES, *pods, *spaces, reserve=spec))
    assert {name.split("/")[0] for name in found} == selected


def test_a_workload_goes_to_a_policy_that_lets_its_namespace_reserve() -> None:
    nodes = [node("n0", "16", "64Gi", labels={"pool": "web"}), node("n1", "16", "64Gi")]
    closed = policy_of(
        "closed", nodeSelector={"pool": "web"}, reserve={"maxShare": 1, "namespaces": {"matchLabels": {"a": "b"}}}
    )
    pods = [*replicas(90, "other", "100m", "1Gi", node="n1"), *of("shop", "api", 2, "100m", "2")]
    items = plan(snapshot_of(*nodes, *pods), [policy_of("open"), closed], now=NOW).items
    assert [mirrors(item) for item in items] == [{"shop/rs/api": 2}, {}]


asks = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(1, 40), st.integers(1, 40)),
    min_size=1,
    max_size=12,
)


def asked(rows: list[tuple[str, int, int, int]]) -> list[Ask]:
    return [
        Ask(space, f"{space}/{i:02}", count, np.array([cpu, memory, 1]), there=False)
        for i, (space, count, cpu, memory) in enumerate(rows)
    ]


def budget(cpu: int = 100, memory: int = 100, pods: int = 30) -> Budget:
    return Budget(np.array([cpu, memory, pods]), np.array([1000, 1000, 1000]), ("x", "x", "x"))


@examples(200)
@given(asks, st.integers(0, 100))
def test_what_is_divided_is_within_the_budget_and_the_same_in_any_order(
    rows: list[tuple[str, int, int, int]], seed: int
) -> None:
    mine = asked(rows)
    granted = shared(mine, budget())
    total = sum((n * ask.unit for n, ask in zip(granted, mine, strict=True)), np.zeros(3, dtype=np.int64))
    assert (total <= budget().most).all()
    assert all(0 <= n <= ask.count for n, ask in zip(granted, mine, strict=True))
    order = list(range(len(mine)))
    random.Random(seed).shuffle(order)
    assert shared([mine[i] for i in order], budget()) == [granted[i] for i in order]
    # Nothing that still fits is kept back.
    assert not any(
        n < ask.count and (total + ask.unit <= budget().most).all() for n, ask in zip(granted, mine, strict=True)
    )


@examples(200)
@given(asks, st.integers(1, 30))
def test_asking_more_often_takes_less_than_a_placeholder_from_another_namespace(
    rows: list[tuple[str, int, int, int]], copies: int
) -> None:
    """However much the others ask for: who asks for no more than an even part of the budget gets it, but for crumbs."""
    mine = asked([("z", 3, 5, 5), *rows])
    crowd = asked(
        [("z", 3, 5, 5), *(row for row in rows for _ in range(copies)), *(("b", 60, 1, 1) for _ in range(copies))]
    )
    for several in (mine, crowd):
        assert shared(several, budget())[0] >= 3


def test_an_even_division_gives_nobody_more_than_it_asks_for() -> None:
    assert leveled([1, 5, 9], 9) == [1, 4, 4]
    assert leveled([1, 2], 9) == [1, 2]
    assert leveled([], 9) == []


def test_of_too_many_workloads_each_namespace_has_its_turn() -> None:
    mine = asked([*(("a", 1, 1, 1) for _ in range(9)), ("b", 1, 1, 1)])
    assert [mine[i].namespace for i in first_of_each(mine, 3)] == ["a", "a", "b"]
