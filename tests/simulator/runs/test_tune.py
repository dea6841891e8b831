from collections.abc import Iterator, Sequence

import pytest

from slack.planner.policy.spec import parse_policy
from slack.simulator.runs.baselines import with_known_prices, with_rate
from slack.simulator.runs.curve import CurvePoint, GivenUp, NothingMeasured, Trial, TrialResult, curve
from slack.simulator.runs.engine import simulate
from slack.simulator.runs.estimate import Estimate
from slack.simulator.runs.tune import policies, tune
from tests.cases import run_for_each
from tests.simulator.toys import scenario

SEEDS = (1, 2, 3)


class Model:
    """Instant start rises with the rate and cost too; remembers what was asked."""

    def __init__(self, full_at: float, spread: float = 0.01) -> None:
        self.full_at, self.spread = full_at, spread
        self.asked: list[Trial] = []

    def __call__(self, trials: Sequence[Trial]) -> Iterator[TrialResult]:
        self.asked += trials
        for trial in reversed(trials):  # results come in any order
            ratio = min(1.0, trial.rate / self.full_at) - self.spread * (trial.seed - 2)
            yield TrialResult(trial.rate, trial.seed, 10, ratio, 100 * (1 + trial.rate), 0.5, 1.0, 5.0)


@run_for_each("full_at", [0.03, 0.137, 0.2, 0.55, 0.99])
@run_for_each("goal", [0.5, 0.9, 0.99])
@run_for_each("exact", [False, True])
def test_the_rate_is_the_one_that_trying_them_all_finds(full_at: float, goal: float, exact: bool) -> None:
    by_force = next(n / 100 for n in range(101) if min(1.0, n / 100 / full_at) >= goal - 1e-12)
    model = Model(full_at)
    found = tune(goal, SEEDS, model, exact=exact)
    assert found.chosen is not None
    assert found.chosen.rate == by_force
    assert len({trial.rate for trial in model.asked}) <= 13
    runs = {(trial.rate, trial.seed) for trial in model.asked}
    assert len(runs) == len(model.asked)
    assert len(found.chosen.results) == len(SEEDS)


def test_all_seeds_are_run_only_where_it_is_decided() -> None:
    model = Model(0.137, spread=0.0)
    found = tune(0.99, SEEDS, model)
    assert found.chosen is not None
    decided = {trial.rate for trial in model.asked if trial.seed != SEEDS[0]}
    assert decided == {found.chosen.rate} == {0.14}
    assert len(model.asked) <= 9  # the exact way takes three times as many


def test_a_first_seed_that_was_lucky_does_not_decide() -> None:
    found = tune(0.9, SEEDS, Model(0.5, spread=0.1))
    assert found.chosen is not None
    assert found.chosen.instant_start_ratio >= 0.9
    assert 0.45 <= found.chosen.rate <= 0.47  # the first seed alone reaches it with 0.4


def test_a_rate_that_cannot_reach_is_given_up_and_is_not_in_the_curve() -> None:
    model = Model(0.5, spread=0.0)

    def run(trials: Sequence[Trial]) -> Iterator[TrialResult | GivenUp]:
        for trial, found in zip(reversed(trials), model(trials), strict=True):
            up = trial.goal is not None and found.instant_start_ratio < trial.goal
            yield GivenUp(trial.rate, trial.seed) if up else found

    found = tune(0.9, SEEDS, run)
    assert found.chosen is not None
    assert found.chosen.rate == 0.45
    assert 0.44 in found.given_up
    assert not set(found.given_up) & {point.rate for point in found.curve}
    assert [point.rate for point in found.curve][:2] == [0.0, 0.1]  # no slack and the default are always told
    assert tune(0.9, SEEDS, run, exact=True).given_up == ()


def test_where_no_rate_reaches_the_goal_the_best_is_known() -> None:
    found = tune(0.99, SEEDS, Model(4.0), largest=0.4)
    assert found.chosen is None
    assert found.best.rate == 0.4


def test_where_no_slack_is_needed_the_rate_is_zero() -> None:
    found = tune(0.9, SEEDS, Model(1e-9), step=0.05)
    assert found.chosen is not None
    assert found.chosen.rate in (0.0, 0.05)


def test_the_interval_is_students_t_over_seeds() -> None:
    found = Estimate.from_values([0.9, 0.92, 0.94])
    assert found.mean == pytest.approx(0.92)
    assert found.high - found.mean == pytest.approx(4.303 * 0.02 / 3**0.5)
    assert found.low == pytest.approx(2 * found.mean - found.high)
    assert Estimate.from_values([0.7]) == Estimate(0.7, 0.7, 0.7)
    point = tune(0.99, SEEDS, Model(0.1)).curve[-1]
    assert point.instant_start_ratio == pytest.approx(1.0)
    assert point.high == 1.0


def result(rate: float, seed: int, ratio: float, cost: float = 100.0, pods: int = 10) -> TrialResult:
    return TrialResult(rate, seed, pods, ratio, cost, 0.5, 1.0, 5.0)


def test_a_choice_whose_interval_misses_the_goal_names_the_next_that_does_not() -> None:
    # two seeds apart by 0.02: the interval reaches 12.706 x 0.01 = 0.127 to both sides of the mean
    ratios = {0.0: 0.5, 0.05: 0.6, 0.1: 0.91, 0.2: 0.96, 0.4: 1.0, 0.7: 1.0, 1.0: 1.0}
    apart = {0.0: 0.0, 0.05: 0.0, 0.1: 0.02, 0.2: 0.02}

    def run(trials: Sequence[Trial]) -> Iterator[TrialResult]:
        for trial in trials:
            rate = min(ratios, key=lambda known: abs(known - trial.rate))
            half = apart.get(rate, 0.0) / 2 * (1 if trial.seed == 1 else -1)
            yield result(trial.rate, trial.seed, ratios[rate] + half, 100 * (1 + trial.rate))

    found = tune(0.9, (1, 2), run, step=0.05, exact=True)
    assert found.chosen is not None
    assert (found.chosen.rate, found.unsure) == (0.1, True)
    assert found.chosen.low == pytest.approx(0.91 - 0.12706)
    assert found.surer is not None
    assert found.surer.rate == 0.4
    sure = tune(0.5, (1, 2), run, step=0.05, exact=True)
    assert (sure.chosen, sure.unsure) == (sure.surer, False)
    alone = tune(0.9, (1,), run, step=0.05)
    assert (alone.unsure, alone.surer) == (False, None)


def test_a_curve_has_its_rates_in_order_and_its_runs_in_order_of_seed() -> None:
    found = curve((0.4, 0.0, 0.1, 0.4), (3, 1), Model(0.5))
    assert [point.rate for point in found] == [0.0, 0.1, 0.4]
    assert all([result.seed for result in point.results] == [1, 3] for point in found)
    assert found[1].to_dict()["interval"] == [found[1].low, found[1].high]
    assert curve((0.1,), (1,), Model(0.5))[0].to_dict()["interval"] is None


def test_a_run_without_pods_has_no_say_in_the_ratio_but_costs() -> None:
    point = CurvePoint.from_results([result(0.1, 1, 0.8, 10.0), result(0.1, 2, 1.0, 30.0, pods=0)])
    assert (point.instant_start_ratio, point.cost_per_month) == (0.8, 20.0)
    assert [run["instant_start_ratio"] for run in point.to_dict()["runs"]] == [0.8, None]
    with pytest.raises(NothingMeasured, match="no pod comes in the measured time"):
        CurvePoint.from_results([result(0.1, 1, 1.0, pods=0)])


def test_a_scenario_in_which_no_pod_comes_is_played_once_a_seed_and_not_at_every_rate() -> None:
    asked: list[Trial] = []

    def empty(trials: Sequence[Trial]) -> Iterator[TrialResult]:
        asked.extend(trials)
        yield from (result(trial.rate, trial.seed, 1.0, pods=0) for trial in trials)

    with pytest.raises(NothingMeasured):
        tune(0.9, SEEDS, empty)
    assert {trial.rate for trial in asked} == {0.0}
    assert len(asked) <= 1 + len(SEEDS)


def test_the_exact_way_gives_every_rate_the_same_seeds() -> None:
    model = Model(0.3)
    tune(0.9, SEEDS, model, exact=True)
    rates = {trial.rate for trial in model.asked}
    assert all({trial.seed for trial in model.asked if trial.rate == rate} == set(SEEDS) for rate in rates)


@pytest.mark.thorough
def test_on_real_runs_it_finds_what_trying_them_all_finds() -> None:
    toy, _ = with_known_prices(scenario())
    step = 0.1

    def run(trials: Sequence[Trial]) -> Iterator[TrialResult]:
        for trial in trials:
            yield TrialResult.from_result(
                trial, simulate(with_rate(toy, trial.rate).model_copy(update={"seed": trial.seed}))
            )

    goal = 0.95
    by_force = {n: [*run([Trial(round(n * step, 9), seed) for seed in (1, 2)])] for n in range(11)}
    reaching = {
        n: sum(run.cost_per_month for run in runs)
        for n, runs in by_force.items()
        if sum(run.instant_start_ratio for run in runs) / 2 >= goal
    }
    assert reaching
    assert 0 not in reaching
    found = tune(goal, (1, 2), run, step=step)
    assert found.chosen is not None
    assert found.chosen.rate == pytest.approx(min(reaching, key=lambda n: (reaching[n], n)) * step)


def test_the_policy_is_ready_to_apply_and_keeps_what_was_not_tuned() -> None:
    spec = {
        "nodeSelector": {"pool": "web"},
        "extraCapacity": {"replicas": 3, "floor": {"cpu": "1500m", "memory": "1Gi"}},
        "stabilization": {"shrinkDelay": "5m"},
        "cover": {"mode": "Largest"},
    }
    own = scenario(slack={"kind": "policies", "policies": [{"name": "web", "spec": spec}]})
    (document,) = policies(own, 0.17)
    assert document["spec"] == {
        "nodeSelector": {"pool": "web"},
        "extraCapacity": {"floor": {"cpu": "1500m", "memory": "1Gi"}, "minRate": 0.17},
        "stabilization": {"shrinkDelay": "300s"},
        "cover": {"mode": "Largest"},
    }
    assert parse_policy(document, source="t").spec.extra_capacity.min_rate == 0.17


def test_a_scenario_without_policies_gets_the_built_in_one() -> None:
    (document,) = policies(scenario(slack={"kind": "none"}), 0.2)
    assert document["metadata"] == {"name": "default"}
    assert document["spec"] == {"extraCapacity": {"minRate": 0.2}}
