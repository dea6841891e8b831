from collections.abc import Iterator, Sequence

import pytest

from slack.planner.policy import parse_policy
from slack.simulator.baselines import priced, with_rate
from slack.simulator.curve import NothingMeasured, Outcome, Point, Trial, curve
from slack.simulator.engine import simulate
from slack.simulator.spread import Estimate
from slack.simulator.tune import policies, tune
from tests.simulator.toys import scenario

SEEDS = (1, 2, 3)


class Model:
    """Instant start rises with the rate and cost too; remembers what was asked."""

    def __init__(self, full_at: float, spread: float = 0.01) -> None:
        self.full_at, self.spread = full_at, spread
        self.asked: list[Trial] = []

    def __call__(self, trials: Sequence[Trial]) -> Iterator[Outcome]:
        self.asked += trials
        for trial in reversed(trials):  # outcomes come in any order
            ratio = min(1.0, trial.rate / self.full_at) - self.spread * (trial.seed - 2)
            yield Outcome(trial.rate, trial.seed, 10, ratio, 100 * (1 + trial.rate), 0.5, 1.0, 5.0)


@pytest.mark.parametrize("full_at", [0.03, 0.137, 0.2, 0.55, 0.99])
@pytest.mark.parametrize("goal", [0.5, 0.9, 0.99])
def test_the_rate_is_the_one_that_trying_them_all_finds(full_at: float, goal: float) -> None:
    by_force = next(n / 100 for n in range(101) if min(1.0, n / 100 / full_at) >= goal - 1e-12)
    model = Model(full_at)
    found = tune(goal, SEEDS, model)
    assert found.chosen is not None
    assert found.chosen.rate == by_force
    assert len({trial.rate for trial in model.asked}) <= 13
    assert len(set(model.asked)) == len(model.asked)


def test_where_no_rate_reaches_the_goal_the_best_is_known() -> None:
    found = tune(0.99, SEEDS, Model(4.0), largest=0.4)
    assert found.chosen is None
    assert found.best.rate == 0.4


def test_where_no_slack_is_needed_the_rate_is_zero() -> None:
    found = tune(0.9, SEEDS, Model(1e-9), step=0.05)
    assert found.chosen is not None
    assert found.chosen.rate in (0.0, 0.05)


def test_the_interval_is_students_t_over_seeds() -> None:
    found = Estimate.of([0.9, 0.92, 0.94])
    assert found.mean == pytest.approx(0.92)
    assert found.high - found.mean == pytest.approx(4.303 * 0.02 / 3**0.5)
    assert found.low == pytest.approx(2 * found.mean - found.high)
    assert Estimate.of([0.7]) == Estimate(0.7, 0.7, 0.7)
    point = tune(0.99, SEEDS, Model(0.1)).curve[-1]
    assert point.instant_start_ratio == pytest.approx(1.0)
    assert point.high == 1.0


def outcome(rate: float, seed: int, ratio: float, cost: float = 100.0, pods: int = 10) -> Outcome:
    return Outcome(rate, seed, pods, ratio, cost, 0.5, 1.0, 5.0)


def test_a_choice_whose_interval_misses_the_goal_names_the_next_that_does_not() -> None:
    # two seeds apart by 0.02: the interval reaches 12.706 x 0.01 = 0.127 to both sides of the mean
    ratios = {0.0: 0.5, 0.05: 0.6, 0.1: 0.91, 0.2: 0.96, 0.4: 1.0, 0.7: 1.0, 1.0: 1.0}
    apart = {0.0: 0.0, 0.05: 0.0, 0.1: 0.02, 0.2: 0.02}

    def run(trials: Sequence[Trial]) -> Iterator[Outcome]:
        for trial in trials:
            rate = min(ratios, key=lambda one: abs(one - trial.rate))
            half = apart.get(rate, 0.0) / 2 * (1 if trial.seed == 1 else -1)
            yield outcome(trial.rate, trial.seed, ratios[rate] + half, 100 * (1 + trial.rate))

    found = tune(0.9, (1, 2), run, step=0.05)
    assert found.chosen is not None
    assert (found.chosen.rate, found.unsure) == (0.1, True)
    assert found.chosen.low == pytest.approx(0.91 - 0.12706)
    assert found.surer is not None
    assert found.surer.rate == 0.4
    sure = tune(0.5, (1, 2), run, step=0.05)
    assert (sure.chosen, sure.unsure) == (sure.surer, False)
    alone = tune(0.9, (1,), run, step=0.05)
    assert (alone.unsure, alone.surer) == (False, None)


def test_a_curve_has_its_rates_in_order_and_its_runs_in_order_of_seed() -> None:
    found = curve((0.4, 0.0, 0.1, 0.4), (3, 1), Model(0.5))
    assert [point.rate for point in found] == [0.0, 0.1, 0.4]
    assert all([one.seed for one in point.outcomes] == [1, 3] for point in found)
    assert found[1].to_dict()["interval"] == [found[1].low, found[1].high]
    assert curve((0.1,), (1,), Model(0.5))[0].to_dict()["interval"] is None


def test_a_run_without_pods_has_no_say_in_the_ratio_but_costs() -> None:
    point = Point.of([outcome(0.1, 1, 0.8, 10.0), outcome(0.1, 2, 1.0, 30.0, pods=0)])
    assert (point.instant_start_ratio, point.cost_per_month) == (0.8, 20.0)
    assert [one["instant_start_ratio"] for one in point.to_dict()["runs"]] == [0.8, None]
    with pytest.raises(NothingMeasured, match="no pod comes in the measured time"):
        Point.of([outcome(0.1, 1, 1.0, pods=0)])


def test_every_rate_gets_the_same_seeds() -> None:
    model = Model(0.3)
    tune(0.9, SEEDS, model)
    rates = {trial.rate for trial in model.asked}
    assert all({trial.seed for trial in model.asked if trial.rate == rate} == set(SEEDS) for rate in rates)


def test_on_real_runs_it_finds_what_trying_them_all_finds() -> None:
    toy, _ = priced(scenario())
    step = 0.1

    def run(trials: Sequence[Trial]) -> Iterator[Outcome]:
        for trial in trials:
            yield Outcome.of(trial, simulate(with_rate(toy, trial.rate).model_copy(update={"seed": trial.seed})))

    goal = 0.95
    by_force = {n: [*run([Trial(round(n * step, 9), seed) for seed in (1, 2)])] for n in range(11)}
    reaching = {
        n: sum(one.cost_per_month for one in runs)
        for n, runs in by_force.items()
        if sum(one.instant_start_ratio for one in runs) / 2 >= goal
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
