"""What an agent reports: who waits and why, times of day for people, and no more rows than a report may have."""

import time
from pathlib import Path
from typing import Any

import pytest

from slack.throttler.fsm import StartState
from slack.throttler.limits import UNKNOWN_USAGE, Limits
from slack.throttler.reports.messages import LatePod, NodeReport, ReportAnswer, decode_report, encode
from slack.throttler.reports.summary import is_moving
from slack_operator.throttler.agent import node_report
from slack_operator.throttler.agent.grant_coordinator import GRACE_SECONDS, GrantCoordinator
from slack_operator.throttler.agent.node_policy import Applied
from slack_operator.throttler.agent.node_report import Tallies
from slack_operator.throttler.agent.reporting import Reporting
from tests.operator.throttler.test_grant_coordinator import RUNS, a_desk, a_pod, arrive, row

APPLIED = Applied("default", 3)


def report(desk: GrantCoordinator, tallies: Tallies | None = None) -> NodeReport:
    made = node_report.report("n1", APPLIED, 4.0, desk, tallies or Tallies(), UNKNOWN_USAGE)
    assert decode_report(encode(made)) == made
    return made


def test_who_waits_is_told_with_its_place_and_why(tmp_path: Path) -> None:
    now = time.monotonic()
    desk = a_desk(tmp_path, now=now - GRACE_SECONDS - 30)
    for uid in ("first", "second", "third"):
        desk.update(a_pod(uid, row("app")), now - 10)
        desk.ask(uid, "app", now - 10)
    turn = desk.grant_due(now - 9)
    tallies = Tallies()
    tallies.count_tick(turn, opened=2)
    found = report(desk, tallies)
    assert (found.policy, found.policy_generation, found.cores, found.slots) == ("default", 3, 4.0, 1)
    assert found.counts == {StartState.STARTING: 1, StartState.PENDING: 2}
    assert (found.granted, found.forced, found.opened) == (1, 0, 2)
    assert [(entry.pod, entry.state, entry.position) for entry in found.containers] == [
        ("second", StartState.PENDING, 1),
        ("third", StartState.PENDING, 2),
        ("first", StartState.STARTING, 0),
    ]
    assert found.containers[0].reason == "1 start, and 1 may"
    assert found.at - found.containers[0].since == pytest.approx(10, abs=1)
    until = found.containers[2].until
    assert until is not None
    assert until - found.at == pytest.approx(51, abs=1)


def test_ready_containers_are_counted_and_not_listed(tmp_path: Path) -> None:
    now = time.monotonic()
    desk = a_desk(tmp_path, now=now)
    desk.update(a_pod("web", row("app", RUNS, "one", ready=True)), now)
    found = report(desk)
    assert (found.counts, found.containers) == ({StartState.READY: 1}, ())


def test_a_pod_whose_dependencies_cannot_be_kept_is_blocked_with_the_reason(tmp_path: Path) -> None:
    now = time.monotonic()
    desk = a_desk(tmp_path, now=now)
    desk.update(a_pod("web", row("a"), row("b"), depends='{"a": ["b"], "b": ["a"]}'), now)
    found = report(desk)
    assert found.counts == {StartState.BLOCKED: 2}
    assert [(entry.container, entry.state) for entry in found.containers] == [
        ("a", StartState.BLOCKED),
        ("b", StartState.BLOCKED),
    ]
    assert "a" in found.containers[0].reason


def test_those_that_are_too_many_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_report, "MAX_CONTAINERS", 2)
    now = time.monotonic()
    desk = a_desk(tmp_path, now=now)
    for number in range(5):
        desk.update(a_pod(f"p{number}", row("app")), now)
    found = report(desk)
    assert (len(found.containers), found.left_out) == (2, 3)


class Line:
    """An agent's side whose reports arrive at once."""

    def __init__(self, tmp_path: Path) -> None:
        self.counts: dict[StartState, int] = {}
        self.hurried = 0
        self.reporting = Reporting("http://127.0.0.1:1", None, tmp_path / "token", self.make, lambda outcome: None)
        pusher: Any = self.reporting._pusher
        pusher._send = lambda report: ReportAnswer(every_seconds=60.0, moving_seconds=7.0)
        pusher._spread = lambda least, most: most
        pusher.hurry = self.hurry

    def make(self) -> NodeReport:
        return NodeReport(node="n", at=1.0, counts=self.counts)

    def hurry(self) -> None:
        self.hurried += 1


def test_the_first_that_waits_is_told_at_once_and_the_others_in_their_time(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.reporting.moved()
    assert line.hurried == 0, "the first report is on its way"
    assert line.reporting._pusher.push() == pytest.approx(66.0)
    for _ in range(3):
        line.reporting.moved()
    assert line.hurried == 1
    line.counts = {StartState.PENDING: 1}
    assert line.reporting._pusher.push() == pytest.approx(7.7)
    line.reporting.moved()
    assert line.hurried == 1


def test_a_late_pod_is_reported_with_the_instance_that_the_agent_has_seen(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, Limits(slots=1, start_timeout_seconds=60.0, delete_late=True))
    arrive(desk, "u1", "a", "b")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1"), row("b")), 11.0)
    desk.grant_due(71.0)
    (late,) = report(desk).late
    assert (late.uid, late.namespace, late.pod, late.container, late.container_id) == ("u1", "shop", "u1", "a", "a1")
    desk.throttle.use(Limits(slots=1))
    assert report(desk).late == ()


def test_a_node_with_a_late_pod_alone_has_news() -> None:
    late = LatePod(uid="u1", container="a", namespace="shop", pod="u1")
    assert is_moving(NodeReport(node="n1", at=0.0, late=(late,)))
    assert not is_moving(NodeReport(node="n1", at=0.0))
