"""`-o` in every command that prints: documents of what was done, files for other programs, tables of schemas."""

import json
from pathlib import Path

import pytest
import yaml

from slack.cli import uninstall
from slack.cli.documents.registry import DOCUMENTS, schema
from slack.cli.documents.schema_fields import fields_of
from tests.cases import run_for_each
from tests.cli.conftest import Run
from tests.cli.test_documents import EXAMPLE, as_declared, golden
from tests.cli.test_uninstall import BRAKE, CLASS, OURS, PLACEHOLDER, config
from tests.kube.fake_api import FakeApi, Reply


@pytest.mark.parametrize(
    "words", [("crd",), ("crd", "CpuAuditReport"), ("monitoring", "rules"), ("monitoring", "dashboard")]
)
def test_files_for_other_programs_are_the_same_in_yaml_and_json(run: Run, words: tuple[str, ...]) -> None:
    in_yaml, in_json = run(*words, "-o", "yaml"), run(*words, "-o", "json")
    assert yaml.safe_load(in_yaml.stdout) == json.loads(in_json.stdout)
    assert run(*words).stdout == (in_json if words[-1] == "dashboard" else in_yaml).stdout
    refused = run(*words, "-o", "table")
    assert (refused.code, refused.stdout) == (2, "")
    assert "'table' is not one of 'yaml', 'json'" in refused.stderr


def test_rules_for_components_that_nobody_named_have_no_alert_that_one_of_them_is_absent(run: Run) -> None:
    every = run("monitoring", "rules").stdout
    assert "absent(" not in every
    assert "# Without alerts that a component is absent" in every
    rules = {
        rule["alert"]: rule for group in yaml.safe_load(every)["groups"] for rule in group["rules"] if "alert" in rule
    }
    assert rules["ResourceSlackNotLeading"]["expr"] == "sum by (cluster, namespace, job) (slack_leader) == 0"
    assert "ResourceSlackScorerAbsent" not in rules
    named = run("monitoring", "rules", "--component", "operator", "--component", "scorer").stdout
    assert named.count("absent(slack_leader)") == named.count("absent(slack_scorer_build_info)") == 1
    assert "absent(slack_throttler" not in named


def test_a_wide_explanation_has_a_table_of_every_room(run: Run) -> None:
    words = ("explain", "-n", "shop", "deploy/api", *EXAMPLE)
    short, wide = run(*words).stdout, run(*words, "-o", "wide").stdout
    assert wide.startswith(short)
    heading, *rows = wide.removeprefix(short).splitlines()
    assert heading.split() == ["POLICY", "SHAPE", "ROLE", "EACH", "COUNT", "ON", "NODES", "PENDING", "NODES"]
    assert len(rows) == len(json.loads(run(*words, "-o", "json").stdout)["rooms"])


def test_a_schema_is_a_table_too(run: Run) -> None:
    shown = {
        line.split()[0]: line.split(maxsplit=1)[1] for line in run("schema", "plan", "-o", "table").stdout.splitlines()
    }
    assert shown["items[].desired"] == "whole number by name"
    assert shown["items[].binding[].limit"] == "ceiling, floor"
    assert shown["items[].binding[].text"] == "text"
    assert shown["items[].cost.per_hour"] == "number or null"
    assert "What placeholders cost" in run("schema", "plan", "-o", "wide").stdout


@run_for_each("command", DOCUMENTS)
def test_every_field_of_every_schema_has_a_line(command: str) -> None:
    found = schema(command)
    names = {field.path.rpartition(".")[2].removesuffix("[]") for field in fields_of(found)}
    declared = {name for kind in found["$defs"].values() for name in kind["properties"]}
    assert declared == names
    assert not [field for field in fields_of(found) if not field.holds]


def test_a_recording_is_told_to_a_program(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with FakeApi() as api:
        found = run(
            "record", "--out", "t.parquet", "--duration", "1s", "--kubeconfig", config(api, tmp_path), "-o", "json"
        )
    assert found.code == 0, found.stderr
    shown = json.loads(found.stdout)
    as_declared("record", shown)
    golden("record", shown | {"recorded_seconds": 1.0})
    assert "next: resource-slack tune --from-trace t.parquet" in found.stderr


def test_what_became_of_each_object_is_one_document_for_a_program(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        api.put("/apis/apps/v1/namespaces/rs2/replicasets/slack-a", metadata=PLACEHOLDER)
        api.put(BRAKE, metadata=OURS)
        api.put(CLASS, metadata={"labels": {}})
        args = ("uninstall", "-n", "rs2", "--wait-seconds=0", "--kubeconfig", config(api, tmp_path))
        would, done, again = run(*args, "-o", "json"), run(*args, "--yes", "-o", "yaml"), run(*args, "-o", "json")
        wide = run(*args, "-o", "wide")
    assert (would.code, done.code, again.code) == (0, 0, 0), would.stderr + done.stderr
    shown = json.loads(would.stdout)
    as_declared("uninstall", shown)
    golden("uninstall", shown)
    outcomes = {item["kind"]: item["outcome"] for item in yaml.safe_load(done.stdout)["items"]}
    assert outcomes == {"ReplicaSet": "Deleted", "ResourceQuota": "Deleted", "PriorityClass": "Kept"}
    assert [item["outcome"] for item in json.loads(again.stdout)["items"]] == ["Kept"]
    assert wide.stdout == ""


def test_a_document_is_printed_of_what_was_done_before_a_server_failed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uninstall, "_RETRY_SECONDS", 0.3)
    with FakeApi() as api:
        for name in ("slack-a", "slack-b"):
            api.put(f"/apis/apps/v1/namespaces/rs2/replicasets/{name}", metadata=PLACEHOLDER)
        api.script("delete", Reply.status(200, "Success"), *[Reply.status(500)] * 99)
        found = run("uninstall", "--yes", "-n", "rs2", "--kubeconfig", config(api, tmp_path), "-o", "json")
    assert found.code == 2
    shown = json.loads(found.stdout)
    as_declared("uninstall", shown)
    assert [(item["name"], item["outcome"]) for item in shown["items"]] == [("slack-a", "Deleted"), ("slack-b", "Left")]
