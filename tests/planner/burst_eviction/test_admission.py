"""What LimitRanges add to promised pods, and which of them a ResourceQuota lets in."""

from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.requests import effective_requests
from slack.planner.burst_eviction.admission import Quotas, with_defaults, within
from slack.planner.burst_eviction.burst import LeftAlone
from slack.planner.burst_eviction.pods import PodPriorities, burst_of_promise
from slack.planner.burst_eviction.promises import Promise
from tests.cases import run_for_each


def _spec(resources: Any = None, containers: int = 1, **fields: Any) -> wire.PodSpec:
    own = [{"name": f"c{i}", "resources": resources or {}} for i in range(containers)]
    return msgspec.json.decode(msgspec.json.encode({"containers": own, **fields}), type=wire.PodSpec)


def _quota(hard: Any, used: Any = None, **spec: Any) -> wire.ResourceQuota:
    document = {
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }
    return msgspec.convert(document, wire.ResourceQuota)


REQUESTS = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}


@run_for_each(
    ("hard", "used", "granted"),
    [
        ({"pods": "20"}, {"pods": "13"}, 7),
        ({"count/pods": "20"}, {"count/pods": "25"}, 0),
        ({"requests.cpu": "10"}, {"requests.cpu": "8"}, 4),
        ({"cpu": "10"}, {"cpu": "7900m"}, 4),
        ({"memory": "10Gi"}, {"memory": "4Gi"}, 6),
        ({"limits.memory": "10Gi"}, {}, 5),
        ({"requests.nvidia.com/gpu": "0"}, {}, 50),
        ({"limits.cpu": "100"}, {}, 0),  # must specify limits.cpu
        ({"services": "1"}, {"services": "1"}, 50),
        ({"pods": "7", "requests.cpu": "2"}, {}, 4),
    ],
)
def test_a_quota_lets_in_as_many_as_it_has_left(hard: Any, used: Any, granted: int) -> None:
    assert Quotas([_quota(hard, used)]).granted("shop", _spec(REQUESTS), 50) == granted


def test_two_promises_of_a_namespace_share_what_is_left() -> None:
    quotas = Quotas([_quota({"requests.cpu": "10"})])

    assert [quotas.granted("shop", _spec(REQUESTS), 15) for _ in range(2)] == [15, 5]


def test_quotas_of_other_namespaces_say_nothing() -> None:
    assert Quotas([_quota({"pods": "0"})]).granted("other", _spec(REQUESTS), 5) == 5


@pytest.mark.parametrize(
    ("scope", "spec", "granted"),
    [
        ({"scopes": ["BestEffort"]}, _spec(REQUESTS), 9),
        ({"scopes": ["BestEffort"]}, _spec(), 0),
        ({"scopes": ["NotBestEffort"]}, _spec(REQUESTS), 0),
        ({"scopes": ["Terminating"]}, _spec(REQUESTS), 9),
        ({"scopes": ["Terminating"]}, _spec(REQUESTS, activeDeadlineSeconds=60), 0),
        ({"scopes": ["NotTerminating"]}, _spec(REQUESTS), 0),
        ({"scopes": ["PriorityClass"]}, _spec(REQUESTS), 9),
        ({"scopes": ["PriorityClass"]}, _spec(REQUESTS, priorityClassName="high"), 0),
    ],
)
def test_a_quota_with_scopes_counts_only_their_pods(scope: Any, spec: wire.PodSpec, granted: int) -> None:
    assert Quotas([_quota({"pods": "0"}, **scope)]).granted("shop", spec, 9) == granted


@pytest.mark.parametrize(
    ("operator", "values", "granted"),
    [("In", ["high"], 0), ("In", ["low"], 9), ("NotIn", ["high"], 9), ("Exists", None, 0), ("DoesNotExist", None, 9)],
)
def test_a_quota_may_be_for_priority_classes(operator: str, values: Any, granted: int) -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}
    quota = _quota({"pods": "0"}, scopeSelector=selector)

    assert Quotas([quota]).granted("shop", _spec(REQUESTS, priorityClassName="high"), 9) == granted


def _ranges(**item: Any) -> list[wire.LimitRange]:
    document = {"metadata": {"name": "l", "namespace": "shop"}, "spec": {"limits": [{"type": "Container", **item}]}}
    return [msgspec.convert(document, wire.LimitRange)]


def test_containers_that_say_nothing_get_the_defaults_of_their_namespace() -> None:
    ranges = _ranges(default={"cpu": "1"}, defaultRequest={"cpu": "250m", "memory": "256Mi"})

    assert effective_requests(with_defaults(_spec(containers=2), ranges)) == {"cpu": 500, "memory": 512 << 20}
    assert effective_requests(with_defaults(_spec(REQUESTS), ranges)) == {"cpu": 500, "memory": 1 << 30}
    assert effective_requests(with_defaults(_spec({"limits": {"cpu": "2"}}), ranges))["cpu"] == 2000


def test_a_promise_that_a_quota_refuses_is_left_alone() -> None:
    promise = Promise("shop/deploy/api", "shop", "d", 9, wire.PodTemplate(spec=_spec(REQUESTS)))
    classes = PodPriorities({})

    refused = burst_of_promise(promise, classes, quotas=Quotas([_quota({"pods": "0"})]))
    some = burst_of_promise(promise, classes, quotas=Quotas([_quota({"pods": "4"})]))

    assert (refused.count, refused.left_alone) == (0, LeftAlone.QUOTA)
    assert (some.count, some.left_alone) == (4, None)


@pytest.mark.parametrize(("name", "count"), [("high", 9), ("there-is-none", 0)])
def test_a_promise_of_a_priority_class_that_there_is_none_of_is_left_alone(name: str, count: int) -> None:
    spec = msgspec.structs.replace(_spec(REQUESTS), priority_class_name=name)
    promise = Promise("shop/deploy/api", "shop", "d", 9, wire.PodTemplate(spec=spec))

    assert burst_of_promise(promise, PodPriorities({"high": (5, True)})).count == count


@run_for_each(
    ("item", "containers", "admitted"),
    [
        ({"type": "Container", "max": {"memory": "2Gi"}}, 1, True),
        ({"type": "Container", "max": {"memory": "1Gi"}}, 1, False),
        ({"type": "Container", "max": {"cpu": "1"}}, 1, False),  # no limit is specified
        ({"type": "Container", "min": {"cpu": "500m", "memory": "1Gi"}}, 1, True),
        ({"type": "Container", "min": {"cpu": "501m"}}, 1, False),
        ({"type": "Container", "min": {"ephemeral-storage": "1"}}, 1, False),  # no request is specified
        ({"type": "Pod", "max": {"memory": "4Gi"}}, 2, True),
        ({"type": "Pod", "max": {"memory": "4Gi"}}, 3, False),
        ({"type": "Pod", "min": {"cpu": "1"}}, 1, False),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, 1, True),
    ],
)
def test_a_promise_of_pods_that_a_limit_range_refuses_is_left_alone(item: Any, containers: int, admitted: bool) -> None:
    document = {"metadata": {"name": "l", "namespace": "shop"}, "spec": {"limits": [item]}}
    own = msgspec.convert(document, wire.LimitRange)
    spec = _spec(REQUESTS, containers)
    promise = Promise("shop/deploy/api", "shop", "d", 9, wire.PodTemplate(spec=spec))

    assert within(spec, [own]) is admitted
    assert burst_of_promise(promise, PodPriorities({}), ranges=[own]).count == (9 if admitted else 0)
