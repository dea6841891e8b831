"""What the extender answers from what stands, and what it tells of it afterwards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from slack.cluster.wire import Pod
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoad, Rollup, Span, Window
from slack.scorer.asgi import NotKnown
from slack.scorer.configuration.arguments import parse_config
from slack.scorer.extender import BadRequest
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import Node
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.rules import Prediction, Rules
from slack_operator.runtime.load_source import LoadSource
from slack_operator.scorer.cluster_view import ClusterView
from slack_operator.scorer.metrics import ScorerMetrics
from slack_operator.scorer.scores import MOST_OPEN, LiveScores
from slack_operator.scorer.standing import Refresher

NOW = 1_000_000.0
PREDICTION = Prediction()


def pod(name: str, cpu: str = "400m", node: str | None = None, **metadata: Any) -> Pod:
    spec = {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}
    document = {
        "metadata": {"name": name, "namespace": "shop", **metadata},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def report(cpu: Mapping[str, float], age: float = 10.0) -> LoadReport:
    end = int(NOW - age)
    nodes = {
        name: NodeLoad((Metric("cpu", MetricType.CPU, Rollup.AVG, percent),), {}, {}) for name, percent in cpu.items()
    }
    return LoadReport(end, Span(Window.FIVE_MINUTES, end - 300, end), "Test", nodes)


class Scene:
    """One scorer without its threads."""

    def __init__(self, cpu: Mapping[str, float], names: Sequence[str] = ("a", "b", "c"), **settings: Any) -> None:
        self.metrics = ScorerMetrics()
        self.view = ClusterView(
            lambda leave_out: ClusterState(lambda pod: demand_of(pod.spec, PREDICTION), "slack", 600.0, leave_out)
        )
        self.view.state.end_pods()
        for name in names:
            status = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"}}
            self.view.state.apply_node(False, msgspec.convert({"metadata": {"name": name}, "status": status}, Node))
        algorithms = parse_config(
            {"algorithms": [{"name": "TargetLoadPacking", "args": {"targetUtilization": 50}}]}
        ).algorithms
        self.refresher = Refresher(
            self.view, algorithms, Rules(), whole=lambda: True, on_refresh=self.metrics.on_refresh, wall=lambda: NOW
        )
        self.load = self.refresher.load = LoadSource("http://127.0.0.1:1", 1.0, lambda: None)
        self.show(cpu)
        self.scores = LiveScores(
            lambda: self.refresher.current,
            self.view,
            lambda pod: demand_of(pod.spec, PREDICTION),
            "slack",
            self.metrics,
            wall=lambda: NOW,
            **settings,
        )

    def show(self, cpu: Mapping[str, float], age: float = 10.0) -> None:
        self.load.reports = {Window.FIVE_MINUTES: report(cpu, age)} if cpu else {}
        self.refresher.refresh()

    def asked(self, asked: Pod, *names: str) -> dict[str, int]:
        return {entry["Host"]: entry["Score"] for entry in json.loads(self.scores.prioritize(asked, names))}

    def metric(self, sample: str) -> str:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{sample} "))


def test_nodes_are_scored_by_load_and_in_the_order_that_was_asked_for() -> None:
    scene = Scene({"a": 10.0, "b": 35.0, "c": 70.0})
    found = scene.asked(pod("p"), "c", "a", "b")  # 400m x 1.5 of 4 cores are 15 %
    assert found == {"c": 15, "a": 75, "b": 100}
    assert list(found) == ["c", "a", "b"]


def test_a_node_that_is_not_known_has_the_minimum_and_is_counted() -> None:
    scene = Scene({"a": 10.0})
    assert scene.asked(pod("p"), "nobody", "a") == {"nobody": 0, "a": 75}
    assert scene.metric("slack_scorer_unknown_nodes_total") == "1.0"


def test_until_the_cluster_is_seen_whole_all_nodes_score_the_same() -> None:
    scene = Scene({"a": 10.0})
    scene.refresher.current = None
    assert scene.asked(pod("p"), "a", "b") == {"a": 0, "b": 0}
    assert scene.metric('slack_scorer_decisions_total{rule="NotReady"}') == "1.0"


def test_a_scale_of_ten_sends_ten_for_the_best() -> None:
    assert Scene({"a": 10.0, "b": 35.0}, highest=10).asked(pod("p"), "a", "b") == {"a": 8, "b": 10}


def test_a_pod_that_cannot_be_read_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match=r"Pod: spec.containers\[0\].*'much' is not a quantity"):
        Scene({}).scores.prioritize(pod("p", cpu="much"), ["a"])


def test_a_placeholder_scores_the_same_everywhere() -> None:
    labels = {"resource-slack.io/placeholder": "true"}
    scene = Scene({"a": 10.0, "b": 35.0})
    assert set(scene.asked(pod("room", namespace="slack", labels=labels), "a", "b").values()) == {0}
    assert len(set(scene.asked(pod("claims-to-be", labels=labels), "a", "b").values())) == 2, "of a tenant's namespace"


def test_asking_changes_no_later_answer() -> None:
    scene = Scene({"a": 10.0, "b": 35.0})
    first = scene.asked(pod("p"), "a", "b")
    for number in range(3 * MOST_OPEN):
        scene.asked(pod(f"other-{number}"), "a", "b")
    assert scene.asked(pod("p"), "a", "b") == first


def test_a_pod_on_its_node_is_explained_as_it_was_decided() -> None:
    scene = Scene({"a": 10.0, "b": 35.0, "c": 70.0})
    scene.asked(pod("p"), "a", "b", "c")
    assert scene.scores.explain("shop", "p")["node"] is None
    scene.scores.bound("shop", "p", "a")
    scene.show({"a": 90.0, "b": 90.0, "c": 90.0})
    found = scene.scores.explain("shop", "p")
    assert (found["rule"], found["node"], found["nodes_with_a_better_score"]) == ("Measured", "a", 1)
    assert found["chosen"]["algorithms"] == {"TargetLoadPacking": 75}
    assert found["chosen"]["terms"]["TargetLoadPacking.utilization_percent"] == 25.0
    assert found["chosen"]["terms"]["age_seconds"] == 10.0
    assert [node["node"] for node in found["best"]] == ["b", "a", "c"]
    json.dumps(found, allow_nan=False)


def test_a_pod_of_before_is_explained_as_it_would_be_now_and_another_is_not_known() -> None:
    scene = Scene({"a": 10.0, "b": 35.0})
    scene.view.state.apply_pod(False, pod("old", node="b"), NOW)
    scene.refresher.refresh()
    found = scene.scores.explain("shop", "old")
    assert (found["remembered"], found["node"]) == (False, "b")
    with pytest.raises(NotKnown, match="nothing is known of pod shop/never"):
        scene.scores.explain("shop", "never")


def test_stale_load_falls_back_to_allocations_and_says_so() -> None:
    scene = Scene({"a": 10.0, "b": 35.0})
    scene.view.state.apply_pod(False, pod("there", cpu="2", node="c"), NOW)
    scene.show({"a": 10.0, "b": 35.0}, age=301.0)
    found = scene.asked(pod("p"), "a", "b", "c")
    assert max(found, key=lambda name: found[name]) == "c"
    assert scene.metric("slack_scorer_falling_back") == "1.0"
    assert scene.metric('slack_scorer_nodes{state="Stale"}') == "2.0"
    assert scene.metric('slack_scorer_decisions_total{rule="BestFitOnAllocations"}') == "1.0"


def test_a_filter_refuses_what_is_above_its_ceiling_and_nothing_that_is_not_known() -> None:
    scene = Scene({"a": 10.0, "b": 60.0}, filter_above_percent=70.0)
    assert scene.scores.refused(pod("p"), ["a", "b", "c", "nobody"]) == {"b": "CPU would be 75 % used, above 70 %"}


def test_names_of_the_watcher_that_no_node_has_are_counted() -> None:
    scene = Scene({"a:9100": 35.0, "who": 1.0})
    assert scene.asked(pod("p"), "a") == {"a": 100}
    assert scene.metric("slack_scorer_unmatched_names") == "1.0"


def test_what_stands_is_counted_at_once_when_the_rule_changes_and_else_twice_a_second() -> None:
    scene = Scene({"a": 10.0, "b": 35.0})
    seconds = [100.0]
    scene.metrics = ScorerMetrics(lambda: seconds[0])
    standing = scene.refresher.current
    assert standing is not None

    def told(falls_back: bool) -> list[str]:
        usage = replace(standing.basis.usage, age_seconds=standing.basis.usage.age_seconds + seconds[0] - 100.0)
        scene.metrics.on_refresh(
            replace(standing, basis=replace(standing.basis, usage=usage, any_measured=not falls_back)), 0.001
        )
        return [scene.metric(f"slack_scorer_{name}") for name in ("falling_back", "load_age_seconds")]

    first = told(False)
    seconds[0] += 0.4
    assert told(False) == first
    changed = told(True)
    assert changed[0] == "1.0"
    assert float(changed[1]) - float(first[1]) == pytest.approx(0.4)
    seconds[0] += 0.5
    assert float(told(True)[1]) - float(first[1]) == pytest.approx(0.9)
