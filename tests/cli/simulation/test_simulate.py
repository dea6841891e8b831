"""`simulate` and `tune` as a user runs them: figures on stdout, progress on stderr, bad input by field and line."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from slack.planner.objective.codec import decode
from slack.planner.policy.spec import parse_policy
from slack.simulator.traces.parquet import write_trace
from tests.cli.conftest import ROOT, Run
from tests.examples import by_profile
from tests.simulator.trace_rows import burst_trace, node, pod, trace

ALONE = ("--processes", "1")
"""For what is not about worker processes: each takes a second to start."""
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


@pytest.fixture(autouse=True)
def _one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """As wide as it takes for all columns to stand beside each other."""
    monkeypatch.setenv("COLUMNS", "160")


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
    from slack.cli.simulation.scenarios import from_file

    assert from_file(SCENARIOS / f"{name}.yaml").name == name


@pytest.mark.thorough
def test_slack_and_no_slack_stand_side_by_side(run: Run, tmp_path: Path) -> None:
    found = run("simulate", "--compare", "none,own", SCENARIOS / "burst.yaml", "--picture", "burst.png", *ALONE)
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


def test_json_has_all_variants_and_a_variant_wins_over_a_flag(run: Run, toy: Path) -> None:
    args = ("--compare", "none,rate=0.5,rate=0.5+hold=Unbound", "--hold", "Bound", "--seed", "7", "-o", "json")
    found = run("simulate", toy, *args, *ALONE)
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    assert (document["kind"], document["currency"]) == ("SimulationList", "node hours")
    none, bound, unbound = document["items"]
    assert (none["name"], none["seeds"]) == ("none", [7])
    assert (bound["placeholders_displaced"] > 0, unbound["placeholders_displaced"]) == (True, 0)
    assert bound["instant_start_ratio"] > none["instant_start_ratio"]
    assert {"total", "workloads", "groups", "cost", "waste", "node_hours", "placeholders_displaced"} <= none.keys()
    assert none["runs"][0]["timeline"] == []


@pytest.mark.thorough
def test_the_form_of_placeholders_is_a_flag_and_a_variant(run: Run, toy: Path) -> None:
    def displaced(*arguments: str) -> list[int]:
        found = run("simulate", toy, *arguments, "-o", "json", *ALONE)
        assert found.code == 0, found.stderr
        return [item["placeholders_displaced"] for item in json.loads(found.stdout)["items"]]

    bound, unbound = displaced("--compare", "rate=0.5+hold=Bound,rate=0.5+hold=Unbound")
    assert bound > 0
    assert unbound == 0
    assert displaced("--compare", "rate=0.5", "--hold", "Bound") == [bound]
    assert displaced("--compare", "rate=0.5") == [0]  # the toy has an autoscaler


@pytest.mark.thorough
def test_json_is_stable_and_whole(run: Run, toy: Path) -> None:
    args = ["simulate", toy, "--compare", "none,rate=0.5,static=auto", "-o", "json", *ALONE]
    first = run(*args)
    assert first.code == 0
    assert first.stdout == run(*args).stdout
    document = json.loads(first.stdout)
    assert (document["kind"], document["currency"]) == ("SimulationList", "node hours")
    none, rate, static = document["items"]
    assert (none["name"], rate["name"]) == ("none", "rate=0.5")
    assert static["name"].endswith(" (cost of rate=0.5)")
    assert [item["variant"] for item in document["items"]] == ["none", "rate=0.5", "static=auto"]
    assert static["cost"] == pytest.approx(rate["cost"], rel=0.1)
    assert rate["instant_start_ratio"] > none["instant_start_ratio"]
    assert {"total", "workloads", "groups", "cost", "waste", "node_hours", "placeholders_displaced"} <= none.keys()
    assert none["runs"][0]["timeline"] == []


@pytest.mark.thorough
def test_kinds_of_slack_are_compared_on_a_recording(run: Run, recorded: Path, tmp_path: Path) -> None:
    args = ("--price", "m7i.xlarge=0.2", "--picture", "kinds.svg", "-o", "json")
    found = run("simulate", "--trace", recorded, *args, *ALONE)
    assert (found.code, found.stderr) == (0, "")
    document = json.loads(found.stdout)
    assert [item["variant"] for item in document["items"]] == ["none", "own", "static=auto", "proportional=auto"]
    none, own, *equal = document["items"]
    assert none["total"]["pods"] == 8
    assert [item["name"].partition(" (")[2] for item in equal] == ["cost of own)", "cost of own)"]
    assert document["currency"] == ""
    assert own["cost"] >= none["cost"]
    assert (tmp_path / "kinds.svg").read_bytes().startswith(b"<?xml")


def test_a_recording_is_compared_with_the_kinds_that_are_named(run: Run, recorded: Path, tmp_path: Path) -> None:
    found = run("simulate", "--trace", recorded, "--compare", "none,rate=0.7", "--picture", "kinds.svg", *ALONE)
    assert found.code == 0
    assert "UP/DOWN: nodes requested/removed. CHURN: placeholders created/displaced" in found.stdout
    assert "picture: kinds.svg" in found.stdout
    assert (tmp_path / "kinds.svg").read_bytes().startswith(b"<?xml")
    assert [line.split()[0] for line in found.stdout.splitlines() if line.startswith(("  none", "  rate"))] == [
        "none",
        "rate=0.7",
    ]


def test_a_scenario_and_a_recording_exclude_each_other(run: Run, recorded: Path, toy: Path) -> None:
    for args in ([], [toy, "--trace", recorded]):
        found = run("simulate", *args)
        assert (found.code, "give either a scenario file or --trace FILE" in found.stderr) == (2, True)
    assert "has its own prices" in run("simulate", toy, "--price", "m7i.xlarge=0.2").stderr


@pytest.mark.thorough
def test_the_timeline_and_the_seed_are_there_when_asked_for(run: Run, toy: Path) -> None:
    (item,) = json.loads(run("simulate", toy, "-o", "json", "--timeline", "--seed", "7").stdout)["items"]
    assert item["seeds"] == [7]
    assert item["runs"][0]["timeline"][0]["capacity_cpu_millis"] == 12000


@pytest.mark.thorough
def test_several_seeds_give_means_and_intervals_whatever_the_processes(run: Run, chancy: Path) -> None:
    args = ["simulate", chancy, "--compare", "none,rate=0.5", "--seeds", "3", "--seed", "4"]
    first = run(*args, "-o", "json")
    assert first.code == 0, first.stderr
    args += ALONE
    assert run(*args, "-o", "json").stdout == first.stdout
    none, _ = json.loads(first.stdout)["items"]
    assert none["seeds"] == [run["seed"] for run in none["runs"]] == [4, 5, 6]
    ratios = [run["instant_start_ratio"] for run in none["runs"]]
    assert len(set(ratios)) > 1
    assert none["instant_start_ratio"] == pytest.approx(sum(ratios) / 3)
    low, high = none["instant_start_interval"]
    assert low < none["instant_start_ratio"] < high
    alone = json.loads(run("simulate", chancy, "--compare", "none", "--seed", "5", "-o", "json", *ALONE).stdout)
    assert alone["items"][0]["runs"][0] == none["runs"][1]
    assert alone["items"][0]["instant_start_interval"] is None
    table = run(*args).stdout
    assert "means of 3 seeds" in table
    assert f"{low * 100:.1f} to {high * 100:.1f} %" in table


@pytest.mark.thorough
def test_a_curve_shows_rate_against_instant_start_and_cost(run: Run, chancy: Path, tmp_path: Path) -> None:
    args = ["simulate", chancy, "--curve", "0.5,0", "--seeds", "2", *ALONE]
    found = run(*args, "--picture", "curve.svg")
    assert (found.code, found.stderr) == (0, "")
    heading = next(line for line in found.stdout.splitlines() if "RATE" in line)
    assert " ".join(heading.split()) == "RATE INSTANT 95 % INTERVAL P99 NODES COST PER MONTH UNUSED"
    assert "2 seeds per rate" in found.stdout
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    document = json.loads(run(*args, "-o", "json").stdout)
    assert (document["kind"], document["seeds"]) == ("RateCurve", [1, 2])
    none, half = document["curve"]
    assert (none["rate"], half["rate"]) == (0.0, 0.5)
    assert none["instant_start_ratio"] < half["instant_start_ratio"]
    assert [run["seed"] for run in none["runs"]] == [1, 2]
    assert none["interval"][0] <= none["instant_start_ratio"] <= none["interval"][1]


@pytest.mark.thorough
def test_a_curve_has_rates_of_its_own_when_none_are_named(run: Run, toy: Path) -> None:
    document = json.loads(run("simulate", toy, "--curve", "default", "-o", "json", *ALONE).stdout)
    assert [point["rate"] for point in document["curve"]] == [0.0, 0.05, 0.1, 0.2, 0.4]
    assert document["curve"][0]["interval"] is None


@pytest.mark.thorough
def test_static_auto_alone_costs_what_the_scenarios_own_policies_cost(run: Run) -> None:
    args = ["simulate", SCENARIOS / "burst.yaml", "--compare", "static=auto,own", "-o", "json", *ALONE]
    static, own = json.loads(run(*args).stdout)["items"]
    assert (static["name"], own["name"]) == ("static=18x500m/1Gi (cost of own)", "own (rate=0.6)")
    assert static["cost"] == pytest.approx(own["cost"], rel=0.05)


@pytest.mark.thorough
def test_where_no_pod_comes_in_the_measured_time_everybody_is_told(run: Run, toy: Path) -> None:
    toy.write_text(TOY.replace("at: [12m, 20m]", "at: [1m]"))
    assert "no pods" in run("simulate", toy, "--compare", "none").stdout
    (item,) = json.loads(run("simulate", toy, "-o", "json").stdout)["items"]
    assert (item["total"]["pods"], item["instant_start_ratio"]) == (0, None)
    for command in (["simulate", toy, "--curve", "0"], ["tune", "--scenario", toy]):
        found = run(*command, "--seeds", "1", *ALONE)
        assert found.code == 2
        assert "no pod comes in the measured time" in found.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["simulate FILE", "tune --scenario FILE"])
def test_a_refusal_in_a_worker_is_told_like_any_other(run: Run, toy: Path, command: str) -> None:
    hpa = "hpa: {minReplicas: 1, maxReplicas: 60, targetPerPod: 1, load: {kind: points, points: [[0, 9], [900, 40]]}}"
    toy.write_text(TOY.replace("replicas: 9", f"replicas: 9, {hpa}") + "maxPods: 30\n")
    found = run(*command.replace("FILE", str(toy)).split(), "--seeds", "2")
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
        (["-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
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
    size = ("--seeds", "2", "--step", by_profile("0.25", "0.1"))
    args = ["tune", "--instant-start", "0.99", "--scenario", toy, *size, *ALONE]
    found = run(*args, "--picture", "curve.svg")
    assert (found.code, found.stderr) == (0, "")
    assert "(chosen)" in found.stdout
    assert "node hours per month" in found.stdout
    assert "COST PER MONTH in node hours (there are no prices)." in found.stdout
    assert " pods per day are late and all wait " in found.stdout
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    policy = parse_policy(yaml.safe_load(run(*args, "-o", "yaml").stdout), source="t")
    assert f"{policy.spec.extra_capacity.min_rate:g}" in next(
        line for line in found.stdout.splitlines() if "(chosen)" in line
    )


@pytest.mark.thorough
def test_the_document_of_tune_has_the_choice_of_the_policy(run: Run, toy: Path) -> None:
    args = ["tune", "--instant-start", "0.99", "--scenario", toy, "--seeds", "2", "--step", "0.1", *ALONE]
    policy = parse_policy(yaml.safe_load(run(*args, "-o", "yaml").stdout), source="t")
    document = json.loads(run(*args, "-o", "json").stdout)
    assert document["chosen"]["rate"] == policy.spec.extra_capacity.min_rate
    low, high = document["chosen"]["interval"]
    assert low <= document["chosen"]["instant_start_ratio"] <= high
    assert document["policies"][0]["spec"]["extraCapacity"]["minRate"] == document["chosen"]["rate"]
    assert [point["rate"] for point in document["curve"]] == sorted(point["rate"] for point in document["curve"])


@pytest.mark.thorough
def test_tune_warns_where_chance_may_miss_the_goal(run: Run, chancy: Path) -> None:
    args = ["tune", "--scenario", chancy, "--seeds", "2", "--step", "0.1", "--instant-start", "0.9", *ALONE, "--exact"]
    document = json.loads(run(*args, "-o", "json").stdout)
    low, _ = document["chosen"]["interval"]
    assert low < 0.9
    said = "The interval reaches below the goal of 90.0 %: more --seeds make it narrower; or take rate {}, whose"
    assert said.format(f"{document['surer']['rate']:g}") in run(*args).stdout
    quiet = run(*args, "-o", "yaml")
    assert "note: The interval reaches below the goal" in quiet.stderr
    assert parse_policy(yaml.safe_load(quiet.stdout), source="t").spec.extra_capacity.min_rate is not None


def test_tune_says_when_no_rate_reaches_the_goal(run: Run, toy: Path) -> None:
    args = ["tune", "--scenario", toy, "--seeds", "1", "--largest", "0.02", *ALONE]
    found = run(*args)
    assert found.code == 3
    assert "No rate up to 0.02 reaches it" in found.stdout


@pytest.mark.thorough
def test_files_of_tune_hold_nothing_where_no_rate_reaches_the_goal(run: Run, toy: Path) -> None:
    args = ["tune", "--scenario", toy, "--seeds", "1", "--largest", "0.02", *ALONE]
    quiet = run(*args, "-o", "yaml")
    assert (quiet.code, quiet.stdout) == (3, "")
    assert "no rate up to 0.02 reaches 0.99" in quiet.stderr
    document = json.loads(run(*args, "-o", "json").stdout)
    assert (document["reached"], document["chosen"], document["policies"]) == (False, None, [])


def test_tune_takes_prices_of_a_file_with_their_currency(run: Run, recorded: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\ninstanceTypes: {m7i.xlarge: 0.2}\n")
    args = ["--from-trace", recorded, "--prices", prices, "--seeds", "1", "--step", "0.5", "-o", "json", *ALONE]
    by_file = json.loads(run("tune", *args).stdout)
    assert by_file["currency"] == "EUR"
    nodes, cost = by_file["curve"][0]["nodes"], by_file["curve"][0]["cost_per_month"]
    assert cost == pytest.approx(nodes * 730 * 0.2, rel=0.01)
    assert by_file["curve"][0]["node_hours_per_month"] == pytest.approx(nodes * 730)


@pytest.mark.thorough
def test_tune_takes_a_trace_and_prices(run: Run, recorded: Path) -> None:
    args = ["--seeds", "1", "--step", "0.1", "--price", "m7i.xlarge=0.2", "-o", "json", *ALONE]
    found = run("tune", "--from-trace", recorded, *args)
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["currency"] == ""
    assert document["curve"][0]["instant_start_ratio"] < 1.0
    assert document["chosen"]["instant_start_ratio"] >= 0.99


def test_a_recording_teaches_an_objective(run: Run, recorded: Path, tmp_path: Path) -> None:
    found = run(
        "tune", "--objective", "0.9", "--trace", recorded, "--policy", "web", "--learnt-out", "l.yaml", "-o", "json"
    )
    assert found.code == 0, found.stderr
    assert "next, in the operator's namespace: kubectl create -n resource-slack -f l.yaml" in found.stderr
    history, document = yaml.safe_load((tmp_path / "l.yaml").read_text()), json.loads(found.stdout)
    assert (history["kind"], history["metadata"]["name"]) == ("SlackHistory", "web")
    learner = decode(base64.b64decode(history["learnt"]["state"], validate=True))
    assert document["pods"] == history["learnt"]["started"] == learner.tally.started > 0
    spec = parse_policy(document["policies"][0], source="t").spec
    assert (spec.objective and spec.objective.instant_start, spec.extra_capacity.min_rate) == (0.9, None)
    assert len(document["learnt"]["default"]["hours"]) == 24
    constant = document["constant_rate"]
    assert abs(constant["cost"] - document["cost"]) <= 0.2 * document["cost"]
    assert 0 <= constant["rate"] <= 10
    assert 0 <= constant["instant_start_ratio"] <= 1


@pytest.mark.thorough
def test_what_an_objective_has_learnt_is_told(run: Run, recorded: Path) -> None:
    found = run("tune", "--objective", "0.9", "--from-trace", recorded)
    assert found.code == 0, found.stderr
    assert "pods started without waiting, instead of" in found.stdout
    assert "A constant rate of that cost (" in found.stdout
    assert "objective:\n    instantStart: 0.9" in found.stdout


@pytest.mark.thorough
def test_the_scenario_of_a_trace_can_be_edited_and_tuned(run: Run, recorded: Path, tmp_path: Path) -> None:
    found = run("tune", "--from-trace", recorded, "--scenario-only", "mine.json")
    assert (found.code, found.stdout) == (0, "")
    assert "next: resource-slack tune --scenario mine.json" in found.stderr
    args = ["--seeds", "1", "--step", "0.5", "-o", "json", *ALONE]
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
        (["--from-trace", "day.parquet", "--objective", "99"], "--objective: 99 is not a share of pods"),
        (["--from-trace", "day.parquet", "--objective", "0.9", "--policy", "../web"], "--policy: '../web' is no name"),
        (["--from-trace", "day.parquet", "--objective", "0.9", "--seeds", "2"], "--seeds: belongs to a search for a"),
        (["--from-trace", "day.parquet", "--learnt-out", "x"], "--learnt-out: belongs to --objective"),
        (
            ["--from-trace", "day.parquet", "--objective", "0.9", "--learnt-out", "no/x"],
            "--learnt-out: no/x: no such folder",
        ),
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


@pytest.mark.thorough
def test_prices_of_a_file_win_over_those_of_a_scenario(run: Run, toy: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: CHF, cpu: 0.5, memory: 0.01}")
    own, given = (json.loads(run("simulate", toy, *more, "-o", "json").stdout) for more in ((), ("--prices", prices)))
    assert (given["currency"], own["currency"] == "CHF") == ("CHF", False)
    assert given["items"][0]["cost"] != own["items"][0]["cost"]
    prices.write_text("instanceTypes: {none.such: 1}")
    for command in (("simulate", toy), ("tune", "--scenario", toy)):
        found = run(*command, "--prices", prices)
        assert (found.code, "prices.yaml: fits no node group of" in found.stderr) == (2, True), found.stderr
