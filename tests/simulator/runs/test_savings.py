"""What a search leaves out: its runs come to the same within a stated tolerance, and what is given up is below."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from slack.simulator.runs.baselines import with_objective, with_rate
from slack.simulator.runs.engine import simulate
from slack.simulator.runs.savings import OutOfReach, most_late, with_fewer_looks
from slack.simulator.scenario.scenario import Scenario, parse_scenario
from tests.simulator.build import at, replicas, workload
from tests.simulator.build import scenario as built
from tests.simulator.toys import scenario

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "scenarios"
SHARE, COST = 0.005, 0.01
"""Within so much a search's run agrees with one that plays every look."""


def example(name: str) -> Scenario:
    return parse_scenario(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()), source=name)


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["burst", "jobwaves", "webshop", "largebursts"])
def test_a_run_with_fewer_looks_agrees_with_one_that_has_them_all(name: str) -> None:
    whole = with_rate(example(name), 0.2)
    fewer = with_fewer_looks(whole)
    looked, played = simulate(fewer), simulate(whole)
    assert looked.plans <= played.plans
    assert looked.instant_start_ratio == pytest.approx(played.instant_start_ratio, abs=SHARE)
    assert looked.cost == pytest.approx(played.cost, rel=COST)


def test_a_long_run_has_a_thousand_looks_and_a_short_one_all() -> None:
    fortnight = built(workloads=[workload("a", arrivals=at(0))], duration="336h", slack={"kind": "policies"})
    assert with_fewer_looks(fortnight).operator.interval == timedelta(minutes=20)
    day = fortnight.model_copy(update={"duration": timedelta(hours=24)})
    assert with_fewer_looks(day).operator.interval == timedelta(seconds=80)  # of its own ten, a multiple
    half_day = fortnight.model_copy(update={"duration": timedelta(hours=11)})
    assert with_fewer_looks(half_day) is half_day
    hour = fortnight.model_copy(update={"duration": timedelta(hours=1)})
    assert with_fewer_looks(hour) is hour
    learning = with_objective(fortnight, 0.99)
    assert with_fewer_looks(learning) is learning


@pytest.mark.thorough
def test_a_run_is_given_up_once_it_cannot_reach_its_goal_and_only_then() -> None:
    whole = scenario()
    share = simulate(whole).instant_start_ratio
    assert 0 < share < 1
    assert simulate(whole, goal=share).instant_start_ratio == share
    with pytest.raises(OutOfReach):
        simulate(whole, goal=share + 0.01)


def test_where_pods_come_by_what_happens_nothing_is_given_up() -> None:
    hpa = {"minReplicas": 1, "maxReplicas": 9, "targetPerPod": 1, "load": {"kind": "points", "points": [[0, 2]]}}
    jobs = workload("jobs", arrivals=at(0, 60, 120))
    moments = [[0.0, 60.0, 120.0]]
    plain = built(workloads=[jobs], duration="1h", warmUp="30s")
    assert most_late(plain, moments, 0.5) == 1  # one of the two that are measured
    fixed = built(workloads=[jobs, workload("api", arrivals=replicas(2))], duration="1h", warmUp="30s")
    assert most_late(fixed, moments, 0.5) == 1
    assert most_late(fixed.model_copy(update={"warm_up": timedelta(0)}), moments, 0.5) is None
    scaled = built(workloads=[jobs, workload("api", arrivals={**replicas(2), "hpa": hpa})], duration="1h", warmUp="30s")
    assert most_late(scaled, moments, 0.5) is None
