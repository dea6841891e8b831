"""The beta distribution, by values in closed form and by what must hold of any distribution."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.scorer.algorithms.beta import cumulative, log_gamma, shape_of


def at(alpha: float, beta: float, point: float) -> float:
    return float(cumulative(np.array([alpha]), np.array([beta]), np.array([point]))[0])


@pytest.mark.parametrize("value", [1e-3, 0.5, 1.0, 2.0, 7.5, 100.0, 1e5])
def test_the_logarithm_of_gamma_is_that_of_the_standard_library(value: float) -> None:
    assert log_gamma(np.array([value]))[0] == pytest.approx(math.lgamma(value), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("point", [0.01, 0.3, 0.5, 0.77, 0.999])
def test_distributions_that_have_a_closed_form(point: float) -> None:
    assert at(1, 1, point) == pytest.approx(point, abs=1e-12)
    assert at(3, 1, point) == pytest.approx(point**3, abs=1e-12)
    assert at(1, 4, point) == pytest.approx(1 - (1 - point) ** 4, abs=1e-12)
    assert at(0.5, 0.5, point) == pytest.approx(2 / math.pi * math.asin(math.sqrt(point)), abs=1e-12)
    assert at(2, 3, point) == pytest.approx(6 * point**2 - 8 * point**3 + 3 * point**4, abs=1e-12)


def test_below_and_above_the_unit_interval() -> None:
    ends = cumulative(np.full(4, 2.0), np.full(4, 3.0), np.array([-1.0, 0.0, 1.0, 2.0]))
    assert ends.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_many_at_once_are_as_one_by_one() -> None:
    rng = np.random.default_rng(7)
    alpha, beta, point = rng.uniform(0.1, 2000, 60), rng.uniform(0.1, 2000, 60), rng.uniform(0, 1, 60)
    together = cumulative(alpha, beta, point)
    assert together.tolist() == pytest.approx([at(*own) for own in zip(alpha, beta, point, strict=True)], abs=1e-12)


shapes = st.floats(0.01, 500.0)
points = st.integers(0, 1024).map(lambda part: part / 1024)  # 1 - x is exact for these


@given(shapes, shapes, points, points)
def test_it_is_a_distribution_and_its_mirror_image_is_one(alpha: float, beta: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert 0.0 <= at(alpha, beta, low) <= at(alpha, beta, high) + 1e-9 <= 1.0 + 2e-9
    assert at(alpha, beta, low) == pytest.approx(1.0 - at(beta, alpha, 1.0 - low), abs=1e-8)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.98))
def test_mean_and_variance_are_those_asked_for(mean: float, share_of_most: float) -> None:
    variance = mean * (1 - mean) * share_of_most
    alpha, beta = (float(shape[0]) for shape in shape_of(np.array([mean]), np.array([variance])))
    total = alpha + beta
    assert alpha / total == pytest.approx(mean)
    assert alpha * beta / (total**2 * (total + 1)) == pytest.approx(variance)
