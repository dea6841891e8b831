"""The leader's turns: reports in, statuses out, no more often than they may be, and none while nothing changes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slack.kube.errors import ApiError, InvalidAnswer, KubeError, Unreachable
from slack.kube.watch import EventType
from slack.process.reporting.packing import pack
from slack.throttler.config import parse_throttle_policy
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import ContainerRow, NodeReport, decode_answer, decode_view, encode
from slack_operator.runtime.callers import Caller, CallerRefused
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.report_receiver import Body
from slack_operator.throttler.controller import starts as starts_module
from slack_operator.throttler.controller.metrics import ThrottlerControllerMetrics
from slack_operator.throttler.controller.node_labels import NodeLabels, NodeRow, _Meta
from slack_operator.throttler.controller.policy_reporter import SETTLE_SECONDS, PolicyReporter
from slack_operator.throttler.controller.starts import Starts

Json = dict[str, Any]


class World:
    """A leader with its nodes, policies and reports; time goes as it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leads = True
        self.stale: str | None = None
        self.sees = True
        self.news = 0
        self.refuses: KubeError | None = None
        self.written: list[Json] = []
        self.events: list[tuple[str, str]] = []
        self.desired = Desired(lambda: None, parse_throttle_policy, "throttlepolicy")
        self.labels = NodeLabels()
        self.starts = Starts(self._hear, clock=lambda: self.now, wall=lambda: 1e9 + self.now)
        self.reporter = PolicyReporter(
            desired=self.desired,
            labels=self.labels,
            starts=self.starts,
            writer=SimpleNamespace(apply=self._apply),  # type: ignore[arg-type]
            recorder=SimpleNamespace(record=self._record),
            metrics=ThrottlerControllerMetrics(),
            may_write=lambda: self.leads,
            stale=lambda: self.stale,
            sees_nodes=lambda: self.sees,
            clock=lambda: self.now,
            wall=lambda: 1e9 + self.now,
        )

    def _hear(self) -> None:
        self.news += 1

    def _apply(self, path: str, body: Json, *, force: bool) -> None:
        if self.refuses is not None:
            raise self.refuses
        assert force
        assert path == f"/apis/resource-slack.io/v1alpha1/throttlepolicies/{body['metadata']['name']}/status"
        self.written.append(body)

    def _record(self, regarding: Any, kind: Any, reason: str, message: str) -> None:
        self.events.append((regarding.name, reason))

    def policy(self, name: str = "default", spec: Json | None = None, created: str = "2026-01-01T00:00:00Z") -> None:
        metadata = {"name": name, "uid": name, "generation": 1, "creationTimestamp": created}
        self.documents = [*getattr(self, "documents", []), document(metadata, spec)]
        assert self.desired.replace_all(self.documents, events_before=self.desired.events)

    def nodes(self, **labels: Json) -> None:
        self.labels.begin()
        self.labels.apply([(EventType.ADDED, NodeRow(_Meta(name, own))) for name, own in labels.items()])
        self.labels.end()

    def report(self, node: str, caller: str = "", blind: str = "", **counts: int) -> float:
        """Report as an agent does; returns when the next report is wanted while somebody waits."""
        by_state = {StartState(state): count for state, count in counts.items()}
        report = NodeReport(node=node, at=5.0, blind=blind, counts=by_state)
        answer = decode_answer(self.starts.accept_report(Caller("agent", caller or node), Body(*pack(encode(report)))))
        return answer.moving_seconds

    def turn(self, after: float = 5.0) -> list[Json]:
        """Let time pass, and do a turn; returns what it wrote."""
        self.now += after
        before = len(self.written)
        self.reporter.write_due()
        return [body["status"] for body in self.written[before:]]


def document(metadata: Json, spec: Json | None) -> Json:
    kind = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "ThrottlePolicy"}
    return kind | {"metadata": metadata, "spec": spec or {}}


@pytest.fixture
def world() -> World:
    made = World()
    made.policy()
    made.nodes(a={"pool": "web"}, b={})
    return made


def reasons(status: Json) -> dict[str, str]:
    return {row["type"]: row["reason"] for row in status["conditions"]}


def test_the_first_status_waits_until_every_node_has_had_its_time(world: World) -> None:
    world.report("a", pending=2)
    assert world.turn() == []
    world.report("b", ready=1)
    (status,) = world.turn()
    assert status["nodes"] == {"selected": 2, "reporting": 2, "silent": 0}
    assert (status["pending"], status["ready"], status["failed"]) == (2, 1, 0)
    assert reasons(status) == {"Ready": "StartsReported", "Overlapping": "NodesOfItsOwn", "NodesSilent": "AgentsHeard"}
    assert {row["observedGeneration"] for row in status["conditions"]} == {1}
    assert world.events == []


def test_who_never_reports_is_named_when_that_time_is_over(world: World) -> None:
    world.report("a")
    world.turn()
    (status,) = world.turn(SETTLE_SECONDS)
    assert status["nodes"] == {"selected": 2, "reporting": 1, "silent": 1}
    message = next(row["message"] for row in status["conditions"] if row["type"] == "Ready")
    assert message == "the agents of 1 node report; there was never one on b"
    assert reasons(status)["NodesSilent"] == "AgentsHeard"


def test_where_no_agent_reports_the_policy_is_not_ready_and_an_event_says_so(world: World) -> None:
    world.turn()
    (status,) = world.turn(SETTLE_SECONDS)
    assert reasons(status)["Ready"] == "NoAgentReports"
    assert world.events == [("default", "NoAgentReports")]


def test_an_agent_that_sees_no_pods_counts_as_silent_and_what_it_last_saw_is_not_summed(world: World) -> None:
    world.report("a", pending=2)
    world.report("b", ready=1)
    world.turn()
    world.report("a", blind="the watch is refused", pending=2)
    (status,) = world.turn()
    assert (status["nodes"]["silent"], status["pending"]) == (1, 0)
    assert reasons(status)["NodesSilent"] == "AgentsSilent"
    (silent,) = decode_view(world.starts.view()).silent
    assert (silent.node, silent.reason) == ("a", "the watch is refused")
    world.report("a", pending=1)
    (status,) = world.turn()
    assert (status["nodes"]["silent"], status["pending"]) == (0, 1)


def test_an_agent_that_stops_to_report_is_told_and_so_is_that_it_is_back(world: World) -> None:
    world.report("a", starting=1)
    world.report("b")
    world.turn()
    world.now += world.starts.silent_seconds
    world.report("b")
    (status,) = world.turn()
    assert (status["nodes"]["silent"], status["starting"]) == (1, 0)
    assert reasons(status)["NodesSilent"] == "AgentsSilent"
    view = decode_view(world.starts.view())
    assert [silent.node for silent in view.silent] == ["a"]
    world.report("a")
    (status,) = world.turn()
    assert reasons(status)["NodesSilent"] == "AgentsHeard"
    assert world.events == [("default", "AgentsSilent"), ("default", "AgentsHeard")]


def test_in_a_cluster_where_nothing_starts_nothing_is_written(world: World) -> None:
    for _ in range(100):
        world.report("a", ready=5)
        world.report("b", failed=1)
        world.turn(30.0)
    assert len(world.written) == 1
    assert world.news == 2


def test_counts_are_written_every_five_seconds_at_most_and_a_wait_alone_every_thirty(world: World) -> None:
    row = ContainerRow(namespace="shop", pod="p", uid="u", container="c", state=StartState.PENDING, since=5.0)
    world.report("b")
    for second in range(60):
        waiting = NodeReport(node="a", at=5.0 + second, counts={StartState.PENDING: 1}, containers=(row,))
        world.starts.accept_report(Caller("agent", "a"), Body(encode(waiting), ""))
        world.turn(1.0)
    assert len(world.written) == 2
    for second in range(60):
        world.report("a", pending=second)
        world.turn(1.0)
    assert 11 <= len(world.written) - 2 <= 13


def test_the_more_specific_policy_has_the_node_and_the_younger_equal_one_none(world: World) -> None:
    world.policy("web", {"nodeSelector": {"pool": "web"}}, "2026-02-01T00:00:00Z")
    world.policy("younger", {"nodeSelector": {"pool": "web"}}, "2026-03-01T00:00:00Z")
    world.report("a", pending=3)
    world.report("b", pending=1)
    world.turn()
    found = {body["metadata"]["name"]: body["status"] for body in world.written}
    assert {name: (status["nodes"]["selected"], status["pending"]) for name, status in found.items()} == {
        "default": (1, 1),
        "web": (1, 3),
        "younger": (0, 0),
    }
    assert reasons(found["younger"]) | {"NodesSilent": ""} == {
        "Ready": "NoNodeSelected",
        "Overlapping": "OlderPolicyChosen",
        "NodesSilent": "",
    }


def test_a_policy_that_cannot_be_read_says_so_at_once(world: World) -> None:
    world.policy("bad", {"minRate": "10", "maxRate": "0.1"})
    (status,) = world.turn()
    (condition,) = status["conditions"]
    assert condition["reason"] == "InvalidSpec"
    assert condition["message"].endswith("minRate is above maxRate; no node goes by it")


def test_a_node_that_is_gone_is_forgotten_unless_nodes_may_not_be_seen(world: World) -> None:
    world.report("a")
    world.report("b", pending=1)
    world.turn()
    world.nodes(a={})
    (status,) = world.turn()
    assert (status["nodes"]["selected"], status["pending"]) == (1, 0)
    world.report("gone")
    world.sees = False
    world.turn()
    assert "gone" in world.starts.heard()


def test_a_standby_writes_nothing_and_a_leader_that_comes_back_begins_anew(world: World) -> None:
    world.report("a", pending=1)
    world.report("b")
    world.turn()
    world.leads = False
    assert world.turn() == []
    assert world.starts.heard() == {}
    world.leads = True
    assert world.turn() == []
    world.report("a")
    world.report("b")
    assert [status["pending"] for status in world.turn()] == [0]


def test_half_a_view_of_the_nodes_is_acted_upon_by_nobody(world: World) -> None:
    world.report("a")
    world.report("b")
    world.stale = "/api/v1/nodes is not listed yet"
    assert world.turn() == []


@pytest.mark.parametrize(
    "failure",
    [
        *(ApiError(status, "no", "no") for status in (404, 409, 403)),
        Unreachable("timed out"),
        InvalidAnswer("a login page"),
    ],
)
def test_a_status_that_fails_is_tried_again(world: World, failure: KubeError) -> None:
    world.report("a")
    world.report("b")
    world.refuses = failure
    assert world.turn() == []
    world.refuses = None
    assert len(world.turn()) == 1


def test_a_lease_that_is_lost_within_a_turn_ends_it(world: World) -> None:
    world.report("a")
    world.report("b")
    answers = iter([True, False])
    world.reporter._may_write = lambda: next(answers)
    with pytest.raises(NotLeading):
        world.turn()
    assert world.written == []


def test_who_reports_on_another_node_or_garbage_is_refused(world: World) -> None:
    with pytest.raises(CallerRefused, match="pod agent is on node b and may not report on a") as caught:
        world.report("a", caller="b")
    assert caught.value.status == 403
    for body in (Body(b"{", ""), Body(b"x", "gzip"), Body(b"{}", ""), Body(b"{}", "br")):
        with pytest.raises(CallerRefused, match="the report cannot be read") as caught:
            world.starts.accept_report(Caller("agent", "a"), body)
        assert caught.value.status == 400


def test_more_nodes_than_can_be_kept_are_sent_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts_module, "MAX_NODES", 1)
    world.report("a")
    world.report("a")
    with pytest.raises(CallerRefused, match="more than 1 nodes report"):
        world.report("b")


def test_the_more_nodes_move_the_rarer_each_reports() -> None:
    world = World()
    assert world.report("n", pending=1) == 5.0
    for number in range(1000):
        pause = world.report(f"n{number}", pending=1)
    assert pause == pytest.approx(1001 / 50.0)
    for number in range(1000):
        pause = world.report(f"n{number}")
    assert pause == 5.0
    assert world.starts.every_seconds == 60.0


def test_a_view_is_of_all_of_a_node_or_of_a_pod(world: World) -> None:
    def rows(node: str) -> tuple[ContainerRow, ...]:
        return tuple(
            ContainerRow(namespace="shop", pod=f"{node}-{number}", uid="u", container="c", state=StartState.PENDING)
            for number in range(2)
        )

    for node in ("b", "a"):
        report = NodeReport(node=node, at=5.0, containers=rows(node))
        world.starts.accept_report(Caller("agent", node), Body(encode(report), ""))
    seen: Callable[..., Any] = lambda **asked: decode_view(world.starts.view(**asked)).reports  # noqa: E731
    assert [report.node for report in seen()] == ["a", "b"]
    assert [report.node for report in seen(node="b")] == ["b"]
    (found,) = seen(namespace="shop", pod="b-1")
    assert [row.pod for row in found.containers] == ["b-1"]
    assert seen(namespace="other", pod="b-1") == ()


def test_a_refused_status_is_tried_ever_less_often_and_written_once_it_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admission webhook, or the CRD of another version, refuses it for an hour."""
    tries = []

    def refuse(path: str, body: Json, *, force: bool) -> None:
        tries.append(world.now)
        raise ApiError(403, "Forbidden", "admission webhook denied the request")

    monkeypatch.setattr(world.reporter, "_writer", SimpleNamespace(apply=refuse))
    world.report("a")
    world.report("b")
    for _ in range(1800):
        world.turn(2.0)
    assert 6 <= len(tries) <= 35
    monkeypatch.setattr(world.reporter, "_writer", SimpleNamespace(apply=world._apply))
    assert len(world.turn(400.0)) == 1
