"""The unbound form through the loop: told of, counted where it fits, exchanged step by step, and left alone."""

import copy
import time
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.health.reasons import PENDING_ON_PURPOSE
from slack.kube.errors import ApiError
from slack.kube.watch import EventType
from slack.planner.objects.actions import Action
from slack.planner.objects.decide import decide
from slack.process.contests import WINDOW_SECONDS, WRITES_BACK
from slack_operator.placeholders.act import executor, unbound
from slack_operator.placeholders.act.unbound import AT_ONCE, REPEAT_SECONDS
from slack_operator.placeholders.view.autoscalers import Autoscaler
from slack_operator.placeholders.view.sinks import OwnSetSink, PodSink
from tests.operator.fakes import NAMESPACE, Json, World, node, policy

SLACK: dict[str, Any] = {"extraCapacity": {"minRate": 0.5}, "stabilization": {"shrinkDelay": "0s"}}


def world_of(**spec: Any) -> World:
    world = World(nodes=3, pods=9)
    world.apply_policy(policy("web", **({"hold": "Unbound"} | SLACK | spec)))
    return world


def turn(world: World, turns: int = 6) -> None:
    for _ in range(turns):
        world.reconcile()
        world.observe()
        world.unbound.write_due()


def told(world: World) -> list[Json]:
    return [pod for pod in world.placeholders().values() if pod["status"].get("conditions")]


def test_every_planned_placeholder_is_told_of_once_and_counts_where_it_fits() -> None:
    world = world_of()
    turn(world)
    pods = world.placeholders()
    assert pods
    assert len(told(world)) == len(pods)
    condition = next(iter(pods.values()))["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert all(pod["spec"]["schedulerName"] == UNBOUND_SCHEDULER for pod in pods.values())
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    writes = len(world.api.log)
    turn(world, 3)
    assert len(world.api.log) == writes


def test_taken_capacity_makes_pending_ones_and_no_write_to_them() -> None:
    world = world_of()
    turn(world)
    before = {name: pod["metadata"]["resourceVersion"] for name, pod in world.placeholders().items()}
    for number in range(3):
        path = f"/api/v1/namespaces/shop/pods/burst-{number}"
        world.api.put(path, _filling(f"burst-{number}", f"n{number}"))
    world.reconcile()
    assert world.condition("web", "SlackSatisfied")["reason"] == "Refilling"
    after = {name: pod["metadata"]["resourceVersion"] for name, pod in world.placeholders().items()}
    assert before.items() <= after.items()  # none was written, deleted or made anew


def test_what_nothing_has_changed_for_is_not_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(extraCapacity={"minRate": 0, "floor": {"cpu": "6", "memory": "6Gi"}}, cover={"mode": "None"})
    turn(world)
    decisions = 0

    def counted(*args: Any, **kwargs: Any) -> tuple[Action, ...]:
        nonlocal decisions
        decisions += 1
        return decide(*args, **kwargs)

    monkeypatch.setattr(executor, "decide", counted)
    world.loop.reconcile()  # nothing is listed anew in this test: a watch brings what has changed
    decisions, before = 0, world.view.observe(world.wall()).present
    burst = [_filling(f"burst-{number}", f"n{number}") for number in range(3)]
    arrived = [msgspec.json.decode(msgspec.json.encode(each), type=wire.Pod) for each in burst]
    PodSink(world.view).apply([(EventType.ADDED, each) for each in arrived])
    world.loop.reconcile()
    seen = world.view.observe(world.wall())
    assert any(pod.node < 0 for pod in seen.snapshot.placeholders)
    assert seen.present is before
    assert decisions == 0  # it takes capacity, and changes no object of ours
    name, item = next(iter(world.api.items("replicasets").items()))
    wanted = item["spec"]["replicas"]
    item["spec"]["replicas"] = wanted + 1
    world.api._bump(item)
    raised = msgspec.json.decode(msgspec.json.encode(item), type=wire.OwnReplicaSet)
    OwnSetSink(world.view).apply([(EventType.MODIFIED, raised)])
    world.loop.reconcile()
    assert decisions == 1
    assert world.api.items("replicasets")[name]["spec"]["replicas"] == wanted


def _filling(name: str, at: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "nodeName": at,
            "priority": 0,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "4500m"}}}],
        },
        "status": {"phase": "Running"},
    }


def test_a_hold_label_that_somebody_removes_changes_nothing() -> None:
    world = world_of()
    world.reconcile()
    for pod in world.placeholders().values():
        del pod["metadata"]["labels"]["resource-slack.io/hold"]
        world.api._bump(pod)
    turn(world)
    pods = world.placeholders()
    assert len(told(world)) == len(pods) > 0
    assert all(pod.unbound for pod in world.view.observe(world.wall()).snapshot.placeholders)
    assert world.condition("web", "SlackSatisfied")["reason"] == "Reserved"
    writes = len(world.api.log)
    turn(world, 3)
    assert len(world.api.log) == writes


def test_what_is_beyond_the_plan_is_told_to_nobody() -> None:
    world = world_of()
    turn(world)
    name, item = next(iter(world.api.items("replicasets").items()))
    wanted = item["spec"]["replicas"]
    for _ in range(300):
        world._new_placeholder(name, item)
    world.observe()
    world.unbound.write_due()
    assert len(told(world)) == wanted
    assert "resource-slack-brake" not in world.api.items("resourcequotas")


def test_a_condition_that_somebody_removes_is_written_again_a_few_times() -> None:
    world = world_of()
    turn(world)
    path, victim = next((p, o) for p, o in world.api.objects.items() if f"{NAMESPACE}/pods/" in p)
    writes = 0

    def removed(seconds: float) -> None:
        nonlocal writes
        victim["status"] = {"phase": "Pending"}
        world.api._bump(victim)
        world.clock.now += seconds
        world.observe()
        before = len(world.api.log)
        world.unbound.write_due()
        writes += sum(entry[1] == f"{path}/status" for entry in world.api.log[before:])

    for _ in range(3 * WRITES_BACK):
        removed(REPEAT_SECONDS)
    assert writes == WRITES_BACK
    assert "somebody removes the condition PodScheduled each time" in (world.unbound.problem or "")
    for tries, window in enumerate((1, 2, 4), start=1):
        removed(window * WINDOW_SECONDS)
        removed(REPEAT_SECONDS)
        assert writes == WRITES_BACK + tries
        assert f"left off for {20 * window} min at a time" in (world.unbound.problem or "")


def test_conditions_that_are_lost_together_count_once_and_new_pods_are_told_of_meanwhile() -> None:
    world = world_of()
    turn(world)
    for _ in range(2 * WRITES_BACK):
        for pod in world.placeholders().values():
            pod["status"] = {"phase": "Pending"}
            world.api._bump(pod)
        world.clock.now += REPEAT_SECONDS
        world.observe()
        world.unbound.write_due()
        assert len(told(world)) in (0, len(world.placeholders()))
    assert told(world) == []
    name, item = next(iter(world.api.items("replicasets").items()))
    gone = next(path for path, found in world.api.objects.items() if f"{NAMESPACE}/pods/" in path)
    del world.api.objects[gone]
    world._new_placeholder(name, item)
    world.observe()
    world.unbound.write_due()
    assert len(told(world)) == 1


def test_a_refusal_is_a_problem_with_its_reason_and_ends_with_it() -> None:
    world = world_of()
    world.api.refuse = lambda verb, path: (
        ApiError(403, "Forbidden", "cannot patch pods/status")
        if path.endswith("/status") and "/pods/" in path
        else None
    )
    turn(world)
    assert world.unbound.problem == "cannot patch pods/status"
    assert not told(world)
    world.api.refuse = lambda _verb, _path: None
    world.clock.now += REPEAT_SECONDS
    turn(world)
    assert world.unbound.problem is None
    assert told(world)


def test_a_pod_whose_condition_is_refused_keeps_no_other_from_being_told_of() -> None:
    world = world_of()
    world.reconcile()
    bad = min(world.placeholders())
    world.api.refuse = lambda _verb, path: (
        ApiError(422, "Invalid", "this pod is not as it must be") if path.endswith(f"/{bad}/status") else None
    )
    for _ in range(3):
        world.observe()
        world.unbound.write_due()
        world.clock.now += REPEAT_SECONDS
    assert {pod["metadata"]["name"] for pod in told(world)} == set(world.placeholders()) - {bad}
    assert world.unbound.problem == "this pod is not as it must be"


def test_a_thread_whose_every_turn_fails_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbound, "LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(unbound, "REPEAT_SECONDS", 0.01)
    world = world_of()
    monkeypatch.setattr(world.unbound, "write_due", lambda: 1 / 0)
    world.unbound.start()
    world.view.on_untold()
    deadline = time.monotonic() + 10.0
    while (problem := world.unbound.unhealthy()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    world.unbound.stop()
    assert "has failed at each turn" in problem
    assert "ZeroDivisionError" in problem


def test_nothing_is_reserved_before_autoscalers_were_told_of_it() -> None:
    world = world_of()
    known: list[str] = []

    def refuse_all_but_one(_: str, path: str) -> ApiError | None:
        if not (path.endswith("/status") and "/pods/" in path) or path in known[:1]:
            return None
        known.append(path)
        return ApiError(404, "NotFound", "is slow to show") if len(known) > 1 else None

    world.api.refuse = refuse_all_but_one
    turn(world, 3)
    satisfied, status = world.condition("web", "SlackSatisfied"), world.status("web")
    count = len(world.placeholders())
    assert len(told(world)) == 1 < count
    assert (satisfied["status"], satisfied["reason"]) == ("False", "Refilling")
    assert f"1 of {count} placeholders fit on nodes" in satisfied["message"]
    assert f"{count - 1} more fit, and no autoscaler was told of them yet" in satisfied["message"]
    assert status["pending"] == count - 1
    assert sum(shape["bound"] for shape in status["shapes"]) == 1
    assert status["reserved"] != status["desired"]
    reserved = world.metrics.registry.get_sample_value("slack_reserved_cpu_cores", {"policy": "web"})
    assert reserved == sum(_cpu(pod) for pod in told(world))
    world.api.refuse = lambda _verb, _path: None
    turn(world)
    assert world.condition("web", "SlackSatisfied")["reason"] == "Reserved"
    assert world.status("web")["pending"] == 0


def _cpu(pod: Json) -> float:
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def test_a_standby_tells_nobody() -> None:
    world = world_of()
    turn(world)
    world.leading = False
    for pod in world.placeholders().values():
        pod["status"] = {"phase": "Pending"}
        world.api._bump(pod)
    world.observe()
    world.unbound.write_due()
    assert not told(world)


def test_a_change_of_form_is_gradual_and_never_below_what_is_reserved() -> None:
    world = world_of(hold="Bound")
    turn(world)
    full = sum(world.replicas().values())
    world.apply_policy(policy("web", generation=2, hold="Unbound", **SLACK))
    seen = []
    for _ in range(20):
        turn(world, 1)
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in world.placeholders().values())
        seen.append((bound, len(told(world))))
    assert all(bound + count <= full for bound, count in seen)  # autoscalers never see more than the plan
    assert min(bound + count for bound, count in seen) >= full - 2  # a step
    assert {bound for bound, _ in seen} > {0, full}
    assert seen[-1] == (0, full)
    assert len(world.placeholders()) == full
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    world.apply_policy(policy("web", generation=3, hold="Bound", **SLACK))
    turn(world, 20)
    assert all(pod["spec"].get("nodeName") for pod in world.placeholders().values())
    assert len(world.placeholders()) == full


def test_a_change_of_form_stops_after_one_step_while_nobody_can_be_told() -> None:
    world = world_of(hold="Bound")
    turn(world)
    full = sum(world.replicas().values())
    world.apply_policy(policy("web", generation=2, hold="Unbound", **SLACK))
    world.api.refuse = lambda _verb, path: (
        ApiError(403, "Forbidden", "cannot patch pods/status")
        if path.endswith("/status") and "/pods/" in path
        else None
    )
    turn(world, 20)
    pods = world.placeholders().values()
    assert sum(bool(pod["spec"].get("nodeName")) for pod in pods) >= full - -(-full // 4) - 1
    assert not told(world)
    world.api.refuse = lambda _verb, _path: None
    world.clock.now += REPEAT_SECONDS
    turn(world, 20)
    assert len(told(world)) == len(world.placeholders()) == full


def test_auto_is_unbound_where_an_autoscaler_is_recognised() -> None:
    world = world_of(hold="Auto")
    turn(world)
    assert all(pod["spec"].get("nodeName") for pod in world.placeholders().values())
    world.autoscaler = Autoscaler("Karpenter", "NodePool general")
    turn(world, 20)
    assert not any(pod["spec"].get("nodeName") for pod in world.placeholders().values())


def test_a_turn_is_bounded() -> None:
    world = world_of(extraCapacity={"replicas": 3 * AT_ONCE})
    world.api.put("/api/v1/nodes/n3", node("n3", cpu="512", memory="2048Gi"))
    for _ in range(12):
        world.reconcile()
    world.observe()
    counts = []
    for _ in range(5):
        world.unbound.write_due()
        world.observe()
        counts.append(len(told(world)))
    assert counts[0] == AT_ONCE
    assert counts[-1] == len(world.placeholders()) >= 2 * AT_ONCE


def test_an_operator_that_may_not_bind_refuses_who_asks_for_it_and_holds_the_others() -> None:
    world = World(nodes=3, pods=9)
    world.bound_allowed = False
    world.restart()
    world.apply_policy(policy("web", hold="Bound", **SLACK))
    turn(world)
    ready = world.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "BoundNotAllowed")
    assert "operator.bound.enabled" in ready["message"]
    assert not world.placeholders()
    world.apply_policy(policy("web", generation=2, hold="Auto", **SLACK))
    turn(world)
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    assert not any(pod["spec"].get("nodeName") for pod in world.placeholders().values())
    hold = world.status("web")["hold"]
    assert (hold["form"], hold["reason"]) == ("Unbound", "NoAutoscaler")  # said, and no alarm
    assert hold["message"].startswith("--no-bound: this operator keeps unbound placeholders only; neither")
    assert world.condition("web", "Ready")["status"] == "True"


def test_bound_placeholders_that_a_refused_policy_has_already_are_called_bound_and_left() -> None:
    world = world_of(hold="Bound")
    turn(world)
    before = set(world.placeholders())
    world.bound_allowed = False
    world.restart()
    turn(world)
    assert set(world.placeholders()) == before
    assert world.condition("web", "Ready")["reason"] == "BoundNotAllowed"
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    hold = world.status("web")["hold"]
    assert (hold["form"], hold["reason"]) == ("Bound", "BoundNotAllowed")
    world.apply_policy(policy("web", generation=2, hold="Auto", **SLACK))
    turn(world, 20)
    assert not any(pod["spec"].get("nodeName") for pod in world.placeholders().values())
    assert world.status("web")["hold"]["form"] == "Unbound"


def test_nobody_is_rescued_and_no_quota_is_read_where_nothing_is_bound() -> None:
    world = world_of()
    looked: list[str] = []
    world.api.refuse_reading = lambda path: looked.append(path)
    turn(world)
    world.loop.rescue()
    assert not [path for path in looked if "resourcequotas" in path]


def test_what_low_priority_pods_take_is_measured() -> None:
    world = world_of()
    turn(world)
    low = _filling("batch", "n0")
    low["spec"]["priority"] = -10
    world.api.put("/api/v1/namespaces/shop/pods/batch", low)
    turn(world, 1)
    assert world.metrics.registry.get_sample_value("slack_low_priority_cpu_cores", {"policy": "web"}) == 4.5
    world.apply_policy(policy("web", generation=2, hold="Bound", **SLACK))
    turn(world, 2)
    assert world.metrics.registry.get_sample_value("slack_low_priority_cpu_cores", {"policy": "web"}) is None


def test_a_start_in_the_capacity_that_is_held_free_is_in_slack() -> None:
    world = world_of()
    for name in ("n1", "n2"):
        world.api.put(f"/api/v1/namespaces/shop/pods/on-{name}", _filling(f"on-{name}", name))
    turn(world)
    waiting = _filling("burst", "")
    world.api.put("/api/v1/namespaces/shop/pods/burst", waiting)
    world.observe()
    waiting["spec"]["nodeName"] = "n0"
    waiting["status"] = {"phase": "Running"}
    world.api.put("/api/v1/namespaces/shop/pods/burst", waiting)
    turn(world, 1)
    sample = world.metrics.registry.get_sample_value
    assert sample("slack_instant_start_seconds_count", {"policy": "web", "in_slack": "true"}) == 1


def test_each_replica_set_is_explained_by_one_event_also_over_restarts() -> None:
    world = world_of()
    turn(world)
    told_of = [line for line in world.recorder.lines if line[1] == PENDING_ON_PURPOSE]
    assert sorted(name for name, _, _ in told_of) == sorted(world.api.items("replicasets"))
    assert all("not an error" in text for _, _, text in told_of)
    world.restart()
    world.apply_policy(policy("web", generation=2, hold="Unbound", **SLACK | {"extraCapacity": {"minRate": 0.8}}))
    before = len(world.placeholders())
    turn(world)
    assert len(told(world)) == len(world.placeholders()) > before
    assert not [line for line in world.recorder.lines if line[1] == PENDING_ON_PURPOSE]


def test_a_refused_condition_is_explained_by_no_event() -> None:
    world = world_of()
    world.api.refuse = lambda _verb, path: (
        ApiError(403, "Forbidden", "cannot patch pods/status") if path.endswith("/status") else None
    )
    turn(world)
    assert not [line for line in world.recorder.lines if line[1] == PENDING_ON_PURPOSE]


def test_pods_of_others_with_our_scheduler_name_and_labels_change_nothing() -> None:
    world = world_of()
    turn(world)
    known = next(iter(world.placeholders().values()))
    before = world.replicas(), world.status("web")
    writes = len(world.api.log)
    for number in range(200):
        name = f"like-ours-{number}"
        document = copy.deepcopy(known)
        document["metadata"] |= {"name": name, "namespace": "shop", "uid": name}
        document["status"] = {"phase": "Pending"}
        world.api.put(f"/api/v1/namespaces/shop/pods/{name}", document)
    turn(world)
    assert (world.replicas(), world.status("web")["desired"]) == (before[0], before[1]["desired"])
    assert not [entry for entry in world.api.log[writes:] if "/pods/" in entry[1] or "replicasets" in entry[1]]


def test_a_lost_lease_stops_in_the_middle_of_a_turn() -> None:
    world = world_of()
    world.reconcile()
    world.observe()
    assert len(world.placeholders()) > 2

    def lose(_: str, path: str) -> ApiError | None:
        if path.endswith("/status") and "/pods/" in path:
            world.leading = False
        return None

    world.api.refuse = lose
    world.unbound.write_due()
    assert len(told(world)) == 1
    world.unbound.write_due()
    assert len(told(world)) == 1
