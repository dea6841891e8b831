"""`plan`: what a dry run prints, for people and for machines."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.build import listed, slack_policy, small_cluster
from tests.cli.conftest import COMMAND, ROOT, Policy, Run
from tests.cluster.build import activation_pool


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
        json.dumps(document)
        for document in (slack_policy({"nodeSelector": {"pool": "web"}}, "a"), slack_policy({}, "b"))
    )
    found = run("plan", "-f", "-", "--snapshot", cluster, "-o", "json", stdin=stream)
    assert [item["policy"] for item in json.loads(found.stdout)["items"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("priority_class", "words"),
    [
        ({"value": -5, "preemptionPolicy": "Never", "globalDefault": True}, "ours is the global default"),
        ({"value": -5, "preemptionPolicy": "PreemptLowerPriority"}, "ours lets its pods preempt others"),
        ({"value": 100, "preemptionPolicy": "Never"}, "ours has the value 100"),
        ({"value": -5, "preemptionPolicy": "Never"}, None),
        (None, None),  # a file need not have them all
    ],
)
def test_a_priority_class_that_will_not_do_is_named_and_the_policy_not_fulfilled(
    run: Run, policy: Policy, priority_class: dict[str, Any] | None, words: str | None
) -> None:
    seen = [{"kind": "PriorityClass", "metadata": {"name": "ours"}, **priority_class}] if priority_class else []
    given = policy({"priorityClassName": "ours"}, "web")
    found = run("plan", "-f", given, "--snapshot", "-", "-o", "json", stdin=listed(*small_cluster(), *seen))
    (item,) = json.loads(found.stdout)["items"]
    reasons = {condition["reason"]: condition["message"] for condition in item["conditions"]}
    assert found.code == (0 if words is None else 3)
    assert ("BadPriorityClass" in reasons) is (words is not None)
    assert (words or "") in reasons.get("BadPriorityClass", "")


def test_policies_of_the_snapshot_hold_unless_files_are_given(run: Run, policy: Policy) -> None:
    snapshot = listed(*small_cluster(), slack_policy({"extraCapacity": {"minRate": 1}}, "inside"))
    inside = run("plan", "--snapshot", "-", "-o", "json", stdin=snapshot)
    assert [item["policy"] for item in json.loads(inside.stdout)["items"]] == ["inside"]
    given = run("plan", "-f", policy({}, "outside"), "--snapshot", "-", "-o", "json", stdin=snapshot)
    assert [item["policy"] for item in json.loads(given.stdout)["items"]] == ["outside"]


def test_pools_of_the_snapshot_are_planned_for_and_named(run: Run, tmp_path: Path) -> None:
    """As `kubectl get nodes,pods,activationpools,resourcequotas -A -o json` prints them."""
    pool = activation_pool("thumbnail", cpu="1", slack_pods=5, observed="2026-01-15T10:00:00Z")
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "media"},
        "spec": {"hard": {"pods": "3"}},
    }
    path = tmp_path / "cluster.json"
    path.write_text(listed(*small_cluster(), pool, quota))
    found = run("plan", "--snapshot", path, "-o", "json", "--at", "2026-01-15T10:00:10Z")
    (item,) = json.loads(found.stdout)["items"]
    shapes = [(s["role"], s["count"], s["for"]) for s in item["shapes"] if s["role"] == "demand"]
    assert shapes == [("demand", 3, ["media/actpool/thumbnail"])]
    told = run("explain", "-n", "media", "actpool/thumbnail", "--snapshot", path, "--at", "2026-01-15T10:00:10Z")
    assert told.code == 0
    assert "media/actpool/thumbnail" in told.stdout
    table = run("plan", "--snapshot", path, "--at", "2026-01-15T10:00:10Z").stdout
    assert "demand" in table
    assert "ResourceQuotas of namespace media let in 3 more of its pods" in table


def test_the_table_is_plain_text_in_a_pipe(run: Run, cluster: Path) -> None:
    found = run("plan", "--snapshot", cluster)
    assert found.code == 0
    assert "Policy default" in found.stdout
    assert "shop/deploy/api" in found.stdout
    assert "\x1b" not in found.stdout
    assert all(line == line.rstrip() for line in found.stdout.splitlines())


PRICES = "currency: EUR\ninstanceTypes: {m7i.xlarge: 0.2}\ncpu: 0.05\nmemory: 0.01\n"


def test_what_slack_costs_is_told_in_nodes_and_with_prices_in_money(run: Run, cluster: Path, tmp_path: Path) -> None:
    assert re.search(r"costs    [0-9.]+ nodes?\n", run("plan", "--snapshot", cluster).stdout)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    found = run("plan", "--snapshot", cluster, "--prices", prices)
    assert " EUR per hour, " in found.stdout
    (item,) = json.loads(run("plan", "--snapshot", cluster, "--prices", prices, "-o", "json").stdout)["items"]
    assert item["cost"]["currency"] == "EUR"
    assert item["cost"]["per_month"] == pytest.approx(730 * item["cost"]["per_hour"])


SPARED = {"pods": 120, "seconds": 15840, "text": "120 pods of a day would have waited about 130 s each, 4.4 h in all"}
LOOKED_AT = [{"type": "Ready", "status": "True", "reason": "Accepted", "message": ""}]


def with_status(status: object) -> str:
    kept = slack_policy({"extraCapacity": {"minRate": 0.2}}) | {"status": status}
    return listed(*small_cluster(), kept)


@pytest.mark.parametrize(
    ("status", "words", "document"),
    [
        ({"spared": SPARED, "conditions": LOOKED_AT}, SPARED["text"], SPARED),
        ({"conditions": LOOKED_AT}, "no pod has used a placeholder's capacity yet", None),
        ({"observedGeneration": -1}, None, None),
        ("text", None, None),
        ({"spared": {**SPARED, "pods": "many"}, "objective": {"why": 5}}, None, None),
    ],
)
def test_what_late_pods_would_have_waited_is_what_the_operator_has_measured(
    run: Run, policy: Policy, status: object, words: str | None, document: object
) -> None:
    for files in ((), ("-f", policy({"extraCapacity": {"minRate": 0.5}}))):
        shown = run("plan", *files, "--snapshot", "-", stdin=with_status(status))
        assert (f"\n  spared   {words}" if words else "\n  costs ") in shown.stdout, shown.stderr
        assert ("\n  spared " in shown.stdout) == bool(words), "what is not known has no line"
        machine = run("plan", *files, "--snapshot", "-", "-o", "json", stdin=with_status(status))
        assert json.loads(machine.stdout)["items"][0]["spared"] == document


def test_what_a_snapshot_cannot_know_has_no_line(run: Run, cluster: Path) -> None:
    found = run("plan", "--snapshot", cluster)
    assert "  costs " in found.stdout
    assert "spared" not in found.stdout


def test_prices_that_cannot_be_used_are_named_with_their_file(run: Run, cluster: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("instanceTypes: {m7i.xlarge: cheap}\n")
    found = run("plan", "--snapshot", cluster, "--prices", prices)
    assert found.code == 2
    assert "prices.yaml: instanceTypes.m7i.xlarge: expected a price for an hour from 0 to 1000000" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_plan_that_more_than_doubles_the_cluster_says_so(run: Run, cluster: Path, policy: Policy) -> None:
    given = policy({"extraCapacity": {"minRate": 10, "ceiling": {"cpu": "900", "memory": "900Gi"}}})
    found = run("plan", "-f", given, "--snapshot", cluster)
    assert "this more than doubles the cluster: at least " in found.stdout
    assert "the rate is 10, 1000 % of what runs" in found.stdout


def test_a_rate_above_1_without_a_ceiling_is_refused(run: Run, cluster: Path, policy: Policy) -> None:
    found = run("plan", "-f", policy({"extraCapacity": {"minRate": 10}}), "--snapshot", cluster)
    assert found.code == 2
    assert "a rate above 1 keeps more than all that runs again, and needs extraCapacity.ceiling" in found.stderr
    found = run("plan", "--snapshot", cluster, "--extra-capacity-min-rate", "10")
    assert found.code == 2
    assert "a flag has no ceiling" in found.stderr


def test_the_built_in_policys_rate_is_named(run: Run, cluster: Path, policy: Policy) -> None:
    said = "the built-in policy with --extra-capacity-min-rate {}. An operator keeps it only with --built-in-policy"
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
    assert [uncovered["pod"] for uncovered in items["web"]["uncovered"]] == ["db/sts/postgres"]
    for item in items.values():
        assert item["planned"]["cpu_millis"] >= item["desired"]["cpu_millis"]
        assert item["planned"]["memory_bytes"] >= item["desired"]["memory_bytes"]
    mirrors = [shape for shape in items["web"]["shapes"] if shape["role"] == "mirror"]
    assert [(shape["for"], shape["count"]) for shape in mirrors] == [(["pay/deploy/gateway"], 2)]


def test_the_example_cluster_is_what_its_script_writes() -> None:
    script: list[str | Path] = [sys.executable, ROOT / "examples" / "make_cluster.py"]
    found = subprocess.run(script, capture_output=True, text=True, check=True)
    assert found.stdout == (ROOT / "examples" / "cluster.json").read_text()
    assert len(found.stdout) < 300_000


ALWAYS = {"start": "2026-01-15T00:00:00Z", "until": "2026-01-16T00:00:00Z"}
BASE = "3 cpu, 6Gi memory"
SIZES: list[tuple[dict[str, Any], str, list[str] | None]] = [
    ({"extraCapacity": {"minRate": 0.2}}, f"20 % of {BASE}", ["rate"]),
    ({"extraCapacity": {"minRate": 0}}, f"nothing  (0 % of {BASE})", ["rate"]),
    ({"extraCapacity": {"minRate": 0, "floor": {"cpu": "500"}}}, "500 cpu  (floor 500 cpu)", ["floor"]),
    (
        {"extraCapacity": {"minRate": 0.1, "floor": {"memory": "64Gi"}}},
        "300m cpu, 64Gi memory  (10 % of 3 cpu; floor 64Gi memory)",
        ["rate", "floor"],
    ),
    ({"extraCapacity": {"replicas": 50}}, "(50 replicas)", ["replicas"]),
    ({"extraCapacity": {"replicas": 1, "floor": {"memory": "64Gi"}}}, "(1 replica; floor 64Gi memory)", None),
    ({"extraCapacity": {"ladder": [{"fromNodes": 0, "minRate": 0.5}]}}, f"50 % of {BASE}, by the ladder", ["ladder"]),
    (
        {"extraCapacity": {"schedule": [{**ALWAYS, "name": "sale", "floor": {"cpu": "40"}}], "minRate": 0}},
        "40 cpu  (floor 40 cpu, window sale)",
        ["floor"],
    ),
    (
        {"extraCapacity": {"schedule": [{**ALWAYS, "minRate": 0.3}]}},
        f"(30 % of {BASE}, window 2026-01-15T00:00:00+00:00)",
        ["rate"],
    ),
    ({"extraCapacity": {"schedule": [{**ALWAYS, "name": "sale", "replicas": 50}]}}, "(50 replicas, window sale)", None),
    ({"objective": {"instantStart": 0.9}}, f"10 % of {BASE}", ["rate"]),
    ({"perDomain": "Zone", "extraCapacity": {"minRate": 0.2}}, f"20 % of {BASE}", ["rate"]),
]


@pytest.mark.parametrize(("spec", "words", "sources"), SIZES, ids=[words for _, words, _ in SIZES])
def test_what_is_wanted_is_told_with_the_field_that_sets_it(
    run: Run, cluster: Path, policy: Policy, spec: dict[str, Any], words: str, sources: list[str] | None
) -> None:
    args = ("plan", "-f", policy(spec), "--snapshot", cluster, "--at", "2026-01-15T10:00:00Z")
    line = next(line for line in run(*args).stdout.splitlines() if line.startswith("  wanted"))
    assert words in line
    (item,) = json.loads(run(*args, "-o", "json").stdout)["items"]
    told = item["wanted_by"]
    assert line.endswith(f"({'; '.join(field['text'] for field in told)})")
    assert sources is None or [field["source"] for field in told] == sources


def test_prices_that_fit_no_node_are_told_with_the_instance_types_that_are_there(run: Run, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: EUR, instanceTypes: {M.8: 0.4}}")
    args = ("plan", "--snapshot", ROOT / "examples/cluster.json", "--prices", prices)
    found = run(*args)
    assert "prices.yaml: no node has a price: instance types here are m.16, m.8" in found.stderr
    assert "; no node of the policy has a price" in found.stdout
    (item, *_) = json.loads(run(*args, "-o", "json").stdout)["items"]
    assert item["cost"]["unpriced_nodes"] == item["nodes"]
    prices.write_text("labels: [{match: {pool: none}, perHour: 1}]")
    assert "no node has a price: none has the labels pool=none" in run(*args).stderr


@pytest.mark.parametrize("text", ["{}", "currency: EUR", "instanceTypes: {}"])
def test_a_file_without_a_price_is_refused(run: Run, cluster: Path, tmp_path: Path, text: str) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(text)
    found = run("plan", "--snapshot", cluster, "--prices", prices)
    assert (found.code, "names no price; expected such as {currency: EUR" in found.stderr) == (2, True), found.stderr
