"""What commands print for machines: golden files, the published schemas, and one vocabulary.

RESOURCE_SLACK_GOLDEN=1 writes the golden files anew; look at the diff, for programs of others read these fields.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from slack.cli.documents.audit import AUDIT_DOCUMENTS
from slack.cli.documents.registry import DOCUMENTS, schema
from slack.loadtest.meter import LoadMeter
from slack.loadtest.report import document as load_document
from tests.cli.conftest import ROOT, Run
from tests.cli.json_schema import problems
from tests.cli.test_uninstall import config
from tests.examples import by_profile
from tests.health.build import lease, policy
from tests.kube.fake_api import FakeApi

GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = ("--snapshot", str(ROOT / "examples/cluster.json"), "--at", "2026-01-15T10:00:00Z")
WORDS = ("message", "text", "reasons", "warnings", "notes")
_FOREIGN = {
    "Status": ("status", "nodes"),
    "Tuning": ("policies",),
    "Explanation": ("nodes",),
    "Audit": ("states",),
    "MigratedPolicy": ("spec",),
    "MigratedList": ("spec",),
}
"""By kind, fields whose inner names are Kubernetes' or users'."""
SCENARIO = """
name: toy
duration: 30m
warmUp: 10m
nodeGroups:
  - name: general
    allocatable: {cpu: "4", memory: 16Gi}
    initial: 3
    startUp: {kind: constant, seconds: 60}
workloads:
  - name: burst
    requests: {cpu: "1", memory: 1Gi}
    life: {kind: constant, seconds: 200}
    arrivals: {kind: bursts, size: 5, at: [12m, 20m]}
"""


def from_yaml(text: str) -> Any:
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # the other takes seconds


def printed(run: Run, *args: object) -> Any:
    found = run(*args, "-o", "json")
    assert found.code in (0, 3), found.stderr
    same = from_yaml(run(*args, "-o", "yaml").stdout)
    shown = json.loads(found.stdout)
    assert same == shown
    return shown


def without_words(value: Any, key: str = "") -> Any:
    """Return a document without what is said to people: its words may be bettered, its fields not."""
    if isinstance(value, dict):
        return {name: without_words(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_words(inner, key) for inner in value]
    return "..." if key in WORDS and isinstance(value, str) else value


def golden(name: str, found: Any) -> None:
    """Hold a document to its file, but for its words."""
    found = without_words(found)
    path = GOLDEN / f"{name}.json"
    if os.environ.get("RESOURCE_SLACK_GOLDEN"):
        path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    assert json.loads(path.read_text()) == found


def fields(value: Any, path: str = "$") -> Iterator[str]:
    """Yield every field that a document has, with its kind."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, f"{path}[]")
    else:
        yield f"{path}: {'number' if isinstance(value, int | float) and value not in (True, False) else 'value'}"


def names(value: Any, kind: str) -> Iterator[str]:
    """Yield the names of our own fields: not of objects of Kubernetes as they are, nor what users name."""
    foreign = _FOREIGN.get(kind, ())
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in foreign:
                yield from names(inner, kind)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner, kind)


def as_declared(command: str, shown: Any) -> None:
    """It is as the published schema says, field by field and no other; and the names are of one vocabulary."""
    published = json.loads((ROOT / f"docs/reference/schemas/{command}.json").read_text())
    assert problems(shown, published) == []
    if isinstance(shown, dict):
        assert problems(shown | {"more": 1}, published) != []
    if len(DOCUMENTS[command]) == 1:
        (kind,) = DOCUMENTS[command]
    else:
        kinds = {next(iter(kind.__annotations__["kind"].__args__)): kind for kind in DOCUMENTS[command]}
        kind = kinds[shown["kind"]]
    msgspec.convert(shown, kind)
    pattern = r"[a-z][A-Za-z0-9]*" if command in AUDIT_DOCUMENTS else r"[a-z0-9_]+|apiVersion"
    assert [name for name in names(shown, kind.__name__) if not re.fullmatch(pattern, name) and "/" not in name] == []


def test_a_plan(run: Run) -> None:
    shown = printed(run, "plan", "-f", ROOT / "examples/slackpolicy.yaml", *EXAMPLE)
    as_declared("plan", shown)
    golden("plan", shown)


@pytest.mark.parametrize(
    ("limit", "spec", "texts", "line"),
    [
        (
            "floor",
            {"minRate": 0.1, "floor": {"cpu": "64000m", "memory": "1500Gi"}},
            [
                "cpu floor 64000m binds (4100m wanted without it)",
                "memory floor 1500Gi binds (10.8Gi wanted without it)",
            ],
            "(floor 64000m cpu, 1500Gi memory)",
        ),
        (
            "ceiling",
            {"minRate": 0.5, "ceiling": {"cpu": "2000m", "memory": "1.5e12"}},
            ["cpu ceiling 2000m binds (20500m wanted)"],
            "limit    cpu ceiling 2000m binds (20500m wanted)",
        ),
    ],
)
def test_a_limit_that_binds_is_said_back_as_its_policy_has_it(
    run: Run, tmp_path: Path, limit: str, spec: dict[str, Any], texts: list[str], line: str
) -> None:
    file = tmp_path / "policy.yaml"
    head = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": limit}}
    file.write_text(json.dumps({**head, "spec": {"extraCapacity": spec}}))
    shown = printed(run, "plan", "-f", file, *EXAMPLE)
    as_declared("plan", shown)
    (item,) = shown["items"]
    golden(f"plan.{limit}", {"binding": item["binding"], "wanted_by": item["wanted_by"]})
    assert [binding["text"] for binding in item["binding"]] == texts
    assert line in run("plan", "-f", file, *EXAMPLE).stdout


def test_an_explanation(run: Run) -> None:
    shown = printed(run, "explain", "-n", "shop", "deploy/api", *EXAMPLE)
    as_declared("explain", shown)
    golden("explain", shown)


def test_a_version(run: Run) -> None:
    shown = printed(run, "version")
    as_declared("version", shown)
    golden("version.fields", sorted(set(fields(shown))))


class Stopped:
    """A clock that stands still, so that ages do not go on between two looks."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def time(self) -> float:
        return self._seconds


def test_a_status(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.cli.status.command.time", Stopped(time.time()))
    with FakeApi() as api:
        api.put("/apis/resource-slack.io/v1alpha1/slackpolicies/web", **policy())
        api.put(
            "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases/resource-slack",
            **lease(now=datetime.now(UTC)),
        )
        shown = printed(run, "status", "--kubeconfig", config(api, tmp_path))
    as_declared("status", shown)
    golden("status.fields", sorted(set(fields(shown))))


def test_a_load() -> None:
    meter = LoadMeter(0.0)
    meter.node_seen("a", 0.0, ready=True)
    meter.pod_seen("1", None, "", 0.0)
    meter.pod_seen("1", "a", "", 0.5)
    meter.tick(1.0)
    shown = load_document(meter.report(1.0), ["a note"])
    as_declared("load", shown)
    golden("load", shown)


def test_a_simulation_and_a_curve(run: Run, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SCENARIO)
    for name, args in (("simulate", ("--timeline",)), ("curve", ("--curve", "0,0.1"))):
        command = ("simulate", tmp_path / "toy.yaml", *args, "--processes", "1")
        found = run(*command, "-o", "json")
        assert found.code == 0, found.stderr
        shown = json.loads(found.stdout)
        if by_profile(name == "simulate", True):
            assert from_yaml(run(*command, "-o", "yaml").stdout) == shown
        as_declared("simulate", shown)
        golden(f"{name}.fields", sorted(set(fields(shown))))


def test_a_tuning(run: Run, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SCENARIO)
    args = ("tune", "--scenario", tmp_path / "toy.yaml", "--seeds", "1", "--step", "0.5", "--processes", "1")
    shown = json.loads(run(*args, "-o", "json").stdout)
    as_declared("tune", shown)
    golden("tune.fields", sorted(set(fields(shown))))


def test_a_page_names_every_schema_and_every_exception_to_the_names() -> None:
    folder = ROOT / "docs/reference/schemas"
    page = (folder / "README.md").read_text()
    assert {path.stem for path in folder.glob("*.json")} == set(DOCUMENTS)
    assert set(re.findall(r"\]\(([a-z-]+)\.json\)", page)) == set(DOCUMENTS)
    assert "camelCase" in page


@pytest.mark.parametrize("command", DOCUMENTS)
def test_the_published_schema_is_the_one_that_is_printed(run: Run, command: str) -> None:
    published = (ROOT / f"docs/reference/schemas/{command}.json").read_text()
    assert published == run("schema", command).stdout, "run: make reference"
    assert json.loads(published) == schema(command)


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"apiVersion": "resource-slack.io/v1alpha1", "kind": "Load", "more": 1}, DOCUMENTS["load"][0])
