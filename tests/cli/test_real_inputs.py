"""Inputs made after reports of users: each command says what is right for them. All names and sizes are invented."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slack.cluster.load import read_cluster
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy as SlackPolicy
from slack.planner.policy.spec import parse_policy
from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace
from slack.simulator.traces.parquet import write_trace
from tests.cli.build import Json, listed, node, pod, slack_policy
from tests.cli.conftest import Policy, Run

INPUTS = Path(__file__).parent / "real_inputs"
FLOOR = {"floor": {"cpu": "2", "memory": "2Gi"}}
AT = ("--at", "2026-05-04T10:00:00Z")


def test_nodes_of_another_api_group_are_no_nodes(run: Run) -> None:
    found = run("plan", "--snapshot", INPUTS / "longhorn-nodes.json", *AT, "-o", "json")
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert (item["nodes"], item["base"]["cpu_millis"], item["planned"]["cpu_millis"]) == (4, 8000, 1000)


@pytest.mark.parametrize("kind", ["rollout", "rollouts", "ro", "rollouts.argoproj.io", "Rollout"])
def test_a_rollout_is_found_under_one_name_over_its_revisions(run: Run, kind: str) -> None:
    found = run("explain", "-n", "shop", f"{kind}/api", "--snapshot", INPUTS / "argo-rollout.json", *AT, "-o", "json")
    assert found.code == 0, found.stderr
    answer = json.loads(found.stdout)
    assert (answer["workload"], answer["pods"]) == ("shop/rollout/api", 6)


def test_a_custom_kind_is_found_by_its_plural_and_group(run: Run, tmp_path: Path) -> None:
    made = pod("web-0", "n1")
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": True}
    ]
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text(listed(node("n1"), made))
    for kind in ("cloneset", "clonesets", "clonesets.apps.kruise.io"):
        found = run("explain", "-n", "shop", f"{kind}/web", "--snapshot", snapshot, "-o", "json")
        assert json.loads(found.stdout)["workload"] == "shop/cloneset/web", found.stderr


@pytest.mark.parametrize("typed", [False, True])
def test_an_object_counts_only_if_its_api_group_is_the_one_that_is_meant(run: Run, tmp_path: Path, typed: bool) -> None:
    others = [
        {"apiVersion": f"example.com/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": {"containers": 5}}
        for version in ("v1", "v1alpha1")
        for kind in ("Pod", "Node", "Namespace", "Deployment", "Job", "PriorityClass", "ResourceQuota", "SlackPolicy")
    ]
    if typed:
        foreign = [
            {"apiVersion": other["apiVersion"], "kind": f"{other['kind']}List", "items": [{**other, "kind": None}]}
            for other in others
        ]
        documents = [json.loads(listed(node("n1"), pod("a", "n1"))), *foreign]
        text = "\n".join(json.dumps(document) for document in documents)
    else:
        text = listed(node("n1"), pod("a", "n1"), *others)
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text(text)
    found = run("plan", "--snapshot", snapshot, "-o", "json")
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert item["nodes"] == 1


def test_a_cluster_without_nodes_is_planned_for_by_its_node_templates(run: Run, policy: Policy, tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text(listed(pod("a", None)))
    template = {"name": "worker", "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    with_templates = policy({"extraCapacity": FLOOR, "nodeTemplates": [template]})
    found = run("plan", "-f", with_templates, "--snapshot", snapshot, "-o", "json")
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert item["planned"]["cpu_millis"] >= 2000
    without = run("plan", "-f", policy({"extraCapacity": FLOOR}), "--snapshot", snapshot)
    assert without.code == 2
    assert "it has no nodes" in without.stderr


def test_a_floor_in_pieces_of_a_whole_node_leaves_their_room_to_daemon_sets(run: Run) -> None:
    found = run(
        "plan", "-f", INPUTS / "spare-node.yaml", "--snapshot", INPUTS / "spare-node-cluster.json", *AT, "-o", "json"
    )
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert [(shape["count"], shape["requests"]["cpu_millis"]) for shape in item["shapes"]] == [(2, 7810)]


def test_whole_spare_nodes_are_asked_for_by_their_number(run: Run, policy: Policy) -> None:
    path = policy({"extraCapacity": {"nodes": 2}, "cover": {"mode": "None"}})
    found = run("plan", "-f", path, "--snapshot", INPUTS / "spare-node-cluster.json", *AT)
    assert found.code == 0, found.stderr
    assert "(2 whole nodes)" in found.stdout
    assert "7810m cpu" in found.stdout


def test_a_pod_that_claims_devices_is_not_promised_a_start(run: Run) -> None:
    asked = ("explain", "-n", "ml", "deploy/infer", "--snapshot", INPUTS / "device-claims.json", *AT)
    text, found = run(*asked), run(*asked, "-o", "json")
    assert (text.code, found.code) == (0, 0), found.stderr
    assert "starts there without waiting" not in text.stdout
    assert "starts there is not known: it claims devices (spec.resourceClaims), which are not checked" in " ".join(
        text.stdout.split()
    )
    answer = json.loads(found.stdout)
    assert (answer["ready"], [room["bound"] for room in answer["rooms"]]) == (False, [1])
    assert answer["unknown"] == ["it claims devices (spec.resourceClaims), which are not checked"]


def test_gated_pods_are_no_demand(run: Run) -> None:
    found = run("plan", "--snapshot", INPUTS / "gated-pods.json", *AT, "-o", "json")
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert (item["base"]["cpu_millis"], item["desired"]["cpu_millis"]) == (8000, 800)


def test_capacity_on_nodes_that_have_its_pods_does_not_help_a_workload_that_avoids_itself(run: Run) -> None:
    found = run(
        "explain", "-n", "db", "deploy/prod-redis", "--snapshot", INPUTS / "anti-affinity.json", *AT, "-o", "json"
    )
    assert found.code == 0, found.stderr
    answer = json.loads(found.stdout)
    assert not answer["ready"]
    assert any("anti-affinity" in text for text in [*answer["warnings"], *answer["reasons"]])


def test_a_mirror_is_as_large_as_a_vertical_pod_autoscaler_has_made_its_pods(run: Run) -> None:
    found = run(
        "explain", "-n", "shop", "deploy/api", "-f", INPUTS / "mirrors-only.yaml",
        "--snapshot", INPUTS / "vpa-mirror.json", *AT, "-o", "json",
    )  # fmt: skip
    assert found.code == 0, found.stderr
    (room,) = [room for room in json.loads(found.stdout)["rooms"] if room["role"] == "mirror"]
    assert (room["requests"]["cpu_millis"], room["requests"]["memory_bytes"]) == (2000, 4 << 30)


def test_a_pod_that_avoids_other_apps_pods_may_have_its_like_beside_it(run: Run, tmp_path: Path) -> None:
    given: dict[str, Any] = json.loads((INPUTS / "trace-anti-affinity.json").read_text())
    started, ended = (datetime.fromisoformat(given[name]) for name in ("started_at", "ended_at"))
    pods, nodes = (
        tuple(PodTraceRow(**row) for row in given["pods"]),
        tuple(NodeTraceRow(**row) for row in given["nodes"]),
    )

    def hours(pods: tuple[PodTraceRow, ...]) -> tuple[float, str]:
        (tmp_path / "trace.parquet").write_bytes(write_trace(Trace(started, ended, "watch", pods, nodes)))
        found = run("simulate", "--trace", "trace.parquet", "--compare", "none", "-o", "json")
        assert found.code == 0, found.stderr
        (item,) = json.loads(found.stdout)["items"]
        return round(item["node_hours"], 1), found.stderr

    free = tuple(PodTraceRow(**{**row, "constraints_json": ""}) for row in given["pods"])
    labelled = tuple(PodTraceRow(**{**row, "labels_json": '{"app":"web"}'}) for row in given["pods"])
    assert hours(free) == (6.1, "")
    told = "the trace has no labels of pods: the anti-affinity of shop/deploy/web is left out"
    assert (found := hours(pods))[0] == 6.1
    assert told in found[1]
    assert (found := hours(labelled))[0] == 6.1
    assert told not in found[1]


def test_a_mirror_keeps_empty_selectors_of_namespaces_and_of_pods() -> None:
    name = "namespace-selector-all.json"
    now = datetime.fromisoformat(AT[1]).timestamp()
    snapshot = read_cluster((INPUTS / name).read_bytes(), source=name, now=now).snapshot(now)
    policy: SlackPolicy = parse_policy(slack_policy({"extraCapacity": {"minRate": 0}}), source="policy")
    (item,) = plan(snapshot, [policy], now=now).items
    (mirror,) = [shape.shape for shape in item.shapes if shape.role == "mirror"]
    host = {"topologyKey": "kubernetes.io/hostname"}
    assert json.loads(mirror.anti_affinity) == [
        {**host, "labelSelector": {"matchLabels": {"noisy": "true"}}, "namespaceSelector": {}},
        {**host, "labelSelector": {}, "namespaces": ["batch"]},
    ]


def _container(cpu: str, memory: str, **more: Any) -> Json:
    return {"name": f"c-{cpu}", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def _daemon(*init: Json, on: str = "n0", **annotations: str) -> Json:
    made = pod(f"agent-{on}", on, "10m", "10Mi", app="agent", initContainers=list(init))
    kind = "ExtendedDaemonSetReplicaSet" if annotations else "DaemonSet"
    made["metadata"] |= {
        "annotations": annotations,
        "ownerReferences": [{"kind": kind, "name": "a", "controller": True}],
    }
    return made


_MARKED = {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
_SIDECARS = [
    _container("250m", "256Mi", restartPolicy="Always"),
    _container("4100m", "1Gi"),
    _container("500m", "64Mi", restartPolicy="Always"),
]
_CPU_ALONE = {"name": "main", "resources": {"requests": {"cpu": "100m"}}}
_ACI = {"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}
_SPOT = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}


def _tainted(made: Json, taint: Json) -> Json:
    return {**made, "spec": {"taints": [taint]}}


@pytest.mark.parametrize(
    ("items", "cpu_millis", "memory_bytes"),
    [
        ([pod("a", "n0", "4", "1Gi", initContainers=_SIDECARS)], 4750, 1344 << 20),
        ([pod("a", "n0", "4", "1181116006400m")], 4000, 1_181_116_007),
        ([pod("a", "n0", containers=[_CPU_ALONE], resources={"limits": {"cpu": "2", "memory": "2Gi"}})], 100, 2 << 30),
        ([pod("a", "n0", "1", "1Gi"), *(_daemon(on=n, **_MARKED) for n in ("n0", "n1"))], 1000, 1 << 30),
        ([pod("a", "n0", "1", "1Gi"), _tainted(node("aci", "10k", "40Ti"), _ACI)], 1000, 1 << 30),
        ([pod("a", "spot", "1", "1Gi"), _tainted(node("spot"), _SPOT)], 1000, 1 << 30),
    ],
    ids=[
        "sidecars",
        "thousandths of bytes",
        "limits of the pod",
        "custom DaemonSet",
        "virtual node",
        "interrupted node",
    ],
)
def test_the_base_is_what_the_scheduler_counts(
    run: Run, tmp_path: Path, items: list[Json], cpu_millis: int, memory_bytes: int
) -> None:
    (tmp_path / "cluster.json").write_text(listed(node("n0", "8", "32Gi"), node("n1", "8", "32Gi"), *items))
    found = run("plan", "--snapshot", "cluster.json", *AT, "-o", "json")
    assert found.code == 0, found.stderr
    (item,) = json.loads(found.stdout)["items"]
    assert (item["base"]["cpu_millis"], item["base"]["memory_bytes"]) == (cpu_millis, memory_bytes)


def test_a_whole_node_is_less_what_the_init_containers_of_its_daemon_set_need(
    run: Run, policy: Policy, tmp_path: Path
) -> None:
    nodes = [node(f"n{n}", "8", "32Gi") for n in range(2)]
    daemons = [_daemon(_container("500m", "1Gi"), on=f"n{n}") for n in range(2)]
    (tmp_path / "cluster.json").write_text(listed(*nodes, *daemons))
    spec = {"extraCapacity": {"nodes": 1}, "cover": {"mode": "None"}}
    found = run("plan", "-f", policy(spec), "--snapshot", "cluster.json", *AT, "-o", "json")
    assert found.code == 0, found.stderr
    (shape,) = json.loads(found.stdout)["items"][0]["shapes"]
    assert (shape["count"], shape["requests"]["cpu_millis"], shape["requests"]["memory_bytes"]) == (1, 7500, 31 << 30)
