"""How pods come, as a scenario names it. Drawing the moments is `slack.simulator.scenario.arrivals`."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slack.simulator.scenario.distributions import LARGEST_LOAD, Curve, Model
from slack.simulator.scenario.times import Duration, PeriodSeconds, PositiveDuration, Seconds
from slack.simulator.scenario.upstream import Upstream


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
    period: PositiveDuration = timedelta(hours=24)
    """Length of one wave."""
    peak_at: Duration = timedelta(hours=14)
    """When the rate is highest, from the start."""


class Bursts(Model):
    """Many pods at once, at given times or every so often."""

    kind: Literal["bursts"]
    size: Annotated[int, Field(ge=1, le=100_000)]
    """Pods in a burst."""
    at: tuple[Duration, ...] = ()
    """When bursts come, from the start."""
    every: PositiveDuration | None = None
    """Further ones come after every such time, on average (Poisson)."""
    within_seconds: Seconds = 0.0
    """The pods of a burst come within this time, evenly drawn."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.at and self.every is None:
            raise ValueError("give at or every")
        return self


class Hpa(Model):
    """HorizontalPodAutoscaler over a load that the bound pods share."""

    min_replicas: Annotated[int, Field(ge=1), Upstream("spec.minReplicas", "1")] = 1
    """Never fewer replicas."""
    max_replicas: Annotated[
        int,
        Field(ge=1, le=100_000),
        Upstream("spec.maxReplicas", differs="required upstream; so high here that node groups are the limit"),
    ] = 1000
    """Never more replicas."""
    load: Curve
    """The load over time."""
    target_per_pod: Annotated[float, Field(ge=1e-6, le=LARGEST_LOAD), Upstream("spec.metrics[].*.target.averageValue")]
    """Load a pod at which the HPA aims (averageValue, or utilisation x request)."""
    sync_period_seconds: Annotated[PeriodSeconds, Upstream("--horizontal-pod-autoscaler-sync-period", "15s")] = 15.0
    """How often the HPA looks."""
    tolerance: Annotated[float, Field(ge=0, le=1), Upstream("--horizontal-pod-autoscaler-tolerance", "0.1")] = 0.1
    """A ratio of load to target this near to 1 changes nothing."""
    downscale_stabilization_seconds: Annotated[
        Seconds, Upstream("--horizontal-pod-autoscaler-downscale-stabilization", "5m")
    ] = 300.0
    """The largest recommendation of so long a time holds when replicas go down
    (behavior.scaleDown.stabilizationWindowSeconds)."""
    scale_up_pods: Annotated[int, Field(ge=0), Upstream("behavior.scaleUp.policies[type=Pods].value", "4")] = 4
    """At most so many more pods every 15 s, or as scaleUpPercent allows, whichever is more."""
    scale_up_percent: Annotated[int, Field(ge=0), Upstream("behavior.scaleUp.policies[type=Percent].value", "100")] = (
        100
    )
    """At most so many percent more pods every 15 s."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas ({self.min_replicas}) is above maxReplicas ({self.max_replicas})")
        if not self.scale_up_pods and not self.scale_up_percent:
            raise ValueError("scaleUpPods: is 0 as scaleUpPercent is, and it could never scale up; give one of them")
        return self


class DeploymentReplicas(Model):
    """Replicas of a Deployment: fixed, or scaled by an HPA. Pods that go are replaced."""

    kind: Literal["deployment"]
    replicas: Annotated[int, Field(ge=0, le=100_000), Upstream("spec.replicas", "1")] = 1
    """Replicas at the start."""
    hpa: Hpa | None = None
    """The HorizontalPodAutoscaler that scales it; none when absent."""


class Jobs(Model):
    """Waves of a Job: so many pods in parallel, every so often, at a fixed time (a CronJob)."""

    kind: Literal["jobs"]
    parallelism: Annotated[int, Field(ge=1, le=100_000)]
    """Pods in a wave."""
    every: PositiveDuration
    """Time between waves."""
    first_at: Duration = timedelta(0)
    """When the first wave comes, from the start."""


class Replay(Model):
    """Recorded arrivals."""

    kind: Literal["replay"]
    rows: Annotated[tuple[tuple[Seconds, Seconds | None], ...], Field(min_length=1)]
    """[seconds from the start, life in seconds or null to draw it from `life`], in any order."""


Arrivals = Annotated[Poisson | Diurnal | Bursts | DeploymentReplicas | Jobs | Replay, Field(discriminator="kind")]
