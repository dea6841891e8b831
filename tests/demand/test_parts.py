"""Ledger, placement, lifecycle, run times, subjects, history and targets, each by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.demand.guards import make_way
from slack.demand.history import QueueHistory
from slack.demand.ledger import ContainerLedger, retry_seconds
from slack.demand.lifecycle import EndCandidate, PoolState, awake, idle_ends, retained_count
from slack.demand.model import Creation, DemandSettings, Ending, EndReason, Guards
from slack.demand.placement import PlacementNode, place
from slack.demand.queue import Durations
from slack.demand.subjects import InvalidSubject, Subject, kafka_topic
from slack.demand.targets import DemandHistory, target_of
from tests.cases import run_for_each
from tests.demand.build import creating, key, lag, pool, ready

# --- placement -----------------------------------------------------------------------------------------------------


def test_the_least_loaded_node_is_taken_and_what_is_placed_counts_for_the_rest_of_the_batch() -> None:
    nodes = [
        PlacementNode("a", 8, containers=3),
        PlacementNode("b", 8, containers=1),
        PlacementNode("c", 8, containers=2),
    ]
    assert place(4, nodes) == ["b", "b", "c", "a"] or place(4, nodes)[:3] == ["b", "c", "b"]
    assert sorted(map(str, place(6, nodes))) == ["a", "b", "b", "b", "c", "c"]


def test_of_equally_loaded_nodes_the_one_with_fewer_creations_is_taken() -> None:
    assert place(1, [PlacementNode("a", 8, 1, 2), PlacementNode("b", 8, 2, 1)]) == ["b"]


def test_what_does_not_fit_has_no_node() -> None:
    assert place(3, [PlacementNode("a", 2, containers=1), PlacementNode("b", 0)]) == ["a", None, None]
    assert place(0, [PlacementNode("a", 2)]) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 4)), max_size=6), st.integers(0, 30))
def test_no_node_gets_more_than_it_has_room_for_and_none_is_left_empty(
    loads: list[tuple[int, int, int]], count: int
) -> None:
    nodes = [PlacementNode(f"n{i}", slots, there, coming) for i, (slots, there, coming) in enumerate(loads)]
    placed = place(count, nodes)
    assert len(placed) == count
    for node in nodes:
        assert placed.count(node.name) <= node.free
    assert placed.count(None) == max(count - sum(node.free for node in nodes), 0)


# --- ledger --------------------------------------------------------------------------------------------------------


def _creation(name: str) -> Creation:
    return Creation(id=name, key=key(), revision="r1", subject="act.media.thumb.128")


def test_what_was_asked_for_counts_until_it_is_seen() -> None:
    ledger = ContainerLedger()
    ledger.ask(_creation("c1"), 0.0)
    assert ledger.observe([], 1.0)[key()].in_creation == 1
    assert ledger.observe([creating("c1")], 1.0)[key()].in_creation == 1
    count = ledger.observe([ready("c1")], 1.0)[key()]
    assert (count.in_creation, len(count.ready), count.occupied) == (0, 1, 1)
    assert ledger.observe([], 1.0) == {}


def test_what_is_told_to_end_counts_until_it_is_gone() -> None:
    ledger = ContainerLedger()
    ledger.end(Ending(container_id="c1", key=key(), reason=EndReason.IDLE), 0.0)
    count = ledger.observe([ready("c1")], 1.0)[key()]
    assert (len(count.ready), count.draining, count.occupied) == (0, 1, 1)


@pytest.mark.parametrize(("timeout", "before", "after"), [(20.0, 19.9, 20.1), (300.0, 299.9, 300.1)])
def test_a_creation_is_late_after_its_time_out(timeout: float, before: float, after: float) -> None:
    """20 s for processes, 300 s for pods; one that was never seen is told to end too."""
    settings = pool(creation_timeout_seconds=timeout)
    ledger = ContainerLedger()
    ledger.ask(_creation("never-seen"), 0.0)
    count = ledger.observe([creating("slow")], 1.0)[key()]
    assert ledger.late(count, settings, before) == []
    late = ledger.late(count, settings, after)
    assert {ending.container_id for ending in late} == {"slow", "never-seen"}
    assert {ending.reason for ending in late} == {EndReason.TIMED_OUT}
    failing = ledger.failing(key())
    assert failing is not None
    assert failing.next_at_seconds == pytest.approx(after + 0.1)


@pytest.mark.parametrize("apart", [-3600.0, -400.0, 0.0, 400.0, 3600.0])
def test_a_creation_is_late_by_our_own_clock_however_far_the_clusters_is_away(apart: float) -> None:
    settings = pool(creation_timeout_seconds=300.0)
    ledger = ContainerLedger()
    ledger.observe([], 1000.0)
    seen_later = creating("c1", created_at_seconds=1000.0 + apart)
    count = ledger.observe([seen_later], 1001.0)[key()]
    assert count.oldest_creation_age_seconds(1002.0) == pytest.approx(2.0 if not apart else 1.0)
    assert ledger.late(count, settings, 1300.0) == []
    assert [ending.container_id for ending in ledger.late(count, settings, 1301.1)] == ["c1"]


@pytest.mark.parametrize("apart", [-3600.0, 3600.0])
def test_a_ready_container_is_held_since_we_saw_it_where_the_clusters_clock_is_away(apart: float) -> None:
    ledger = ContainerLedger()
    ledger.observe([], 1000.0)
    seen_later = ready("c1", ready_at_seconds=1000.0 + apart)
    for now in (1001.0, 1010.0):
        count = ledger.observe([seen_later], now)[key()]
        assert count.ready[0].ready_at_seconds == 1001.0
    assert ledger.observe([ready("c2", ready_at_seconds=1012.0)], 1014.0)[key()].ready[0].ready_at_seconds == 1012.0


def test_a_clock_that_goes_back_makes_nobody_wait_for_what_it_said_before() -> None:
    ledger = ContainerLedger()
    ledger.ask(_creation("c1"), 5000.0)
    ledger.failed(key("other"), 5000.0, "why")
    ledger.observe([creating("c2", created_at_seconds=5000.0)], 5000.0)
    ledger.turn_back(1000.0)
    count = ledger.observe([creating("c2", created_at_seconds=5000.0)], 1000.0)[key()]
    assert count.oldest_creation_age_seconds(1003.0) == 3.0
    failing = ledger.failing(key("other"))
    assert failing is not None
    assert failing.next_at_seconds == pytest.approx(1000.1)


def test_a_creation_that_waits_for_a_node_is_not_late() -> None:
    ledger = ContainerLedger()
    count = ledger.observe([creating("c1", unschedulable_since_seconds=1.0)], 1.0)[key()]
    assert ledger.late(count, pool(), 1e6) == []
    assert count.unschedulable == 1


def test_a_failed_creation_is_tried_again_after_100_ms_times_2_to_the_n_five_times_then_each_half_minute() -> None:
    assert [retry_seconds(n) for n in range(1, 8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 30.0, 30.0]
    ledger = ContainerLedger()
    ledger.ask(_creation("c1"), 0.0)
    ledger.refused("c1", 5.0, "quota exceeded")
    ledger.refused("c1", 5.0, "told twice")
    failing = ledger.failing(key())
    assert failing is not None
    assert (failing.failures, failing.next_at_seconds, failing.reason) == (1, 5.1, "quota exceeded")
    ledger.observe([ready("c2")], 1.0)
    assert ledger.failing(key()) is None


def test_the_median_creation_is_the_pools_own_else_that_of_all() -> None:
    ledger = ContainerLedger()
    assert ledger.median_creation_seconds(key()) is None
    ledger.observe(
        [ready("a", ready_at_seconds=1.0), ready("b", ready_at_seconds=2.0), ready("c", ready_at_seconds=9.0)], 9.0
    )
    assert ledger.median_creation_seconds(key()) == 2.0
    assert ledger.median_creation_seconds(key("other")) == 2.0
    ledger.forget(set())
    assert ledger.median_creation_seconds(key()) == 2.0


# --- lifecycle -----------------------------------------------------------------------------------------------------


def test_a_queue_is_awake_from_its_first_message_to_ten_seconds_without() -> None:
    assert not awake(None, 5.0)
    assert awake(5.0, 14.99)
    assert not awake(5.0, 15.0)


def _standing(**values: object) -> PoolState:
    base: dict[str, object] = {"pool": pool(), "ready": [], "last_traffic_seconds": 0.0, "quiet_since_seconds": None}
    return PoolState(**(base | values))  # type: ignore[arg-type]  # what a test gives is of the right type


@pytest.mark.parametrize("timeout", [10.0, 60.0])
def test_an_idle_container_ends_after_its_time_and_a_busy_one_does_not(timeout: float) -> None:
    containers = [ready("idle", idle_since_seconds=100.0), ready("busy")]
    standing = _standing(pool=pool(idle_timeout_seconds=timeout), ready=containers)
    assert idle_ends(standing, 100.0 + timeout - 0.1) == []
    assert [ending.container_id for ending in idle_ends(standing, 100.0 + timeout)] == ["idle"]


def test_containers_that_report_nothing_are_idle_while_their_queue_is_empty() -> None:
    standing = _standing(ready=[ready("new", ready_at_seconds=95.0), ready("old")], quiet_since_seconds=90.0)
    assert [ending.container_id for ending in idle_ends(standing, 100.0)] == ["old"]


def test_keep_warm_and_min_containers_stay() -> None:
    warm = pool(keep_warm=2, keep_warm_seconds=60.0, min_containers=1)
    assert [retained_count(warm, 0.0, now) for now in (60.0, 60.1)] == [2, 1]
    assert retained_count(warm, None, 0.0) == 1
    assert retained_count(pool(keep_warm=2, keep_warm_seconds=60.0, deleted=True), 0.0, 0.0) == 0
    containers = [ready(name, idle_since_seconds=since) for name, since in (("a", 20.0), ("b", 10.0), ("c", 30.0))]
    ended = idle_ends(_standing(pool=warm, ready=containers), 59.0)
    assert [ending.container_id for ending in ended] == ["b"]


def _candidate(name: str, action: str, idle: float | None, held: float = 0.5, waits: bool = False) -> EndCandidate:
    return EndCandidate(
        container=ready(name, action), idle_seconds=idle, held_seconds=held, hold_seconds=1.0, waits=waits
    )


def test_g2_takes_the_longest_idle_of_actions_with_more_than_one_first() -> None:
    found = [_candidate("a1", "a", 0.1), _candidate("a2", "a", 0.05), _candidate("b1", "b", 9.0)]
    spare = {key("a"): 2, key("b"): 1}
    assert [ending.container_id for ending in make_way(3, found, spare, Guards())] == ["a1", "b1"]
    assert [ending.reason for ending in make_way(1, found, spare, Guards())] == [EndReason.EVICTED]
    assert make_way(3, found, spare, Guards.parse("none")) == []


def test_g2_takes_a_last_container_only_after_200_ms_and_never_what_its_owner_always_wants() -> None:
    assert make_way(1, [_candidate("b", "b", 0.2)], {key("b"): 1}, Guards.parse("G2")) == []
    assert make_way(1, [_candidate("b", "b", 0.21, waits=True)], {key("b"): 1}, Guards.parse("G2")) == []
    assert make_way(1, [_candidate("b", "b", 0.21)], {key("b"): 0}, Guards.parse("G2")) == []
    assert len(make_way(1, [_candidate("b", "b", 0.21)], {key("b"): 1}, Guards.parse("G2"))) == 1


def test_g3_lets_busy_containers_yield_after_their_hold_time_where_most_are_first() -> None:
    found = [_candidate("a", "a", None, held=9.0), _candidate("b1", "b", None, held=1.1)]
    found += [_candidate("b2", "b", None, held=1.2), _candidate("b3", "b", None, held=1.0)]
    spare = {key("a"): 1, key("b"): 3}
    ended = make_way(9, found, spare, Guards())
    assert [ending.container_id for ending in ended] == ["b2", "b1", "a"]
    assert {ending.reason for ending in ended} == {EndReason.YIELDED}
    assert make_way(9, found, spare, Guards.parse("G1,G2")) == []


# --- run times -----------------------------------------------------------------------------------------------------


def test_the_mean_is_that_of_the_last_ten_runs() -> None:
    durations = Durations()
    assert durations.mean_ms is None
    durations.reported([1000.0] * 5 + [10.0] * 9 + [20.0, -1.0])
    assert durations.mean_ms == 11.0


def test_without_reports_the_mean_is_what_is_held_over_what_comes_through() -> None:
    """Four messages in containers' hands, eighty finished a second: each takes 50 ms."""
    durations = Durations()
    durations.counted(0.1, 4.0, 8)
    assert durations.mean_ms == pytest.approx(50.0)
    durations.counted(0.1, 4.0, 8)
    assert durations.mean_ms == pytest.approx(50.0)
    durations.counted(0.0, 4.0, 8)
    durations.reported([7.0])
    assert durations.mean_ms == 7.0


def test_runs_that_are_never_seen_under_way_are_not_of_no_length() -> None:
    durations = Durations()
    durations.counted(0.1, 0.0, 30)
    assert durations.mean_ms == 1.0


# --- subjects ------------------------------------------------------------------------------------------------------


def test_a_subject_has_namespace_action_and_memory() -> None:
    subject = Subject.from_action("media", "thumbnail", 256)
    assert str(subject) == "act.media.thumbnail.256"
    assert Subject.parse("act.media.thumbnail.256") == subject
    assert kafka_topic("media", "thumbnail", 256) == "media-thumbnail-256MB"
    assert str(subject.key) == "media/thumbnail"


@run_for_each("name", ["", "Media", "a.b", "*", ">", "a*", "-a", "a-", "a b", "a\n", "x" * 64, "ä"])
def test_names_that_cannot_be_part_of_a_subject_are_refused(name: str) -> None:
    with pytest.raises(InvalidSubject, match="lower case letters"):
        Subject.from_action("media", name, 256)
    with pytest.raises(InvalidSubject, match="namespace"):
        Subject.from_action(name, "thumbnail", 256)


@pytest.mark.parametrize(
    "text", ["act.a.b", "act.a.b.c", "act.a.b.01", "x.a.b.1", "act.a.b.1.2", "act.a.b.0", "act.a.b.²"]
)
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(InvalidSubject):
        Subject.parse(text)


# --- history -------------------------------------------------------------------------------------------------------


def test_what_waited_a_window_ago_and_was_not_taken_since_is_stale() -> None:
    history = QueueHistory()
    history.add_reading(0.0, lag(0), 0.2)
    history.add_reading(0.1, lag(10, delivered=5), 0.2)
    assert history.stale(0.1) == 0
    history.add_reading(0.2, lag(12, delivered=9), 0.2)
    assert history.stale(0.1) == 6
    history.add_reading(0.3, lag(2, delivered=30), 0.2)
    assert history.stale(0.1) == 0


def test_without_a_count_of_what_was_taken_what_waited_all_the_time_is_stale() -> None:
    history = QueueHistory()
    for tick, backlog in enumerate([10, 4, 9]):
        history.add_reading(tick * 0.1, lag(backlog, delivered=None), 0.2)
    assert history.stale(0.2) == 4
    assert (history.rates().arrivals, history.rates().completions) == (0.0, 0.0)


def test_rates_are_those_of_the_last_second() -> None:
    history = QueueHistory()
    for tick in range(31):
        history.add_reading(tick * 0.1, lag(tick, 2, tick * 3), 0.2)
    rates = history.rates()
    assert rates.arrivals == pytest.approx(40.0, rel=0.05)
    assert rates.completions == pytest.approx(30.0, rel=0.05)


def test_a_queue_that_is_another_under_the_same_name_and_a_clock_that_goes_back_begin_anew() -> None:
    history = QueueHistory()
    history.add_reading(5.0, lag(9, delivered=100), 0.2)
    assert history.add_reading(5.1, lag(9, delivered=3), 0.2) is None
    assert history.stale(0.1) == 0
    assert history.add_reading(4.0, lag(9, delivered=4), 0.2) is None
    history.clear()
    assert history.stale(0.1) == 0


# --- targets -------------------------------------------------------------------------------------------------------


def _played(wanted: list[int], **settings: float) -> DemandHistory:
    history = DemandHistory()
    for step, count in enumerate(wanted):
        history.observe(step * 10.0, count, 60.0, DemandSettings(**settings))  # type: ignore[arg-type]  # numbers only
    return history


def test_growth_is_what_is_wanted_more_than_one_horizon_ago() -> None:
    assert _played(list(range(20))).growth(19) == 7
    assert _played([5] * 20).growth(5) == 0
    assert DemandHistory().growth(5) == 0


def test_the_peak_is_the_percentile_of_what_was_wanted_more_within_a_horizon() -> None:
    quiet = [0] * 60
    burst = _played([*quiet, 12, 12, *quiet], percentile=99.0)
    assert burst.peak_increment == 12
    assert _played([*quiet, 12, 12, *quiet], percentile=50.0).peak_increment == 0
    assert not burst.quiet


def test_what_was_longer_ago_than_the_window_is_forgotten() -> None:
    history = _played([0] * 20 + [12, 12] + [0] * 200, window_seconds=600.0)
    assert history.peak_increment == 0


@pytest.mark.parametrize(("before", "rise"), [(0, 12), (12, 0), (None, 0)])
def test_a_new_pools_first_burst_is_a_rise_and_what_a_new_leader_finds_is_none(before: int | None, rise: int) -> None:
    history = DemandHistory()
    for step in range(12):
        history.observe(1000.0 + step * 10.0, 12, 60.0, DemandSettings(), before=before)
    assert history.peak_increment == rise


def test_a_gap_in_what_is_told_is_filled() -> None:
    history = DemandHistory()
    history.observe(0.0, 0, 60.0, DemandSettings())
    history.observe(1000.0, 3, 60.0, DemandSettings())
    history.observe(900.0, 3, 60.0, DemandSettings())
    assert history.growth(3) == 0


def _target(history: DemandHistory, wanted: int, warm: int = 0, room: int = 100, publish: bool = True) -> int:
    settings = DemandSettings(publish=publish)
    found = target_of(history, settings, wanted=wanted, unmet=0, keep_warm_shortfall=warm, room=room)
    return found.slack_pods


def test_slack_holds_the_largest_of_the_three_and_never_more_than_there_is_room_for() -> None:
    history = _played([0] * 60 + [12] + [0] * 60)
    assert _target(history, 0, warm=3) == 12
    assert _target(history, 0, warm=20) == 20
    assert _target(history, 0, room=4) == 4
    assert _target(history, 0, room=-4) == 0
    assert _target(history, 0, publish=False) == 0


def test_the_target_rises_at_once_and_falls_after_ten_minutes() -> None:
    history, settings = DemandHistory(), DemandSettings()
    history.observe(0.0, 0, 60.0, settings)
    assert _target(history, 0, warm=5) == 5
    history.observe(595.0, 0, 60.0, settings)
    assert _target(history, 0) == 5
    history.observe(615.0, 0, 60.0, settings)
    assert _target(history, 0) == 0
