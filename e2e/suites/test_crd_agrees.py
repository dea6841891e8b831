"""The API server and the command line refuse the same policies: one set of models, two judges."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.cluster.backend import Backend
from e2e.harness.product.operator import install
from slack.cluster.amounts import NO_CORES, NO_RESOURCE, TOO_FEW_BYTES
from slack.cluster.image_names import NO_IMAGE
from slack.cluster.labels import API_VERSION
from slack.cluster.rates import NEEDS_CEILING
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.kubeconfig import connect
from slack.kube.paths import resource_path
from slack.planner.policy.placeholders import ANNOTATION_TAKEN, LABEL_TAKEN, LOCAL_PROFILE, NO_SECRET
from slack.planner.policy.spec import KIND, ONE_NUMBER, InvalidPolicy, parse_policy
from slack.planner.policy.warm import NO_BYTES, NO_IMAGES

Spec = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "slackpolicy.yaml"
DAYS: Spec = {"cron": "0 7 * * 1-5", "duration": "12h", "minRate": 0.3}
RAISED: Spec = {"cron": "0 7 * * 1-5", "duration": "12h", "floor": {"cpu": "4"}}
START, UNTIL = "2026-11-27T06:00:00Z", "2026-11-28T06:00:00+01:00"
BIG = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 1}


def sized(**fields: Any) -> Spec:
    return {"extraCapacity": fields}


def window(**fields: Any) -> Spec:
    return sized(schedule=[fields])


def selected(*requirements: Spec) -> Spec:
    return {"reserve": {"namespaces": {"matchExpressions": list(requirements)}}}


REQUIREMENTS: tuple[Spec, ...] = (
    {"key": "team", "operator": "In", "values": ["shop", "search"]},
    {"key": "a.b/c", "operator": "NotIn", "values": ["x"]},
    {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
    {"key": "lent", "operator": "DoesNotExist"},
)
GOOD: tuple[Spec, ...] = (
    {},
    sized(minRate=0, floor={"cpu": 2, "memory": "4Gi"}, ceiling={"cpu": "64"}),
    sized(minRate=1),
    sized(minRate=2.5, ceiling={"cpu": 4, "memory": "8Gi"}),
    sized(ladder=[{"fromNodes": 0, "minRate": 3}], ceiling={"cpu": 4, "memory": "8Gi", "pods": 100}),
    sized(floor={"cpu": "500m"}, ceiling={"cpu": "0.5"}),
    sized(schedule=[DAYS, {"start": START, "until": UNTIL, "replicas": 3}]),
    sized(ladder=[{"fromNodes": 0, "minRate": 0.5}, {"fromRequested": {"cpu": "100"}, "minRate": 0.1}]),
    sized(ladder=[{"fromAllocatable": {"cpu": "64"}, "minRate": 0, "floor": {"cpu": "3", "memory": "6Gi"}}]),
    {"nodeSelector": {"pool": "web", "topology.kubernetes.io/zone": "a", "empty": ""}, "perDomain": "Zone"},
    {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a.b/c", "value": "x", "effect": "NoExecute"}]},
    {"cover": {"mode": "None", "coverage": 1, "exclude": [{"ownerKind": "StatefulSet"}]}, "granularity": 1},
    {"stabilization": {"shrinkDelay": "1h30m"}, "dryRun": True},
    {"reserve": {"namespaces": {}, "maxShare": 0, "ceiling": {"cpu": "2", "nvidia.com/gpu": 1, "pods": 100}}},
    selected(*REQUIREMENTS),
    {"objective": {"instantStart": 0.99, "prices": {"cpu": 0.03, "memory": 0}, "maxCostPerHour": 2}},
    {"objective": {"instantStart": 0.99, "maxCostPerHour": 2}},
    {"objective": {"instantStart": 0.5}, **sized(floor={"cpu": 1}, ladder=[], schedule=[RAISED])},
    sized(ceiling={"cpu": "2k", "memory": 0, "ephemeral-storage": "1Mi", "hugepages-2Mi": "2Mi"}),
    sized(ceiling={"cpu": "0.5", "memory": 1048576, "attachable-volumes-aws-ebs": 25, "a.b.c/d_e": "1"}),
    {"nodeTemplates": [{"name": "gpu", "labels": {"a": "b"}, "allocatable": BIG}]},
    {"capacityBuffers": "Count"},
    {"placeholders": {"limits": "Requests", "imagePullSecrets": [{"name": "corp.registry-1"}]}},
    {"placeholders": {"labels": {"team": "a", "app.kubernetes.io/name": "x"}, "annotations": {"owner": "a@b.c: d"}}},
    {"warm": {"images": "None", "imageList": ["r.example.com:5000/a/b:1", "redis"], "maxBytesPerNode": "30Gi"}},
    {"warm": {"minShare": 0, "maxBytesPerNode": 1, "imagePullSecrets": [{"name": "corp"}]}},
    {"nodeTemplates": [{"name": "gpu", "taints": [{"key": "a.b/c", "effect": "NoSchedule"}], "allocatable": BIG}]},
)
OBJECTIVE: Spec = {"instantStart": 0.99}
EXCLUDED = "objective is in place of extraCapacity's minRate, replicas, nodes and ladder"
BAD: tuple[tuple[Spec, str], ...] = (
    ({"reserve": {"maxShare": -1}}, "spec.reserve.maxShare"),
    ({"reserve": {"maxShare": 11}}, "spec.reserve.maxShare"),
    ({"reserve": {"maxShare": "50%"}}, "spec.reserve.maxShare"),
    ({"reserve": {"ceiling": {"cpu": "-1"}}}, "spec.reserve.ceiling"),
    ({"reserve": {"ceiling": {"pods": "many"}}}, "spec.reserve.ceiling"),
    ({"reserve": {"namespace": "shop"}}, "spec.reserve.namespace"),
    ({"reserve": {"namespaces": {"matchLabels": {"bad key": "x"}}}}, "spec.reserve.namespaces.matchLabels"),
    (selected({"operator": "Exists"}), "spec.reserve.namespaces.matchExpressions[0].key"),
    (selected({"key": "", "operator": "Exists"}), "spec.reserve.namespaces.matchExpressions[0]"),
    (selected({"key": "team", "operator": "Is", "values": ["a"]}), "matchExpressions[0].operator"),
    (selected({"key": "team", "operator": "In"}), "spec.reserve.namespaces.matchExpressions[0]"),
    (selected({"key": "team", "operator": "NotIn", "values": []}), "spec.reserve.namespaces.matchExpressions[0]"),
    (selected({"key": "team", "operator": "Exists", "values": ["a"]}), "spec.reserve.namespaces.matchExpressions[0]"),
    (sized(minRate=-1), "spec.extraCapacity.minRate"),
    (sized(minRate="10%"), "spec.extraCapacity.minRate"),
    (sized(minRate=11), "spec.extraCapacity.minRate"),
    (sized(minRate=10), NEEDS_CEILING),
    (sized(minRate=1.001, ceiling={"cpu": "4"}), NEEDS_CEILING),
    (sized(minRate=2, ceiling={"memory": "4Gi", "pods": 3}), NEEDS_CEILING),
    (sized(minRate=0.1, ladder=[{"fromNodes": 0, "minRate": 0.1}, {"fromNodes": 9, "minRate": 2}]), NEEDS_CEILING),
    (window(**{**DAYS, "minRate": 5}), NEEDS_CEILING),
    ({"unknown": 1}, "spec.unknown"),
    ({"warm": {"imageList": ["http://r.example.com/a"]}}, NO_IMAGE),
    ({"warm": {"imageList": ["a:1", "App"]}}, NO_IMAGE),
    ({"warm": {"images": "None"}}, NO_IMAGES),
    ({"warm": {"images": "All"}}, "spec.warm.images"),
    ({"warm": {"maxBytesPerNode": "-1Gi"}}, NO_BYTES),
    ({"warm": {"maxBytesPerNode": -1}}, NO_BYTES),
    ({"warm": {"maxBytesPerNode": 0}}, NO_BYTES),
    ({"warm": {"maxBytesPerNode": "30GB"}}, NO_BYTES),
    ({"warm": {"minShare": 1.5}}, "spec.warm.minShare"),
    ({"warm": {"imagePullSecrets": [{"name": "Corp"}]}}, NO_SECRET),
    (sized(floor={"cpu": "3"}, ceiling={"cpu": "2500m"}), "spec.extraCapacity"),
    (sized(floor={"cpu": "-1"}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": -1}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": "many"}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": 0.5}), "spec.extraCapacity.floor"),
    (sized(floor={"cpu": True}), "spec.extraCapacity.floor"),
    (sized(ceiling={"Cpu": "2"}), NO_RESOURCE),
    (sized(ceiling={"mem": "2Gi"}), NO_RESOURCE),
    (sized(floor={"CPU": 2}), NO_RESOURCE),
    (sized(floor={"Nvidia.com/gpu": 1}), NO_RESOURCE),
    (sized(ceiling={"cpu": "2Gi"}), NO_CORES),
    (sized(floor={"cpu": "512M"}), NO_CORES),
    (sized(ceiling={"memory": "64"}), TOO_FEW_BYTES),
    (sized(ceiling={"memory": 64}), TOO_FEW_BYTES),
    (sized(ceiling={"memory": "64m"}), TOO_FEW_BYTES),
    (sized(ceiling={"memory": "1023Ki"}), TOO_FEW_BYTES),
    (sized(floor={"ephemeral-storage": 10}), TOO_FEW_BYTES),
    (sized(ladder=[{"fromRequested": {"Cpu": "9"}, "minRate": 0.1}]), NO_RESOURCE),
    (window(**{**RAISED, "floor": {"memory": "4"}}), TOO_FEW_BYTES),
    ({"reserve": {"ceiling": {"gpu": "1"}}}, NO_RESOURCE),
    ({"nodeTemplates": [{"name": "x", "allocatable": {"cpu": "4Gi", "memory": "16Gi"}}]}, NO_CORES),
    ({"extra_capacity": {"minRate": 0.2}}, "spec.extra_capacity"),
    (sized(min_rate=0.2), "spec.extraCapacity.min_rate"),
    ({"node_selector": {"a": "b"}}, "spec.node_selector"),
    ({"dry_run": True}, "spec.dry_run"),
    ({"granularity": "5"}, "spec.granularity"),
    ({"makeWay": "yes"}, "spec.makeWay"),
    ({"dryRun": "true"}, "spec.dryRun"),
    (sized(replicas="5"), "spec.extraCapacity.replicas"),
    ({"cover": {"coverage": "0.9"}}, "spec.cover.coverage"),
    ({"cover": {"maxShapes": "3"}}, "spec.cover.maxShapes"),
    ({"stabilization": {"shapeTolerance": "0.1"}}, "spec.stabilization.shapeTolerance"),
    (window(**DAYS, nodes=1, replicas=1), ONE_NUMBER),
    (window(**DAYS, nodes=-1), "spec.extraCapacity.schedule[0].nodes"),
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
    ({"placeholders": {"labels": {"resource-slack.io/policy": "x"}}}, LABEL_TAKEN),
    ({"placeholders": {"labels": {"app.kubernetes.io/managed-by": "x"}}}, LABEL_TAKEN),
    ({"placeholders": {"labels": {"sidecar.istio.io/inject": "true"}}}, LABEL_TAKEN),
    ({"placeholders": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "x"}}}, ANNOTATION_TAKEN),
    ({"placeholders": {"annotations": {"dapr.io/enabled": "true"}}}, ANNOTATION_TAKEN),
    ({"placeholders": {"annotations": {"bad key": "true"}}}, "spec.placeholders"),
    ({"capacityBuffers": "Add"}, "spec.capacityBuffers"),
    ({"placeholders": {"limits": "Some"}}, "spec.placeholders.limits"),
    ({"placeholders": {"imagePullSecrets": [{"name": "A_b"}]}}, NO_SECRET),
    ({"placeholders": {"securityContext": {"runAsUser": 0}}}, "spec.placeholders.securityContext.runAsUser"),
    (
        {"placeholders": {"securityContext": {"supplementalGroups": [0]}}},
        "spec.placeholders.securityContext.supplementalGroups[0]",
    ),
    ({"placeholders": {"securityContext": {"seccompProfile": {"type": "Localhost"}}}}, LOCAL_PROFILE),
    ({"placeholders": {"securityContext": {"seccompProfile": {"localhostProfile": "x"}}}}, LOCAL_PROFILE),
    (
        {"placeholders": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
        "spec.placeholders.securityContext.seccompProfile.type",
    ),
    ({"cover": {"coverage": 0}}, "spec.cover.coverage"),
    ({"cover": {"mode": "Some"}}, "spec.cover.mode"),
    ({"cover": {"maxShapes": 0}}, "spec.cover.maxShapes"),
    ({"granularity": 0}, "spec.granularity"),
    ({"stabilization": {"shrinkDelay": "10 minutes"}}, "spec.stabilization.shrinkDelay"),
    ({"stabilization": {"shrinkDelay": "-5m"}}, "spec.stabilization.shrinkDelay"),
    ({"nodeSelector": {"bad key": "x"}}, "spec.nodeSelector"),
    ({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector"),
    ({"objective": {"instantStart": 0.99, "maxCostPerHour": -1}}, "spec.objective.maxCostPerHour"),
    ({"objective": {"instantStart": 0.99, "prices": {"cpu": "cheap"}}}, "spec.objective.prices"),
    ({"objective": {"instantStart": 0.99, "prices": {"cpu": -1}}}, "spec.objective.prices"),
    ({"objective": {}}, "spec.objective.instantStart"),
    ({"objective": {"instantStart": 99}}, "spec.objective.instantStart"),
    ({"objective": {"instantStart": 0.4}}, "spec.objective.instantStart"),
    ({"objective": {"instantStart": 0}}, "should be greater than or equal to 0.5"),
    ({"objective": {"instantStart": 1}}, "spec.objective.instantStart"),
    ({"objective": {"instantStart": 0.99, "prices": {"disk": 0.1}}}, "'cpu' or 'memory'"),
    ({"objective": {"instantStart": "0.99"}}, "spec.objective.instantStart"),
    ({"objective": OBJECTIVE, **sized(minRate=0)}, EXCLUDED),
    ({"objective": OBJECTIVE, **sized(replicas=0)}, EXCLUDED),
    ({"objective": OBJECTIVE, **sized(ladder=[{"fromNodes": 0, "minRate": 0.1}])}, EXCLUDED),
    ({"schedulerName": "resource-slack.io/unbound"}, "for unbound placeholders give hold: Unbound"),
    ({"objective": OBJECTIVE, **window(**DAYS)}, "with an objective a window of extraCapacity.schedule"),
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
    except InvalidPolicy as error:
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


def test_a_rate_is_not_raised_above_1_without_a_ceiling(connection: Connection) -> None:
    path = resource_path(API_VERSION, "slackpolicies")
    connection.request("POST", path, body=document(sized(minRate=0.1), "slip"))
    merge = "application/merge-patch+json"
    with pytest.raises(ApiError, match="needs extraCapacity"):
        connection.request("PATCH", f"{path}/slip", body=sized_patch(minRate=10), content_type=merge)
    bounded = sized_patch(minRate=10, ceiling={"cpu": "4", "memory": "8Gi"})
    connection.request("PATCH", f"{path}/slip", body=bounded, content_type=merge)
    with pytest.raises(ApiError, match="needs extraCapacity"):
        connection.request("PATCH", f"{path}/slip", body=sized_patch(ceiling=None), content_type=merge)


def sized_patch(**fields: Any) -> Spec:
    return {"spec": sized(**fields)}
