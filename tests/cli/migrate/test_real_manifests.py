"""Manifests made after reports of users: what `migrate` prints, `plan` keeps. All names and sizes are invented."""

import json
from pathlib import Path
from typing import Any

import yaml

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
    assert said == ""
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
