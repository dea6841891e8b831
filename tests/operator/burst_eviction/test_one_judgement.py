"""What is not checked of a pod is the same for all who promise a start, make room for one, or wait for one."""

from itertools import compress, product

import pytest

from slack.cluster import wire
from slack.cluster.labels import HOSTNAME
from slack.planner.burst_eviction.burst import LeftAlone
from slack.planner.burst_eviction.pods import PodPriorities, burst_of_pod
from slack.planner.burst_eviction.promises import Promise
from slack.planner.model.result import ConditionType
from slack.planner.plan import plan
from slack_operator.burst_eviction.bursts import AdmissionLimits, gather_bursts
from slack_operator.burst_eviction.policy_scopes import PolicyScope, PolicyScopes, avoided_in
from slack_operator.placeholders.view.owners import Outstanding
from slack_operator.placeholders.view.preemptions import Preemptions
from slack_operator.placeholders.view.unplaced import UnplacedPods
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, as_pod, columns_of, node, pod
from tests.planner.scenes import policy_of, snapshot_of
from tests.planner.test_explain import NODES, UNCHECKED, api, explained, standing

PORTS = "it takes host ports"
KINDS = [*UNCHECKED, PORTS]
HELD = {"it claims devices", "it claims volumes"}
"""For these the scheduler may wait with the pod assumed."""


def pods_with(said: list[str], *, waiting: bool) -> list[Json]:
    fields: Json = {}
    for text in said:
        own = UNCHECKED.get(text, {})
        fields |= {"affinity": fields["affinity"] | own["affinity"]} if {"affinity"} == fields.keys() & own else own
    found = api(1, node=None if waiting else "n0", **fields)
    for each in found if PORTS in said else ():
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return found


@run_for_each("chosen", list(product((False, True), repeat=len(KINDS))))
def test_explain_status_making_way_and_hangs_agree(chosen: tuple[bool, ...]) -> None:
    said = list(compress(KINDS, chosen))
    objects = [*NODES, *pods_with(said, waiting=False)]

    found = explained("deploy/api", *objects, *standing(*objects, on=("n2",)))
    assert [any(text.startswith(each) for text in found.unknown) for each in KINDS] == list(chosen)
    assert found.ready == (not said)

    item = plan(snapshot_of(*objects), (policy_of(),), now=NOW, existing=(), state={}).items[0]
    message = item.condition(ConditionType.COVERED).message
    assert ("not all that decides about the nodes of 1 workloads is checked (shop/deploy/api)" in message) == bool(said)

    (waiting,) = pods_with(said, waiting=True)
    pod = as_pod(waiting)
    assert (burst_of_pod(pod, "shop/deploy/api", PodPriorities({})).left_alone is None) == (not said)

    columns, unplaced = columns_of(node("n0"), waiting), UnplacedPods()
    unplaced.seen(pod, columns, 0.0)
    (known,) = unplaced.pods.values()
    assert (known.asked.left_alone is None) == (not said)
    assert (known.asked.left_alone is LeftAlone.CLAIMS) == bool(HELD & set(said))

    preemptions = Preemptions()
    waiting["status"] = {"nominatedNodeName": "n0"}
    preemptions.seen(as_pod(waiting), 0.0)
    (preemptor,) = preemptions._preemptors.values()
    assert preemptor.held == bool(HELD & set(said))


def guard(where: str, namespace: str = "ops") -> Json:
    term = {"labelSelector": {"matchLabels": {"app": "api"}}, "topologyKey": HOSTNAME, "namespaces": ["shop"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod("guard", namespace, node=where, owner=("ReplicaSet", "guard"), affinity=affinity)


@pytest.mark.parametrize("avoided", [False, True])
def test_explain_status_and_making_way_agree_about_pods_that_others_avoid(avoided: bool) -> None:
    labels = {"pod-template-hash": "5d4f", "app": "api"}
    objects = [*NODES, *api(2, labels=labels), guard("n1", "ops") if avoided else pod("guard", "ops", node="n1")]
    on_n1 = explained("deploy/api", *objects, *standing(*objects, on=("n1",)))
    assert on_n1.ready == (not avoided)
    assert on_n1.warnings == (
        ("required anti-affinity of ops/rs/guard keeps its pods off the nodes of these placeholders",)
        if avoided
        else ()
    )
    elsewhere = explained("deploy/api", *objects, *standing(*objects, on=("n1", "n2")))
    assert elsewhere.ready
    assert [room.avoided for room in elsewhere.rooms] == [int(avoided)]

    snapshot = snapshot_of(*objects)
    message = plan(snapshot, (policy_of(),), now=NOW).items[0].condition(ConditionType.COVERED).message
    assert ("shop/deploy/api" in message) == avoided

    waiting = api(1, node=None, labels=labels)[0]
    columns, unplaced = columns_of(*NODES, waiting), UnplacedPods()
    unplaced.seen(as_pod(waiting), columns, 0.0)
    scope = PolicyScope("default", "u", -10, "default-scheduler")
    scopes = PolicyScopes({"default": scope}, PodPriorities({}), avoided_in(snapshot))
    (found,) = gather_bursts(unplaced.pods.values(), (), scopes, lambda key, namespace: True, AdmissionLimits(), {})
    assert found.burst.left_alone is (LeftAlone.AMONG_PODS if avoided else None)


@run_for_each(
    ("guarded", "labels", "left_alone"),
    [
        (True, {"app": "api"}, LeftAlone.AMONG_PODS),
        (True, {"app": "other"}, None),
        (True, None, None),
        (False, {"app": "api"}, None),
    ],
)
def test_pods_that_are_to_come_for_a_workload_without_any_are_judged_by_their_template(
    guarded: bool, labels: dict[str, str] | None, left_alone: LeftAlone | None
) -> None:
    snapshot = snapshot_of(*NODES, *([guard("n1")] if guarded else []))
    scope = PolicyScope("default", "u", -10, "default-scheduler")
    scopes = PolicyScopes({"default": scope}, PodPriorities({}), avoided_in(snapshot), snapshot.avoiding)
    waiting = api(1, node=None, labels=labels)[0]
    columns, unplaced = columns_of(*NODES, waiting), UnplacedPods()
    unplaced.seen(as_pod(waiting), columns, 0.0)
    (one,) = unplaced.pods.values()
    template = wire.PodTemplate(metadata=wire.Metadata(name="", labels=labels), spec=as_pod(waiting).spec)
    promise = Outstanding(Promise(one.asked.key, "shop", "d", 3, template), 3, 0, 0, 9.0, early=False)
    found = gather_bursts([one], [promise], scopes, lambda key, namespace: True, AdmissionLimits(), {})
    assert {own.burst.left_alone for own in found} == {left_alone}


def test_pods_of_a_workload_that_avoid_one_another_are_not_avoided_by_others() -> None:
    own = guard("n1", "shop")
    own["metadata"]["ownerReferences"] = api(1)[0]["metadata"]["ownerReferences"]
    own["metadata"]["labels"] = {"pod-template-hash": "5d4f", "app": "api"}
    scopes = PolicyScopes({}, PodPriorities({}), avoiding=snapshot_of(*NODES, own).avoiding)
    template = wire.PodTemplate(metadata=wire.Metadata(name="", labels={"app": "api"}))
    for key, avoided in (("shop/deploy/api", set()), ("shop/deploy/web", {"shop/deploy/web"})):
        assert scopes.with_promises([Promise(key, "shop", "d", 3, template)]).avoided == avoided
