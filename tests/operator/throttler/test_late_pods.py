"""Late pods: what an agent's word is worth, what is read before a pod is evicted, and how an eviction is sent."""

import threading
from typing import Any

import msgspec
import pytest

from slack.kube.errors import ApiError, KubeError, Unreachable
from slack.throttler.reports.messages import LatePod
from slack_operator.throttler.controller.late_pods import MAX_WAITING, MAX_WAITING_OF_A_NODE, TURN_SECONDS, LatePods
from tests.operator.fakes import Clock

LATE = LatePod(uid="u1", container="web", namespace="shop", pod="web-1", container_id="containerd://1")
PATH = "/api/v1/namespaces/shop/pods/web-1"


def a_pod(**changes: Any) -> dict[str, Any]:
    container = {
        "name": "web",
        "readinessProbe": {"exec": {}},
        "env": [{"name": "RESOURCE_SLACK_START_PERMIT"}],
    }
    status = {
        "name": "web",
        "ready": False,
        "started": True,
        "state": {"running": {}},
        "containerID": "containerd://1",
    }
    pod = {
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "resourceVersion": "41"},
        "spec": {"nodeName": "n1", "containers": [container], "initContainers": [{"name": "throttler-gate"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }
    for path, value in changes.items():
        found: Any = pod
        *parents, last = path.split("__")
        for name in parents:
            found = found[int(name)] if isinstance(found, list) else found[name]
        found[last] = value
    return pod


class Server:
    """An API server with one pod."""

    def __init__(self) -> None:
        self.pod: dict[str, Any] | None = a_pod()
        self.sent: list[tuple[str, str]] = []
        self.evictions: list[dict[str, Any]] = []
        self.refuse: KubeError | None = None

    def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json", verb: str
    ) -> bytes:
        self.sent.append((method, path))
        if method == "GET":
            if self.pod is None:
                raise ApiError(404, "NotFound", "not found")
            return msgspec.json.encode(self.pod)
        if self.refuse is not None:
            raise self.refuse
        self.evictions.append(body)
        return b"{}"


class Place:
    """The controller's part, with a server and a policy of a test's own."""

    def __init__(self) -> None:
        self.server, self.clock = Server(), Clock(1000.0)
        self.outcomes: list[str] = []
        self.leads, self.deletes = True, True
        self.stale: str | None = None
        self.late = LatePods(
            server=self.server,
            decode=msgspec.json.decode,
            count=self.outcomes.append,
            may_write=lambda: self.leads,
            deletes=lambda node: self.deletes,
            stale=lambda: self.stale,
            clock=self.clock,
        )

    def report(self, *late: LatePod, node: str = "n1") -> str | None:
        """An agent reports; returns what became of the first that is looked at."""
        before = len(self.outcomes)
        self.late.asked(node, late)
        self.late.check_next()
        return self.outcomes[before] if len(self.outcomes) > before else None


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_late_pod_is_evicted_that_very_pod_in_that_very_state(place: Place) -> None:
    assert place.report(LATE) == "evicted"
    assert place.server.sent == [("GET", PATH), ("POST", f"{PATH}/eviction")]
    (eviction,) = place.server.evictions
    assert (eviction["apiVersion"], eviction["kind"]) == ("policy/v1", "Eviction")
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "u1", "resourceVersion": "41"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"status__containerStatuses__0__ready": True},
        {"status__containerStatuses__0__containerID": "containerd://2"},
        {"spec__nodeName": "n2"},
        {"metadata__uid": "u2"},
        {"metadata__deletionTimestamp": "2026-05-04T10:00:00Z"},
        {"status__phase": "Succeeded"},
        {"spec__initContainers": []},
        {"spec__containers__0__env": []},
        {"spec__containers__0__readinessProbe": None},
        {"spec__containers__0__startupProbe": {"exec": {}}},
    ],
    ids=["ready", "restarted", "other-node", "other-pod", "ends", "ended", "no-gate", "not-gated", "no-probe", "began"],
)
def test_what_the_api_server_says_decides(place: Place, changes: dict[str, Any]) -> None:
    """Such as a container that is ready, of which an agent with a silent watch has not heard."""
    place.server.pod = a_pod(**changes)
    assert place.report(LATE) == "not_needed"
    assert place.server.evictions == []


def test_a_startup_probe_that_has_not_succeeded_yet_saves_no_pod(place: Place) -> None:
    began = {"spec__containers__0__startupProbe": {"exec": {}}, "status__containerStatuses__0__started": False}
    place.server.pod = a_pod(**began)
    assert place.report(LATE) == "evicted"


def test_a_pod_that_is_gone_is_not_evicted(place: Place) -> None:
    place.server.pod = None
    assert place.report(LATE) == "not_needed"


def test_an_agent_speaks_for_the_pods_of_its_own_node(place: Place) -> None:
    assert place.report(LATE, node="n2") == "not_needed"
    assert place.server.evictions == []


def test_without_a_policy_that_says_so_nothing_is_read(place: Place) -> None:
    place.deletes = False
    assert place.report(LATE) == "not_needed"
    assert place.server.sent == []


def test_with_a_view_that_is_not_fresh_nothing_is_evicted(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """The node may have another policy by now, or its policy may say Release."""
    place.stale = "/api/v1/nodes has been silent for more than 200 s"
    assert place.report(LATE) == "failed"
    assert place.server.sent == []
    assert place.stale in caplog.text
    place.stale = None
    place.clock.now += 11
    assert place.report(LATE) == "evicted"


def test_a_replica_that_does_not_lead_evicts_nothing_and_keeps_nothing(place: Place) -> None:
    place.leads = False
    assert place.report(LATE) is None
    place.leads = True
    assert place.late.check_next() is False


@pytest.mark.parametrize(
    ("error", "outcome", "again"),
    [
        (ApiError(429, "TooManyRequests", "would violate the pod's disruption budget"), "blocked", 60.0),
        (ApiError(409, "Conflict", "the pod has changed"), "not_needed", 15.0),
        (ApiError(403, "Forbidden", "no"), "refused", 300.0),
        (ApiError(500, "InternalError", "more than one PodDisruptionBudget"), "failed", 10.0),
        (Unreachable("no answer"), "failed", 10.0),
    ],
)
def test_what_is_refused_is_tried_again_later_by_its_reason(
    place: Place, error: KubeError, outcome: str, again: float
) -> None:
    place.server.refuse = error
    assert place.report(LATE) == outcome
    place.server.refuse = None
    assert place.report(LATE) is None, "not before its time"
    place.clock.now += again + 1
    assert place.report(LATE) == "evicted"


def test_a_storm_of_late_pods_is_bounded_and_none_is_kept_twice(place: Place) -> None:
    storm = [LatePod(uid=f"u{n}", container="web", namespace="shop", pod=f"web-{n}") for n in range(2 * MAX_WAITING)]
    for _ in range(3):
        for node in range(2 * MAX_WAITING // MAX_WAITING_OF_A_NODE):
            place.late.asked(f"n{node}", storm[node * MAX_WAITING_OF_A_NODE :][:MAX_WAITING_OF_A_NODE])
    seen = 0
    while place.late.check_next():
        seen += 1
    assert seen == MAX_WAITING
    place.clock.now += 3600
    place.late.check_next()
    assert place.late._not_before == {}


def test_what_an_agent_says_of_pods_of_other_nodes_keeps_no_other_agent_waiting(place: Place) -> None:
    """As one that was taken over, which names the other's pod first, and invents a thousand more."""
    invented = [LatePod(uid=f"u{n}", container="web", namespace="shop", pod=f"web-{n}") for n in range(MAX_WAITING)]
    assert place.report(LATE, node="n2") == "not_needed"
    place.late.asked("n2", [LATE, *invented])
    place.late.asked("n1", [LATE])
    place.late.asked("n2", [LATE])
    turns = 0
    while "evicted" not in place.outcomes:
        assert place.late.check_next()
        turns += 1
    assert turns <= MAX_WAITING_OF_A_NODE + 1


def test_its_thread_evicts_and_ends(place: Place) -> None:
    done = threading.Event()
    place.late._count = lambda outcome: done.set()
    place.late.start()
    place.late.asked("n1", [LATE])
    assert done.wait(20)
    assert place.late.unhealthy() is None
    place.late.stop()
    assert not place.late._thread.alive


def test_a_thread_that_fails_each_time_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def fails() -> bool:
        failed.set()
        raise RuntimeError

    monkeypatch.setattr(place.late, "check_next", fails)
    place.late.start()
    assert failed.wait(20)
    place.clock.now += TURN_SECONDS + 1
    assert place.late.unhealthy() == "the thread that evicts late pods has not moved for 181 s"
    place.late.stop()
    assert place.late.unhealthy() is None
