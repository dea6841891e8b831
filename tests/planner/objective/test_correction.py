"""The long-run share of late pods converges to what the objective allows, whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.objective.correction import CREDIT, FARTHEST, HIGHEST, LEAST_WINDOWS, MOST_WINDOWS, Correction, Usual

AN_HOUR = 20.0
PODS = 10
USUAL = Usual(PODS, AN_HOUR, dispersion=PODS)
windows = st.lists(
    st.tuples(st.floats(-CREDIT, FARTHEST), st.integers(1, int(PODS * MOST_WINDOWS))), min_size=1, max_size=400
)


def bound(pods: int, objective: float) -> float:
    step = max((1 - objective) * 6 * AN_HOUR, LEAST_WINDOWS * PODS)
    return (FARTHEST + CREDIT + MOST_WINDOWS / LEAST_WINDOWS) * step / pods


@given(windows, st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.floats(-CREDIT, HIGHEST))
def test_no_sequence_makes_more_pods_late_than_the_bound(
    sequence: list[tuple[float, int]], objective: float, start: float
) -> None:
    correction, pods, late = Correction(start), 0, 0
    for needed, count in sequence:  # whatever debt a window needs to be served: an adversary's choice
        missed = count if correction.value < needed else 0
        correction.happened(count, missed, objective, USUAL)
        pods, late = pods + count, late + missed
        assert late / pods - (1 - objective) <= bound(pods, objective) + 1e-9


def test_the_worst_adversary_is_held_to_the_objective_and_no_better() -> None:
    correction, late = Correction(), 0
    for _ in range(20_000):  # who knows the debt, and always needs a little more as long as that is possible
        missed = PODS if correction.value < FARTHEST else 0
        correction.happened(PODS, missed, 0.95, USUAL)
        late += missed
    assert abs(late / (20_000 * PODS) - 0.05) <= bound(20_000 * PODS, 0.95)


def test_windows_weigh_by_their_pods() -> None:
    large, small = Correction(), Correction()
    large.happened(20, 20, 0.99, USUAL)
    for _ in range(20):
        small.happened(1, 1, 0.99, USUAL)
    assert abs(large.value - small.value) < 1e-9


def test_an_outburst_raises_it_no_farther_than_quiet_can_undo() -> None:
    correction = Correction()
    correction.happened(100_000, 100_000, 0.99, USUAL)
    assert correction.value == HIGHEST
    assert correction.applied == FARTHEST


def test_one_missed_wave_a_day_is_made_good_for_within_days_and_not_by_a_day_without_any_late_pod() -> None:
    correction, shares = Correction(), []
    for _ in range(12):  # the wave comes once a day; as many of it are late as are allowed then
        late = min(round(20 * correction.allowed), 34)
        correction.happened(400, late, 0.95, Usual(PODS, 400 / 24, PODS))
        shares.append(1 - late / 400)
    assert all(abs(share - 0.95) <= 0.01 for share in shares)


def test_the_late_pods_that_six_hours_allow_are_a_step_and_as_many_as_are_allowed_change_nothing() -> None:
    correction, allowed = Correction(), 0.05 * 6 * 100.0
    correction.happened(0, allowed / 2, 0.95, Usual(PODS, 100.0, PODS))
    assert correction.value == pytest.approx(0.5)
    correction.happened(600, allowed, 0.95, Usual(PODS, 100.0, PODS))
    assert correction.value == pytest.approx(0.5)
    correction.happened(300, 0, 0.95, Usual(PODS, 100.0, PODS))
    assert correction.value == pytest.approx(0.0)


def test_where_few_come_a_missed_wave_is_a_step_and_a_quarter_may_be_late_until_it_is_made_good_for() -> None:
    correction = Correction()
    correction.happened(0, PODS, 0.95, Usual(PODS, 1.0, PODS))
    assert correction.value == pytest.approx(1.0)
    assert correction.allowed == pytest.approx(0.25)
    correction.happened(round(PODS / 0.05), 0, 0.95, Usual(PODS, 1.0, PODS))
    assert correction.value == pytest.approx(0.0)
    assert correction.allowed == pytest.approx(1.0)


@given(st.floats(-CREDIT, HIGHEST), st.floats(-CREDIT, HIGHEST))
def test_more_debt_never_allows_more_and_the_farthest_allows_none(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert Correction(less).allowed >= Correction(more).allowed >= 0
    assert Correction(max(more, FARTHEST)).allowed == 0


def test_a_step_is_what_three_days_allow_where_pods_come_by_chance_and_six_hours_where_they_come_together() -> None:
    steps = {dispersion: Usual(2.0, 57.0, dispersion).step(0.05) for dispersion in (0.5, 1.0, 1.5, 2.0, 12.0)}
    assert steps[1.0] == steps[0.5] == pytest.approx(0.05 * 72 * 57)
    assert steps[12.0] == steps[2.0] == pytest.approx(0.05 * 6 * 57)
    assert steps[2.0] < steps[1.5] < steps[1.0]
