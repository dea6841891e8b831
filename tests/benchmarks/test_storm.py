"""What the storm and the steady cluster report follows from what was measured."""

import numpy as np
import pytest

from benchmarks.steady import STATUS, Writes
from benchmarks.storm import lags, slope


def test_lag_counts_every_event_from_when_it_was_made_to_when_its_version_was_there() -> None:
    made = np.array([(0, 10, 2), (5, 12, 1)])
    applied = np.array([(7, 11, 2), (9, 12, 1)])
    assert lags(made, applied).tolist() == [7, 7, 4]


def test_slope_is_in_mib_a_minute() -> None:
    assert slope([1024, 1024 * 2, 1024 * 3], 120.0) == pytest.approx(1.0)


def test_writes_that_were_not_made_are_shown_as_none() -> None:
    writes = Writes("quiet", 60.0, {"update coordination.k8s.io/leases": 30})
    assert ("coordination.k8s.io/leases, update", 30) in writes.rows()
    assert (STATUS, 0) in writes.rows()
    assert "1800 an hour" in str(writes)
