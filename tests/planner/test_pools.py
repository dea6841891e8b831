"""What ActivationPools announce becomes placeholders like their own pods, and no more than anybody pays for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.planner.explain import explain, target
from slack.planner.model.pool import Pool, read_pool
from slack.planner.model.result import ConditionType, ExistingShape, PlannerState, PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.model.wanted_by import Source
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.output import document
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy
from tests.cluster.build import NOW, Json, activation_pool, node, placeholder, pod
from tests.planner.scenes import GI, MI, ZONE, as_existing, policy_of, replicas, sizes, snapshot_of

NODES = [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"})]
NONE: Json = {"mode": "None"}
MINUTE = 60.0


def read(*items: Json) -> list[Pool]:
    found = [
        read_pool(msgspec.json.decode(msgspec.json.encode(item), type=wire.ActivationPoolObject)) for item in items
    ]
    return [pool for pool in found if pool is not None]


def plans_of(
    objects: Sequence[Json],
    pools: Sequence[Json],
    *policies: Policy,
    now: float = NOW,
    existing: Sequence[ExistingShape] = (),
    state: PlannerState | None = None,
    quotas: Sequence[wire.ResourceQuota] = (),
    priorities: dict[str, int] | None = None,
) -> tuple[PolicyPlan, ...]:
    return plan(
        snapshot_of(*objects),
        policies,
        now=now,
        existing=existing,
        state=state or {},
        pools=read(*pools),
        quotas=quotas,
        priority_classes=PriorityClasses.of_values(priorities or {}),
    ).items


def plan_of(objects: Sequence[Json], pools: Sequence[Json], **rest: Any) -> PolicyPlan:
    names = ("now", "existing", "state", "quotas", "priorities")
    more = {name: rest.pop(name) for name in names if name in rest}
    return plans_of(objects, pools, policy_of(**rest), **more)[0]


def said(item: PolicyPlan) -> dict[str, str]:
    return {uncovered.pod: uncovered.reason for uncovered in item.uncovered}


def assert_no_sum(item: PolicyPlan, zones: int = 1) -> None:
    """Assert that all that is desired is kept, and beside it no more than a chunk, of the resource that it is short of.

    Of the other the fill has what its chunks bring along: their ratio is that of pods.
    """
    filling = [s.shape.vector(item.resources) for s in item.shapes if s.role is not Role.DEMAND]
    chunk = [max((int(vector[r]) for vector in filling), default=0) for r in range(2)]
    assert (item.planned >= item.desired).all()
    assert any(int(item.planned[r]) <= int(item.desired[r]) + zones * chunk[r] for r in range(2))


def running(count: int, cpu: str = "500m", memory: str = "1Gi", **rest: Any) -> list[Json]:
    """Return bare pods of the pool media/thumbnail, on node a."""
    owner = ("ActivationPool", "thumbnail")
    return [pod(f"thumbnail-{i}", "media", cpu, memory, **({"owner": owner, "node": "a"} | rest)) for i in range(count)]


def test_a_pool_gets_placeholders_like_its_own_pods_with_their_constraints() -> None:
    pool = activation_pool("thumbnail", slack_pods=3, nodeSelector={ZONE: "b"}, runtimeClassName="kata")
    item = plan_of(NODES, [pool], extraCapacity={"minRate": 0})
    (shape,) = item.shapes
    assert (shape.role, shape.count, shape.workloads) == (Role.DEMAND, 3, ("media/actpool/thumbnail",))
    assert shape.shape.requests == (("cpu", 500), ("memory", GI))
    assert shape.shape.node_selector == ((ZONE, "b"),)
    assert shape.shape.runtime_class == "kata"
    assert item.condition(ConditionType.FEASIBLE).status


def test_the_proxy_beside_the_template_s_containers_is_part_of_a_pod() -> None:
    """Or two placeholders would have to leave for one pod."""
    pool = activation_pool("thumbnail", slack_pods=3)
    del pool["spec"]["proxy"]
    (shape,) = plan_of(NODES, [pool], extraCapacity={"minRate": 0}).shapes
    assert shape.shape.requests == (("cpu", 510), ("memory", GI + 48 * MI))


def test_of_each_resource_there_is_the_larger_of_rate_and_demand_and_never_the_sum() -> None:
    """The rate asks for 2 cpu and 2 Gi, the pool for 1 cpu and 6 Gi."""
    objects = [*NODES, *replicas(8, "api", "500m", "512Mi", node="a")]
    pool = activation_pool("thumbnail", cpu="500m", memory="3Gi", slack_pods=2)
    item = plan_of(objects, [pool], extraCapacity={"minRate": 0.5}, cover=NONE)
    assert item.desired.tolist() == [2000, 6 * GI]
    assert sizes(item, Role.DEMAND) == [(2, 500, 3 * GI)]
    assert_no_sum(item)
    assert {(field.source, field.resources) for field in item.wanted_by} == {
        (Source.RATE, ("cpu",)),
        (Source.DEMAND, ("memory",)),
    }


def test_a_demand_below_the_rate_changes_no_amount() -> None:
    objects = [*NODES, *replicas(8, "api", "500m", "1Gi", node="a")]
    without = plan_of(objects, [], extraCapacity={"minRate": 0.5}, cover=NONE)
    with_pool = plan_of(
        objects, [activation_pool("thumbnail", slack_pods=2)], extraCapacity={"minRate": 0.5}, cover=NONE
    )
    assert with_pool.desired.tolist() == without.desired.tolist()
    assert_no_sum(with_pool)


def test_an_objective_s_amount_is_not_added_to_either() -> None:
    fixed = plan_of([*NODES, *running(4)], [activation_pool("thumbnail", slack_pods=2)], extraCapacity={"replicas": 4})
    less = plan_of([*NODES, *running(4)], [], extraCapacity={"replicas": 4})
    assert fixed.planned.tolist() == less.planned.tolist()


def test_pods_of_the_pool_are_covered_by_its_placeholders_and_by_no_others() -> None:
    pool = activation_pool("thumbnail", slack_pods=2, wanted=4)
    item = plan_of([*NODES, *running(4)], [pool], extraCapacity={"minRate": 0})
    assert sizes(item) == [(2, 500, GI)]
    assert set(item.covered_by.values()) == {item.shapes[0].shape.name}


def test_pods_that_are_larger_than_the_template_says_are_covered_as_all_others_are() -> None:
    pool = activation_pool("thumbnail", cpu="100m", memory="1Gi", slack_pods=2, wanted=2)
    item = plan_of([*NODES, *running(4)], [pool], extraCapacity={"minRate": 0})
    assert sizes(item, Role.COVER) == [(1, 500, GI)]


@pytest.mark.parametrize(
    ("most", "wanted", "there", "kept"),
    [(20, 0, 0, 9), (10, 4, 4, 6), (10, 0, 4, 6), (10, 4, 0, 6), (4, 9, 0, 0), (0, 0, 0, 0), (10, -5, 0, 9)],
)
def test_no_more_than_the_pool_s_own_limit_leaves(most: int, wanted: int, there: int, kept: int) -> None:
    """A forged status that says 0 wanted does not hide the pods that are there."""
    pool = activation_pool("thumbnail", slack_pods=9, wanted=wanted, most=most)
    item = plan_of([*NODES, *running(there)], [pool], extraCapacity={"minRate": 0})
    assert sum(count for count, *_ in sizes(item, Role.DEMAND)) == kept


def test_pending_pods_of_the_pool_bring_their_nodes_themselves() -> None:
    pool = activation_pool("thumbnail", slack_pods=10, wanted=2, most=10)
    item = plan_of([*NODES, *running(8, node=None)], [pool], extraCapacity={"minRate": 0}, cover=NONE)
    assert sizes(item, Role.DEMAND) == [(2, 500, GI)]


def test_a_ceiling_is_divided_among_namespaces_first_and_who_gets_less_is_told() -> None:
    greedy = [activation_pool(f"p{i}", "greedy", cpu="1", memory="1Gi", slack_pods=10) for i in range(9)]
    modest = activation_pool("thumbnail", cpu="1", memory="1Gi", slack_pods=2)
    item = plan_of(NODES, [*greedy, modest], extraCapacity={"minRate": 0, "ceiling": {"cpu": "4"}})
    (shape,) = item.shapes
    assert shape.count == 4
    assert "media/actpool/thumbnail" not in said(item)
    cut = {str(cut): (cut.asked, cut.granted) for cut in item.cut}
    assert cut["greedy/actpool/p0"] == (10, 0)
    assert sum(granted for _, granted in cut.values()) <= 2
    assert "spec.extraCapacity.ceiling (cpu) leaves room for 0 of the 10" in said(item)["greedy/actpool/p0"]


def test_a_ceiling_holds_beside_mirrors() -> None:
    reserved = running(2, owner=("ReplicaSet", "web"), annotations={"resource-slack.io/reserve": "2"})
    pool = activation_pool("thumbnail", slack_pods=9)
    spec: Json = {
        "extraCapacity": {"minRate": 0, "ceiling": {"cpu": "2"}},
        "reserve": {"ceiling": {"cpu": "4", "memory": "4Gi", "pods": "4"}},
    }
    item = plan_of([*NODES, *reserved], [pool], **spec, cover=NONE)
    assert sizes(item, Role.MIRROR) == [(2, 500, GI)]
    assert sizes(item, Role.DEMAND) == [(2, 500, GI)]


def test_no_more_than_the_namespace_s_quotas_would_let_in_as_pods() -> None:
    quota = msgspec.json.decode(
        b'{"metadata":{"name":"q","namespace":"media"},"spec":{"hard":{"requests.cpu":"2","pods":"10"}},'
        b'"status":{"hard":{"requests.cpu":"2","pods":"10"},"used":{"requests.cpu":"500m","pods":"1"}}}',
        type=wire.ResourceQuota,
    )
    pools = [activation_pool("a", slack_pods=2), activation_pool("b", slack_pods=2)]
    item = plan_of(NODES, pools, extraCapacity={"minRate": 0}, quotas=[quota])
    assert sizes(item, Role.DEMAND) == [(3, 500, GI)]
    assert "let in 1 more" in said(item)["media/actpool/b"]


@pytest.mark.parametrize(
    ("age", "kept"), [(0, 10), (180, 10), (480, 5), (779, 1), (780, 0), (90_000, 0), (-60, 10), (-181, 0)]
)
def test_demand_that_nobody_renews_fades_and_one_from_the_future_counts_for_nothing(age: float, kept: int) -> None:
    pool = activation_pool("thumbnail", slack_pods=10)
    item = plan_of(NODES, [pool], extraCapacity={"minRate": 0}, now=NOW + age)
    assert sum(count for count, *_ in sizes(item, Role.DEMAND)) == kept
    told = "media/actpool/thumbnail" in said(item)
    assert told == (age > 180 or age < -180)


def test_demand_without_a_time_counts_for_nothing_and_that_is_told() -> None:
    item = plan_of(NODES, [activation_pool("thumbnail", slack_pods=10, observed=None)], extraCapacity={"minRate": 0})
    assert not item.shapes
    assert "status.demand.observedAt" in said(item)["media/actpool/thumbnail"]


def test_a_pool_that_does_not_publish_or_is_being_deleted_announces_nothing() -> None:
    quiet, gone = activation_pool("quiet", slack_pods=3), activation_pool("gone", slack_pods=3)
    quiet["spec"]["demand"] = {"publish": False}
    gone["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"
    item = plan_of(NODES, [quiet, gone], extraCapacity={"minRate": 0})
    assert not item.shapes
    assert not item.uncovered


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spec": {"template": {"spec": {"containers": "many"}}}}, "spec"),
        ({"spec": {"template": {}, "limits": {"maxContainers": "9"}}}, "limits.maxContainers"),
        ({"status": {"demand": {"slackPods": 1 << 40}}}, "demand.slackPods"),
        ({"status": {"demand": {"slackPods": 1, "observedAt": "soon"}}}, "demand.observedAt"),
    ],
)
def test_a_pool_that_cannot_be_read_is_told_with_its_field_and_holds_up_no_other(change: Json, reason: str) -> None:
    good, bad = activation_pool("good", slack_pods=2), activation_pool("bad", slack_pods=2) | change
    item = plan_of(NODES, [bad, good], extraCapacity={"minRate": 0})
    assert sizes(item) == [(2, 500, GI)]
    assert reason in said(item)["media/actpool/bad"]


@pytest.mark.parametrize(
    "term",
    [
        {"labelSelector": {"matchExpressions": [{"operator": "In"}]}, "topologyKey": "zone"},
        {"labelSelector": {"matchLabels": {"a": 1}}, "topologyKey": "zone"},
        {"labelSelector": {}},
    ],
)
def test_affinity_that_no_api_server_has_checked_is_refused(term: Json) -> None:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    item = plan_of(NODES, [activation_pool("bad", slack_pods=2, affinity=affinity)], extraCapacity={"minRate": 0})
    assert not item.shapes
    assert "media/actpool/bad" in said(item)


def test_where_no_policy_reaches_a_pool_is_told_why() -> None:
    pools = [
        activation_pool("elsewhere", slack_pods=1, nodeSelector={ZONE: "moon"}),
        activation_pool("huge", slack_pods=1, cpu="64"),
        activation_pool("gpu", slack_pods=1),
        activation_pool("nothing", slack_pods=1, cpu="0", memory="0"),
        activation_pool("timid", slack_pods=1, preemptionPolicy="Never"),
        activation_pool("low", slack_pods=1, priorityClassName="batch"),
        activation_pool("stranger", "other", slack_pods=1),
    ]
    pools[2]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = 1
    selector = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["other"]}]}
    item = plan_of(
        NODES,
        pools,
        extraCapacity={"minRate": 0},
        reserve={"namespaces": selector},
        priorities={"batch": -20, "resource-slack": -10},
    )
    assert not item.shapes
    assert {name.rpartition("/")[2]: reason for name, reason in said(item).items()} == {
        "elsewhere": "node selector topology.kubernetes.io/zone=moon is not met",
        "huge": "cpu 64 is more than any empty eligible node has (4)",
        "gpu": "nvidia.com/gpu 1 is more than any empty eligible node has (0)",
        "nothing": "spec.template: its pods request nothing: no room needs to be kept",
        "timid": "preemptionPolicy Never: its pods cannot take a placeholder's place",
        "low": "priority -20 is not above the placeholders' (-10)",
        "stranger": "spec.reserve.namespaces of policy default does not select namespace other",
    }
    assert item.condition(ConditionType.FEASIBLE).status, "somebody's pool is not the policy's fault"


def test_a_pool_goes_to_the_policy_on_whose_nodes_its_pods_may_stand_and_stays_there() -> None:
    both = policy_of("all", extraCapacity={"minRate": 0}), policy_of("b", nodeSelector={ZONE: "b"})
    pool = activation_pool("thumbnail", slack_pods=2, nodeSelector={ZONE: "b"})
    everywhere, special = plans_of(NODES, [pool], *both)
    assert not everywhere.shapes
    assert sizes(special, Role.DEMAND) == [(2, 500, GI)]


def test_pools_whose_pods_are_alike_share_a_shape_and_those_that_avoid_each_other_do_not() -> None:
    alike = [activation_pool(f"p{i}", f"ns{i % 3}", slack_pods=1) for i in range(30)]
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shy = [activation_pool(f"shy{i}", slack_pods=1, labels={"app": "x"}, affinity=apart) for i in range(2)]
    item = plan_of(NODES, [*alike, *shy], extraCapacity={"minRate": 0})
    assert sizes(item) == [(1, 500, GI), (1, 500, GI), (30, 500, GI)]
    assert all("ns" in name or "shy" in name for shape in item.shapes for name in shape.workloads)


def test_slack_zone_by_zone_is_not_kept_beside_what_pools_announce() -> None:
    objects = [*NODES, *replicas(8, "api", "500m", "1Gi", node="a"), *replicas(8, "web", "500m", "1Gi", node="b")]
    spec: Json = {"extraCapacity": {"minRate": 0.5}, "cover": NONE, "perDomain": "Zone"}
    without = plan_of(objects, [], **spec)
    item = plan_of(objects, [activation_pool("thumbnail", slack_pods=5)], **spec)
    demand = {dict(s.shape.node_selector)[ZONE]: s.count for s in item.shapes if s.role is Role.DEMAND}
    assert demand == {"a": 3, "b": 2}
    assert item.desired.tolist() == without.desired.tolist()
    assert_no_sum(item, zones=2)


def test_what_is_announced_no_more_leaves_after_the_shrink_delay_and_pending_ones_at_once() -> None:
    pool = activation_pool("thumbnail", slack_pods=6)
    first = plan(snapshot_of(*NODES), [policy_of(extraCapacity={"minRate": 0})], now=NOW, pools=read(pool))
    existing = as_existing(first.items[0])
    name = first.items[0].shapes[0].shape.name
    bound = [placeholder(f"x{i}", shape=name, node="a" if i < 4 else None) for i in range(6)]
    pool["status"]["demand"]["slackPods"] = 0
    later = plan(
        snapshot_of(*NODES, *bound),
        [policy_of(extraCapacity={"minRate": 0})],
        now=NOW + 10,
        pools=read(pool),
        existing=existing,
        state=first.state,
    )
    assert [(s.role, s.count, s.replicas) for s in later.items[0].shapes] == [(Role.DEMAND, 0, 4)]
    last = plan(
        snapshot_of(*NODES, *bound[:4]),
        [policy_of(extraCapacity={"minRate": 0})],
        now=NOW + 10 * MINUTE + 11,
        existing=[replace(there, replicas=4, retiring=True) for there in existing],
        state=later.state,
    )
    assert [(s.count, s.replicas) for s in last.items[0].shapes] == [(0, 0)]


def test_explain_finds_a_pool_with_and_without_pods() -> None:
    pool = activation_pool("thumbnail", slack_pods=2, wanted=1)
    policies = [policy_of(extraCapacity={"minRate": 0})]
    for objects in (NODES, [*NODES, *running(1)]):
        snapshot = snapshot_of(*objects)
        made = plan(snapshot, policies, now=NOW, pools=read(pool))
        found = explain(snapshot, made, policies, target("activationpool", "thumbnail", "media"), priorities={})
        assert [(room.role, room.count) for room in found.rooms] == [("demand", 2)]
        assert not found.reasons


def test_the_document_names_role_and_pool() -> None:
    made = plan(
        snapshot_of(*NODES),
        [policy_of(extraCapacity={"minRate": 0})],
        now=NOW,
        pools=read(activation_pool("t", slack_pods=1)),
    )
    (shape,) = document(made)["items"][0]["shapes"]
    assert (shape["role"], shape["for"]) == ("demand", ["media/actpool/t"])


def test_times_are_read_as_the_api_writes_them() -> None:
    (pool,) = read(activation_pool("t", slack_pods=1, observed="2027-01-15T08:00:00.123456Z"))
    assert pool.observed_at_seconds == datetime(2027, 1, 15, 8, 0, 0, 123456, UTC).timestamp()
