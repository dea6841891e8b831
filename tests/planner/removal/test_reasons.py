"""Why placeholder pods are deleted one by one: each for the first reason that holds, and once."""

from dataclasses import replace

from slack.planner.model.shape import HIGHEST_PRIORITY
from slack.planner.objects.actions import DeletePod
from slack.planner.removal.reasons import FINDERS, RemovalReason, ReplicaSetFacts, find_removals
from tests.planner.objects.test_decide import (
    SHAPE,
    otherwise,
    placeholder,
    policy_plan,
    present,
    shape_plan,
    there,
    writes,
)


def test_reasons_are_looked_for_in_the_order_in_which_they_are_declared() -> None:
    reasons = [reason for reason, _ in FINDERS]
    assert reasons == list(RemovalReason)[: len(reasons)]


def test_the_first_reason_that_holds_counts() -> None:
    pods = [
        otherwise("all", priority=HIGHEST_PRIORITY + 1, priority_class_name="other", node_name=None),
        otherwise("pushed", priority_class_name="other"),
        otherwise("other", priority_class_name="other"),
        placeholder("waits", node=None),
        placeholder("stays"),
    ]
    facts = ReplicaSetFacts(SHAPE, {"all", "pushed"}, replaces_changed=True, target=0, is_lowered=True)
    assert find_removals(pods, facts) == {
        "all": RemovalReason.UNDISPLACEABLE,
        "pushed": RemovalReason.PUSHED_OUT,
        "other": RemovalReason.MADE_OTHERWISE,
        "waits": RemovalReason.BEYOND_THE_PLAN,
    }
    undecided = replace(facts, replaces_changed=False, target=None)
    assert list(find_removals(pods, undecided)) == ["all", "pushed"]
    earlier = {"other": RemovalReason.MADE_OTHERWISE}
    assert list(find_removals(pods, undecided, earlier)) == ["other", "all", "pushed"]


def test_a_pod_with_two_reasons_is_deleted_once() -> None:
    pods = [
        otherwise("a", priority_class_name="other"),
        otherwise("b", priority=HIGHEST_PRIORITY + 1),
        otherwise("c", priority_class_name="other"),
    ]
    found = writes(policy_plan(shape_plan(3), pushed_out=("a", "b")), present(there(3), *pods))
    assert [(action.name, action.reason) for action in found if isinstance(action, DeletePod)] == [
        ("a", RemovalReason.PUSHED_OUT),
        ("b", RemovalReason.UNDISPLACEABLE),
        ("c", RemovalReason.MADE_OTHERWISE),
    ]
