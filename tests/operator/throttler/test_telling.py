"""What people are told of starts, how little of it in a storm, and which pods are deleted for being late."""

import threading
from typing import Any

import msgspec
import pytest

from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.events import EventKind, ObjectRef
from slack_operator.throttler.agent.node_pods import NodePod
from slack_operator.throttler.agent.telling import BURST, MAX_DELETIONS, SUMMARY_SECONDS, Teller
from tests.operator.throttler.test_desk import a_pod, row

LATE: dict[str, Any] = {"after_seconds": 300.0, "delete": True}


class Recorder:
    """Keeps what would become Events."""

    def __init__(self) -> None:
        self.lines: list[tuple[ObjectRef, EventKind, str, str]] = []

    def record(self, regarding: ObjectRef, kind: EventKind, reason: str, message: str) -> None:
        self.lines.append((regarding, kind, reason, message))


class Server:
    """Takes deletions, and answers as a test says."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, str]] = []
        self.refuse: ApiError | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def request(self, method: str, path: str, *, body: Any, verb: str) -> bytes:
        assert (method, verb) == ("DELETE", "delete")
        assert self.may_answer.wait(20)
        if self.refuse is not None:
            raise self.refuse
        self.deleted.append((path, body["preconditions"]["uid"]))
        return b"{}"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def teller(recorder: Recorder, server: Server) -> Teller:
    return Teller(recorder, Writer(server, threading.Event()), "n1")  # type: ignore[arg-type]  # what is called of it


def settle(teller: Teller) -> None:
    """Let all deletions be sent."""
    teller._deletions.shutdown(wait=True)


def test_each_event_is_on_its_pod_and_says_which_container_and_why(teller: Teller, recorder: Recorder) -> None:
    pod = a_pod("u1", row("a"))
    teller.opened(pod, "a", 0.0)
    teller.forced(pod, "a", 0.0)
    teller.refused(pod, "a: depends on itself: a -> a", 0.0)
    teller.late(pod, "a", 0.0, after_seconds=300.0, delete=False)
    assert {(about.kind, about.namespace, about.name, about.uid) for about, _, _, _ in recorder.lines} == {
        ("Pod", "shop", "u1", "u1")
    }
    assert [(kind.value, reason) for _, kind, reason, _ in recorder.lines] == [
        ("Warning", "StartPermitSkipped"),
        ("Normal", "StartForced"),
        ("Warning", "DependsOnRefused"),
        ("Warning", "StartTimedOut"),
    ]
    assert recorder.lines[3][3] == "container a was not ready within 300 s of its permit; its slot is free"
    assert all("container" in text for _, _, _, text in recorder.lines)


def test_a_storm_is_told_of_a_few_pods_and_once_a_minute_of_the_node(teller: Teller, recorder: Recorder) -> None:
    for second in range(30):
        for number in range(50):
            teller.opened(a_pod(f"u{number}", row("a")), "a", float(second))
        teller.flush(float(second))
    pods = [line for line in recorder.lines if line[0].kind == "Pod"]
    nodes = [line for line in recorder.lines if line[0].kind == "Node"]
    assert len(pods) <= BURST + 30 / 6 + 1
    assert [(about.name, reason, text) for about, _, reason, text in nodes] == [
        ("n1", "StartPermitSkipped", "30 more containers of this node")
    ]
    teller.flush(SUMMARY_SECONDS + 1.0)
    assert sum(line[0].kind == "Node" for line in recorder.lines) == 2
    teller.flush(10 * SUMMARY_SECONDS)
    assert sum(line[0].kind == "Node" for line in recorder.lines) == 2, "nothing more to tell"


def test_a_late_container_s_pod_is_deleted_that_very_pod_and_no_other(
    teller: Teller, recorder: Recorder, server: Server
) -> None:
    teller.late(a_pod("u1", row("a")), "a", 0.0, **LATE)
    settle(teller)
    assert server.deleted == [("/api/v1/namespaces/shop/pods/u1", "u1")]
    assert recorder.lines[0][3].endswith("its pod is deleted")
    assert (teller.deleted, teller.undeleted) == (1, 0)


def test_neither_a_static_pod_nor_one_that_has_no_gate_is_deleted(
    teller: Teller, recorder: Recorder, server: Server
) -> None:
    static = a_pod("u1", row("a"))
    assert static.metadata.annotations is not None
    static.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    bare = msgspec.convert(
        {"metadata": {"name": "bare", "namespace": "shop", "uid": "u2"}, "spec": {"containers": [{"name": "a"}]}},
        NodePod,
    )
    for pod in (static, bare):
        teller.late(pod, "a", 0.0, **LATE)
    settle(teller)
    assert server.deleted == []
    assert "cannot be deleted" in recorder.lines[0][3]
    assert recorder.lines[1][3].endswith("its slot is free")


@pytest.mark.parametrize(("status", "failed", "logged"), [(409, 0, 0), (404, 0, 0), (403, 3, 1)])
def test_a_deletion_that_is_refused_is_counted_and_told_once(
    teller: Teller, server: Server, caplog: pytest.LogCaptureFixture, status: int, failed: int, logged: int
) -> None:
    server.refuse = ApiError(status, "Refused", "no")
    for number in range(3):
        teller.late(a_pod(f"u{number}", row("a")), "a", 0.0, **LATE)
    settle(teller)
    assert (teller.deleted, teller.undeleted) == (0, failed)
    assert caplog.text.count("cannot be deleted") == logged


def test_deletions_that_nobody_answers_hold_nothing_up_and_do_not_pile_up(
    teller: Teller, recorder: Recorder, server: Server
) -> None:
    server.may_answer.clear()
    pods = [a_pod(f"u{number}", row("a")) for number in range(MAX_DELETIONS + 5)]
    for pod in pods:
        teller.late(pod, "a", 1000.0, **LATE)
    server.may_answer.set()
    settle(teller)
    assert len(server.deleted) == MAX_DELETIONS


def test_an_agent_that_ends_deletes_nothing_more(teller: Teller, recorder: Recorder) -> None:
    teller.stop()
    teller.late(a_pod("u1", row("a")), "a", 0.0, **LATE)
    assert recorder.lines[0][3].endswith("its slot is free")
