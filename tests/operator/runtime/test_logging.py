"""One line a decision that mattered, with policy and shape; and nothing secret or large in any, at debug level too."""

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from slack.health.reasons import PLACEHOLDERS_DISPLACED
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, Unreachable
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.retry import retrying
from slack.process import logs
from slack.process.logs import LogFormat, LogLevel
from tests.kube.fake_api import FakeApi as ServedApi
from tests.kube.fake_api import Reply, eventually
from tests.operator.fakes import NAMESPACE, policy
from tests.operator.placeholders.test_loop import world

SECRET = "eyJhbGciOiJSUzI1NiIsImtpZCI6InNlY3JldCJ9"


def _said(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [getattr(record, "slack_fields", {}) for record in caplog.records if record.getMessage() == message]


def test_each_change_of_a_replica_set_is_one_line_with_policy_shape_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    w = world(stabilization={"shrinkDelay": "20s"})
    w.settle()
    (created,) = _said(caplog, "ReplicaSet created")
    assert (created["policy"], created["from"], created["to"]) == ("web", 0, 4)
    assert created["why"].startswith(("cover wants 4", "fill wants 4"))
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.1}, stabilization={"shrinkDelay": "20s"}))
    w.settle(10)
    (lowered,) = _said(caplog, "ReplicaSet lowered")
    assert (lowered["policy"], lowered["shape"], lowered["from"]) == ("web", created["shape"], 4)
    lines = len(caplog.records)
    w.settle(10)
    assert len(caplog.records) == lines, "what stays as it is is not told"


def test_displaced_placeholders_are_one_line_a_turn_and_now_and_then_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    w = world()
    w.settle()
    for _ in range(3):
        del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{min(w.placeholders())}"]
        w.settle(3)
    told = _said(caplog, "placeholders displaced: 1")
    assert [(displaced["policy"], displaced["reason"], displaced["count"]) for displaced in told] == [
        ("web", PLACEHOLDERS_DISPLACED, 1)
    ] * 3
    events = [line for line in w.recorder.lines if line[1] == PLACEHOLDERS_DISPLACED]
    assert len(events) == 1


@pytest.fixture
def lines() -> Iterator[Any]:
    """All that a process logs at debug level, as JSON lines."""
    import io

    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    logs.set_up(LogFormat.JSON, LogLevel.DEBUG, stream)
    yield lambda: stream.getvalue()
    root.handlers[:] = before
    root.setLevel(level)


def test_no_line_holds_a_token_a_header_or_an_objects_content(lines: Any) -> None:
    stopping = threading.Event()
    with ServedApi() as api:
        from kubernetes.client import Configuration

        configuration = Configuration(host=f"http://127.0.0.1:{api.port}")
        configuration.api_key = {"authorization": f"Bearer {SECRET}"}
        connection = Connection(configuration)
        writer = Writer(connection, stopping, retry=retrying(stopping, deadline_seconds=0.5))
        pods = "/api/v1/namespaces/shop/pods"
        api.put(f"{pods}/a", spec={"containers": [{"env": [{"name": "PASSWORD", "value": SECRET}]}]})
        assert SECRET.encode() in connection.request("GET", f"{pods}/a")
        writer.apply(f"{pods}/b", {"metadata": {"name": "b"}, "spec": {"args": [SECRET]}})
        api.script("patch", Reply.status(422, "Invalid"))
        with pytest.raises(ApiError):
            writer.apply(f"{pods}/b", {"metadata": {"name": "b"}, "spec": {"args": [SECRET]}})
        recorder = EventRecorder(writer, component="test")
        recorder.start()
        recorder.record(ObjectRef("v1", "Pod", "a", "u", "shop"), EventKind.NORMAL, "Word", "text")
        eventually(lambda: recorder.counters.posted == 1)
        recorder.stop()
        assert api.last("post").headers.get("authorization", api.last("post").headers.get("Authorization")) is not None
    with pytest.raises(Unreachable):
        connection.request("GET", f"{pods}/a", timeout=0.5)
    connection.close()
    text = lines()
    assert text, "at debug level the requests are there"
    assert all(json.loads(line)["message"] for line in text.splitlines())
    for forbidden in (SECRET, "Bearer", "authorization", "Authorization", "PASSWORD"):
        assert forbidden not in text
