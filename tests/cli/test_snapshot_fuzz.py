"""A snapshot of which one field is anything else: planned, or refused with exit code 2; never a mistake of ours."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.build import Json, node, pod, slack_policy
from tests.cli.conftest import Run

EVIL: list[Any] = [
    *(None, 0, -1, 1 << 31, -(1 << 31) - 1, 1 << 63, 1 << 64, 10**400, 1e308, True),
    *("", "x", "9" * 5000, "NaN", "1e400", "-5", "\x00\u202e", [], {}, [None], {"a": None}),
]


def _cluster() -> list[Json]:
    tainted = node("web-0", pool="web")
    tainted["spec"]["taints"] = [{"key": "a", "value": "b", "effect": "NoSchedule"}]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "api"}}}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": "pool", "operator": "In", "values": ["web"]}
    constrained = pod(
        "api-1a-0",
        "web-0",
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "podAntiAffinity": {required: [term]},
        },
        topologySpreadConstraints=[spread],
        overhead={"cpu": "1m"},
    )
    template = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}}
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "shop", "annotations": {"resource-slack.io/reserve": "1"}},
        "spec": {"replicas": 3, "template": template},
    }
    windows = [{"cron": "0 8 * * *", "duration": "1h", "minRate": 0.5, "timeZone": "UTC"}]
    policy = slack_policy({"extraCapacity": {"minRate": 0.2, "floor": {"cpu": "1"}, "schedule": windows}})
    return [tainted, node("web-1", pool="web"), constrained, pod("api-1a-1", None), deployment, policy]


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from paths(member, (*path, key))


def _written(path: tuple[str | int, ...], value: Any) -> str:
    items: Any = copy.deepcopy(_cluster())
    place = items
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(path=st.sampled_from(list(paths(_cluster()))), value=st.sampled_from(EVIL))
def test_whatever_one_field_is_the_snapshot_is_planned_or_refused(
    run: Run, path: tuple[str | int, ...], value: Any
) -> None:
    snapshot = _written(path, value)
    for words in (("plan",), ("explain", "-n", "shop", "deploy/api")):
        found = run(*words, "--snapshot", "-", stdin=snapshot)
        assert found.code in (0, 2, 3), found.stderr
        assert found.code != 2 or "stdin" in found.stderr or "deploy" in found.stderr, found.stderr
