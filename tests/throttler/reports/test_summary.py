"""Reports in a few numbers, and added up: by differences of the node's own clock, whatever it says."""

from slack.throttler.fsm import State
from slack.throttler.reports.messages import ContainerRow, NodeReport
from slack.throttler.reports.summary import NodeSummary, is_moving, total


def row(state: State, since: float) -> ContainerRow:
    return ContainerRow(namespace="shop", pod="p", uid="u", container="app", state=state, since=since)


def test_only_what_waits_or_starts_moves() -> None:
    assert not is_moving(NodeReport(node="n", at=1.0, counts={State.READY: 9, State.FAILED: 1}))
    for state in (State.DOWNLOADING, State.BLOCKED, State.PENDING, State.STARTING):
        assert is_moving(NodeReport(node="n", at=1.0, counts={state: 1}))


def test_how_long_somebody_waits_does_not_depend_on_the_nodes_clock() -> None:
    rows = (row(State.PENDING, 9_000.0), row(State.PENDING, 9_020.0), row(State.BLOCKED, 10.0))
    summary = NodeSummary.of(NodeReport(node="n", at=9_030.0, containers=rows), now=100.0)
    assert summary.pending_since == 70.0
    assert total([summary], now=105.0).longest_wait_seconds == 35.0
    ahead = NodeSummary.of(NodeReport(node="n", at=1.0, containers=(row(State.PENDING, 50.0),)), now=100.0)
    assert ahead.pending_since == 100.0


def test_nodes_are_added_up() -> None:
    reports = [
        NodeReport(node=f"n{number}", at=1.0, counts={State.PENDING: number, State.READY: 2}, forced=1, opened=2)
        for number in range(3)
    ]
    nodes = [NodeSummary.of(report, 0.0) for report in reports]
    found = total(nodes, now=0.0)
    assert found.counts == {State.PENDING: 3, State.READY: 6} | {
        state: 0 for state in State if state not in (State.PENDING, State.READY)
    }
    assert (found.forced, found.opened, found.longest_wait_seconds) == (3, 6, 0.0)
