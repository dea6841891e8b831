import json

from slack.simulator.history import History, Sample
from slack.simulator.traceformat import NodeRow, PodRow, Trace

START = 1_768_000_000.0
API = {"namespace": "shop", "pod": "api-x", "uid": "1"}


def series(value: float, **labels: str) -> list[Sample]:
    return [Sample(labels, value)]


def history() -> History:
    found = History(START)
    found.add("node_created", series(START - 900, node="n-0"))
    found.add("node_last_seen", series(START + 3600, node="n-0"))
    for resource, value in (("cpu", 3.92), ("memory", 1e10), ("pods", 58.0), ("nvidia_com_gpu", 1.0)):
        found.add("node_allocatable", series(value, node="n-0", resource=resource))
    found.add("node_labels", series(1, node="n-0", label_node_kubernetes_io_instance_type="m7i.xlarge", label_x="y"))
    found.add("pod_created", series(START + 60, **API))
    found.add("pod_info", series(1, **API, node="n-0", created_by_kind="ReplicaSet", created_by_name="api-5d8f7c9b6d"))
    found.add("pod_requests", series(0.25, **API, container="a", resource="cpu"))
    found.add("pod_requests", series(0.5, **API, container="b", resource="cpu"))
    found.add("pod_requests", series(1 << 30, **API, container="a", resource="memory"))
    return found


def pod_of(found: Trace) -> PodRow:
    (row,) = found.pods
    return row


def node_of(found: Trace) -> NodeRow:
    (row,) = found.nodes
    return row


def test_series_of_a_pod_become_its_row() -> None:
    found = history()
    found.add("pod_scheduled", series(START + 150, **API))
    found.add("pod_last_seen", series(START + 900, **API))
    row = pod_of(found.trace(START + 3600))
    assert (row.time_seconds, row.bound_seconds, row.life_seconds) == (60.0, 90.0, 750.0)
    assert (row.workload, row.cpu_millis, row.memory_bytes, row.node) == ("deploy/api", 750, 1 << 30, "n-0")


def test_a_completed_pod_ended_then_and_one_that_was_seen_last_at_the_end_lives() -> None:
    found = history()
    found.add("pod_scheduled", series(START + 100, **API))
    found.add("pod_last_seen", series(START + 3590, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds is None
    found.add("pod_completed", series(START + 400, **API))
    assert pod_of(found.trace(START + 3600)).life_seconds == 300.0


def test_a_node_keeps_what_names_its_group() -> None:
    row = node_of(history().trace(START + 3600))
    assert (row.initial, row.cpu_millis, row.life_seconds) == (True, 3920, None)
    assert json.loads(row.labels_json) == {"node.kubernetes.io/instance-type": "m7i.xlarge"}
    assert json.loads(row.requests_json) == {"nvidia.com/gpu": 1, "pods": 58}


def test_a_node_that_started_was_ready_when_its_condition_was_seen_first() -> None:
    found = history()
    found.add("node_created", series(START + 100, node="n-1"))
    found.add("node_allocatable", series(4, node="n-1", resource="cpu"))
    found.add("node_ready", series(START + 145, node="n-1"))
    found.add("node_ready", series(START + 2000, node="n-1"))  # a later window
    row = found.trace(START + 3600).nodes[1]
    assert (row.time_seconds, row.ready_seconds, row.initial) == (100.0, 45.0, False)


def test_daemons_are_no_arrivals() -> None:
    found = history()
    daemon = {"namespace": "kube-system", "pod": "proxy", "uid": "9"}
    found.add("pod_created", series(START - 60, **daemon))
    found.add("pod_requests", series(0.1, **daemon, container="a", resource="cpu"))
    found.add("pod_info", series(1, **daemon, node="n-0", created_by_kind="DaemonSet", created_by_name="proxy"))
    done = found.trace(START + 3600)
    assert pod_of(done).workload == "deploy/api"
    assert json.loads(node_of(done).daemon_json) == {"cpu": 100, "pods": 1}


def test_a_pod_without_an_owner_is_its_own_workload() -> None:
    found = history()
    found.add("pod_info", series(1, **API, node="n-0", created_by_kind="<none>", created_by_name="<none>"))
    assert pod_of(found.trace(START + 3600)).workload == "pod/api-x"
