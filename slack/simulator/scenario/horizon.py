"""Arrivals that lie beyond a scenario's end: refused where none is left, told where some are.

A time of the wrong unit or a duration that was shortened for a quick look would otherwise pass without a word.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from slack.simulator.scenario.distributions import Points
from slack.simulator.scenario.inventory import ScenarioWorkload
from slack.simulator.scenario.load import Bursts, DeploymentReplicas, Jobs, Replay
from slack.simulator.scenario.times import duration_text


def problems(workloads: Sequence[ScenarioWorkload], duration: timedelta) -> Iterator[str]:
    """Yield a problem for each workload none of whose pods, or none of whose load's points, comes within the run."""
    end = f"the duration, {duration_text(duration)}"
    for index, workload in enumerate(workloads):
        path, arrivals = f"workloads[{index}].arrivals", workload.arrivals
        match arrivals:
            case Bursts() if arrivals.every is None and min(arrivals.at) >= duration:
                first_burst = duration_text(min(arrivals.at))
                yield f"{path}.at: none of the bursts comes within {end}; the first is at {first_burst}"
            case Jobs() if arrivals.first_at >= duration:
                first_job = duration_text(arrivals.first_at)
                yield f"{path}.firstAt: {first_job} is not within {end}; its pods would never come"
            case Replay() if min(at for at, _ in arrivals.rows) >= duration.total_seconds():
                first = min(at for at, _ in arrivals.rows)
                yield f"{path}.rows: none of them is within {end}; the first is at {first:g} seconds"
            case DeploymentReplicas() if len(points := _points(arrivals)) > 1 and points[0] >= duration.total_seconds():
                yield f"{path}.hpa.load.points: none of them is within {end}; the load would never change"


def warnings(workloads: Sequence[ScenarioWorkload], duration: timedelta) -> Iterator[str]:
    """Yield a warning for each workload of which a part comes after the end."""
    end, seconds = f"after the duration, {duration_text(duration)}", duration.total_seconds()
    for index, workload in enumerate(workloads):
        path, arrivals = f"workloads[{index}].arrivals", workload.arrivals
        match arrivals:
            case Bursts():
                late = [place for place, at in enumerate(arrivals.at) if at >= duration]
                if late:
                    yield f"{path}.at[{late[0]}]: {_of(late, arrivals.at)} come {end}, and are not played"
            case Replay():
                late = [place for place, (at, _) in enumerate(arrivals.rows) if at >= seconds]
                if late:
                    yield f"{path}.rows[{late[0]}]: {_of(late, arrivals.rows)} come {end}, and are not played"
            case DeploymentReplicas():
                # one point after the end is how people draw the last line
                points = _points(arrivals)
                late = [place for place, at in enumerate(points) if at > seconds][1:]
                if late:
                    yield f"{path}.hpa.load.points[{late[0]}]: {_of(late, points)} lie {end}, and have no effect"


def _of(late: Sequence[int], all_: Sequence[object]) -> str:
    return f"{len(late)} of {len(all_)}"


def _points(arrivals: DeploymentReplicas) -> list[float]:
    load = arrivals.hpa.load if arrivals.hpa is not None else None
    return [at for at, _ in load.points] if isinstance(load, Points) else []
