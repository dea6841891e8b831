"""Idle time costs nothing: what finds nothing to do rests, and the result is that of a run in which nothing rests."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.model.result import RememberedPolicy
from slack.simulator.model.clock import Clock
from slack.simulator.model.periodic_timer import PeriodicTimer
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import Simulation, simulate
from slack.simulator.scenario.scenario import Scenario
from tests.examples import by_profile, examples
from tests.simulator.build import Json, at, group, replicas, scenario, workload

_RESTS = st.lists(st.tuples(st.integers(0, 12), st.floats(0, 99)), max_size=6)


class Watched:
    """Acts every 10 s from 0 on, rests as it is told to, and notes when it acted and what it passed over."""

    def __init__(self, rests: dict[int, float], *, first: bool = True) -> None:
        self.clock = Clock(100.0)
        self.moments: list[float] = []
        self.acted: list[float] = []
        self.rests = rests
        self.rhythm = PeriodicTimer(self.clock, 10.0, self.act, self.moments.append, first=first)
        self.rhythm.begin()

    def act(self, now: float) -> None:
        self.moments.append(now)
        self.acted.append(now)
        until = self.rests.get(int(now // 10), 0.0)
        if until > now + 10:
            self.rhythm.rest(until)
        else:
            self.rhythm.follow(now + 10)


@given(_RESTS, st.lists(st.floats(0, 99)), st.booleans())
def test_no_moment_is_lost_or_doubled_whatever_rests_and_wakes(
    rests: list[tuple[int, float]], changes: list[float], first: bool
) -> None:
    watched = Watched(dict(rests), first=first)
    for change in changes:
        watched.clock.at(change, lambda _: watched.rhythm.wake())
    while watched.clock.step():
        pass
    assert watched.moments == [10.0 * i for i in range(len(watched.moments))]
    assert all(until <= moment for moment, until in ((m, watched.rests.get(-1, 0)) for m in watched.acted))


def test_after_a_change_it_acts_at_the_next_moment_and_not_before() -> None:
    watched = Watched({0: 95.0})
    watched.clock.at(42.0, lambda _: watched.rhythm.wake())
    while watched.clock.step():
        pass
    assert watched.acted[:3] == [0.0, 50.0, 60.0]


@pytest.mark.parametrize(("first", "acted"), [(True, [0.0, 50.0]), (False, [0.0, 40.0])])
def test_a_change_at_a_moment_comes_before_or_after_it_as_it_would_without_the_rest(
    first: bool, acted: list[float]
) -> None:
    """Both were asked for at 30 s: the place decides."""
    watched = Watched({0: 95.0}, first=first)
    watched.clock.at(30.0, lambda _: watched.clock.at(40.0, lambda _: watched.rhythm.wake()))
    while watched.clock.step() and len(watched.acted) < 2:
        pass
    assert watched.acted == acted


def _as_if_restless(monkeypatch: pytest.MonkeyPatch, wanted: Scenario) -> tuple[Result, Result]:
    """Return the results with and without rests; how much was done is not compared."""
    rested = simulate(wanted)
    with monkeypatch.context() as patched:
        patched.setattr(PeriodicTimer, "rest", lambda rhythm, _: rhythm.follow(rhythm.last + rhythm.seconds))
        restless = simulate(wanted)
    assert rested.events <= restless.events
    return replace(rested, events=0, plans=0), replace(restless, events=0, plans=0)


_LOADS: list[Json] = [
    at(100, 101, 900, size=3),
    {"kind": "bursts", "size": 6, "at": ["5m", "21m"]},
    {"kind": "poisson", "perMinute": 0.4},
    {"kind": "jobs", "parallelism": 3, "every": "15m", "firstAt": "10s"},
    replicas(4),
]
_AUTOSCALERS: list[Json] = [
    {"kind": "clusterAutoscaler", "scaleDownUnneededTime": "4m", "scaleDownDelayAfterAdd": "3m"},
    {"kind": "clusterAutoscaler", "scanIntervalSeconds": 7.3, "frequentLoopsEnabled": False},
    {"kind": "clusterAutoscaler", "newPodScaleUpDelaySeconds": 7, "scaleDownDelayAfterDeleteSeconds": 333},
    {"kind": "karpenter"},
]
_SLACK: list[Json] = [
    {"kind": "none"},
    {"kind": "policies"},
    {
        "kind": "policies",
        "policies": [{"spec": {"extraCapacity": {"minRate": 0.5}, "stabilization": {"shrinkDelay": "3m"}}}],
    },
]


@examples(6, quick=3)
@given(
    st.lists(st.sampled_from(_LOADS), min_size=1, max_size=2),
    st.sampled_from(_AUTOSCALERS),
    st.sampled_from(_SLACK),
    st.integers(0, 99),
)
def test_a_run_with_rests_comes_to_what_one_without_comes_to(
    loads: list[Json], autoscaler: Json, slack: Json, seed: int
) -> None:
    life = {"kind": "uniform", "minSeconds": 200, "maxSeconds": 600}
    wanted = scenario(
        nodeGroups=[group(initial=2, max=9)],
        workloads=[workload(f"w{i}", arrivals=load, life=life) for i, load in enumerate(loads)],
        autoscaler=autoscaler,
        slack=slack,
        seed=seed,
        duration=by_profile("45m", "8h"),
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        rested, restless = _as_if_restless(monkeypatch, wanted)
    assert rested == restless


@pytest.mark.parametrize("slack", [{"kind": "none"}, {"kind": "policies"}])
def test_days_in_which_nothing_happens_are_free(slack: Json) -> None:
    def events(duration: str) -> tuple[int, int]:
        sim = Simulation(scenario(autoscaler=_AUTOSCALERS[0], slack=slack, duration=duration, timelineRows=2))
        found = sim.run()
        return found.events, found.plans

    assert events("1440h") == events("8h")


def test_whoever_adds_to_what_a_plan_remembers_says_until_when_time_changes_nothing() -> None:
    """`slack.planner.rollout.waits` must know each field: what it does not know of would be slept through."""
    known = {"counts", "cheaper_since", "backoffs", "added", "ladder"}
    assert {field.name for field in fields(RememberedPolicy)} == known
