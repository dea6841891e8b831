"""What a scalableRef comes to by /scale, what a slow kind may cost, and what RuntimeClasses add."""

import json
from typing import Any

import msgspec
import pytest

from slack.capacity_buffers.api import CapacityBuffer, ScaledTarget
from slack.capacity_buffers.plan import Unresolved
from slack.capacity_buffers.scalable_kinds import ScalableKind
from slack.cluster.requests import effective_requests
from slack.kube.errors import ApiError
from slack_operator.capacity_buffers import runtime_classes
from slack_operator.capacity_buffers.runtime_classes import RuntimeClasses
from slack_operator.capacity_buffers.targets import READ_SECONDS, Targets
from tests.operator.fakes import Clock, Json

KINDS = {("example.com", "Farm"): ScalableKind("example.com/v1", "farms")}


def _buffer(name: str) -> CapacityBuffer:
    spec = {"scalableRef": {"apiGroup": "example.com", "kind": "Farm", "name": name}, "percentage": 50}
    document = {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(document), type=CapacityBuffer)


def _pod(name: str, cpu: str, created: str) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": created, "labels": {"farm": "web"}}
    return {"metadata": metadata, "spec": {"containers": containers}}


class ScaleServer:
    """Has Scales and pods; each answer takes some seconds."""

    def __init__(self, pods: list[Json], clock: Clock, seconds: float = 0.0) -> None:
        self.pods, self.clock, self.seconds = pods, clock, seconds
        self.asked: list[str] = []
        self.selectors: list[object] = []

    def request(self, method: str, path: str, query: Any = None, **_: Any) -> bytes:
        self.asked.append(path)
        self.clock.now += self.seconds
        if path.endswith("/pods"):
            self.selectors.append((query or {}).get("labelSelector"))
            return json.dumps({"metadata": {}, "items": self.pods}).encode()
        status = {"replicas": 3, "selector": "farm=web"}
        return json.dumps({"spec": {"replicas": 4}, "status": status}).encode()


def test_the_pods_of_a_listed_kind_are_found_by_the_selector_of_its_scale() -> None:
    clock = Clock()
    pods = [_pod("old", "1", "2026-11-01T00:00:00Z"), _pod("new", "2", "2026-11-02T00:00:00Z")]
    server: Any = ScaleServer(pods, clock)
    targets = Targets(server, KINDS, clock)
    targets.refresh([_buffer("web")], clock())
    found = targets.target_of(_buffer("web"))
    assert isinstance(found, ScaledTarget)
    assert (found.replicas, found.observed, found.is_of_pod) == (3, 3, True)
    assert effective_requests(found.spec) == {"cpu": 2000}, "as the newest pod is"
    assert server.selectors == ["farm=web"]
    server.pods = []
    clock.now += 40
    targets.refresh([_buffer("web")], clock())
    found = targets.target_of(_buffer("web"))
    assert isinstance(found, ScaledTarget)
    assert (found.replicas, found.spec, found.is_of_pod) == (4, None, False), "without a pod as its spec asks"


def test_a_slow_kind_does_not_hold_a_turn_up_for_long() -> None:
    clock = Clock()
    server: Any = ScaleServer([], clock, seconds=READ_SECONDS)
    targets = Targets(server, KINDS, clock)
    buffers = [_buffer(f"b{number}") for number in range(9)]
    begun = clock()
    targets.refresh(buffers, begun)
    assert clock() - begun <= 2 * READ_SECONDS
    for _ in buffers:
        targets.refresh(buffers, clock())
    assert all(targets.target_of(own) is not None for own in buffers), "each has its turn"


def test_the_overhead_of_runtime_classes_is_read_while_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[float] = []
    answer: Any = [
        {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}}},
        {"metadata": {"name": "x"}},
    ]

    def list_all(_: Any, path: str, kind: Any) -> Any:
        lists.append(1.0)
        if isinstance(answer, ApiError):
            raise answer
        return iter(msgspec.convert(answer, list[kind]))

    monkeypatch.setattr(runtime_classes, "list_all", list_all)
    connection: Any = None
    found = RuntimeClasses(connection)
    assert found.refresh(0.0) is None, "nobody asks"
    assert found.overhead_of("kata") is None
    assert found.refresh(0.0) == runtime_classes.POLL_SECONDS
    assert found.overhead_of("kata") == {"cpu": "250m"}
    assert found.overhead_of("x") == {}
    missing = found.overhead_of("gone")
    assert isinstance(missing, Unresolved)
    assert "there is no RuntimeClass gone" in missing.message
    assert found.refresh(10.0) == 20.0
    answer = ApiError(403, "Forbidden", "no")
    found.refresh(40.0)
    assert found.overhead_of("gone") == {}, "an older chart gives no right to them"
    assert len(lists) == 2
