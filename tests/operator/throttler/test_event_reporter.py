"""What people are told of starts, and how little of it in a storm."""

import pytest

from slack.kube.events import EventKind, ObjectRef
from slack_operator.throttler.agent.event_reporter import BURST, SUMMARY_SECONDS, StartEventReporter
from tests.operator.throttler.test_grant_coordinator import a_pod, row


class Recorder:
    """Keeps what would become Events."""

    def __init__(self) -> None:
        self.lines: list[tuple[ObjectRef, EventKind, str, str]] = []

    def record(self, regarding: ObjectRef, kind: EventKind, reason: str, message: str) -> None:
        self.lines.append((regarding, kind, reason, message))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def teller(recorder: Recorder) -> StartEventReporter:
    return StartEventReporter(recorder, "n1")


def test_each_event_is_on_its_pod_and_says_which_container_and_why(
    teller: StartEventReporter, recorder: Recorder
) -> None:
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


def test_a_storm_is_told_of_a_few_pods_and_once_a_minute_of_the_node(
    teller: StartEventReporter, recorder: Recorder
) -> None:
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


def test_a_late_pod_that_is_to_be_evicted_is_called_so_and_a_static_one_is_not(
    teller: StartEventReporter, recorder: Recorder
) -> None:
    static = a_pod("u2", row("a"))
    assert static.metadata.annotations is not None
    static.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    for pod in (a_pod("u1", row("a")), static):
        teller.late(pod, "a", 0.0, after_seconds=300.0, delete=True)
    assert [text.partition("; ")[2] for _, _, _, text in recorder.lines] == [
        "its slot is free, and its pod is to be evicted",
        "its slot is free; a static pod cannot be evicted",
    ]
