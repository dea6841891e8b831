"""What ActivationPools announce, from their watch to ReplicaSets and status."""

from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.web.policy_views import policy_views
from tests.cluster.build import Json, activation_pool
from tests.operator.fakes import NAMESPACE, World, policy

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
PATH = "/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/thumbnail"
NOTHING: Json = {"extraCapacity": {"minRate": 0}, "cover": {"mode": "None"}}


def announce(w: World, slack_pods: int, **rest: object) -> None:
    w.api.put(PATH, activation_pool("thumbnail", cpu="1", slack_pods=slack_pods, **rest))  # type: ignore[arg-type]


def world(**spec: Any) -> World:
    w = World()
    w.apply_policy(policy("web", **(NOTHING | spec)))
    return w


def roles(w: World) -> list[str]:
    found = w.api.items("replicasets").values()
    return [item["metadata"]["annotations"]["resource-slack.io/role"] for item in found]


@IN_BOTH_FORMS
def test_a_pool_s_demand_becomes_a_replica_set_and_status_names_the_pool() -> None:
    w = world()
    announce(w, 3)
    w.settle()
    assert list(w.replicas().values()) == [3]
    assert roles(w) == ["demand"]
    (shape,) = w.status("web")["shapes"]
    assert (shape["role"], shape["for"], shape["bound"]) == ("demand", ["media/actpool/thumbnail"], 3)
    assert w.status("web")["desired"]["cpu"] == "3"


@IN_BOTH_FORMS
def test_a_restart_writes_nothing_and_keeps_every_placeholder() -> None:
    w = world()
    announce(w, 3)
    w.settle()
    before, log = w.placeholders(), list(w.api.log)
    w.restart()
    w.settle(4)
    assert w.placeholders() == before
    assert w.api.log == log


@IN_BOTH_FORMS
def test_a_ceiling_that_cuts_a_pool_is_in_the_status() -> None:
    w = world(extraCapacity={"minRate": 0, "ceiling": {"cpu": "2"}})
    announce(w, 3)
    w.settle()
    (cut,) = w.status("web")["cut"]
    assert (cut["workload"], cut["asked"], cut["granted"]) == ("media/actpool/thumbnail", 3, 2)


def test_the_page_shows_role_and_pool() -> None:
    w = world()
    announce(w, 2)
    w.settle()
    shown: list[Reconciliation] = []
    w.on_reconciled = shown.append
    w.reconcile()
    (view,) = policy_views(shown[-1], NAMESPACE)
    assert [(shape.role, shape.workloads) for shape in view.shapes] == [("demand", ["media/actpool/thumbnail"])]


def test_only_what_a_plan_follows_from_wakes_the_loop() -> None:
    woken: list[None] = []
    view = ClusterView(NAMESPACE, lambda: woken.append(None))

    def see(item: Json, event: EventType = EventType.MODIFIED) -> int:
        before = len(woken)
        view.pools.apply([(event, msgspec.json.decode(msgspec.json.encode(item), type=wire.ActivationPoolObject))])
        return len(woken) - before

    assert see(activation_pool("thumbnail", slack_pods=1)) == 1
    assert see(activation_pool("thumbnail", slack_pods=1, observed="2027-01-15T08:00:30Z")) == 0
    assert view.pools.all()[0].observed_at_seconds == 1_800_000_030.0
    assert see(activation_pool("thumbnail", slack_pods=2)) == 1
    assert see(activation_pool("thumbnail", slack_pods=2), EventType.DELETED) == 1
    assert view.pools.all() == ()


def test_a_list_that_lacks_a_pool_ends_what_it_announced() -> None:
    woken: list[None] = []
    view = ClusterView(NAMESPACE, lambda: woken.append(None))
    item = msgspec.json.encode(activation_pool("thumbnail", slack_pods=1))
    view.pools.apply([(EventType.ADDED, msgspec.json.decode(item, type=wire.ActivationPoolObject))])
    view.pools.begin()
    view.pools.end()
    assert view.pools.all() == ()
    assert len(woken) == 2
