"""`simulate` and `tune` as a user runs them: figures on stdout, progress on stderr, bad input by field and line."""

import json
from pathlib import Path

import pytest
import yaml

from slack.planner.policy import parse_policy
from slack.simulator.trace import write_trace
from tests.cli.conftest import ROOT, Run
from tests.simulator.traces import burst_trace, node, pod, trace

SCENARIOS = ROOT / "examples" / "scenarios"
TOY = """\
name: toy
duration: 30m
warmUp: 10m
nodeGroups:
  - name: general
    allocatable: {cpu: "4", memory: 16Gi}
    initial: 3
    startUp: {kind: constant, seconds: 60}
workloads:
  - name: api
    requests: {cpu: "1", memory: 1Gi}
    arrivals: {kind: deployment, replicas: 9}
  - name: burst
    requests: {cpu: "1", memory: 1Gi}
    life: {kind: constant, seconds: 200}
    arrivals: {kind: bursts, size: 5, at: [12m, 20m]}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(TOY)
    return path


@pytest.fixture
def chancy(tmp_path: Path) -> Path:
    """Seeds differ: pods come by chance."""
    path = tmp_path / "chancy.yaml"
    text = TOY.replace("{kind: bursts, size: 5, at: [12m, 20m]}", "{kind: poisson, perMinute: 0.7}")
    path.write_text(text.replace("{kind: constant, seconds: 200}", "{kind: exponential, meanSeconds: 600}"))
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "day.parquet"
    path.write_bytes(write_trace(burst_trace()))
    return path


@pytest.mark.parametrize("name", ["burst", "webshop", "jobwaves", "largebursts"])
def test_every_example_is_a_scenario(name: str) -> None:
    from slack.cli.scenarios import from_file

    assert from_file(SCENARIOS / f"{name}.yaml").name == name


def test_slack_and_no_slack_stand_side_by_side(run: Run, tmp_path: Path) -> None:
    found = run("simulate", "--compare", "none,own", SCENARIOS / "burst.yaml", "--picture", "burst.png")
    assert (found.code, found.stderr) == (0, "")
    none, own = (
        next(line for line in found.stdout.splitlines() if line.strip().startswith(label))
        for label in ("none", "own (rate=0.6)")
    )
    assert "100.0 %" in own
    assert "100.0 %" not in none
    assert "UP/DOWN: nodes requested/removed. CHURN: placeholders created/displaced" in found.stdout
    assert "picture: burst.png" in found.stdout
    assert (tmp_path / "burst.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_stable_and_whole(run: Run, toy: Path) -> None:
    first = run("simulate", toy, "--compare", "none,rate=0.5,static=auto", "-o", "json")
    assert first.code == 0
    assert first.stdout == run("simulate", toy, "--compare", "none,rate=0.5,static=auto", "-o", "json").stdout
    document = json.loads(first.stdout)
    assert (document["kind"], document["currency"]) == ("SimulationList", "core hours")
    none, rate, static = document["items"]
    assert (none["name"], rate["name"]) == ("none", "rate=0.5")
    assert static["name"].endswith(" (cost of rate=0.5)")
    assert [one["variant"] for one in document["items"]] == ["none", "rate=0.5", "static=auto"]
    assert static["cost"] == pytest.approx(rate["cost"], rel=0.1)
    assert rate["instant_start_ratio"] > none["instant_start_ratio"]
    assert {"total", "workloads", "groups", "cost", "waste", "node_hours", "placeholders_displaced"} <= none.keys()
    assert none["runs"][0]["timeline"] == []


def test_the_timeline_and_the_seed_are_there_when_asked_for(run: Run, toy: Path) -> None:
    (item,) = json.loads(run("simulate", toy, "-o", "json", "--timeline", "--seed", "7").stdout)["items"]
    assert item["seeds"] == [7]
    assert item["runs"][0]["timeline"][0]["capacity_cpu_millis"] == 12000


def test_several_seeds_give_means_and_intervals_whatever_the_processes(run: Run, chancy: Path) -> None:
    args = ["simulate", chancy, "--compare", "none,rate=0.5", "--seeds", "3", "--seed", "4"]
    first = run(*args, "-o", "json")
    assert first.code == 0, first.stderr
    assert run(*args, "-o", "json", "--processes", "1").stdout == first.stdout
    none, _ = json.loads(first.stdout)["items"]
    assert none["seeds"] == [one["seed"] for one in none["runs"]] == [4, 5, 6]
    ratios = [one["instant_start_ratio"] for one in none["runs"]]
    assert len(set(ratios)) > 1
    assert none["instant_start_ratio"] == pytest.approx(sum(ratios) / 3)
    low, high = none["instant_start_interval"]
    assert low < none["instant_start_ratio"] < high
    alone = json.loads(run("simulate", chancy, "--compare", "none", "--seed", "5", "-o", "json").stdout)
    assert alone["items"][0]["runs"][0] == none["runs"][1]
    assert alone["items"][0]["instant_start_interval"] is None
    table = run(*args).stdout
    assert "means of 3 seeds" in table
    assert f"{low * 100:.1f} to {high * 100:.1f} %" in table


def test_a_curve_shows_rate_against_instant_start_and_cost(run: Run, chancy: Path, tmp_path: Path) -> None:
    args = ["simulate", chancy, "--curve", "0.5,0", "--seeds", "2"]
    found = run(*args, "--picture", "curve.svg")
    assert (found.code, found.stderr) == (0, "")
    heading = next(line for line in found.stdout.splitlines() if "RATE" in line)
    assert " ".join(heading.split()) == "RATE AT ONCE 95 % INTERVAL P99 NODES COST A MONTH UNUSED"
    assert "2 seeds a rate" in found.stdout
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    document = json.loads(run(*args, "-o", "json").stdout)
    assert (document["kind"], document["seeds"]) == ("RateCurve", [1, 2])
    none, half = document["curve"]
    assert (none["rate"], half["rate"]) == (0.0, 0.5)
    assert none["instant_start_ratio"] < half["instant_start_ratio"]
    assert [one["seed"] for one in none["runs"]] == [1, 2]
    assert none["interval"][0] <= none["instant_start_ratio"] <= none["interval"][1]


def test_a_curve_has_rates_of_its_own_when_none_are_named(run: Run, toy: Path) -> None:
    document = json.loads(run("simulate", toy, "--curve", "default", "-o", "json", "--processes", "1").stdout)
    assert [point["rate"] for point in document["curve"]] == [0.0, 0.05, 0.1, 0.2, 0.4]
    assert document["curve"][0]["interval"] is None


def test_static_auto_alone_costs_what_the_scenarios_own_policies_cost(run: Run) -> None:
    args = ["simulate", SCENARIOS / "burst.yaml", "--compare", "static=auto,own", "-o", "json"]
    static, own = json.loads(run(*args).stdout)["items"]
    assert (static["name"], own["name"]) == ("static=18x500m/1Gi (cost of own)", "own (rate=0.6)")
    assert static["cost"] == pytest.approx(own["cost"], rel=0.05)


def test_where_no_pod_comes_in_the_measured_time_everybody_is_told(run: Run, toy: Path) -> None:
    toy.write_text(TOY.replace("at: [12m, 20m]", "at: [1m]"))
    assert "no pods" in run("simulate", toy, "--compare", "none").stdout
    (item,) = json.loads(run("simulate", toy, "-o", "json").stdout)["items"]
    assert (item["total"]["pods"], item["instant_start_ratio"]) == (0, None)
    for command in (["simulate", toy, "--curve", "0"], ["tune", "--scenario", toy]):
        found = run(*command, "--processes", "1")
        assert found.code == 2
        assert "no pod comes in the measured time" in found.stderr


def test_a_refusal_in_a_worker_is_told_like_any_other(run: Run, toy: Path) -> None:
    hpa = "hpa: {minReplicas: 1, maxReplicas: 60, targetPerPod: 1, load: {kind: points, points: [[0, 9], [900, 40]]}}"
    toy.write_text(TOY.replace("replicas: 9", f"replicas: 9, {hpa}") + "maxPods: 30\n")
    for command in (["simulate", toy, "--seeds", "2"], ["tune", "--scenario", toy, "--seeds", "2"]):
        found = run(*command)
        assert (found.code, found.stderr) == (2, "error: toy: maxPods: more than 30 pods were created\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("duration: 30m", "duration: 30 minutes", "duration: '30 minutes' is not a duration such as 30s, 10m or 1h30m"),
        ("duration: 30m", "durration: 30m", "durration: unknown field; did you mean duration? (line 2)"),
        ("seconds: 60", "seconds: -60", "nodeGroups[0].startUp.seconds: must be at least 0, not -60 (line 8)"),
        (
            "size: 5",
            "size: 0",
            "workloads[1].arrivals.size: must be at least 1, not 0 (line 16)",
        ),
        ('cpu: "4"', 'cpu: "500m"', "workloads[0].requests.cpu: its pods fit no node group (general: cpu is more"),
        (
            "kind: bursts",
            "kind: splashes",
            "workloads[1].arrivals.kind: 'splashes' is none of poisson, diurnal, bursts",
        ),
        ("name: burst", "name: api", "workloads[1].name: 'default/api' is given twice"),
        ("name: toy", "name: [", "toy.yaml, line"),
    ],
)
def test_a_bad_scenario_is_refused_with_field_and_line(run: Run, toy: Path, old: str, new: str, said: str) -> None:
    toy.write_text(TOY.replace(old, new, 1))
    for command in (["simulate", toy], ["tune", "--scenario", toy]):
        found = run(*command)
        assert (found.code, found.stdout) == (2, "")
        assert "toy.yaml" in found.stderr
        assert said in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--compare", "none,rate=5%"], "--compare: 'rate=5%': '5%' is not a rate from 0 to 10"),
        (["--picture", "a.jpg"], "--picture: a.jpg ends in neither .png nor .svg"),
        (["--picture", "no/where/a.png"], "--picture: no/where is no folder"),
        (["-o", "xml"], "--output: 'xml' is neither table nor json"),
        (["--seed", "-1"], "--seed"),
        (["--seeds", "0"], "--seeds"),
        (["--curve", "0,10%"], "--curve: '10%' is not a rate from 0 to 10; 0.1 is ten percent; or write default"),
        (["--curve", "0.1,0.10"], "--curve: '0.10' is given twice"),
        (["--curve", ","], "--curve: it names no rate"),
        (["--curve", "0", "--compare", "none"], "--curve: not together with --compare"),
        (["--curve", "0", "--timeline"], "--timeline: a curve has none"),
        (["--timeline"], "--timeline: only JSON has it; add -o json"),
        (["--seed", str(2**63)], "'--seed'"),
        (["--compare", "proportional=1x500m/1Gi/0.0001cores"], "coresPerReplica: must be at least 0.001, not 0.0001"),
    ],
)
def test_a_bad_flag_is_told_before_anything_runs(run: Run, toy: Path, args: list[str], said: str) -> None:
    found = run("simulate", toy, *args)
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr


def test_an_empty_or_missing_scenario_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert "empty.yaml: there is no scenario in it" in run("simulate", "empty.yaml").stderr
    assert "gone.yaml: cannot be read: no such file" in run("simulate", "gone.yaml").stderr
    assert "stdin: expected a Scenario object, found list" in run("simulate", "-", stdin="[1]").stderr


def test_tune_prints_the_curve_the_choice_and_its_policy(run: Run, toy: Path, tmp_path: Path) -> None:
    args = ["tune", "--instant-start", "0.99", "--scenario", toy, "--seeds", "2", "--step", "0.1"]
    found = run(*args, "--picture", "curve.svg")
    assert (found.code, found.stderr) == (0, "")
    assert "<- chosen" in found.stdout
    assert "core hours a month" in found.stdout
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    policy = parse_policy(yaml.safe_load(run(*args, "-o", "yaml").stdout), source="t")
    document = json.loads(run(*args, "-o", "json", "--processes", "1").stdout)
    assert document["chosen"]["rate"] == policy.spec.extra_capacity.min_rate
    low, high = document["chosen"]["interval"]
    assert low <= document["chosen"]["instant_start_ratio"] <= high
    assert document["policies"][0]["spec"]["extraCapacity"]["minRate"] == document["chosen"]["rate"]
    assert [point["rate"] for point in document["curve"]] == sorted(point["rate"] for point in document["curve"])


def test_tune_warns_where_chance_may_miss_the_goal(run: Run, chancy: Path) -> None:
    args = ["tune", "--scenario", chancy, "--seeds", "2", "--step", "0.1", "--instant-start", "0.9"]
    document = json.loads(run(*args, "-o", "json").stdout)
    low, _ = document["chosen"]["interval"]
    assert low < 0.9
    said = "The interval reaches below the goal of 90.0 %: more --seeds make it narrower; or take rate {}, whose"
    assert said.format(f"{document['surer']['rate']:g}") in run(*args).stdout
    quiet = run(*args, "-o", "yaml")
    assert "note: The interval reaches below the goal" in quiet.stderr
    assert parse_policy(yaml.safe_load(quiet.stdout), source="t").spec.extra_capacity.min_rate is not None


def test_tune_says_when_no_rate_reaches_the_goal(run: Run, toy: Path) -> None:
    args = ["tune", "--scenario", toy, "--seeds", "1", "--largest", "0.02", "--processes", "1"]
    found = run(*args)
    assert found.code == 3
    assert "No rate up to 0.02 reaches it" in found.stdout
    quiet = run(*args, "-o", "yaml")
    assert (quiet.code, quiet.stdout) == (3, "")
    assert "no rate up to 0.02 reaches 0.99" in quiet.stderr
    document = json.loads(run(*args, "-o", "json").stdout)
    assert (document["reached"], document["chosen"], document["policies"]) == (False, None, [])


def test_tune_takes_a_trace_and_prices(run: Run, recorded: Path) -> None:
    args = ["--seeds", "1", "--step", "0.1", "--price", "m7i.xlarge=0.2", "-o", "json"]
    found = run("tune", "--from-trace", recorded, *args)
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["currency"] == ""
    assert document["curve"][0]["instant_start_ratio"] < 1.0
    assert document["chosen"]["instant_start_ratio"] >= 0.99


def test_the_scenario_of_a_trace_can_be_edited_and_tuned(run: Run, recorded: Path, tmp_path: Path) -> None:
    found = run("tune", "--from-trace", recorded, "--scenario-only", "mine.json")
    assert (found.code, found.stdout) == (0, "")
    assert "next: resource-slack tune --scenario mine.json" in found.stderr
    args = ["--seeds", "1", "--step", "0.5", "-o", "json"]
    direct = run("tune", "--from-trace", recorded, *args)
    assert run("tune", "--scenario", "mine.json", *args).stdout == direct.stdout
    path = tmp_path / "mine.json"
    path.write_text(path.read_text().replace('"initial": 1', '"initial": -1'))
    assert "mine.json: nodeGroups[0].initial: must be at least 0" in run("tune", "--scenario", path).stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--scenario", "a", "--scenario-only", "b"], "--scenario-only: --scenario names a scenario already"),
        ([], "give exactly one of --scenario FILE, --from-trace FILE and --from-cluster"),
        (["--from-cluster", "--scenario", "a"], "give exactly one of"),
        (["--from-trace", "day.parquet", "--instant-start", "99"], "is not a share above 0 and up to 1; write 0.99"),
        (["--from-trace", "day.parquet", "--instant-start", "1.5"], "is not a share above 0 and up to 1; 0.99 is 99 %"),
        (["--from-trace", "day.parquet", "--step", "0"], "--step: 0 is not from 0.001 to 1"),
        (["--from-trace", "day.parquet", "--largest", "50"], "--largest: 50 is not a rate"),
        (["--from-trace", "day.parquet", "--price", "big"], "--price: 'big'; write an instance type"),
        (["--from-trace", "day.parquet", "--price", "big=1e10"], "--price: 'big=1e10'; write an instance type"),
        (["--from-trace", "day.parquet", "--price", "a=1", "--price", "a=2"], "--price: 'a' is given twice"),
        (
            ["--from-trace", "day.parquet", "--price", "nope=1"],
            "--price: 'nope' is no instance type and no node group of day.parquet; there are m7i.xlarge (node group m7",
        ),
        (["--from-trace", "none.parquet"], "none.parquet: cannot be read: no such file"),
        (["--from-cluster", "--window", "soon"], "--window: 'soon' is not a duration"),
        (["--from-cluster"], "no cluster given"),
    ],
)
def test_bad_flags_of_tune_are_told(run: Run, recorded: Path, args: list[str], said: str) -> None:
    found = run("tune", *args)
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr


def test_a_bad_trace_is_refused_with_the_file_and_the_place(run: Run, recorded: Path) -> None:
    whole = recorded.read_bytes()
    for data, said in (
        (whole[:-30], "day.parquet: it is cut off"),
        (b"not this", "day.parquet: it is not Parquet"),
        (b"", "day.parquet: it is empty"),
        (write_trace(trace(pod(-1.0), node())), "day.parquet: column time_seconds, row 1 of 2: -1.0 is negative"),
        (
            write_trace(trace(pod(cpu_millis=64_000), node())),
            "column cpu_millis, row 1 (shop/deploy/api): its pods",
        ),
    ):
        recorded.write_bytes(data)
        found = run("tune", "--from-trace", recorded)
        assert (found.code, found.stdout) == (2, "")
        assert said in found.stderr
