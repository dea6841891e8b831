"""A workload whose pods are the containers of an ActivationPool: what it tells the operator, by the pool's spec."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from slack.demand.model import DemandSettings
from slack.simulator.scenario.distributions import Model
from slack.simulator.scenario.times import PositiveDuration, duration_text

LONGEST_HORIZON, LONGEST_WINDOW = timedelta(hours=1), timedelta(hours=168)
"""As an ActivationPool has them."""


def _up_to(most: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value > most:
            raise ValueError(
                f"{duration_text(value)} is longer than {duration_text(most)}, the longest that a pool takes"
            )
        return value

    return AfterValidator(check)


class SimulatedPool(Model):
    """Its pods are an ActivationPool's: what they grew by is told to the operator, which keeps room for it."""

    max_containers: Annotated[int, Field(ge=1, le=5000)] = 20
    """spec.limits.maxContainers: nothing is kept beyond it."""
    horizon: Annotated[PositiveDuration, _up_to(LONGEST_HORIZON)] = timedelta(seconds=180)
    """spec.demand.horizon: how long a node takes to start, until that has been seen."""
    window: Annotated[PositiveDuration, _up_to(LONGEST_WINDOW)] = timedelta(hours=2)
    """spec.demand.window: how far back bursts count."""
    percentile: Annotated[float, Field(ge=50, le=100)] = 99.0
    """spec.demand.percentile: of what the pool grew by within a node's start, how much is kept."""

    def settings(self) -> DemandSettings:
        """Return what the rules go by."""
        return DemandSettings(
            horizon_seconds=self.horizon.total_seconds(),
            window_seconds=self.window.total_seconds(),
            percentile=self.percentile,
        )
