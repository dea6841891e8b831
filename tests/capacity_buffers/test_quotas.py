"""What ResourceQuotas leave for chunks, case by case."""

from typing import Any

import msgspec

from slack.capacity_buffers.quotas import QuotaLedger, count_allowed, quota_usage, take
from slack.capacity_buffers.sizes import LARGEST_COUNT
from tests.capacity_buffers.scenes import pod_spec, quota
from tests.cases import run_for_each

CHUNK = {"cpu": 500, "memory": (1 << 30) * 1000, "nvidia.com/gpu": 1000}


def _allowed(
    ledger: QuotaLedger, count: int, namespace: str = "shop", spec: Any = None, requests: Any = None
) -> tuple[int, tuple[str, ...]]:
    chunk = CHUNK if requests is None else requests
    return count_allowed(ledger.matching(namespace, spec or pod_spec(), chunk), quota_usage(chunk), count)


@run_for_each(
    ("hard", "used", "allowed"),
    [
        ({"requests.cpu": "10"}, {"requests.cpu": "8"}, 4),
        ({"cpu": "10"}, {"cpu": "7900m"}, 4),
        ({"requests.memory": "10Gi"}, {"requests.memory": "4Gi"}, 6),
        ({"memory": "10Gi"}, {"memory": "9.5Gi"}, 0),
        ({"requests.nvidia.com/gpu": "3"}, {}, 3),
        ({"pods": "20"}, {"pods": "13"}, 7),
        ({"count/pods": "20"}, {"count/pods": "25"}, 0),
        ({"requests.cpu": "10"}, {"requests.cpu": "12"}, 0),  # used beyond hard
        ({"requests.cpu": "0"}, {}, 0),
        ({"limits.cpu": "1"}, {}, 50),  # requests only
        ({"services": "0"}, {}, 50),
        ({"requests.cpu": "10", "requests.memory": "3Gi"}, {}, 3),
    ],
)
def test_a_quota_allows_what_it_has_left(hard: Any, used: Any, allowed: int) -> None:
    fewer, names = _allowed(QuotaLedger.from_quotas([quota(hard, used)]), 50)

    assert (fewer, names) == (allowed, ("q",) if allowed < 50 else ())


def _scoped(scope: str, operator: str = "Exists", values: Any = None) -> Any:
    expression = {"scopeName": scope, "operator": operator, **({} if values is None else {"values": values})}
    return {"scopeSelector": {"matchExpressions": [expression]}}


AFFINE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaces": ["other"]}]
    }
}
OWN_NAMESPACE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "namespaces": [], "labelSelector": {"matchLabels": {"namespaces": "x"}}}
        ]
    }
}
WEIGHTED = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}
        ]
    }
}


@run_for_each(
    ("scopes", "fields", "requests", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, {}, CHUNK, True),
        ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 5}, CHUNK, True),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, CHUNK, False),
        ({"scopes": ["BestEffort"]}, {}, CHUNK, False),
        ({"scopes": ["BestEffort"]}, {}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, CHUNK, True),
        ({"scopes": ["NotBestEffort"]}, {}, {}, False),
        ({"scopes": ["NotBestEffort", "Terminating"]}, {}, CHUNK, False),  # all of them
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, CHUNK, True),
        ({"scopes": ["PriorityClass"]}, {}, CHUNK, False),
        (_scoped("PriorityClass", "In", ["high"]), {"priorityClassName": "high"}, CHUNK, True),
        (_scoped("PriorityClass", "In", ["high"]), {"priorityClassName": "low"}, CHUNK, False),
        (_scoped("PriorityClass", "NotIn", ["high"]), {}, CHUNK, True),
        (_scoped("PriorityClass", "DoesNotExist"), {}, CHUNK, True),
        (_scoped("PriorityClass", "DoesNotExist"), {"priorityClassName": "low"}, CHUNK, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": AFFINE}, CHUNK, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, CHUNK, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": OWN_NAMESPACE}, CHUNK, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": WEIGHTED}, CHUNK, True),
        ({"scopes": ["VolumeAttributesClass"]}, {}, CHUNK, False),
    ],
)
def test_a_quota_counts_within_its_scopes(scopes: Any, fields: Any, requests: Any, counts: bool) -> None:
    ledger = QuotaLedger.from_quotas([quota({"pods": "2"}, **scopes)])

    assert _allowed(ledger, 5, spec=pod_spec(**fields), requests=requests)[0] == (2 if counts else 5)


def test_earlier_buffers_of_a_namespace_leave_less() -> None:
    ledger = QuotaLedger.from_quotas([quota({"requests.cpu": "10"}), quota({"pods": "18"}, name="p")])

    assert _allowed(ledger, 15) == (15, ())
    take(ledger.matching("shop", pod_spec(), CHUNK), quota_usage(CHUNK), 15)
    assert _allowed(ledger, 15) == (3, ("p", "q"))
    assert _allowed(ledger, 15, "other") == (15, ())


def test_each_quota_that_allows_fewer_is_named() -> None:
    ledger = QuotaLedger.from_quotas([quota({"requests.cpu": "1"}, name="b"), quota({"pods": "3"}, name="a")])

    assert _allowed(ledger, 5) == (2, ("a", "b"))


def test_a_quota_that_was_not_counted_yet_is_taken_by_its_spec() -> None:
    fresh = quota({"pods": "2"})
    fresh = msgspec.structs.replace(fresh, status=None)

    assert _allowed(QuotaLedger.from_quotas([fresh]), 5)[0] == 2


def test_without_a_quota_nothing_is_cut() -> None:
    assert _allowed(QuotaLedger.from_quotas([]), LARGEST_COUNT) == (LARGEST_COUNT, ())
