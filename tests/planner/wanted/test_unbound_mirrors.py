"""Mirrors in the unbound form: zone by zone for workloads that spread, and never for a host on Karpenter."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.host_names import HOST_REFUSED
from slack.planner.explain import explain, target
from slack.planner.model.result import ConditionType, ExistingShape, Plan, PolicyPlan
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.manifests import pod_spec
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy
from slack.planner.wanted.mirror_domains import shares
from tests.cluster.build import NOW, Json, activation_pool, node, pod, workload
from tests.planner import scenes
from tests.planner.scenes import FREELY, ZONE, as_existing
from tests.planner.test_pools import read

HOST = "kubernetes.io/hostname"
POOL = "karpenter.sh/nodepool"
LABELS = {"app": "pg"}
NODES = [node(name, "16", labels={ZONE: name, HOST: name}) for name in "abc"]
ON_KARPENTER = [node(name, "16", labels={ZONE: name, HOST: name, POOL: "general"}) for name in "abc"]


def spread(key: str = ZONE, max_skew: int = 1, **selector: str) -> Json:
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": selector or LABELS},
    }


def spreads(*constraints: Json) -> Json:
    return {"topologySpreadConstraints": list(constraints or [spread()])}


def reserving(count: str, **spec: Any) -> Json:
    annotations = {"resource-slack.io/reserve": count}
    return workload("Deployment", "pg", replicas=4, cpu="1", annotations=annotations, labels=LABELS, **spec)


def running(*places: str, **spec: Any) -> list[Json]:
    owner, labels = ("ReplicaSet", "pg-1"), {"pod-template-hash": "1", **LABELS}
    return [
        pod(f"pg-1-{number}", cpu="1", node=place, owner=owner, labels=labels, **(spec or spreads()))
        for number, place in enumerate(places)
    ]


def policy_of(name: str = "default", *, unbound: bool = True, **spec: Any) -> Policy:
    found = scenes.policy_of(name, **({"reserve": FREELY, "extraCapacity": {"minRate": 0}} | spec))
    return found.model_copy(update={"unbound_scheduler": UNBOUND_SCHEDULER if unbound else ""})


def snapshot_of(*objects: Json) -> Snapshot:
    return scenes.snapshot_of(*objects, labels=("pool", ZONE, POOL))


def planned(
    objects: Sequence[Json], *policies: Policy, existing: Sequence[ExistingShape] = (), pools: Sequence[Json] = ()
) -> Plan:
    snapshot = snapshot_of(*objects)
    return plan(snapshot, policies or [policy_of()], now=NOW, existing=existing, pools=read(*pools))


def plan_of(*objects: Json, existing: Sequence[ExistingShape] = (), **spec: Any) -> PolicyPlan:
    return planned(objects, policy_of(**spec), existing=existing).items[0]


def by_zone(item: PolicyPlan, role: Role = Role.MIRROR) -> dict[str, int]:
    return {dict(s.shape.node_selector).get(ZONE, ""): s.count for s in item.shapes if s.role is role and s.count}


def mirror(item: PolicyPlan) -> Shape:
    return next(s.shape for s in item.shapes if s.role is Role.MIRROR)


def uncovered(item: PolicyPlan) -> dict[str, str]:
    return {each.pod: each.reason for each in item.uncovered}


def test_each_mirror_is_in_the_zone_that_takes_the_next_pod_and_the_constraint_is_left_out() -> None:
    item = plan_of(*NODES, reserving("2", **spreads()), *running("a", "a", "b", "c"))
    assert by_zone(item) == {"b": 1, "c": 1}
    assert mirror(item).topology_spread == ""
    assert "topologySpreadConstraints" not in pod_spec("default", mirror(item), "pause")


def test_more_mirrors_than_zones_are_spread_evenly() -> None:
    assert by_zone(plan_of(*NODES, reserving("4", **spreads()), *running("a", "a", "b", "c"))) == {
        "a": 1,
        "b": 2,
        "c": 1,
    }


def test_a_mirror_stays_in_its_zone_while_the_next_pod_may_go_there() -> None:
    first = plan_of(*NODES, reserving("1", **spreads()), *running("a", "b"))
    assert by_zone(first) == {"c": 1}
    even = [*NODES, reserving("1", **spreads()), *running("a", "b", "c")]
    assert by_zone(plan_of(*even)) == {"a": 1}
    assert by_zone(plan_of(*even, existing=as_existing(first))) == {"c": 1}
    moved = plan_of(*NODES, reserving("1", **spreads()), *running("a", "c", "c"), existing=as_existing(first))
    assert by_zone(moved)["b"] == 1  # c would be two more than b


def test_bound_mirrors_keep_the_constraint_among_themselves() -> None:
    item = planned([*NODES, reserving("2", **spreads()), *running("a", "b")], policy_of(unbound=False)).items[0]
    assert by_zone(item) == {"": 2}
    (constraint,) = json.loads(mirror(item).topology_spread)
    assert constraint["topologyKey"] == ZONE


@pytest.mark.parametrize("own", [spread(app="other"), spread(HOST)])
def test_constraints_about_other_pods_and_over_hosts_divide_nothing(own: Json) -> None:
    item = plan_of(*NODES, reserving("2", **spreads(own)), *running("a", "b", **spreads(own)))
    assert by_zone(item) == {"": 2}
    assert (HOST in mirror(item).topology_spread) == (own["topologyKey"] == HOST)


def test_zones_that_the_workload_may_not_go_to_get_none() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["c"]}]}]
            }
        }
    }
    spec = spreads() | {"affinity": affinity}
    item = plan_of(*NODES, reserving("3", **spec), *running("a", "b", **spec))
    assert by_zone(item) == {"a": 2, "b": 1}


def test_a_new_plan_changes_nothing() -> None:
    objects = [*NODES, reserving("4", **spreads()), *running("a", "a", "b", "c")]
    first = plan_of(*objects)
    again = plan_of(*objects, existing=as_existing(first))
    assert {s.shape.name: s.replicas for s in again.shapes} == {s.shape.name: s.replicas for s in first.shapes}


def test_what_a_pool_announces_is_divided_as_well() -> None:
    pools = [activation_pool("thumbnail", slack_pods=3, labels=LABELS, **spreads())]
    item = planned([*NODES, *running("a", "b")], policy_of(), pools=pools).items[0]
    assert by_zone(item, Role.DEMAND) == {"a": 1, "b": 1, "c": 1}


@given(
    count=st.integers(0, 30),
    pods=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), min_size=1),
    there=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9)),
    max_skew=st.integers(1, 4),
)
def test_the_next_pods_may_go_where_the_mirrors_are(
    count: int, pods: dict[str, int], there: dict[str, int], max_skew: int
) -> None:
    found = shares(count, pods=pods, there=there, max_skew=max_skew)
    assert sum(found.values()) == count
    least = min(pods[zone] + found[zone] for zone in pods)
    for zone, given_count in found.items():
        assert given_count == 0 or pods[zone] + given_count - least <= max_skew
    assert shares(count, pods=pods, there=found, max_skew=max_skew) == found


def on(*hosts: str) -> Json:
    return {"nodeSelector": {HOST: hosts[0]}} if len(hosts) == 1 else {"affinity": _host_affinity(*hosts)}


def _host_affinity(*hosts: str) -> Json:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": list(hosts)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize("spec", [on("a"), on("a", "b")])
def test_a_mirror_that_names_hosts_is_refused_on_karpenter_only(spec: Json) -> None:
    own = [reserving("1", **spec), *running("a", **spec)]
    item = plan_of(*ON_KARPENTER, *own)
    assert by_zone(item) == {}
    assert uncovered(item)["shop/deploy/pg"] == HOST_REFUSED
    assert not item.condition(ConditionType.FEASIBLE).status
    assert by_zone(plan_of(*NODES, *own)) == {"": 1}
    bound = planned([*ON_KARPENTER, *own], policy_of(unbound=False)).items[0]
    assert by_zone(bound) == {"": 1}


def test_pods_that_name_hosts_are_not_covered_on_karpenter() -> None:
    pinned = [pod(f"x-{n}", cpu="2", node="a", owner=("ReplicaSet", "x"), **on("a")) for n in range(3)]
    free = [pod(f"y-{n}", cpu="1", node="b", owner=("ReplicaSet", "y")) for n in range(3)]
    plan_ = planned([*ON_KARPENTER, *pinned, *free], policy_of(extraCapacity={"minRate": 0.5}))
    (item,) = plan_.items
    assert [text for name, text in uncovered(item).items() if "/x" in name] == [HOST_REFUSED]
    assert all(HOST not in str(s.shape) for s in item.shapes)
    assert item.shapes
    snapshot = snapshot_of(*ON_KARPENTER, *pinned, *free)
    answer = explain(snapshot, plan_, [policy_of()], target("rs", "x", "shop"), priorities={})
    assert HOST_REFUSED in str(answer)


def test_a_pool_that_names_hosts_is_refused() -> None:
    pools = [activation_pool("thumbnail", slack_pods=3, **on("a"))]
    item = planned([*ON_KARPENTER, *running("a")], policy_of(), pools=pools).items[0]
    assert HOST_REFUSED in uncovered(item).values()
    assert by_zone(item, Role.DEMAND) == {}


def test_a_policy_whose_placeholders_would_name_hosts_does_nothing_and_says_why() -> None:
    one, rest = policy_of("one", nodeSelector={HOST: "a"}), policy_of("rest")
    objects = [node(name, "16", labels={HOST: name, POOL: "general"}) for name in "abc"]
    snapshot = scenes.snapshot_of(*objects, *running("b"), labels=(HOST, POOL))
    for item in plan(snapshot, [one, rest], now=NOW).items:
        ready = item.condition(ConditionType.READY)
        assert (ready.status, ready.reason) == (False, "HostnameRefused")
        assert "spec.nodeSelector" in ready.message
        assert item.shapes == ()
    bound = [policy_of("one", unbound=False, nodeSelector={HOST: "a"}), policy_of("rest", unbound=False)]
    assert all(item.condition(ConditionType.READY).status for item in plan(snapshot, bound, now=NOW).items)
