from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.events import BURST, EventKind, EventRecorder, ObjectRef
from slack.kube.retry import retrying
from tests.kube.fake_api import FakeApi, Reply, eventually

POLICY = ObjectRef("slack.example/v1", "SlackPolicy", "default", uid="u1")
POD = ObjectRef("v1", "Pod", "web-1", uid="u2", namespace="shop")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(connection: Connection, clock: Clock) -> Iterator[EventRecorder]:
    retry = retrying(threading.Event(), first_seconds=0.01, deadline_seconds=0.2)
    writer = Writer(connection, threading.Event(), retry=retry)
    recorder = EventRecorder(writer, component="resource-slack", instance="pod-1", clock=clock, queue_size=100)
    recorder.start()
    yield recorder
    recorder.stop()


def posted(api: FakeApi) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in api.seen if seen.verb == "post"]


def test_an_event_about_a_cluster_scoped_object_goes_to_the_default_namespace(
    api: FakeApi, recorder: EventRecorder
) -> None:
    recorder.record(POLICY, EventKind.WARNING, "LimitReached", "gave up")
    recorder.record(POD, EventKind.NORMAL, "PreemptionRescued", "freed")
    eventually(lambda: recorder.counters.posted == 2)
    first, second = posted(api)
    assert [seen.path for seen in api.seen] == ["/api/v1/namespaces/default/events", "/api/v1/namespaces/shop/events"]
    assert (first["type"], first["reason"], first["message"], first["count"]) == (
        "Warning",
        "LimitReached",
        "gave up",
        1,
    )
    assert first["involvedObject"] == {
        "apiVersion": "slack.example/v1",
        "kind": "SlackPolicy",
        "name": "default",
        "uid": "u1",
    }
    assert second["involvedObject"]["namespace"] == second["metadata"]["namespace"] == "shop"


def test_equal_lines_within_the_window_only_count_up(api: FakeApi, recorder: EventRecorder, clock: Clock) -> None:
    for _ in range(3):
        recorder.record(POLICY, EventKind.NORMAL, "Planned", "three more")
    recorder.record(POLICY, EventKind.NORMAL, "Planned", "four more")
    eventually(lambda: recorder.counters.posted == 2)
    assert recorder.counters.aggregated == 2
    assert sorted(body["count"] for body in api.objects.values()) == [1, 3]
    clock.now += 601
    recorder.record(POLICY, EventKind.NORMAL, "Planned", "three more")
    eventually(lambda: recorder.counters.posted == 3)


def test_an_event_the_server_has_forgotten_is_posted_anew(api: FakeApi, recorder: EventRecorder) -> None:
    recorder.record(POLICY, EventKind.NORMAL, "A", "b")
    eventually(lambda: recorder.counters.posted == 1)
    api.objects.clear()
    recorder.record(POLICY, EventKind.NORMAL, "A", "b")
    eventually(lambda: recorder.counters.posted == 2)


def test_each_object_has_a_budget(api: FakeApi, recorder: EventRecorder, clock: Clock) -> None:
    for i in range(BURST + 10):
        recorder.record(POLICY, EventKind.NORMAL, "A", f"line {i}")
    recorder.record(POD, EventKind.NORMAL, "A", "another object's")
    eventually(lambda: recorder.counters.posted == BURST + 1)
    assert recorder.counters.limited == 10
    clock.now += 61
    recorder.record(POLICY, EventKind.NORMAL, "A", "later")
    eventually(lambda: recorder.counters.posted == BURST + 2)


def test_errors_are_counted_and_the_next_line_gets_through(api: FakeApi, recorder: EventRecorder) -> None:
    api.script("post", Reply.status(403, "Forbidden"))
    recorder.record(POLICY, EventKind.NORMAL, "A", "refused")
    recorder.record(POLICY, EventKind.NORMAL, "A", "fine")
    eventually(lambda: recorder.counters.posted == 1)
    assert recorder.counters.errors == 1


def test_record_never_waits_and_drops_what_does_not_fit(connection: Connection) -> None:
    recorder = EventRecorder(Writer(connection, threading.Event()), component="c", queue_size=5)  # not started
    began = time.monotonic()
    for i in range(50):
        recorder.record(POLICY, EventKind.NORMAL, "A", str(i))
    assert time.monotonic() - began < 0.1
    assert recorder.counters.dropped == 45
    recorder.stop(timeout=0.01)


def test_a_long_message_is_cut_to_what_the_api_takes(api: FakeApi, recorder: EventRecorder) -> None:
    recorder.record(POLICY, EventKind.NORMAL, "A", "x" * 5000)
    eventually(lambda: recorder.counters.posted == 1)
    assert len(posted(api)[0]["message"]) == 1024


def test_stop_posts_what_waits(api: FakeApi, recorder: EventRecorder) -> None:
    for i in range(10):
        recorder.record(POLICY, EventKind.NORMAL, "A", str(i))
    recorder.stop()
    assert recorder.counters.posted == 10
