"""Policies divide the cluster; what each keeps stays on its own nodes."""

from slack.cluster.classes import Requirement
from slack.planner.domain.membership import by_zone, conjunction, divide, node_view
from slack.planner.model.result import ConditionType
from slack.planner.plan import plan
from tests.cluster.build import NOW, Json, node, pod
from tests.planner.scenes import GI, ZONE, as_existing, plan_of, policy_of, replicas, sizes, snapshot_of

WEB = {"pool": "web"}
NODES = [
    node("a", labels=WEB),
    node("b", labels={**WEB, "tier": "gold"}),
    node("c", labels={"pool": "db"}, taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
]


def test_a_node_goes_to_the_more_specific_policy_and_status_says_so() -> None:
    policies = [
        policy_of("all"),
        policy_of("web", nodeSelector=WEB),
        policy_of("gold", nodeSelector={**WEB, "tier": "gold"}),
    ]
    snapshot = snapshot_of(*NODES, *replicas(4, "api", "1", "1Gi", node="b"))
    domains = divide(snapshot, policies)
    names = [[n for n, mine in zip(snapshot.nodes.names, d.members, strict=True) if mine] for d in domains]
    assert names == [[], ["a"], ["b"]]
    assert domains[0].yielded == ("2 nodes (a ...) to web", "1 nodes (b ...) to gold")
    result = plan(snapshot, policies, now=NOW)
    assert [item.base.tolist() for item in result.items] == [[0, 0], [0, 0], [4000, 4 * GI]]
    assert "node is tainted (dedicated=db:NoSchedule)" in result.items[0].conditions[0].message


def test_the_less_specific_policys_placeholders_keep_off_the_others_nodes() -> None:
    policies = [policy_of("web", nodeSelector=WEB), policy_of("gold", nodeSelector={**WEB, "tier": "gold"})]
    snapshot = snapshot_of(*NODES, *replicas(4, "api", "1", "1Gi", node="a"))
    web = plan(snapshot, policies, now=NOW).items[0]
    assert {s.shape.node_affinity for s in web.shapes} == {((Requirement("tier", "NotIn", ("gold",)),),)}
    disjoint = plan(snapshot, [policies[0], policy_of("db", nodeSelector={"pool": "db", "tier": "x"})], now=NOW).items[
        0
    ]
    assert {s.shape.node_affinity for s in disjoint.shapes} == {()}


def test_placeholders_that_may_stray_onto_another_policys_nodes_are_given_up() -> None:
    """A policy was added that takes nodes away: the shapes without the affinity must go."""
    pods = replicas(4, "api", "1", "1Gi", node="a")
    snapshot = snapshot_of(*NODES, *pods)
    web = policy_of("default", nodeSelector=WEB)
    before = plan(snapshot, [web], now=NOW).items[0]
    after = plan(
        snapshot, [web, policy_of("gold", nodeSelector={**WEB, "tier": "gold"})], now=NOW, existing=as_existing(before)
    ).items[0]
    assert all(s.retiring == (not s.shape.node_affinity) for s in after.shapes)


def test_two_equally_specific_policies_conflict_and_the_later_by_name_does_nothing() -> None:
    policies = [policy_of("beta", nodeSelector={"tier": "gold"}), policy_of("alpha", nodeSelector=WEB)]
    snapshot = snapshot_of(*NODES, *replicas(4, "api", "1", "1Gi", node="a"), pod("new"))
    beta, alpha = plan(snapshot, policies, now=NOW).items
    assert (alpha.act, beta.act) == (True, False)
    assert beta.condition(ConditionType.READY).reason == "DomainConflict"
    assert "selects b, which policy 'alpha' selects as well" in beta.condition(ConditionType.READY).message
    assert alpha.base[0] == 4500  # the pending pod counts where something is done about it
    both = divide(snapshot_of(*NODES, node("d", labels={**WEB, "tier": "gold"})), policies)[0]
    assert both.conflict is not None
    assert "b and 1 more" in both.conflict


def test_tolerations_say_which_tainted_nodes_belong() -> None:
    tolerate = [{"key": "dedicated", "value": "db"}]
    pods = replicas(3, "pg", "1", "2Gi", node="c", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    item = plan_of(*NODES, *pods, nodeSelector={"pool": "db"}, tolerations=tolerate, cover={"mode": "Everything"})
    assert sizes(item) == [(1, 1000, 2 * GI)]
    assert {t.value for s in item.shapes for t in s.shape.tolerations} == {"db"}


def test_nodes_that_are_not_ready_count_in_the_base_but_take_nothing() -> None:
    down = node("down", ready=False)
    item = plan_of(down, node("up"), *replicas(3, "api", "1", "1Gi", node="down"))
    assert item.nodes == 1
    assert item.base[0] == 3000
    pods = replicas(3, "api", "1", "1Gi", node="down")
    nothing = plan_of(down, node("cordoned", unschedulable=True), *pods)
    assert nothing.nodes == 0
    assert nothing.condition(ConditionType.SLACK_SATISFIED).reason == "NoEligibleNode"
    assert "all 2 nodes of the policy are cordoned, not ready or" in nothing.condition(ConditionType.READY).message
    assert nothing.condition(ConditionType.READY).status
    assert nothing.condition(ConditionType.FEASIBLE).status
    none = plan_of(node("n"), nodeSelector={"pool": "nowhere"})
    assert "pool=nowhere selects none of the 1 nodes" in none.condition(ConditionType.READY).message


def test_a_cluster_without_nodes_or_pods_is_no_error() -> None:
    empty = plan_of()
    assert empty.condition(ConditionType.SLACK_SATISFIED).message.startswith("the cluster has no nodes yet")
    assert empty.condition(ConditionType.SLACK_SATISFIED).reason == "NoNodesYet"
    assert plan_of(node("n0")).condition(ConditionType.READY).status
    assert plan_of(*replicas(3, "api", "1", "1Gi")).shapes == ()


ZONED = [node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]


def test_slack_per_zone_is_kept_in_each_for_its_own_pods() -> None:
    pods = [*replicas(6, "left", "500m", "1Gi", node="a1"), *replicas(2, "right", "1", "2Gi", node="b1")]
    item = plan_of(*ZONED, *pods, perDomain="Zone", extraCapacity={"minRate": 0.5})
    by: dict[str, int] = {}
    for s in item.shapes:
        zone = dict(s.shape.node_selector)[ZONE]
        by[zone] = by.get(zone, 0) + s.count * dict(s.shape.requests)["cpu"]
    assert by["a"] >= 1500
    assert by["b"] >= 1000
    assert item.desired[0] == 2500


def test_floors_ceilings_and_pending_pods_are_divided_among_zones() -> None:
    pods = [pod(f"p{i}", cpu="1", memory="1Gi") for i in range(3)]
    size: Json = {"minRate": 0.1, "floor": {"cpu": "3"}, "ceiling": {"cpu": "3"}}
    item = plan_of(*ZONED, *pods, perDomain="Zone", extraCapacity=size, cover={"mode": "None"})
    assert item.base[0] == 3000
    assert item.desired[0] == 3000
    assert item.planned[0] <= 3000


def test_a_zone_without_an_eligible_node_is_left_as_it_is() -> None:
    """The first zone once took mirrors and pending pods with it when its nodes were not ready."""
    pods = [*replicas(6, "left", "500m", "1Gi", node="a1"), pod("new", cpu="1", memory="1Gi")]
    spec: Json = {"perDomain": "Zone", "extraCapacity": {"minRate": 0.5}}
    first = plan_of(*ZONED, *pods, **spec)
    lost = plan_of(node("a1", labels={ZONE: "a"}, ready=False), ZONED[1], *pods, existing=as_existing(first), **spec)
    assert lost.base.tolist() == first.base.tolist()
    assert {(s.shape.name, s.replicas) for s in lost.shapes} == {(s.shape.name, s.replicas) for s in first.shapes}
    assert not any(s.retiring for s in lost.shapes)


def test_a_zone_without_an_eligible_node_keeps_no_more_than_is_asked_for() -> None:
    """Slack that is turned off, or made less, leaves such a zone as it leaves others."""
    pods = [*replicas(3, "left", "1", "1Gi", node="a1"), *replicas(3, "right", "1", "1Gi", node="b1")]
    first = plan_of(*ZONED, *pods, perDomain="Zone", extraCapacity={"minRate": 0, "floor": {"cpu": "6"}})
    lost = node("b1", labels={ZONE: "b"}, unschedulable=True)
    for cpu, left in (("6", 6), ("2", 2), ("0", 0)):
        size: Json = {"minRate": 0, "floor": {"cpu": cpu}}
        item = plan_of(
            ZONED[0], lost, *pods, existing=as_existing(first), perDomain="Zone", extraCapacity=size,
            cover={"mode": "None"},
        )  # fmt: skip
        assert sum(s.count for s in item.shapes if not s.retiring) == left, cpu


def test_a_zone_of_nodes_that_are_not_ready_counts_and_is_explained() -> None:
    pods = [*replicas(6, "left", "500m", "1Gi", node="a1"), *replicas(6, "right", "500m", "1Gi", node="b1")]
    zoned = [node("a1", labels={ZONE: "a"}, ready=False), node("b1", labels={ZONE: "b"})]
    item = plan_of(*zoned, *pods, perDomain="Zone", extraCapacity={"minRate": 0.5})
    assert item.base[0] == 6000
    assert item.planned[0] < item.desired[0]
    satisfied = item.condition(ConditionType.SLACK_SATISFIED)
    assert satisfied.reason == "NoEligibleNode"
    assert "zone a has no eligible node: 1 (a1) not ready, cordoned or being removed" in satisfied.message
    assert "zone a has no eligible node" in item.condition(ConditionType.READY).message


def test_nodes_in_no_zone_are_named() -> None:
    item = plan_of(*ZONED, node("stray"), perDomain="Zone")
    assert "1 nodes (stray ...) have no label" in item.conditions[0].message
    whole = plan_of(node("x"), node("y"), perDomain="Zone")
    assert whole.nodes == 2


def test_a_template_stands_for_a_group_at_zero() -> None:
    group = {"name": "big", "labels": {"pool": "big", ZONE: "z"}, "allocatable": {"cpu": "32", "memory": "64Gi"}}
    tainted = {**group, "name": "no", "taints": [{"key": "x", "value": "y", "effect": "NoSchedule"}]}
    soft = {**group, "name": "soft", "taints": [{"key": "x", "effect": "PreferNoSchedule"}]}
    pods = replicas(3, "huge", "16", "32Gi", nodeSelector={"pool": "big"})
    item = plan_of(node("n0"), *pods, nodeTemplates=[group, tainted, soft])
    assert (1, 16_000, 32 * GI) in sizes(item)
    assert item.base[0] == 48_000
    alone = plan_of(*pods, nodeTemplates=[group])
    assert (1, 16_000, 32 * GI) in sizes(alone)
    zoned = plan_of(*pods, nodeTemplates=[group], perDomain="Zone")
    assert all(dict(s.shape.node_selector)[ZONE] == "z" for s in zoned.shapes)
    domain = divide(snapshot_of(*pods), [policy_of(nodeTemplates=[group], perDomain="Zone")])[0]
    assert domain.templates
    assert [zone for zone, _ in by_zone(node_view(snapshot_of(*pods)), domain)] == ["z"]


def test_affinities_are_joined() -> None:
    a, b = Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",))
    assert conjunction((), ((a,),)) == ((a,),)
    assert conjunction(((a,),), ((b,), (a,))) == ((a,), (a, b))


def test_pending_pods_count_in_the_zones_that_they_could_go_to() -> None:
    """Slack was once kept in zones that no waiting pod could use."""
    pods = replicas(4, "left", "1", "1Gi", nodeSelector={ZONE: "a"})
    item = plan_of(*ZONED, *pods, perDomain="Zone", extraCapacity={"minRate": 1})
    assert item.base[0] == 4000
    assert {dict(s.shape.node_selector)[ZONE] for s in item.shapes} == {"a"}
    stray = plan_of(
        *ZONED,
        node("c", labels={"pool": "x"}),
        *replicas(2, "s", "1", "1Gi", nodeSelector={"pool": "x"}),
        perDomain="Zone",
    )
    assert stray.base[0] == 2000
    fixed = plan_of(*ZONED, *pods, perDomain="Zone", extraCapacity={"base": "Allocatable"})
    assert fixed.base[0] == 8000
