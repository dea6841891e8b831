"""The diurnal curve by hand: rate(t) = mean x (1 + amplitude x cos(2 pi (t - peakAt) / period))."""

import math

import numpy as np
import pytest

from slack.simulator.scenario.arrivals import moments
from slack.simulator.scenario.distributions import FloatArray
from slack.simulator.scenario.load import Diurnal

HOUR = 3600.0


def _drawn(hours: float, **fields: object) -> FloatArray:
    spec = Diurnal.model_validate({"kind": "diurnal", **fields})
    return moments(spec, hours * HOUR, np.random.default_rng(1))


def _between(times: FloatArray, first: float, last: float) -> int:
    """Arrivals from one hour to another."""
    return int(((times >= first * HOUR) & (times < last * HOUR)).sum())


# the cosine's mean is 0 over a whole wave, 2 / pi over the half around the peak and sin(x) / x within x of it
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 24, 14_400),  # 24 h x 600 an hour
        (8, 20, 10_867),  # 12 h x 600 x (1 + 0.8 x 2 / pi) = 7200 x 1.5093
        (13.5, 14.5, 1_079),  # x = pi / 24: 600 x (1 + 0.8 x 0.99715) = 600 x 1.7977
        (1.5, 2.5, 121),  # the trough, twelve hours from the peak: 600 x (1 - 0.7977)
    ],
)
def test_a_day_has_its_mean_and_its_peak(first: float, last: float, expected: int) -> None:
    times = _drawn(24, meanPerMinute=10, amplitude=0.8, peakAt="14h")
    assert abs(_between(times, first, last) - expected) < 4 * math.sqrt(expected)


@pytest.mark.parametrize(("period", "peak"), [(24, 14), (24, 0), (6, 1), (12, 23)])
def test_the_peak_is_where_it_is_told_to_be(period: int, peak: int) -> None:
    # the mean of exp(i angle) over arrivals is amplitude / 2 x exp(i peak); of 28,800 its phase has a
    # standard deviation of 1 / (0.4 x sqrt(2 x 28800)) = 0.0104
    times = _drawn(48, meanPerMinute=10, amplitude=0.8, period=f"{period}h", peakAt=f"{peak}h")
    mean = np.exp(2j * math.pi * times / (period * HOUR)).mean()
    assert abs(abs(mean) - 0.4) < 0.03
    off = np.angle(mean * np.exp(-2j * math.pi * peak / period))
    assert abs(off) < 4 * 0.0104


def test_without_amplitude_the_rate_is_flat_and_with_all_of_it_the_trough_is_empty() -> None:
    flat = _drawn(24, meanPerMinute=10, amplitude=0, peakAt="14h")
    assert abs(_between(flat, 13.5, 14.5) - 600) < 4 * math.sqrt(600)
    assert abs(_between(flat, 1.5, 2.5) - 600) < 4 * math.sqrt(600)
    # within 0.5 h of the trough: 600 x (1 - 0.99715) = 1.7
    assert _between(_drawn(24, meanPerMinute=10, amplitude=1, peakAt="14h"), 1.5, 2.5) < 10
