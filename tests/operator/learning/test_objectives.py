"""What a policy learns is kept in an object of ours, outlasts the process, and is begun anew where it is unusable."""

import base64
from typing import Any

import pytest

from slack.documents.slackhistory import MOST_STATE_CHARACTERS
from slack.kube.errors import ApiError
from slack.planner.objective.codec import decode, encode
from slack.planner.objective.history_object import learnt
from slack.planner.objective.learner import Learner
from slack_operator.learning.history_store import OTHER_VERSION_HOURS, REFUSED_AGAIN_SECONDS, TELL_SECONDS
from slack_operator.learning.objectives import QUIET_SAVE_SECONDS, SAVE_SECONDS
from slack_operator.runtime.conditions import rfc3339
from tests.operator.fakes import NAMESPACE, World, pod, policy

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
HISTORY = f"/apis/resource-slack.io/v1alpha1/namespaces/{NAMESPACE}/slackhistories/web"
OBJECTIVE = {"instantStart": 0.9}


def world() -> World:
    found = World()
    found.apply_policy(policy("web", objective=OBJECTIVE))
    return found


def experienced(hours: float = 30.0) -> str:
    learner = Learner()
    learner.tally.hours, learner.tally.started, learner.tally.late = hours, 900.0, 12.0
    return base64.b64encode(encode(learner)).decode()


def kept(state: object, uid: str = "uid-web") -> dict[str, Any]:
    owners = [{"kind": "SlackPolicy", "name": "web", "uid": uid}] if uid else []
    metadata = {"name": "web", "namespace": NAMESPACE, "ownerReferences": owners}
    return {"metadata": metadata, "learnt": {"state": state}}


def hours(w: World) -> float:
    return learner_of(w).tally.hours


def learner_of(w: World) -> Learner:
    return w.objectives._known["web"].memory.learner


def writes(w: World) -> int:
    return sum(path == HISTORY for _, path in w.api.log)


def come(w: World, name: str, *, waits: float) -> None:
    """A pod comes, waits and gets its node."""
    path = f"/api/v1/namespaces/shop/pods/{name}"
    identity = {"uid": name, "creationTimestamp": rfc3339(w.wall.now)}
    waiting, bound = pod(name), pod(name, "n0")
    waiting["metadata"] |= identity
    bound["metadata"] |= identity
    w.api.put(path, waiting)
    w.observe()
    w.clock.now += waits
    w.api.put(path, bound)
    w.observe()


@IN_BOTH_FORMS
def test_before_the_first_pod_comes_the_floor_is_kept_and_the_status_says_what_is_lacking() -> None:
    w = world()
    w.settle(8)
    status = w.status("web")
    assert status["summary"]["rate"] == "for 90%"
    assert "is enough for the largest burst so far, until enough is known" in status["objective"]["why"]
    assert not w.placeholders()


@IN_BOTH_FORMS
def test_late_pods_are_learnt_from_and_told() -> None:
    w = world()
    w.settle(2)
    come(w, "quick", waits=0.5)
    w.reconcile()
    come(w, "slow", waits=30.0)
    w.settle(2)
    learner = learner_of(w)
    assert (learner.tally.started, learner.tally.late) == (2, 1)
    assert learner.mix.pods.keys() == {(1000, 1 << 30)}
    w.settle(8)
    assert (w.status("web")["objective"]["started"], w.status("web")["objective"]["late"]) == (2, 1)


def test_it_is_written_rarely_and_goes_with_its_policy() -> None:
    w = world()
    w.settle(2)
    w.objectives.save()
    assert writes(w) == 0
    come(w, "quick", waits=0.5)
    w.settle(2)
    w.clock.now += SAVE_SECONDS
    w.objectives.save()
    w.objectives.save()
    assert writes(w) == 1
    (owner,) = w.api.objects[HISTORY]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("SlackPolicy", "uid-web")
    w.clock.now += SAVE_SECONDS
    w.objectives.save()
    assert writes(w) == 1, "nothing has come since"
    w.clock.now += QUIET_SAVE_SECONDS
    w.objectives.save()
    assert writes(w) == 2, "quiet is worth knowing too"


@IN_BOTH_FORMS
def test_the_next_process_goes_on_from_what_the_last_one_wrote_at_its_end() -> None:
    w = world()
    w.settle(5)
    before = hours(w)
    assert before > 0
    w.objectives.close()
    w.restart()
    w.reconcile()
    assert hours(w) == pytest.approx(before, rel=0.01)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_somebody_deletes_is_begun_anew(restarts: bool) -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced(), uid=""))
    w.settle(2)
    assert hours(w) > 30
    del w.api.objects[HISTORY]
    if restarts:
        w.objectives.close()
        w.restart()
    else:
        w.clock.now += QUIET_SAVE_SECONDS
        w.objectives.save()
    w.settle(2)
    assert hours(w) < 1
    w.objectives.close()
    assert HISTORY in w.api.objects


def test_a_standby_neither_reads_nor_writes() -> None:
    w = world()
    w.leading = False
    w.settle(3)
    w.objectives.close()
    assert w.api.log == []


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (experienced()[:-200], "is no base64|is cut off|cannot be read"),
        ("A" * (MOST_STATE_CHARACTERS + 4), "more than"),
        (base64.b64encode(b"SOMEBODY" + b"x" * 50).decode(), "not what was learnt"),
        ("by hand", "is no base64"),
        (None, "is absent"),
        (7, "is absent"),
    ],
)
def test_what_cannot_be_used_is_begun_anew_with_a_condition_and_an_event(state: object, said: str) -> None:
    w = world()
    w.api.put(HISTORY, kept(state))
    w.settle(3)
    condition = w.condition("web", "HistoryLost")
    assert (condition["status"], condition["reason"]) == ("True", "HistoryUnusable")
    assert any(word in condition["message"] for word in said.split("|")), condition["message"]
    assert [line[1] for line in w.recorder.lines].count("HistoryUnusable") == 1
    assert w.condition("web", "Ready")["status"] == "True"
    w.clock.now += TELL_SECONDS
    w.settle(2)
    assert w.condition("web", "HistoryLost")["status"] == "False"
    w.objectives.close()
    assert decode(base64.b64decode(w.api.objects[HISTORY]["learnt"]["state"])).tally.hours == pytest.approx(
        hours(w), abs=0.1
    )


def test_what_a_recording_has_taught_is_taken_from_whoever_wrote_it() -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced(), uid=""))
    w.settle(2)
    assert hours(w) > 30
    assert w.condition("web", "HistoryLost") == {}
    assert w.status("web")["summary"]["rate"] == "for 90%"


def test_what_an_earlier_policy_of_the_name_has_learnt_is_none_of_this_ones() -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced(), uid="uid-of-an-earlier-one"))
    w.settle(2)
    assert hours(w) < 1
    assert w.condition("web", "HistoryLost") == {}


def test_while_what_is_kept_cannot_be_read_the_rate_holds_and_nothing_is_overwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced()))
    histories = w.objectives.keeper.histories
    find = histories.find

    def gone(policy: str, uid: str, *, beside: str | None = None) -> Any:
        raise ApiError(503, "ServiceUnavailable", "gone for now")

    monkeypatch.setattr(histories, "find", gone)
    w.settle(3)
    w.objectives.close()
    assert (w.status("web")["summary"]["rate"], writes(w)) == ("10%", 0)
    monkeypatch.setattr(histories, "find", find)
    w.settle(2)
    assert hours(w) > 30


def forbidden(path: str) -> ApiError | None:
    return ApiError(403, "Forbidden", "the operator may not") if "slackhistories" in path else None


@pytest.mark.parametrize(
    "refusal",
    [
        ApiError(403, "Forbidden", "the operator may not"),
        ApiError(404, "Not Found", "404 page not found"),  # the kind is gone, and not the object
    ],
    ids=["forbidden", "no such kind"],
)
def test_what_may_not_be_read_is_not_written_over_and_joins_what_was_learnt_meanwhile(refusal: ApiError) -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced()))
    w.api.refuse_reading = lambda path: refusal if "slackhistories" in path else None
    w.settle(3)
    condition = w.condition("web", "HistoryLost")
    assert (condition["status"], condition["reason"]) == ("True", "HistoryNotKept")
    assert refusal.message in condition["message"]
    assert [line[1] for line in w.recorder.lines].count("HistoryNotKept") == 1
    assert w.condition("web", "Ready")["status"] == "True"
    come(w, "quick", waits=0.5)
    w.clock.now += QUIET_SAVE_SECONDS
    w.settle(2)
    w.objectives.close()
    meanwhile = hours(w)
    assert writes(w) == 0
    assert meanwhile > 0
    assert learner_of(w).tally.started == 1
    w.api.refuse_reading = lambda _path: None
    w.clock.now += REFUSED_AGAIN_SECONDS
    w.settle(2)
    assert hours(w) >= 30 + meanwhile
    assert learner_of(w).tally.started == 901
    assert w.condition("web", "HistoryLost")["status"] == "False"
    w.objectives.close()
    assert decode(base64.b64decode(w.api.objects[HISTORY]["learnt"]["state"])).tally.started == 901


def test_rights_that_go_while_it_runs_cost_nothing_that_was_learnt() -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced()))
    w.settle(2)
    w.api.refuse_reading = forbidden
    w.clock.now += QUIET_SAVE_SECONDS
    w.objectives.save()
    w.settle(2)
    assert w.condition("web", "HistoryLost")["reason"] == "HistoryNotKept"
    assert (hours(w) > 30, writes(w)) == (True, 0)
    w.api.refuse_reading = lambda _path: None
    w.clock.now += QUIET_SAVE_SECONDS
    w.objectives.save()
    w.settle(2)
    assert w.condition("web", "HistoryLost")["status"] == "False"
    assert (hours(w) > 30, writes(w)) == (True, 1)


def test_a_refused_write_is_told_until_it_works_again() -> None:
    w = world()
    w.settle(2)
    w.api.refuse = lambda _verb, path: forbidden(path)
    w.objectives.close()
    w.settle(2)
    condition = w.condition("web", "HistoryLost")
    assert condition["reason"] == "HistoryNotKept"
    assert "cannot be written" in condition["message"]
    w.api.refuse = lambda _verb, _path: None
    w.objectives.close()
    w.settle(2)
    assert w.condition("web", "HistoryLost")["status"] == "False"


@pytest.mark.parametrize("state", ["by hand", experienced(hours=0.001)], ids=["garbled", "nearly empty"])
def test_what_others_write_while_it_runs_does_not_take_away_what_is_in_memory(state: str) -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced()))
    w.settle(2)
    w.api.put(HISTORY, kept(state))
    w.objectives.close()
    assert hours(w) > 30
    assert decode(base64.b64decode(w.api.objects[HISTORY]["learnt"]["state"])).tally.hours > 30
    w.settle(2)
    assert w.condition("web", "HistoryLost").get("status", "False") == ("True" if state == "by hand" else "False")


def test_a_richer_past_that_comes_while_it_runs_is_taken_over_and_not_written_over() -> None:
    w = world()
    w.settle(3)
    w.api.put(HISTORY, kept(experienced(), uid=""))
    w.objectives.close()
    assert (hours(w), writes(w)) == (30.0, 0)


def test_an_object_of_somebody_elses_is_told_and_becomes_the_policys() -> None:
    w = world()
    w.api.put(HISTORY, kept(experienced()))
    w.api.objects[HISTORY]["metadata"]["ownerReferences"] = [{"kind": "ConfigMap", "name": "x", "uid": "uid-x"}]
    w.settle(2)
    condition = w.condition("web", "HistoryLost")
    assert condition["reason"] == "HistoryUnusable"
    assert "belongs to ConfigMap x" in condition["message"]
    w.objectives.close()
    assert w.api.objects[HISTORY]["metadata"]["ownerReferences"][0]["uid"] == "uid-web"


def test_what_another_version_has_kept_stays_for_a_day_of_learning() -> None:
    w = world()
    state = base64.b64encode(b"RSOBJ9" + b"x" * 50).decode()
    w.api.put(HISTORY, kept(state))
    w.settle(3)
    w.objectives.close()
    assert w.condition("web", "HistoryLost")["reason"] == "HistoryUnusable"
    assert writes(w) == 0
    learner_of(w).tally.hours = OTHER_VERSION_HOURS
    w.objectives.close()
    assert writes(w) == 1


def test_an_objective_that_is_taken_away_and_given_back_goes_on_with_what_was_in_memory() -> None:
    w = world()
    w.settle(3)
    before = hours(w)
    w.api.refuse_reading = forbidden
    w.apply_policy(policy("web", generation=2))
    w.settle(2)
    assert "web" not in w.objectives._known
    w.apply_policy(policy("web", generation=3, objective=OBJECTIVE))
    w.settle(2)
    assert hours(w) >= before


def test_nodes_that_change_hands_bring_no_arrivals() -> None:
    w = world()
    for name in ("n0", "n1", "n2"):
        w.api.objects[f"/api/v1/nodes/{name}"]["metadata"]["labels"]["pool"] = "web"
    w.apply_policy(policy("other", nodeSelector={"pool": "web"}))
    w.settle(3)
    learner = learner_of(w)
    del w.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/other"]
    w.settle(3)
    assert learner.needs.pods.sum() == 0, "all pods of the nodes are there at once"


def test_what_tune_writes_is_taken_over() -> None:
    taught = Learner()
    taught.tally.hours, taught.tally.started = 70.0, 640.0
    w = world()
    w.api.put(HISTORY, {"metadata": {"name": "web"}, "learnt": learnt(taught, "2026-01-05T00:00:00Z")})
    w.settle(1)
    assert 70.0 <= hours(w) < 70.1
