"""What the extender answers from what stands, and what it tells of it afterwards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from slack.cluster.wire import Pod
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span
from slack.scorer.asgi import NotKnown
from slack.scorer.ceiling import Ceiling, WhenAllAbove
from slack.scorer.configuration.arguments import parse_config
from slack.scorer.extender import InvalidRequest
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import NodeObject
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import CPU, Coverage
from slack.scorer.rules import MetricRules, PodUse, Prediction, WithoutLoad
from slack_operator.runtime.load_source import LoadSource
from slack_operator.scorer.cluster_view import ScorerView
from slack_operator.scorer.metrics import ScorerMetrics
from slack_operator.scorer.score_cache import Refresher
from slack_operator.scorer.scores import KEPT_SECONDS, MOST_OPEN, LiveScores

NOW = 1_000_000.0
PREDICTION = Prediction()
RULES = MetricRules()


def pod(
    name: str,
    cpu: str = "400m",
    node: str | None = None,
    *,
    memory: str = "0",
    limits: Mapping[str, str] | None = None,
    **metadata: Any,
) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": dict(limits or {})}
    spec = {"nodeName": node, "containers": [{"name": "a", "resources": resources}]}
    document = {
        "metadata": {"name": name, "namespace": "shop", **metadata},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def report(cpu: Mapping[str, float], memory: Mapping[str, float], age: float = 10.0) -> LoadReport:
    end = int(NOW - age)
    metrics: dict[str, list[Metric]] = {}
    for kind, percents in ((MetricType.CPU, cpu), (MetricType.MEMORY, memory)):
        for name, percent in percents.items():
            metrics.setdefault(name, []).append(Metric(str(kind), kind, Rollup.AVG, percent))
    nodes = {name: NodeLoadFigures(tuple(own), {}, {}) for name, own in metrics.items()}
    return LoadReport(end, Span(RollupWindow.FIVE_MINUTES, end - 300, end), "Test", nodes)


class Scene:
    """One scorer without its threads."""

    def __init__(
        self,
        cpu: Mapping[str, float],
        names: Sequence[str] = ("a", "b", "c"),
        rules: MetricRules = RULES,
        prediction: Prediction = PREDICTION,
        **settings: Any,
    ) -> None:
        self.metrics = ScorerMetrics()
        self.view = ScorerView(
            lambda leave_out: ClusterState(lambda pod: demand_of(pod.spec, prediction), "slack", 600.0, leave_out)
        )
        self.view.state.end_pods()
        for name in names:
            status = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"}}
            self.view.state.apply_node(
                False, msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject)
            )
        algorithms = parse_config(
            {"algorithms": [{"name": "TargetLoadPacking", "args": {"targetUtilization": 50}}]}
        ).algorithms
        self.refresher = Refresher(
            self.view, algorithms, rules, whole=lambda: True, on_refresh=self.metrics.on_refresh, wall=lambda: NOW
        )
        self.load = self.refresher.load = LoadSource("http://127.0.0.1:1", 1.0, lambda: None)
        self.show(cpu)
        self.scores = LiveScores(
            lambda: self.refresher.current,
            self.view,
            lambda pod: demand_of(pod.spec, prediction),
            "slack",
            self.metrics,
            **{"wall": lambda: NOW, **settings},
        )

    def show(self, cpu: Mapping[str, float], age: float = 10.0, memory: Mapping[str, float] | None = None) -> None:
        self.load.reports = {RollupWindow.FIVE_MINUTES: report(cpu, memory or {}, age)} if cpu else {}
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
    scene = Scene({"a": 10.0, "b": 20.0})
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
    with pytest.raises(InvalidRequest, match=r"Pod: spec.containers\[0\].*'much' is not a quantity"):
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


@pytest.mark.parametrize(
    ("without_load", "difference", "rule"),
    [
        (WithoutLoad.SPREAD, -25, "SpreadOnAllocations"),
        (WithoutLoad.PACK, 25, "BestFitOnAllocations"),
        (WithoutLoad.NEUTRAL, 0, "NoLoad"),
    ],
)
def test_without_fresh_load_the_configured_rule_decides_and_says_so(
    without_load: WithoutLoad, difference: int, rule: str
) -> None:
    scene = Scene({"a": 10.0, "b": 35.0}, rules=MetricRules(without_load=without_load))
    scene.view.state.apply_pod(False, pod("there", cpu="2", node="c"), NOW)
    scene.show({"a": 10.0, "b": 35.0}, age=301.0)
    found = scene.asked(pod("p"), "a", "b", "c")
    assert (found["c"] - found["a"], found["a"]) == (difference, found["b"])
    assert scene.metric("slack_scorer_falling_back") == "1.0"
    assert scene.metric('slack_scorer_nodes{state="Stale"}') == "2.0"
    assert scene.metric(f'slack_scorer_decisions_total{{rule="{rule}"}}') == "1.0"


def test_the_load_of_one_node_of_three_makes_no_difference_and_says_so() -> None:
    scene = Scene({"a": 10.0})
    assert set(scene.asked(pod("p"), "a", "b", "c").values()) == {0}
    assert scene.metric("slack_scorer_falling_back") == "1.0"
    assert scene.metric('slack_scorer_decisions_total{rule="TooFewMeasured"}') == "1.0"


CEILING = Ceiling(cpu_percent=70.0)
REFUSED = {"b": "CPU would be 75 % used, above 70 %"}


def test_a_filter_refuses_what_is_above_its_ceiling_and_nothing_that_is_not_known() -> None:
    scene = Scene({"a": 10.0, "b": 60.0}, ceiling=CEILING)
    assert scene.scores.refused(pod("p"), ["a", "b", "c", "nobody"]) == REFUSED


def test_a_node_that_hovers_about_its_ceiling_keeps_the_pod_that_others_were_evicted_for() -> None:
    scene = Scene({"a": 69.0, "b": 50.0}, ceiling=CEILING)
    assert "b" not in scene.scores.refused(pod("p"), ["a", "b"]), "the scheduler may evict pods there"
    scene.show({"a": 69.0, "b": 60.0})
    assert scene.scores.refused(pod("p"), ["b"], nominated="b") == {}
    assert scene.scores.refused(pod("p"), ["a", "b"], nominated="b").keys() == {"a"}
    assert scene.scores.refused(pod("p"), ["a", "b"], nominated="nobody").keys() == {"a", "b"}
    assert scene.metric("slack_scorer_all_nodes_above_ceiling_total") == "1.0"
    assert scene.scores.refused(pod("p"), ["b"]).keys() == {"b"}, "pods are not evicted there a second time"


def test_pods_of_daemonsets_and_of_the_system_may_go_anywhere() -> None:
    scene = Scene({"a": 10.0, "b": 60.0}, ceiling=CEILING)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": True}
    assert scene.scores.refused(pod("agent", ownerReferences=[owner]), ["a", "b"]) == {}
    for priority, refused in ((2_000_001_000, {}), (2_000_000_000, {}), (1_000_000_000, REFUSED)):
        asked = pod("important")
        assert asked.spec is not None
        asked.spec.priority = priority
        assert scene.scores.refused(asked, ["a", "b"]) == refused


def test_memory_has_a_ceiling_of_its_own() -> None:
    scene = Scene({"a": 10.0, "b": 60.0}, ceiling=Ceiling(memory_percent=70.0))
    scene.show({"a": 10.0, "b": 60.0}, memory={"a": 65.0, "b": 10.0})
    asked = pod("p", memory="512Mi")  # of 8 GiB, times 1.5: 9.4 %
    assert scene.scores.refused(asked, ["a", "b"]) == {"a": "memory would be 74 % used, above 70 %"}


def test_limits_count_for_the_ceiling_only_if_the_prediction_goes_by_limits() -> None:
    asked = pod("p", limits={"cpu": "2"})
    for prediction, refused in ((PREDICTION, {}), (Prediction(PodUse.LIMITS), {"a"})):
        scene = Scene({"a": 40.0, "b": 10.0}, ceiling=CEILING, prediction=prediction)
        assert scene.scores.refused(asked, ["a", "b"]).keys() == set(refused)


@pytest.mark.parametrize(("when", "refused"), [(WhenAllAbove.REFUSE, {"a", "b"}), (WhenAllAbove.ADMIT, set())])
def test_a_pod_for_which_every_node_is_above_waits_or_goes_anywhere(when: WhenAllAbove, refused: set[str]) -> None:
    scene = Scene({"a": 80.0, "b": 60.0}, ceiling=replace(CEILING, when_all_above=when))
    assert scene.scores.refused(pod("p"), ["a", "b"]).keys() == refused
    assert scene.metric("slack_scorer_all_nodes_above_ceiling_total") == "1.0"
    assert scene.scores.refused(pod("p"), ["a", "b", "c"]).keys() == {"a", "b"}, "c is not known, so not above"
    assert scene.metric("slack_scorer_all_nodes_above_ceiling_total") == "1.0"


@pytest.mark.parametrize("prediction", [Prediction(use) for use in PodUse], ids=list(PodUse))
def test_a_bound_pod_counts_for_what_it_was_predicted_to_use_before(prediction: Prediction) -> None:
    scene = Scene({"a": 10.0, "b": 10.0}, prediction=prediction)
    one = pod("p", limits={"cpu": "2"})
    scene.asked(one, "a", "b")
    predicted = scene.scores.explain("shop", "p")["predicted"]["cpu_millis"]
    assert predicted == {PodUse.LIMITS: 2000, PodUse.REQUESTS: 400}.get(prediction.use, 600)
    scene.view.state.apply_pod(False, pod("p", limits={"cpu": "2"}, node="a"), NOW)
    scene.refresher.refresh()
    standing = scene.refresher.current
    assert standing is not None
    assert standing.basis.usage.missing[CPU].tolist() == [predicted, 0.0, 0.0]


def test_what_is_gone_is_forgotten_after_ten_minutes_and_what_runs_is_not() -> None:
    now = [NOW]
    scene = Scene({"a": 10.0, "b": 35.0}, wall=lambda: now[0])
    for name in ("runs", "gone", "never-bound"):
        scene.asked(pod(name), "a", "b")
    for name in ("runs", "gone"):
        scene.view.state.apply_pod(False, pod(name, node="a"), NOW)
        scene.scores.bound("shop", name, "a")
    scene.view.state.apply_pod(True, pod("gone", node="a"), NOW)
    scene.scores.tidy()
    assert all(scene.scores.explain("shop", name) for name in ("runs", "gone", "never-bound"))
    now[0] += KEPT_SECONDS + 1
    scene.scores.tidy()
    assert scene.scores.explain("shop", "runs")["remembered"]
    for name in ("gone", "never-bound"):
        with pytest.raises(NotKnown):
            scene.scores.explain("shop", name)
    assert not scene.scores._demands


def test_names_of_the_watcher_that_no_node_has_are_counted() -> None:
    scene = Scene({"a:9100": 35.0, "who": 1.0}, ["a"])
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
        coverage = Coverage.NONE if falls_back else Coverage.ENOUGH
        basis = replace(standing.basis, usage=usage, coverage=coverage)
        scene.metrics.on_refresh(replace(standing, basis=basis), 0.001)
        return [scene.metric(f"slack_scorer_{name}") for name in ("falling_back", "load_age_seconds")]

    first = told(False)
    seconds[0] += 0.4
    assert told(False) == first
    changed = told(True)
    assert changed[0] == "1.0"
    assert float(changed[1]) - float(first[1]) == pytest.approx(0.4)
    seconds[0] += 0.5
    assert float(told(True)[1]) - float(first[1]) == pytest.approx(0.9)
