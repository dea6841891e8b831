"""What becomes of objects of ours that others write: through the loop, against an API server in memory."""

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slack.cluster.hold import Hold
from slack.cluster.labels import FIELD_MANAGER, LABEL_POLICY, LABEL_SHAPE, SUSPENDED_PRIORITY_CLASS
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.planner.objects.actions import Apply, DeleteSet, SetCost
from slack.planner.objects.decide import stamped
from slack_operator.placeholders.act.creation_block import CreationBlock
from tests.examples import by_profile
from tests.operator.accidents import AccidentWorld
from tests.operator.fakes import NAMESPACE, Clock, FakeApi, World, policy
from tests.planner.objects.test_decide import manifest, shape_plan

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
Json = dict[str, Any]
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"

THEIRS = {"apiVersion": "theirs.io/v1", "kind": "Theirs", "name": "x", "uid": "x", "controller": True}


def world(**spec: Any) -> World:
    made = World()
    made.apply_policy(policy("web", **({"extraCapacity": {"minRate": 0.4}} | spec)))
    made.settle()
    return made


def its_name(w: World) -> str:
    (name,) = w.api.items("replicasets")
    return name


def written(w: World, change: Callable[[Json], None], manager: str = "kubectl-edit") -> None:
    w.api.written_by(manager, f"{SETS}/{its_name(w)}", change)


def scaled(replicas: int) -> Callable[[Json], None]:
    return lambda item: item["spec"].update(replicas=replicas)


def container(item: Json) -> Json:
    found: Json = item["spec"]["template"]["spec"]["containers"][0]
    return found


def small(item: Json) -> None:
    container(item)["resources"]["requests"]["cpu"] = "10m"


def told(w: World) -> list[str]:
    return [message for _, reason, message in w.recorder.lines if reason == "OwnershipTakenBack"]


def count(w: World, part: str, name: str = "web") -> float | None:
    return w.metrics.registry.get_sample_value("slack_ownership_taken_back_total", {"policy": name, "part": part})


@pytest.mark.parametrize("replicas", [500, 0])
def test_a_count_that_somebody_writes_is_taken_back_at_once_counted_and_told_once(replicas: int, hold: Hold) -> None:
    """Unbound placeholders beyond the plan ask for no node: they need no quota that stops them."""
    w = world()
    written(w, scaled(replicas), "kubectl")
    before = len(w.api.log)
    w.reconcile(seconds=0.2)
    assert list(w.replicas().values()) == [4]
    brake = [("create", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas")] if replicas and hold is Hold.BOUND else []
    assert w.api.log[before:][: len(brake) + 1] == [*brake, ("apply", f"{SETS}/{its_name(w)}")]
    assert count(w, "replicas") == 1.0
    assert told(w) == [
        f"spec.replicas of ReplicaSet {its_name(w)} was written by kubectl; the operator has taken it back"
    ]
    w.settle()
    assert len(w.placeholders()) == 4
    written(w, scaled(replicas), "kubectl")
    w.settle()
    assert (count(w, "replicas"), len(told(w))) == (2.0, 1)


def test_a_writer_who_puts_it_back_five_times_is_left_alone_with_a_condition_and_tried_again_later() -> None:
    w = world()
    for _ in range(8):
        written(w, scaled(9), "kube-controller-manager")
        w.reconcile(seconds=15.0)
        w.clock.now += 1
    assert list(w.replicas().values()) == [9]
    assert count(w, "replicas") == 5.0
    w.settle(1)
    found = w.condition("web", "OwnershipContested")
    assert (found["status"], found["reason"]) == ("True", "WrittenBack")
    assert f"spec.replicas of {its_name(w)}: kube-controller-manager writes it back" in found["message"]
    writes = [write for write in w.api.log if "replicasets" in write[1]]
    w.settle(10)
    assert [write for write in w.api.log if "replicasets" in write[1]] == writes, "it stands"
    w.settle(2, seconds=600.0)
    assert list(w.replicas().values()) == [4], "the HPA has gone meanwhile"
    w.settle(2)
    assert w.condition("web", "OwnershipContested")["status"] == "False"


def test_a_tool_that_applies_an_old_copy_of_a_replica_set_for_ever_is_given_up_like_any_other_writer() -> None:
    w = world()
    copied = copy.deepcopy(w.api.objects[f"{SETS}/{its_name(w)}"])
    copied["metadata"]["annotations"]["resource-slack.io/applied"] = "0123456789abcdef"
    container(copied)["image"] = "pause:old"

    def apply(item: Json) -> None:
        item["spec"]["template"] = copy.deepcopy(copied["spec"]["template"])
        item["metadata"]["annotations"] = dict(copied["metadata"]["annotations"])

    before = len(w.api.log)
    for _ in range(40):
        written(w, apply, "argocd-controller")
        w.reconcile(seconds=10.0)
    writes = [path for _, path in w.api.log[before:] if path.startswith(SETS)]
    assert len(writes) < 12
    assert any("written by argocd-controller" in text for text in told(w))
    assert "argocd-controller" in w.condition("web", "OwnershipContested")["message"]


def test_other_parts_are_held_while_one_is_left_to_a_writer() -> None:
    w = world()
    for _ in range(8):
        written(w, scaled(9), "hpa")
        w.reconcile(seconds=15.0)
    w.settle(1)
    written(w, lambda item: item["spec"]["template"]["spec"].update(priorityClassName="high"))
    w.settle(1)
    (found,) = w.api.items("replicasets").values()
    assert found["spec"]["template"]["spec"]["priorityClassName"] == "resource-slack"
    assert found["spec"]["replicas"] == 9


def test_a_template_edited_by_hand_is_put_right_and_the_placeholders_made_from_it_are_replaced(hold: Hold) -> None:
    w = world()
    (right,) = (container(item)["resources"]["requests"]["cpu"] for item in w.api.items("replicasets").values())
    written(w, small)
    gone = sorted(w.placeholders())[:2]
    for name in gone:
        del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
    w.controllers()
    w.settle()
    (found,) = w.api.items("replicasets").values()
    assert container(found)["resources"]["requests"]["cpu"] == right
    requests = [container({"spec": {"template": pod}})["resources"]["requests"] for pod in w.placeholders().values()]
    assert [request["cpu"] for request in requests] == [right] * 4
    assert (count(w, "template"), count(w, "pods")) == (1.0, 1.0)
    displaced = 2 if hold is Hold.BOUND else 0
    assert w.status("web")["displaced"]["total"] == displaced, "only those that left before"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda item: item["metadata"]["labels"].clear(), id="all labels"),
        pytest.param(lambda item: item["metadata"]["labels"].update({"resource-slack.io/policy": "x"}), id="policy"),
        pytest.param(lambda item: item["metadata"]["annotations"].clear(), id="all annotations"),
        pytest.param(lambda item: item["metadata"].update(ownerReferences=[]), id="owner"),
    ],
)
def test_what_tells_that_a_replica_set_is_ours_is_put_back_and_no_placeholder_is_lost(
    change: Callable[[Json], None],
) -> None:
    w = world()
    before, (ours,) = set(w.placeholders()), w.api.items("replicasets").values()
    kept = {key: dict(ours["metadata"][key]) for key in ("labels", "annotations")}
    owners = list(ours["metadata"]["ownerReferences"])
    written(w, change)
    w.settle()
    (found,) = w.api.items("replicasets").values()
    assert {key: found["metadata"][key] for key in kept} == kept
    assert found["metadata"]["ownerReferences"] == owners
    assert set(w.placeholders()) == before
    log = list(w.api.log)
    w.settle()
    assert w.api.log == log


def test_a_replica_set_that_another_controller_adopts_is_taken_back() -> None:
    w = world()
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs", "uid": "d", "controller": True}
    written(w, lambda item: item["metadata"].update(ownerReferences=[theirs]))
    before = set(w.placeholders())
    w.settle()
    (found,) = w.api.items("replicasets").values()
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == ["uid-web"]
    assert set(w.placeholders()) == before
    assert any(text.endswith("was written by Deployment/theirs; the operator has taken it back") for text in told(w))


@IN_BOTH_FORMS
def test_a_deleted_replica_set_is_made_again_at_once_and_takes_its_orphans_in() -> None:
    w = world()
    name, before = its_name(w), set(w.placeholders())
    del w.api.objects[f"{SETS}/{name}"]
    for item in w.placeholders().values():
        item["metadata"]["ownerReferences"] = []  # --cascade=orphan
    w.settle()
    assert list(w.replicas()) == [name]
    assert set(w.placeholders()) == before
    assert told(w) == [f"ReplicaSet {name} was deleted; the operator has made it again"]


def test_one_that_is_deleted_again_and_again_is_given_up_for_a_while() -> None:
    w = world()
    name = its_name(w)
    for _ in range(8):
        w.api.objects.pop(f"{SETS}/{name}", None)
        w.reconcile(seconds=10.0)
    assert w.replicas() == {}
    assert w.condition("web", "OwnershipContested")["status"] == "True"
    w.settle(2, seconds=600.0)
    assert list(w.replicas()) == [name]


def test_a_deletion_that_a_finalizer_holds_up_is_told() -> None:
    w = world()

    def delete(item: Json) -> None:
        item["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["theirs.io/keep"]}

    written(w, delete)
    w.settle()
    found = w.condition("web", "OwnershipContested")
    assert (found["status"], found["reason"]) == ("True", "DeletionHeldUp")
    assert "theirs.io/keep" in found["message"]


def test_what_a_webhook_makes_of_our_manifest_is_written_once_and_left_alone() -> None:
    w = World()
    w.api.admit = lambda item: container(item).update(image="mirror.example/pause")
    w.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    w.settle()
    log = list(w.api.log)
    w.settle(20)
    assert w.api.log == log
    assert w.condition("web", "Ready")["status"] == "True"
    w.restart()
    w.settle(20)
    after = [what for _, what in w.api.log[len(log) :] if not what.endswith("/web/status")]
    assert len(after) == 1, "a new process has to find out again"


def test_a_webhook_that_bounds_the_count_is_told_and_tried_once_a_minute() -> None:
    w = World()
    w.api.admit = lambda item: item["spec"].update(replicas=min(item["spec"]["replicas"], 2))
    w.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    w.settle()
    ready = w.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert f"ReplicaSet {its_name(w)}: spec.replicas is 2 after each write of 4" in ready["message"]
    before = len(w.api.log)
    w.settle(30)
    assert len([1 for _, path in w.api.log[before:] if path.startswith(SETS)]) == 5
    w.api.admit = lambda _item: None
    w.settle(8)
    assert (list(w.replicas().values()), w.condition("web", "Ready")["status"]) == ([4], "True")


def test_a_webhook_that_takes_the_room_away_is_told_and_tried_once_a_minute() -> None:
    w = world()
    w.api.admit = small
    written(w, small)
    before = len(w.api.log)
    w.settle(3)
    ready = w.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert "admission webhook" in ready["message"]
    assert len([1 for _, path in w.api.log[before:] if path.startswith(SETS)]) == 1
    w.settle(7)
    assert len([1 for _, path in w.api.log[before:] if path.startswith(SETS)]) == 2
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))
    w.settle(1)
    assert list(w.replicas().values()) == [8], "the count is not held up by it"


@IN_BOTH_FORMS
def test_placeholders_that_admission_gives_a_priority_above_real_pods_are_deleted_and_soon_no_longer_made() -> None:
    w = world()
    before = sorted(w.placeholders())
    w.priority = 1000
    for name in before[:2]:
        del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
    w.controllers()
    w.settle(8, seconds=1.0)
    assert sorted(w.placeholders()) == before[2:], "what was there before stays"
    assert list(w.replicas().values()) == [2]
    assert any("had a priority that no real pod displaces" in text for text in told(w))
    contested = w.condition("web", "OwnershipContested")
    assert (contested["status"], w.condition("web", "Ready")["status"]) == ("True", "False")
    assert "so none are made for 10 min" in contested["message"]
    log = len(w.api.log)
    w.settle(5)
    assert [path for _, path in w.api.log[log:] if not path.endswith("/status")] == []
    w.priority = -10
    w.settle(3, seconds=300.0)
    assert list(w.replicas().values()) == [4]


def test_a_class_of_our_name_that_comes_back_with_a_high_value_leaves_no_placeholder_above_real_pods() -> None:
    w = world()
    before = sorted(w.placeholders())
    w.api.put(CLASS, {"metadata": {"name": "resource-slack"}, "value": 7, "preemptionPolicy": "PreemptLowerPriority"})
    w.priority = 7
    w.settle(1)
    assert w.condition("web", "Ready")["reason"] == "BadPriorityClass"
    assert sorted(w.placeholders()) == before
    del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{before[0]}"]
    w.controllers()
    w.settle(3, seconds=1.0)
    assert sorted(w.placeholders()) == before[1:]
    assert list(w.replicas().values()) == [3]


@IN_BOTH_FORMS
def test_placeholders_made_from_a_changed_template_go_with_the_count_that_somebody_raised() -> None:
    w = AccidentWorld(ceiling=5000, rate=0.5, cover="Largest")
    for _ in range(6):
        w.turn(10.0)
    before = w.bound()
    w.scale(0, 2)
    touched = w.edit_template(0, 3)
    w.turn()
    assert list(w.replicas().values()) == [5], "none of those that are deleted is refilled beyond the plan"
    w.turn()
    assert len(w.alive()) == 5
    assert before - touched <= w.bound()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m["labels"].pop(LABEL_SHAPE), id="a label"),
        pytest.param(lambda m: [m["labels"].pop(LABEL_SHAPE), m["labels"].pop(LABEL_POLICY)], id="two labels"),
        pytest.param(lambda m: m.update(ownerReferences=[THEIRS]), id="another owner"),
    ],
)
def test_a_controller_whose_pods_lose_what_it_knows_them_by_does_not_make_others_for_ever(
    change: Callable[[Json], None],
) -> None:
    w = AccidentWorld(ceiling=None, rate=0.5, cover="None")
    w.changed_by_admission = change
    made = []
    for _ in range(30):
        w.turn()
        made.append(w.made)
    assert made[-1] == made[10], "none after the first seconds"
    assert not w.alive()
    assert "so none are made for" in w.condition("web", "OwnershipContested")["message"]
    assert any("had lost their labels or their owner; they are deleted" in text for text in told(w))


def test_placeholders_that_have_lost_the_label_of_placeholders_are_placeholders_all_the_same() -> None:
    w, plain = (AccidentWorld(ceiling=None, rate=1.0, cover="None") for _ in range(2))
    w.changed_by_admission = lambda metadata: metadata["labels"].pop("resource-slack.io/placeholder")
    for _ in range(30):
        w.turn()
        plain.turn()
    assert len(w.alive()) == len(plain.alive()) > 0, "they are no base of which there is to be more"
    assert w.condition("web", "SlackSatisfied")["status"] == "True"


def test_a_priority_class_that_is_deleted_comes_back() -> None:
    w = world()
    del w.api.objects[CLASS]
    w.settle(2)
    assert w.api.objects[CLASS]["value"] == -10
    assert count(w, "object", "") == 1.0
    assert told(w) == ["PriorityClass resource-slack was deleted; the operator has made it again"]


def test_a_priority_class_of_ours_that_somebody_makes_the_default_of_all_pods_is_put_right() -> None:
    w = world()
    w.api.objects[CLASS]["globalDefault"] = True
    w.settle(3)
    assert w.api.objects[CLASS]["globalDefault"] is False
    assert w.condition("web", "Ready")["status"] == "True"
    assert count(w, "globalDefault", "") == 1.0


def test_a_priority_class_of_our_name_that_is_not_ours_is_judged_and_left_alone() -> None:
    w = World()
    theirs = {"metadata": {"name": "resource-slack"}, "value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    w.api.put(CLASS, theirs)
    w.apply_policy(policy("web"))
    w.settle()
    assert w.api.objects[CLASS]["value"] == 7
    assert w.condition("web", "Ready")["reason"] == "BadPriorityClass"


QUOTA = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/resource-slack-brake"


def test_a_controller_that_makes_hundreds_is_stopped_for_seconds_and_refills_go_on_after() -> None:
    w = world()
    written(w, scaled(500), "kubectl")
    w.reconcile(seconds=0.2)
    spec = w.api.objects[QUOTA]["spec"]
    assert spec["hard"] == {"pods": "0"}
    assert spec["scopeSelector"]["matchExpressions"][0]["values"] == ["resource-slack"]
    w.settle(5, seconds=0.5)
    assert QUOTA in w.api.objects, "the controller may still have requests under way"
    w.settle(2, seconds=1.0)
    assert QUOTA not in w.api.objects
    log = list(w.api.log)
    w.settle()
    assert w.api.log == log


def test_a_brake_that_an_earlier_process_has_left_is_taken_off() -> None:
    w = world()
    written(w, scaled(500), "kubectl")
    w.reconcile(seconds=0.2)
    w.restart()
    w.settle(2)
    assert QUOTA not in w.api.objects


def test_a_brake_is_off_after_a_minute_whatever_is_there() -> None:
    api, clock = FakeApi(), Clock()
    writer = Writer(api, threading.Event())  # type: ignore[arg-type]
    brake = CreationBlock(writer, namespace=NAMESPACE, may_write=lambda: True, clock=clock)
    held = []
    for _ in range(180):
        held.append(brake.switch_block({"resource-slack"}, surplus=True))
        clock.now += 1.0
    assert held.count(True) <= 121
    assert not all(held[:62])
    assert not any(held[62:119])


def test_a_quota_of_the_brakes_name_that_a_user_has_made_is_left_alone() -> None:
    w = World()
    theirs = {"metadata": {"name": "resource-slack-brake", "namespace": NAMESPACE}, "spec": {"hard": {"pods": "100"}}}
    w.api.put(QUOTA, theirs)
    w.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    w.settle()
    written(w, scaled(500), "kubectl")
    w.settle(20, seconds=1.0)
    assert w.api.objects[QUOTA]["spec"] == {"hard": {"pods": "100"}}
    assert list(w.replicas().values()) == [4]


@pytest.mark.parametrize("status", [403, 422])
def test_a_brake_that_cannot_be_taken_off_does_not_hold_the_rest_of_a_turn_up(status: int) -> None:
    w = world()
    written(w, scaled(500), "kubectl")
    w.reconcile(seconds=0.2)
    refused = ApiError(status, "Refused", "no")
    w.api.refuse = lambda verb, path: refused if verb == "delete" and path == QUOTA else None
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))
    w.settle(4, seconds=5.0)
    assert list(w.replicas().values()) == [8]
    w.api.refuse = lambda _verb, _path: None
    w.settle(2)
    assert QUOTA not in w.api.objects


def test_a_brake_that_may_not_be_put_on_is_no_error_and_asked_for_once_a_minute() -> None:
    api, clock = FakeApi(), Clock()
    api.refuse = lambda _verb, _path: ApiError(403, "Forbidden", "no")
    writer = Writer(api, threading.Event())  # type: ignore[arg-type]
    brake = CreationBlock(writer, namespace=NAMESPACE, may_write=lambda: True, clock=clock)
    for _ in range(100):
        assert not brake.switch_block({"resource-slack"}, surplus=True)
        clock.now += 1.0
    assert len(api.log) == 2


@IN_BOTH_FORMS
def test_placeholders_whose_replica_set_was_deleted_count_once_towards_the_ceiling() -> None:
    w = world(extraCapacity={"minRate": 0.4, "ceiling": {"cpu": "4", "memory": "64Gi"}})
    before = set(w.placeholders())
    assert len(before) == 4
    del w.api.objects[f"{SETS}/{its_name(w)}"]
    for item in w.placeholders().values():
        item["metadata"]["ownerReferences"] = []
    w.settle(2)
    assert list(w.replicas().values()) == [4]
    assert set(w.placeholders()) == before


COST = "controller.kubernetes.io/pod-deletion-cost"


def costs_of_others(w: World, cost: str, turns: int = 60) -> int:
    """Let somebody give every placeholder a deletion cost in each turn; returns how many pods were written."""
    before = len(w.api.log)
    for _ in range(turns):
        for placeholder in w.placeholders().values():
            placeholder["metadata"].setdefault("annotations", {})[COST] = cost
            w.api._bump(placeholder)
        w.reconcile()
    return len([path for verb, path in w.api.log[before:] if verb == "patch" and "/pods/" in path])


@pytest.mark.parametrize("cost", ["100", "0", "-5000"])
def test_a_deletion_cost_that_is_none_of_ours_stands(cost: str) -> None:
    w = world()
    assert costs_of_others(w, cost, turns=by_profile(20, 60)) == 0
    assert w.condition("web", "OwnershipContested") == {}


def test_a_war_over_deletion_costs_like_ours_ends_and_is_named() -> None:
    w = world()
    count = costs_of_others(w, "-3")
    assert 0 < count <= 7 * len(w.placeholders())
    contested = w.condition("web", "OwnershipContested")
    assert (contested["status"], contested["reason"]) == ("True", "WrittenBack")
    assert "the deletion costs of the placeholders of slack-web-" in contested["message"]
    assert w.condition("web", "Ready")["reason"] == "WrittenBack"


def test_deletion_costs_that_the_operator_gives_again_are_not_taken_for_those_of_others() -> None:
    """A ceiling that falls, rises, falls and rises again marks placeholders to leave, and takes the marks away."""
    w = world()
    pod = min(w.placeholders())
    marked, cleared = SetCost(pod, its_name(w), -1000), SetCost(pod, its_name(w), None)
    w.actuator.taken_back()
    for action, seconds in ((marked, 0.0), (cleared, 60.0), (marked, 60.0), (cleared, 60.0)):
        w.clock.now += seconds
        w.actuator.begin_turn()
        assert w.actuator.carry_out("web", [action], {}) == ()
    assert w.actuator.taken_back() == ()


def test_a_replica_set_that_the_operator_suspended_before_it_ended_is_restored_and_nobody_is_blamed() -> None:
    w = world()
    template = w.api.objects[f"{SETS}/{its_name(w)}"]["spec"]["template"]["spec"]
    usual = template["priorityClassName"]
    written(
        w,
        lambda item: item["spec"]["template"]["spec"].update(priorityClassName=SUSPENDED_PRIORITY_CLASS),
        FIELD_MANAGER,
    )
    w.restart()
    w.settle(2)
    assert w.api.objects[f"{SETS}/{its_name(w)}"]["spec"]["template"]["spec"]["priorityClassName"] == usual
    assert told(w) == []
    written(w, lambda item: item["spec"]["template"]["spec"].update(priorityClassName=SUSPENDED_PRIORITY_CLASS))
    w.settle(2)
    assert len(told(w)) == 1, "another writer of the same is named"


def test_slack_still_shrinks_while_somebody_else_writes_deletion_costs() -> None:
    w = world(stabilization={"shrinkDelay": "20s"})
    costs_of_others(w, "-3")
    before = sum(w.replicas().values())
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.1}, stabilization={"shrinkDelay": "20s"}))
    w.settle(12)
    assert 0 < sum(w.replicas().values()) < before


def two_operators() -> tuple[World, World]:
    """Two processes in front of one API server that want other placeholders, as the same field manager."""
    one, other = world(), World()
    other.api = one.api
    other.image = "pause:another"
    other.restart()
    return one, other


def test_two_operators_that_write_as_the_same_manager_end_their_war_and_both_say_so() -> None:
    one, other = two_operators()
    before = len(one.api.log)
    for _ in range(by_profile(100, 300)):
        for each in (one, other):
            each.reconcile(seconds=1.0)
    writes = [path for verb, path in one.api.log[before:] if verb == "apply" and "/replicasets/" in path]
    assert 0 < len(writes) <= 12
    contested = one.condition("web", "OwnershipContested")
    assert contested["status"] == "True"
    assert "another operator (a second release, or one outside the cluster)" in contested["message"]
    assert one.condition("web", "Ready")["status"] == "False"
    assert told(one)
    assert told(other)


def test_an_upgrade_that_changes_the_manifest_is_no_contest() -> None:
    w = world()
    w.image = "pause:newer"
    w.restart()
    w.settle()
    (found,) = w.api.items("replicasets").values()
    assert container(found)["image"] == "pause:newer"
    assert w.condition("web", "OwnershipContested") == {}
    assert told(w) == []


def test_a_policy_that_is_deleted_and_created_again_and_again_has_its_replica_sets_each_time() -> None:
    w = world()
    for number in range(8):
        name = its_name(w)
        del w.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/web"]
        if number % 2:  # the garbage collector is the first to see it
            del w.api.objects[f"{SETS}/{name}"]
        w.settle(3)
        assert w.replicas() == {}
        again = policy("web", extraCapacity={"minRate": 0.4})
        again["metadata"]["uid"] = f"uid-{number}"
        w.apply_policy(again)
        w.settle(3)
        assert list(w.replicas().values()) == [4], number
    assert not count(w, "object")
    assert told(w) == []


def test_a_replica_set_that_we_deleted_and_the_watch_still_shows_is_not_taken_for_one_that_others_deleted() -> None:
    w = world()
    sets = dict(w.view.observe(w.wall()).present.sets)
    (own,) = sets.values()
    w.actuator.held(sets)
    w.actuator.carry_out("web", [DeleteSet(own.metadata.name, own.metadata.uid or "", "retired")], sets)
    w.actuator.held(sets)  # as before: the watch is late
    w.actuator.carry_out("", [], sets)
    w.settle(3)
    assert list(w.replicas().values()) == [4]
    assert not count(w, "object")


def test_who_deletes_a_replica_set_again_and_again_is_left_alone_and_tried_once_after_each_pause() -> None:
    w = world()

    def deletions(turns: int) -> int:
        made = 0
        for _ in range(turns):
            for name in w.replicas():
                made += 1
                del w.api.objects[f"{SETS}/{name}"]
            w.reconcile(seconds=15.0)
        return made

    assert deletions(30) == 6
    assert "somebody who deletes it" in w.condition("web", "OwnershipContested")["message"]
    assert deletions(40) <= 2, "a pause of ten minutes is over"


@pytest.mark.parametrize("times", [1, 10, 100])
def test_nothing_is_remembered_of_replica_sets_that_are_gone(times: int) -> None:
    w = world()
    present = dict(w.view.observe(w.wall()).present.sets)
    for number in range(5 * times):
        made = stamped(manifest(shape_plan(1)))
        made["metadata"]["name"] = f"slack-web-{number:08x}"
        refused = number % 5 == 0
        w.api.refuse = lambda *_, refused=refused: ApiError(403, "Forbidden", "no quota") if refused else None
        w.actuator.carry_out("web", [Apply(made, None, 1)], present)
        w.actuator.held(present)
        w.clock.now += 1.0
    w.clock.now += 601.0
    w.actuator.held({})
    kept = {field: len(value) for field, value in vars(w.actuator).items() if isinstance(value, dict | set)}
    assert set(kept.values()) == {0}, kept
