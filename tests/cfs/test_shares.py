"""Shares divide what is wanted; they are no limits, and weights do not give requests back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cfs.shares import divide, shares_if_linear, shares_of_request, weight_linear, weight_quadratic

NODE = {"system.slice": 1024, "user.slice": 1024, "kubepods": 4096}


def test_the_articles_three_groups_on_four_busy_cores() -> None:
    """The article rounds to 680, 680 and 2736."""
    given_shares = divide(4096, NODE)
    assert given_shares == pytest.approx({"system.slice": 682.67, "user.slice": 682.67, "kubepods": 2730.67}, abs=0.005)


def test_idle_groups_give_their_share_away() -> None:
    assert divide(4096, NODE, {"system.slice": 0, "user.slice": 0}) == {
        "system.slice": 0,
        "user.slice": 0,
        "kubepods": 4096,
    }


def test_a_group_that_wants_little_leaves_the_rest_by_shares() -> None:
    given_shares = divide(4.0, {"a": 1024, "b": 1024, "c": 2048}, {"c": 0.4})
    assert given_shares == pytest.approx({"a": 1.8, "b": 1.8, "c": 0.4})


def test_nothing_is_invented_where_all_want_little() -> None:
    assert divide(4.0, {"a": 2, "b": 2}, {"a": 1.0, "b": 0.5}) == {"a": 1.0, "b": 0.5}
    assert divide(4.0, {}) == {}


def test_a_group_without_shares_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="shares of b are 0"):
        divide(1.0, {"a": 2, "b": 0})


@given(
    st.dictionaries(st.text(max_size=3), st.integers(2, 262_144), min_size=1, max_size=8),
    st.lists(st.floats(0, 100), min_size=8, max_size=8),
    st.floats(0, 64),
)
def test_all_is_given_while_somebody_wants_it(shares: dict[str, int], wants: list[float], total: float) -> None:
    wanted = dict(zip(shares, wants, strict=False))
    got = divide(total, shares, wanted)
    assert sum(got.values()) == pytest.approx(min(total, sum(wanted.values())), abs=1e-6)
    assert all(got[name] <= wanted[name] + 1e-6 for name in shares)


@pytest.mark.parametrize(
    ("millis", "shares"), [(1000, 1024), (4000, 4096), (100, 102), (0, 2), (1, 2), (10**9, 262_144)]
)
def test_requests_become_shares_1024_a_core(millis: int, shares: int) -> None:
    assert shares_of_request(millis) == shares


def test_two_formulas_give_two_weights_for_one_core() -> None:
    assert (weight_linear(1024), weight_quadratic(1024)) == (39, 100)


@pytest.mark.parametrize("formula", [weight_linear, weight_quadratic])
def test_both_formulas_keep_the_ends(formula: object) -> None:
    assert callable(formula)
    assert [formula(shares) for shares in (0, 2, 262_144, 10**9)] == [1, 1, 10_000, 10_000]


def test_a_weight_does_not_give_the_request_back() -> None:
    assert shares_if_linear(weight_linear(1024)) == 998
    assert weight_quadratic(295) == weight_linear(1024)
    assert (shares_if_linear(1), shares_if_linear(10_000), shares_if_linear(0)) == (2, 262_144, 2)
