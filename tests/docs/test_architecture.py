"""docs/architecture.md: packages and contracts are those of the tree, files and functions are there, pictures are
new."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from docs.pictures import make_architecture as made
from slack.cluster import wire
from slack.cluster.labels import LABEL_PLACEHOLDER
from slack.kube.watch import EventType, WatchDecoder
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NodeSink, PodSink
from tests.cases import run_for_each
from tests.cluster.build import NAMESPACE, NOW, node, pod
from tests.docs.pages import DOCS, ROOT, name_of, section
from tests.docs.test_names import names_in

PAGE = DOCS / "architecture.md"
NAMED = sorted(set(re.findall(r"`((?:slack|operator)/[\w/]+\.py)` `(\w+)`", PAGE.read_text())))
WAY_TO_COLUMNS = slice(2, 6)
"""Steps 3 to 6 of a pod's event."""
QUESTIONS = {
    "minRate": "size_of",
    "somebody took is taken back": "changed_fields",
    "placeholder to be removed": "victims",
    "metric is declared": "metric_definitions",
    "message brokers": "BrokerKind",
    "410": "_after_refusal",
    "uncovered": "_why_uncovered",
    "two numbers": "judge",
    "reads cgroups": "walker",
    "Helm value": "values.yaml",
    "Karpenter's consolidation": "consolidation",
    "resource-slack.io/reserve": "assign_mirrors",
    "raised limit": "raise_limit",
    "CPU burst": "burst_writer",
    "node that two select": "divided",
    "`status` judges": "assess",
    "metric gets its value": "report/metrics",
}
"""What a newcomer asks, and a word of the answer."""


def test_pictures_and_lists_are_those_of_the_code() -> None:
    old = [name_of(path) for path, text in made.written().items() if path.read_text() != text]
    assert not old, "run: make architecture"


@run_for_each(("file", "function"), NAMED)
def test_every_function_that_is_named_beside_a_file_is_in_it(file: str, function: str) -> None:
    assert function in names_in(ROOT / file)


def test_every_process_is_in_the_table_of_processes() -> None:
    begins = {
        name_of(path) for path in (ROOT / "operator").rglob("*.py") if "\ndef build(settings:" in path.read_text()
    } | {"operator/slack_operator/throttler/gate/__main__.py"}
    rows = [row.split("|")[2] for row in section(PAGE, "The processes").splitlines() if row.startswith("| ")]
    assert begins == {found for row in rows for found in re.findall(r"`(operator/[\w/]+\.py)`", row)}


def test_every_folder_of_modules_is_a_room_of_the_table() -> None:
    folders = {
        path.parent
        for floor in ("slack", "operator/slack_operator")
        for path in (ROOT / floor).rglob("*.py")
        if path.parent != ROOT / "slack"
    }
    assert {name_of(folder) for folder in folders} == {package.path for package in made.packages().values()}
    rows = section(PAGE, "The packages")
    assert all(f"| `{package.path}` | {package.summary[:20]}" in rows for package in made.packages().values())


def test_no_room_calls_one_that_stands_above_it() -> None:
    """The picture draws arrows downwards only: packages of the two uppermost floors are in no circle."""
    graph = made.shown_graph()
    level = made.levels(graph)
    assert all(level[name] > level[goal] for name, goals in graph.items() for goal in goals)
    assert set(graph) == {".".join(name.split(".")[:2]) for name in made.packages()}


@pytest.mark.parametrize("heading", made.WAYS)
def test_a_way_has_its_steps_in_order(heading: str) -> None:
    rows = re.findall(r"^\| (\d+) \| ", section(PAGE, heading), re.MULTILINE)
    assert len(rows) >= 10
    assert [int(row) for row in rows] == list(range(1, len(rows) + 1))
    assert len(made.way(heading)) == len(rows)


@run_for_each(("question", "answer"), QUESTIONS.items())
def test_a_newcomer_is_led_to_three_files_at_most(question: str, answer: str) -> None:
    rows = [row.split("|") for row in section(PAGE, "Where is it?").splitlines() if row.startswith("| ")]
    (row,) = [answered for _, asked, answered, _ in rows if question in asked]
    files = re.findall(r"`([\w./-]+/[\w.-]+\.\w+)`", row)
    assert 1 <= len(files) <= 3
    assert answer in row


def test_every_file_that_says_why_a_pod_is_uncovered_is_named() -> None:
    (row,) = [row for row in section(PAGE, "Where is it?").splitlines() if row.startswith("| why a pod counts as unc")]
    saying = [path for path in (ROOT / "slack/planner").rglob("*.py") if "UncoveredPods(" in path.read_text()]
    saying = [path for path in saying if path.name != "result.py"]  # which declares it
    assert {name_of(path) for path in saying} == set(re.findall(r"`(slack/[\w/]+\.py)`", row))


def test_the_order_of_start_and_stop_is_that_of_the_process() -> None:
    told = " ".join((ROOT / "operator/slack_operator/runtime/process.py").read_text().split())
    (order,) = re.findall(r"Start: .*? Stop: .*?\.", told)
    assert order in " ".join(section(PAGE, "The processes").split())


@pytest.mark.parametrize("name", ["packages.svg", *made.WAYS.values()])
def test_no_label_runs_over_its_box_and_none_is_too_small(name: str) -> None:
    box: ElementTree.Element | None = None
    boxes = 0
    for shape in ElementTree.parse(made.PICTURES / name).getroot():
        tag, kind = shape.tag.rpartition("}")[2], shape.get("class", "")
        if tag == "rect" and kind.startswith("box"):
            box, boxes = shape, boxes + 1
        if tag != "text":
            continue
        size, words = float(shape.get("font-size", "0")), shape.text or ""
        assert size >= 12
        if box is None or not _within(box, shape):
            continue
        letters = (0.7 if kind == "name" else 0.6) * size * len(words)
        space = _number(box, "x") + _number(box, "width") - _number(shape, "x")
        assert letters <= space * (2 if shape.get("text-anchor") == "middle" else 1), words
        assert _number(shape, "y") <= _number(box, "y") + _number(box, "height") - 3, words
    assert boxes >= 10


def _number(shape: ElementTree.Element, name: str) -> float:
    return float(shape.get(name, "nan"))


def _within(box: ElementTree.Element, label: ElementTree.Element) -> bool:
    """Whether a label begins, or has its middle, in the box before it."""
    return 0 <= _number(label, "x") - _number(box, "x") <= _number(box, "width")


def functions_called(action: Callable[[], object]) -> set[tuple[str, str]]:
    """The files of the product in which something is called meanwhile, and what."""
    found = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and name_of(path).startswith(("slack/", "operator/")):
            found.add((name_of(path), frame.f_code.co_name))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def test_the_way_of_a_pods_event_names_every_file_that_it_touches_up_to_the_columns() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=lambda: 0.0, wall=lambda: NOW)
    nodes, pods = NodeSink(view), PodSink(view)
    nodes.begin()
    nodes.apply([(EventType.ADDED, msgspec.convert(node("a"), wire.Node))])
    nodes.end()
    pods.begin()
    pods.end()
    decoder = WatchDecoder(wire.Pod)
    owner = ("ReplicaSet", "api-5d")
    waiting, bound = pod("x", owner=owner, resourceVersion="7"), pod("x", owner=owner, node="a", resourceVersion="8")
    ours = pod("p", NAMESPACE, node="a", resourceVersion="9", labels={LABEL_PLACEHOLDER: "true"})
    sent = (("ADDED", waiting), ("MODIFIED", bound), ("ADDED", ours), ("DELETED", ours), ("DELETED", bound))
    lines = b"".join(json.dumps({"type": kind, "object": seen}).encode() + b"\n" for kind, seen in sent)

    def follow() -> None:
        pods.apply([event for event in decoder.feed(lines) if isinstance(event, tuple)])

    called = functions_called(follow)
    steps = [(step.file, step.function) for step in made.way("A pod's event")[WAY_TO_COLUMNS]]
    assert [step for step in steps if step not in called] == [("slack/cluster/wire.py", "Pod")]  # a struct
    touched = {file for file, _ in called}
    assert len(touched) >= 10
    named = set(re.findall(r"`((?:slack|operator)/[\w/]+\.py)`", section(PAGE, "A pod's event")))
    assert touched <= named, sorted(touched - named)


def test_the_readme_of_a_package_has_one_line_for_each_file() -> None:
    for page in (ROOT / floor for floor in ("slack", "operator/slack_operator")):
        for readme in page.rglob("README.md"):
            modules = {path.name for path in readme.parent.rglob("*.py")} - {"__init__.py"}
            lines = re.findall(r"^\| `(\w+\.py)` \|", readme.read_text(), re.MULTILINE)
            assert sorted(lines) == sorted(modules), name_of(readme)
