"""Which nodes get the soft taint: the fewest that hold all unbound placeholders, and as few changes as may be."""

from typing import Any

from slack.planner.soft_taint import KEEP_SECONDS, TaintDecision, decide, holding_nodes
from tests.cluster.build import Json, node, placeholder, pod
from tests.planner.scenes import snapshot_of

TOLD = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def unbound(name: str, cpu: str = "1", **rest: Any) -> Json:
    labels = {"resource-slack.io/hold": "Unbound"}
    return placeholder(name, cpu, "1Mi", labels=labels, schedulerName="resource-slack.io/unbound", status=TOLD, **rest)


def real(name: str, cpu: str, on: str) -> Json:
    return pod(name, cpu=cpu, memory="1Mi", node=on)


def test_few_roomy_nodes_hold_them_though_small_pieces_are_free_elsewhere() -> None:
    objects = [node(name, "4") for name in "abcd"]
    objects += [real(f"on-{name}", "3", name) for name in "abc"]
    snapshot = snapshot_of(*objects, *(unbound(f"p{n}") for n in range(4)))
    assert len({pod.node for pod in snapshot.placeholders}) > 1, "the packing fills the small pieces first"
    assert holding_nodes(snapshot, ()) == {"d"}


def test_a_node_with_the_taint_keeps_it_as_long_as_it_holds_one() -> None:
    snapshot = snapshot_of(node("a", "4"), node("b", "8"), real("r", "1", "a"), unbound("p"))
    assert holding_nodes(snapshot, ()) == {"b"}
    assert holding_nodes(snapshot, {"a"}) == {"a"}
    assert holding_nodes(snapshot, {"a"}, left_out={"a"}) == {"b"}


def test_what_fits_nowhere_taints_nothing_and_bound_placeholders_neither() -> None:
    assert holding_nodes(snapshot_of(node("a", "4"), unbound("p", "5")), ()) == frozenset()
    assert holding_nodes(snapshot_of(node("a", "4"), placeholder("b", "1", "1Mi", node="a")), ()) == frozenset()
    full = snapshot_of(node("a", "4"), node("b", "4"), placeholder("x", "4", "1Mi", node="a"), unbound("p", "4"))
    assert holding_nodes(full, {"a"}) == {"b"}


def test_selectors_are_honoured() -> None:
    snapshot = snapshot_of(
        node("a", "16"), node("b", "4", labels={"pool": "web"}), unbound("p", nodeSelector={"pool": "web"})
    )
    assert holding_nodes(snapshot, {"a"}) == {"b"}


def test_a_node_that_holds_none_any_more_keeps_its_taint_for_a_while() -> None:
    first = decide({"b"}, {"a"}, {}, 100.0)
    assert first == TaintDecision(("b",), (), {"a": 100.0})
    again = decide({"a", "b"}, {"a", "b"}, first.unneeded_since, 130.0)
    assert again == TaintDecision(), "it holds one again, and that is no write"
    later = decide({"b"}, {"a", "b"}, first.unneeded_since, 100.0 + KEEP_SECONDS)
    assert later.remove == ("a",)


def test_without_any_placeholder_all_taints_go_at_once() -> None:
    assert decide((), {"a", "b"}, {}, 100.0).remove == ("a", "b")
