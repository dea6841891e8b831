"""`scorer score`: the documents it prints, its tables, and what it says to bad input."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from slack.cluster.wire import Pod
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import Weighted
from slack.scorer.record import line_of
from slack.scorer.scoring import prepare, score
from tests.cli.conftest import ROOT, Run
from tests.cli.test_documents import as_declared, golden
from tests.scorer.clusters import NOW, load, nodes, window

SNAPSHOT = ROOT / "examples/cluster.json"
TOLD = 1_768_471_200  # 2026-01-15T10:00:00Z, when the example cluster was written
POD = """
apiVersion: v1
kind: Pod
metadata: {name: api-x, namespace: shop}
spec:
  containers:
    - {name: api, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "1"}}}
"""
BOTH = "[TargetLoadPacking, {name: LoadVariationRiskBalancing, weight: 2, args: {safeVarianceSensitivity: 2}}]"


def watcher(**cpu_percent: float) -> str:
    data = {
        name.replace("_", "-"): {
            "metrics": [
                {"name": "cpu", "type": "cpu", "rollup": "AVG", "value": value},
                {"name": "cpu", "type": "cpu", "rollup": "STD", "value": 4},
                {"name": "memory", "type": "memory", "rollup": "AVG", "value": 30},
            ]
        }
        for name, value in cpu_percent.items()
    }
    span = {"duration": "5m", "start": TOLD - 300, "end": TOLD}
    return json.dumps({"timestamp": TOLD, "window": span, "source": "test", "data": data})


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "watcher.json").write_text(watcher(web_1=10, web_2=25, web_3=70, somebody=5))
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "scorer.yaml").write_text(f"algorithms: {BOTH}\nscale: 100\nmin-measured-nodes: 20%\npod-use: Limits\n")
    return (
        "scorer", "score", "--snapshot", str(SNAPSHOT), "--load", str(tmp_path / "watcher.json"),
        "--pod", str(tmp_path / "pod.yaml"), "--config", str(tmp_path / "scorer.yaml"),
    )  # fmt: skip


def printed(run: Run, *args: str) -> Any:
    found = run(*args, "-o", "json")
    assert found.code == 0, found.stderr
    shown = json.loads(found.stdout)
    as_declared("score", shown)
    return shown


def test_a_decision_with_every_term(run: Run, files: tuple[str, ...]) -> None:
    shown = printed(run, *files)
    golden("score", shown)
    assert shown["best"] == "web-2"
    assert shown["unmatched"] == ["somebody"]
    packing = shown["items"][0]["algorithms"][0]
    # 25 % of 8 cores, and the pod's limit of one
    assert packing["terms"]["utilization_percent"] == 37.5
    assert {node["state"] for node in shown["items"][3:]} == {"NoMetrics"}
    assert {node["score"] for node in shown["items"][3:]} == {0}


@pytest.mark.parametrize(
    ("word", "rule"), [("Spread", "SpreadOnAllocations"), ("Pack", "BestFitOnAllocations"), ("Neutral", "NoLoad")]
)
def test_without_load_the_configured_rule_decides(
    run: Run, files: tuple[str, ...], tmp_path: Path, word: str, rule: str
) -> None:
    (tmp_path / "scorer.yaml").write_text(f"without-load: {word}\n")
    shown = printed(run, *files[:4], *files[6:])
    scores = {node["score"] for node in shown["items"]}
    assert shown["rule"] == rule
    assert (scores == {0}) == (word == "Neutral")
    percents = [node["terms"].get("allocation_percent") for node in shown["items"]]
    fitting = [percent for percent in percents if percent is not None]
    if word == "Neutral":
        assert not fitting
    else:
        best = max(fitting) if word == "Pack" else min(fitting)
        assert percents[0] == pytest.approx(best, abs=1.0)


def test_with_the_load_of_few_nodes_all_score_the_same(run: Run, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "scorer.yaml").write_text("scale: 100\n")
    shown = printed(run, *files)
    assert (shown["rule"], {node["score"] for node in shown["items"]}) == ("TooFewMeasured", {0})
    assert "the load of too few nodes is known: all nodes score the same" in run(*files).stdout


def test_a_curve_cannot_be_given_by_a_name_alone(run: Run, files: tuple[str, ...]) -> None:
    found = run(*files, "--algorithms", "TargetLoadPacking,Peaks=0.5")
    assert found.code == 2
    assert "algorithms[1].args.nodePowerModel: Peaks needs the power curve" in found.stderr
    assert "{name: Peaks, args: {nodePowerModel:" in found.stderr


def test_load_that_is_too_old_at_an_instant_is_none(run: Run, files: tuple[str, ...]) -> None:
    shown = printed(run, *files, "--at", "2026-01-15T10:05:01Z")
    assert shown["rule"] == "SpreadOnAllocations"
    assert {node["node"]: node["state"] for node in shown["items"]}["web-2"] == "Stale"


def test_a_workloads_template_is_a_pod_too(run: Run, files: tuple[str, ...], tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "200m"}}}]}}
    own = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": {"template": template}}
    (tmp_path / "pod.yaml").write_text(json.dumps(own))
    shown = printed(run, *files)
    assert (shown["pod"], shown["predicted"]["cpu_millis"]) == ("default/api", 300)


def test_tables_name_the_rule_and_wide_ones_every_figure(run: Run, files: tuple[str, ...]) -> None:
    table = run(*files).stdout
    assert "pod shop/api-x: 1000m of CPU predicted; Measured" in table
    assert "names in the load that no node has: somebody" in table
    assert "TargetLoadPacking.utilization_percent=37.5" in run(*files, "-o", "wide").stdout


def record(tmp_path: Path) -> Path:
    pod = msgspec.json.decode(
        b'{"metadata":{"name":"api","namespace":"shop"},"spec":{"containers":[{"name":"c"}]}}', type=Pod
    )
    basis = prepare((Weighted(TargetLoadPacking()),), nodes(3), load(window([10, 40, 60])), NOW)
    scores = score(basis, demand_of(pod.spec, TargetLoadPacking().prediction), np.array([0, 1, 2]))
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(line_of(NOW, pod, False, basis, scores) * 2 + b"\n")
    return path


def test_recorded_decisions_are_made_again_as_they_were(run: Run, tmp_path: Path) -> None:
    shown = printed(run, "scorer", "score", "--lines", str(record(tmp_path)))
    golden("score.lines", shown)
    assert (shown["decisions"], shown["other_best"], shown["other_scores"]) == (2, 0, 0)


def test_recorded_decisions_are_made_again_with_other_arguments(run: Run, tmp_path: Path) -> None:
    other = json.dumps([{"name": "TargetLoadPacking", "args": {"targetUtilization": 70}}])
    args = ("scorer", "score", "--lines", str(record(tmp_path)), "--algorithms", other)
    shown = printed(run, *args)
    assert (shown["items"][0]["recorded_best"], shown["items"][0]["best"]) != ("n2", "n2")
    assert shown["items"][0]["best"] == "n2"
    assert shown["other_best"] == 2
    assert "2 decisions: 2 with another best node" in run(*args).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--snapshot: give --snapshot and --pod, and --load for real load; or --lines"),
        (("--snapshot", str(SNAPSHOT)), "--pod: give --snapshot and --pod"),
        (("--lines", "-", "--pod", "x"), "--lines: recorded decisions have their nodes"),
        (("--algorithms", "Best", "--lines", "-"), "algorithms[0].name: 'Best' is none of TargetLoadPacking"),
        (
            ("--algorithms", '[{"name": "TargetLoadPacking", "args": {"targetUtilization": 101}}]', "--lines", "-"),
            "algorithms[0].args.targetUtilization: 101 is not from 1 to 100",
        ),
    ],
)
def test_bad_flags_end_with_exit_code_2_and_the_field(run: Run, args: tuple[str, ...], words: str) -> None:
    found = run("scorer", "score", *args)
    assert found.code == 2
    assert words in found.stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("watcher.json", "{}", "watcher.json: no payload of a load watcher"),
        (
            "watcher.json",
            watcher(web_1=1).replace(f'"timestamp": {TOLD}', '"timestamp": 999999999999'),
            "timestamp: 99999",
        ),
        ("pod.yaml", "kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}\n", "found 2 objects"),
        ("pod.yaml", "kind: ConfigMap\nmetadata: {name: a}\n", "a ConfigMap has no pod template"),
        ("pod.yaml", POD.replace("500m", "lots"), "'lots' is not a quantity"),
        ("pod.yaml", "kind: Pod\nmetadata: 7\n", "pod.yaml: Expected `object`, got `int`"),
    ],
)
def test_files_that_are_not_what_they_should_be_are_named(
    run: Run, files: tuple[str, ...], tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / name).write_text(content)
    found = run(*files)
    assert found.code == 2
    assert words in found.stderr


def test_a_line_that_is_no_decision_is_named(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path)
    path.write_bytes(path.read_bytes() + b"{}\n")
    found = run("scorer", "score", "--lines", str(path))
    assert found.code == 2
    assert "decisions.jsonl, line 4: no recorded decision" in found.stderr


def test_a_snapshot_without_nodes_or_with_what_cannot_be_read_is_refused(
    run: Run, files: tuple[str, ...], tmp_path: Path
) -> None:
    for content, words in (
        ('{"kind": "List", "items": []}', "it has no nodes"),
        ('{"kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": {"cpu": "x"}}}', "node a"),
        ('{"kind": "Node", "metadata": 7}', "(a Node)"),
    ):
        (tmp_path / "cluster.json").write_text(content)
        found = run(*files[:3], str(tmp_path / "cluster.json"), *files[4:])
        assert found.code == 2
        assert words in found.stderr
