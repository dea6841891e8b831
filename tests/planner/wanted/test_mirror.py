"""S7, R8, R9: placeholders like a workload's own pods."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slack.cluster.labels import LABEL_RESERVED_FOR
from slack.cluster.snapshot import Snapshot
from slack.planner.model.result import ConditionType, PolicyPlan, RememberedPolicy
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.manifests import pod_labels, pod_spec
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy
from slack.planner.wanted.mirror_template import parse_reserve, reservations, rewrite_anti_affinity
from tests.cluster.build import NOW, Json, node, placeholder, pod, workload
from tests.planner import scenes
from tests.planner.scenes import FREELY, GI, ZONE, as_existing, replicas, sizes, with_pods

NODES = [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}), node("c", labels={ZONE: "c"})]
LABELS = {"app": "pg"}


def plan_of(*objects: Json, **spec: Any) -> PolicyPlan:
    """Return the plan of one policy that bounds no reservation, for workloads whose pods run."""
    return scenes.plan_of(*with_pods(*objects), **({"reserve": FREELY} | spec))


def policy_of(name: str, **spec: Any) -> Policy:
    """Return a policy that bounds no reservation."""
    return scenes.policy_of(name, **({"reserve": FREELY} | spec))


def snapshot_of(*objects: Json) -> Snapshot:
    """Return the snapshot of these objects and of the workloads' pods."""
    return scenes.snapshot_of(*with_pods(*objects))


def reserve(text: str) -> dict[str, str]:
    return {"resource-slack.io/reserve": text}


def avoid(key: str, **selector: object) -> Json:
    term = {"labelSelector": selector or {"matchLabels": LABELS}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def mirror_of(item: PolicyPlan) -> Shape:
    (shape,) = [s.shape for s in item.shapes if s.role is Role.MIRROR]
    return shape


@pytest.mark.parametrize(
    ("text", "replicas_", "count"),
    [("2", 9, 2), ("25%", 9, 3), ("25%", 8, 2), ("0", 4, 0), ("0.5%", 100, 1), ("150%", 2, 3), (" 1 ", 1, 1)],
)
def test_counts_and_percentages(text: str, replicas_: int, count: int) -> None:
    assert parse_reserve(text, replicas_) == count


@pytest.mark.parametrize("text", ["", "-1", "two", "25 %", "1.5", "%", "99999"])
def test_anything_else_is_refused_and_said(text: str) -> None:
    with pytest.raises(ValueError, match="neither a count"):
        parse_reserve(text, 1)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob"])
def test_every_kind_of_workload_can_be_mirrored(kind: str) -> None:
    item = plan_of(*NODES, workload(kind, "pg", replicas=4, cpu="2", memory="4Gi", annotations=reserve("50%")))
    assert sizes(item, Role.MIRROR) == [(2, 2000, 4 * GI)]
    assert item.condition(ConditionType.FEASIBLE).status


def test_annotated_pods_are_mirrored_and_left_out_of_the_cover() -> None:
    pods = replicas(4, "pg", "2", "2Gi", node="a", annotations=reserve("50%"))
    item = plan_of(*NODES, *pods, extraCapacity={"minRate": 0})
    assert sizes(item) == [(2, 2000, 2 * GI)]
    assert set(item.covered_by.values()) == {item.shapes[0].shape.name}


def test_mirrors_count_towards_the_extra_capacity() -> None:
    """R2: "at minimum"; the mirror of a large pod may be more than the rate asks for."""
    big = workload("Deployment", "pg", cpu="3", memory="4Gi", annotations=reserve("1"))
    item = plan_of(*NODES, big, *replicas(4, "api", "1", "1Gi", node="a"), cover={"mode": "None"})
    assert sizes(item) == [(1, 3000, 4 * GI)]
    assert (item.planned >= item.desired).all()


def test_constraints_are_the_workloads_own() -> None:
    """R9"""
    spec: Json = {
        "nodeSelector": {ZONE: "b"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}]
                }
            }
        },
        "runtimeClassName": "kata",
        "schedulerName": "volcano",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": LABELS},
            },
            {
                "maxSkew": 2,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            },
        ],
    }
    shape = mirror_of(plan_of(*NODES, workload("Deployment", "pg", annotations=reserve("1"), labels=LABELS, **spec)))
    assert shape.node_selector == ((ZONE, "b"),)
    assert shape.node_affinity[0][0].operator == "DoesNotExist"
    # A pod that is there has the runtime class's overhead already.
    assert (shape.runtime_class, shape.scheduler_name) == ("", "volcano")
    (spread,) = json.loads(shape.topology_spread)
    assert list(spread["labelSelector"]["matchLabels"]) == ["resource-slack.io/reserved-for"]
    assert "runtimeClassName" not in pod_spec("default", shape, "pause")


def test_anti_affinity_is_rewritten_with_namespace_and_an_own_label() -> None:
    """R8: a placeholder avoids the workload's pods where these are, and the other placeholders for it."""
    db = workload(
        "StatefulSet", "pg", "db", annotations=reserve("2"), labels=LABELS, affinity=avoid("kubernetes.io/hostname")
    )
    shape = mirror_of(plan_of(*NODES, db))
    own, theirs = sorted(json.loads(shape.anti_affinity), key=lambda term: "namespaces" in term)
    assert theirs == {
        "labelSelector": {"matchLabels": LABELS},
        "topologyKey": "kubernetes.io/hostname",
        "namespaces": ["db"],
    }
    label = pod_labels("default", shape)["resource-slack.io/reserved-for"]
    assert own == {
        "labelSelector": {"matchLabels": {"resource-slack.io/reserved-for": label}},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert pod_spec("default", shape, "pause")["affinity"]["podAntiAffinity"]


def test_anti_affinity_against_others_needs_no_own_label() -> None:
    for selector in (
        {"matchLabels": {"app": "noisy"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["pg"]}]},
    ):
        db = workload("Deployment", "pg", annotations=reserve("5"), labels=LABELS, affinity=avoid(ZONE, **selector))
        item = plan_of(*NODES, db)
        assert len(json.loads(mirror_of(item).anti_affinity)) == 1
        assert item.shapes[0].count == 5  # zones bound only those that avoid their own kind


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "In", "values": ["pg"]},
        {"key": "app", "operator": "Exists"},
        {"key": "gone", "operator": "DoesNotExist"},
    ],
)
def test_selectors_by_expression_match_their_own_kind(expression: Json) -> None:
    db = workload(
        "Deployment", "pg", annotations=reserve("2"), labels=LABELS, affinity=avoid(ZONE, matchExpressions=[expression])
    )
    assert len(json.loads(mirror_of(plan_of(*NODES, db)).anti_affinity)) == 2


def test_affinity_to_other_pods_keeps_its_namespaces() -> None:
    near = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": ZONE, "namespaces": ["x"]}
    term = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    shape = mirror_of(plan_of(*NODES, workload("Deployment", "pg", annotations=reserve("1"), affinity=term)))
    assert json.loads(shape.pod_affinity) == [near]
    assert pod_spec("default", shape, "pause")["affinity"]["podAffinity"]


def test_a_workloads_labels_never_go_onto_a_placeholder() -> None:
    shape = mirror_of(
        plan_of(*NODES, workload("Deployment", "pg", annotations=reserve("1"), labels={"app": "pg", "tier": "x"}))
    )
    labels = pod_labels("default", shape)
    assert not {"app", "tier"} & set(labels)
    assert all("resource-slack" in key or key == "app.kubernetes.io/managed-by" for key in labels)


def test_the_blanket_toleration_is_dropped() -> None:
    """With it a placeholder would stay on a dying node."""
    spec: Json = {"tolerations": [{"operator": "Exists"}, {"key": "dedicated", "operator": "Equal", "value": "db"}]}
    shape = mirror_of(plan_of(*NODES, workload("Deployment", "pg", annotations=reserve("1"), **spec)))
    assert [t.key for t in shape.tolerations] == ["dedicated"]


def test_a_mirror_goes_to_tainted_nodes_by_the_workloads_own_toleration() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    nodes = [node("web"), node("db", "16", "64Gi", taints=[taint])]
    pg = workload(
        "StatefulSet", "pg", cpu="8", annotations=reserve("1"), tolerations=[{"key": "dedicated", "value": "db"}]
    )
    item = plan_of(*nodes, pg)
    assert sizes(item, Role.MIRROR)[0][:2] == (1, 8000)


def test_zone_anti_affinity_caps_the_count() -> None:
    """Three zones, two of them taken: one more place, whatever is asked for."""
    pg = workload(
        "StatefulSet", "pg", replicas=2, cpu="1", annotations=reserve("3"), labels=LABELS, affinity=avoid(ZONE)
    )
    item = plan_of(*NODES, pg)
    assert sizes(item, Role.MIRROR)[0][0] == 1
    assert "leaves 1 places for the 3" in {u.pod: u.reason for u in item.uncovered}["shop/sts/pg"]
    template = {"name": "d", "labels": {ZONE: "d"}, "allocatable": {"cpu": "4", "memory": "8Gi"}}
    assert sizes(plan_of(*NODES, pg, nodeTemplates=[template]), Role.MIRROR)[0][0] == 2
    hosts = workload(
        "StatefulSet", "pg", cpu="1", annotations=reserve("9"), labels=LABELS, affinity=avoid("kubernetes.io/hostname")
    )
    assert sizes(plan_of(*NODES, hosts), Role.MIRROR)[0][0] == 9  # the autoscaler adds nodes


def test_what_cannot_be_mirrored_is_said_with_the_reason() -> None:
    cases = {
        "neither a count": workload("Deployment", "bad", annotations=reserve("many")),
        "requests nothing": workload("Deployment", "empty", cpu="0", memory="0", annotations=reserve("1")),
        "as nodes are declared now (cpu 64, and at most 4 is there)": workload(
            "Deployment", "huge", cpu="64", annotations=reserve("1")
        ),
        "node selector pool=none is not met": workload(
            "Deployment", "lost", annotations=reserve("1"), nodeSelector={"pool": "none"}
        ),
    }
    for reason, item in cases.items():
        found = plan_of(*NODES, item)
        assert reason in found.uncovered[0].reason
        assert not found.feasible
        assert not sizes(found, Role.MIRROR)
    other = plan_of(*NODES, cases["node selector pool=none is not met"], nodeSelector={"pool": "web"})
    assert not other.act


def test_a_ceiling_bounds_mirrors_and_says_so() -> None:
    pg = workload("Deployment", "pg", cpu="1", memory="1Gi", annotations=reserve("5"))
    item = plan_of(*NODES, pg, extraCapacity={"ceiling": {"cpu": "2500m"}})
    assert sizes(item) == [(2, 1000, GI)]
    assert "leaves room for 2 of the 5" in item.uncovered[0].reason
    none = plan_of(*NODES, pg, extraCapacity={"ceiling": {"cpu": "500m"}})
    assert none.shapes == ()


def test_the_most_specific_policy_that_can_mirrors_it() -> None:
    nodes = [node("w", labels={"pool": "web"}), node("d", labels={"pool": "db"})]
    pinned = workload("Deployment", "pg", annotations=reserve("1"), nodeSelector={"pool": "db"})
    policies = [
        policy_of("all"),
        policy_of("db", nodeSelector={"pool": "db"}),
        policy_of("web", nodeSelector={"pool": "web"}),
    ]
    everywhere, db, web = plan(snapshot_of(*nodes, pinned), policies, now=NOW).items
    assert sizes(db, Role.MIRROR)
    assert not sizes(everywhere, Role.MIRROR)
    assert not sizes(web, Role.MIRROR)


def test_mirrors_in_zones_count_where_they_can_stand() -> None:
    """The first zone once took every mirror for its own, and kept less for its pods."""
    pods = [*replicas(8, "api", "500m", "1Gi", node="a"), *replicas(8, "web", "500m", "1Gi", node="b")]
    pinned = workload("Deployment", "pg", cpu="2", memory="4Gi", annotations=reserve("1"), nodeSelector={ZONE: "b"})
    spec: Json = {"perDomain": "Zone", "extraCapacity": {"minRate": 0.5}, "cover": {"mode": "None"}}

    def kept(item: PolicyPlan, zone: str, *roles: Role) -> int:
        return sum(
            s.count * dict(s.shape.requests)["cpu"]
            for s in item.shapes
            if dict(s.shape.node_selector).get(ZONE) == zone and s.role in roles
        )

    item = plan_of(*NODES[:2], *pods, pinned, **spec)
    assert kept(item, "a", Role.FILL) >= 2000
    assert kept(item, "b", Role.FILL) == 0
    free = workload("Deployment", "pg", cpu="2", memory="2Gi", annotations=reserve("1"))
    adrift = plan_of(*NODES[:2], *pods, free, **spec)
    assert kept(adrift, "a", Role.FILL) >= 2000
    assert kept(adrift, "b", Role.FILL) >= 2000
    capped = plan_of(*NODES[:2], *pods, free, **(spec | {"extraCapacity": {"minRate": 0.5, "ceiling": {"cpu": "4"}}}))
    assert capped.planned[0] <= 4000


def test_a_mirrored_pods_runtime_class_is_not_applied_twice() -> None:
    pods = replicas(
        2, "vm", "1", "1Gi", node="a", annotations=reserve("1"), runtimeClassName="kata", overhead={"cpu": "250m"}
    )
    shape = mirror_of(plan_of(*NODES, *pods))
    assert dict(shape.requests)["cpu"] == 1250
    assert shape.runtime_class == ""


def test_terms_keep_their_meaning_in_another_namespace() -> None:
    def rewritten(term: Json, labels: dict[str, str] = LABELS) -> list[Json]:
        found: list[Json] = json.loads(
            rewrite_anti_affinity(json.dumps([term]), "shop", labels, "x", {"shop": {"a": "b"}})
        )
        return found

    own = {"labelSelector": {"matchLabels": {LABEL_RESERVED_FOR: "x"}}, "topologyKey": ZONE}
    null: Json = {"topologyKey": ZONE}
    assert rewritten(null) == [{**null, "namespaces": ["shop"]}]
    other: Json = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "other"}}}
    assert rewritten(other) == rewritten(other, {}) == [{**other, "namespaces": ["shop"]}]
    everything: Json = {"topologyKey": ZONE, "labelSelector": {}}
    assert own in rewritten(everything)
    assert {**everything, "namespaces": ["shop"]} in rewritten(everything)
    everywhere: Json = {**everything, "namespaceSelector": {}}
    assert everywhere in rewritten(everywhere)
    assert own in rewritten(everywhere)
    batch: Json = {**everything, "namespaces": ["batch"]}
    assert rewritten(batch) == [batch]
    chosen: Json = {**everything, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    assert chosen in rewritten(chosen)
    assert own in rewritten(chosen)


def test_a_mirror_takes_its_workloads_values_for_matchlabelkeys() -> None:
    term: Json = {"topologyKey": ZONE, "labelSelector": {}, "matchLabelKeys": ["rev"], "mismatchLabelKeys": ["team"]}
    text = rewrite_anti_affinity(json.dumps([term]), "shop", {"rev": "1", "team": "a"}, "x", {})
    expressions = [
        {"key": "rev", "operator": "In", "values": ["1"]},
        {"key": "team", "operator": "NotIn", "values": ["a"]},
    ]
    # Pods of the same team are not selected, so its own are not.
    assert json.loads(text) == [
        {"topologyKey": ZONE, "labelSelector": {"matchExpressions": expressions}, "namespaces": ["shop"]}
    ]


def test_a_policy_whose_nodes_are_too_small_takes_no_workload_from_one_that_has_room() -> None:
    nodes = [*(node(f"s{i}", "2", "8Gi", labels={"pool": "small"}) for i in range(2)), node("l", "16", "64Gi")]
    svc = workload("StatefulSet", "svc", cpu="8", memory="16Gi", annotations=reserve("1"))
    policies = [policy_of("all"), policy_of("small", nodeSelector={"pool": "small"})]
    everywhere, small = plan(snapshot_of(*nodes, svc), policies, now=NOW).items
    assert sizes(everywhere, Role.MIRROR) == [(1, 8000, 16 * GI)]
    assert small.feasible
    assert not small.uncovered


def test_nodes_that_are_there_and_a_ceiling_with_room_decide_where_a_workload_is_mirrored() -> None:
    nodes = [node("w", "8", "32Gi"), node("d", "8", "32Gi", labels={"pool": "db"})]
    svc = workload("Deployment", "svc", replicas=2, cpu="2", memory="2Gi", annotations=reserve("2"))
    template = {"name": "big", "labels": {"tier": "big"}, "allocatable": {"cpu": "16", "memory": "64Gi"}}
    full = policy_of("full", nodeSelector={"pool": "db"}, extraCapacity={"ceiling": {"cpu": "1"}})
    zero = policy_of("zero", nodeSelector={"tier": "big"}, nodeTemplates=[template])
    snapshot = snapshot_of(*nodes, svc)
    everywhere, *others = plan(snapshot, [policy_of("all"), full, zero], now=NOW).items
    assert sizes(everywhere, Role.MIRROR) == [(2, 2000, 2 * GI)]
    assert not any(s.role is Role.MIRROR for item in others for s in item.shapes)


def test_a_workload_stays_with_the_policy_that_has_its_mirrors() -> None:
    nodes = [node("w", "8", "32Gi"), node("d", "8", "32Gi", labels={"pool": "db"})]
    svc = workload("Deployment", "svc", replicas=2, cpu="2", memory="2Gi", annotations=reserve("2"))
    snapshot, everywhere = snapshot_of(*nodes, svc), policy_of("all")
    (first,) = plan(snapshot, [everywhere], now=NOW).items
    newer = policy_of("db", nodeSelector={"pool": "db"})
    kept, _ = plan(snapshot, [everywhere, newer], now=NOW, existing=as_existing(first)).items
    assert sizes(kept, Role.MIRROR) == [(2, 2000, 2 * GI)]


def mirrors_of(plans: Sequence[PolicyPlan]) -> list[tuple[int, int]]:
    """Return count and replicas of every mirror of every policy."""
    return [(s.count, s.replicas) for item in plans for s in item.shapes if s.role is Role.MIRROR]


def bound_mirrors(item: PolicyPlan, *where: str) -> list[Json]:
    (shape,) = (s.shape for s in item.shapes if s.role is Role.MIRROR)
    requests = dict(shape.requests)
    size = f"{requests['cpu']}m", str(requests["memory"])
    return [placeholder(f"m{i}", *size, policy=item.policy, shape=shape.name, node=at) for i, at in enumerate(where)]


def test_mirrors_live_on_when_a_more_specific_policy_comes_between() -> None:
    """What the policy's mirrors say about nodes is another thing then; what they keep room for is the same."""
    svc = workload("Deployment", "svc", replicas=3, cpu="2", memory="2Gi", annotations=reserve("3"))
    nodes = [node("w", "8", "32Gi"), node("x", "8", "32Gi")]
    everywhere, data = policy_of("all"), policy_of("data", nodeSelector={"pool": "db"})
    (first,) = plan(snapshot_of(*nodes, svc), [everywhere], now=NOW).items
    taken = [*nodes, node("d", "8", "32Gi", labels={"pool": "db"})]
    there = bound_mirrors(first, "w", "x", "x")
    both = plan(snapshot_of(*taken, svc, *there), [everywhere, data], now=NOW, existing=as_existing(first))
    assert mirrors_of(both.items) == [(3, 3)]
    displaced = plan(snapshot_of(*taken, svc, *there[:2]), [everywhere, data], now=NOW, existing=as_existing(first))
    assert mirrors_of(displaced.items) == [(1, 1), (2, 2)] or mirrors_of(displaced.items) == [(2, 2), (1, 1)]


def test_mirrors_on_nodes_that_change_hands_stay_and_count() -> None:
    svc = workload("Deployment", "svc", replicas=2, cpu="2", memory="2Gi", annotations=reserve("2"))
    everywhere, data = policy_of("all"), policy_of("data", nodeSelector={"pool": "db"})
    (first,) = plan(snapshot_of(node("w", "8", "32Gi"), svc), [everywhere], now=NOW).items
    taken = [node("w", "8", "32Gi", labels={"pool": "db"}), node("small", "1", "2Gi")]
    there = bound_mirrors(first, "w", "w")
    after = plan(snapshot_of(*taken, svc, *there), [everywhere, data], now=NOW, existing=as_existing(first))
    assert mirrors_of(after.items) == [(2, 2)]
    assert [s.replicas for s in after.items[0].shapes if s.role is Role.MIRROR] == [2]
    one_displaced = plan(snapshot_of(*taken, svc, there[0]), [everywhere, data], now=NOW, existing=as_existing(first))
    assert [[s.replicas for s in item.shapes if s.role is Role.MIRROR] for item in one_displaced.items] == [[1], [1]]


@pytest.mark.parametrize("why", ["the pods may not go there", "no policy has the node", "the namespace may not"])
def test_mirrors_that_keep_room_for_nobody_do_not_count(why: str) -> None:
    svc = workload("Deployment", "svc", replicas=2, cpu="2", memory="2Gi", annotations=reserve("2"))
    web = {"pool": "web"}
    (first,) = plan(snapshot_of(node("w", "8", "32Gi", labels=web), svc), [policy_of("all")], now=NOW).items
    here, other = node("w", "8", "32Gi", labels=web), node("v", "8", "32Gi", labels={"pool": "db"})
    there = bound_mirrors(first, "w", "v")
    policies = [policy_of("all"), policy_of("data", nodeSelector={"pool": "db"})]
    if why == "the pods may not go there":
        svc = workload(
            "Deployment", "svc", replicas=2, cpu="2", memory="2Gi", annotations=reserve("2"), nodeSelector=web
        )
    elif why == "no policy has the node":
        policies = [policy_of("all", nodeSelector=web)]
    else:
        reserving = {"namespaces": {"matchLabels": {"may": "reserve"}}}
        policies[1] = policy_of("data", nodeSelector={"pool": "db"}, reserve=FREELY | reserving)
    item = plan(snapshot_of(here, other, svc, *there), policies, now=NOW, existing=as_existing(first)).items[0]
    old = next(s for s in item.shapes if s.shape == first.shapes[0].shape)
    new = [s for s in item.shapes if s.role is Role.MIRROR and s.shape != old.shape]
    assert (old.count, [s.count for s in new], old.victims) == (1, [1], ())
    later = plan(
        snapshot_of(here, other, svc, *there),
        policies,
        now=NOW + 700,
        existing=as_existing(item),
        state={"all": RememberedPolicy(counts={old.shape.name: ((NOW, 1),)})},
    ).items[0]
    assert next(s for s in later.shapes if s.shape == old.shape).victims == ("m1",)


def test_mirrors_of_another_size_or_class_are_exchanged() -> None:
    def svc(cpu: str) -> Json:
        return workload("Deployment", "svc", replicas=2, cpu=cpu, memory="2Gi", annotations=reserve("2"))

    (first,) = plan(snapshot_of(node("w", "8", "32Gi"), svc("2")), [policy_of("all")], now=NOW).items
    there = bound_mirrors(first, "w", "w")
    for cpu, changed in (("1", policy_of("all")), ("2", policy_of("all", priorityClassName="gold"))):
        snapshot = snapshot_of(node("w", "8", "32Gi"), svc(cpu), *there)
        item = plan(snapshot, [changed], now=NOW, existing=as_existing(first)).items[0]
        assert [s.count for s in item.shapes if s.shape == first.shapes[0].shape] == [0]


# Admission makes pods other than their template: a VPA, injected sidecars, a LimitRange's defaults, RuntimeClasses.
_AMOUNT = st.integers(1, 3000)
_POD = st.tuples(
    _AMOUNT,
    _AMOUNT,
    st.sampled_from(["running", "pending", "gated", "gone"]),
    st.integers(0, 7200),
    st.sampled_from([None, 250]),
    st.booleans(),
)


@given(template=st.tuples(_AMOUNT, _AMOUNT), pods=st.lists(_POD, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_mirror_is_as_the_newest_live_pod_and_as_the_template_only_without_any(
    template: tuple[int, int], pods: list[tuple[int, int, str, int, int | None, bool]]
) -> None:
    cpu_text, memory_text = f"{template[0]}m", f"{template[1]}Mi"
    api = workload(
        "Deployment", "api", cpu=cpu_text, memory=memory_text, annotations=reserve("1"), runtimeClassName="kata"
    )
    objects = [*NODES, api]
    live = []
    for number, (cpu, memory, state, age, overhead, sidecar) in enumerate(pods):
        one = pod(
            f"api-1-{number}",
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            created=datetime.fromtimestamp(NOW - age, UTC).isoformat(),
            owner=("ReplicaSet", "api-1"),
            labels={"pod-template-hash": "1"},
            node="b" if state in ("running", "gone") else None,
            phase="Succeeded" if state == "gone" else "",
        )
        if state == "gated":
            one["spec"]["schedulingGates"] = [{"name": "hold"}]
        if overhead:
            one["spec"] |= {"overhead": {"cpu": f"{overhead}m"}, "runtimeClassName": "kata"}
        if sidecar:
            one["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
        objects.append(one)
        if state != "gone":
            whole = cpu + (overhead or 0) + 100 * sidecar
            live.append((state != "gated", -age, (whole, memory << 20)))
    snapshot = scenes.snapshot_of(*objects)
    (found,) = reservations(snapshot)
    newest = max(((considered, age) for considered, age, _ in live), default=None)
    allowed = {amounts for considered, age, amounts in live if (considered, age) == newest}
    assert tuple(found.requests[:2].tolist()) in (allowed or {(template[0], template[1] << 20)})
    assert (found.live is None) == (not live)
    assert found.constraints.runtime_class == ("" if live else "kata")
