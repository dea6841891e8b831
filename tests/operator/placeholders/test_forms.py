"""The form of placeholders under `spec.hold: Auto`: chosen by the autoscaler, kept over restarts, given up in time."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from slack.cluster import wire
from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.health.reasons import FORM_CHANGED
from slack.kube.errors import ApiError
from slack_operator.placeholders.forms import FIRST_RETRY_SECONDS
from slack_operator.placeholders.view.autoscalers import KNOWN_BY_EVENTS, Autoscaler, Recognition
from tests.operator.fakes import Json, World, policy

SLACK: dict[str, Any] = {"extraCapacity": {"minRate": 0.5}, "stabilization": {"shrinkDelay": "0s"}}


def world_of(**spec: Any) -> World:
    world = World(nodes=3, pods=9)
    world.apply_policy(policy("web", **(SLACK | spec)))
    return world


def turn(world: World, turns: int = 6, *, seconds: float = 10.0) -> None:
    for _ in range(turns):
        world.reconcile(seconds=seconds)
        world.observe()
        world.unbound.write_due()


def test_a_restart_keeps_the_form_until_the_autoscaler_is_looked_for() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = Autoscaler("Karpenter", "NodePool general")
    turn(world)
    uids = {pod["metadata"]["uid"] for pod in world.placeholders().values()}
    world.autoscaler, world.recognition_lasts = None, False
    world.restart()
    turn(world, 12)
    assert {pod["metadata"]["uid"] for pod in world.placeholders().values()} == uids
    world.recognition_lasts = True
    turn(world, 20)
    assert all(pod["spec"].get("nodeName") for pod in world.placeholders().values())


def form_events(world: World) -> list[tuple[str, str]]:
    return [(name, text) for name, reason, text in world.recorder.lines if reason == FORM_CHANGED]


def test_a_change_of_form_is_one_event_that_says_from_to_and_why() -> None:
    world = world_of(hold="Auto")
    turn(world, 12)
    assert form_events(world) == []  # the first form is no change
    world.autoscaler = Autoscaler("Karpenter", "NodePool general")
    turn(world, 12)
    why = "AutoscalerRecognised): Karpenter is there: NodePool general"
    assert form_events(world) == [("web", f"placeholders change from Bound to Unbound, a few at a time ({why}")]
    world.restart()
    turn(world, 12)
    assert form_events(world) == []
    world.apply_policy(policy("web", generation=2, **(SLACK | {"hold": "Bound"})))
    turn(world, 12)
    said = "placeholders change from Unbound to Bound, a few at a time (Configured): spec.hold says so"
    assert form_events(world) == [("web", said)]


def test_an_upgrade_from_a_version_that_knew_one_form_says_so_too() -> None:
    world = world_of(hold="Bound")
    turn(world, 12)
    document = world.api.items("slackpolicies")["web"]
    del document["status"]["hold"]
    world.api._bump(document)
    world.restart()
    world.autoscaler = Autoscaler("Cluster Autoscaler", "its status is fresh")
    world.apply_policy(policy("web", generation=2, **(SLACK | {"hold": "Auto"})))
    turn(world, 12)
    ((_, text),) = form_events(world)
    assert text.startswith("placeholders change from Bound to Unbound")


def test_nothing_is_planned_before_the_first_look_for_an_autoscaler() -> None:
    world = world_of(hold="Auto")
    found = Recognition(Autoscaler("Karpenter", "NodePool general"), lasting=True)
    looked: list[Recognition] = []
    world.forms._recognised = lambda: looked[-1] if looked else None
    turn(world)
    assert not world.placeholders()
    looked.append(found)
    turn(world)
    assert all(pod["spec"]["schedulerName"] == UNBOUND_SCHEDULER for pod in world.placeholders().values())


def forms_of(world: World) -> set[bool]:
    """Return whether the placeholders are unbound."""
    return {pod["spec"]["schedulerName"] == UNBOUND_SCHEDULER for pod in world.placeholders().values()}


def full(world: World) -> None:
    """Leave no capacity free, so that unbound placeholders fit nowhere."""
    for number in range(3):
        name = f"big-{number}"
        document = {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "nodeName": f"n{number}",
                "priority": 0,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "4800m"}}}],
            },
            "status": {"phase": "Running"},
        }
        world.api.put(f"/api/v1/namespaces/shop/pods/{name}", document)


KARPENTER = Autoscaler("Karpenter", "NodePool general")


def hold_of(world: World) -> Json:
    found: Json = world.status("web").get("hold", {})
    return found


def test_status_says_which_form_since_when_and_why() -> None:
    world = world_of(hold="Auto")
    turn(world)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "NoAutoscaler")
    assert "neither Cluster Autoscaler nor Karpenter was recognised" in hold["message"]
    assert world.condition("web", "Ready")["status"] == "True"
    since = hold["since"]
    world.autoscaler = KARPENTER
    turn(world, 20)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Unbound", "AutoscalerRecognised")
    assert hold["message"] == "Karpenter is there: NodePool general"
    assert hold["since"] > since
    shown = world.metrics.registry.get_sample_value
    labels = {"policy": "web", "form": "Unbound", "reason": "AutoscalerRecognised"}
    assert shown("slack_policy_hold", labels) == 1
    assert shown("slack_policy_hold", {"policy": "web", "form": "Bound", "reason": "NoAutoscaler"}) is None
    before = hold["since"]
    world.restart()
    turn(world)
    assert hold_of(world)["since"] == before


def test_without_an_answer_placeholders_are_bound_and_unbound_is_tried_again_later_and_later() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    turn(world)
    full(world)
    turn(world, 36)  # three node starts of two minutes
    assert hold_of(world)["form"] == "Unbound"
    turn(world, 3)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "NoAnswer")
    assert "--allowed-scheduler-names lacks resource-slack.io/unbound" in hold["message"]
    assert "--expendable-pods-priority-cutoff" in hold["message"]
    assert "Unbound is tried again at" in hold["message"]
    first = seconds_of(hold["retryTime"]) - seconds_of(hold["since"])
    assert first == pytest.approx(FIRST_RETRY_SECONDS, abs=2.0)
    world.restart()
    turn(world)
    assert hold_of(world)["retryTime"] == hold["retryTime"]
    turn(world, 70, seconds=60.0)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "NoAnswer")
    assert seconds_of(hold["retryTime"]) - seconds_of(hold["since"]) == pytest.approx(2 * FIRST_RETRY_SECONDS, abs=2.0)


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_an_autoscaler_that_was_known_by_its_events_is_remembered() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KNOWN_BY_EVENTS
    turn(world)
    hold = hold_of(world)
    world.autoscaler = None  # no status, and all Events are older than an hour
    for _ in range(2):
        world.restart()
        turn(world, 12, seconds=100.0)
        assert hold_of(world) == hold
        assert forms_of(world) == {True}
        assert not form_events(world)
    full(world)
    turn(world, 60)
    assert (hold_of(world)["form"], hold_of(world)["reason"]) == ("Bound", "NoAnswer")


@pytest.mark.parametrize("jump", [pytest.param(7200.0, marks=pytest.mark.thorough), -7200.0])
def test_a_clock_that_is_set_makes_no_autoscaler_silent(jump: float) -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    turn(world)
    full(world)
    turn(world, 6)
    world.wall.now += jump
    turn(world, 6)
    assert hold_of(world)["form"] == "Unbound"
    assert not form_events(world)
    turn(world, 40)
    assert (hold_of(world)["form"], hold_of(world)["reason"]) == (
        ("Bound", "NoAnswer") if jump > 0 else ("Unbound", "AutoscalerRecognised")
    )


def test_an_event_of_the_autoscaler_is_an_answer_also_if_it_refuses() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    turn(world)
    full(world)
    pod = next(iter(world.placeholders()))
    said(world, pod, "NotTriggerScaleUp", "2 max node group size reached")
    turn(world, 60)
    assert hold_of(world)["form"] == "Unbound"


def said(world: World, pod: str, reason: str, message: str) -> None:
    at = datetime.fromtimestamp(world.wall.now, UTC)
    about = wire.ObjectReference(kind="Pod", name=pod)
    event = wire.Event(wire.Metadata(name="e"), reason, message, involved_object=about, last_timestamp=at)
    world.view.autoscaler_events.observe(event, world.wall.now)


def test_a_form_that_is_asked_for_stays_and_what_is_wrong_is_said() -> None:
    world = world_of(hold="Unbound")
    turn(world)
    full(world)
    turn(world, 60)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Unbound", "NoAnswer")
    ignored = world.condition("web", "AutoscalerIgnoresPlaceholders")
    assert (ignored["status"], ignored["reason"]) == ("True", "NoWord")
    assert "--allowed-scheduler-names" in ignored["message"]
    assert forms_of(world) == {True}


def test_a_scheduler_name_that_admission_writes_leads_to_bound_placeholders_without_a_loop() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    made = world._new_placeholder

    def yunikorn(name: str, item: Json) -> None:
        rewritten = copy.deepcopy(item)
        if rewritten["spec"]["template"]["spec"]["schedulerName"] == UNBOUND_SCHEDULER:
            rewritten["spec"]["template"]["spec"]["schedulerName"] = "yunikorn"
        made(name, rewritten)

    world._new_placeholder = yunikorn  # type: ignore[method-assign]  # in the controller's place
    turn(world, 12)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "SchedulerNameChanged")
    assert "has the schedulerName yunikorn" in hold["message"]
    assert "as the admission webhook of YuniKorn writes it" in hold["message"]
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    assert world.condition("web", "Ready")["status"] == "True"
    count = world.made
    deleted = [entry for entry in world.api.log if entry[0] == "delete" and "/pods/" in entry[1]]
    assert not deleted
    turn(world, 30)
    assert world.made == count
    assert {pod["spec"]["schedulerName"] for pod in world.placeholders().values()} == {"default-scheduler"}


def test_a_refused_scheduler_name_leads_to_bound_placeholders() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER

    def managed(item: Json) -> None:
        if item.get("kind") == "ReplicaSet" and item["spec"]["template"]["spec"]["schedulerName"] == UNBOUND_SCHEDULER:
            raise ApiError(403, "Forbidden", "admission denied the request: schedulerName must be default-scheduler")

    world.api.admit = managed
    turn(world)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "SchedulerNameRefused")
    assert forms_of(world) == {False}
    assert world.condition("web", "Ready")["status"] == "True"


def test_pods_that_are_refused_for_their_scheduler_name_lead_to_bound_placeholders() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    made = world._new_placeholder

    def refused(name: str, item: Json) -> None:
        if item["spec"]["template"]["spec"]["schedulerName"] != UNBOUND_SCHEDULER:
            made(name, item)
            return
        about = wire.ObjectReference(kind="ReplicaSet", name=name)
        text = f"Error creating: pods is forbidden: unknown scheduler name {UNBOUND_SCHEDULER}"
        event = wire.Event(wire.Metadata(name="e"), "FailedCreate", text, involved_object=about)
        world.view.autoscaler_events.observe(event, world.wall.now)

    world._new_placeholder = refused  # type: ignore[method-assign]  # in the controller's place
    turn(world)
    hold = hold_of(world)
    assert (hold["form"], hold["reason"]) == ("Bound", "SchedulerNameRefused")
    assert "unknown scheduler name" in hold["message"]
    assert forms_of(world) == {False}


def test_a_condition_that_cannot_be_written_is_no_readiness_and_leads_to_bound_placeholders() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    world.api.refuse = lambda _verb, path: (
        ApiError(403, "Forbidden", "cannot patch pods/status")
        if "/pods/" in path and path.endswith("/status")
        else None
    )
    turn(world)
    ready = world.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NotTold")
    assert "cannot patch pods/status" in ready["message"]
    turn(world, 40)
    assert hold_of(world)["reason"] == "NotTold"
    assert forms_of(world) == {False}
    assert world.condition("web", "Ready")["status"] == "True"


def test_one_pod_that_cannot_be_told_of_changes_no_form() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = Autoscaler("Karpenter", "NodePool general")
    turn(world)
    bad = min(world.placeholders())
    world.placeholders()[bad]["status"] = {"phase": "Pending"}
    world.api._bump(world.placeholders()[bad])
    world.api.refuse = lambda _verb, path: (
        ApiError(422, "Invalid", "this pod is not as it must be") if path.endswith(f"/{bad}/status") else None
    )
    turn(world, 40)
    assert forms_of(world) == {True}
    ignored = world.condition("web", "AutoscalerIgnoresPlaceholders")
    assert (ignored["status"], ignored["reason"]) == ("True", "NotTold")


def test_a_condition_that_somebody_removes_is_said() -> None:
    world = world_of(hold="Unbound")
    turn(world)
    name, victim = next(iter(world.placeholders().items()))
    for _ in range(12):
        victim["status"] = {"phase": "Pending"}
        world.api._bump(victim)
        turn(world, 1)
    ignored = world.condition("web", "AutoscalerIgnoresPlaceholders")
    assert (ignored["status"], ignored["reason"]) == ("True", "NotTold")
    said = f"somebody removes the condition PodScheduled each time, so it is left off for 10 min at a time: pod {name}"
    assert said in ignored["message"]
    assert world.condition("web", "Ready")["status"] == "True"


def test_another_autoscaler_is_another_try() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = KARPENTER
    turn(world)
    full(world)
    turn(world, 42)
    assert hold_of(world)["form"] == "Bound"
    world.autoscaler = Autoscaler("Cluster Autoscaler", "its status is fresh")
    turn(world, 2)
    assert hold_of(world)["form"] == "Unbound"


def test_plans_can_wait_only_while_all_placeholders_are_unbound() -> None:
    world = world_of(hold="Unbound")
    forms = world.forms
    assert not forms.all_unbound, "the first plan is not known yet"
    turn(world, 1)
    assert forms.all_unbound
    world.apply_policy(policy("other", **(SLACK | {"hold": "Bound", "nodeSelector": {"pool": "other"}})))
    turn(world, 1)
    assert not forms.all_unbound
