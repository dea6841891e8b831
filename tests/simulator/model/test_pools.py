"""Pools in the model: a burst that came before finds room, none is kept beyond a pool's limits, and it goes again."""

from typing import Any

import pytest

from slack.planner.pools import GROUP
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import InvalidScenario
from tests.simulator.build import advance, group, scenario, simulation, workload

BURST_SECONDS = (1800.0, 5400.0)
LIFE = {"kind": "constant", "seconds": 300}


def rows(size: int) -> dict[str, Any]:
    return {"kind": "replay", "rows": [[second, None] for second in BURST_SECONDS for _ in range(size)]}


def run(size: int = 12, **pool: Any) -> Simulation:
    """A burst that comes twice, an hour apart, on nodes that take a minute."""
    told: dict[str, Any] = {"activationPool": {"maxContainers": 100, **pool}} if pool.pop("told", True) else {}
    return simulation(
        nodeGroups=[group(max=50)],
        workloads=[
            workload("base", arrivals={"kind": "deployment", "replicas": 2}),
            workload("pool", arrivals=rows(size), life=LIFE, **told),
        ],
        autoscaler={"kind": "clusterAutoscaler"},
        slack={"kind": "policies", "policies": [{"name": "default", "spec": {"extraCapacity": {"minRate": 0}}}]},
        duration="4h",
    )


def at_once(sim: Simulation) -> int:
    found = next(result for result in sim.run().workloads if result.workload.endswith("/pool"))
    return found.instant


def placeholders(sim: Simulation) -> int:
    """Those for pools; one for the largest pod is kept beside them."""
    kinds = [sim.cluster.kinds[sim.cluster.kind_of[pod]] for pod in sim.cluster.alive()]
    return sum(kind.shape is not None and kind.shape.reserved_for == GROUP for kind in kinds)


def test_a_burst_that_came_before_finds_its_room() -> None:
    told, untold = at_once(run()), at_once(run(told=False))
    assert told - untold >= 9, "of the second burst's twelve; some find room that happens to be there"
    assert told >= 12


@pytest.mark.thorough
def test_what_is_kept_is_a_bursts_and_goes_when_the_window_is_over() -> None:
    sim = run(window="2h")
    advance(sim, BURST_SECONDS[0] - 1)
    assert placeholders(sim) == 0, "nothing was learnt yet"
    advance(sim, BURST_SECONDS[1] - 1)
    assert placeholders(sim) == 12
    advance(sim, BURST_SECONDS[1] + 7200 + 1500)
    assert placeholders(sim) == 0


def test_no_more_is_kept_than_the_limit_of_the_pool_leaves() -> None:
    sim = run(maxContainers=5)
    advance(sim, BURST_SECONDS[1] - 1)
    assert placeholders(sim) == 5


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"maxContainers": 0}, r"workloads\[0\]\.activationPool\.maxContainers"),
        ({"percentile": 30}, r"workloads\[0\]\.activationPool\.percentile"),
        ({"window": "1000h"}, r"workloads\[0\]\.activationPool\.window"),
        ({"horizon": "0s"}, r"workloads\[0\]\.activationPool\.horizon"),
        ({"many": 1}, r"workloads\[0\]\.activationPool\.many"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused_with_its_field(pool: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidScenario, match=words):
        scenario(workloads=[workload("pool", activationPool=pool)])
