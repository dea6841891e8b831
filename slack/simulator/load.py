"""How pods come, as a scenario names it. Drawing the moments is `slack.simulator.arrivals`."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slack.planner.fields import Duration
from slack.simulator.distributions import Curve, Model, PositiveSeconds, Seconds


class Poisson(Model):
    """Single pods, independent of each other."""

    kind: Literal["poisson"]
    per_minute: Annotated[float, Field(ge=0, le=1_000_000)]
    """Mean arrivals a minute."""


class Diurnal(Model):
    """A Poisson process whose rate is mean x (1 + amplitude x cos), highest at `peakAt`."""

    kind: Literal["diurnal"]
    mean_per_minute: Annotated[float, Field(ge=0, le=1_000_000)]
    """Mean arrivals a minute."""
    amplitude: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Share of the mean by which the rate swings."""
    period: Duration = timedelta(hours=24)
    """Length of one wave."""
    peak_at: Duration = timedelta(hours=14)
    """When the rate is highest, from the start."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.period <= timedelta(0):
            raise ValueError("period must be longer than 0s")
        return self


class Bursts(Model):
    """Many pods at once, at given times or every so often."""

    kind: Literal["bursts"]
    size: Annotated[int, Field(ge=1, le=100_000)]
    """Pods in a burst."""
    at: tuple[Duration, ...] = ()
    """When bursts come, from the start."""
    every: Duration | None = None
    """Further ones come after every such time, on average (Poisson)."""
    within_seconds: Seconds = 0.0
    """The pods of a burst come within this time, evenly drawn."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.at and self.every is None:
            raise ValueError("give at or every")
        if self.every is not None and self.every <= timedelta(0):
            raise ValueError("every must be longer than 0s")
        return self


class Hpa(Model):
    """HorizontalPodAutoscaler over a load that the bound pods share."""

    min_replicas: Annotated[int, Field(ge=1)] = 1
    """spec.minReplicas"""
    max_replicas: Annotated[int, Field(ge=1)] = 1000
    """spec.maxReplicas"""
    load: Curve
    """The load over time."""
    target_per_pod: Annotated[float, Field(gt=0)]
    """Load a pod at which the HPA aims (averageValue, or utilisation x request)."""
    sync_period_seconds: PositiveSeconds = 15.0
    """--horizontal-pod-autoscaler-sync-period, 15s."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.1
    """--horizontal-pod-autoscaler-tolerance, 0.1."""
    downscale_stabilization_seconds: Seconds = 300.0
    """--horizontal-pod-autoscaler-downscale-stabilization, 5m (behavior.scaleDown.stabilizationWindowSeconds)."""
    scale_up_pods: Annotated[int, Field(ge=0)] = 4
    """behavior.scaleUp.policies: 4 pods every 15 s, or"""
    scale_up_percent: Annotated[int, Field(ge=0)] = 100
    """100 % every 15 s, whichever is more."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas ({self.min_replicas}) is above maxReplicas ({self.max_replicas})")
        return self


class Deployment(Model):
    """Replicas of a Deployment: fixed, or scaled by an HPA. Pods that go are replaced."""

    kind: Literal["deployment"]
    replicas: Annotated[int, Field(ge=0, le=100_000)] = 1
    """spec.replicas at the start."""
    hpa: Hpa | None = None
    """What scales it."""


class Jobs(Model):
    """Waves of a Job: so many pods in parallel, every so often, at a fixed time (a CronJob)."""

    kind: Literal["jobs"]
    parallelism: Annotated[int, Field(ge=1, le=100_000)]
    """Pods in a wave."""
    every: Duration
    """Time between waves."""
    first_at: Duration = timedelta(0)
    """When the first wave comes."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.every <= timedelta(0):
            raise ValueError("every must be longer than 0s")
        return self


class Replay(Model):
    """Recorded arrivals: (seconds from the start, life in seconds or null to draw it from `life`)."""

    kind: Literal["replay"]
    rows: tuple[tuple[Seconds, Seconds | None], ...]
    """In any order."""


Arrivals = Annotated[Poisson | Diurnal | Bursts | Deployment | Jobs | Replay, Field(discriminator="kind")]
