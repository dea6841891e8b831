"""When a workload's pods come, and how long they live: drawn before the run, so that slack cannot change the load."""

import math

import numpy as np

from slack.simulator.scenario.distributions import FloatArray
from slack.simulator.scenario.inventory import ScenarioWorkload
from slack.simulator.scenario.load import Bursts, DeploymentReplicas, Diurnal, Jobs, Poisson, Replay


def moments(arrivals: object, duration: float, rng: np.random.Generator) -> FloatArray:
    """Return the sorted moments of arrival within the duration, in seconds; none for a Deployment's replicas."""
    match arrivals:
        case Poisson():
            count = rng.poisson(arrivals.per_minute * duration / 60)
            return np.sort(rng.uniform(0, duration, count))
        case Diurnal():
            # thinning: a homogeneous process at the highest rate, of which the right share is kept
            highest = arrivals.mean_per_minute * (1 + arrivals.amplitude)
            times = np.sort(rng.uniform(0, duration, rng.poisson(highest * duration / 60)))
            turn = 2 * math.pi * (times - arrivals.peak_at.total_seconds()) / arrivals.period.total_seconds()
            share = (1 + arrivals.amplitude * np.cos(turn)) / (1 + arrivals.amplitude)
            return times[rng.random(len(times)) < share]
        case Bursts():
            starts = [at.total_seconds() for at in arrivals.at]
            if arrivals.every is not None:
                count = rng.poisson(duration / arrivals.every.total_seconds())
                starts += rng.uniform(0, duration, count).tolist()
            spread = rng.uniform(0, arrivals.within_seconds, (len(starts), arrivals.size))
            times = np.sort((np.array(starts)[:, None] + spread).ravel())
            return times[times < duration]
        case Jobs():
            waves = np.arange(arrivals.first_at.total_seconds(), duration, arrivals.every.total_seconds())
            return np.repeat(waves, arrivals.parallelism)
        case Replay():
            times = np.array([at for at, _ in arrivals.rows], dtype=np.float64)
            return np.sort(times[times < duration])
        case DeploymentReplicas():
            return np.zeros(0)
    raise TypeError(f"{type(arrivals).__name__} is no arrivals")


def draw_arrivals(
    workload: ScenarioWorkload, duration: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return a workload's moments of arrival and lives, both in seconds."""
    times = moments(workload.arrivals, duration, rng)
    lives = workload.life.draw(rng, len(times))
    if isinstance(workload.arrivals, Replay):
        rows = sorted(workload.arrivals.rows, key=lambda row: row[0])
        given = [life for at, life in rows if at < duration]
        lives = np.array(
            [draw_arrivals if life is None else life for life, draw_arrivals in zip(given, lives, strict=True)]
        )
    return times, lives
