"""Which autoscaler the cluster has: found by what it leaves in the API, and kept over restarts and errors."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from slack.cluster import wire
from slack.kube.errors import ApiError
from slack.planner.objects.autoscaler_events import AutoscalerEvents
from slack_operator.placeholders.view import autoscalers
from slack_operator.placeholders.view.autoscalers import (
    ABSENT_SECONDS,
    CLUSTER_AUTOSCALER,
    KARPENTER,
    LOOK_SECONDS,
    STALE_SECONDS,
    Autoscalers,
)
from tests.kube.fake_api import FakeApi, Reply
from tests.operator.fakes import Clock

WALL = 1_800_000_000.0
MAP = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
NODE_POOL = "/apis/karpenter.sh/v1/nodepools/general"
UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"


class World:
    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.clock, self.wall = Clock(), Clock(WALL)
        self.heard: float | None = None
        self.changes = 0
        self.restart()

    def restart(self) -> None:
        self.autoscalers = Autoscalers(
            self.api.connection(),
            status_map=("kube-system", "cluster-autoscaler-status"),
            heard=lambda: self.heard,
            on_change=self.changed,
            clock=self.clock,
            wall=self.wall,
        )

    def changed(self) -> None:
        self.changes += 1

    def status_written(self, age_seconds: float = 5.0) -> None:
        at = datetime.fromtimestamp(self.wall.now - age_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.api.put(MAP, metadata={"annotations": {UPDATED: f"{at}.98765 +0000 UTC"}})

    def look(self, seconds: float = LOOK_SECONDS) -> tuple[str | None, bool]:
        self.clock.now += seconds
        self.wall.now += seconds
        self.autoscalers.look()
        found = self.autoscalers.recognition
        assert found is not None
        return None if found.autoscaler is None else found.autoscaler.name, found.lasting

    @property
    def note(self) -> str:
        found = self.autoscalers.recognition
        assert found is not None
        return found.note


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi() as api:
        yield World(api)


def test_nothing_is_said_before_the_first_look(world: World) -> None:
    assert world.autoscalers.recognition is None


def test_karpenter_is_its_node_pools_and_not_its_kind(world: World) -> None:
    world.api.put(NODE_POOL)
    world.api.remove(NODE_POOL)
    assert world.look() == (None, False)
    assert "there is no NodePool" in world.note
    world.api.put(NODE_POOL)
    assert world.look() == (KARPENTER, True)
    (asked,) = [seen for seen in world.api.seen if seen.path == "/apis/karpenter.sh/v1/nodepools"][-1:]
    assert asked.query["limit"] == "1"


class Served:
    """An API server on which NodePools may not be listed."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes

    def request(self, _method: str, path: str, **_: object) -> bytes:
        answers = {
            "/apis/karpenter.sh": {"versions": [{"groupVersion": "karpenter.sh/v1"}]},
            "/apis/karpenter.sh/v1": {"resources": [{"name": "nodepools"}]},
            "/api/v1/nodes": {"items": [{"metadata": {"name": name}} for name in self.nodes]},
        }
        if path not in answers:
            raise ApiError(403, "Forbidden", "said the fake")
        return json.dumps(answers[path]).encode()


@pytest.mark.parametrize(("nodes", "expected"), [(["n1"], KARPENTER), ([], None)])
def test_karpenter_without_the_right_to_list_its_pools_is_a_node_of_one(nodes: list[str], expected: str | None) -> None:
    served: Any = Served(nodes)
    rules: Any = {"clock": Clock(), "wall": Clock(WALL), "heard": lambda: None, "on_change": lambda: None}
    autoscalers = Autoscalers(served, status_map=None, **rules)
    autoscalers.look()
    found = autoscalers.recognition
    assert found is not None
    assert (found.autoscaler and found.autoscaler.name) == expected
    assert found.autoscaler is None or found.autoscaler.evidence == "node n1 has the label karpenter.sh/nodepool"


def test_cluster_autoscaler_is_a_fresh_status(world: World) -> None:
    world.status_written()
    assert world.look() == (CLUSTER_AUTOSCALER, True)


def test_a_stale_status_is_none_and_says_so(world: World) -> None:
    world.status_written(STALE_SECONDS + 1.0)
    assert world.look() == (None, False)
    assert "is stale, it was written at 2027-01-15" in world.note


def test_a_status_that_moves_is_fresh_whatever_our_clock_says(world: World) -> None:
    world.status_written(1e6)
    world.look()
    world.status_written(1e6)
    assert world.look() == (CLUSTER_AUTOSCALER, True)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-45 99:00:00 +0000 UTC", "2026-01-01"])
def test_a_status_without_a_time_says_nothing(world: World, text: str) -> None:
    world.api.put(MAP, metadata={"annotations": {UPDATED: text}})
    assert world.look() == (None, False)
    assert "does not say when it was written" in world.note


def test_events_tell_where_the_status_is_elsewhere_or_may_not_be_read(world: World) -> None:
    world.heard = WALL
    assert world.look() == (CLUSTER_AUTOSCALER, True)
    world.wall.now += 1e6  # a quiet cluster has no Events for days
    assert world.look() == (CLUSTER_AUTOSCALER, True)


def test_events_from_before_the_status_went_stale_tell_nothing(world: World) -> None:
    world.status_written()
    world.look()
    world.heard = world.wall.now
    for _ in range(30):
        found = world.look()
    assert found == (None, True)


def test_a_restart_of_the_autoscaler_changes_nothing(world: World) -> None:
    world.status_written()
    world.look()
    world.api.remove(MAP)  # it takes its status away when it ends
    for _ in range(int(ABSENT_SECONDS / LOOK_SECONDS) - 1):
        assert world.look() == (CLUSTER_AUTOSCALER, True)
    world.status_written()
    assert world.look() == (CLUSTER_AUTOSCALER, True)
    assert world.changes == 1


def test_an_absence_that_lasts_counts(world: World) -> None:
    world.api.put(NODE_POOL)
    world.look()
    world.api.remove(NODE_POOL)
    found = [world.look() for _ in range(int(ABSENT_SECONDS / LOOK_SECONDS) + 1)]
    assert found[-2:] == [(KARPENTER, True), (None, True)]


def test_errors_keep_the_last_answer_and_are_no_absence(world: World) -> None:
    world.api.put(NODE_POOL)
    world.look()
    world.api.remove(NODE_POOL)
    for _ in range(60):
        world.api.script("list", Reply.status(500))
        assert world.look() == (KARPENTER, True)


def test_a_missing_right_is_no_absence_and_is_named(world: World) -> None:
    for _ in range(60):
        world.api.script("get", Reply.status(403, "Forbidden"))
        assert world.look() == (None, False)
    assert "ConfigMap kube-system/cluster-autoscaler-status may not be read" in world.note


def test_after_a_restart_of_the_operator_an_absence_has_to_last_again(world: World) -> None:
    for _ in range(20):
        found = world.look()
    assert found == (None, True)
    world.restart()
    assert world.look() == (None, False)


def test_the_one_that_was_recognised_stays_while_both_are_there(world: World) -> None:
    world.status_written()
    world.look()
    world.api.put(NODE_POOL)
    assert world.look() == (CLUSTER_AUTOSCALER, True)
    assert world.changes == 1


def test_a_thread_whose_every_look_fails_is_unhealthy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscalers, "LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(autoscalers, "LOOK_SECONDS", 0.01)
    world.restart()
    monkeypatch.setattr(world.autoscalers, "look", lambda: 1 / 0)
    world.autoscalers.start()
    deadline = time.monotonic() + 10.0
    while (problem := world.autoscalers.unhealthy()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    world.autoscalers.stop()
    assert "has failed at each turn" in problem
    assert "ZeroDivisionError" in problem


def test_only_events_of_cluster_autoscaler_about_pods_count() -> None:
    events = AutoscalerEvents()

    def event(source: str, kind: str) -> wire.Event:
        about = wire.ObjectReference(kind=kind, name="slack-web-1-x")
        return wire.Event(wire.Metadata(name="e"), reason="X", involved_object=about, reporting_component=source)

    events.observe(event("karpenter", "Pod"), 1.0)
    events.observe(event("cluster-autoscaler", "Node"), 2.0)
    assert events.heard_seconds is None
    events.observe(event("cluster-autoscaler", "Pod"), 3.0)
    assert events.heard_seconds == 3.0
