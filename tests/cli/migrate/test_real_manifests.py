"""Manifests made after reports of users: what `migrate` prints, `plan` keeps. All names and sizes are invented."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cli.build import listed, node
from tests.cli.conftest import Run

INPUTS = Path(__file__).parents[1] / "real_inputs"
AT = ("--at", "2026-05-04T10:00:00Z")


def migrated(run: Run, tmp_path: Path, name: str) -> tuple[Path, list[dict[str, Any]], str]:
    found = run("migrate", "-f", INPUTS / name)
    assert found.code == 0, found.stderr
    path = tmp_path / "policy.yaml"
    path.write_text(found.stdout)
    return path, list(yaml.safe_load_all(found.stdout)), found.stderr


def test_a_ladder_keeps_its_replicas_at_the_size_of_the_nodes(run: Run, tmp_path: Path) -> None:
    """80 cores are in the step from 64: three replicas; with 15 at most."""
    path, (policy,), said = migrated(run, tmp_path, "ladder-by-cores.yaml")
    assert policy["spec"]["extraCapacity"]["ceiling"] == {"cpu": "15", "memory": "30Gi"}
    (warning,) = said.splitlines()
    assert "the ceiling (15 cpu, 30Gi memory) holds in each resource" in warning
    found = run("plan", "-f", path, "--snapshot", INPUTS / "80-cores.json", *AT, "-o", "json")
    (item,) = json.loads(found.stdout)["items"]
    assert item["planned"] == item["desired"] == {"cpu_millis": 3000, "memory_bytes": 6 << 30}


def test_a_deployment_at_zero_is_told_and_the_others_are_migrated(run: Run, tmp_path: Path) -> None:
    _, policies, said = migrated(run, tmp_path, "one-at-zero.yaml")
    assert [policy["metadata"]["name"] for policy in policies] == ["warm-general", "warm-day"]
    assert [policy["spec"]["extraCapacity"]["floor"]["cpu"] for policy in policies] == ["2", "2500m"]
    assert said.startswith("warning: Deployment ops/warm-night: it has no replicas")


def test_a_buffer_of_half_a_workload_is_not_cut(run: Run, tmp_path: Path) -> None:
    path, _, said = migrated(run, tmp_path, "buffer-by-percentage.yaml")
    assert said == ""
    found = run("plan", "-f", path, "--snapshot", INPUTS / "10-replicas.json", *AT, "-o", "json")
    (item,) = json.loads(found.stdout)["items"]
    assert [(shape["role"], shape["count"]) for shape in item["shapes"]] == [("mirror", 5)]


def test_room_that_a_job_keeps_once_is_a_floor_with_a_warning(run: Run, tmp_path: Path) -> None:
    _, (policy,), said = migrated(run, tmp_path, "one-time-job.yaml")
    assert policy["spec"]["extraCapacity"]["floor"] == {"cpu": "2", "memory": "2000Mi"}
    assert said.startswith("warning: Job sale-capacity: a Job keeps its room until it has been used once")


def test_who_else_sets_the_replicas_is_told_with_its_windows(run: Run, tmp_path: Path) -> None:
    _, (policy,), said = migrated(run, tmp_path, "scaled-by-cron.yaml")
    assert policy["spec"]["extraCapacity"]["floor"] == {"cpu": "2", "memory": "4Gi"}
    assert "ScaledObject kube-system/overprovisioning sets the replicas of overprovisioning from 0 to 20" in said
    assert "20 replicas from '30 7 * * 1-5' to '0 18 * * 1-5', Europe/Berlin" in said


def test_placeholders_of_gpus_alone_are_kept_as_gpus(run: Run, tmp_path: Path) -> None:
    path, (policy,), said = migrated(run, tmp_path, "gpu-alone.yaml")
    assert policy["spec"]["extraCapacity"]["floor"] == {"nvidia.com/gpu": "2"}
    assert "its pods request no cpu and no memory" in said
    cluster = tmp_path / "cluster.json"
    gpus = [node(f"g{n}", "16", "64Gi", pool="gpu") for n in range(2)]
    for each in gpus:
        each["status"]["allocatable"]["nvidia.com/gpu"] = "4"
        each["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    cluster.write_text(listed(node("n1"), *gpus))
    found = run("plan", "-f", path, "--snapshot", cluster, *AT, "-o", "json")
    (item,) = json.loads(found.stdout)["items"]
    assert item["planned"]["nvidia.com/gpu"] == 2


def test_headroom_on_each_node_is_told_and_what_has_a_counterpart_is_migrated(run: Run, tmp_path: Path) -> None:
    _, (policy,), said = migrated(run, tmp_path, "headroom-on-each-node.yaml")
    assert policy["metadata"]["name"] == "overprovisioning"
    assert said.startswith("warning: DaemonSet kube-system/headroom: it keeps room on each node that there is")


def test_placeholders_of_a_notebook_hub_keep_their_scheduler_and_pool(run: Run, tmp_path: Path) -> None:
    _, (policy,), said = migrated(run, tmp_path, "notebook-placeholders.yaml")
    assert said == ""
    spec = policy["spec"]
    assert spec["nodeSelector"] == {"hub.jupyter.org/node-purpose": "user"}
    assert spec["schedulerName"] == "lab-user-scheduler"
    assert spec["extraCapacity"]["floor"] == {"memory": "5000000000", "cpu": "250m"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "hub.jupyter.org/dedicated",
        "hub.jupyter.org_dedicated",
    ]


def test_a_charts_ladder_is_found_though_its_objects_name_no_namespace(run: Run, tmp_path: Path) -> None:
    written = run("migrate", "-f", INPUTS / "chart-of-ladders.yaml", "--node-cpu", "4")
    assert written.code == 0, written.stderr
    steps = yaml.safe_load(written.stdout)["spec"]["extraCapacity"]["ladder"]
    assert [(step["fromAllocatable"]["cpu"], step.get("floor", {}).get("cpu", "0")) for step in steps] == [
        ("0", "1"), ("18", "2"), ("38", "0"),
    ]  # fmt: skip
    assert "CronJob cronjob-cas-night (0 18 * * 1-5) changes the size at that time" in written.stderr


def test_a_buffer_of_a_rollout_becomes_an_annotation_of_its_pods(run: Run, tmp_path: Path) -> None:
    spec = {"scalableRef": {"apiGroup": "argoproj.io", "kind": "Rollout", "name": "api"}, "percentage": 50}
    container = {"name": "app", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {"replicas": 6, "template": {"spec": {"containers": [container]}}},
    }
    metadata = {"name": "room", "namespace": "shop"}
    wanted = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": metadata,
        "spec": spec,
    }
    (tmp_path / "buffer.yaml").write_text(yaml.safe_dump_all([wanted, rollout]))
    found = run("migrate", "-f", "buffer.yaml")
    assert (found.code, found.stderr) == (0, "")
    said = " ".join(found.stdout.replace("#", "").split())
    assert 'write resource-slack.io/reserve: "50%" into the annotations of its pod template' in said
    (tmp_path / "policy.yaml").write_text(found.stdout)
    cluster = json.loads((INPUTS / "argo-rollout.json").read_text())
    for item in cluster["items"]:
        if item["kind"] == "Pod":
            item["metadata"]["annotations"] = {"resource-slack.io/reserve": "50%"}
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    planned = run("plan", "-f", "policy.yaml", "--snapshot", "cluster.json", *AT, "-o", "json")
    (shape,) = json.loads(planned.stdout)["items"][0]["shapes"]
    assert (shape["role"], shape["count"], shape["for"]) == ("mirror", 3, ["shop/rollout/api"])
