"""`throttler check` and `throttler simulate`: what they print, for people and for programs, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT, Run
from tests.cli.test_vocabulary import as_declared, golden
from tests.throttler.test_config import STUDY
from tests.throttler.test_pods import study

STORM = ROOT / "examples" / "starting" / "storm.yaml"
POLICY = ROOT / "examples" / "throttlepolicy.yaml"


def printed(run: Run, *args: str | Path) -> Any:
    found = run("throttler", *map(str, args), "-o", "json")
    assert found.code == 0, found.stderr
    return json.loads(found.stdout)


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(document))
    return path


def test_a_policy_is_told_with_what_it_comes_to(run: Run) -> None:
    shown = printed(run, "check", "-f", POLICY, "--cores", "8")
    as_declared("throttler-check", shown)
    golden("throttler-check", shown)
    assert shown["items"][0]["limits"]["slots"] == 24


def test_the_study_s_minion_config_is_read_as_printed(run: Run, tmp_path: Path) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, STUDY)))
    assert found.code == 0
    assert "MinionConfig: on a node of 2 cores\ncontainers start at once            6\n" in found.stdout


def test_a_pod_is_told_with_the_order_of_its_starts(run: Run, tmp_path: Path) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, study())))
    assert [line.rstrip() for line in found.stdout.splitlines()] == [
        "Pod app: its containers start in this order",
        "1  app_a",
        "2  app_b",
        "3  app_c, app_d",
        "4  app_e",
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (study(app_b=["mag"]), "app_b: depends on 'mag', and no container is called so"),
        (STUDY | {"throttling": {"maxCPU": "180%"}}, "throttling.maxCPU: must be a percentage above 0% and at most"),
        (STUDY | {"throttling": {"minRate": "2", "maxRate": "1"}}, "throttling: minRate is above maxRate"),
        ({"kind": "Service"}, "kind: 'Service' is no Pod"),
    ],
)
def test_what_is_refused_is_told_with_the_field_and_exit_code_2(
    run: Run, tmp_path: Path, document: object, problem: str
) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, document)))
    assert (found.code, found.stdout) == (2, "")
    assert problem in found.stderr


def test_the_storm_is_played_under_each_limit(run: Run) -> None:
    shown = printed(run, "simulate", STORM, "--compare", "none,2,4,6")
    as_declared("throttler-simulate", shown)
    golden("throttler-simulate", shown)
    assert [(item["name"], item["failures"], item["ready"]) for item in shown["items"]] == [
        ("none", 36, 0),
        ("2", 0, 12),
        ("4", 0, 12),
        ("6", 0, 12),
    ]


def test_people_see_a_line_a_limit(run: Run) -> None:
    found = run("throttler", "simulate", str(STORM), "--compare", "none,6")
    rows = [line.split() for line in found.stdout.splitlines()]
    assert rows[1:] == [
        ["none", "0/12", "36", "12", "never", "never"],
        ["6", "12/12", "0", "6", "10.5", "s", "7.7", "s"],
    ]


@pytest.mark.parametrize("name", ["storm", "cache", "unlucky"])
def test_each_example_is_played_as_it_is(run: Run, name: str) -> None:
    (item,) = printed(run, "simulate", ROOT / "examples" / "starting" / f"{name}.yaml")["items"]
    assert item["name"] == "policy"
    assert item["ready"] == item["containers"]


def test_a_picture_has_a_row_a_container_and_the_same_bytes_each_time(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in pictures:
        found = run("throttler", "simulate", str(STORM), "--compare", "none,6", "--picture", str(path))
        assert found.code == 0, found.stderr
    first, second = (path.read_bytes() for path in pictures)
    assert first == second
    assert first.count(b"storm/app-11") >= 2


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("check",), "--filename: give a ThrottlePolicy such as"),
        (("simulate",), "FILE: give a scenario such as"),
        (("simulate", str(STORM), "--compare", "none,two"), "--compare: 'two' is neither none nor a whole number"),
        (("simulate", str(STORM), "--compare", "2,2"), "--compare: give up to 16 limits, each once"),
        (("simulate", str(STORM), "--compare", "0"), "--compare: '0' is neither none nor"),
        (("simulate", str(STORM), "--picture", "storm.gif"), "--picture: storm.gif ends in neither .png nor .svg"),
        (("simulate", str(POLICY)), "unknown field"),
        (("check", "-f", str(STORM)), "kind: None is no Pod"),
    ],
)
def test_bad_input_is_told(run: Run, args: tuple[str, ...], problem: str) -> None:
    found = run("throttler", *args)
    assert found.code == 2
    assert problem in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), ["--tls-cert-file: needed", "--tls-key-file: needed"]),
        (("--gates-listen", "7472"), ["--gates-listen: '7472' is no address"]),
        (("--node", "A b"), ["--node: 'A b' is no name of a node"]),
    ],
)
def test_an_agent_that_cannot_serve_gates_ends_before_it_begins_and_names_the_flag(
    run: Run, args: tuple[str, ...], said: list[str]
) -> None:
    found = run("throttler", "agent", *args)
    assert found.code == 2
    for text in said:
        assert text in found.stderr
