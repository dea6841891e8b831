"""Distributions and load curves as a scenario names them; drawing needs a seeded generator from outside."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from slack.simulator.scenario.times import PeriodSeconds, PositiveSeconds, Seconds

FloatArray = npt.NDArray[np.float64]
LARGEST_LOAD = 1e15
"""Beyond what any metric counts; the replicas that it asks for are still a number."""
Load = Annotated[float, Field(ge=0, le=LARGEST_LOAD)]


class Model(BaseModel):
    """What all models of a scenario share: camelCase keys, nothing unknown, finite numbers, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _said_once_and_in_numbers(cls, given: Any) -> Any:
        """Refuse `max: true`, which Python would count as 1, and a field that is there in both of its spellings."""
        if isinstance(given, Mapping):
            for name, field in cls.model_fields.items():
                key = field.alias if field.alias in given else name
                if key != name and name in given:
                    raise ValueError(f"{name}: is given twice, as {key} too; keep {key}")
                if field.annotation in (int, float) and isinstance(given.get(key), bool):
                    raise ValueError(f"{key}: must be a number, not {str(given[key]).lower()}")
        return given


class Constant(Model):
    """Always the same."""

    kind: Literal["constant"] = "constant"
    seconds: Seconds
    """The value."""

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return `count` values in seconds."""
        return np.full(count, self.seconds)


class Uniform(Model):
    """Anything between two values, equally likely."""

    kind: Literal["uniform"]
    min_seconds: Seconds
    """The least value."""
    max_seconds: Seconds
    """The largest value."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_seconds > self.max_seconds:
            raise ValueError("minSeconds is above maxSeconds")
        return self

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return `count` values in seconds."""
        return rng.uniform(self.min_seconds, self.max_seconds, count)


class Lognormal(Model):
    """Skewed to the right, as boot times and job lengths are."""

    kind: Literal["lognormal"]
    median_seconds: PositiveSeconds
    """Half of the values are below."""
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.5
    """Standard deviation of the logarithm."""
    max_seconds: PositiveSeconds | None = None
    """Values above are cut to it."""

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return `count` values in seconds."""
        values = rng.lognormal(math.log(self.median_seconds), self.sigma, count)
        return np.minimum(values, math.inf if self.max_seconds is None else self.max_seconds)


class Exponential(Model):
    """Without memory: an M/M queue's service times."""

    kind: Literal["exponential"]
    mean_seconds: PositiveSeconds
    """The mean."""

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return `count` values in seconds."""
        return rng.exponential(self.mean_seconds, count)


class Forever(Model):
    """Until somebody takes it away."""

    kind: Literal["forever"] = "forever"

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return `count` infinities."""
        return np.full(count, math.inf)


StartUp = Annotated[Constant | Uniform | Lognormal, Field(discriminator="kind")]
"""How long a node takes from the request to Ready."""
Life = Annotated[Constant | Uniform | Lognormal | Exponential | Forever, Field(discriminator="kind")]
"""How long a pod runs once it is bound."""


class Points(Model):
    """Straight lines between points; constant before the first and after the last."""

    kind: Literal["points"]
    points: Annotated[tuple[tuple[Seconds, Load], ...], Field(min_length=1)]
    """[seconds from the start, load], in order of time."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [at for at, _ in self.points]
        if any(a > b for a, b in pairwise(times)):
            raise ValueError("points are not in order of time")
        return self

    def at(self, seconds: float) -> float:
        """Return the load at a time."""
        return float(np.interp(seconds, [p[0] for p in self.points], [p[1] for p in self.points]))


class Sine(Model):
    """A daily curve: mean x (1 + amplitude x cos), highest at `peakAtSeconds`."""

    kind: Literal["sine"]
    mean: Load
    """The mean load."""
    amplitude: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the mean by which it swings."""
    period_seconds: PeriodSeconds = 86_400.0
    """Length of one wave."""
    peak_at_seconds: Seconds = 43_200.0
    """When it is highest."""

    def at(self, seconds: float) -> float:
        """Return the load at a time."""
        turn = 2 * math.pi * (seconds - self.peak_at_seconds) / self.period_seconds
        return self.mean * (1 + self.amplitude * math.cos(turn))


Curve = Annotated[Points | Sine, Field(discriminator="kind")]
"""A load over time, in any unit that `targetPerPod` shares."""
