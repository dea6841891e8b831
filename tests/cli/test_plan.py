"""`plan`: what a dry run prints, for people and for machines."""

import json
import subprocess
from pathlib import Path

import yaml

from tests.cli.build import listed, slack_policy, small_cluster
from tests.cli.conftest import COMMAND, ROOT, Policy, Run


def test_without_a_policy_the_built_in_one_is_planned_for(run: Run, cluster: Path) -> None:
    found = run("plan", "--snapshot", cluster, "-o", "json", "--extra-capacity-min-rate", "0.5")
    assert found.code == 0
    (item,) = json.loads(found.stdout)["items"]
    assert item["policy"] == "default"
    assert item["nodes"] == 3
    assert item["base"] == {"cpu_millis": 3000, "memory_bytes": 6 << 30}
    assert item["desired"] == {"cpu_millis": 1500, "memory_bytes": 3 << 30}
    assert item["planned"]["cpu_millis"] >= 1500
    assert item["planned"]["memory_bytes"] >= 3 << 30
    assert any("shop/deploy/api" in shape["for"] for shape in item["shapes"])


def test_the_json_is_the_same_byte_for_byte(run: Run, cluster: Path) -> None:
    first, second = (run("plan", "--snapshot", cluster, "-o", "json", "--at", "2026-01-15T10:00:00Z") for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stderr == ""


def test_yaml_says_the_same_as_json(run: Run, cluster: Path) -> None:
    as_json = run("plan", "--snapshot", cluster, "-o", "json")
    as_yaml = run("plan", "--snapshot", cluster, "-o", "yaml")
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_the_snapshot_comes_from_stdin(run: Run, cluster: Path) -> None:
    piped = run("plan", "--snapshot", "-", "-o", "json", stdin=cluster.read_text())
    assert piped.code == 0
    assert piped.stdout == run("plan", "--snapshot", cluster, "-o", "json").stdout


def test_policies_come_from_stdin_several_in_one_stream(run: Run, cluster: Path) -> None:
    stream = "\n---\n".join(
        json.dumps(one) for one in (slack_policy({"nodeSelector": {"pool": "web"}}, "a"), slack_policy({}, "b"))
    )
    found = run("plan", "-f", "-", "--snapshot", cluster, "-o", "json", stdin=stream)
    assert [item["policy"] for item in json.loads(found.stdout)["items"]] == ["a", "b"]


def test_policies_of_the_snapshot_hold_unless_files_are_given(run: Run, policy: Policy) -> None:
    snapshot = listed(*small_cluster(), slack_policy({"extraCapacity": {"minRate": 1}}, "inside"))
    inside = run("plan", "--snapshot", "-", "-o", "json", stdin=snapshot)
    assert [item["policy"] for item in json.loads(inside.stdout)["items"]] == ["inside"]
    given = run("plan", "-f", policy({}, "outside"), "--snapshot", "-", "-o", "json", stdin=snapshot)
    assert [item["policy"] for item in json.loads(given.stdout)["items"]] == ["outside"]


def test_the_table_is_plain_text_in_a_pipe(run: Run, cluster: Path) -> None:
    found = run("plan", "--snapshot", cluster)
    assert found.code == 0
    assert "Policy default" in found.stdout
    assert "shop/deploy/api" in found.stdout
    assert "\x1b" not in found.stdout
    assert all(line == line.rstrip() for line in found.stdout.splitlines())


def test_the_built_in_policys_rate_is_named(run: Run, cluster: Path, policy: Policy) -> None:
    said = "this is the built-in policy with --extra-capacity-min-rate {}. Give the operator's, if it has another."
    assert said.format("0.1") in run("plan", "--snapshot", cluster).stdout
    assert said.format("0.3") in run("plan", "--snapshot", cluster, "--extra-capacity-min-rate", "0.3").stdout
    assert "built-in" not in run("plan", "-f", policy({}), "--snapshot", cluster).stdout


def test_a_schedule_is_planned_for_the_instant_that_is_asked_for(run: Run, policy: Policy, cluster: Path) -> None:
    window = {"cron": "0 7 * * 1-5", "duration": "12h", "minRate": 1}
    file = policy({"extraCapacity": {"minRate": 0.1, "schedule": [window]}})

    def desired(at: str) -> int:
        found = run("plan", "-f", file, "--snapshot", cluster, "-o", "json", "--at", at)
        amount: int = json.loads(found.stdout)["items"][0]["desired"]["cpu_millis"]
        return amount

    assert desired("2026-01-15T10:00:00Z") == 3000  # a Thursday
    assert desired("2026-01-17T10:00:00Z") == 300  # a Saturday


def test_a_reader_that_goes_away_is_no_error(cluster: Path) -> None:
    command = f"'{COMMAND}' plan --snapshot '{cluster}' -o json | head -c 1"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 0
    assert found.stdout == "{"
    assert found.stderr == ""


def test_the_example_of_the_demo_is_feasible_and_leaves_the_database_out(run: Run) -> None:
    examples = ROOT / "examples"
    found = run(
        "plan", "-f", examples / "slackpolicy.yaml", "--snapshot", examples / "cluster.json", "-o", "json",
        "--at", "2026-01-15T10:00:00Z",
    )  # fmt: skip
    assert found.code == 0
    items = {item["policy"]: item for item in json.loads(found.stdout)["items"]}
    assert set(items) == {"web", "batch"}
    assert [one["pod"] for one in items["web"]["uncovered"]] == ["db/sts/postgres"]
    for item in items.values():
        assert item["planned"]["cpu_millis"] >= item["desired"]["cpu_millis"]
        assert item["planned"]["memory_bytes"] >= item["desired"]["memory_bytes"]
    mirrors = [shape for shape in items["web"]["shapes"] if shape["role"] == "mirror"]
    assert [(shape["for"], shape["count"]) for shape in mirrors] == [(["pay/deploy/gateway"], 2)]


def test_the_example_cluster_is_what_its_script_writes(run: Run) -> None:
    import sys

    script = ROOT / "examples" / "make_cluster.py"
    found = run(script, command=Path(sys.executable))
    assert found.stdout == (ROOT / "examples" / "cluster.json").read_text()
    assert len(found.stdout) < 300_000
