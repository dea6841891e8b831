"""The try of a managed cluster: what it would run, what it measures, and the row that it prints."""

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cloud import __main__ as cloud
from e2e.cloud import measuring
from e2e.cloud.measuring import Burst, burst_manifest, ready_seconds
from e2e.cloud.providers import PROVIDERS
from slack.planner.policy.spec import parse_policy
from tests.cases import run_for_each

TABLE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()


@run_for_each("name", PROVIDERS)
def test_without_run_every_step_is_printed_and_no_program_starts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a dry run starts no program")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert cloud.main([name, "--image", "registry.example.com/slack", "--set", "operator.hold=Bound"]) == 0
    lines = capsys.readouterr().out.splitlines()
    programs = [line.split()[0] for line in lines if not line.startswith("#")]
    assert {"helm", "kubectl"} <= set(programs) <= {"helm", "kubectl", *PROVIDERS[name].tools}
    (install,) = [line for line in lines if line.startswith("helm install resource-slack ")]
    assert "--set=image.repository=registry.example.com/slack" in install
    assert install.endswith("--set=operator.hold=Bound")
    bursts = [number for number, line in enumerate(lines) if line.startswith("# a burst of 30 pods")]
    assert bursts[0] < lines.index(install) < bursts[1] < lines.index("kubectl delete slackpolicy cloud-try")
    if name != "current":
        assert "create" in lines[0]
        assert "delete" in lines[-1], "a cluster that is created is deleted"


def test_a_cluster_is_deleted_after_a_step_that_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def run(*command: str, text: str | None = None) -> str:
        seen.append(" ".join(command))
        if command[:2] == ("eksctl", "create"):
            raise measuring.CloudError("no quota")
        return ""

    monkeypatch.setattr(cloud, "run", run)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    assert cloud.main(["eks", "--image", "a/b", "--run", "--yes"]) == 1
    assert seen[-1].startswith("eksctl delete cluster")
    assert "no quota" in capsys.readouterr().err


@run_for_each(
    ("seconds", "asked", "median", "most"),
    [
        ([1.0, 2.0, 3.0, 4.0], 4, 2.0, 4.0),
        ([1.0], 1, 1.0, 1.0),
        ([1.0, 2.0], 4, 2.0, math.inf),
        ([], 2, math.inf, math.inf),
    ],
)
def test_pods_that_are_never_ready_count_as_never(seconds: list[float], asked: int, median: float, most: float) -> None:
    burst = Burst(seconds, asked)
    assert (burst.quantile(0.5), burst.quantile(0.99)) == (median, most)


def test_time_to_ready_is_from_creation_to_the_condition() -> None:
    def pod(status: str) -> dict[str, Any]:
        condition = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:01:05Z"}
        return {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [condition]}}

    pending = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert ready_seconds([pod("True"), pod("False"), pending]) == [65.0]


def test_the_policy_reserves_one_burst() -> None:
    spec = parse_policy(cloud.policy(30, "500m", "512Mi"), source="cloud").spec
    assert spec.extra_capacity.floor["cpu"] == 15_000
    requests = burst_manifest(30, "500m", "512Mi")["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "500m", "memory": "512Mi"}
    assert (
        yaml.safe_load(str(cloud.policy(30, "500m", "512Mi")))["spec"]["extraCapacity"]["floor"]["memory"] == "15360Mi"
    )


def test_the_row_has_the_columns_of_the_table() -> None:
    outcome = cloud.Outcome("1.36.3", Burst([40.0, 95.0], 2), Burst([1.0, 2.0], 2), "2 nodes, 0.4 USD per hour", 0)
    made = cloud.row("EKS", "Cluster Autoscaler", outcome, "2026-11-27")
    head = TABLE.partition("## Clouds")[2].partition("\n|")[2].splitlines()[0]
    assert made.count("|") == f"|{head}".count("|")
    assert "40/95 s without slack, 1/2 s with it" in made
    assert "uninstalling left nothing" in made


def test_an_image_is_needed_to_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "e2e.cloud", "gke", "--run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--image is needed with --run" in done.stderr
