"""One node's decisions: the study's flows, shares, restarts, time-outs, and what somebody who waits is told."""

from collections.abc import Sequence

import pytest

from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.limits import Limits, Usage
from slack.throttler.model import GatedContainer, GatedPod, Late
from slack.throttler.policies import Deny, Rule
from slack.throttler.queue import Key

STUDY = {"a": (), "b": ("a",), "c": ("b",), "d": ("b",), "e": ("c", "d")}


def pod(names: Sequence[str], uid: str = "p", *, namespace: str = "shop", priority: int = 0, exempt: bool = False,
        depends_on: dict[str, tuple[str, ...]] | None = None, probed: bool = True) -> GatedPod:  # fmt: skip
    edges = depends_on or {}
    containers = tuple(GatedContainer(name, edges.get(name, ()), probed) for name in names)
    return GatedPod(uid, namespace, containers, priority, exempt)


def node(limits: Limits, *pods: GatedPod) -> NodeThrottle:
    throttle = NodeThrottle(limits)
    for each in pods:
        throttle.add_pod(each, 0.0)
        for container in each.containers:
            throttle.pulled(Key(each.uid, container.name), 0.0)
    return throttle


def granted(throttle: NodeThrottle, now: float, usage: Usage | None = None) -> list[str]:
    return [grant.key.container for grant in throttle.grants(now, usage or Usage())]


def key(container: str, uid: str = "p") -> Key:
    return Key(uid, container)


def test_the_lucky_flow_ends_by_itself() -> None:
    throttle = node(Limits(slots=2), pod(["b", "a", "c"]))
    assert granted(throttle, 0.0) == ["b", "a"]
    throttle.succeeded(key("a"), 1.0)
    assert granted(throttle, 1.0) == ["c"]
    throttle.succeeded(key("b"), 2.0)
    throttle.succeeded(key("c"), 2.0)
    assert throttle.counts()[StartState.READY] == 3


def unlucky(**limits: float) -> NodeThrottle:
    throttle = node(Limits(slots=2, **limits), pod(["b", "c", "a"]))  # type: ignore[arg-type]
    assert granted(throttle, 0.0) == ["b", "c"]
    return throttle


def test_the_unlucky_flow_is_a_dead_lock() -> None:
    throttle = unlucky()
    assert granted(throttle, 1e6) == []
    assert throttle.next_look(1e6) is None


def test_the_unlucky_flow_is_ended_by_dependencies() -> None:
    throttle = node(Limits(slots=2), pod(["b", "c", "a"], depends_on={"b": ("a",), "c": ("a",)}))
    assert granted(throttle, 0.0) == ["a"]
    throttle.succeeded(key("a"), 1.0)
    assert granted(throttle, 1.0) == ["b", "c"]


def test_the_unlucky_flow_is_ended_by_the_time_out() -> None:
    throttle = unlucky(start_timeout_seconds=60.0)
    assert throttle.next_look(1.0) == 60.0
    assert throttle.expire(59.9) == ()
    assert throttle.expire(60.0) == (Late(key("b"), 0, False), Late(key("c"), 0, False))
    assert granted(throttle, 60.0) == ["a"]
    throttle.succeeded(key("b"), 61.0)
    assert throttle.state(key("b")) is StartState.READY


def test_the_unlucky_flow_is_ended_by_the_minimum_rate() -> None:
    throttle = unlucky(force_after_seconds=10.0)
    assert throttle.next_look(1.0) == 10.0
    assert granted(throttle, 9.9) == []
    (grant,) = throttle.grants(10.0)
    assert (grant.key, grant.forced) == (key("a"), True)
    assert throttle.starting == 3


def test_the_study_s_graph_with_one_slot_declared_backwards() -> None:
    throttle = node(Limits(slots=1), pod(["e", "d", "c", "b", "a"], depends_on=STUDY))
    order: list[str] = []
    for now in range(5):
        order += granted(throttle, float(now))
        throttle.succeeded(key(order[-1]), now + 0.5)
    assert order == ["a", "b", "d", "c", "e"]


def test_minimum_rate_starts_nothing_that_is_blocked() -> None:
    throttle = node(Limits(slots=1, force_after_seconds=1.0), pod(["b", "a"], depends_on={"b": ("a",)}))
    assert granted(throttle, 0.0) == ["a"]
    assert granted(throttle, 1000.0) == []
    waiting = throttle.waiting(key("b"), 1000.0)
    assert (waiting.state, waiting.reason, waiting.until) == (StartState.BLOCKED, "depends on a (starting)", None)


def test_a_dependency_that_ends_again_takes_the_place_in_the_queue_away() -> None:
    throttle = node(Limits(slots=1), pod(["a", "b"], depends_on={"b": ("a",)}), pod(["x"], "q"))
    assert granted(throttle, 0.0) == ["a"]
    throttle.succeeded(key("a"), 1.0)
    assert granted(throttle, 1.0) == ["x"]
    throttle.ended(key("a"), 2.0)
    throttle.succeeded(key("x", "q"), 3.0)
    assert granted(throttle, 3.0) == ["a"]
    assert throttle.state(key("b")) is StartState.BLOCKED


def test_first_come_first_served_and_ties_by_declaration() -> None:
    throttle = NodeThrottle(Limits(slots=1))
    throttle.add_pod(pod(["a", "b"]), 0.0)
    throttle.add_pod(pod(["x"], "q"), 0.0)
    for name, at in (("b", 1.0), ("a", 1.0)):
        throttle.pulled(key(name), at)
    throttle.pulled(key("x", "q"), 0.5)
    assert [throttle.waiting(each, 2.0).position for each in (key("x", "q"), key("a"), key("b"))] == [1, 2, 3]


def test_a_higher_priority_is_first_when_told_so() -> None:
    pods = (pod(["low"], "l"), pod(["high"], "h", priority=1000))
    assert granted(node(Limits(slots=1), *pods), 0.0) == ["low"]
    assert granted(node(Limits(slots=1, by_priority=True), *pods), 0.0) == ["high"]


def test_a_policy_that_is_changed_orders_those_that_wait_already() -> None:
    pods = (pod(["low"], "l"), pod(["middle"], "m", priority=10), pod(["high"], "h", priority=1000))
    throttle = node(Limits(slots=0), *pods)
    positions = [key("low", "l"), key("middle", "m"), key("high", "h")]

    def order() -> list[int]:
        return [throttle.waiting(each, 1.0).position for each in positions]

    assert order() == [1, 2, 3]
    throttle.use(Limits(slots=0, by_priority=True))
    assert order() == [3, 2, 1]
    throttle.use(Limits(slots=0))
    assert order() == [1, 2, 3]


def test_a_start_by_the_minimum_rate_is_the_highest_priority_s_too() -> None:
    pods = (pod(["low"], "l"), pod(["high"], "h", priority=1000))
    throttle = node(Limits(slots=2, max_cpu=0.8, force_after_seconds=10.0, by_priority=True), *pods)
    assert granted(throttle, 0.0, Usage(cpu=0.9)) == []
    assert granted(throttle, 10.0, Usage(cpu=0.9)) == ["high"]


def test_system_node_critical_pods_wait_for_no_slot_and_hold_none() -> None:
    throttle = node(Limits(slots=1, gap_seconds=1.0), pod(["a", "b"]), pod(["cni"], "c", exempt=True))
    assert granted(throttle, 0.0) == ["cni", "a"]
    assert throttle.starting == 1


def test_one_namespace_cannot_hold_all_slots() -> None:
    limits = Limits(slots=4, namespace_slots=2)
    throttle = node(limits, pod(list("abc")), pod(["x"], "q", namespace="other"))
    assert granted(throttle, 0.0) == ["a", "b", "x"]
    assert throttle.waiting(key("c"), 0.0).reason == "namespace shop has its 2 slots"
    denied = throttle.decide(0.0)
    assert isinstance(denied, Deny)
    assert denied.rules == (Rule.SHARE,)
    throttle.succeeded(key("a"), 1.0)
    assert granted(throttle, 1.0) == ["c"]


def test_a_restart_waits_anew_and_is_granted_once() -> None:
    throttle = node(Limits(slots=1), pod(["a"]), pod(["x"], "q"))
    assert granted(throttle, 0.0) == ["a"]
    throttle.ended(key("a"), 1.0)
    throttle.ended(key("a"), 1.0)
    assert granted(throttle, 1.0) == ["x"]
    throttle.succeeded(key("x", "q"), 2.0)
    (grant,) = throttle.grants(2.0)
    assert (grant.key, grant.start) == (key("a"), 1)


def test_who_the_kubelet_backs_off_holds_neither_slot_nor_place() -> None:
    throttle = node(Limits(slots=1), pod(["a"]), pod(["x"], "q"))
    assert granted(throttle, 0.0) == ["a"]
    throttle.ended(key("a"), 1.0, backing_off=True)
    assert throttle.waiting(key("a"), 1.0).reason == "the kubelet backs off"
    assert granted(throttle, 1.0) == ["x"]
    throttle.succeeded(key("x", "q"), 2.0)
    assert granted(throttle, 2.0) == []
    throttle.pulled(key("a"), 11.0)
    assert granted(throttle, 11.0) == ["a"]


def test_a_restart_that_is_not_gated_still_holds_a_slot() -> None:
    throttle = node(Limits(slots=1, gate_restarts=False), pod(["a", "b"]))
    assert granted(throttle, 0.0) == ["a"]
    throttle.succeeded(key("a"), 1.0)
    throttle.ended(key("a"), 2.0)
    assert throttle.state(key("a")) is StartState.STARTING
    assert granted(throttle, 2.0) == []
    throttle.ended(key("a"), 3.0, backing_off=True)
    assert granted(throttle, 3.0) == ["b"]
    throttle.running(key("a"), 9.0)
    assert throttle.starting == 2


def test_without_a_probe_a_slot_is_held_for_a_while_from_the_start() -> None:
    limits = Limits(slots=1, no_probe_hold_seconds=5.0, start_timeout_seconds=60.0)
    throttle = node(limits, pod(["a", "b"], probed=False))
    assert granted(throttle, 0.0) == ["a"]
    throttle.running(key("a"), 2.0)
    throttle.running(key("a"), 3.0)
    assert throttle.next_look(3.0) == 7.0
    assert throttle.expire(7.0) == ()
    assert throttle.state(key("a")) is StartState.READY
    assert granted(throttle, 7.0) == ["b"]
    assert throttle.expire(67.0) == (Late(key("b"), 0, False),)


def test_what_an_earlier_agent_granted_holds_its_slot_its_deadline_and_the_rate() -> None:
    throttle = node(Limits(slots=1, start_timeout_seconds=60.0, gap_seconds=5.0), pod(["a", "b"]))
    throttle.running(key("a"), 8.0, start=3, granted_at=6.0)
    throttle.running(key("a"), 8.0, start=3, granted_at=6.0)
    assert granted(throttle, 8.0) == []
    assert throttle.waiting(key("a"), 8.0).until == 66.0
    throttle.succeeded(key("a"), 9.0)
    assert granted(throttle, 9.0) == []
    assert granted(throttle, 11.0) == ["b"]


def test_a_pod_that_is_gone_leaves_nothing_behind() -> None:
    throttle = node(Limits(slots=1, start_timeout_seconds=9.0), pod(["a", "b"]), pod(["x"], "q"))
    assert granted(throttle, 0.0) == ["a"]
    throttle.remove("p")
    throttle.remove("p")
    assert key("a") not in throttle
    assert granted(throttle, 0.0) == ["x"]
    assert throttle.counts() == {state: int(state is StartState.STARTING) for state in StartState}
    assert throttle.expire(8.0) == ()


def test_other_limits_hold_from_now_on() -> None:
    throttle = node(Limits(slots=1), pod(list("abcd")))
    assert granted(throttle, 0.0) == ["a"]
    throttle.use(Limits(slots=4, namespace_slots=3))
    assert granted(throttle, 1.0) == ["b", "c"]
    throttle.use(Limits())
    assert granted(throttle, 2.0) == ["d"]


def test_who_waits_is_told_why_and_until_when() -> None:
    throttle = node(Limits(slots=1, force_after_seconds=10.0, max_cpu=0.8), pod(list("abc")))
    assert granted(throttle, 0.0) == ["a"]
    first, second = (throttle.waiting(key(name), 3.0, Usage(cpu=0.9)) for name in "bc")
    assert (first.position, first.until) == (1, 10.0)
    assert first.reason == "1 start, and 1 may; CPU use is 90%, and is to be below 80%"
    assert (second.position, second.until) == (2, 20.0)
    assert second.reason.startswith("1 before it; 1 start, and 1 may")


def test_a_pod_is_taken_in_once_and_ended_means_nothing_before_a_start() -> None:
    throttle = node(Limits(slots=0), pod(["a"]))
    throttle.add_pod(pod(["a", "b"]), 1.0)
    throttle.ended(key("a"), 1.0)
    throttle.pulled(key("a"), 1.0)
    assert throttle.counts()[StartState.PENDING] == 1
    assert key("b") not in throttle
    with pytest.raises(KeyError):
        throttle.state(key("b"))
    assert throttle.next_look(1.0) is None


def test_a_container_that_becomes_ready_unseen_leaves_the_queue() -> None:
    throttle = node(Limits(slots=1), pod(["a"]))
    throttle.succeeded(key("a"), 1.0)
    throttle.succeeded(key("a"), 2.0)
    assert (granted(throttle, 1.0), throttle.decide(1.0)) == ([], None)
    assert throttle.waiting(key("a"), 3.0).since == 1.0


def test_a_namespace_whose_containers_hold_no_slot_any_more_is_not_kept() -> None:
    throttle = NodeThrottle(Limits(slots=2))
    for number in range(50):
        uid = f"u{number}"
        throttle.add_pod(GatedPod(uid, f"team-{number}", (GatedContainer("a"),)), 0.0)
        throttle.pulled(Key(uid, "a"), 0.0)
        assert throttle.grants(0.0)
        throttle.remove(uid)
    assert not throttle._holders
