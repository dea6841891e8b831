"""Permits in ConfigMaps: who is let in, by whom, what of others is left alone, and what a server's faults lose."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from e2e.harness.json_patch import patched
from slack.kube.apply import Writer
from slack.kube.errors import ApiError, KubeError, Unreachable
from slack.kube.watch import EventType
from slack.throttler.config_maps import PERMITTED_AT, HeldPod
from slack.throttler.injection import PERMITS_IN, VARIABLE
from slack.throttler.reports.messages import NodeReport, Permit
from slack_operator.throttler.controller.held_pods import HeldPods, PodRow, _Container, _Metadata, _Named, _Spec
from slack_operator.throttler.controller.permits import (
    AGAIN_SECONDS,
    KEPT_SECONDS,
    OPEN_AGAIN_SECONDS,
    REFUSED_SECONDS,
    RETRY_SECONDS,
    SWEEP_SECONDS,
    UNSEEN_SECONDS,
    Permits,
)

Json = dict[str, Any]
NODE, FAIL_OPEN, PATIENCE = "node-1", 60.0, 8.5


def row(uid: str, *containers: str, node: str = NODE, config_map: str | None = "permits-1", name: str = "") -> PodRow:
    """Return a pod as the watch gives it, with these gated containers and one that is not."""
    annotations = {} if config_map is None else {PERMITS_IN: config_map}
    gated = [_Container(name=each, env=[_Named(name="A"), _Named(name=VARIABLE)]) for each in containers]
    metadata = _Metadata(name=name or uid, namespace="shop", uid=uid, annotations=annotations)
    return PodRow(metadata=metadata, spec=_Spec(node_name=node, containers=[*gated, _Container(name="free")]))


class Cluster(Writer):
    """ConfigMaps and pods, and a writer that reaches them."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.fails: Callable[[str], KubeError | None] = lambda path: None
        self.writes: list[str] = []

    def create(self, collection: str, manifest: Json) -> Json:
        path = f"{collection}/{manifest['metadata']['name']}"
        self._write(path)
        if path in self.objects:
            raise ApiError(409, "AlreadyExists", "already exists")
        self.objects[path] = manifest
        return manifest

    def json_patch(self, path: str, operations: Sequence[Json]) -> Json:
        self._write(path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", "not found")
        try:
            self.objects[path] = patched(self.objects[path], operations)
        except LookupError as error:
            raise ApiError(422, "Invalid", f"the server rejected our request: {error}") from None
        return self.objects[path]

    def _write(self, path: str) -> None:
        self.writes.append(path.removeprefix("/api/v1/namespaces/shop/"))
        if (error := self.fails(path)) is not None:
            raise error

    def keys(self, config_map: str = "permits-1") -> set[str]:
        """Return who may start."""
        return set(self.objects.get(f"/api/v1/namespaces/shop/configmaps/{config_map}", {}).get("data", ()))

    def pod(self, name: str) -> Json:
        """Return a pod."""
        return self.objects[f"/api/v1/namespaces/shop/pods/{name}"]


class World:
    """A leader, its nodes and its pods; time goes as it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leads = True
        self.cluster = Cluster()
        self.events: list[tuple[str, str]] = []
        self.counted: list[tuple[str, int]] = []
        self.permits = Permits(
            writer=self.cluster,
            recorder=self,
            count=lambda outcome, containers: self.counted.append((outcome, containers)),
            may_write=lambda: self.leads,
            fail_open_after_seconds=lambda node: FAIL_OPEN,
            patience_seconds=lambda: PATIENCE,
            clock=lambda: self.now,
        )

    def record(self, regarding: Any, kind: Any, reason: str, message: str) -> None:
        """Take in an Event."""
        self.events.append((regarding.name, reason))

    def arrive(self, *rows: PodRow) -> None:
        """Have pods there."""
        for each in rows:
            metadata = {"name": each.metadata.name, "uid": each.metadata.uid, "annotations": {}}
            self.cluster.objects[f"/api/v1/namespaces/shop/pods/{each.metadata.name}"] = {"metadata": metadata}
        self.permits.pods.apply([(EventType.ADDED, each) for each in rows])

    def report(
        self, *permits: tuple[str, str], node: str = NODE, blind: str = "", knows: Sequence[str] | None = None
    ) -> None:
        """Have a node's agent say who may start; it knows the pods that wait there, unless others are named."""
        pods = tuple(waiting.pod.uid for waiting in self.permits.pods.on(node)) if knows is None else tuple(knows)
        may_start = tuple(Permit(uid=uid, container=container) for uid, container in permits)
        self.permits.reported(NodeReport(node=node, at=1.0, permits=may_start, blind=blind, pending_pods=pods))

    def turn(self, later: float = 0.0) -> None:
        """Let time pass, then a turn, and wait for what it has begun."""
        self.now += later
        self.permits.write_due()
        deadline = time.monotonic() + 10
        while self.permits._busy and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not self.permits._busy


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.permits.stop()


def test_a_container_is_let_in_by_its_own_key_and_its_kubelet_is_told(world: World) -> None:
    world.arrive(row("u1", "a", "b"))
    world.report(("u1", "a"))
    world.turn()
    assert world.cluster.keys() == {"a"}
    made = world.cluster.objects["/api/v1/namespaces/shop/configmaps/permits-1"]["metadata"]
    assert made["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "u1", "uid": "u1"}]
    assert PERMITTED_AT in world.cluster.pod("u1")["metadata"]["annotations"]
    world.report(("u1", "b"))
    world.turn()
    assert world.cluster.keys() == {"a", "b"}, "what is there stays: a restart needs it"
    assert world.counted == [("granted", 1), ("granted", 1)]


def test_a_report_that_comes_before_the_pod_is_known_is_not_lost(world: World) -> None:
    world.report(("u1", "a"))
    world.turn()
    assert world.cluster.writes == []
    world.arrive(row("u1", "a"))
    world.turn()
    assert world.cluster.keys() == {"a"}


def test_an_agent_speaks_for_gated_containers_of_its_own_node_alone(world: World) -> None:
    world.arrive(row("u1", "a", node="node-2"), row("u2", "b", config_map=None), row("u3", "c"))
    world.report(("u1", "a"), ("u2", "b"), ("u3", "free"), ("u4", "d"))
    world.turn()
    assert world.cluster.writes == []


def test_nothing_is_written_twice_unless_it_is_said_again_and_was_not_used(world: World) -> None:
    world.arrive(row("u1", "a"))
    world.report(("u1", "a"))
    world.turn()
    before = len(world.cluster.writes)
    for _ in range(5):
        world.turn(SWEEP_SECONDS)
    assert len(world.cluster.writes) == before, "of what was said before it was written nothing follows"
    del world.cluster.objects["/api/v1/namespaces/shop/configmaps/permits-1"]
    world.report(("u1", "a"))
    world.turn(AGAIN_SECONDS)
    assert world.cluster.keys() == {"a"}, "somebody had deleted it"


def test_a_config_map_that_is_not_ours_is_left_alone_and_that_is_told_once(world: World) -> None:
    theirs = {"metadata": {"labels": {}, "ownerReferences": []}, "data": {"a": "important"}}
    world.cluster.objects["/api/v1/namespaces/shop/configmaps/permits-1"] = theirs
    world.arrive(row("u1", "a"), row("u2", "b", config_map="permits-2"))
    world.report(("u1", "a"), ("u2", "b"))
    world.turn()
    assert world.cluster.objects["/api/v1/namespaces/shop/configmaps/permits-1"] == theirs
    assert world.events == [("u1", "PermitNotWritten")]
    assert world.cluster.keys("permits-2") == {"b"}
    tries = world.cluster.writes.count("configmaps")
    world.report(("u1", "a"))
    world.turn(REFUSED_SECONDS / 2)
    assert world.cluster.writes.count("configmaps") == tries, "it is not tried all the time"
    world.turn(REFUSED_SECONDS)
    assert world.events == [("u1", "PermitNotWritten")]
    assert ("refused", 1) in world.counted


def test_names_that_no_review_gives_are_no_ones(world: World) -> None:
    bad = ("kube-root-ca.crt", "permits-", "permits-../x", "permits-A", "coredns", "permits-" + "a" * 64)
    world.arrive(*(row(f"u{number}", "a", config_map=name) for number, name in enumerate(bad)))
    world.report(*((f"u{number}", "a") for number in range(len(bad))))
    world.turn()
    assert world.cluster.writes == []


def test_a_copy_of_a_pod_becomes_an_owner_of_its_config_map_too(world: World) -> None:
    world.arrive(row("u1", "a"))
    world.report(("u1", "a"))
    world.turn()
    world.arrive(row("u2", "b"))
    world.report(("u2", "b"))
    world.turn()
    found = world.cluster.objects["/api/v1/namespaces/shop/configmaps/permits-1"]
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == ["u1", "u2"]
    assert world.cluster.keys() == {"a", "b"}


def test_a_pod_of_the_same_name_is_not_poked_for_another(world: World) -> None:
    world.arrive(row("u1", "a", name="api-0"))
    world.cluster.pod("api-0")["metadata"]["uid"] = "u9"
    world.report(("u1", "a"))
    world.turn()
    assert world.cluster.pod("api-0")["metadata"]["annotations"] == {}
    assert world.events == []


def test_an_api_server_that_fails_delays_and_loses_nothing(world: World) -> None:
    world.arrive(row("u1", "a"))
    world.cluster.fails = lambda path: Unreachable("refused")
    world.report(("u1", "a"))
    world.turn()
    assert world.counted == [("failed", 1)]
    world.cluster.fails = lambda path: None
    world.turn(RETRY_SECONDS + SWEEP_SECONDS)
    world.turn()
    assert world.cluster.keys() == {"a"}
    assert world.events == []


def test_a_poke_that_fails_is_made_up_for(world: World) -> None:
    world.arrive(row("u1", "a"))
    world.cluster.fails = lambda path: Unreachable("reset") if "/pods/" in path else None
    world.report(("u1", "a"))
    world.turn()
    world.cluster.fails = lambda path: None
    world.turn(RETRY_SECONDS + SWEEP_SECONDS)
    world.turn()
    assert PERMITTED_AT in world.cluster.pod("u1")["metadata"]["annotations"]


def test_who_does_not_lead_writes_nothing_and_who_leads_next_goes_by_new_reports(world: World) -> None:
    world.leads = False
    world.arrive(row("u1", "a"))
    world.report(("u1", "a"))
    world.turn()
    world.leads = True
    world.turn(SWEEP_SECONDS)
    assert world.cluster.writes == [], "what was said to a standby may be old"
    world.report(("u1", "a"))
    world.turn()
    assert world.cluster.keys() == {"a"}


def test_pods_of_a_node_without_an_agent_start_after_a_while_and_that_is_told(world: World) -> None:
    world.arrive(row("u1", "a", "b"))
    world.turn()
    world.turn(FAIL_OPEN - 1)
    assert world.cluster.keys() == set()
    world.arrive(row("u2", "c", config_map="permits-2"))
    world.turn(2)
    assert world.cluster.keys() == {"a", "b"}
    assert world.cluster.keys("permits-2") == set(), "its own time runs from when it came"
    assert world.events == [("u1", "StartPermitSkipped")]
    world.turn(FAIL_OPEN)
    assert world.cluster.keys("permits-2") == {"c"}
    writes = len(world.cluster.writes)
    world.turn(SWEEP_SECONDS)
    assert len(world.cluster.writes) == writes
    world.turn(OPEN_AGAIN_SECONDS)
    assert len(world.cluster.writes) > writes, "somebody may have deleted it meanwhile"


def test_a_controller_that_was_stopped_hears_agents_before_it_lets_pods_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.arrive(row("u1", "a"))
    world.report()
    world.turn()

    def stopped(seconds: float) -> bool:
        world.now += 3600
        return False

    with monkeypatch.context() as patch:
        patch.setattr(world.permits._wake, "wait", stopped)
        world.permits._rest()
    world.turn()
    assert world.cluster.keys() == set(), "its agent may have reported meanwhile"
    world.turn(FAIL_OPEN + PATIENCE)
    assert world.cluster.keys() == {"a"}


def test_an_agent_that_reports_keeps_its_pods_waiting(world: World) -> None:
    world.arrive(row("u1", "a"))
    for _ in range(30):
        world.report()
        world.turn(PATIENCE / 2)
    assert world.cluster.writes == []


@pytest.mark.parametrize("agent", [{"blind": "the watch is refused"}, {"knows": ["another"]}], ids=["blind", "one pod"])
def test_an_agent_that_does_not_see_a_pod_lets_it_wait_no_longer_than_one_that_is_gone(
    world: World, agent: dict[str, Any]
) -> None:
    world.arrive(row("u1", "a"))
    waited = 0.0
    while not world.cluster.keys() and waited < 3 * FAIL_OPEN:
        world.report(**agent)
        world.turn(PATIENCE / 2)
        waited += PATIENCE / 2
    assert world.cluster.keys() == {"a"}
    assert FAIL_OPEN <= waited <= FAIL_OPEN + PATIENCE
    assert world.events == [("u1", "StartPermitSkipped")]


def test_an_agent_of_an_older_version_that_names_no_pods_knows_all_of_its_node(world: World) -> None:
    world.arrive(row("u1", "a"))
    for _ in range(30):
        world.permits.reported(NodeReport(node=NODE, at=1.0))
        world.turn(PATIENCE / 2)
    assert world.cluster.writes == []


def test_pods_that_wait_no_more_are_forgotten(world: World) -> None:
    world.arrive(row("u1", "a"))
    world.report(("u1", "a"))
    world.turn()
    world.permits.pods.apply([(EventType.DELETED, row("u1", "a"))])
    world.report()
    world.turn(KEPT_SECONDS + 2 * PATIENCE + SWEEP_SECONDS)
    assert world.permits._written == {}
    assert world.permits._named == {}
    assert world.permits.pods.nodes == ()


def a_restart(world: World, node: str = NODE, config_map: str = "permits-1") -> None:
    """Have an agent say that a container of a pod that is not pending may start: its key was taken away."""
    metadata = {"name": "api-0", "uid": "u1", "annotations": {PERMITS_IN: "permits-1"}}
    world.cluster.objects["/api/v1/namespaces/shop/pods/api-0"] = {"metadata": metadata, "spec": {"nodeName": NODE}}
    permit = Permit(uid="u1", container="a", namespace="shop", pod="api-0", config_map=config_map)
    world.permits.reported(NodeReport(node=node, at=1.0, permits=(permit,), pending_pods=()))


def test_a_key_that_was_taken_away_is_given_again_though_the_pod_is_pending_no_more(world: World) -> None:
    a_restart(world)
    world.turn()
    assert world.cluster.writes == [], "a watch may be behind for a moment"
    world.turn(UNSEEN_SECONDS)
    world.turn()
    assert world.cluster.keys() == {"a"}
    writes = len(world.cluster.writes)
    for _ in range(5):
        world.turn(SWEEP_SECONDS)
    assert len(world.cluster.writes) == writes, "until its agent says it again"


@pytest.mark.parametrize(
    ("node", "config_map"), [("node-2", "permits-1"), (NODE, "permits-2"), (NODE, "coredns"), (NODE, "")]
)
def test_what_an_agent_says_of_a_pod_that_is_not_seen_is_proved_first(world: World, node: str, config_map: str) -> None:
    a_restart(world, node, config_map)
    world.turn()
    for _ in range(4):
        world.turn(UNSEEN_SECONDS)
    assert not any("configmaps" in path for path in world.cluster.writes)
    assert PERMITTED_AT not in world.cluster.pod("api-0")["metadata"]["annotations"]
    assert world.events == []


def test_the_list_of_pods_forgets_what_is_not_in_a_new_list_and_keeps_since_when_the_others_wait() -> None:
    now = [5.0]
    news: list[str] = []
    pods = HeldPods(news.append, clock=lambda: now[0])
    pods.apply([(EventType.ADDED, row("u1", "a")), (EventType.ADDED, row("u2", "b", node="node-2"))])
    now[0] = 9.0
    pods.begin()
    pods.apply([(EventType.ADDED, row("u1", "a"))])
    pods.end()
    assert pods.uids == {"u1"}
    assert pods.nodes == (NODE,)
    assert [waiting.since for waiting in pods.on(NODE)] == [5.0]
    assert sorted(news) == [NODE, "node-2"]
    assert pods.get("u1") == HeldPod("u1", "shop", "u1", NODE, "permits-1", ("a",))


def test_its_thread_writes_as_soon_as_it_is_told() -> None:
    world = World()
    world.permits.start()
    world.arrive(row("u1", "a"))
    world.report(("u1", "a"))
    deadline = time.monotonic() + 10
    while not world.cluster.keys() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert world.cluster.keys() == {"a"}
    world.permits.stop()
    assert not any(thread.name == "permits" for thread in threading.enumerate())
