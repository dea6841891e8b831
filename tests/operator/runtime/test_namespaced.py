"""Kinds that are in namespaces: two objects of one name are two, and each namespace may be followed by itself."""

from typing import Any

from slack.demand.policy import ActivationPool, parse_pool
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind
from tests.operator.demand.pools import document

POOLS = "/apis/resource-slack.io/v1alpha1/namespaces"


def in_namespace(namespace: str, **more: Any) -> dict[str, Any]:
    found = document(**more)
    found["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}"}
    return found


def desired() -> Desired[ActivationPool]:
    return Desired(lambda: None, parse_pool, "activationpool")


def test_two_objects_of_one_name_in_two_namespaces_are_two() -> None:
    pools = desired()
    pools.replace_all([in_namespace("shop"), in_namespace("media")], events_before=0)
    assert [(entry.namespace, entry.name) for entry in pools.entries()] == [
        ("media", "thumbnail"),
        ("shop", "thumbnail"),
    ]
    pools.drop(in_namespace("media"))
    assert [entry.uid for entry in pools.entries()] == ["uid-shop"]


def test_a_complaint_names_the_namespace() -> None:
    pools = desired()
    pools.apply(in_namespace("media", mode="often"))
    (entry,) = pools.entries()
    assert entry.problems == ("spec.mode: input should be 'hold' or 'perMessage', not 'often'",)


def test_only_the_namespaces_that_are_named_are_asked_for() -> None:
    kind = Kind("resource-slack.io/v1alpha1", "ActivationPool", "activationpools", "none", ("media", "shop"))
    assert kind.paths == (f"{POOLS}/media/activationpools", f"{POOLS}/shop/activationpools")
    everywhere = Kind("resource-slack.io/v1alpha1", "ActivationPool", "activationpools", "none")
    assert everywhere.paths == ("/apis/resource-slack.io/v1alpha1/activationpools",)
