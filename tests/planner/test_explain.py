"""Explain tells which placeholder makes room for a workload and where, or why none does."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, product
from typing import Any

import msgspec
import pytest

from slack.cluster.hold import UNBOUND_SCHEDULER, ReleaseNodes
from slack.cluster.wire import ResourceQuota
from slack.planner.explain import HeldCapacity, NotFoundError, WorkloadExplanation, explain, shown_nodes, target
from slack.planner.explain_text import lines
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, node, placeholder, pod, workload
from tests.planner.scenes import FREELY, GI, ZONE, plan_of, policy_of, replicas, snapshot_of

NODES = [node("n0"), node("n1"), node("n2")]
WEB = {"pool": "web"}
BATCH = {"pool": "batch"}
EXCLUDE = {"resource-slack.io/exclude": "true"}


def explained(
    name: str,
    *objects: Json,
    policies: tuple[Policy, ...] = (),
    existing: tuple[ExistingShape, ...] = (),
    priorities: dict[str, int] | None = None,
    quotas: Sequence[ResourceQuota] | None = (),
    **spec: Any,
) -> WorkloadExplanation:
    """Return the answer for `kind/name` in the namespace shop, of the one policy `default` unless others are given."""
    snapshot = snapshot_of(*objects)
    chosen = policies or (policy_of(**spec),)
    made = plan(
        snapshot, chosen, now=NOW, existing=existing, priority_classes=PriorityClasses.of_values(priorities or {})
    )
    kind, _, rest = name.partition("/")
    wanted = target(kind, rest, "shop")
    return explain(snapshot, made, chosen, wanted, priorities=priorities or {}, quotas=quotas)


def api(count: int = 4, *, node: str | None = "n0", cpu: str = "500m", **rest: Any) -> list[Json]:
    """Return pods of the Deployment api as a ReplicaSet makes them."""
    rest.setdefault("labels", {"pod-template-hash": "5d4f"})
    return replicas(count, "api-5d4f", cpu, "1Gi", node=node, **rest)


def test_room_for_each_pod_of_a_gang_that_does_not_fit_whole_is_told_with_the_but() -> None:
    gang = [*api(8, node=None, schedulingGroup={"podGroupName": "run-1"})]
    found = explained("deploy/api", *NODES, *gang, extraCapacity={"minRate": 0, "floor": {"cpu": "1", "memory": "2Gi"}})
    assert found.rooms
    (warning,) = found.warnings
    assert "its gang run-1 is 8 pods" in warning


def apart(name: str) -> Json:
    """Return the affinity of pods that avoid their own kind on a node."""
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def standing(*objects: Json, on: tuple[str | None, ...], **spec: Any) -> list[Json]:
    """Return placeholders of the one shape that is planned for these objects, on nodes (None: pending)."""
    (shape,) = plan_of(*objects, **spec).shapes
    amounts = dict(shape.shape.requests)
    return [
        placeholder(f"p{i}", f"{amounts['cpu']}m", str(amounts["memory"]), shape=shape.shape.name, node=where)
        for i, where in enumerate(on)
    ]


# --- covered ---------------------------------------------------------------------------------------------------------


def test_what_is_only_planned_is_named_with_its_shape_and_is_not_ready() -> None:
    found = explained("deploy/api", *NODES, *api())
    assert (found.workload, found.pods) == ("shop/deploy/api", 4)
    assert found.requests == (("cpu", 500), ("memory", GI))
    (room,) = found.rooms
    assert (room.policy, room.role, room.requests) == ("default", "cover", (("cpu", 500), ("memory", GI)))
    assert (room.count, room.bound, room.pending, room.nodes) == (1, 0, 0, ())
    assert found.reasons == found.warnings == ()
    assert not found.ready


def test_a_bound_placeholder_makes_it_ready_and_its_nodes_are_counted() -> None:
    rest = [*NODES, *api()]
    found = explained("deploy/api", *rest, *standing(*rest, on=("n2", "n1", "n2")))
    (room,) = found.rooms
    assert (room.bound, room.pending) == (3, 0)
    assert room.nodes == (("n1", 1), ("n2", 2))
    assert found.ready


UNCHECKED: dict[str, Json] = {
    "it claims devices": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
    "it claims volumes": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]},
    "it has hard topology spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "api"}},
            }
        ]
    },
    "it requires affinity to other pods": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": ZONE}
                ]
            }
        }
    },
    "it requires anti-affinity to other pods": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "batch"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
    },
}
"""By the beginning of what is said: fields of a pod's spec."""


@run_for_each("chosen", list(product((False, True), repeat=len(UNCHECKED))))
def test_a_bound_placeholder_makes_it_ready_only_if_all_that_decides_was_checked(chosen: tuple[bool, ...]) -> None:
    said = list(compress(UNCHECKED, chosen))
    fields: Json = {}
    for text in said:
        own = UNCHECKED[text]
        fields |= {"affinity": fields["affinity"] | own["affinity"]} if {"affinity"} == fields.keys() & own else own
    rest = [*NODES, *api(**fields)]
    found = explained("deploy/api", *rest, *standing(*rest, on=("n2",)))
    assert [room.bound for room in found.rooms] == [1]
    assert found.ready == (not said)
    assert len(found.unknown) == len(said)
    assert all(unknown.startswith(text) for unknown, text in zip(found.unknown, said, strict=True))
    text = "\n".join(lines(found))
    assert ("its next pod starts there without waiting" in text) == (not said)
    assert all(f"{part}" in text.partition("whether its next pod starts there is not known: ")[2] for part in said)


def quota(hard: Json, used: Json, namespace: str = "shop", **spec: object) -> ResourceQuota:
    document = {
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }
    return msgspec.convert(document, ResourceQuota)


SCOPED: Json = {
    "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}
}


@run_for_each(
    ("quotas", "warning", "unknown"),
    [
        ([], "", ""),
        ([quota({"pods": "5"}, {"pods": "4"})], "", ""),
        ([quota({"pods": "4"}, {"pods": "4"})], "ResourceQuota shop/q admits no further pod: it has 0 pods left", ""),
        (
            [quota({"requests.cpu": "2200m", "memory": "4Gi"}, {"requests.cpu": "2", "memory": "4Gi"})],
            "it has 0 memory, 200m requests.cpu left",
            "",
        ),
        ([quota({"cpu": "2500m"}, {"cpu": "2"})], "", ""),
        ([quota({"cpu": "2499m"}, {"cpu": "2"})], "it has 499m cpu left", ""),
        ([quota({"count/pods": "1"}, {"count/pods": "4"}, scopes=["NotBestEffort"])], "0 count/pods left", ""),
        ([quota({"pods": "4"}, {"pods": "4"}, namespace="lab")], "", ""),
        ([quota({"services": "0", "requests.nvidia.com/gpu": "0"}, {})], "", ""),
        ([quota({"limits.cpu": "9"}, {"limits.cpu": "1"})], "", "bounds limits.cpu, which is not checked"),
        ([quota({"limits.cpu": "4"}, {"limits.cpu": "4"})], "it has 0 limits.cpu left", ""),
        ([quota({"limits.memory": "4Gi"}, {"limits.memory": "3100Mi"})], "it has 996Mi limits.memory left", ""),
        ([quota({"limits.ephemeral-storage": "0"}, {})], "", "bounds limits.ephemeral-storage, which is not checked"),
        ([quota({"pods": "4"}, {"pods": "4"}, **SCOPED)], "", "whether the pod is in its scopes is not checked"),
        ([quota({"pods": "4"}, {"pods": "4"}, scopes=["Terminating"])], "", "whether the pod is in its scopes"),
        ([quota({"pods": "5"}, {"pods": "4"}, **SCOPED)], "", ""),
        (None, "", "whether ResourceQuotas of its namespace admit a further pod: they cannot be read here"),
    ],
)
def test_a_quota_that_admits_no_further_pod_is_told_and_one_that_cannot_be_judged_too(
    quotas: list[ResourceQuota] | None, warning: str, unknown: str
) -> None:
    rest = [*NODES, *api()]
    found = explained("deploy/api", *rest, *standing(*rest, on=("n2",)), quotas=quotas)
    assert found.ready == (not warning and not unknown)
    for texts, wanted in ((found.warnings, warning), (found.unknown, unknown)):
        assert len(texts) == bool(wanted)
        assert all(wanted in text for text in texts)


def test_soft_spread_and_volumes_without_claims_leave_nothing_unknown() -> None:
    (spread,) = UNCHECKED["it has hard topology spread"]["topologySpreadConstraints"]
    fields: Json = {
        "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "resourceClaims": [],
    }
    rest = [*NODES, *api(**fields)]
    found = explained("deploy/api", *rest, *standing(*rest, on=("n2",)))
    assert (found.ready, found.unknown) == (True, ())


def test_a_mirror_keeps_off_the_nodes_that_anti_affinity_avoids_but_knows_no_devices() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    own: Json = {"annotations": {"resource-slack.io/reserve": "1"}, "affinity": apart("api"), "labels": {"app": "api"}}
    for fields, unknown in (({}, 0), ({"resourceClaims": claims}, 1)):
        pods = replicas(1, "pg", "2", "4Gi", node="n0", **own, **fields)
        found = explained("rs/pg", *NODES, *pods, extraCapacity={"minRate": 0}, reserve=FREELY)
        assert [room.role for room in found.rooms] == ["mirror"]
        assert len(found.unknown) == unknown


def test_a_pending_placeholder_is_no_room_yet() -> None:
    rest = [*NODES, *api()]
    found = explained("deploy/api", *rest, *standing(*rest, on=(None,)))
    (room,) = found.rooms
    assert (room.bound, room.pending, room.nodes) == (0, 1, ())
    assert not found.ready


def test_placeholders_of_others_shapes_are_not_counted_as_its_room() -> None:
    rest = [*NODES, *api()]
    other = placeholder("other", shape="ffffffff", node="n1")
    (room,) = explained("deploy/api", *rest, *standing(*rest, on=("n2",)), other).rooms
    assert room.nodes == (("n2", 1),)


def test_a_pod_fits_the_place_of_a_larger_one_that_may_go_wherever_the_placeholder_stands() -> None:
    small = replicas(1, "small", "100m", "128Mi", node="n1")
    (room,) = explained("rs/small", *NODES, *api(), *small).rooms
    assert room.requests == (("cpu", 500), ("memory", GI))


def test_a_small_pod_that_is_bound_to_some_nodes_gets_no_room_from_a_placeholder_that_may_stand_elsewhere() -> None:
    nodes = [node("n0", labels=WEB), node("n1", labels=BATCH)]
    picky = replicas(1, "picky", "100m", "128Mi", node="n1", nodeSelector=BATCH)
    found = explained("rs/picky", *nodes, *api(99, cpu="10m"), *picky, cover={"coverage": 0.5})
    assert found.rooms == ()
    assert found.reasons == ("policy default: rare: 1.0% of arrivals, beyond spec.cover.coverage 0.5",)


def test_standard_placeholders_are_room_too_where_the_cover_is_off() -> None:
    (room,) = explained(
        "deploy/api", *NODES, *api(), cover={"mode": "None"}, extraCapacity={"floor": {"cpu": "2", "memory": "4Gi"}}
    ).rooms
    assert room.role == "fill"
    assert room.count >= 2


def test_the_largest_of_its_pods_by_cpu_is_shown_while_a_rollout_changes_them() -> None:
    old, new = api(3, cpu="250m"), replicas(2, "api-77aa", "2", "3Gi", node="n1", labels={"pod-template-hash": "77aa"})
    found = explained("deploy/api", *NODES, *old, *new)
    assert found.pods == 5
    assert found.requests == (("cpu", 2000), ("memory", 3 * GI))


def test_pending_pods_count_among_its_pods() -> None:
    pending = [pod("api-5d4f-x", owner=("ReplicaSet", "api-5d4f"), labels={"pod-template-hash": "5d4f"})]
    assert explained("deploy/api", *NODES, *api(2), *pending).pods == 3


def test_gated_pods_are_counted_apart_and_get_no_room() -> None:
    gates: Json = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    more = [
        {**own, "metadata": {**own["metadata"], "name": f"g{i}"}} for i, own in enumerate(api(3, node=None, **gates))
    ]
    found = explained("deploy/api", node("n0"), *api(2), *more)
    assert found.pods == 2
    assert found.rooms
    assert found.reasons == (
        "3 of its pods are behind scheduling gates: no capacity is kept for them until the gates are removed",
    )
    alone = explained("deploy/api", node("n0"), *more)
    assert (alone.pods, alone.rooms, alone.reasons) == (0, (), found.reasons)
    assert dict(alone.requests)["cpu"] == 500


def test_larger_pods_behind_gates_do_not_change_the_size_that_is_told_of_the_others() -> None:
    gates: Json = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    larger = replicas(1, "api-77aa", "4", "8Gi", node=None, labels={"pod-template-hash": "77aa"}, **gates)
    found = explained("deploy/api", node("n0"), *api(2), *larger)
    assert found.pods == 2
    assert dict(found.requests)["cpu"] == 500


def test_in_zones_the_room_of_every_zone_is_named() -> None:
    nodes = [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"})]
    pods = [*api(2, node="a"), *replicas(2, "api-5d4f-b", "500m", "1Gi", node="b")]
    found = explained("deploy/api", *nodes, *pods, perDomain="Zone")
    assert len({room.shape for room in found.rooms}) == 2


def test_what_is_being_given_up_is_no_room() -> None:
    rest = [*NODES, *api(cpu="1")]
    (there,) = plan_of(*NODES, *api(cpu="2")).shapes
    old = replace(there.shape, priority_class_name="another")
    retiring = ExistingShape("default", old, Role.COVER, 1, retiring=True)
    rooms = explained("deploy/api", *rest, existing=(retiring,)).rooms
    assert [dict(room.requests)["cpu"] for room in rooms] == [1000]


def test_room_in_a_node_group_at_zero_counts_for_pods_that_may_go_there_only() -> None:
    """A placeholder that stands on no node yet is not therefore everybody's."""
    template = {"name": "batch", "labels": BATCH, "allocatable": {"cpu": "8", "memory": "32Gi"}}
    spec: Json = {
        "nodeSelector": BATCH,
        "nodeTemplates": [template],
        "extraCapacity": {"floor": {"cpu": "4", "memory": "8Gi"}},
    }
    web = replicas(2, "web", "500m", "1Gi", node="n0", nodeSelector=WEB)
    free = replicas(2, "free", "500m", "1Gi", node="n0")
    snapshot = [node("n0", labels=WEB), *web, *free]
    assert explained("rs/free", *snapshot, **spec).rooms
    found = explained("rs/web", *snapshot, **spec)
    assert found.rooms == ()
    assert found.reasons == ("outside every policy: it goes to n0, where no policy keeps slack",)


def test_a_placeholder_that_no_node_admits_any_more_is_nobodys_room() -> None:
    (gone,) = plan_of(node("b0", labels=BATCH), *api(node="b0"), nodeSelector=BATCH).shapes
    left = ExistingShape("default", gone.shape, Role.COVER, 1)
    found = explained("deploy/api", *NODES, *api(), existing=(left,), nodeSelector=BATCH)
    assert found.rooms == ()


# --- mirrored --------------------------------------------------------------------------------------------------------


def test_a_mirrored_workload_has_placeholders_of_its_own() -> None:
    pods = replicas(4, "pg", "2", "4Gi", node="n0", annotations={"resource-slack.io/reserve": "50%"})
    found = explained("rs/pg", *NODES, *pods, extraCapacity={"minRate": 0}, reserve=FREELY)
    (room,) = found.rooms
    assert (room.role, room.count, room.requests) == ("mirror", 2, (("cpu", 2000), ("memory", 4 * GI)))


def test_another_workloads_mirror_is_not_its_room() -> None:
    pg = workload("StatefulSet", "pg", cpu="3", memory="8Gi", annotations={"resource-slack.io/reserve": "1"})
    found = explained("deploy/api", *NODES, pg, *api())
    assert [room.role for room in found.rooms] == ["cover"]


def test_a_reserved_workload_without_a_pod_is_known_by_its_object() -> None:
    pg = workload("StatefulSet", "pg", cpu="3", memory="8Gi", annotations={"resource-slack.io/reserve": "1"})
    found = explained("sts/pg", *NODES, pg)
    assert (found.pods, found.requests) == (0, (("cpu", 3000), ("memory", 8 * GI)))
    assert not found.rooms
    (reason,) = found.reasons
    assert "spec.reserve.maxShare (100% of its running pods) allows 0 of the 1 that it reserves" in reason


@pytest.mark.parametrize(
    ("reserve", "said"),
    [
        ("two", "policy default: "),
        ("0", "it has no pods now and no placeholder is kept for it"),
    ],
)
def test_a_workload_without_pods_whose_mirror_is_not_made_gets_the_reason(reserve: str, said: str) -> None:
    pg = workload("StatefulSet", "pg", cpu="3", memory="8Gi", annotations={"resource-slack.io/reserve": reserve})
    found = explained("sts/pg", *NODES, pg)
    assert found.rooms == ()
    (reason,) = found.reasons
    assert reason.startswith(said)


# --- why there is no room --------------------------------------------------------------------------------------------


def test_pods_excluded_by_their_annotation_are_said_to_be() -> None:
    found = explained("deploy/api", *NODES, *api(annotations=EXCLUDE))
    assert found.rooms == ()
    assert found.reasons == ("policy default: excluded by annotation",)


def test_pods_excluded_by_their_annotation_outside_every_policy_are_said_to_be_excluded() -> None:
    found = explained("deploy/api", *NODES, *api(annotations=EXCLUDE), nodeSelector=WEB)
    assert found.reasons == ("it is excluded by its annotation resource-slack.io/exclude (R6)",)


def test_pods_that_fit_no_empty_node_are_told_which_resource_is_short() -> None:
    found = explained(
        "deploy/huge",
        *NODES,
        *api(),
        *replicas(1, "huge", "64", "1Gi", owner=("ReplicaSet", "huge-1"), labels={"pod-template-hash": "1"}),
    )
    assert found.rooms == ()
    assert found.reasons == ("policy default: cpu 64 is more than any empty eligible node has (4)",)


def test_pods_that_no_node_admits_are_told_the_commonest_reason() -> None:
    lost = replicas(1, "lost", "1", "1Gi", nodeSelector={"pool": "moon"})
    found = explained("rs/lost", *NODES, *lost)
    assert found.reasons == ("its pods can go to no node of this cluster: node selector pool=moon is not met",)


def test_in_a_cluster_without_nodes_that_is_the_reason() -> None:
    assert explained("deploy/api", *api(node=None)).reasons == (
        "its pods can go to no node of this cluster: there is no node",
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "it goes to w0, where"),
        (3, "it goes to w0, w1, w2, where"),
        (5, "it goes to w0, w1, w2 and 2 more, where"),
    ],
)
def test_pods_outside_every_policy_are_told_where_they_go(count: int, said: str) -> None:
    nodes = [node(f"w{i}", labels=WEB) for i in range(count)]
    found = explained(
        "deploy/api", node("b0", labels=BATCH), *nodes, *api(node="w0", nodeSelector=WEB), nodeSelector=BATCH
    )
    (reason,) = found.reasons
    assert reason == f"outside every policy: {said} no policy keeps slack"


def test_without_any_policy_everything_is_outside() -> None:
    snapshot = snapshot_of(*NODES, *api())
    found = explain(snapshot, plan(snapshot, [], now=NOW), [], target("deploy", "api", "shop"), priorities={})
    assert found.reasons == ("outside every policy: it goes to n0, n1, n2, where no policy keeps slack",)


def test_nodes_of_a_policy_in_conflict_are_not_said_to_be_nobodys() -> None:
    policies = (policy_of("older", nodeSelector={"pool": "web"}), policy_of("younger", nodeSelector={"tier": "x"}))
    nodes = [node("w0", labels=WEB), node("wx", labels=WEB | {"tier": "x"}), node("x0", labels={"tier": "x"})]
    pods = api(node="x0", nodeSelector={"tier": "x", "only": "x0"})
    nodes[2]["metadata"]["labels"]["only"] = "x0"
    (reason,) = explained("deploy/api", *nodes, *pods, policies=policies).reasons
    assert reason.startswith("policy younger: spec.nodeSelector: selects wx, which policy 'older' selects as well")


def test_where_the_cover_is_off_and_nothing_fits_the_mode_is_the_reason() -> None:
    found = explained("deploy/api", *NODES, *api(), cover={"mode": "None"}, extraCapacity={"minRate": 0})
    assert found.rooms == ()
    assert found.reasons == (
        "policy default covers no pods (spec.cover.mode None), it only keeps standard placeholders",
    )


def test_a_policy_that_may_not_act_gives_its_own_reason() -> None:
    nodes = [node("n0", taints=[{"key": "gpu", "effect": "NoSchedule"}])]
    tolerant = api(tolerations=[{"key": "gpu", "operator": "Exists"}])
    (reason,) = explained("deploy/api", *nodes, *tolerant).reasons
    assert "where no policy keeps slack" in reason


def test_pods_that_request_nothing_need_no_room() -> None:
    idle = replicas(1, "idle", "0", "0", node="n0")
    assert explained("rs/idle", *NODES, *idle).reasons == (
        "its pods request nothing: they start wherever a pod slot is free and need no room kept",
    )


def test_pods_of_one_policys_nodes_that_stand_on_anothers_are_told_which_covers_first() -> None:
    """Running elsewhere, they are not in this policy's demand; nothing is wrong with the policy."""
    nodes = [node("w0", labels=WEB), node("b0", labels=BATCH)]
    pods = api(2, node="b0")
    found = explained("deploy/api", *nodes, *pods, nodeSelector=WEB)
    assert found.reasons == ("policy default covers the most frequent pods first, and this one is not among them",)


def test_each_reason_is_said_once_however_many_sizes_its_pods_have() -> None:
    pods = [
        *api(1, cpu="1", annotations=EXCLUDE),
        *replicas(1, "api-77aa", "2", "1Gi", node="n1", labels={"pod-template-hash": "77aa"}, annotations=EXCLUDE),
    ]
    assert len(explained("deploy/api", *NODES, *pods).reasons) == 1


def test_a_workload_may_have_room_for_some_of_its_pods_and_a_reason_for_others() -> None:
    new = replicas(1, "api-77aa", "64", "1Gi", labels={"pod-template-hash": "77aa"})
    found = explained("deploy/api", *NODES, *api(), *new)
    assert [room.role for room in found.rooms] == ["cover"]
    assert found.reasons == ("policy default: cpu 64 is more than any empty eligible node has (4)",)


# --- what keeps it from using the room -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"preemptionPolicy": "Never"}, "its pods have preemptionPolicy Never: they cannot take a placeholder's place"),
        (
            {"priority": -10},
            "its priority -10 is not above the placeholders' (-10): it cannot take a placeholder's place",
        ),
        (
            {"schedulerName": "volcano"},
            "its scheduler is volcano, the policy's is default-scheduler: "
            "give it a policy with spec.schedulerName volcano",
        ),
        (
            {"affinity": apart("small")},
            "its anti-affinity over kubernetes.io/hostname: each of its 1 nodes has one of its pods; annotate it with "
            "resource-slack.io/reserve for room beyond them",
        ),
    ],
)
def test_what_keeps_a_pod_out_of_room_that_would_fit_it_is_said(spec: Json, said: str) -> None:
    """A placeholder of its size stands, for others; only this says why its next pod waits all the same."""
    rest = [node("n0"), *api()]
    there = standing(*rest, on=("n0",))
    small = replicas(1, "small", "250m", "512Mi", node="n0", labels={"app": "small"}, **spec)
    found = explained("rs/small", *rest, *there, *small)
    assert [room.bound for room in found.rooms] == [1]
    assert found.warnings == (said,)
    assert not found.ready
    assert explained("deploy/api", *rest, *there, *small).ready


@pytest.mark.parametrize("spec", [{"preemptionPolicy": "Never"}, {"priority": -10}, {"schedulerName": "volcano"}])
def test_capacity_that_is_free_needs_no_preemption(spec: Json) -> None:
    update = {"unbound_scheduler": UNBOUND_SCHEDULER, "release_nodes": ReleaseNodes.LABEL}
    free = policy_of().model_copy(update=update)
    small = replicas(1, "small", "250m", "512Mi", node="n0", labels={"app": "small"}, **spec)
    found = explained("rs/small", *NODES, *api(), *small, policies=(free,))
    assert found.rooms
    assert all(room.unbound and room.release_nodes is ReleaseNodes.LABEL for room in found.rooms)
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"preemptionPolicy": "Never"}, None),
        ({"priority": -10}, "priority -10 is not above the placeholders' (-10)"),
        ({"schedulerName": "volcano"}, "scheduler volcano"),
    ],
)
def test_room_is_kept_for_pods_that_never_preempt_if_it_is_free(spec: Json, reason: str | None) -> None:
    free = policy_of().model_copy(update={"unbound_scheduler": UNBOUND_SCHEDULER})
    large = replicas(2, "large", "3", "4Gi", node="n0", labels={"app": "large"}, **spec)
    found = explained("rs/large", *NODES, *api(), *large, policies=(free,))
    assert bool(found.rooms) == (reason is None)
    assert [
        text for text in found.reasons if reason and reason in text and "they may use what is kept free" in text
    ] == ([] if reason is None else list(found.reasons))
    assert not explained("rs/large", *NODES, *api(), *large, policies=(policy_of(),)).rooms


def test_a_mirrored_workload_that_stands_on_every_node_is_not_told_to_ask_for_a_mirror() -> None:
    reserve = {"resource-slack.io/reserve": "1"}
    pods = replicas(1, "pg", "1", "1Gi", node="n0", affinity=apart("pg"), annotations=reserve)
    found = explained("rs/pg", node("n0"), *pods)
    assert "mirror" in [room.role for room in found.rooms]
    assert found.warnings == ()


def test_a_size_that_only_unusable_room_would_hold_gets_its_reason() -> None:
    """During a rollout to larger pods the policy with usable room may have it for the smaller ones only."""
    policies = (
        policy_of("web", nodeSelector=WEB),
        policy_of("batch", nodeSelector=BATCH, schedulerName="volcano"),
    )
    nodes = [node("w0", labels=WEB), node("b0", "1", labels=BATCH)]
    large = replicas(1, "api-77aa", "2", "2Gi", labels={"pod-template-hash": "77aa"}, schedulerName="volcano")
    web = replicas(3, "web", "3", "3Gi", node="w0")
    found = explained(
        "deploy/api", *nodes, *web, *api(1, node="b0", schedulerName="volcano"), *large, policies=policies
    )
    assert [room.policy for room in found.rooms] == ["batch"]
    (reason,) = found.reasons
    assert "policy batch: cpu 2 is more than any empty eligible node has (1)" in reason


def test_the_placeholders_priority_is_that_of_their_class() -> None:
    pods = api(priority=-5)
    assert explained("deploy/api", *NODES, *pods).warnings == ()
    found = explained(
        "deploy/api", *NODES, *pods, *replicas(3, "web", "1", "2Gi", node="n1"), priorities={"resource-slack": -5}
    )
    assert found.warnings == (
        "its priority -5 is not above the placeholders' (-5): it cannot take a placeholder's place",
    )


def test_room_that_it_cannot_use_is_not_named_beside_room_that_it_can() -> None:
    """Two schedulers, a policy for each: the pods of one go to their own policy's room, and nothing hinders them."""
    policies = (policy_of("web", nodeSelector=WEB), policy_of("batch", nodeSelector=BATCH, schedulerName="volcano"))
    nodes = [node("w0", labels=WEB), node("b0", labels=BATCH)]
    pods = [*replicas(3, "web", "1", "2Gi", node="w0"), *api(node="b0", schedulerName="volcano")]
    found = explained("deploy/api", *nodes, *pods, policies=policies)
    assert [room.policy for room in found.rooms] == ["batch"]
    assert found.warnings == ()


# --- names -----------------------------------------------------------------------------------------------------------


@run_for_each(
    ("kind", "known"),
    [
        *((kind, "deploy") for kind in ("deploy", "deployment", "Deployments", "deployment.apps", "deployments.apps")),
        *((kind, "rs") for kind in ("rs", "ReplicaSet", "replicasets", "replicasets.apps")),
        *((kind, "sts") for kind in ("sts", "statefulset", "StatefulSets", "statefulset.apps")),
        *((kind, "ds") for kind in ("ds", "daemonset", "daemonsets.apps")),
        *((kind, "job") for kind in ("job", "jobs", "job.batch", "jobs.batch")),
        *((kind, "cronjob") for kind in ("cj", "cronjob", "cronjobs", "cronjobs.batch")),
        *((kind, "pod") for kind in ("po", "pod", "Pods")),
        *((kind, "raycluster") for kind in ("RayCluster", "rayclusters.ray.io", "rayservice", "RayService", "rayjobs")),
    ],
)
def test_kinds_and_short_names_are_kubectls(kind: str, known: str) -> None:
    assert str(target(kind, "x", "shop")) == f"shop/{known}/x"


@pytest.mark.parametrize("name", ["pod/api-5d4f-0", "pod/api-5d4f-3", "pod/api-5d4f-gone", "rs/api-5d4f"])
def test_a_pod_and_a_replica_set_stand_for_their_deployment(name: str) -> None:
    found = explained(name, *NODES, *api())
    assert (found.workload, found.pods) == ("shop/deploy/api", 4)


@pytest.mark.parametrize("name", ["pod/nightly-28400000-abc", "job/nightly-28400000", "cj/nightly"])
def test_a_job_and_its_pod_stand_for_their_cron_job(name: str) -> None:
    run = pod("nightly-28400000-xyz", owner=("Job", "nightly-28400000"))
    assert explained(name, *NODES, run).workload == "shop/cronjob/nightly"


def test_the_longest_owner_that_a_name_begins_with_is_its_owner() -> None:
    worker = replicas(1, "api-worker-9c", "1", "1Gi", node="n1", labels={"pod-template-hash": "9c"})
    assert explained("pod/api-worker-9c-zzz", *NODES, *api(), *worker).workload == "shop/deploy/api-worker"


def test_a_bare_pod_is_its_own_workload() -> None:
    found = explained("pod/lone", *NODES, *api(), pod("lone", cpu="1", node="n1"))
    assert (found.workload, found.pods, found.requests) == ("shop/pod/lone", 1, (("cpu", 1000), ("memory", GI)))
    assert found.rooms


@pytest.mark.parametrize("name", ["CloneSet/web", "pod/web-1", "pod/web-gone"])
def test_a_custom_owner_is_found_by_its_kind_and_by_its_pods(name: str) -> None:
    pods = replicas(2, "web", "1", "1Gi", node="n0", owner=("CloneSet", "web"))
    assert explained(name, *NODES, *pods).workload == "shop/cloneset/web"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deploy/apj", "shop/deploy/apj: no pod of it is running or pending; did you mean deploy/api?"),
        ("sts/api", "did you mean deploy/api?"),
        ("deploy/elsewhere", "did you mean lab/pod/elsewhere?"),
        ("deploy/zzzzzzzz", "namespace 'shop' has deploy/api, pod/q0, pod/q1, pod/q2, pod/q3 ..."),
        ("ds/agent", "pods of a DaemonSet start with their node, not in slack; no capacity is kept for them"),
        (
            "deplyo/api",
            "unknown kind 'deplyo'; did you mean deploy? "
            "(known: actpool, cronjob, dc, deploy, ds, job, ksvc, lws, pod, raycluster, rollout, rs, sts)",
        ),
        ("service/x", "unknown kind 'service'"),
    ],
)
def test_what_is_not_found_gets_near_misses(name: str, said: str) -> None:
    others = [pod(f"q{i}", node="n1") for i in range(5)]
    with pytest.raises(NotFoundError) as caught:
        explained(name, *NODES, *api(), *others, pod("elsewhere", "lab"))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("namespaces", "said"),
    [
        (("shp", "lab"), "namespace 'shop' has no pods (there are: shp)"),
        (("xx", "yy"), "namespace 'shop' has no pods (there are: xx, yy)"),
        ((), "namespace 'shop' has no pods (there are: none)"),
    ],
)
def test_a_namespace_without_pods_gets_near_misses(namespaces: tuple[str, ...], said: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        explained("deploy/api", *NODES, *(pod("p", space) for space in namespaces))
    assert said in str(caught.value)


def test_pods_of_a_daemon_set_are_no_workload_that_room_is_kept_for() -> None:
    agent = pod("agent-x", node="n0", owner=("DaemonSet", "agent"))
    with pytest.raises(NotFoundError, match="no capacity is kept for them"):
        explained("ds/agent", *NODES, agent)


def test_nodes_are_shown_with_their_counts_and_only_a_few() -> None:
    def room(*nodes: tuple[str, int]) -> HeldCapacity:
        return HeldCapacity("default", "9f3c2a00", "cover", (), 1, 1, 0, nodes)

    assert shown_nodes(room(("n0", 2), ("n1", 1))) == "n0 (2), n1"
    assert shown_nodes(room(*((f"n{i}", 1) for i in range(7)))) == "n0, n1, n2, n3, n4 and 2 more"
