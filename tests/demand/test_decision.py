"""Table 2.1, row by row, each also at its bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.demand.decision import ROWS, capacity, decide
from slack.demand.guards import apply_guards
from slack.demand.model import Clip, DecisionGuard, Guards, QueueDecision, QueueFigures, QueueState
from tests.demand.build import figures

FULL = {"namespace_containers": 20}
OVER = {"over_provision_ratio": 1.5}
THROTTLED = {"state": QueueState.NAMESPACE_THROTTLED}

CASES: list[tuple[int, str, dict[str, Any], dict[str, Any]]] = [
    (1, "the namespace may have none", {"namespace_limit": 0}, {"pausing": True}),
    (1, "the action may have none", {"action_limit": 0, "queued": 5}, {"pausing": True, "add": 0}),
    (1, "below none", {"action_limit": -3}, {"pausing": True}),
    (1, "while flushing it stays so", {"namespace_limit": 0, "state": QueueState.FLUSHING}, {"pausing": False}),
    (2, "full, without a container", FULL | {"queued": 1}, {"throttle": True, "add": 0}),
    (2, "full, with one", FULL | {"containers": 1}, {"throttle": True}),
    (2, "full by a creation", {"namespace_containers": 19, "namespace_creating": 1}, {"throttle": True}),
    (2, "the action is full", {"containers": 10}, {"throttle": True, "clipped_by": Clip.ACTION_LIMIT}),
    (2, "above the ratio too", OVER | {"namespace_containers": 30}, {"throttle": True}),
    (3, "a place above the limit", FULL | OVER | THROTTLED | {"containers": 1}, {"throttle": False, "add": 0}),
    (4, "throttled already", FULL | THROTTLED, {"throttle": None, "add": 0}),
    (4, "running, above the limit there is room", FULL | OVER | {"containers": 1}, {"throttle": None, "add": 0}),
    (4, "flushing", FULL | {"state": QueueState.FLUSHING}, {"throttle": None, "add": 0}),
    (5, "a new queue", {"initialized": False}, {"add": 1, "initial": True}),
    (5, "the last place", {"initialized": False, "namespace_containers": 19}, {"add": 1, "initial": True}),
    (6, "room again", THROTTLED | {"namespace_containers": 19, "queued": 9}, {"throttle": False, "add": 0}),
    (6, "above the limit", THROTTLED | FULL | OVER | {"queued": 1}, {"throttle": False, "add": 0}),
    (7, "a message waits", {"queued": 1}, {"add": 1, "initial": False}),
    (7, "one is about to", {"incoming": 1}, {"add": 1}),
    (7, "a hundred wait", {"queued": 100, "stale": 100, "mean_duration_ms": 50.0}, {"add": 1}),
    (7, "above the limit", FULL | OVER | {"queued": 1}, {"add": 1}),
    (8, "no container could be created", {"state": QueueState.FLUSHING}, {"add": 1, "initial": True}),
    (9, "stale, nothing known", {"containers": 1, "queued": 5, "stale": 3}, {"add": 3}),
    (9, "concurrency", {"containers": 1, "queued": 5, "stale": 5, "concurrency": 2}, {"add": 3}),
    (9, "less what comes", {"containers": 1, "creating": 2, "queued": 5, "stale": 3}, {"add": 1}),
    (9, "as many come", {"containers": 1, "creating": 3, "queued": 5, "stale": 3}, {"add": 0}),
    (9, "clipped by the action", {"containers": 2, "queued": 50, "stale": 50}, {"add": 8, "throttle": None}),
    (
        9,
        "clipped by the namespace",
        {"containers": 2, "namespace_containers": 16, "queued": 50, "stale": 50},
        {"add": 4, "throttle": True, "clipped_by": Clip.NAMESPACE_LIMIT},
    ),
    # A container runs two messages of 50 ms in a window of 100 ms.
    (10, "as many as two run", {"containers": 2, "queued": 4, "mean_duration_ms": 50.0}, {"add": 0}),
    (10, "one more", {"containers": 2, "queued": 5, "mean_duration_ms": 50.0}, {"add": 1}),
    (10, "one fewer", {"containers": 2, "queued": 3, "mean_duration_ms": 50.0}, {"add": 0}),
    (10, "no more than messages", {"containers": 1, "queued": 4, "mean_duration_ms": 6000.0}, {"add": 3}),
    (10, "a container each already", {"containers": 4, "queued": 4, "mean_duration_ms": 6000.0}, {"add": 0}),
    (10, "stale ones", {"containers": 1, "queued": 4, "stale": 4, "mean_duration_ms": 50.0}, {"add": 2}),
    (10, "stale, less what comes", {"creating": 1, "queued": 4, "stale": 4, "mean_duration_ms": 50.0}, {"add": 1}),
    (
        10,
        "a window that is nothing beside a run",
        {"containers": 1, "queued": 3, "stale": 2, "mean_duration_ms": 1e12, "stale_window_ms": 5e-324},
        {"add": 2},
    ),
    (10, "stale and fresh", {"containers": 1, "queued": 9, "stale": 4, "mean_duration_ms": 50.0}, {"add": 4}),
    (10, "runs of no time", {"containers": 1, "queued": 9, "mean_duration_ms": 0.0}, {"add": 0}),
    (10, "runs of no time, stale", {"containers": 1, "queued": 9, "stale": 3, "mean_duration_ms": 0.0}, {"add": 3}),
    (10, "runs of hours", {"containers": 1, "queued": 3, "stale": 3, "mean_duration_ms": 1e12}, {"add": 3}),
    (11, "removing", {"state": QueueState.REMOVING, "queued": 4, "stale": 4, "mean_duration_ms": 50.0}, {"add": 2}),
    (12, "removing, nothing known", {"state": QueueState.REMOVING, "queued": 4, "stale": 4}, {"add": 4}),
    (13, "nothing waits", {"containers": 1}, {"add": 0}),
    (13, "fresh, nothing known", {"containers": 1, "queued": 5}, {"add": 0}),
    (13, "too long a queue", {"containers": 1, "queued": 9, "stale": 9, "state": QueueState.ACTION_THROTTLED}, {}),
    (13, "removing, nothing stale", {"state": QueueState.REMOVING, "queued": 4}, {"add": 0}),
]


@pytest.mark.parametrize(("row", "given_", "expected"), [pytest.param(r, g, e, id=f"{r}: {t}") for r, t, g, e in CASES])
def test_row(row: int, given_: dict[str, Any], expected: dict[str, Any]) -> None:
    decision = decide(figures(**given_), as_written=True)
    assert decision.row == row
    assert {name: getattr(decision, name) for name in expected} == expected


def test_every_row_has_its_cases() -> None:
    assert {row for row, *_ in CASES} == set(ROWS)


def test_as_written_a_message_that_grows_old_takes_containers_away_and_else_it_does_not() -> None:
    """A container that comes counts against the stale ones alone: 1 - 3 of them is less than nothing."""
    asked = {"creating": 3, "queued": 9, "mean_duration_ms": 100.0}
    assert decide(figures(**asked), as_written=True).add == 6
    assert decide(figures(**asked | {"queued": 10, "stale": 1}), as_written=True).add == 4
    assert decide(figures(**asked | {"queued": 10, "stale": 1})).add == 6


def test_a_queue_without_containers_whose_messages_wait_is_not_said_to_have_enough() -> None:
    for state in (QueueState.REMOVING, QueueState.ACTION_THROTTLED):
        for waiting in ({"queued": 3}, {"incoming": 3}):
            decision = decide(figures(state=state, **waiting))
            assert (decision.row, decision.add) == (13, 0)
            assert decision.reason.startswith("messages wait and there is no container")
        assert decide(figures(state=state)).reason == ROWS[13]


def test_the_actions_limit_is_never_more_than_its_namespaces() -> None:
    assert capacity(figures(action_limit=100, containers=15)) == 5


def test_g1_waits_for_the_first_container_and_no_longer_than_twice_the_median() -> None:
    waiting = {"creating": 1, "queued": 8, "stale": 8, "median_creation_seconds": 1.0}
    held = apply_guards(figures(**waiting, oldest_creation_age_seconds=2.0), Guards())
    assert (held.add, held.guard) == (0, DecisionGuard.FIRST_CONTAINER)
    assert apply_guards(figures(**waiting, oldest_creation_age_seconds=2.01), Guards()).add == 7
    assert apply_guards(figures(**waiting, oldest_creation_age_seconds=0.1), Guards.parse("none")).add == 7


def test_g1_waits_for_the_first_run_to_be_told_of() -> None:
    waiting = {"containers": 1, "queued": 8, "stale": 8}
    assert apply_guards(figures(**waiting, oldest_ready_age_seconds=0.6), Guards()).add == 0
    assert apply_guards(figures(**waiting, oldest_ready_age_seconds=0.61), Guards()).add == 8
    assert apply_guards(figures(**waiting, oldest_ready_age_seconds=0.1, mean_duration_ms=100.0), Guards()).add == 8


def test_g1_without_a_median_leaves_the_end_of_the_wait_to_the_creations_time_out() -> None:
    assert apply_guards(figures(creating=1, queued=8, stale=8, oldest_creation_age_seconds=19.0), Guards()).add == 0


def test_g4_decides_about_a_queue_that_is_too_long_as_about_any_other() -> None:
    long = figures(containers=1, queued=9000, stale=9000, mean_duration_ms=10.0, state=QueueState.ACTION_THROTTLED)
    assert apply_guards(long, Guards()).add == 9
    assert apply_guards(long, Guards()).guard is DecisionGuard.THROTTLED
    assert apply_guards(long, Guards.parse("G1,G2,G3,G5")).add == 0


def test_g5_tells_what_nodes_have_no_room_for() -> None:
    stale = figures(containers=1, creating=2, queued=9, stale=9, mean_duration_ms=100.0, node_room=3, unschedulable=2)
    cut = apply_guards(stale, Guards())
    assert (cut.add, cut.unmet, cut.clipped_by, cut.guard) == (3, 6, Clip.NODE_ROOM, DecisionGuard.UNMET)
    quiet = apply_guards(stale, Guards.parse("G1"))
    assert (quiet.add, quiet.unmet, quiet.clipped_by) == (3, 0, Clip.NODE_ROOM)


COUNT = st.integers(0, 40)
FIGURES = st.builds(
    figures,
    incoming=COUNT,
    queued=COUNT,
    containers=st.integers(0, 12),
    creating=st.integers(0, 12),
    namespace_containers=COUNT,
    namespace_creating=COUNT,
    namespace_limit=st.integers(-1, 60),
    action_limit=st.integers(-1, 30),
    concurrency=st.integers(1, 5),
    mean_duration_ms=st.none() | st.floats(0, 1e5),
    initialized=st.booleans(),
    state=st.sampled_from(QueueState),
    over_provision_ratio=st.none() | st.floats(1, 3),
    oldest_creation_age_seconds=st.none() | st.floats(0, 5),
    median_creation_seconds=st.none() | st.floats(0, 3),
    node_room=st.none() | st.integers(0, 20),
)


def _older(base: QueueFigures, stale: int) -> QueueFigures:
    values = {name: getattr(base, name) for name in QueueFigures.__dataclass_fields__}
    return QueueFigures(**values | {"stale": min(stale, base.available)})


@given(FIGURES, COUNT, st.integers(0, 30), st.booleans())
def test_more_backlog_never_means_fewer_containers(base: QueueFigures, stale: int, more: int, old: bool) -> None:
    before = _older(base, stale)
    values = {name: getattr(before, name) for name in QueueFigures.__dataclass_fields__}
    grown = {"queued": before.queued + more, "stale": before.stale + (more if old else 0)}
    after = QueueFigures(**values | grown)
    assert apply_guards(after, Guards()).add >= apply_guards(before, Guards()).add


@given(FIGURES, COUNT, st.sampled_from(["none", "all", "G1,G4"]))
def test_no_decision_exceeds_a_limit(base: QueueFigures, stale: int, guards: str) -> None:
    asked = _older(base, stale)
    decision: QueueDecision = apply_guards(asked, Guards.parse(guards))
    assert decision.add >= 0
    if decision.add and not asked.over_provision_ratio:
        used = asked.namespace_containers + asked.namespace_creating
        assert used + decision.add <= asked.namespace_limit
        assert asked.total + decision.add <= asked.action_limit
    assert decision.add <= max(asked.available, 1)
