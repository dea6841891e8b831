import json

import pytest

from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace
from slack.simulator.traces.history import TraceHistory
from slack.simulator.traces.parquet import read_trace, write_trace
from slack.simulator.traces.state_metrics import MetricSample, spell_label

START = 1_768_000_000.0
API = {"namespace": "shop", "pod": "api-x", "uid": "1"}


def series(value: float, /, **labels: str) -> list[MetricSample]:
    return [MetricSample(labels, value)]


def history() -> TraceHistory:
    found = TraceHistory(START)
    found.add_answer("node_created", series(START - 900, node="n-0"))
    found.add_answer("node_last_seen", series(START + 3600, node="n-0"))
    for resource, value in (("cpu", 3.92), ("memory", 1e10), ("pods", 58.0), ("nvidia_com_gpu", 1.0)):
        found.add_answer("node_allocatable", series(value, node="n-0", resource=resource))
    found.add_answer(
        "node_labels", series(1, node="n-0", label_node_kubernetes_io_instance_type="m7i.xlarge", label_x="y")
    )
    found.add_answer("pod_created", series(START + 60, **API))
    found.add_answer(
        "pod_info", series(1, **API, node="n-0", created_by_kind="ReplicaSet", created_by_name="api-5d8f7c9b6d")
    )
    found.add_answer("pod_requests", series(0.25, **API, container="a", resource="cpu"))
    found.add_answer("pod_requests", series(0.5, **API, container="b", resource="cpu"))
    found.add_answer("pod_requests", series(1 << 30, **API, container="a", resource="memory"))
    return found


def pod_of(found: Trace) -> PodTraceRow:
    (row,) = found.pods
    return row


def node_of(found: Trace) -> NodeTraceRow:
    (row,) = found.nodes
    return row


def test_series_of_a_pod_become_its_row() -> None:
    found = history()
    found.add_answer("pod_scheduled", series(START + 150, **API))
    found.add_answer("pod_last_seen", series(START + 900, **API))
    row = pod_of(found.trace(START + 3600))
    assert (row.time_seconds, row.bound_seconds, row.life_seconds) == (60.0, 90.0, 780.0)  # half a scrape later
    assert (row.workload, row.cpu_millis, row.memory_bytes, row.node) == ("deploy/api", 750, 1 << 30, "n-0")


def test_a_completed_pod_ended_then_and_one_that_was_seen_last_at_the_end_lives() -> None:
    found = history()
    found.add_answer("pod_scheduled", series(START + 100, **API))
    found.add_answer("pod_last_seen", series(START + 3590, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds is None
    found.add_answer("pod_completed", series(START + 400, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds is None, "a container ended, to start again"
    found.add_answer("pod_finished", series(START + 420, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds == 300.0


def test_a_failed_pod_without_containers_ended_when_it_was_first_seen_failed() -> None:
    found = history()
    found.add_answer("pod_scheduled", series(START + 100, **API))
    for at in (500, 480, 900):
        found.add_answer("pod_finished", series(START + at, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds == 380.0


def test_a_pod_that_had_finished_before_is_left_out() -> None:
    found = history()
    found.add_answer("pod_created", series(START - 600, **API))
    found.add_answer("pod_finished", series(START + 15, **API))
    found.add_answer("pod_completed", series(START - 60, **API))
    assert found.trace(START + 3600).pods == ()


def test_when_nobody_scraped_at_the_end_nothing_ended_by_it() -> None:
    found = history()
    found.add_answer("pod_scheduled", series(START + 100, **API))
    found.add_answer("pod_last_seen", series(START + 1800, **API))
    found.add_answer("node_last_seen", series(START + 1800, node="n-0"))
    later = TraceHistory(START)
    assert pod_of(found.trace(START + 3600)).life_seconds is not None  # the node was seen at 3600
    for query, value, labels in (
        ("pod_created", START + 60, API),
        ("pod_scheduled", START + 100, API),
        ("pod_last_seen", START + 1800, API),
        ("node_last_seen", START + 1800, {"node": "n-0"}),
    ):
        later.add_answer(query, series(value, **labels))
    assert pod_of(later.trace(START + 3600)).life_seconds is None


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_pods_two_infos_the_one_with_its_node_counts(order: int) -> None:
    found = TraceHistory(START)
    found.add_answer("pod_created", series(START + 60, **API))
    found.add_answer("pod_scheduled", series(START + 61, **API))
    infos = [MetricSample(API, 1.0), MetricSample({**API, "node": "n-0"}, 1.0)]
    found.add_answer("pod_info", infos[::order])
    assert pod_of(found.trace(START + 3600)).node == "n-0"


def test_what_a_clock_ahead_of_ours_made_after_the_end_came_at_the_end() -> None:
    found = history()
    found.add_answer("pod_created", series(START + 90, namespace="shop", pod="ahead-1", uid="9"))
    found.add_answer("node_created", series(START + 95, node="ahead"))
    found.add_answer("node_allocatable", series(4, node="ahead", resource="cpu"))
    trace = found.trace(START + 60)
    times = [pod.time_seconds for pod in trace.pods] + [node.time_seconds for node in trace.nodes]
    assert max(times) == 60
    assert read_trace(write_trace(trace), source="t").seconds == 60


def test_an_init_container_that_requests_more_counts() -> None:
    found = history()
    found.add_answer("pod_init_requests", series(2.0, **API, container="i", resource="cpu"))
    found.add_answer("pod_init_requests", series(1000, **API, container="i", resource="memory"))
    row = pod_of(found.trace(START + 3600))
    assert (row.cpu_millis, row.memory_bytes) == (2000, 1 << 30)


def test_owners_are_named_by_their_own_metrics_and_else_by_their_hash() -> None:
    found = history()
    owner = {"namespace": "shop", "owner_is_controller": "true"}
    found.add_answer(
        "replicaset_owner",
        series(1, **owner, replicaset="api-5d8f7c9b6d", owner_kind="Deployment", owner_name="the-api"),
    )
    assert pod_of(found.trace(START + 3600)).workload == "deploy/the-api"
    found.add_answer(
        "pod_info", series(1, **API, node="n-0", created_by_kind="ReplicaSet", created_by_name="lone-5d8f7c9b6d")
    )
    assert pod_of(found.trace(START + 3600)).workload == "rs/lone-5d8f7c9b6d"
    found.add_answer("pod_info", series(1, **API, node="n-0", created_by_kind="Job", created_by_name="nightly-x"))
    found.add_answer("job_owner", series(1, **owner, job_name="nightly-x", owner_kind="CronJob", owner_name="nightly"))
    assert pod_of(found.trace(START + 3600)).workload == "cronjob/nightly"


def test_labels_that_prometheus_renamed_are_the_objects() -> None:
    found = history()
    scraped = {"namespace": "kube-system", "pod": "kube-scheduler-0"}
    found.add_answer(
        "pod_priority", series(0.5, **scraped, exported_namespace="shop", exported_pod="api-x", priority="700")
    )
    assert pod_of(found.trace(START + 3600)).priority == 700


SCRAPED = {
    "namespace": "monitoring",
    "pod": "kube-state-metrics-0",
    "container": "kube-state-metrics",
    "node": "n-9",
    "exported_namespace": "shop",
    "exported_pod": "api-x",
    "uid": "1",
}
"""Labels of a pod's series if the scraped target has labels of the same names (honorLabels: false)."""


@pytest.mark.parametrize("order", [1, -1])
def test_containers_and_nodes_that_prometheus_renamed_are_the_objects(order: int) -> None:
    found = TraceHistory(START)
    found.add_answer("pod_created", series(START + 60, **SCRAPED))
    found.add_answer("pod_scheduled", series(START + 150, **SCRAPED))
    for container in "ab":
        found.add_answer("pod_requests", series(0.25, **SCRAPED, exported_container=container, resource="cpu"))
    found.add_answer("pod_init_requests", series(0.75, **SCRAPED, exported_container="i", resource="cpu"))
    pending = MetricSample({**SCRAPED, "created_by_kind": "<none>"}, 1)
    found.add_answer("pod_info", [pending, MetricSample({**pending.labels, "exported_node": "n-1"}, 1)][::order])
    row = pod_of(found.trace(START + 3600))
    assert (row.namespace, row.workload, row.cpu_millis, row.node) == ("shop", "pod/api-x", 750, "n-1")


def test_sidecars_count_beside_containers_and_beside_init_containers() -> None:
    found = history()
    for container, cpu in (("first", 0.7), ("proxy", 0.1), ("agent", 0.2)):
        found.add_answer("pod_init_requests", series(cpu, **API, container=container, resource="cpu"))
    found.add_answer("pod_sidecars", series(1, **API, container="proxy", restart_policy="Always"))
    assert pod_of(found.trace(START + 3600)).cpu_millis == 850  # 750 of containers
    found.add_answer("pod_sidecars", series(1, **API, container="agent", restart_policy="Always"))
    assert pod_of(found.trace(START + 3600)).cpu_millis == 1050
    found.add_answer("pod_init_requests", series(2, **API, container="first", resource="cpu"))
    assert pod_of(found.trace(START + 3600)).cpu_millis == 2300


def constrained() -> TraceHistory:
    found = history()
    found.add_answer("pod_info", series(1, **API, node="n-0", created_by_kind="StatefulSet", priority_class="gold"))
    found.add_answer("pod_selectors", series(1, **API, nodeselector_disk="ssd", nodeselector_x="y"))
    found.add_answer("node_taints", series(START + 3600, node="n-0", key="dedicated", value="web", effect="NoSchedule"))
    found.add_answer("node_taints", series(START + 600, node="n-0", key="starting", effect="NoSchedule"))
    found.add_answer(
        "node_taints", series(START + 3600, node="n-0", key="node.kubernetes.io/not-ready", effect="NoExecute")
    )
    return found


def test_selectors_tolerations_and_taints_are_kept() -> None:
    found = constrained()
    for key, more in (("dedicated", {"operator": "Exists"}), ("node.kubernetes.io/not-ready", {"operator": "Exists"})):
        found.add_answer("pod_tolerations", series(1, **API, key=key, effect="NoSchedule", **more))
    found.add_answer("tolerations_known", series(4))
    done = found.trace(START + 3600)
    assert json.loads(pod_of(done).constraints_json) == {
        "nodeSelector": {"x": "y"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    }
    assert json.loads(node_of(done).taints_json) == [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]
    assert [note.split(",")[0].split(":")[0] for note in found.notes()] == [
        "node selectors by disk are left out",
        "no values of the PriorityClasses gold",
        "no kube_pod_status_scheduled_time",
    ]


def test_without_tolerations_no_taint_keeps_pods_away() -> None:
    assert node_of(constrained().trace(START + 3600)).taints_json == ""
    assert any(note.startswith("no tolerations, so taints are left out") for note in constrained().notes())


def test_what_only_flags_show_is_named_with_the_flag() -> None:
    found = TraceHistory(START)
    found.add_answer("node_created", series(START - 900, node="n-0"))
    said = "\n".join(found.notes())
    assert "--metric-labels-allowlist=nodes=[*]" in said
    assert "--metric-opt-in-list=kube_pod_nodeselectors" in said


def test_system_priorities_have_their_values() -> None:
    found = history()
    found.add_answer("pod_info", series(1, **API, node="n-0", priority_class="system-node-critical"))
    assert pod_of(found.trace(START + 3600)).priority == 2_000_001_000
    assert not any("PriorityClasses" in note for note in found.notes())


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("node.kubernetes.io/instance-type", "node_kubernetes_io_instance_type"),
        ("eks.amazonaws.com/capacityType", "eks_amazonaws_com_capacity_type"),
    ],
)
def test_keys_are_spelled_as_kube_state_metrics_does(key: str, name: str) -> None:
    assert spell_label(key) == name


def test_a_node_keeps_what_names_its_group() -> None:
    row = node_of(history().trace(START + 3600))
    assert (row.initial, row.cpu_millis, row.life_seconds) == (True, 3920, None)
    assert json.loads(row.labels_json) == {"node.kubernetes.io/instance-type": "m7i.xlarge", "x": "y"}
    assert json.loads(row.requests_json) == {"nvidia.com/gpu": 1, "pods": 58}


def test_a_node_that_started_was_ready_when_its_condition_was_seen_first() -> None:
    found = history()
    found.add_answer("node_created", series(START + 100, node="n-1"))
    found.add_answer("node_allocatable", series(4, node="n-1", resource="cpu"))
    found.add_answer("node_ready", series(START + 145, node="n-1"))
    found.add_answer("node_ready", series(START + 2000, node="n-1"))  # a later window
    row = found.trace(START + 3600).nodes[1]
    assert (row.time_seconds, row.ready_seconds, row.initial) == (100.0, 45.0, False)


def test_a_node_that_took_a_pod_was_ready_however_late_that_was_scraped() -> None:
    found = history()
    found.add_answer("node_created", series(START + 100, node="n-1"))
    found.add_answer("node_allocatable", series(4, node="n-1", resource="cpu"))
    found.add_answer("node_ready", series(START + 160, node="n-1"))
    found.add_answer(
        "pod_info", series(1, **API, node="n-1", created_by_kind="ReplicaSet", created_by_name="api-5d8f7c9b6d")
    )
    found.add_answer("pod_scheduled", series(START + 132, **API))
    assert found.trace(START + 3600).nodes[1].ready_seconds == 32.0


def test_daemons_are_no_arrivals() -> None:
    found = history()
    daemon = {"namespace": "kube-system", "pod": "proxy", "uid": "9"}
    found.add_answer("pod_created", series(START - 60, **daemon))
    found.add_answer("pod_requests", series(0.1, **daemon, container="a", resource="cpu"))
    found.add_answer("pod_info", series(1, **daemon, node="n-0", created_by_kind="DaemonSet", created_by_name="proxy"))
    done = found.trace(START + 3600)
    assert pod_of(done).workload == "deploy/api"
    assert json.loads(node_of(done).daemon_json) == {"cpu": 100, "pods": 1}


def test_a_daemonsets_rollout_does_not_count_twice() -> None:
    found = history()
    for uid in ("9", "10"):
        daemon = {"namespace": "kube-system", "pod": f"proxy-{uid}", "uid": uid}
        found.add_answer("pod_created", series(START - 60, **daemon))
        found.add_answer(
            "pod_info", series(1, **daemon, node="n-0", created_by_kind="DaemonSet", created_by_name="proxy")
        )
    assert json.loads(node_of(found.trace(START + 3600)).daemon_json) == {"pods": 1}


def test_a_pod_without_an_owner_is_its_own_workload() -> None:
    found = history()
    found.add_answer("pod_info", series(1, **API, node="n-0", created_by_kind="<none>", created_by_name="<none>"))
    assert pod_of(found.trace(START + 3600)).workload == "pod/api-x"
