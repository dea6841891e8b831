"""An objective learns what comes within the lead time, and keeps it through bytes."""

import zlib
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from slack.planner.objective.amount import Amount
from slack.planner.objective.codec import MAGIC, MOST_BYTES, InvalidState, decode, encode
from slack.planner.objective.learner import Learner
from slack.planner.objective.needs import FloatArray, LatePodRates, Needs
from slack.planner.objective.patterns import FIRST_ROW, ROWS, rows_at, rows_between
from slack.planner.objective.turn import Turn
from slack.planner.objective.why_text import why_text
from slack.planner.policy.spec import Objective

START = 1_767_571_200.0
"""Monday, 5 January 2026, 0:00 UTC."""
GIB = 1 << 30
AIM = Objective(instant_start=0.95)
SHARED_HOURS = (12, 26, 30)
"""Each is learnt once, the longer ones from where the shorter ones end: at a burst, the last one's pods long gone."""


def fed(learner: Learner, hours: float, *, every: float = 1800.0, size: int = 10, start: float = START) -> float:
    """Play bursts of pods of a core that stay for five minutes, all of them at once; return when it ends."""
    at, end, ends = start, start + hours * 3600, [0.0]
    while at < end:
        at += 30
        burst = size if at % every < 30 else 0
        ends = [until for until in ends if until > at] + [at + 300] * burst
        pods = 20 + len(ends)
        arrived = {(1000, GIB): burst} if burst else {}
        learner.observe(Turn(at, (1000 * pods, GIB * pods), pods, 100.0, arrived, burst, 0), AIM)
        learner.correction.value = 0.0  # what is learnt, apart from what came of it
        learner.tally.really_late = learner.tally.expected_late
    return at


@cache
def _fed_for(hours: int) -> tuple[Learner, float]:
    before = max((less for less in SHARED_HOURS if less < hours), default=0)
    learner, at = after_hours(before) if before else (Learner(), START)
    return learner, fed(learner, hours - before, start=at)


def after_hours(hours: int) -> tuple[Learner, float]:
    """Return one that has learnt for so many hours, which no other test has, and when they end."""
    learner, at = _fed_for(hours)
    return deepcopy(learner), at


def test_it_begins_with_room_for_the_largest_burst_so_far_and_with_none_before_the_first() -> None:
    learner = Learner()
    learner.observe(Turn(START, (20_000, 20 * GIB), 20, 100.0), AIM)
    first = learner.amount(START, AIM)
    assert (first.cpu_millis, first.why.known) == (0, True)
    at = fed(learner, 0.6, size=4)
    assert learner.amount(at, AIM).cpu_millis == 4000
    at = fed(learner, 0.6, size=10, start=at)
    grown = learner.amount(at, AIM, 600.0)
    assert (grown.cpu_millis, grown.soon[0]) == (10_000, 10_000)
    assert grown.why.lacking == "14 of 40 pods seen"
    assert learner.amount(fed(learner, 3, start=at), AIM).why.lacking is None


@pytest.mark.parametrize(
    ("objective", "holds"),
    [
        pytest.param(0.95, False, marks=pytest.mark.thorough),
        (0.98, True),
        pytest.param(0.99, True, marks=pytest.mark.thorough),
    ],
)
def test_until_enough_is_known_the_rate_holds_as_well_for_a_high_objective(objective: float, holds: bool) -> None:
    learner, aim = Learner(), Objective(instant_start=objective)
    at = fed(learner, 0.6, size=4)
    assert learner.amount(at, aim).at_least_rate is holds
    at = fed(learner, 30, start=at)
    assert not learner.amount(at, aim).at_least_rate


def test_late_pods_count_from_the_first_one_on() -> None:
    learner = Learner()
    for turn in range(4):
        late = {(1000, GIB): turn}
        learner.observe(Turn(START + 60 * turn, (1000 * turn, GIB * turn), turn, 100.0, late, turn, turn), AIM)
    assert learner.correction.value > 0
    assert learner.amount(START + 240, AIM).why.lacking is not None


def test_it_keeps_room_for_the_bursts_that_came() -> None:
    learner, at = after_hours(30)
    before_a_burst = learner.amount(at - at % 1800 + 1800 - 60, AIM)
    assert 9000 <= before_a_burst.cpu_millis <= 11000
    assert before_a_burst.memory_bytes == pytest.approx(before_a_burst.cpu_millis / 1000 * GIB, rel=0.01)
    assert before_a_burst.why.started_today == 470


def test_what_is_wanted_again_before_the_shrink_delay_is_over_is_told() -> None:
    learner, at = after_hours(30)
    early = at - at % 1800 + 1800 - 8 * 60
    now, soon, later = (learner.amount(early, AIM, keep) for keep in (0.0, 600.0, 120.0))
    assert now.cpu_millis == soon.cpu_millis < 1000, "the burst is not near enough to ask for nodes"
    assert 9000 <= soon.soon[0] <= 11000, "but what is there is kept for it"
    assert later.soon[0] < 1000
    assert now.soon == (now.cpu_millis, now.memory_bytes)


def test_an_amount_that_trembles_by_less_than_a_sixth_stays() -> None:
    learner, at = after_hours(12)
    first = learner.amount(at, AIM)
    chosen = learner._chosen(at, AIM)
    for share in (1.1, 0.9):
        learner._kept = replace(chosen, rooms=chosen.rooms * share)
        assert learner.amount(at, AIM).cpu_millis == first.cpu_millis
    learner._kept = replace(chosen, rooms=chosen.rooms * 0.5)
    assert learner.amount(at, AIM).cpu_millis == -(-first.cpu_millis // 2)


def test_bytes_keep_what_was_learnt() -> None:
    learner, at = after_hours(12)
    data = encode(learner)
    again = decode(data)
    assert len(data) < MOST_BYTES
    kept, same = learner.amount(at, AIM), again.amount(at, AIM)
    assert same.cpu_millis == pytest.approx(kept.cpu_millis, rel=0.02)
    assert (same.mix, same.why.started_today, same.why.pattern) == (
        kept.mix,
        kept.why.started_today,
        kept.why.pattern,
    )


def taken(needs: Needs, pod: FloatArray) -> LatePodRates:
    """Return the table of a moment."""
    late = LatePodRates(needs, pod)
    while late.read_part(needs):
        pass
    return late


def test_no_turn_works_out_more_than_one_price_or_a_part_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    parts: list[bool] = []
    an_hour, take = LatePodRates.an_hour, LatePodRates.read_part

    def counted_part(late: LatePodRates, needs: Needs) -> bool:
        found = take(late, needs)
        parts.extend([True] * found)
        return found

    def counted(late: LatePodRates, price: float) -> FloatArray:
        calls.append(price)
        return an_hour(late, price)

    monkeypatch.setattr(LatePodRates, "an_hour", counted)
    monkeypatch.setattr(LatePodRates, "read_part", counted_part)
    learner = Learner()
    at = fed(learner, 2)
    assert learner.amount(at, AIM).why.known
    assert 85 <= len(calls) + len(parts) <= 91  # one a minute from the first burst on
    assert len(set(calls)) == 25
    assert len(parts) >= 12


def test_prices_tried_on_one_state_of_the_table_come_to_what_rows_come_to_alone() -> None:
    learner, _ = after_hours(12)
    needs, pod = learner.needs, np.array([1000.0, GIB])
    for price in (0.1, 1.0, 20.0):
        room, _ = needs.room(slice(None), np.array([[price] * ROWS, [price] * ROWS, [0.0] * ROWS]), pod)
        more = needs.largest > room[:, :, None]
        rows = (needs.pods * more).sum(axis=2).max(axis=1)
        ends = pairwise(FIRST_ROW)
        alone = [rows[first:end].sum() / max(needs.hours[first:end].sum(), 1e-9) for first, end in ends]
        assert taken(needs, pod).an_hour(price) == pytest.approx(alone, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("data", [b"", b"x" * 100, MAGIC + b"no stream", encode(Learner())[:-5]])
def test_bytes_that_are_no_learners_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(InvalidState):
        decode(data)


@pytest.mark.parametrize("days_off", [pytest.param(days, marks=pytest.mark.thorough) for days in (-2, 365)])
def test_a_clock_that_was_wrong_for_a_while_is_no_day_s_length_and_is_kept(days_off: int) -> None:
    learner, at = after_hours(26)
    fed(learner, 1, start=at + days_off * 86400)
    at = fed(learner, 26, start=at)
    assert len(learner.tally.days) <= 25
    assert all(at // 3600 - 24 <= hour <= at // 3600 for hour, _, _ in learner.tally.days)
    assert learner.mix.day == at // 86400
    assert list(decode(encode(learner)).tally.days) == list(learner.tally.days)


def test_what_the_largest_clusters_request_is_kept() -> None:
    learner, petabytes = Learner(), 5_000 * (4 << 40)
    for turn in range(10):
        learner.observe(Turn(START + 30 * turn, (10**9, petabytes + turn), 10**6, 100.0), AIM)
    assert decode(encode(learner)).most_seen[1] == pytest.approx(petabytes)


def test_a_past_that_somebody_has_made_up_asks_for_no_more_than_pods_that_were_seen_make_plausible() -> None:
    made_up = Learner()
    made_up.most_seen[:] = 1e17
    forged, anything = decode(encode(made_up)), np.full(2, 1e17)
    room, bounded = forged._bounded(anything, AIM)
    assert (room.tolist(), bounded) == ([1_000_000, 4 << 40], "most seen")
    forged.observe(Turn(START, (50_000, 50 * GIB), 50, 100.0), AIM)
    forged.observe(Turn(START + 30, (10_000, 10 * GIB), 10, 100.0), AIM)
    room, bounded = forged._bounded(anything, AIM)
    assert (room.tolist(), bounded) == ([5_000_000, 5000 * GIB], "most seen")


def test_a_cluster_that_has_shrunk_asks_for_as_much_as_its_past_needs() -> None:
    learner, at = after_hours(12)
    before_a_burst = at - at % 1800 + 1800 - 60
    kept, shrunk = decode(encode(learner)), decode(encode(learner))
    shrunk.observe(Turn(before_a_burst, (0, 0), 0, 100.0), AIM)
    assert shrunk.amount(before_a_burst, AIM).cpu_millis == kept.amount(before_a_burst, AIM).cpu_millis > 5000


def test_the_most_that_can_be_read_can_be_read_again_after_more_has_come() -> None:
    learner, most = Learner(), 10**17
    learner.tally.days.append((int(START // 3600), most, most))
    for name in ("hours", "started", "late", "faded_hours", "faded_started", "faded_crowd", "really_late"):
        setattr(learner.tally, name, float(most))
    learner.most_seen[:] = most
    learner.needs.hours[:] = learner.needs.largest[:] = most
    again = decode(encode(learner))
    for turn in range(10):
        again.observe(Turn(START + 30 * turn, (turn * 1000, turn * GIB), turn, 100.0, {}, 100, 100), AIM)
    assert again.tally.days[-1][1] > most
    assert decode(encode(again)).tally.days[-1] == (int(START // 3600), most, most)


def test_a_gap_is_not_learnt_as_quiet() -> None:
    learner = Learner()
    at = fed(learner, 6)
    hours, kept = learner.tally.hours, learner.needs.pods.copy()
    learner.observe(Turn(at + 86400, (0, 0), 0, 100.0), AIM)  # a day without turns
    learner.observe(Turn(at - 86400, (0, 0), 0, 100.0), AIM)  # the clock goes back
    assert learner.tally.hours == hours
    assert np.array_equal(learner.needs.pods, kept)


def test_nothing_that_came_asks_for_nothing() -> None:
    learner = Learner()
    at = START
    for _ in range(300):
        at += 60
        learner.observe(Turn(at, (1000, GIB), 1, 100.0), AIM)
    assert learner.amount(at, AIM) == Amount(0, 0, learner.amount(at, AIM).why, ())


def seen_a_wave_a_day(days: int) -> Learner:
    """Return a learner that has seen two pods every half hour, and thirty more at two in the night."""
    learner = Learner()
    for minute in range(5, days * 1440, 5):
        at = START + minute * 60
        learner.needs.watched(rows_at(at), 300)
        count = 30 if minute % 1440 == 120 else 2 if minute % 30 == 0 else 0
        if count:
            need = np.array([1000.0, GIB])
            learner.needs.came(rows_between(at - 130, at), 0 * need, count * need, count)
            learner.mix.came({(1000, GIB): count}, at)
            learner.tally.started += count
    tally = learner.tally
    tally.hours, tally.faded_hours, tally.faded_started = days * 24.0, days * 24.0, tally.started
    return learner


def test_a_higher_objective_never_keeps_less_and_none_keeps_room_for_a_nightly_wave_all_day() -> None:
    learner, midnight = seen_a_wave_a_day(2), START + 2 * 86400
    cpu = {}
    for share in (0.8, 0.9, 0.95, 0.97, 0.99):
        aim, same = Objective(instant_start=share), deepcopy(learner)
        cpu[share] = np.array([same._chosen(midnight + hour * 3600 + 3550, aim).rooms[:, 0] for hour in range(24)])
    for less, more in pairwise(cpu.values()):
        assert (less <= more).all()
    by_hour_of_day = cpu[0.99][:, 2]
    assert by_hour_of_day[1] == 30_000  # the room is asked for before the wave comes
    assert (by_hour_of_day > 10_000).sum() <= 2


def test_where_the_objective_lies_between_all_of_a_wave_and_none_a_part_of_it_is_kept() -> None:
    learner, midnight = seen_a_wave_a_day(2), START + 2 * 86400
    kept = {}
    for share in (0.7, 0.8, 0.9):  # of 126 pods a day thirty come in the wave: without room for it 76 % start at once
        aim = Objective(instant_start=share)
        kept[share] = deepcopy(learner)._chosen(midnight + 3600 + 3550, aim).rooms[2, 0]
    assert kept[0.7] < 3_000 < kept[0.8] < kept[0.9] < 30_000
    assert 17_400 <= kept[0.9] <= 21_000  # twelve or thirteen of the thirty may wait, and what is kept is in bins


def test_room_is_for_what_comes_at_the_full_minute_before_it_and_not_in_that_minute() -> None:
    at = START + 7200 + 0.5  # two o'clock, and half a second later it is seen
    minutes = [row - int(FIRST_ROW[4]) for row in rows_between(at - 130, at)[4].tolist()]
    assert minutes == [57, 58, 59] or minutes == [58, 59]
    assert rows_between(at - 130, at)[2].tolist() == [FIRST_ROW[2] + 1]


def test_a_row_is_known_from_its_second_time_on() -> None:
    learner = Learner()
    for minute in range(25 * 60):
        learner.observe(Turn(START + 60.0 * minute, (1000, 1 << 30), 1, 120.0), Objective(instant_start=0.9))
        if minute == 30:
            assert learner._knew.tolist() == [True, True, False, False, False, False]
        if minute == 23 * 60:
            assert learner._knew.tolist() == [True, True, False, False, True, False]
    assert learner._knew.tolist() == [True, True, True, False, True, True]


def test_a_usual_pods_window_is_the_wave_where_most_pods_come_in_waves_and_most_windows_have_one() -> None:
    learner = Learner()
    for turn in range(200):  # single pods, and after every nineteen of them a wave of twenty
        came = 20 if turn % 20 == 19 else 1
        learner.observe(Turn(START + 100 * turn, (0, 0), 0, 100.0, {}, came, 0), AIM)
    usual = learner.tally.usual()
    assert usual.pods == pytest.approx((20 * 20 + 19) / 39, rel=0.05)
    assert usual.dispersion == pytest.approx(usual.pods - 39 / 20, rel=0.05)
    again = decode(encode(learner)).tally.usual()
    assert (again.pods, again.dispersion) == pytest.approx((usual.pods, usual.dispersion))


def test_pods_that_come_by_chance_have_an_index_of_dispersion_of_one_whatever_the_turns_and_windows() -> None:
    for window_seconds, an_hour, turn_seconds in ((120.0, 57.0, 60.0), (95.0, 600.0, 10.0), (300.0, 6.0, 60.0)):
        chance, learner = np.random.default_rng(1), Learner()
        came = chance.poisson(an_hour * turn_seconds / 3600, size=round(86400 / turn_seconds)).tolist()
        for turn, pods in enumerate(came):
            at = START + turn_seconds * turn
            learner.tally.count(Turn(at, (0, 0), 0, window_seconds, {}, pods, 0), turn_seconds)
        assert learner.tally.usual().dispersion == pytest.approx(1.0, abs=0.2)


def test_a_past_that_has_not_counted_windows_is_read_as_of_windows_of_two_minutes() -> None:
    learner = Learner()
    for turn in range(1440):
        learner.observe(Turn(START + 60 * turn, (0, 0), 0, 120.0, {}, 12 * (turn % 30 == 0), 0), AIM)
    state = msgspec.msgpack.decode(zlib.decompress(encode(learner)[len(MAGIC) :]))
    del state["windows"]
    older = decode(MAGIC + zlib.compress(msgspec.msgpack.encode(state)))
    assert older.tally.usual().dispersion == pytest.approx(learner.tally.usual().dispersion, rel=0.05)


@pytest.mark.parametrize("are_late", [False, True])
def test_pods_that_are_late_although_the_amount_was_enough_are_told_of(are_late: bool) -> None:
    learner, at = Learner(), START
    for turn in range(250):  # five pods come each 33 minutes and stay for half of that
        came, there = 5 if turn % 20 == 0 else 0, 20 + 5 * (turn % 20 < 10)
        arrived, at = {(1000, GIB): came} if came else {}, at + 100
        learner.amount(at, AIM)
        late = came if are_late else 0
        learner.observe(Turn(at, (1000 * there, GIB * there), there, 100.0, arrived, came, late), AIM)
    why = learner.amount(at, AIM).why
    assert (why.late_despite > 0.5) is are_late
    text = why_text(why, "5/5Gi")
    assert (f"the amount was enough for {why.late_despite * 100:.0f}% of the late pods" in text) is are_late
