"""A SlackScale drives the policy of its name, by its /scale, and nothing else does or is driven."""

import json
import threading
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.watch import EventType
from slack_operator.placeholders.policies import DesiredPolicies
from slack_operator.scaling.policy_scaler import AGAIN_SECONDS, MAX_BACKOFF_SECONDS, PolicyScaler
from slack_operator.scaling.scale_sink import ScaleSink
from tests.operator.fakes import NAMESPACE, Clock, policy

Json = dict[str, Any]
SCALES = f"/apis/resource-slack.io/v1alpha1/namespaces/{NAMESPACE}/slackscales"
POLICIES = "/apis/resource-slack.io/v1alpha1/slackpolicies"
VERSIONS = count(1)


class Server:
    """Keeps policies and SlackScales by name, and every write."""

    def __init__(self) -> None:
        self.policies: dict[str, Json] = {}
        self.scales: dict[str, Json] = {}
        self.writes: list[tuple[str, Any]] = []
        self.refusal: ApiError | None = None
        self.status_refusal: ApiError | None = None

    def put_status(self, name: str, status: Json) -> None:
        found = self.scales[name]
        found["metadata"]["resourceVersion"] = str(next(VERSIONS))
        found["status"] = status

    def request(self, method: str, path: str, *, body: Any = None, **_: object) -> bytes:
        assert method == "PATCH"
        self.writes.append((path, body))
        if self.refusal is not None and path.startswith(POLICIES):
            raise self.refusal
        name = path.rpartition("/")[0].rpartition("/")[2]
        if path == f"{POLICIES}/{name}/scale":
            found = self.policies[name]
            found["spec"] = {**found["spec"], "extraCapacity": dict(body["spec"])}
            found["metadata"]["generation"] += 1
        else:
            assert path == f"{SCALES}/{name}/status"
            if self.status_refusal is not None:
                raise self.status_refusal
            self.put_status(name, body["status"])
        return b"{}"


class World:
    """One process in front of the server; `turn` lets the watches catch up first."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clock = Clock()
        self.leading = True
        self.events: list[tuple[str, str]] = []
        self.sink = ScaleSink(lambda: None)
        self.desired = DesiredPolicies(lambda: None)
        self.scaler = PolicyScaler(
            Writer(server, threading.Event()),  # type: ignore[arg-type]
            lambda about, kind, reason, text: self.events.append((about.name, reason)),
            self.sink.scales,
            self.desired.entries,
            namespace=NAMESPACE,
            may_write=lambda: self.leading,
            clock=self.clock,
            wall=Clock(1_800_000_000.0),
        )

    def turn(self, seconds: float = 1.0, *, seen: bool = True) -> list[str]:
        """Return the paths that were written."""
        self.clock.now += seconds
        if seen:
            self.sink.begin()
            items = [json.dumps(item).encode() for item in self.server.scales.values()]
            self.sink.apply([(EventType.ADDED, msgspec.json.decode(item, type=wire.SlackScale)) for item in items])
            self.sink.end()
            documents = json.loads(json.dumps(list(self.server.policies.values())))
            self.desired.replace_all(documents, events_before=self.desired.events)
        before = len(self.server.writes)
        self.scaler.scale_due()
        return [path for path, _ in self.server.writes[before:]]

    def replicas(self, name: str = "web") -> int | None:
        found: int | None = self.server.policies[name]["spec"].get("extraCapacity", {}).get("replicas")
        return found

    def condition(self, name: str = "web") -> tuple[str, str]:
        (found,) = self.server.scales[name]["status"]["conditions"]
        return found["status"], found["reason"]


def scale(name: str, replicas: int, generation: int = 1) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": generation}
    metadata["resourceVersion"] = str(next(VERSIONS))
    return {"metadata": metadata, "spec": {"replicas": replicas}}


@pytest.fixture
def world() -> World:
    server = Server()
    server.policies["web"] = policy("web", extraCapacity={"minRate": 0.1})
    server.policies["web"]["status"] = {"replicas": 2, "selector": "a=b"}
    server.scales["web"] = scale("web", 3)
    return World(server)


def test_the_policy_gets_the_replicas_once_and_the_scale_its_figures(world: World) -> None:
    assert world.turn() == [f"{POLICIES}/web/scale", f"{SCALES}/web/status"]
    assert world.replicas() == 3
    assert world.turn() == []
    status = world.server.scales["web"]["status"]
    assert (status["replicas"], status["selector"], world.condition()) == (2, "a=b", ("True", "Followed"))
    world.server.policies["web"]["status"]["replicas"] = 3
    assert world.turn() == [f"{SCALES}/web/status"]
    assert world.server.scales["web"]["status"]["replicas"] == 3


def test_nothing_is_written_again_while_the_watches_lag(world: World) -> None:
    world.turn()
    assert world.turn(seen=False) == []
    assert f"{POLICIES}/web/scale" in world.turn(AGAIN_SECONDS + 1, seen=False), "its effect never shows"


def test_a_hand_on_the_policy_is_overruled_and_a_hand_on_the_status_too(world: World) -> None:
    world.turn()
    world.turn()
    found = world.server.policies["web"]
    found["spec"]["extraCapacity"]["replicas"] = 9
    found["metadata"]["generation"] += 1
    world.turn()
    assert world.replicas() == 3
    world.server.put_status("web", {**world.server.scales["web"]["status"], "replicas": 77})
    world.turn(AGAIN_SECONDS)
    assert world.server.scales["web"]["status"]["replicas"] == 2


def test_a_standby_writes_nothing(world: World) -> None:
    world.leading = False
    assert world.turn() == []
    world.leading = True
    assert world.turn() != []


def test_without_its_policy_a_scale_says_so_and_follows_when_it_comes(world: World) -> None:
    web = world.server.policies.pop("web")
    assert world.turn() == [f"{SCALES}/web/status"]
    assert world.condition() == ("False", "NoSuchPolicy")
    assert world.turn(60) == []
    world.server.policies["web"] = web
    world.turn()
    assert (world.replicas(), world.condition()) == (3, ("True", "Followed"))


def test_what_the_api_server_refuses_is_said_and_tried_again_after_a_pause(world: World) -> None:
    world.server.refusal = ApiError(422, "Invalid", "spec: an objective takes no replicas")
    assert world.turn() == [f"{POLICIES}/web/scale", f"{SCALES}/web/status"]
    assert world.condition() == ("False", "WriteRefused")
    assert "takes no replicas" in world.server.scales["web"]["status"]["conditions"][0]["message"]
    assert world.turn() == []
    assert world.turn(AGAIN_SECONDS) == [f"{POLICIES}/web/scale"]
    world.server.refusal = None
    world.turn(2 * AGAIN_SECONDS)
    world.turn()
    assert (world.replicas(), world.condition()) == (3, ("True", "Followed"))


def test_what_is_refused_for_long_is_tried_ever_less_often_and_another_number_at_once(world: World) -> None:
    world.server.refusal = ApiError(422, "Invalid", "spec: an objective takes no replicas")
    tries = [second for second in range(7200) if f"{POLICIES}/web/scale" in world.turn()]
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert len(tries) <= 7200 / MAX_BACKOFF_SECONDS * 2 + 6
    assert max(pauses[:2]) <= 2 * AGAIN_SECONDS + 1 < min(pauses[6:])
    assert max(pauses) <= MAX_BACKOFF_SECONDS + 1
    world.server.scales["web"] = scale("web", 4, generation=2)
    assert f"{POLICIES}/web/scale" in world.turn()
    world.server.refusal = None
    world.server.scales["web"] = scale("web", 5, generation=3)
    world.turn()
    world.turn()
    world.server.refusal = ApiError(422, "Invalid", "no")
    world.server.scales["web"] = scale("web", 6, generation=4)
    world.turn()
    assert f"{POLICIES}/web/scale" in world.turn(AGAIN_SECONDS), "success has reset the pauses"


def test_a_policy_that_cannot_be_used_is_no_success(world: World) -> None:
    world.server.policies["web"]["spec"]["granularity"] = 0
    world.turn()
    world.turn()
    assert world.condition() == ("False", "InvalidSpec")


def test_a_deleted_scale_leaves_the_policy_as_it_is(world: World) -> None:
    world.turn()
    del world.server.scales["web"]
    assert world.turn() == []
    assert world.replicas() == 3


@pytest.mark.parametrize("replicas", [-1, 2**31 - 1])
def test_replicas_out_of_range_are_no_success_and_the_next_ones_in_range_are_taken(world: World, replicas: int) -> None:
    """The CRD refuses them; where somebody has taken its bounds away the policy is not usable, and says why."""
    world.turn()
    world.turn()
    world.server.scales["web"] = scale("web", replicas, generation=2)
    for _ in range(3):
        world.turn()
    assert world.condition() == ("False", "InvalidSpec")
    assert "replicas" in world.server.scales["web"]["status"]["conditions"][0]["message"]
    world.server.scales["web"] = scale("web", 4, generation=3)
    world.turn()
    world.turn()
    assert (world.replicas(), world.condition()) == (4, ("True", "Followed"))


def put_back(w: World, replicas: int) -> None:
    found = w.server.policies["web"]
    found["spec"] = {**found["spec"], "extraCapacity": {"replicas": replicas}}
    found["metadata"]["generation"] += 1


@pytest.mark.parametrize("seconds", [pytest.param(1, marks=pytest.mark.thorough), 30])
def test_a_war_over_replicas_slows_down_and_is_named(seconds: int) -> None:
    w = World(Server())
    w.server.policies["web"] = policy("web", extraCapacity={"replicas": 2})
    w.server.scales["web"] = scale("web", 200)
    for _ in range(6 * 3600 // seconds):
        w.turn(seconds)
        if w.server.policies["web"]["spec"]["extraCapacity"]["replicas"] != 2:
            put_back(w, 2)
    writes = [path for path, _ in w.server.writes if path.endswith("/scale")]
    assert 6 <= len(writes) <= 20  # in six hours
    assert w.condition() == ("False", "WrittenBack")
    statuses = [path for path, _ in w.server.writes if path.endswith("/status")]
    assert len(statuses) <= 3 * len(writes)


def test_one_edit_by_hand_is_overwritten_at_once_and_no_war() -> None:
    w = World(Server())
    w.server.policies["web"] = policy("web", extraCapacity={"replicas": 2})
    w.server.scales["web"] = scale("web", 5)
    for _ in range(3):
        w.turn()
        w.turn()
        put_back(w, 2)
    w.turn()
    w.turn()
    assert w.server.policies["web"]["spec"]["extraCapacity"]["replicas"] == 5
    assert w.condition() == ("True", "Followed")


def test_an_autoscaler_that_changes_its_mind_often_is_no_war() -> None:
    w = World(Server())
    w.server.policies["web"] = policy("web", extraCapacity={"replicas": 2})
    for number in range(100):
        known = w.server.scales.get("web", {}).get("status", {})
        w.server.scales["web"] = {**scale("web", 3 + number % 7), "status": known}
        w.turn(2.0)
        assert w.server.policies["web"]["spec"]["extraCapacity"]["replicas"] == 3 + number % 7
    w.turn(AGAIN_SECONDS)
    assert w.condition() == ("True", "Followed")


def written_statuses(w: World) -> int:
    return sum(path.endswith("/status") for path, _ in w.server.writes)


@pytest.mark.parametrize(
    "foreign", [{}, {"replicas": 77, "selector": "a=b", "conditions": []}], ids=["wiped", "changed"]
)
@pytest.mark.parametrize("seconds", [10, 30])
def test_a_war_over_a_status_slows_down_and_is_named(world: World, seconds: int, foreign: Json) -> None:
    answered = 0
    for _ in range(6 * 3600 // seconds):
        world.turn(seconds)
        if written_statuses(world) > answered:
            answered = written_statuses(world)
            world.server.put_status("web", dict(foreign))
    assert 6 <= written_statuses(world) <= 40  # in six hours; every 15 s they were 1,440
    assert ("web", "WrittenBack") in world.events
    assert len(world.events) <= 20


def test_a_status_that_is_left_alone_says_so_and_is_right_again_once_the_war_is_over(world: World) -> None:
    world.turn()
    for _ in range(6):
        world.turn(AGAIN_SECONDS)
        world.server.put_status("web", {**world.server.scales["web"]["status"], "replicas": 77})
    world.turn(AGAIN_SECONDS)
    assert world.condition() == ("False", "WrittenBack")
    text = world.server.scales["web"]["status"]["conditions"][0]["message"]
    assert "somebody else" in text
    assert "10 min" in text
    world.turn(700.0)
    assert world.condition() == ("True", "Followed")
    assert world.server.scales["web"]["status"]["replicas"] == 2
    before = written_statuses(world)
    for _ in range(100):
        world.turn(AGAIN_SECONDS)
    assert written_statuses(world) == before


def test_figures_of_the_policy_reach_an_autoscaler_while_a_status_is_left_alone(world: World) -> None:
    world.turn()
    for _ in range(7):
        world.turn(AGAIN_SECONDS)
        world.server.put_status("web", {})
    world.turn(AGAIN_SECONDS)
    world.server.policies["web"]["status"]["replicas"] = 3
    world.turn()
    assert world.server.scales["web"]["status"]["replicas"] == 3


def test_what_others_add_to_a_status_is_left_and_makes_no_write(world: World) -> None:
    world.turn()
    world.turn()
    status = world.server.scales["web"]["status"]
    theirs = {
        "type": "Synced",
        "status": "True",
        "reason": "r",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    world.server.put_status("web", {**status, "conditions": [theirs, *status["conditions"]]})
    assert [world.turn(AGAIN_SECONDS) for _ in range(5)] == [[]] * 5


def test_a_refused_status_is_tried_ever_less_often(world: World) -> None:
    world.server.status_refusal = ApiError(403, "Forbidden", "admission webhook denied the request")
    for _ in range(3600):
        world.turn()
    assert 6 <= written_statuses(world) <= 30
    assert world.events == []
    world.server.status_refusal = None
    world.turn(2 * MAX_BACKOFF_SECONDS)
    assert world.condition() == ("True", "Followed")
