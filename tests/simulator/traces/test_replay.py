import json
import math
from datetime import timedelta
from typing import Any

import pytest

from slack.cluster.classes import admits
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.distributions import Constant, Lognormal
from slack.simulator.scenario.load import Replay
from slack.simulator.traces.format import InvalidTrace
from slack.simulator.traces.node_groups import start_up, start_up_seconds
from slack.simulator.traces.replay import UnknownPrice, scenario_of
from tests.simulator.trace_rows import GIB, burst_trace, node, pod, trace

WARM = timedelta(minutes=10)


def test_a_trace_becomes_its_arrivals_on_its_nodes() -> None:
    scenario = scenario_of(burst_trace(), source="t", warm_up=WARM, prices={"m7i.xlarge": 0.2}).scenario
    (group,) = scenario.node_groups
    assert (group.name, group.initial, group.price_per_hour) == ("m7i-xlarge", 1, 0.2)
    assert group.allocatable == {"cpu": 4000, "memory": 16 * GIB, "pods": 58}
    assert scenario.duration == timedelta(minutes=70)
    api, crunch = scenario.workloads
    assert isinstance(api.arrivals, Replay)
    assert api.arrivals.rows == ((0.0, None),) * 6
    assert isinstance(crunch.arrivals, Replay)
    assert crunch.arrivals.rows[0] == (1200.0, 300.0)
    assert len(crunch.arrivals.rows) == 8


def test_a_price_is_of_an_instance_type_or_node_group_that_was_seen() -> None:
    seen = trace(pod(), node(), node("big", cpu_millis=8000, labels_json="{}"))
    with pytest.raises(UnknownPrice) as caught:
        scenario_of(seen, source="day.parquet", prices={"m7i.xlarge": 0.2, "m7i.large": 0.1})
    said = "'m7i.large' is no instance type and no node group of day.parquet; there are "
    assert str(caught.value).startswith(said)
    assert "m7i.xlarge (node group m7i-xlarge)" in str(caught.value)
    some = scenario_of(seen, source="t", prices={"m7i-xlarge": 0.2})
    (other,) = (group.name for group in some.scenario.node_groups if not group.price_per_hour)
    assert some.notes == (f"no price for {other}: these nodes count as free",)
    assert scenario_of(seen, source="t").notes == ()
    assert scenario_of(seen, source="t", prices={"m7i.xlarge": 0.2, other: 0.0}).notes == ()


def test_a_replayed_trace_measures_what_was_recorded_and_not_what_was_there_before() -> None:
    result = simulate(scenario_of(burst_trace(), source="t", warm_up=WARM).scenario)
    assert result.total.pods == 8
    assert result.measured_seconds == 3600


def test_a_nodes_start_began_when_the_first_pod_waited_for_it() -> None:
    # asked for by a pod of 600 s, registered at 640 s, ready at 680 s; half a scan interval is the autoscaler's
    assert start_up_seconds(burst_trace()) == {"n-1": pytest.approx(75.0)}


def test_karpenter_asks_for_a_node_a_batch_after_the_pod_and_not_a_scan() -> None:
    waiting = pod(100.0, bound_seconds=61.0, node="n-1")
    made = node("n-1", 140.0, ready_seconds=20.0, labels_json='{"karpenter.sh/nodepool":"default"}')
    assert start_up_seconds(trace(waiting, node(), made)) == {"n-1": pytest.approx(59.0)}


def test_placeholders_tell_of_node_starts_too_and_are_no_arrivals() -> None:
    waiting = pod(100.0, placeholder=True, bound_seconds=61.0, node="n-1")
    seen = trace(pod(5.0), waiting, node(), node("n-1", 140.0, ready_seconds=20.0))
    assert start_up_seconds(seen) == {"n-1": pytest.approx(55.0)}
    assert [workload.name for workload in scenario_of(seen, source="t").scenario.workloads] == ["api"]


def test_a_pod_that_waited_for_something_else_says_nothing_of_the_node() -> None:
    late = pod(100.0, bound_seconds=10.0, node="n-1")  # bound before the node was ready: a static view
    seen = trace(late, node(), node("n-1", 140.0, ready_seconds=20.0))
    assert start_up_seconds(seen) == {"n-1": 20.0}


def test_start_up_times_become_the_distribution_that_was_seen() -> None:
    from pydantic import TypeAdapter

    from slack.simulator.scenario.distributions import StartUp

    parse = TypeAdapter(StartUp).validate_python
    assert parse(start_up([])) == Constant(seconds=90.0)
    assert parse(start_up([60.0, 60.0])) == Constant(seconds=60.0)
    found = parse(start_up([50.0, 100.0]))
    assert isinstance(found, Lognormal)
    assert found.median_seconds == pytest.approx(math.sqrt(5000), abs=0.01)
    assert found.max_seconds == 100.0


def test_nodes_of_nearly_one_size_are_one_group_and_others_are_not() -> None:
    nodes = [node("a", memory_bytes=16 * GIB), node("b", memory_bytes=16 * GIB - 4096), node("c", cpu_millis=8000)]
    groups = scenario_of(trace(pod(), *nodes), source="t").scenario.node_groups
    assert [(group.name, group.initial) for group in groups] == [("m7i-xlarge", 2), ("m7i-xlarge-2", 1)]
    assert groups[0].allocatable["memory"] == 16 * GIB - 4096


def test_constraints_are_kept_as_far_as_a_scenario_knows_them() -> None:
    constraints = {
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
                ]
            }
        },
    }
    tainted = node(taints_json=json.dumps([{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]))
    found = scenario_of(trace(pod(constraints_json=json.dumps(constraints)), tainted), source="t")
    (workload,) = found.scenario.workloads
    assert workload.node_selector == {"pool": "web"}
    assert [toleration.key for toleration in workload.tolerations] == ["dedicated"]
    assert workload.anti_affinity == "hostname"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("selector", "labels", "kept", "noted"),
    [
        ({"matchLabels": {"app": "api"}}, '{"app":"api"}', "hostname", False),
        ({"matchLabels": {"app": "batch"}}, '{"app":"api"}', "none", False),
        ({"matchLabels": {"app": "batch"}}, "{}", "none", False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["batch"]}]}, "{}", "hostname", False),
        # A trace of an earlier version has no labels.
        ({"matchLabels": {"app": "batch"}}, "", "none", True),
        ({"matchLabels": {"app": "api"}}, "", "none", True),
        ({}, "", "hostname", False),
        (None, "", "none", False),
    ],
)
def test_anti_affinity_is_kept_if_it_matches_the_pods_own_labels(
    selector: dict[str, Any] | None, labels: str, kept: str, noted: bool
) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    row = pod(constraints_json=json.dumps({"affinity": anti}), labels_json=labels)
    found = scenario_of(trace(row, node()), source="t")
    assert found.scenario.workloads[0].anti_affinity == kept
    assert any("the trace has no labels of pods" in note for note in found.notes) == noted


def test_what_a_scenario_cannot_say_is_said_in_a_note() -> None:
    spread = json.dumps({"topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone"}]})
    found = scenario_of(trace(pod(constraints_json=spread), node()), source="t")
    assert found.notes == ("shop/deploy/api: its node affinity or topology spread is left out",)


def test_single_pods_of_one_form_are_one_workload() -> None:
    pods = [pod(10.0 * n, workload=f"job/build-{n}") for n in range(5)]
    (workload,) = scenario_of(trace(*pods, node()), source="t").scenario.workloads
    assert workload.name == "single-jobs"
    assert isinstance(workload.arrivals, Replay)
    assert len(workload.arrivals.rows) == 5


def test_a_rollout_with_other_requests_is_a_second_workload() -> None:
    pods = [pod(1.0), pod(2.0), pod(3.0, cpu_millis=700), pod(4.0, cpu_millis=700)]
    assert [workload.name for workload in scenario_of(trace(*pods, node()), source="t").scenario.workloads] == [
        "api",
        "api-2",
    ]


def test_a_started_pod_that_fits_no_node_is_refused_with_its_row() -> None:
    with pytest.raises(InvalidTrace) as caught:
        scenario_of(trace(pod(cpu_millis=64_000, row=2), node()), source="day.parquet")
    text = str(caught.value)
    assert text.startswith("day.parquet: column cpu_millis, row 2 (shop/deploy/api): its pods fit no node group")
    assert "cpu is more than a node has to give" in text


def test_a_pod_of_a_live_cluster_is_refused_with_its_column() -> None:
    with pytest.raises(InvalidTrace, match=r"column memory_bytes \(shop/deploy/api\): its pods fit no node group"):
        scenario_of(trace(pod(memory_bytes=1 << 45), node()), source="the cluster")


@pytest.mark.parametrize("bound_seconds", [None, 0.2], ids=["never started", "ran on a node that was not seen"])
def test_a_pod_that_fits_no_node_group_is_left_out_counted_and_named_with_the_reason(
    bound_seconds: float | None,
) -> None:
    hopeless = [pod(at, cpu_millis=64_000, bound_seconds=bound_seconds, workload="deploy/giant") for at in (5.0, 6.0)]
    found = scenario_of(trace(pod(), *hopeless, node()), source="t")
    assert [workload.name for workload in found.scenario.workloads] == ["api"]
    assert [workload["name"] for workload in found.document["workloads"]] == ["api"]
    assert found.left_out == 2
    (note,) = found.notes
    assert note.startswith("2 pods of giant left out: its pods fit no node group")
    assert "cpu is more than a node has to give" in note


def test_of_many_workloads_that_fit_nowhere_some_are_named_and_all_are_counted() -> None:
    hopeless = [pod(float(n), cpu_millis=64_000 + n, workload=f"deploy/giant-{n}") for n in range(20)]
    found = scenario_of(trace(pod(), *hopeless, node()), source="t")
    assert found.left_out == 20
    assert len(found.notes) == 6
    assert found.notes[-1] == "15 more workloads left out for such reasons"


def test_a_workload_keeps_its_kind() -> None:
    rows = [pod(at, workload=name) for at in (1.0, 2.0) for name in ("deploy/api", "sts/db", "cronjob/nightly")]
    result = simulate(scenario_of(trace(*rows, node()), source="t").scenario)
    assert sorted(workload.workload for workload in result.workloads) == [
        "shop/cronjob/nightly",
        "shop/deploy/api",
        "shop/sts/db",
    ]


def test_a_prometheus_trace_is_played_with_its_selectors_taints_and_priorities() -> None:
    tainted = node(
        "n-1",
        labels_json=json.dumps({"disk": "ssd"}),
        taints_json=json.dumps([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
    )
    constraints = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    database = pod(5.0, workload="sts/db", constraints_json=json.dumps(constraints), priority=700)
    groups = {
        group_.name: group_
        for group_ in scenario_of(trace(pod(), database, node(), tainted), source="t").scenario.node_groups
    }
    api, db = scenario_of(trace(pod(), database, node(), tainted), source="t").scenario.workloads
    assert db.priority == 700
    assert sorted(name for name, group in groups.items() if admits(db.constraints, group.node_class)) == ["nodes"]
    assert sorted(name for name, group in groups.items() if admits(api.constraints, group.node_class)) == ["m7i-xlarge"]


def test_a_karpenter_cluster_is_one() -> None:
    seen = node(labels_json=json.dumps({"karpenter.sh/nodepool": "default"}))
    assert scenario_of(trace(pod(), seen), source="t").scenario.autoscaler.kind == "karpenter"
