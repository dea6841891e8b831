"""What watches of pods and nodes come to: sums by node, recent pods, and the names of nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.wire import Pod
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import NodeObject, without_port
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import CPU, MEMORY
from slack.scorer.rules import Prediction

NOW = 1_000_000.0
KEPT = 600.0


def state() -> ClusterState:
    def fail(name: str, error: ValueError) -> None:
        raise AssertionError(f"{name}: {error}")

    return ClusterState(lambda pod: demand_of(pod.spec, Prediction()), "slack", KEPT, fail)


def node(name: str, cpu: str = "4", addresses: Any = None) -> NodeObject:
    status = {
        "capacity": {"cpu": cpu, "memory": "8Gi"},
        "allocatable": {"cpu": "3500m", "memory": "7Gi"},
        "addresses": addresses,
    }
    return msgspec.convert(
        {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"host-{name}"}}, "status": status}, NodeObject
    )


def pod(
    name: str,
    on: str | None,
    cpu: str = "1",
    placeholder: bool = False,
    phase: str = "Running",
    conditions: Sequence[Mapping[str, str]] = (),
) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    metadata: dict[str, Any] = {"name": name, "namespace": "slack" if placeholder else "shop"}
    if placeholder:
        metadata["labels"] = {"resource-slack.io/placeholder": "true"}
    spec = {"nodeName": on, "containers": [{"name": "main", "resources": resources}]}
    document = {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": conditions}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def listed(*names: str) -> ClusterState:
    found = state()
    found.begin_nodes()
    for name in names:
        found.apply_node(False, node(name))
    found.end_nodes()
    found.begin_pods()
    found.end_pods()
    return found


def test_requests_and_limits_are_summed_by_node_and_placeholders_apart() -> None:
    found = listed("b", "a")
    for one in (pod("x", "a"), pod("y", "a", "500m"), pod("room", "a", placeholder=True), pod("z", "b")):
        found.apply_pod(False, one, NOW)
    nodes = found.nodes()
    assert nodes.names == ("a", "b")
    assert nodes.requested[CPU].tolist() == [1500, 1000]
    assert nodes.limited[CPU].tolist() == [4000, 2000]
    assert nodes.placeholders[CPU].tolist() == [1000, 0]
    assert nodes.placeholders[MEMORY].tolist() == [1 << 30, 0]
    assert nodes.pod_count.tolist() == [2, 1]
    assert (nodes.capacity[CPU].tolist(), nodes.allocatable[CPU].tolist()) == ([4000] * 2, [3500] * 2)


def test_pods_of_the_first_list_are_not_recent_and_later_ones_are_until_they_are_old() -> None:
    found = state()
    found.apply_node(False, node("a"))
    found.begin_pods()
    assert not found.apply_pod(False, pod("old", "a"), NOW)
    found.end_pods()
    assert found.apply_pod(False, pod("new", "a"), NOW + 1)
    assert not found.apply_pod(False, pod("new", "a"), NOW + 2), "the same again"
    recent = found.recent(NOW + 3)
    assert (recent.node.tolist(), recent.bound_seconds.tolist(), recent.use[CPU].tolist()) == ([0], [NOW + 1], [1500])
    assert found.recent(NOW + 2 + KEPT).node.size == 0


def test_placeholders_are_never_recent() -> None:
    found = listed("a")
    found.apply_pod(False, pod("room", "a", placeholder=True), NOW)
    assert found.recent(NOW).node.size == 0


def test_a_pod_that_ends_is_deleted_or_cannot_be_read_is_taken_off() -> None:
    told: list[str] = []
    found = ClusterState(
        lambda pod: demand_of(pod.spec, Prediction()), "slack", KEPT, lambda name, _: told.append(name)
    )
    found.apply_node(False, node("a"))
    for end in (pod("x", "a", phase="Succeeded"), pod("x", None), pod("x", "a", cpu="much")):
        found.apply_pod(False, pod("x", "a"), NOW)
        assert found.pod_count == 1
        found.apply_pod(False, end, NOW)
        assert (found.pod_count, found.nodes().requested.sum()) == (0, 0)
    assert told == ["pod shop/x"]


def test_a_node_that_comes_after_its_pods_has_them_and_one_that_goes_takes_them_out_of_sight() -> None:
    found = listed()
    found.apply_pod(False, pod("x", "late"), NOW)
    assert (len(found.nodes()), found.recent(NOW).node.size) == (0, 0)
    found.apply_node(False, node("late"))
    assert found.nodes().requested[CPU].tolist() == [1000]
    found.apply_node(True, node("late"))
    assert len(found.nodes()) == 0
    found.apply_node(False, node("late", cpu="8"))
    assert (found.nodes().capacity[CPU].tolist(), found.nodes().requested[CPU].tolist()) == ([8000], [1000])


def test_a_list_of_nodes_forgets_those_that_are_not_in_it_and_a_node_that_cannot_be_read_is_told() -> None:
    told: list[str] = []
    found = ClusterState(
        lambda pod: demand_of(pod.spec, Prediction()), "slack", KEPT, lambda name, _: told.append(name)
    )
    for listed_now in (("a", "b", "c"), ("b", "d")):
        found.begin_nodes()
        for name in listed_now:
            found.apply_node(False, node(name))
        found.apply_node(False, node("broken", cpu="lots"))
        found.end_nodes()
        assert found.nodes().names == listed_now
    assert told == ["node broken"] * 2


def test_rows_of_nodes_that_went_are_used_again_and_hold_nothing_of_them() -> None:
    names = [f"n{number:03}" for number in range(130)]  # more than there is room for at first, twice
    found = listed(*names)
    for name in names:
        found.apply_pod(False, pod(f"on-{name}", name, cpu="100m"), NOW)
    assert found.nodes().requested[CPU].tolist() == [100.0] * 130
    for name in names[:100]:
        found.apply_pod(True, pod(f"on-{name}", name), NOW)
        found.apply_node(True, node(name))
    for number in range(100):
        found.apply_node(False, node(f"later{number:03}"))
    nodes = found.nodes()
    assert nodes.requested[CPU].tolist() == [0.0] * 100 + [100.0] * 30
    assert (len(found._names), nodes.pod_count.sum()) == (130, 30)


def test_a_pod_that_was_bound_is_found_by_its_name_until_it_is_gone() -> None:
    found = listed("a")
    found.apply_pod(False, pod("x", "a"), NOW)
    demand = found.demand_of_bound("shop", "x")
    assert (found.node_of("shop", "x"), demand and demand.requests[CPU]) == ("a", 1000)
    found.apply_pod(True, pod("x", "a"), NOW)
    assert (found.node_of("shop", "x"), found.demand_of_bound("shop", "x")) == (None, None)


def test_a_recent_pod_that_is_resized_is_predicted_anew_and_one_that_turns_placeholder_is_not() -> None:
    found = listed("a")
    found.apply_pod(False, pod("x", "a"), NOW)
    assert not found.apply_pod(False, pod("x", "a", cpu="2"), NOW + 1), "it was bound before"
    recent = found.recent(NOW + 2)
    assert (recent.use[CPU].tolist(), recent.bound_seconds.tolist()) == ([3000], [NOW])
    own = pod("x", "a")
    own.metadata.namespace = "slack"
    found.apply_pod(False, own, NOW)
    own.metadata.labels = pod("y", "a", placeholder=True).metadata.labels
    found.apply_pod(False, own, NOW + 3)
    assert found.recent(NOW + 4).node.size == 1, "shop/x, and not slack/x"


def test_when_a_pod_was_bound_is_the_schedulers_own_word_but_never_later_than_now() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-12T13:46:30Z"}  # NOW - 10
    others = [{"type": "Ready", "status": "False"}]
    for conditions, at in (
        ([*others, scheduled], NOW - 10),
        ([{**scheduled, "lastTransitionTime": "1970-01-13T13:46:30Z"}], NOW),
        (others, NOW),
        ([{**scheduled, "lastTransitionTime": "yesterday"}], NOW),
    ):
        found = listed("a")
        found.apply_pod(False, pod("x", "a", conditions=conditions), NOW)
        assert found.recent(NOW).bound_seconds.tolist() == [at], conditions


def test_names_stay_the_same_value_while_only_pods_change() -> None:
    found = listed("a")
    before = found.nodes()
    found.apply_pod(False, pod("x", "a"), NOW)
    assert found.nodes().names is before.names
    assert before.requested[CPU].tolist() == [0], "what was given out never changes"
    found.apply_node(False, node("b"))
    assert found.nodes().names == ("a", "b")


def test_other_names_of_nodes_are_known_unless_two_have_them() -> None:
    found = state()
    shared = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}]
    found.apply_node(False, node("a", addresses=shared))
    assert found.aliases() == {"host-a": "a", "10.0.0.1": "a", "1.2.3.4": "a"}
    found.apply_node(False, node("b", addresses=[{"type": "InternalIP", "address": "10.0.0.1"}]))
    assert found.aliases() == {"host-a": "a", "host-b": "b", "1.2.3.4": "a"}


def test_ports_are_taken_off_names() -> None:
    names = {"10.0.0.2:9100": "10.0.0.2", "[fd00::2]:9100": "fd00::2", "fd00::2": "fd00::2", "n1": "n1", "n1:x": "n1:x"}
    assert {name: without_port(name) for name in names} == names


EVENTS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None]), st.sampled_from(["1", "250m"]), st.booleans()),
    max_size=30,
)


@given(EVENTS, st.lists(st.integers(0, 5), max_size=6))
def test_after_a_list_only_what_was_listed_counts(
    events: list[tuple[int, str | None, str, bool]], rest: list[int]
) -> None:
    found = listed("a", "b")
    for number, on, cpu, deleted in events:
        found.apply_pod(deleted, pod(f"p{number}", on, cpu), NOW)
    found.begin_pods()
    found.apply_pod(False, pod("p9", "a"), NOW)
    found.begin_pods()  # the first was broken off
    for number in rest:
        found.apply_pod(False, pod(f"p{number}", "b"), NOW)
    found.end_pods()
    count = len(set(rest))
    nodes = found.nodes()
    assert found.pod_count == count
    assert nodes.pod_count.tolist() == [0, count]
    assert np.array_equal(nodes.requested[CPU], [0.0, 1000.0 * count])
