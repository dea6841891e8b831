"""The stock kube-scheduler asks our extender, and pods go where the formulas say; without it pods go on being placed.

The load is set by the suite and served as a load watcher serves it. Whatever is asked is asked of four nodes of the
same size, whose loads are far enough apart that no rounding decides.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.api import Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import (
    IMAGE,
    deployment,
    describe,
    make_namespace,
    pod,
    pods,
    priority_class,
    wait_until,
)
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.scorer import PATIENT_MS, PROGRAM, RIGHTS, SCHEDULER, Figures, Scorer, ServedLoad
from slack.scorer.configuration.arguments import DEFAULT_SCALE
from slack.scorer.configuration.scheduler_config import SchedulerOptions, scheduler_configuration

NODES = ("idle", "low", "target", "hot")
ZONED = {"idle": "zone-a", "low": "zone-b", "target": "zone-c", "hot": "zone-d"}
SOFT_SPREAD: Json = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "spread"}},
}
CPU = {"idle": 2.0, "low": 20.0, "target": 38.0, "hot": 85.0}
PACKING: Json = {"name": "TargetLoadPacking", "args": {"targetUtilization": 50}}
"""With pods of 100m, predicted at 150m: three of them bring `target` to 49 %."""
LIMITED: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": IMAGE,
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "8", "memory": "16Mi"}},
        }
    ]
}
"""A pod that may use twice what its node has."""
POD: dict[str, Any] = {"cpu": "100m", "memory": "64Mi", "schedulerName": SCHEDULER}


def load_of(cpu: dict[str, float], deviation: float = 1.0) -> dict[str, Figures]:
    return {name: {"cpu": (percent, deviation), "memory": (20.0, 1.0)} for name, percent in cpu.items()}


@pytest.fixture(scope="module")
def scene(backend: Backend) -> Iterator[tuple[Backend, ServedLoad]]:
    """Four nodes, and a load that tests set; the scheduler is as it was when all is over."""
    with cleaned(backend.api), ServedLoad() as load:
        for name in NODES:
            backend.api.create(kwok.node(name, zone=ZONED[name]))
        load.show(load_of(CPU))
        try:
            yield backend, load
        finally:
            backend.restart_scheduler()


@contextmanager
def scoring(cluster: Backend, load: ServedLoad, *algorithms: Json, **settings: Any) -> Iterator[Scorer]:
    """A scorer with these algorithms that the scheduler asks; it knows the load of all nodes."""
    with cleaned(cluster.api), Scorer(cluster, load.url, list(algorithms), **settings) as scorer:
        cluster.restart_scheduler(configuration=scorer.scheduler_configuration(PATIENT_MS))
        wait_until(lambda: scorer.metric('slack_scorer_nodes{state="Measured"}') == len(NODES), 30, "the load")
        yield scorer


def place(cluster: Backend, name: str, **spec: Any) -> str:
    """Create a pod and return its node."""
    cluster.api.create(pod(name, **{**POD, **spec}))
    path = f"/api/v1/namespaces/default/pods/{name}"
    bound = partial(_node_of, cluster, path)
    return str(wait_until(bound, 30, f"a node for {name}", state=lambda: describe(cluster.api.get(path))))


def _node_of(cluster: Backend, path: str) -> str | None:
    node: str | None = cluster.api.get(path)["spec"].get("nodeName")
    return node


def told(scorer: Scorer, name: str) -> Json:
    """Return what the scorer says of a pod once it has seen it on its node."""

    def remembered() -> Json | None:
        found = scorer.explain(name)
        return found if found is not None and found["node"] and found["remembered"] else None

    found = wait_until(remembered, 30, f"an explanation of {name}", state=lambda: scorer.explain(name))
    assert found is not None
    return found


def bound(scorer: Scorer, count: int) -> bool:
    return all((scorer.explain(f"there-{name}") or {}).get("node") == name for name in NODES[:count])


def refreshed(scorer: Scorer) -> None:
    """Wait until scores are of what the scorer has seen by now; `explain` tells of a pod on a node a moment earlier."""
    sample = "slack_scorer_refresh_seconds_count"
    last = scorer.metric(sample) + 1  # the one that turns now may have begun before
    wait_until(lambda: scorer.metric(sample) > last, 30, "scores to be refreshed")


def answered(scorer: Scorer, count: int) -> bool:
    return scorer.metric('slack_scorer_calls_total{code="200",verb="preempt"}') >= count


def predicted(scorer: Scorer, cores: float) -> bool:
    return scorer.metric("slack_scorer_predicted_cpu_cores") >= cores - 0.01


@pytest.mark.core
@pytest.mark.parametrize(
    ("algorithm", "load", "expected"),
    [
        (PACKING, load_of(CPU), "target"),
        (
            {"name": "LoadVariationRiskBalancing"},
            load_of({"idle": 60.0, "low": 20.0, "target": 45.0, "hot": 85.0}),
            "low",
        ),
        (
            {"name": "LowRiskOverCommitment", "args": {"riskLimitWeights": {"cpu": 1, "memory": 1}}},
            load_of(dict.fromkeys(NODES, 30.0)),
            "low",
        ),
        (
            {
                "name": "Peaks",
                "args": {
                    "nodePowerModel": {
                        name: {"k0": 100, "k1": 1, "k2": 0.01 if name == "hot" else 0.05} for name in NODES
                    }
                },
            },
            load_of(dict.fromkeys(NODES, 50.0)),
            "hot",
        ),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) and "name" in value else None,
)
def test_each_algorithm_puts_pods_where_its_formula_says(
    scene: tuple[Backend, ServedLoad], algorithm: Json, load: dict[str, Figures], expected: str
) -> None:
    cluster, served = scene
    served.show(load)
    with scoring(cluster, served, algorithm, scale=100) as scorer:  # the formula decides, to the last point
        for name in NODES:
            place(cluster, f"there-{name}", nodeName=name, **(LIMITED if name != "low" else {}))
        wait_until(partial(bound, scorer, len(NODES)), 30, "pods on nodes")
        refreshed(scorer)
        assert [place(cluster, f"pod-{number}") for number in range(3)] == [expected] * 3
        explained = told(scorer, "pod-0")
    assert (explained["rule"], explained["node"]) == ("Measured", expected)
    assert explained["nodes_with_a_better_score"] == 0
    assert explained["chosen"]["algorithms"].keys() == {algorithm["name"]}


def test_pods_that_metrics_do_not_show_yet_fill_nodes_to_the_target_one_after_another(
    scene: tuple[Backend, ServedLoad],
) -> None:
    cluster, served = scene
    served.show(load_of(dict.fromkeys(NODES, 0.0)))
    packing = {"name": "TargetLoadPacking", "args": {"targetUtilization": 50, "podUse": "Requests"}}
    with scoring(cluster, served, packing, **{"request-multiplier": 1}) as scorer:
        found = []
        for number in range(2 * len(NODES)):
            found.append(place(cluster, f"pod-{number}", cpu="1"))
            wait_until(partial(predicted, scorer, number + 1), 30, f"{number + 1} predicted pods")
    pairs = [set(found[index : index + 2]) for index in range(0, len(found), 2)]
    assert all(len(pair) == 1 for pair in pairs), found  # 25 %, then 50 %: the target
    assert set.union(*pairs) == set(NODES)


def evicted(cluster: Backend) -> set[str]:
    """Return the nodes whose filler the scheduler has evicted."""
    there = {entry["metadata"]["name"] for entry in pods(cluster.api, "default", labelSelector="app=filler")}
    return {name for name in NODES if f"filler-{name}" not in there}


def test_a_ceiling_evicts_nobody_from_a_node_that_the_pod_may_not_use(scene: tuple[Backend, ServedLoad]) -> None:
    """The scheduler's preemption does not ask /filter: without /preempt it evicts pods, and the pod stays Pending."""
    cluster, served = scene
    served.show(load_of(dict.fromkeys(NODES, 85.0)))
    # What is predicted of the fillers, which were bound just now, would be above the ceiling everywhere.
    with scoring(cluster, served, PACKING, **{"filter-above": 70, "request-multiplier": 0}) as scorer:
        cluster.api.create(priority_class("low", -10))
        cluster.api.create(priority_class("urgent", 1000))
        for name in NODES:
            filler = pod(f"filler-{name}", labels={"app": "filler"}, nodeName=name, cpu="3800m", priority_class="low")
            cluster.api.create(filler)
        wait_until(lambda: all((scorer.explain(f"filler-{name}") or {}).get("node") for name in NODES), 30, "fillers")
        refreshed(scorer)
        for number in range(6):
            cluster.api.create(pod(f"urgent-{number}", **{**POD, "cpu": "1"}, priority_class="urgent"))
            wait_until(partial(answered, scorer, number + 1), 30, "the scheduler to ask /preempt")
        waiting = pods(cluster.api, "default", fieldSelector="spec.nodeName=")
        assert (evicted(cluster), len(waiting)) == (set(), 6)
        assert scorer.metric("slack_scorer_all_nodes_above_ceiling_total") >= 6
        served.show(load_of({**dict.fromkeys(NODES, 85.0), "low": 20.0}))
        refreshed(scorer)
        cluster.api.create(pod("later", **{**POD, "cpu": "1"}, priority_class="urgent"))
        wait_until(lambda: evicted(cluster), 60, "the one cool node's filler to be evicted")

        def homes() -> set[str]:
            found = pods(cluster.api, "default", fieldSelector="spec.nodeName!=")
            return {entry["spec"]["nodeName"] for entry in found if "filler" not in entry["metadata"]["name"]}

        wait_until(homes, 60, "an urgent pod on it")
        assert (homes(), evicted(cluster)) == ({"low"}, {"low"})


def pods_per_zone(cluster: Backend, count: int) -> list[int]:
    """Place pods that ask to be spread over zones, and count them by zone."""
    cluster.api.create(deployment("spread", count, schedulerName=SCHEDULER, topologySpreadConstraints=[SOFT_SPREAD]))

    def placed() -> list[str]:
        found = pods(cluster.api, "default", labelSelector="app=spread")
        return [entry["spec"]["nodeName"] for entry in found if entry["spec"].get("nodeName")]

    wait_until(lambda: len(placed()) == count, 60, f"{count} pods on nodes", state=placed)
    counted = Counter(placed())
    return [counted[name] for name in NODES]


@pytest.mark.parametrize("cpu", [CPU, {"idle": 95.0, "low": 40.0, "target": 99.0, "hot": 30.0}], ids=["mixed", "hot"])
def test_soft_spread_over_zones_is_kept_at_the_default_scale(
    scene: tuple[Backend, ServedLoad], cpu: dict[str, float]
) -> None:
    """At a scale of 100 the load decides alone; SLACK_SCALES=100,50,20 shows what other scales make of it."""
    cluster, served = scene
    served.show(load_of(cpu))
    given = [int(word) for word in os.environ.get("SLACK_SCALES", "").split(",") if word]
    for scale in [*given, DEFAULT_SCALE]:
        for algorithm in ({"name": "TargetLoadPacking"}, {"name": "LoadVariationRiskBalancing"}):
            with scoring(cluster, served, algorithm, scale=scale):
                found = pods_per_zone(cluster, 8)
            print(f"scale {scale}, {algorithm['name']}, CPU {list(cpu.values())} %: {found} pods per zone")
            assert scale != DEFAULT_SCALE or found == [2, 2, 2, 2]


def test_stale_load_is_no_load_and_the_configured_rule_decides(scene: tuple[Backend, ServedLoad]) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    with scoring(cluster, served, PACKING, **{"without-load": "Pack"}) as scorer:
        place(cluster, "large", cpu="3", nodeName="hot")
        served.show(load_of(CPU), age_seconds=600)
        wait_until(lambda: scorer.metric("slack_scorer_falling_back") == 1, 30, "the fall-back")
        assert place(cluster, "small") == "hot"  # the fullest with room
        assert told(scorer, "small")["rule"] == "BestFitOnAllocations"
        served.show(load_of(CPU))
        wait_until(lambda: scorer.metric("slack_scorer_falling_back") == 0, 30, "the load again")
        assert place(cluster, "later") == "target"


@pytest.mark.core
def test_pods_are_placed_while_the_scorer_is_away_and_well_again_when_it_is_back(
    scene: tuple[Backend, ServedLoad],
) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    with scoring(cluster, served, PACKING) as scorer:
        assert place(cluster, "before") == "target"
        scorer.program.kill()
        for number in range(3):
            assert place(cluster, f"without-{number}") in NODES
        scorer.start()
        wait_until(lambda: scorer.metric('slack_scorer_nodes{state="Measured"}') == len(NODES), 30, "the load")
        assert place(cluster, "after") == "target"


@pytest.mark.core
def test_the_api_server_and_the_load_watcher_may_go_and_scores_stand(scene: tuple[Backend, ServedLoad]) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    with scoring(cluster, served, PACKING) as scorer:
        asked = pod("asked", **POD)
        before = scorer.prioritize(asked, list(NODES))
        served.show({})  # 404: nothing to tell
        cluster.restart_apiserver(crash=True)
        assert scorer.prioritize(asked, list(NODES)) == before
        assert scorer.health("/healthz")[0] == 200
        assert place(cluster, "afterwards") == "target"


def test_malformed_requests_are_answered_and_change_nothing(scene: tuple[Backend, ServedLoad]) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    with scoring(cluster, served, PACKING) as scorer:
        asked = pod("asked", **POD)
        before = scorer.prioritize(asked, list(NODES))
        whole = [{"metadata": {"name": name}} for name in NODES]
        for body, status, said in (
            (b"{", 400, "no ExtenderArgs"),
            (b"x" * (1 << 20), 400, "no ExtenderArgs"),
            (json.dumps({"Pod": asked}).encode(), 400, "nodeCacheCapable"),
            (
                json.dumps({"Pod": pod("p", cpu="much"), "NodeNames": ["idle"]}).encode(),
                400,
                "'much' is not a quantity",
            ),
            (json.dumps({"Pod": asked, "Nodes": {"items": whole}}).encode(), 200, '"Host":"hot"'),
        ):
            found, text = scorer.ask("POST", "/prioritize", body)
            assert (found, said in text) == (status, True), text
        assert scorer.prioritize(asked, ["nobody", "target"])["nobody"] == 0
        assert scorer.prioritize(asked, list(NODES)) == before


def test_the_chart_has_the_commands_configuration_and_these_rights(
    scene: tuple[Backend, ServedLoad], tmp_path: Path
) -> None:
    cluster, _ = scene
    helm = Helm(tmp_path)
    rendered = helm.run(
        "template",
        RELEASE,
        CHART,
        f"--namespace={NAMESPACE}",
        "--set=scorer.enabled=true",
        "--set=loadWatcher.enabled=true",
    )
    assert rendered.returncode == 0, rendered.stderr
    manifests = [document for document in yaml.safe_load_all(rendered.stdout) if document]
    name = "resource-slack-scorer"
    own = {entry["kind"]: entry for entry in manifests if entry["metadata"]["name"] == name}
    expected = scheduler_configuration(SchedulerOptions(lease_name=name, lease_namespace=NAMESPACE))
    assert yaml.safe_load(own["ConfigMap"]["data"]["config.yaml"]) == expected
    assert own["ClusterRole"]["rules"] == RIGHTS["rules"]
    make_namespace(cluster.api, NAMESPACE)
    for manifest in manifests:
        if "scorer" in manifest["metadata"]["name"] or manifest["metadata"]["name"].endswith("-load"):
            cluster.api.apply(manifest)  # the API server knows every field


def test_it_asks_for_nothing_but_pods_and_nodes(scene: tuple[Backend, ServedLoad]) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    mark = cluster.audit_mark()
    with scoring(cluster, served, PACKING) as scorer:
        place(cluster, "one")

    def asked() -> set[tuple[str, str, bool]]:  # a watch is logged when it ends
        entries = cluster.audit_entries(scorer.user, since=mark)
        return {(entry.verb, entry.resource, entry.code < 300) for entry in entries if entry.resource}

    watched = {("watch", resource, True) for resource in ("pods", "nodes")}
    wait_until(lambda: asked() >= watched, 30, "its watches in the audit log", state=asked)
    assert asked() - watched <= {("list", resource, True) for resource in ("pods", "nodes")}


def test_a_wrong_value_is_no_figure_and_never_a_good_score(scene: tuple[Backend, ServedLoad]) -> None:
    cluster, served = scene
    served.show(load_of(CPU))
    wrong = load_of({"idle": float("nan"), "low": -5.0, "nobody": 38.0, "hot": 85.0})
    ported = {"target:9100": load_of(CPU)["target"]}
    with scoring(cluster, served, PACKING) as scorer:
        asked = pod("asked", **POD)
        before = scorer.prioritize(asked, list(NODES))
        served.show({**wrong, **ported})
        unmatched = "slack_scorer_unmatched_names"
        wait_until(
            lambda: scorer.metric(unmatched) == 1, 30, "the name that no node has", lambda: scorer.health("/metrics")
        )
        only_known = {"idle": 0, "low": 0, "target": before["target"], "hot": before["hot"]}
        assert scorer.prioritize(asked, list(NODES)) == only_known
        for age in (-600.0, 600.0):  # a clock that is wrong, here or there
            served.show(load_of(CPU), age_seconds=age)
            wait_until(lambda: scorer.metric("slack_scorer_falling_back") == 1, 30, f"figures {age} s old to be none")
            assert len(set(scorer.prioritize(asked, list(NODES)).values())) == 1, "allocations are the same everywhere"
            served.show(load_of(CPU))
            wait_until(lambda: scorer.prioritize(asked, list(NODES)) == before, 30, "the scores of before")


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (("scorer", "serve", "--algorithms=Best"), "--algorithms: algorithms[0].name: 'Best'"),
        (("scorer", "serve", "--config={X}"), "args.targetUtilization: 101 is not from 1 to 100"),
        (("scorer", "serve", "--config={margin}"), "args.safeVarianceMargin: -1 is not from 0"),
        (("load-watcher", "serve", "--provider=datadog"), "--provider: should be 'metrics-server'"),
    ],
)
def test_a_bad_setting_ends_a_process_with_2_and_the_field(
    tmp_path: Path, command: tuple[str, ...], field: str
) -> None:
    wrong = {"X": ("TargetLoadPacking", {"targetUtilization": 101})}
    wrong["margin"] = ("LoadVariationRiskBalancing", {"safeVarianceMargin": -1})
    for name, (algorithm, args) in wrong.items():
        document = {"load-watcher": "http://127.0.0.1:1", "algorithms": [{"name": algorithm, "args": args}]}
        (tmp_path / name).write_text(yaml.safe_dump(document), encoding="utf-8")
    given = [word.format(X=tmp_path / "X", margin=tmp_path / "margin") for word in command]
    ended = subprocess.run([PROGRAM, *given], capture_output=True, text=True, timeout=90, check=False)
    assert (ended.returncode, field in ended.stderr) == (2, True), ended.stderr
