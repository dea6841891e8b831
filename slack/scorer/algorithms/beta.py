"""The beta distribution by its mean and variance, for many nodes at once, without scipy.

The regularized incomplete beta function by Lentz's continued fraction (Numerical Recipes 6.4), the logarithm of the
gamma function by Lanczos' sum. Against scipy's the difference stays below 1e-10 (tests).
"""

import numpy as np

from slack.scorer.model import FloatArray

_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_MOST_STEPS = 500
_PRECISION = 1e-14
_TINY = 1e-300


def log_gamma(values: FloatArray) -> FloatArray:
    """Return the logarithm of the gamma function of positive values."""
    # Gamma(x) = Gamma(x + 1) / x keeps the sum away from its poles.
    total = np.full(values.shape, _LANCZOS[0])
    for index, coefficient in enumerate(_LANCZOS[1:], start=1):
        total += coefficient / (values + index)
    base = values + _LANCZOS_G + 0.5
    result: FloatArray = 0.5 * np.log(2.0 * np.pi) + (values + 0.5) * np.log(base) - base + np.log(total / values)
    return result


def shape_of(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return alpha and beta of the distribution on [0, 1] with this mean and variance: 0 < variance < mean (1 - mean).

    k = mean (1 - mean) / variance - 1, alpha = mean k, beta = (1 - mean) k.
    """
    concentration = mean * (1.0 - mean) / variance - 1.0
    return mean * concentration, (1.0 - mean) * concentration


def cumulative(alpha: FloatArray, beta: FloatArray, at: FloatArray) -> FloatArray:
    """Return P(X <= at), element by element: the regularized incomplete beta function."""
    inside = (at > 0.0) & (at < 1.0)
    probability: FloatArray = np.where(at >= 1.0, 1.0, 0.0)
    if not inside.any():
        return probability
    a, b, x = alpha[inside], beta[inside], at[inside]
    # The fraction is quick below the mean only; above, the other tail is computed.
    turned = x > (a + 1.0) / (a + b + 2.0)
    a, b, x = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, 1.0 - x, x)
    front = np.exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * np.log(x) + b * np.log1p(-x)) / a
    tail = np.clip(front * _fraction(a, b, x), 0.0, 1.0)
    probability[inside] = np.where(turned, 1.0 - tail, tail)
    return probability


def _fraction(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """Lentz's method; elements that have settled are left alone, for most need few steps."""
    d = _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    c, d = np.ones_like(a), 1.0 / d
    value = d.copy()
    open_rows = np.arange(len(a))
    for step in range(1, _MOST_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0))
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            change = c * d
            value[open_rows] *= change
        unsettled = np.abs(change - 1.0) > _PRECISION
        if not unsettled.any():
            break
        if unsettled.sum() < len(unsettled) // 2:
            open_rows = open_rows[unsettled]
            a, b, x, c, d = (column[unsettled] for column in (a, b, x, c, d))
    return value


def _away_from_zero(values: FloatArray) -> FloatArray:
    away: FloatArray = np.where(np.abs(values) < _TINY, _TINY, values)
    return away
