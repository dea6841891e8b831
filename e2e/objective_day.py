"""Compressed days: an operator with an objective on the real control plane, and the simulator's word for it.

    python -m e2e.objective_day [--objective 0.9] [--days 6] [--played 1] [--seed 3]
    python -m e2e.objective_day --days 3 --played 9 --simulate-only

Some days are simulated, by which the objective learns; what was learnt is given to a real operator as its SlackHistory,
and the next days are simulated and played, with the same pods. A day has eight minutes: learners live 180 times as
fast, all else in real time (Karpenter's kwok build, nodes of eight seconds). Prints the share of pods that were bound
within two seconds, and ends with 1 where it is not within three points of the objective and of what was simulated.

The objective is of the long run. One day has some 450 pods in a hundred bursts, and what a day lost the next ones make
good: simulated days lie some six points beside the objective, up or down. So each simulated day is printed, too, and
several can be played.
"""

import argparse
import base64
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.product.compressed import QuickClock, compress
from e2e.harness.product.operator import NAMESPACE, install
from e2e.replay import Observed, replay, simulated
from e2e.scenes import KARPENTER, WARM_UP_SECONDS, Burst, scene
from slack.planner.objective.codec import encode
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import Scenario

FACTOR = 180
DAY_SECONDS = 480
"""24 hours of the learner."""
MONDAY = 1_704_067_200.0
"""A midnight, UTC."""
BOOT_SECONDS = 8
UNTIL_READY_SECONDS = 90
"""From the start of the components to time zero, which is the learner's midnight."""
POINTS = 0.03


def bursts_of(days: int, seed: int) -> list[list[Burst]]:
    """Return the bursts of each day: few at night, many from eight to eighteen o'clock."""
    rng = random.Random(seed)
    found = []
    for _ in range(days):
        at, day = 12.0, []
        while at < DAY_SECONDS - 4:
            hour = at / DAY_SECONDS * 24
            at += rng.expovariate(1 / (3.0 if 8 <= hour < 18 else 12.0))
            day.append((int(at), rng.choice((2, 4, 6, 8)), rng.randint(15, 35)))
        found.append([burst for burst in day if burst[0] < DAY_SECONDS - 4])
    return found


def scenario_of(days: Sequence[Sequence[Burst]], objective: float) -> Scenario:
    """Return the scenario that plays these days one after the other."""
    spec = {"objective": {"instantStart": objective}, "stabilization": {"shrinkDelay": "5s"}}
    slack = {"kind": "policies", "policies": [{"name": "default", "spec": spec}]}
    bursts = [(number * DAY_SECONDS + at, pods, life) for number, day in enumerate(days) for at, pods, life in day]
    return scene(KARPENTER, slack, bursts=bursts, seconds=len(days) * DAY_SECONDS, boot_seconds=BOOT_SECONDS)


def simulate_days(days: Sequence[Sequence[Burst]], objective: float) -> tuple[Simulation, Result]:
    """Play the days in the model; time zero of its measured time is the learner's midnight."""
    scenario = scenario_of(days, objective)
    operator = Simulation(scenario).operator
    assert operator is not None
    with compress(QuickClock(FACTOR, operator._epoch + WARM_UP_SECONDS, MONDAY)):
        simulation = Simulation(scenario)
        return simulation, simulation.run()


def share_beyond(all_days: Observed, earlier: Observed) -> float:
    """Return the share of instant starts of what the longer run has beyond the shorter one."""
    instant = all_days.instant_start_ratio * all_days.pods - earlier.instant_start_ratio * earlier.pods
    return instant / (all_days.pods - earlier.pods)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, play, print; the exit code says whether the three agree."""
    parser = argparse.ArgumentParser(prog="python -m e2e.objective_day", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--objective", type=float, default=0.9)
    parser.add_argument("--days", type=int, default=6, help="that are learnt from before the one that is measured")
    parser.add_argument("--played", type=int, default=1, help="days that are measured")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--simulate-only", action="store_true", help="without the control plane")
    options = parser.parse_args(arguments)
    if options.days < 1 or options.played < 1:
        parser.error("--days and --played: 1 at the least")
    days = bursts_of(options.days + options.played, options.seed)
    learnt, first = simulate_days(days[: options.days], options.objective)
    earlier = last = simulated(first, scenario_of(days[: options.days], options.objective))
    print(f"objective {options.objective:.1%}; simulated: {earlier.instant_start_ratio:.1%} in the days of learning")
    for count in range(options.days + 1, len(days) + 1):
        until = days[:count]
        now = simulated(simulate_days(until, options.objective)[1], scenario_of(until, options.objective))
        print(f"day {count}: {share_beyond(now, last):.1%} of {now.pods - last.pods} pods", flush=True)
        last = now
    expected = share_beyond(last, earlier)
    print(f"simulated: {expected:.1%} of {last.pods - earlier.pods} pods")
    if options.simulate_only:
        return 0
    assert learnt.operator is not None
    (learner,) = learnt.operator.objectives.learners.values()
    state = base64.b64encode(encode(learner)).decode()
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as cluster:
        install(cluster)
        cluster.api.create(
            {
                "apiVersion": "resource-slack.io/v1alpha1",
                "kind": "SlackHistory",
                "metadata": {"name": "default", "namespace": NAMESPACE},
                "learnt": {"state": state},
            }
        )
        begin = time.time() + UNTIL_READY_SECONDS
        clock = QuickClock(FACTOR, begin, MONDAY + options.days * 86400.0)
        program = [sys.executable, "-m", "e2e.harness.product.compressed", *clock.arguments()]
        scenario = scenario_of(days[options.days :], options.objective)
        played = replay(cluster, scenario, BOOT_SECONDS, program=program, begin=begin)
    reached = played.instant_start_ratio
    print(f"real: {reached:.1%} of {played.pods} pods, p95 {played.p95_seconds:.2f} s, {played.displaced} displaced")
    good = abs(reached - options.objective) <= POINTS and abs(reached - expected) <= POINTS
    print("within three points of both" if good else "not within three points of both")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
