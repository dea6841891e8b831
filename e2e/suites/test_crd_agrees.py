"""The API server and the command line refuse the same policies: one set of models, two judges."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.backend import Backend
from e2e.harness.operator import install
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.kubeconfig import connect
from slack.kube.paths import resource_path
from slack.planner.policy import API_VERSION, KIND, BadPolicy, parse_policy

Spec = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "slackpolicy.yaml"
DAYS: Spec = {"cron": "0 7 * * 1-5", "duration": "12h", "minRate": 0.3}
START, UNTIL = "2026-11-27T06:00:00Z", "2026-11-28T06:00:00+01:00"
BIG = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 1}


def sized(**fields: Any) -> Spec:
    return {"extraCapacity": fields}


def window(**fields: Any) -> Spec:
    return sized(schedule=[fields])


GOOD: tuple[Spec, ...] = (
    {},
    sized(minRate=0, floor={"cpu": 2, "memory": "4Gi"}, ceiling={"cpu": "64"}),
    sized(minRate=1),
    sized(floor={"cpu": "500m"}, ceiling={"cpu": "0.5"}),
    sized(schedule=[DAYS, {"start": START, "until": UNTIL, "replicas": 3}]),
    sized(ladder=[{"fromNodes": 0, "minRate": 0.5}, {"fromRequested": {"cpu": "100"}, "minRate": 0.1}]),
    {"nodeSelector": {"pool": "web", "topology.kubernetes.io/zone": "a", "empty": ""}, "perDomain": "Zone"},
    {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a.b/c", "value": "x", "effect": "NoExecute"}]},
    {"cover": {"mode": "None", "coverage": 1, "exclude": [{"ownerKind": "StatefulSet"}]}, "granularity": 1},
    {"stabilization": {"shrinkDelay": "1h30m"}, "dryRun": True},
    {"nodeTemplates": [{"name": "gpu", "labels": {"a": "b"}, "allocatable": BIG}]},
    {"nodeTemplates": [{"name": "gpu", "taints": [{"key": "a.b/c", "effect": "NoSchedule"}], "allocatable": BIG}]},
)
BAD: tuple[tuple[Spec, str], ...] = (
    (sized(minRate=-1), "spec.extraCapacity.minRate"),
    (sized(minRate="10%"), "spec.extraCapacity.minRate"),
    (sized(minRate=11), "spec.extraCapacity.minRate"),
    ({"unknown": 1}, "spec.unknown"),
    (sized(floor={"cpu": "3"}, ceiling={"cpu": "2500m"}), "spec.extraCapacity"),
    (sized(floor={"cpu": "-1"}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": -1}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": "many"}), "spec.extraCapacity.floor"),
    (sized(replicas=-1), "spec.extraCapacity.replicas"),
    (sized(replicas=1.5), "spec.extraCapacity.replicas"),
    (window(cron="0 7 * * *", minRate=1), "spec.extraCapacity.schedule[0]"),
    (window(cron="0 7 * * *", duration="0h", minRate=0.1), "spec.extraCapacity.schedule[0]"),
    (window(cron="0 7 * * *", duration="1h"), "spec.extraCapacity.schedule[0]"),
    (window(**DAYS, start=START, until=UNTIL), "spec.extraCapacity.schedule[0]"),
    (window(start=START, minRate=0.1), "spec.extraCapacity.schedule[0]"),
    (window(start=UNTIL, until=START, minRate=0.1), "spec.extraCapacity.schedule[0]"),
    (window(start="2026-11-27T06:00:00", until=UNTIL, minRate=0.1), "spec.extraCapacity.schedule[0]"),
    (sized(ladder=[{"minRate": 0.1}]), "spec.extraCapacity.ladder[0]"),
    (sized(ladder=[{"fromNodes": 1}]), "spec.extraCapacity.ladder[0].minRate"),
    ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations[0]"),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, "spec.tolerations[0]"),
    ({"cover": {"exclude": [{}]}}, "spec.cover.exclude[0]"),
    ({"cover": {"coverage": 0}}, "spec.cover.coverage"),
    ({"cover": {"mode": "Some"}}, "spec.cover.mode"),
    ({"cover": {"maxShapes": 0}}, "spec.cover.maxShapes"),
    ({"granularity": 0}, "spec.granularity"),
    ({"stabilization": {"shrinkDelay": "10 minutes"}}, "spec.stabilization.shrinkDelay"),
    ({"stabilization": {"shrinkDelay": "-5m"}}, "spec.stabilization.shrinkDelay"),
    ({"nodeSelector": {"bad key": "x"}}, "spec.nodeSelector"),
    ({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector"),
    ({"nodeTemplates": [{"name": "x", "allocatable": {"cpu": "1"}}]}, "spec.nodeTemplates[0]"),
    ({"nodeTemplates": [{"allocatable": {"cpu": "1", "memory": "1Gi"}}]}, "spec.nodeTemplates[0].name"),
)


@pytest.fixture
def connection(cluster: Backend) -> Iterator[Connection]:
    install(cluster)
    found = connect(cluster.kubeconfig, None)
    yield found
    found.close()


def document(spec: Spec, name: str = "web") -> Spec:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def server_says(connection: Connection, manifest: Spec) -> str:
    """What the API server has against a policy, as kubectl would send it; nothing is stored."""
    path = resource_path(API_VERSION, "slackpolicies")
    try:
        connection.request("POST", path, query={"dryRun": "All", "fieldValidation": "Strict"}, body=manifest)
    except ApiError as error:
        return error.message
    return ""


def command_says(manifest: Spec) -> str:
    try:
        parse_policy(manifest, source="file")
    except BadPolicy as error:
        return str(error)
    return ""


def test_both_take_what_is_good(connection: Connection) -> None:
    examples = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for manifest in [*map(document, GOOD), *examples]:
        assert server_says(connection, manifest) == "", manifest
        assert command_says(manifest) == "", manifest


def test_both_refuse_what_is_bad_and_name_the_field(connection: Connection) -> None:
    for spec, field in BAD:
        assert field in server_says(connection, document(spec)), spec
        assert field in command_says(document(spec)), spec


def test_a_name_that_is_no_label_value_is_refused(connection: Connection) -> None:
    assert "metadata.name" in server_says(connection, document({}, "x" * 64))
