"""What the rescuer writes, and what it does when that fails."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from slack.kube.apply import Writer
from slack.kube.breaker import LONGEST_PAUSE_SECONDS
from slack.kube.errors import ApiError, Unreachable
from slack.kube.retry import retrying
from slack_operator.placeholders.act.rescue import TURN_SECONDS, Rescuer
from slack_operator.placeholders.report.metrics import Metrics
from slack_operator.placeholders.view.hangs import Hang
from tests.operator.fakes import Clock, FakeApi, Recorder, pod


class World:
    """An API server with hanging pods, and the rescuer in front of it."""

    def __init__(self, names: str = "abc", *, enabled: bool = True, version: str = "v1.36.3") -> None:
        self.api, self.recorder, self.metrics, self.clock = FakeApi(), Recorder(), Metrics(), Clock(0.0)
        self.version: Callable[[], str] = lambda: version
        self.leading = True
        for name in names:
            self.api.put(path(name), pod(name, nominatedNodeName="n1"))
        self.hanging = [self.hang(name) for name in names]
        once = retrying(threading.Event(), deadline_seconds=0.0)
        writer = Writer(self.api, threading.Event(), retry=once, clock=self.clock)  # type: ignore[arg-type]
        self.rescuer = Rescuer(
            writer,
            self.recorder,  # type: ignore[arg-type]
            self.metrics,
            enabled=enabled,
            may_write=lambda: self.leading,
            server_version=lambda: self.version(),
            clock=self.clock,
        )

    def hang(self, name: str, since: float = 0.0) -> Hang:
        metadata = self.api.objects[path(name)]["metadata"]
        return Hang("shop", name, metadata["uid"], metadata["resourceVersion"], "n1", since)

    def turn(self, seconds: float = 1.0) -> bool:
        """One second later; those whose nomination is gone hang no longer."""
        self.clock.now += seconds
        self.hanging = [h for h in self.hanging if "nominatedNodeName" in self.api.objects[path(h.name)]["status"]]
        return self.rescuer.free(self.hanging, {"n1": "web"}.get)

    @property
    def left(self) -> str:
        return "".join(n for n, item in self.api.items("pods").items() if "nominatedNodeName" in item["status"])

    def count(self, what: str) -> float:
        return self.metrics.registry.get_sample_value(f"slack_preemption{what}_total") or 0.0

    def reason(self) -> str:
        condition = self.rescuer.condition("web")
        return condition.reason if condition else ""


def path(name: str) -> str:
    return f"/api/v1/namespaces/shop/pods/{name}"


def test_hanging_pods_are_freed_and_told_about_once() -> None:
    w = World()
    assert w.turn()
    assert w.left == ""
    assert (w.count("s_stuck"), w.count("_rescues"), w.reason()) == (3, 3, "Rescued")
    assert [(name, reason) for name, reason, _ in w.recorder.lines] == [(n, "PreemptionRescued") for n in "abc"]
    assert not w.turn()
    assert len(w.api.log) == 3


def test_only_the_state_that_was_judged_is_changed() -> None:
    w = World("a")
    w.api.put(path("a"), w.api.objects[path("a")])  # somebody else wrote it
    assert not w.turn()
    assert (w.left, w.count("s_stuck"), w.recorder.lines, w.reason()) == ("a", 0, [], "")
    w.turn(100)
    assert len(w.api.log) == 1  # nothing newer was seen, so nothing was judged anew
    w.hanging = [w.hang("a")]
    assert w.turn()
    assert (w.left, w.count("s_stuck"), w.count("_rescues")) == ("", 1, 1)


def test_a_later_pod_of_the_same_name_and_one_that_is_gone_are_not_touched() -> None:
    w = World("ab")
    w.api.objects[path("a")]["metadata"]["uid"] = "later"
    gone = w.api.objects.pop(path("b"))
    assert not w.rescuer.free(w.hanging, {"n1": "web"}.get)
    assert gone["status"]["nominatedNodeName"] == "n1"
    assert (w.left, w.count("s_stuck"), w.recorder.lines) == ("a", 0, [])


@pytest.mark.parametrize(
    "error",
    [Unreachable("PATCH: timed out", timed_out=True), ApiError(403, "Forbidden", "no"), ApiError(500, "E", "e")],
)
def test_one_lost_answer_loses_neither_the_others_nor_that_pod(error: Any) -> None:
    w = World()
    w.api.refuse = lambda _, where: error if where.endswith("/a/status") else None
    assert w.turn()
    assert w.left == "a"
    assert (w.count("s_stuck"), w.count("_rescues")) == (3, 2)
    w.api.refuse = lambda *_: None
    w.turn(2.0)
    assert w.left == ""
    assert (w.count("s_stuck"), w.count("_rescues")) == (3, 3)


def test_tries_that_fail_come_at_longer_and_longer_intervals_and_are_told_once() -> None:
    w = World("a")
    w.api.refuse = lambda *_: ApiError(403, "Forbidden", "no right")
    for _ in range(3600):
        w.turn()
    assert 10 < len(w.api.log) < 40
    assert (w.count("s_stuck"), w.count("_rescues"), w.reason()) == (1, 0, "RescueFailed")
    w.api.refuse = lambda *_: None
    for _ in range(301):
        w.turn()
    assert (w.left, w.count("_rescues"), w.reason()) == ("", 1, "Rescued")


def test_answers_that_take_long_do_not_hold_up_the_loop() -> None:
    w = World("abcdef")

    def slow(*_: str) -> ApiError | None:
        w.clock.now += TURN_SECONDS / 2
        return ApiError(504, "Timeout", "a webhook")

    w.api.refuse = slow
    w.turn()
    assert len(w.api.log) == 2
    w.turn()
    assert [where for _, where in w.api.log[2:]] == [path("c") + "/status"]  # the third failure in a row pauses all
    w.turn(LONGEST_PAUSE_SECONDS)
    assert [where for _, where in w.api.log[3:]] == [path("d") + "/status"]


def test_rescuing_can_be_turned_off_and_the_hang_is_told_all_the_same() -> None:
    w = World("a", enabled=False)
    assert w.turn()
    for _ in range(60):
        assert not w.turn(60)  # told once, and so by the condition as long as it is so
        assert (w.api.log, w.reason(), w.rescuer.condition("other")) == ([], "RescueDisabled", None)
    assert (w.count("s_stuck"), w.count("_rescues")) == (1, 0)
    w.hanging = []
    w.turn(600)
    assert w.reason() == ""


def test_a_standby_writes_nothing() -> None:
    w = World("a")
    w.leading = False
    assert not w.turn()
    assert (w.api.log, w.count("s_stuck")) == ([], 0)


def test_where_the_scheduler_forgets_nobody_the_rescue_is_off_until_it_does() -> None:
    w = World("a", version="v1.31.2")
    assert not w.turn()
    w.version = lambda: "v1.33.0"  # the control plane is upgraded
    assert not w.turn()
    assert w.turn(600)
    assert (w.left, w.count("_rescues")) == ("", 1)


@pytest.mark.parametrize("error", [Unreachable("no answer"), ValueError("half a JSON")])
def test_a_version_that_is_not_known_leaves_it_on(error: Exception) -> None:
    def unknown() -> str:
        raise error

    w = World("a")
    w.version = unknown
    assert w.turn()
    assert w.left == ""


def test_a_pod_that_is_promised_a_node_again_and_hangs_again_is_another_hang() -> None:
    w = World("a")
    w.turn()
    w.api.objects[path("a")]["status"]["nominatedNodeName"] = "n1"
    w.hanging = [w.hang("a", since=50.0)]
    w.turn(60)
    assert (w.count("s_stuck"), w.count("_rescues")) == (2, 2)
