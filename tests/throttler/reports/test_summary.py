"""Reports in a few numbers, and added up: by differences of the node's own clock, whatever it says."""

from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import ContainerRow, NodeReport
from slack.throttler.reports.summary import NodeSummary, is_moving, total


def row(state: StartState, since: float) -> ContainerRow:
    return ContainerRow(namespace="shop", pod="p", uid="u", container="app", state=state, since=since)


def test_only_what_waits_or_starts_moves() -> None:
    assert not is_moving(NodeReport(node="n", at=1.0, counts={StartState.READY: 9, StartState.FAILED: 1}))
    for state in (StartState.DOWNLOADING, StartState.BLOCKED, StartState.PENDING, StartState.STARTING):
        assert is_moving(NodeReport(node="n", at=1.0, counts={state: 1}))


def test_how_long_somebody_waits_does_not_depend_on_the_nodes_clock() -> None:
    rows = (
        row(StartState.PENDING, 9_000.0),
        row(StartState.PENDING, 9_020.0),
        row(StartState.BLOCKED, 10.0),
    )
    summary = NodeSummary.from_report(NodeReport(node="n", at=9_030.0, containers=rows), now=100.0)
    assert summary.pending_since == 70.0
    assert total([summary], now=105.0).longest_wait_seconds == 35.0
    ahead = NodeSummary.from_report(
        NodeReport(node="n", at=1.0, containers=(row(StartState.PENDING, 50.0),)), now=100.0
    )
    assert ahead.pending_since == 100.0


def test_nodes_are_added_up() -> None:
    reports = [
        NodeReport(
            node=f"n{number}",
            at=1.0,
            counts={StartState.PENDING: number, StartState.READY: 2},
            forced=1,
            opened=2,
        )
        for number in range(3)
    ]
    nodes = [NodeSummary.from_report(report, 0.0) for report in reports]
    found = total(nodes, now=0.0)
    assert found.counts == {StartState.PENDING: 3, StartState.READY: 6} | {
        state: 0 for state in StartState if state not in (StartState.PENDING, StartState.READY)
    }
    assert (found.forced, found.opened, found.longest_wait_seconds) == (3, 6, 0.0)
