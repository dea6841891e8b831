"""The measure of old figures finds who tells seldom, who tells late, and nobody else."""

import random

import pytest

from e2e.harness.product.figure_ages import Counts, Promise, Seen

END = 300.0
PROMISE = Promise(3.0, server_seconds=0.1)


def moving_load(few_counts: bool = False) -> Seen:
    """Placeholders leave for bursts and come back, one by one; few counts recur all the time."""
    dice, seen, at, gone = random.Random(3), Seen(), 0.0, 0
    seen.now_true(0.0, (8, 0))
    while at < END:
        at += dice.uniform(0.3, 3.0)
        wanted = dice.randint(0, 1 if few_counts else 8)
        while gone != wanted:
            gone += 1 if wanted > gone else -1
            at += 0.02
            seen.now_true(at, (8 - gone, gone))
    return seen


def told(seen: Seen, every: float, late: float = 0.0) -> Seen:
    """Somebody tells what was true `late` seconds ago, at most once in `every`, and only what is new."""
    last: Counts | None = None
    moment = 0.0
    while moment < END:
        was = [counts for at, counts in seen.true if at <= max(moment - late, 0.0)][-1]
        if was != last:
            seen.told.append((moment, was))
            last = was
        moment += every
    return seen


def kept(seen: Seen) -> tuple[bool, bool]:
    return PROMISE.kept_by(seen.change_ages(20.0, END - 20)), PROMISE.kept_by(seen.shown_ages(20.0, END - 20))


@pytest.mark.parametrize("few_counts", [False, True])
def test_who_tells_every_two_seconds_what_is_there_keeps_the_promise(few_counts: bool) -> None:
    seen = told(moving_load(few_counts), 2.0, late=0.5)
    assert kept(seen) == (True, True)


@pytest.mark.parametrize("every", [5.0, 10.0, 60.0])
def test_who_tells_seldom_does_not(every: float) -> None:
    seen = told(moving_load(), every)
    assert kept(seen) == (False, False)


@pytest.mark.parametrize("late", [5.0, 10.0])
def test_who_tells_often_what_was_long_ago_does_not_even_where_few_counts_recur(late: float) -> None:
    assert not all(kept(told(moving_load(), 2.0, late)))
    assert not kept(told(moving_load(few_counts=True), 2.0, late))[1]


def test_what_is_true_again_was_not_old_and_what_was_never_told_is() -> None:
    seen = Seen([(0.0, (8, 0)), (10.0, (7, 1)), (10.3, (8, 0)), (20.0, (6, 2)), (29.0, (5, 3))], [(0.5, (8, 0))])
    assert seen.change_ages(5.0, 15.0) == pytest.approx([0.0, 0.3])
    assert seen.change_ages(15.0, 30.0) == [0.0, 9.0]
    assert seen.shown_ages(20.0, 30.0)[-1] == pytest.approx(10.0, abs=0.1)


def test_a_slow_server_is_allowed_for_and_who_tells_every_ten_seconds_is_found_out_on_the_slowest() -> None:
    assert Promise(3.0, 0.0).bound_seconds == 3.0
    assert Promise(3.0, 0.5).bound_seconds == 4.5
    assert Promise(3.0, 60.0).bound_seconds == 8.0
    assert not Promise(3.0, 60.0).kept_by(told(moving_load(), 10.0).change_ages(20.0, END - 20))
