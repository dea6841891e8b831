"""An objective learns from pods that slack could have helped, and from no others."""

from dataclasses import replace
from typing import Any

import pytest

from slack.cluster.identity import workload_of
from slack.cluster.snapshot import Workload
from slack.cluster.wire import Metadata, OwnerReference
from slack.planner.policy.spec import Policy, PolicySpec
from slack_operator.learning.objectives import arrivals_of
from slack_operator.placeholders.view.instant_starts import Start

POD = (500, 1 << 30)


def owned(namespace: str, kind: str, name: str, **metadata: Any) -> Metadata:
    owner = OwnerReference(kind=kind, name=name, controller=True)
    return Metadata(name=f"{name}-1", namespace=namespace, owner_references=[owner], **metadata)


def whose(metadata: Metadata) -> Workload:
    return Workload(*workload_of(metadata))


def amounts(cpu: int, memory: int) -> tuple[tuple[str, int], ...]:
    return (("cpu", cpu), ("memory", memory))


API = owned("shop", "ReplicaSet", "api")
START = Start("n", 0.1, False, 5.0, amounts(*POD), scheduler="default-scheduler", workload=whose(API))


def policy(**spec: Any) -> Policy:
    return Policy(name="web", spec=PolicySpec.model_validate(spec))


def test_arrivals_are_counted_by_requests_and_lateness_is_more_than_two_seconds() -> None:
    starts = [
        START,
        replace(START, waited_seconds=2.5),
        replace(START, amounts=amounts(1000, 1 << 30), waited_seconds=2.0),
    ]
    assert arrivals_of(starts, policy(), -10, frozenset()) == ({POD: 2, (1000, 1 << 30): 1}, 3, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"preempts": False},
        {"priority": -10},
        {"scheduler": "another"},
        {"held_up": True},
        {"amounts": ()},
        {"workload": whose(owned("db", "StatefulSet", "postgres"))},
        {"workload": whose(owned("shop", "ReplicaSet", "left-out"))},
    ],
)
def test_a_pod_that_no_placeholder_can_help_does_not_count_however_late_it_is(change: dict[str, Any]) -> None:
    spec = {"cover": {"exclude": [{"namespace": "db", "ownerKind": "StatefulSet"}]}}
    start = replace(START, waited_seconds=100.0, **change)
    assert arrivals_of([start], policy(**spec), -10, frozenset(["shop/rs/left-out"])) == ({}, 0, 0)


def test_a_pod_that_never_preempts_counts_where_the_capacity_is_free() -> None:
    start = replace(START, waited_seconds=100.0, preempts=False)
    free = policy().model_copy(update={"unbound_scheduler": "resource-slack.io/unbound"})
    assert arrivals_of([start], free, -10, frozenset()) == ({POD: 1}, 1, 1)
