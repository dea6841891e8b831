"""Scenario and policy files as people write and break them: the message, the line, the exit code."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from slack.simulator.traces.format import PodTraceRow
from slack.simulator.traces.parquet import write_trace
from tests.cli.conftest import ROOT, Run
from tests.simulator.trace_rows import burst_trace, node, pod, trace

TOY = """\
name: toy
duration: 30m
nodeGroups:
  - name: general
    allocatable: {cpu: "4", memory: 16Gi}
    labels: {example.com/tier: web}
workloads:
  - name: burst
    requests: {cpu: "1", memory: 1Gi}
    arrivals: {kind: bursts, size: 5, at: [12m, 20m]}
slack: {kind: none}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("duration: 30m", "name: other", "toy.yaml, line 2: name is given twice, first in line 1; keep one of them"),
        ("size: 5", "size: 5, size: 6", "line 10: workloads[0].arrivals.size is given twice, first in line 10"),
        ("web}", "Web$}", "toy.yaml: nodeGroups[0].labels.example.com/tier: 'Web$' is not a label value (line 6)"),
        (
            "web}",
            "3}",
            "toy.yaml: nodeGroups[0].labels.example.com/tier: must be text, not 3; put it in quotes (line 6)",
        ),
        ("kind: bursts, ", "", "workloads[0].arrivals.kind: is missing; write one of poisson, diurnal, bursts"),
        (
            "at: [12m, 20m]",
            "at: [30m]",
            "arrivals.at: none of the bursts comes within the duration, 30m; the first is at 30m",
        ),
        ("duration: 30m", "duration: 400h\n---", "toy.yaml: there are 2 documents in it; give one scenario a file"),
        ("duration: 30m", "seed: \x01", "toy.yaml: not YAML: the character 0x01 at position 16 is no text"),
        ("duration: 30m", "duration: 8785h", "toy.yaml: duration: 8785h is longer than 366 days (8784h); play a"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(run: Run, tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "toy.yaml").write_text(TOY.replace(old, new, 1))
    found = run("simulate", "toy.yaml")
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_arrivals_beyond_the_end_are_a_warning_and_the_rest_is_played(run: Run, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(TOY.replace("20m]", "20m, 31m]"))
    found = run("simulate", "toy.yaml", "-o", "json")
    assert found.code == 0
    assert "warning: toy.yaml: workloads[0].arrivals.at[2]: 1 of 3 come after the duration, 30m" in found.stderr
    assert "(line 10)" in found.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "name": "a",\n  "name": "b"\n}', "toy.json, line 3: name is given twice, first in line 2"),
        ('{\n\t"name": "a",\n\t"name": "b"\n}', "toy.json: 'name' is given twice; keep one of them"),
        ('{\n\t"nodeGroups": [],\n\t"workloads": 1\n}', "workloads: must be a list, not 1"),
    ],
)
def test_json_is_held_to_the_same(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "toy.json").write_text(text)
    found = run("simulate", "toy.json")
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr


def test_merged_and_aliased_mappings_are_no_keys_given_twice(run: Run, tmp_path: Path) -> None:
    text = TOY.replace("  - name: general", "  - &general\n    name: general").replace(
        "workloads:", "  - {<<: *general, name: other}\nworkloads:"
    )
    (tmp_path / "toy.yaml").write_text(text)
    assert [group["name"] for group in yaml.safe_load(text)["nodeGroups"]] == ["general", "other"]
    found = run("simulate", "toy.yaml", "-o", "json")
    assert (found.code, found.stderr) == (0, "")


def test_a_policy_with_a_key_given_twice_is_refused(run: Run, cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text((ROOT / "examples/slackpolicy.yaml").read_text() + "  granularity: 5\n  granularity: 6\n")
    found = run("plan", "-f", path, "--snapshot", cluster)
    assert found.code == 2
    assert "spec.granularity is given twice, first in line" in found.stderr


def test_a_damaged_traces_bytes_do_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    whole = write_trace(burst_trace())
    at = whole.index(b"cpu_millis")  # the schema in the footer
    (tmp_path / "day.parquet").write_bytes(whole[:at] + b"\x1b[2J" + whole[at + 4 :])
    found = run("tune", "--from-trace", "day.parquet")
    assert (found.code, found.stdout) == (2, "")
    assert all(line.isprintable() for line in found.stderr.splitlines())


def test_a_recording_in_which_no_pod_came_is_told_before_anything_is_played(run: Run, tmp_path: Path) -> None:
    still = replace(burst_trace(), pods=tuple(replace(row, initial=True) for row in burst_trace().pods))
    (tmp_path / "day.parquet").write_bytes(write_trace(still))
    for command in (("tune", "--from-trace"), ("simulate", "--trace")):
        found = run(*command, "day.parquet")
        assert (found.code, found.stdout) == (2, "")
        assert found.stderr.startswith("error: day.parquet: no pod came while it was recorded")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            pod(constraints_json='{"nodeSelector":"web"}'),
            "column constraints_json, row 1 of 2: nodeSelector is not an object",
        ),
        (
            pod(requests_json='{"nvidia.com/gpu":-1}'),
            "column requests_json, row 1 of 2: nvidia.com/gpu: -1 is not a whole",
        ),
        (pod(workload="api"), "column workload, row 1 of 2: 'api' is no kind and name such as deploy/api"),
    ],
)
def test_what_a_traces_json_cannot_be_is_refused_with_column_and_row(
    run: Run, tmp_path: Path, row: PodTraceRow, said: str
) -> None:
    (tmp_path / "day.parquet").write_bytes(write_trace(trace(row, node())))
    found = run("tune", "--from-trace", "day.parquet")
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr
