"""Guards: newcomers that conflict, mistaken sizes, room that anti-affinity forbids, requests that no one pod unites."""

import json

import numpy as np
import pytest

from slack.cluster.labels import API_VERSION
from slack.planner.model.result import ConditionType, ExistingShape, PolicyPlan
from slack.planner.plan import plan
from slack.planner.policy.spec import KIND, InvalidPolicy, Policy, parse_policy
from slack.planner.wanted.fill_stable import MOST_PLACEHOLDERS
from slack.planner.wanted.mirror_template import MOST_RESERVED, parse_reserve
from tests.cluster.build import NOW, Json, columns_of, node, placeholder, pod


def _policy(name: str = "default", created: str = "", **spec: object) -> Policy:
    metadata = {"name": name} | ({"creationTimestamp": created} if created else {})
    return parse_policy({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}, source="test")


def _plan(*objects: Json, policy: Policy, existing: tuple[ExistingShape, ...] = ()) -> PolicyPlan:
    return plan(columns_of(*objects).snapshot(NOW), [policy], now=NOW, existing=existing).items[0]


def test_of_equally_specific_policies_the_older_one_keeps_the_nodes_whatever_the_names() -> None:
    snapshot = columns_of(node("n0"), *(pod(f"p{i}", node="n0") for i in range(4))).snapshot(NOW)
    older = _policy("mm", "2027-01-01T00:00:00Z")
    newcomer = _policy("aaa", "2027-01-02T00:00:00Z")
    for order in ([older, newcomer], [newcomer, older]):
        plans = {item.policy: item for item in plan(snapshot, order, now=NOW).items}
        assert plans["mm"].act
        assert not plans["aaa"].act
        assert "'mm'" in plans["aaa"].condition(ConditionType.READY).message


def test_a_mistaken_size_makes_no_flood() -> None:
    found = _plan(node("n0"), pod("p", node="n0"), policy=_policy(extraCapacity={"floor": {"memory": "9Ei"}}))
    assert max(shape.count for shape in found.shapes) <= MOST_PLACEHOLDERS + 1, "and the covering one like it"
    assert not found.feasible
    assert f"{MOST_PLACEHOLDERS} is the most" in found.condition(ConditionType.FEASIBLE).message


def test_pending_placeholders_of_a_mistaken_size_go_at_once() -> None:
    cluster = [node("n0"), *(pod(f"p{i}", node="n0") for i in range(4))]
    made = _plan(*cluster, policy=_policy()).shapes[0]
    there = ExistingShape("default", made.shape, made.role, 2000)
    waiting = [placeholder(f"w{i}", shape=made.shape.name) for i in range(1999)]
    bound = placeholder("b", shape=made.shape.name, node="n0")
    now = _plan(*cluster, bound, *waiting, policy=_policy(), existing=(there,)).shapes[0]
    assert now.replicas == max(made.count, 1)


def test_a_few_placeholders_more_than_wanted_wait_for_the_shrink_delay() -> None:
    cluster = [node("n0"), *(pod(f"p{i}", node="n0") for i in range(4))]
    made = _plan(*cluster, policy=_policy()).shapes[0]
    there = ExistingShape("default", made.shape, made.role, made.count + 5)
    waiting = [placeholder(f"w{i}", shape=made.shape.name) for i in range(made.count + 5)]
    now = _plan(*cluster, *waiting, policy=_policy(), existing=(there,)).shapes[0]
    assert now.replicas == made.count + 5


@pytest.mark.parametrize(("replicas", "covered"), [(2, True), (3, False)])
def test_room_on_nodes_that_all_hold_a_sibling_is_not_promised(replicas: int, covered: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "aa"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [
        pod(
            f"aa-abc-{i}",
            node=f"n{i}",
            owner=("ReplicaSet", "aa-abc"),
            labels={"pod-template-hash": "abc", "app": "aa"},
            affinity=apart,
        )
        for i in range(replicas)
    ]
    found = _plan(*(node(f"n{i}") for i in range(3)), *pods, policy=_policy())
    assert bool(found.covered_by) == covered
    assert [("reserve" in u.reason, u.pod) for u in found.uncovered] == ([] if covered else [(True, "shop/deploy/aa")])


def test_pods_that_request_only_cpu_and_only_memory_are_filled_one_resource_at_a_time() -> None:
    only_memory = [pod(f"m{i}", node=f"n{i % 4}", cpu="0", memory="1Gi", owner=("Job", "m")) for i in range(16)]
    only_cpu = [pod(f"c{i}", node=f"n{i % 4}", cpu="1", memory="0", owner=("Job", "c")) for i in range(8)]
    nodes = [node(f"n{i}") for i in range(4)]
    found = _plan(*nodes, *only_memory, *only_cpu, policy=_policy(extraCapacity={"minRate": 0.3}))
    assert np.all(found.planned >= found.desired)
    assert found.feasible


def test_a_reserve_that_a_tenant_could_flood_the_cluster_with_is_refused() -> None:
    assert parse_reserve("1000", 1) == MOST_RESERVED
    with pytest.raises(ValueError, match="at most"):
        parse_reserve("9999", 1)


@pytest.mark.parametrize("spec", [[], 0, False, "text"])
def test_a_spec_that_is_no_mapping_is_refused(spec: object) -> None:
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "x"}, "spec": spec}
    with pytest.raises(InvalidPolicy, match="spec: expected fields"):
        parse_policy(json.loads(json.dumps(document)), source="test")


@pytest.mark.parametrize("taint", [{"foo": "bar"}, {"key": "a", "effect": "Nope"}, {"key": "a"}])
def test_a_template_with_a_taint_that_is_none_is_refused(taint: dict[str, str]) -> None:
    template = {"name": "gpu", "allocatable": {"cpu": "4", "memory": "8Gi"}, "taints": [taint]}
    with pytest.raises(InvalidPolicy, match="taint"):
        _policy(nodeTemplates=[template])
